// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "report/format.h"
#include "trace/memory_view.h"

struct found {
    struct trace_memory memory;
    struct trace_heaps heaps;
};

struct column {
    const char *title, *unit;
    enum table_align align;
    int rank;
    char origin;
};

static void add_columns(struct table *t, const struct column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        table_column(t, columns[i].title, columns[i].unit, columns[i].align, columns[i].rank);
        if (columns[i].origin)
            table_origin(t, columns[i].origin);
    }
}
#define ADD_COLUMNS(t, columns) add_columns((t), (columns), sizeof(columns) / sizeof *(columns))

static void bytes_cell(struct table *t, int64_t bytes)
{
    table_number(t, (double)bytes * 1e-6, NULL);
}

static void text_cell(struct table *t, struct slice s)
{
    if (s.size)
        trace_cell(t, s);
    else
        table_cell(t, "");
}

// ---- Tables

static void allocators_table(struct table *t, const struct found *f)
{
    static const struct column columns[] = {
        {"allocator", NULL, TABLE_LEFT, 0, 0},
        {"host", NULL, TABLE_LEFT, 6, 0},
        {"peak", "MB", TABLE_RIGHT, 0, ORIGIN_MEASURED},
        {"at", "ms", TABLE_RIGHT, 1, ORIGIN_MEASURED},
        {"blocks", "MB", TABLE_RIGHT, 2, ORIGIN_MEASURED},
        {"reserved", "MB", TABLE_RIGHT, 2, ORIGIN_MEASURED},
        {"of capacity", "%", TABLE_RIGHT, 3, ORIGIN_DERIVED},
        {"fragmented", "%", TABLE_RIGHT, 4, ORIGIN_MEASURED},
        {"at most", "%", TABLE_RIGHT, 5, ORIGIN_MEASURED},
        {"allocated", NULL, TABLE_RIGHT, 5, 0},
        {"freed", NULL, TABLE_RIGHT, 5, 0},
    };
    ADD_COLUMNS(t, columns);
    for (size_t i = 0; i < f->memory.n_allocators; i++) {
        const struct trace_allocator *a = &f->memory.allocators[i];
        const struct trace_memory_event *peak = &a->events[a->peak];
        table_row(t);
        table_cell(t, a->name);
        table_cell(t, a->host);
        bytes_cell(t, a->peak_bytes);
        table_number(t, (double)peak->at_ps * 1e-9, NULL);
        bytes_cell(t, peak->heap_bytes);
        bytes_cell(t, peak->reserved_bytes);
        table_number(t, a->capacity_bytes > 0 ? 100 * (double)a->peak_bytes / (double)a->capacity_bytes : NAN, NULL);
        table_number(t, 100 * peak->fragmentation, NULL);
        table_number(t, 100 * a->most_fragmented, NULL);
        table_count(t, (double)a->allocated);
        table_count(t, (double)a->freed);
    }
}

static const char *block_text(const struct trace_memory_block *b)
{
    switch (b->kind) {
    case TRACE_MEMORY_RESERVED:
        return "(reserved)";
    case TRACE_MEMORY_UNSEEN:
        return "(from before the profile)";
    case TRACE_MEMORY_EARLIER:
        return "(from before the profile, freed in it)";
    case TRACE_MEMORY_BLOCK:
        break;
    }
    return "(not said)";
}

static void alive_row(struct table *t, const struct trace_allocator *a, const struct trace_memory_block *b)
{
    const char *type = trace_memory_type_name(b->type);
    double all = (double)b->bytes * (double)(b->blocks ? b->blocks : 1);
    table_row(t);
    table_cell(t, a->name);
    if (b->scope.size)
        trace_cell(t, b->scope);
    else
        table_cell(t, block_text(b));
    text_cell(t, b->region);
    if (b->shape.size)
        trace_cell(t, b->shape);
    else
        table_cell(t, type ? type : "");
    if (b->blocks)
        table_count(t, (double)b->blocks);
    else
        table_number(t, NAN, NULL);
    table_number(t, all * 1e-6, NULL);
    table_number(t, a->peak_bytes > 0 ? 100 * all / (double)a->peak_bytes : NAN, NULL);
}

static void alive_table(struct table *t, const struct found *f, size_t top, size_t *left_out)
{
    static const struct column columns[] = {
        {"allocator", NULL, TABLE_LEFT, 0, 0},
        {"alive at the peak", NULL, TABLE_LEFT, 0, 0},
        {"region", NULL, TABLE_LEFT, 4, 0},
        {"shape", NULL, TABLE_LEFT, 2, 0},
        {"blocks", NULL, TABLE_RIGHT, 3, 0},
        {"all", "MB", TABLE_RIGHT, 0, ORIGIN_MEASURED},
        {"of peak", "%", TABLE_RIGHT, 1, ORIGIN_DERIVED},
    };
    ADD_COLUMNS(t, columns);
    for (size_t i = 0; i < f->memory.n_allocators; i++) {
        const struct trace_allocator *a = &f->memory.allocators[i];
        for (size_t k = 0; k < a->n_live; k++) {
            if (!top || k < top)
                alive_row(t, a, &a->live[k]);
            else
                ++*left_out;
        }
    }
}

static void timeline_table(struct table *t, const struct found *f, size_t top, size_t *left_out)
{
    static const struct column columns[] = {
        {"allocator", NULL, TABLE_LEFT, 0, 0},
        {"at", "ms", TABLE_RIGHT, 0, ORIGIN_MEASURED},
        {"event", NULL, TABLE_LEFT, 1, 0},
        {"block", "MB", TABLE_RIGHT, 2, ORIGIN_MEASURED},
        {"in use", "MB", TABLE_RIGHT, 0, ORIGIN_MEASURED},
        {"reserved", "MB", TABLE_RIGHT, 3, ORIGIN_MEASURED},
        {"fragmented", "%", TABLE_RIGHT, 3, ORIGIN_MEASURED},
        {"shape", NULL, TABLE_LEFT, 4, 0},
        {"scope", NULL, TABLE_LEFT, 4, 0},
    };
    ADD_COLUMNS(t, columns);
    for (size_t i = 0; i < f->memory.n_allocators; i++) {
        const struct trace_allocator *a = &f->memory.allocators[i];
        for (size_t k = 0; k < a->n_events; k++) {
            const struct trace_memory_event *e = &a->events[k];
            if (top && k >= top) {
                ++*left_out;
                continue;
            }
            table_row(t);
            table_cell(t, a->name);
            table_number(t, (double)e->at_ps * 1e-9, NULL);
            table_cell(t, e->is_free ? "free" : "allocate");
            table_number(t, e->bytes > 0 ? (double)e->bytes * 1e-6 : NAN, NULL);
            bytes_cell(t, e->heap_bytes + e->reserved_bytes);
            bytes_cell(t, e->reserved_bytes);
            table_number(t, 100 * e->fragmentation, NULL);
            text_cell(t, e->shape);
            text_cell(t, e->scope);
        }
    }
}

static void program_cells(struct table *t, const struct trace_heap *h)
{
    trace_cell(t, h->program);
    table_cellf(t, h->program_id ? "%" PRIu64 : "", h->program_id);
    if (h->space == 0)
        table_cell(t, "device");
    else if (h->space == 5)
        table_cell(t, "host");
    else
        table_cellf(t, "%" PRId64, h->space);
}

static void programs_table(struct table *t, const struct found *f)
{
    static const struct column columns[] = {
        {"program", NULL, TABLE_LEFT, 0, 0},
        {"id", NULL, TABLE_LEFT, 5, 0},
        {"space", NULL, TABLE_LEFT, 1, 0},
        {"peak", "MB", TABLE_RIGHT, 0, ORIGIN_DERIVED},
        {"throughout", "MB", TABLE_RIGHT, 2, ORIGIN_DERIVED},
        {"pool", "MB", TABLE_RIGHT, 3, ORIGIN_DERIVED},
        {"reached at", NULL, TABLE_LEFT, 4, 0},
    };
    ADD_COLUMNS(t, columns);
    for (size_t i = 0; i < f->heaps.n_heaps; i++) {
        const struct trace_heap *h = &f->heaps.heaps[i];
        table_row(t);
        program_cells(t, h);
        bytes_cell(t, h->peak_bytes);
        bytes_cell(t, h->fixed_bytes);
        bytes_cell(t, h->pool_bytes);
        text_cell(t, h->at);
    }
}

static void buffers_table(struct table *t, const struct found *f, size_t top, size_t *left_out)
{
    static const struct column columns[] = {
        {"program", NULL, TABLE_LEFT, 0, 0},
        {"id", NULL, TABLE_LEFT, 6, 0},
        {"space", NULL, TABLE_LEFT, 2, 0},
        {"alive at the peak", NULL, TABLE_LEFT, 0, 0},
        {"kind", NULL, TABLE_LEFT, 3, 0},
        {"shape", NULL, TABLE_LEFT, 4, 0},
        {"size", "MB", TABLE_RIGHT, 0, ORIGIN_DERIVED},
        {"of peak", "%", TABLE_RIGHT, 1, ORIGIN_DERIVED},
        {"scope", NULL, TABLE_LEFT, 5, 0},
    };
    ADD_COLUMNS(t, columns);
    for (size_t i = 0; i < f->heaps.n_heaps; i++) {
        const struct trace_heap *h = &f->heaps.heaps[i];
        for (size_t k = 0; k < h->n_live; k++) {
            const struct trace_heap_buffer *b = &h->live[k];
            if (top && k >= top) {
                ++*left_out;
                continue;
            }
            table_row(t);
            program_cells(t, h);
            trace_cell(t, b->instruction);
            table_cell(t, trace_heap_kind_name(b->kind));
            text_cell(t, b->shape);
            bytes_cell(t, b->bytes);
            table_number(t, h->peak_bytes > 0 ? 100 * (double)b->bytes / (double)h->peak_bytes : NAN, NULL);
            text_cell(t, b->scope);
        }
    }
}

// ---- The command

static int print_table(struct cli *cli, const struct found *f, const char *show, struct error *err)
{
    enum table_format format = trace_format(cli);
    struct table t;
    size_t left_out = 0, top = trace_top(cli);
    table_init(&t);
    if (strcmp(show, "allocators") == 0)
        allocators_table(&t, f);
    else if (strcmp(show, "peak") == 0)
        alive_table(&t, f, top, &left_out);
    else if (strcmp(show, "timeline") == 0)
        timeline_table(&t, f, top, &left_out);
    else if (strcmp(show, "programs") == 0)
        programs_table(&t, f);
    else
        buffers_table(&t, f, top, &left_out);
    int rc = 0;
    if (t.row_count || format != TABLE_TEXT)
        rc = table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&t);
    if (!rc && left_out && format == TABLE_TEXT)
        str_addf(&cli->out, "%zu more row%s; --top 0 shows all\n", left_out, left_out == 1 ? "" : "s");
    return rc;
}

static void remarks(struct cli *cli, const struct found *f)
{
    struct str s;
    str_init(&s);
    if (f->memory.n_allocators)
        str_add(&s, "As the allocators of the host report it: the peak is that of blocks and of what is reserved for "
                    "programs' own use. Fragmented is the share of the free memory that is not in its largest block. ");
    else if (f->heaps.n_heaps)
        str_add(&s, "The profile has no events of allocators: this is what the programs were planned to need, their "
                    "buffer assignments replayed in the order of the program. ");
    if (f->memory.unnamed)
        str_addf(&s, "%zu event%s no allocator and %s left out. ", f->memory.unnamed,
                 f->memory.unnamed == 1 ? " names" : "s name", f->memory.unnamed == 1 ? "is" : "are");
    if (f->heaps.damage)
        str_addf(&s, "The buffers of a program cannot be read: %s. ", f->heaps.damage);
    if (s.length)
        wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    str_release(&s);
}

static int print_text(struct cli *cli, const struct found *f, struct error *err)
{
    const char *show = cli_string(cli, "show");
    bool is_text = strcmp(cli_string(cli, "format"), "text") == 0, events = f->memory.n_allocators > 0;
    if (show || !is_text)
        return print_table(cli, f, show ? show : events ? "peak" : "buffers", err);
    int rc = print_table(cli, f, events ? "allocators" : "programs", err);
    if (!rc && (f->memory.n_allocators || f->heaps.n_heaps)) {
        str_add(&cli->out, "\n");
        rc = print_table(cli, f, events ? "peak" : "buffers", err);
    }
    remarks(cli, f);
    return rc;
}

static int fill(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    const struct found *f = of;
    (void)cli;
    (void)err;
    trace_memory_json(t, &f->memory, &f->heaps, w);
    return 0;
}

// What made the profile may have said why.
static void say_nothing(struct cli *cli, const struct trace *t)
{
    cli_note(cli, "nothing about memory is in this profile: neither events of allocators nor a program's buffers");
    for (size_t i = 0; i < t->n_files; i++) {
        const struct xspace *x = &t->files[i].space;
        for (size_t k = 0; k < x->n_warnings; k++)
            cli_note(cli, "%s says: %.*s", t->files[i].path,
                     (int)(x->warnings[k].size < 400 ? x->warnings[k].size : 400), (const char *)x->warnings[k].data);
    }
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct found f = {0};
    int rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_memory(&t, &f.memory, err);
    if (!rc)
        rc = trace_heaps(&t, &f.heaps, err);
    if (!rc && !f.memory.n_allocators && !f.heaps.n_heaps)
        say_nothing(cli, &t);
    if (!rc)
        rc = trace_wants_json(cli) ? trace_document(cli, &t, fill, &f, err) : print_text(cli, &f, err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_memory_release(&f.memory);
    trace_heaps_release(&f.heaps);
    trace_close(&t);
    return rc;
}

static const char *const description[] = {
    "Memory of the devices of a profile: for each allocator its peak, when that was, what was alive then and how "
    "fragmented the rest was. Where the profile has no events of allocators, the buffer assignments of its programs "
    "are "
    "replayed: their peak in each memory space, and the buffers that make it up.",
    TRACE_INPUT_TEXT,
    NULL,
};

static const struct option options[] = {
    {.name = "show",
     .kind = OPTION_STRING,
     .choices = "allocators peak timeline programs buffers",
     .help =
         "one table: the allocators, what was alive at their peaks, every allocation in order, the programs' plans, "
         "or the buffers alive at their peaks; what there is when not given"},
    OPTION_TOP("10", "rows shown of each allocator or program, 0 for all; csv has all unless it is given, json always"),
    OPTION_FORMAT("text md csv html json"),
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace memory host.xplane.pb", "peaks, and what was alive at them"},
    {"assay trace memory host.xplane.pb --show timeline --format csv", "every allocation, for a figure"},
    {"assay trace memory host.xplane.pb --show buffers", "what the programs need at their peaks"},
    {NULL, NULL},
};

const struct command command_trace_memory = {
    .name = "trace memory",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "memory of a profile's devices: peaks, and what was alive at them",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};

// SPDX-License-Identifier: Apache-2.0
#include "trace/ops_hlo.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_cost.h"

// ---- Programs

bool trace_program_split(struct slice entry, struct slice *name, uint64_t *id)
{
    char digits[24];
    const uint8_t *open = entry.size ? memrchr(entry.data, '(', entry.size) : NULL;
    *name = entry;
    if (!open || entry.data[entry.size - 1] != ')')
        return false;
    size_t n = (size_t)(entry.data + entry.size - 1 - (open + 1));
    if (n < 1 || n >= sizeof digits)
        return false;
    memcpy(digits, open + 1, n);
    digits[n] = '\0';
    if (!parse_u64(digits, id))
        return false;
    name->size = (size_t)(open - entry.data);
    return true;
}

void trace_program_entry(const struct xplane *p, const struct xmeta *row, struct trace_program *out)
{
    struct xstats stats = xmeta_stats(p, row);
    struct xstat s;
    uint64_t id = 0;
    while (xstat_next(&stats, &s)) {
        const struct xmeta *what = xtable_find(&p->stat_table, s.metadata_id);
        if (!what)
            continue;
        // libtpu wrote the second name for a while.
        if (s.kind == XSTAT_BYTES && (slice_is(what->name, "Hlo Proto") || slice_is(what->name, "HLO Proto")))
            out->proto = s.bytes;
        else if ((s.kind == XSTAT_INT || s.kind == XSTAT_UINT) && slice_is(what->name, "program_id"))
            id = s.unsigned_number;
    }
    if (!trace_program_split(row->name, &out->name, &out->id))
        out->id = id ? id : (uint64_t)row->id;
}

static int by_program(const void *a, const void *b)
{
    const struct trace_program *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return slice_compare(x->name, y->name);
}

static int read_programs(struct trace_file *f, struct arena *arena, struct trace_program **programs, size_t *n,
                         size_t *cap, struct error *err)
{
    const struct xplane *p = xspace_plane(&f->space, "/host:metadata");
    for (size_t i = 0; p && i < p->event_table.n_rows; i++) {
        struct trace_program one = {.file = f};
        trace_program_entry(p, &p->event_table.rows[i], &one);
        if (!one.proto.size)
            continue;
        const char *name = arena_strndup(arena, (const char *)one.name.data, one.name.size, err);
        one.name.data = (const uint8_t *)name;
        struct trace_program *more = !name ? NULL : arena_grow(arena, *programs, cap, *n + 1, sizeof one, err);
        if (!more)
            return ERR_MEMORY;
        *programs = more;
        (*programs)[(*n)++] = one;
    }
    return 0;
}

static int read_guarded(struct trace_file *f, struct arena *arena, struct trace_program **programs, size_t *n,
                        size_t *cap, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = read_programs(f, arena, programs, n, cap, err);
    file_guard_end(&g);
    return rc;
}

int trace_programs(const struct trace *t, struct arena *arena, struct trace_program **programs, size_t *n,
                   struct error *err)
{
    size_t cap = 0;
    int rc = 0;
    *programs = NULL;
    *n = 0;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = read_guarded(&t->files[i], arena, programs, n, &cap, err);
    if (*n)
        qsort(*programs, *n, sizeof **programs, by_program);
    return rc;
}

// ---- Rows and their programs

struct joining {
    struct trace_ops *o;
    struct trace_program *programs; // by id
    struct trace_program **named;   // by name
    size_t n;
    struct error *err;
};

static int by_name(const void *a, const void *b)
{
    const struct trace_program *x = *(struct trace_program *const *)a, *y = *(struct trace_program *const *)b;
    int c = slice_compare(x->name, y->name);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

// Hosts that ran the same program have the same entry: the first stands for all.
static const struct trace_program *program_of(const struct joining *j, const struct trace_op *op)
{
    size_t low = 0, high = j->n;
    while (low < high) {
        size_t at = (low + high) / 2;
        const struct trace_program *p = &j->programs[at];
        if (p->id < op->program_id || (p->id == op->program_id && slice_compare(p->name, op->module) < 0))
            low = at + 1;
        else
            high = at;
    }
    const struct trace_program *p = low < j->n ? &j->programs[low] : NULL;
    if (op->program_id && p && p->id == op->program_id && (!op->module.size || slice_compare(p->name, op->module) == 0))
        return p;
    low = 0;
    high = j->n;
    while (low < high) {
        size_t at = (low + high) / 2;
        if (slice_compare(j->named[at]->name, op->module) < 0)
            low = at + 1;
        else
            high = at;
    }
    p = low < j->n && op->module.size ? j->named[low] : NULL;
    if (!p || slice_compare(p->name, op->module) != 0)
        return NULL;
    bool only =
        low + 1 == j->n || slice_compare(j->named[low + 1]->name, op->module) != 0 || j->named[low + 1]->id == p->id;
    return only ? p : NULL;
}

// Of a kernel that somebody wrote the profile counts what its author said, or nothing.
static bool is_custom_call(const struct trace_op *op)
{
    return slice_is(op->category, "custom-call") || slice_is(op->category, "custom fusion");
}

static bool lacks(const struct trace_op *op)
{
    return op->is_operation && (!op->category.size || !op->scope.size || !op->source.size || isnan(op->flop) ||
                                isnan(op->bytes) || is_custom_call(op));
}

struct wanted {
    const struct trace_program *program;
    struct trace_op *op;
};

static int by_wanted(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    return slice_compare(x->op->name, y->op->name);
}

// ---- One program

struct place {
    const struct hlo_instruction *in;
    const struct hlo_computation *in_computation;
};

static int by_instruction(const void *a, const void *b)
{
    return slice_compare(((const struct place *)a)->in->name, ((const struct place *)b)->in->name);
}

struct index {
    struct place *places; // by name
    size_t n;
};

static int make_index(const struct hlo_module *m, struct arena *arena, struct index *x, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_computations; i++)
        n += m->computations[i].is_fusion ? 0 : m->computations[i].n_instructions;
    x->places = arena_new(arena, struct place, n, err);
    if (!x->places)
        return ERR_MEMORY;
    for (size_t i = 0; i < m->n_computations; i++) {
        const struct hlo_computation *c = &m->computations[i];
        for (size_t k = 0; k < c->n_instructions && !c->is_fusion; k++)
            x->places[x->n++] = (struct place){&c->instructions[k], c};
    }
    if (x->n)
        qsort(x->places, x->n, sizeof *x->places, by_instruction);
    return 0;
}

// Annotations nest: "scope::fusion.3".
static struct slice last_part(struct slice name)
{
    for (size_t i = name.size; i >= 2; i--) {
        if (name.data[i - 1] == ':' && name.data[i - 2] == ':')
            return (struct slice){name.data + i, name.size - i};
    }
    return name;
}

static const struct place *find(const struct index *x, struct slice name)
{
    struct hlo_instruction in = {.name = last_part(name)};
    struct place key = {.in = &in};
    return x->n ? bsearch(&key, x->places, x->n, sizeof key, by_instruction) : NULL;
}

static int keep_text(struct joining *j, struct slice *to, const char *text, size_t n)
{
    const char *copy = arena_strndup(&j->o->arena, text, n, j->err);
    *to = (struct slice){(const uint8_t *)copy, copy ? n : 0};
    return copy ? 0 : ERR_MEMORY;
}

// The stack frames of an instruction, the outermost first; a chain that does not end is cut.
static int keep_stack(struct joining *j, const struct hlo_module *m, int64_t frame, struct slice *to)
{
    enum { DEEPEST = 256 };
    const struct hlo_frame *frames[DEEPEST];
    size_t n = 0;
    for (; frame > 0 && (uint64_t)frame <= m->n_frames && n < DEEPEST; frame = m->frames[frame - 1].parent)
        frames[n++] = &m->frames[frame - 1];
    struct str text;
    str_init(&text);
    while (n-- > 0) {
        str_add_n(&text, frames[n]->file.data, frames[n]->file.size);
        str_addf(&text, ":%" PRId64 "\n", frames[n]->line);
    }
    int rc = str_check(&text, j->err);
    if (!rc && text.length)
        rc = keep_text(j, to, str_text(&text), text.length);
    str_release(&text);
    return rc;
}

static int describe(struct joining *j, const struct hlo_module *m, const struct hlo_instruction *in,
                    struct trace_op *op)
{
    struct slice file;
    int64_t line;
    int rc = 0;
    if (!op->category.size) {
        struct slice category = hlo_category(in);
        rc = keep_text(j, &op->category, (const char *)category.data, category.size);
    }
    // The tracer of GPUs knows no scope, and says so.
    if (!rc && (!op->scope.size || slice_is(op->scope, "XlaModule:")) && in->metadata.op_name.size)
        rc = keep_text(j, &op->scope, (const char *)in->metadata.op_name.data, in->metadata.op_name.size);
    if (!rc && !op->stack.size)
        rc = keep_stack(j, m, in->metadata.frame, &op->stack);
    hlo_source(m, in, &file, &line);
    if (!rc && !op->source.size && file.size) {
        struct str text;
        str_init(&text);
        str_add_n(&text, file.data, file.size);
        if (line > 0)
            str_addf(&text, ":%" PRId64, line);
        rc = str_check(&text, j->err);
        if (!rc)
            rc = keep_text(j, &op->source, str_text(&text), text.length);
        str_release(&text);
    }
    return rc;
}

// What runs other rows, and has their time in its own total only.
static bool is_frame(const struct hlo_instruction *in)
{
    return hlo_is(in, "while") || hlo_is(in, "conditional") || hlo_is(in, "call");
}

static enum dtype product_type(const struct hlo_cost *c)
{
    enum dtype most = DT_INVALID;
    for (int t = 1; t < DT_COUNT; t++) {
        if (c->product_flop[t] > 0 && c->product_flop[t] > c->product_flop[most])
            most = (enum dtype)t;
    }
    return most;
}

// Our own profiles of CPUs have programs as one operation each, called like its module.
static void price_program(const struct hlo_costs *costs, struct trace_op *op)
{
    const struct hlo_cost *c = hlo_cost_module(costs);
    op->type = product_type(c);
    op->flop = hlo_cost_flop(c) * (double)op->executions;
    op->bytes = hlo_cost_bytes(c) * (double)op->executions;
    op->flop_from = isnan(op->flop) ? TRACE_COST_NONE : TRACE_COST_HLO;
    op->bytes_from = isnan(op->bytes) ? TRACE_COST_NONE : TRACE_COST_HLO;
    op->reason = c->flop_reason ? c->flop_reason : c->bytes_reason;
}

static int price(struct joining *j, const struct hlo_costs *costs, const struct hlo_instruction *in,
                 struct trace_op *op)
{
    struct hlo_cost c;
    int rc = hlo_cost_instruction(costs, in, &c, j->err);
    if (rc || is_frame(in))
        return rc;
    double n = (double)op->executions, flop = hlo_cost_flop(&c), bytes = hlo_cost_bytes(&c);
    bool custom = hlo_is(in, "custom-call");
    op->type = product_type(&c);
    if (isnan(op->flop) || (custom && !isnan(flop))) {
        op->flop = flop * n;
        op->flop_from = isnan(flop) ? TRACE_COST_NONE : TRACE_COST_HLO;
        op->reason = c.flop_reason;
    }
    if (isnan(op->bytes) || (custom && !isnan(bytes))) {
        op->bytes = bytes * n;
        op->bytes_from = isnan(bytes) ? TRACE_COST_NONE : TRACE_COST_HLO;
        op->reason = op->reason ? op->reason : c.bytes_reason;
    }
    return 0;
}

// A library may run one kernel several times for one call. Where fusions stand beside the call, it ran no more often
// than they did.
static int bound_executions(const struct hlo_module *m, const struct index *x, const struct wanted *w, size_t n,
                            struct arena *arena, struct error *err)
{
    uint64_t *most = arena_new(arena, uint64_t, m->n_computations, err); // of the fusions of a computation
    if (!most)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const struct place *p = find(x, w[i].op->name);
        uint64_t *at = p && hlo_is(p->in, "fusion") ? &most[p->in_computation - m->computations] : NULL;
        if (at && w[i].op->executions > *at)
            *at = w[i].op->executions;
    }
    for (size_t i = 0; i < n; i++) {
        const struct place *p = find(x, w[i].op->name);
        uint64_t bound = p && hlo_is(p->in, "custom-call") ? most[p->in_computation - m->computations] : 0;
        if (bound && bound < w[i].op->executions)
            w[i].op->executions = bound;
    }
    return 0;
}

int trace_program_read(const struct trace_program *p, trace_program_visit *visit, void *context,
                       struct error *unreadable, struct error *err)
{
    struct file_guard g;
    struct arena scratch;
    struct hlo_module m;
    *unreadable = (struct error){0};
    arena_init(&scratch);
    int rc;
    if (FILE_GUARD(&g, &p->file->map)) {
        rc = file_guard_error(&g, err);
    } else {
        rc = hlo_read(&m, p->proto.data, p->proto.size, "the HLO in the profile", &scratch, unreadable);
        if (!rc)
            rc = visit(context, &m, &scratch, err);
        else if (rc == ERR_INPUT)
            rc = 0;
        else if (err)
            *err = *unreadable;
        file_guard_end(&g);
    }
    arena_release(&scratch);
    return rc;
}

// The rows of one program.
struct join {
    struct joining *j;
    const struct wanted *w;
    size_t n;
};

static int join(void *context, const struct hlo_module *m, struct arena *arena, struct error *err)
{
    const struct join *of = context;
    struct joining *j = of->j;
    const struct wanted *w = of->w;
    size_t n = of->n;
    struct hlo_costs costs;
    struct index x = {0};
    int rc = hlo_costs_init(&costs, m, arena, err);
    if (!rc)
        rc = make_index(m, arena, &x, err);
    if (!rc)
        rc = bound_executions(m, &x, w, n, arena, err);
    if (rc)
        return rc;
    j->o->hlo_modules++;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct place *p = find(&x, w[i].op->name);
        if (p)
            rc = describe(j, m, p->in, w[i].op);
        if (p && !rc)
            rc = price(j, &costs, p->in, w[i].op);
        else if (!rc && slice_is(w[i].op->category, "program") && slice_compare(w[i].op->name, m->name) == 0)
            price_program(&costs, w[i].op);
    }
    return rc;
}

static int join_program(struct joining *j, const struct wanted *w, size_t n)
{
    struct join of = {j, w, n};
    struct error bad;
    int rc = trace_program_read(w->program, join, &of, &bad, j->err);
    if (rc || !bad.code)
        return rc;
    j->o->hlo_damage = arena_strdup(&j->o->arena, bad.message, j->err);
    return j->o->hlo_damage ? 0 : ERR_MEMORY;
}

static int find_wanted(struct joining *j, struct wanted *w, size_t *n)
{
    for (size_t i = 0; i < j->o->n_rows; i++) {
        struct trace_op *op = &j->o->rows[i];
        const struct trace_program *p = lacks(op) ? program_of(j, op) : NULL;
        if (p)
            w[(*n)++] = (struct wanted){p, op};
    }
    if (*n)
        qsort(w, *n, sizeof *w, by_wanted);
    int rc = 0;
    for (size_t i = 0, k; i < *n && !rc; i = k) {
        for (k = i + 1; k < *n && w[k].program == w[i].program; k++)
            ;
        rc = join_program(j, &w[i], k - i);
    }
    return rc;
}

int trace_ops_hlo(const struct trace *t, struct trace_ops *o, struct error *err)
{
    struct joining j = {.o = o, .err = err};
    struct arena arena;
    size_t n = 0;
    bool any = false;
    for (size_t i = 0; i < o->n_rows; i++)
        any |= lacks(&o->rows[i]);
    if (!any)
        return 0;
    arena_init(&arena);
    int rc = trace_programs(t, &arena, &j.programs, &j.n, err);
    j.named = rc ? NULL : arena_alloc(&arena, j.n, sizeof(void *), err);
    struct wanted *w = rc ? NULL : arena_new(&arena, struct wanted, o->n_rows, err);
    if (!rc && (!j.named || !w))
        rc = ERR_MEMORY;
    for (size_t i = 0; i < j.n && !rc; i++)
        j.named[i] = &j.programs[i];
    if (!rc && j.n) {
        qsort(j.named, j.n, sizeof(void *), by_name);
        rc = find_wanted(&j, w, &n);
    }
    arena_release(&arena);
    return rc;
}

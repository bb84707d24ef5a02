// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "base/json.h"
#include "chips/local.h"
#include "cli/commands.h"
#include "cli/wrap.h"
#include "report/format.h"
#include "report/table.h"

// --- the overview
// -------------------------------------------------------------------------------------------------------

// A number in the column's unit. `origin` is the column's; a cell of another one says so itself.
static void overview_cell(struct table *t, struct quantity q, double unit, enum origin origin)
{
    char text[FORMAT_MAX];
    if (isnan(q.value)) {
        table_null(t, NULL);
        return;
    }
    // As many digits as sheets print; what is derived has three.
    double shown = q.value / unit;
    int n = snprintf(text, sizeof text, "%.*g", q.origin == ORIGIN_SHEET || shown >= 1000 ? 4 : 3, shown);
    if (q.origin != origin)
        snprintf(text + n, sizeof text - (size_t)n, " [%c]", (char)q.origin);
    table_number(t, shown, text);
}

static int overview(struct cli *cli, const struct chip *const *chips, size_t n, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "chip", NULL, TABLE_LEFT, 0);
    table_column(&t, "bf16", "TFLOP/s", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "int8", "TOP/s", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "fp8", "TFLOP/s", TABLE_RIGHT, 5);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "memory", "GiB", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "usable", "GiB/device", TABLE_RIGHT, 4);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "bandwidth", "GB/s", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "ridge bf16", "FLOP/B", TABLE_RIGHT, 3);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "link one way", "GB/s", TABLE_RIGHT, 6);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "devices", NULL, TABLE_RIGHT, 5);
    for (size_t i = 0; i < n; i++) {
        const struct chip *c = chips[i];
        table_row(&t);
        table_cell(&t, c->name);
        overview_cell(&t, chip_rate(c, CHIP_BF16, CHIP_PER_CHIP), 1e12, ORIGIN_SHEET);
        overview_cell(&t, chip_rate(c, CHIP_INT8, CHIP_PER_CHIP), 1e12, ORIGIN_SHEET);
        overview_cell(&t, chip_rate(c, CHIP_FP8, CHIP_PER_CHIP), 1e12, ORIGIN_SHEET);
        overview_cell(&t, chip_memory(c, CHIP_PER_CHIP), 0x1p30, ORIGIN_SHEET);
        overview_cell(&t, chip_memory_usable(c, CHIP_PER_DEVICE), 0x1p30, ORIGIN_SHEET);
        overview_cell(&t, chip_bandwidth(c, CHIP_PER_CHIP), 1e9, ORIGIN_SHEET);
        overview_cell(&t, chip_ridge(c, CHIP_BF16), 1, ORIGIN_DERIVED);
        overview_cell(&t, chip_link(c), 1e9, ORIGIN_DERIVED);
        table_count(&t, c->devices_per_chip);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    str_add_char(&cli->out, '\n');
    wrap_text(&cli->out,
              "Per chip, dense, a multiply-add is two. [S] from a sheet, [D] derived, [M] measured; " FORMAT_NULL
              ": no value is known.",
              0, 0, cli->width);
    wrap_text(&cli->out, "`assay chips NAME` shows sources, dates and reasons, with --all also what other sources say.",
              0, 0, cli->width);
    return rc;
}

// --- one chip
// -----------------------------------------------------------------------------------------------------------

static void fact(struct table *t, const char *what, const char *text)
{
    if (!text || !*text)
        return;
    table_row(t);
    table_cell(t, what);
    table_cell(t, text);
}

static const char *wrap_rule(enum chip_wrap wrap)
{
    switch (wrap) {
    case CHIP_WRAP_FULL_16:
        return "an axis closes into a ring only where it is 16 long";
    case CHIP_WRAP_CUBES:
        return "axes close into rings only where all are multiples of 4";
    case CHIP_WRAP_NONE:
        break;
    }
    return "which axes close into rings is not documented";
}

// Several names or shapes, joined.
static const char *joined(struct str *s, const char *const *list)
{
    str_clear(s);
    for (size_t i = 0; list && list[i]; i++)
        str_addf(s, "%s%s", i ? ", " : "", list[i]);
    return str_text(s);
}

static int facts(struct cli *cli, const struct chip *c, struct error *err)
{
    struct table t;
    struct str s;
    str_init(&s);
    table_init(&t);
    table_column(&t, c->name, NULL, TABLE_LEFT, 0);
    table_column(&t, c->vendor, NULL, TABLE_LEFT, 0);
    fact(&t, "also called", joined(&s, c->aliases));
    fact(&t, "device kind", c->device_kind);
    str_clear(&s);
    str_addf(&s, "%d device%s per chip", c->devices_per_chip, c->devices_per_chip == 1 ? "" : "s");
    if (c->cores_per_chip)
        str_addf(&s, ", %d %s%s", c->cores_per_chip, c->core_name, c->cores_per_chip == 1 ? "" : "s");
    if (c->mxu.text)
        str_addf(&s, " with %s each", c->mxu.text);
    fact(&t, "counts", str_text(&s));
    fact(&t, "names", c->naming.text);
    str_clear(&s);
    if (c->torus_dims)
        str_addf(&s, "%dD torus, %d links per chip; %s", c->torus_dims, c->ports, wrap_rule(c->wrap));
    if (c->pod_chips)
        str_addf(&s, "; at most %d chips", c->pod_chips);
    fact(&t, "slices", str_text(&s));
    fact(&t, "shapes in use", joined(&s, c->slices));
    fact(&t, "host", c->host.text);
    str_clear(&s);
    if (c->pci_vendor)
        str_addf(&s, "%04x:%04x", c->pci_vendor, c->pci_device);
    fact(&t, "PCI", str_text(&s));
    fact(&t, "counted in", c->counted.cite);
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    str_release(&s);
    return rc;
}

// As people read it: memory in binary units, everything else in decimal ones.
static void shown(char text[FORMAT_MAX], double value, const char *unit)
{
    if (strcmp(unit, "B") == 0)
        format_bytes_binary(text, value);
    else
        format_quantity(text, quantity_make(value, unit, ORIGIN_SHEET, NULL));
}

static void value_cell(struct table *t, struct quantity q, const char *note)
{
    char text[FORMAT_MAX];
    if (isnan(q.value)) {
        table_null(t, NULL);
        return;
    }
    shown(text, q.value, q.unit);
    table_number(t, q.value, text);
    table_note(t, note);
}

struct line {
    const char *title;
    const struct chip_value *value; // NULL: the quantity has no entry of its own
    struct quantity per_chip, per_device;
    bool has_device; // a value per device makes sense
};

static void print_line(struct table *t, const struct chip *c, const struct line *l, bool all)
{
    const struct chip_value *v = l->value;
    table_row(t);
    table_cell(t, l->title);
    value_cell(t, l->per_chip, v ? v->from.cite : NULL);
    if (c->devices_per_chip > 1) {
        if (l->has_device)
            value_cell(t, l->per_device, NULL);
        else
            table_cell(t, "");
    }
    const char origin[2] = {(char)(v ? v->origin : l->per_chip.origin), '\0'};
    table_cell(t, isnan(l->per_chip.value) ? "" : origin);
    if (!v || isnan(l->per_chip.value))
        table_cell(t, l->per_chip.source);
    else
        table_cellf(t, "%s%s%s", v->printed, v->note ? "; " : "", v->note ? v->note : "");
    for (const struct chip_reading *r = v && all ? v->others : NULL; r && r->printed; r++) {
        table_row(t);
        table_cell(t, "  also");
        value_cell(t, quantity_make(r->value, v->unit, ORIGIN_SHEET, NULL), r->from.cite);
        if (isnan(r->value))
            table_note(t, r->from.cite);
        if (c->devices_per_chip > 1)
            table_cell(t, "");
        table_cell(t, isnan(r->value) ? "" : "S");
        table_cell(t, r->printed);
    }
}

// A target that names more than its chip: what the slice is made of.
static int slice(struct cli *cli, const struct chip_target *target, struct error *err)
{
    struct table t;
    struct str s;
    bool any = false;
    str_init(&s);
    chip_target_spell(target, &s);
    table_init(&t);
    table_column(&t, str_text(&s), NULL, TABLE_LEFT, 0);
    table_column(&t, "slice", NULL, TABLE_LEFT, 0);
    str_clear(&s);
    str_addf(&s, "%d, which are %d device%s", target->chips, target->devices, target->devices == 1 ? "" : "s");
    if (target->slices > 1)
        str_addf(&s, ", in %d slices", target->slices);
    fact(&t, "chips", str_text(&s));
    str_clear(&s);
    if (target->hosts)
        str_addf(&s, "%d, of %d chip%s", target->hosts, target->chips_per_host, target->chips_per_host == 1 ? "" : "s");
    fact(&t, "machines", str_text(&s));
    str_clear(&s);
    for (int i = 0; i < target->dims && target->chip->torus_dims; i++) {
        bool ring = chip_target_wraps(target, i);
        str_addf(&s, "%s%d%s", i ? ", " : "", target->shape[i], ring ? " in a ring" : "");
        any |= ring;
    }
    if (s.length && !any)
        str_add(&s, "; no axis closes into a ring");
    fact(&t, "axes", str_text(&s));
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    str_release(&s);
    str_add_char(&cli->out, '\n');
    return rc;
}

static int values(struct cli *cli, const struct chip *c, struct error *err)
{
    bool all = cli_flag(cli, "all"), two = c->devices_per_chip > 1;
    struct table t;
    table_init(&t);
    table_column(&t, "figure", NULL, TABLE_LEFT, 0);
    table_column(&t, "per chip", NULL, TABLE_RIGHT, 0);
    if (two)
        table_column(&t, "per device", NULL, TABLE_RIGHT, 1);
    table_column(&t, "origin", NULL, TABLE_LEFT, 3);
    table_column(&t, "as printed, or why there is none", NULL, TABLE_LEFT, 2);
    for (unsigned k = 0; k < CHIP_TYPES; k++) {
        enum chip_type type = (enum chip_type)k;
        print_line(&t, c,
                   &(struct line){chip_type_name(type), &c->rate[k], chip_rate(c, type, CHIP_PER_CHIP),
                                  chip_rate(c, type, CHIP_PER_DEVICE), true},
                   all);
    }
    const struct line lines[] = {
        {"memory", &c->memory, chip_memory(c, CHIP_PER_CHIP), chip_memory(c, CHIP_PER_DEVICE), true},
        {"usable", &c->memory_usable, chip_memory_usable(c, CHIP_PER_CHIP), chip_memory_usable(c, CHIP_PER_DEVICE),
         true},
        {"bandwidth", &c->bandwidth, chip_bandwidth(c, CHIP_PER_CHIP), chip_bandwidth(c, CHIP_PER_DEVICE), true},
        {"vmem per core", &c->vmem, chip_value_quantity(&c->vmem), {.value = NAN}, false},
        {"interconnect", &c->interconnect, chip_interconnect(c), {.value = NAN}, false},
        {"link one way", &c->link, chip_link(c), {.value = NAN}, false},
        {"network one way", &c->network, chip_value_quantity(&c->network), {.value = NAN}, false},
        {"PCIe one way", &c->pcie, chip_value_quantity(&c->pcie), {.value = NAN}, false},
        {"power", &c->power, chip_value_quantity(&c->power), {.value = NAN}, false},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        print_line(&t, c, &lines[i], all);
    for (unsigned k = 0; k < CHIP_TYPES; k++) {
        struct quantity ridge = chip_ridge(c, (enum chip_type)k);
        char title[32];
        snprintf(title, sizeof title, "ridge %s", chip_type_name((enum chip_type)k));
        if (!isnan(ridge.value))
            print_line(&t, c, &(struct line){title, NULL, ridge, {.value = NAN}, false}, all);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

// --- JSON
// ---------------------------------------------------------------------------------------------------------------

static void value_json(struct jw *w, const char *key, const struct chip_value *v)
{
    const char origin[2] = {(char)v->origin, '\0'};
    struct quantity q = chip_value_quantity(v);
    jw_key(w, key);
    jw_object(w);
    jw_kv_double(w, "value", q.value);
    jw_kv_string(w, "unit", v->unit);
    jw_kv_string(w, "origin", origin);
    jw_kv_string(w, "source", q.source);
    jw_kv_string(w, "link", v->from.link);
    jw_kv_string(w, "date", v->from.date);
    jw_kv_string(w, "printed", v->printed);
    jw_kv_string(w, "note", v->note);
    jw_key(w, "alternatives");
    jw_array(w);
    for (const struct chip_reading *r = v->others; r && r->printed; r++) {
        jw_object(w);
        jw_kv_double(w, "value", r->value);
        jw_kv_string(w, "unit", v->unit);
        jw_kv_string(w, "origin", "S");
        jw_kv_string(w, "source", r->from.cite);
        jw_kv_string(w, "link", r->from.link);
        jw_kv_string(w, "date", r->from.date);
        jw_kv_string(w, "printed", r->printed);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

static void list_json(struct jw *w, const char *key, const char *const *list)
{
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; list && list[i]; i++)
        jw_string(w, list[i]);
    jw_array_end(w);
}

static void fact_json(struct jw *w, const char *key, const struct chip_fact *f)
{
    jw_key(w, key);
    if (!f->text) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "text", f->text);
    jw_kv_string(w, "source", f->from.cite);
    jw_object_end(w);
}

static void count_json(struct jw *w, const char *key, int n)
{
    if (n)
        jw_kv_int(w, key, n);
    else
        jw_kv_null(w, key);
}

static const char *wrap_name(enum chip_wrap wrap)
{
    return wrap == CHIP_WRAP_FULL_16 ? "axis-of-16" : wrap == CHIP_WRAP_CUBES ? "multiples-of-4" : "none-documented";
}

static void slice_json(struct jw *w, const struct chip_target *target)
{
    struct str s;
    if (!target || !target->dims) {
        jw_kv_null(w, "slice");
        return;
    }
    str_init(&s);
    chip_target_spell(target, &s);
    jw_key(w, "slice");
    jw_object(w);
    jw_kv_string(w, "target", str_text(&s));
    jw_kv_int(w, "slices", target->slices);
    jw_kv_int(w, "chips", target->chips);
    jw_kv_int(w, "devices", target->devices);
    count_json(w, "machines", target->hosts);
    jw_key(w, "axes");
    jw_array(w);
    for (int i = 0; i < target->dims; i++) {
        jw_object(w);
        jw_kv_int(w, "chips", target->shape[i]);
        jw_kv_bool(w, "ring", chip_target_wraps(target, i));
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
    str_release(&s);
}

static void chip_json(struct jw *w, const struct chip *c, const struct chip_target *target)
{
    jw_object(w);
    jw_kv_string(w, "name", c->name);
    slice_json(w, target);
    list_json(w, "aliases", c->aliases);
    jw_kv_string(w, "vendor", c->vendor);
    jw_kv_string(w, "device_kind", c->device_kind);
    jw_kv_bool(w, "tpu", c->is_tpu);
    jw_key(w, "counts");
    jw_object(w);
    jw_kv_int(w, "devices_per_chip", c->devices_per_chip);
    count_json(w, "cores_per_chip", c->cores_per_chip);
    jw_kv_string(w, "core", c->core_name);
    count_json(w, "torus_dims", c->torus_dims);
    count_json(w, "ports", c->ports);
    jw_kv_string(w, "wrap", wrap_name(c->wrap));
    count_json(w, "pod_chips", c->pod_chips);
    jw_kv_string(w, "source", c->counted.cite);
    jw_object_end(w);
    list_json(w, "slices", c->slices);
    fact_json(w, "naming", &c->naming);
    fact_json(w, "mxu", &c->mxu);
    fact_json(w, "host", &c->host);
    jw_key(w, "pci");
    if (c->pci_vendor) {
        char id[16];
        snprintf(id, sizeof id, "%04x:%04x", c->pci_vendor, c->pci_device);
        jw_string(w, id);
    } else
        jw_null(w);
    jw_key(w, "rates");
    jw_object(w);
    for (unsigned k = 0; k < CHIP_TYPES; k++)
        value_json(w, chip_type_name((enum chip_type)k), &c->rate[k]);
    jw_object_end(w);
    jw_key(w, "ridges");
    jw_object(w);
    for (unsigned k = 0; k < CHIP_TYPES; k++)
        quantity_json_kv(w, chip_type_name((enum chip_type)k), chip_ridge(c, (enum chip_type)k));
    jw_object_end(w);
    value_json(w, "memory", &c->memory);
    value_json(w, "memory_usable_per_device", &c->memory_usable);
    value_json(w, "bandwidth", &c->bandwidth);
    value_json(w, "vmem_per_core", &c->vmem);
    value_json(w, "interconnect", &c->interconnect);
    value_json(w, "link_one_way", &c->link);
    value_json(w, "network_one_way", &c->network);
    value_json(w, "pcie_one_way", &c->pcie);
    value_json(w, "power", &c->power);
    jw_key(w, "per_device");
    jw_object(w);
    jw_key(w, "rates");
    jw_object(w);
    for (unsigned k = 0; k < CHIP_TYPES; k++)
        quantity_json_kv(w, chip_type_name((enum chip_type)k), chip_rate(c, (enum chip_type)k, CHIP_PER_DEVICE));
    jw_object_end(w);
    quantity_json_kv(w, "memory", chip_memory(c, CHIP_PER_DEVICE));
    quantity_json_kv(w, "memory_usable", chip_memory_usable(c, CHIP_PER_DEVICE));
    quantity_json_kv(w, "bandwidth", chip_bandwidth(c, CHIP_PER_DEVICE));
    jw_object_end(w);
    jw_object_end(w);
}

struct asked {
    const struct chip *const *chips;
    const struct chip_target *targets; // NULL: whole chips
    size_t n;
};

static int result(void *of, struct jw *w, struct error *err)
{
    const struct asked *asked = of;
    (void)err;
    jw_object(w);
    jw_key(w, "chips");
    jw_array(w);
    for (size_t i = 0; i < asked->n; i++)
        chip_json(w, asked->chips[i], asked->targets ? &asked->targets[i] : NULL);
    jw_array_end(w);
    jw_object_end(w);
    return 0;
}

// --- the command
// --------------------------------------------------------------------------------------------------------

static int run(struct cli *cli, struct error *err)
{
    struct host_facts host;
    host_read(&host, "/");
    bool everything = cli->n_operands == 0;
    size_t n = everything ? chip_count() : cli->n_operands;
    const struct chip **chips = arena_new(&cli->arena, const struct chip *, n, err);
    struct chip_target *targets = everything ? NULL : arena_new(&cli->arena, struct chip_target, n, err);
    if (!chips || (!everything && !targets))
        return ERR_MEMORY;
    for (size_t i = 0; targets && i < n; i++) {
        int rc = chip_target_parse(cli->operands[i], &targets[i], err);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < n; i++) {
        const char *name = everything ? chip_at(i)->name : cli->operands[i];
        struct error damaged = {0};
        int rc = chip_get(&cli->arena, name, host.model, NULL, &chips[i], everything ? &damaged : err);
        if (rc && !everything)
            return rc;
        if (rc) { // a calibration that cannot be read is no reason to hide the table
            cli_note(cli, "%s: %s", damaged.where, damaged.message);
            chips[i] = chip_at(i);
        }
    }
    if (cli->json)
        return cli_document(cli, result, &(struct asked){chips, targets, n}, err);
    if (everything && !cli_flag(cli, "all"))
        return overview(cli, chips, n, err);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        str_add(&cli->out, i ? "\n" : "");
        if (targets && targets[i].dims)
            rc = slice(cli, &targets[i], err);
        if (!rc)
            rc = facts(cli, chips[i], err);
        str_add_char(&cli->out, '\n');
        if (!rc)
            rc = values(cli, chips[i], err);
    }
    return rc;
}

const struct command command_chips = {
    .name = "chips",
    .operands = "[NAME...]",
    .max_operands = -1,
    .operand_words = chip_words,
    .summary = "what is published about accelerators, with sources and dates",
    .description =
        (const char *const[]){
            "Prints the specification table: peak rates of products per type, memory and its bandwidth, interconnect, "
            "and "
            "the ridge, the arithmetic intensity (FLOP per byte) above which products are bound by arithmetic. With "
            "NAME, "
            "everything that is known of that chip: counting units (chip, core, device, host), every figure with its "
            "source, its date and how the source prints it. NAME may be an alias (\"TPU v5 lite\") or a target "
            "(v6e:2x4, v5p-8): then also what that slice is made of, chips, devices, machines and which axes close "
            "into "
            "rings. A slice that does not exist is refused with those that do.",
            "Where no figure is published the table says so and why; it never guesses. XLA fills less than the nominal "
            "memory: \"usable\" is its limit. On tpu7x, v3 and v2 a chip is two devices.",
            "`local` is this machine. Its figures are measured by `assay bench --calibrate` and kept per CPU and "
            "plugin in "
            "the user's cache.",
            NULL},
    .options =
        (const struct option[]){
            {.name = "all", .help = "show also the other values that were seen, with their sources"}, {0}},
    .examples = (const struct example[]){{"assay chips", "all chips, the main figures"},
                                         {"assay chips v5p-8", "what a name means: chips, devices, machines"},
                                         {"assay chips v6e h100", "everything about two of them"},
                                         {"assay chips --all v5e", "where sources disagree"},
                                         {0}},
    .run = run,
};

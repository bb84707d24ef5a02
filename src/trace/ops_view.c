// SPDX-License-Identifier: Apache-2.0
#include "trace/ops_view.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/source.h"

static const char *const by_names[] = {"op", "name", "category", "module", "scope", "source"};

static int unknown(const char *text, struct error *err)
{
    return error_set(err, ERR_USAGE, "--by",
                     "\"%s\" is none of: op, name, category, module, scope, scope:N (the first N parts of the name), "
                     "source, stat:NAME (the value of a statistic)",
                     text);
}

static int parse_level(struct trace_key *k, const char *text, struct error *err)
{
    char *end;
    errno = 0;
    long long v = strtoll(text + strlen("scope:"), &end, 10);
    if (errno || *end || v < 1)
        return error_set(err, ERR_USAGE, "--by", "\"%s\": behind scope: stands how many parts of the name, 1 or more",
                         text);
    k->by = TRACE_BY_SCOPE;
    k->level = v;
    return 0;
}

int trace_key_parse(struct trace_key *k, const char *text, struct error *err)
{
    *k = (struct trace_key){.text = text};
    if (strncmp(text, "scope:", 6) == 0)
        return parse_level(k, text, err);
    if (strncmp(text, "stat:", 5) == 0 && text[5]) {
        k->by = TRACE_BY_STAT;
        k->stat = text + 5;
        return 0;
    }
    for (size_t i = 0; i < sizeof by_names / sizeof *by_names; i++) {
        if (strcmp(by_names[i], text) == 0) {
            k->by = (enum trace_ops_by)i;
            return 0;
        }
    }
    return unknown(text, err);
}

// ---- Groups

// "fusion" of "fusion.3" and of "fusion.3.1".
static struct slice without_number(struct slice s)
{
    for (;;) {
        size_t n = s.size;
        while (n > 0 && isdigit(s.data[n - 1]))
            n--;
        if (n == s.size || n < 2 || s.data[n - 1] != '.')
            return s;
        s.size = n - 1;
    }
}

static struct slice first_parts(struct slice scope, int64_t level)
{
    struct slice rest = scope, part;
    size_t size = 0;
    for (int64_t i = 0; (!level || i < level) && trace_path_part(&rest, TRACE_TRACK_SCOPE, &part); i++)
        size = (size_t)(part.data + part.size - scope.data);
    return (struct slice){scope.data, level ? size : scope.size};
}

static struct slice key_of(const struct trace_op *op, const struct trace_key *by)
{
    switch (by->by) {
    case TRACE_BY_OP:
        return op->name;
    case TRACE_BY_NAME:
        return without_number(op->name);
    case TRACE_BY_CATEGORY:
        return op->category;
    case TRACE_BY_MODULE:
        return op->module;
    case TRACE_BY_SCOPE:
        return first_parts(op->scope, by->level);
    case TRACE_BY_SOURCE:
        return op->source;
    case TRACE_BY_STAT:
        return op->value;
    }
    return op->name;
}

int trace_ops_group(const struct trace_ops *o, const struct trace_key *by, struct arena *arena, struct trace_op **rows,
                    size_t *n, struct error *err)
{
    struct trace_op *out = arena_new(arena, struct trace_op, o->n_rows, err);
    if (!out)
        return ERR_MEMORY;
    *rows = out;
    *n = o->n_rows;
    for (size_t i = 0; i < o->n_rows; i++) {
        const struct trace_op *op = &o->rows[i];
        out[i] = *op;
        if (by->by == TRACE_BY_OP)
            continue;
        out[i] = (struct trace_op){
            .name = key_of(op, by),
            .program_id = by->by == TRACE_BY_MODULE ? op->program_id : 0,
            .is_async = op->is_async,
            .is_operation = op->is_operation,
            .occurrences = op->occurrences,
            .executions = op->executions,
            .self_ps = op->self_ps,
            .total_ps = op->total_ps,
            .self_squares = op->self_squares,
            .flop = op->flop,
            .bytes = op->bytes,
            .flop_from = op->flop_from,
            .bytes_from = op->bytes_from,
            .reason = op->reason,
            .type = op->type,
        };
    }
    if (by->by != TRACE_BY_OP)
        *n = trace_ops_merge(out, *n);
    return 0;
}

// ---- Rates

static struct quantity of_chip(const struct trace_device *d, bool flop, enum dtype type)
{
    static const struct quantity none = {.value = NAN};
    if (!d->chip)
        return none;
    if (!flop)
        return chip_bandwidth(d->chip, CHIP_PER_DEVICE);
    enum chip_type rate = type == DT_INVALID ? CHIP_BF16 : chip_type_from_name(dtype_name(type));
    return rate == CHIP_TYPES ? none : chip_rate(d->chip, rate, CHIP_PER_DEVICE);
}

// One device's peaks speak for all: a profile of two kinds of devices has none.
static void find_peak(const struct trace_ops *o, bool flop, enum dtype type, struct trace_peak *out)
{
    *out = (struct trace_peak){NAN, NAN, NAN, NULL, NULL, false};
    for (size_t i = 0; i < o->devices.n; i++) {
        const struct trace_device *d = &o->devices.items[i];
        double profile = flop ? d->peak_flop_per_s : d->memory_bytes_per_s;
        struct quantity chip = of_chip(d, flop, type);
        if (i == 0) {
            out->profile = profile;
            out->chip = chip.value;
            out->chip_name = d->chip ? d->chip->name : NULL;
            out->chip_source = d->chip ? chip.source : NULL;
        }
        if (!(profile == out->profile)) // NAN, too
            out->profile = NAN;
        if (!(chip.value == out->chip))
            out->chip = NAN;
    }
    out->disagree = fabs(out->profile - out->chip) > out->chip / 10;
    out->used = isnan(out->profile) || out->disagree ? out->chip : out->profile;
}

void trace_ops_peak(const struct trace_ops *o, enum dtype type, struct trace_peak *flop, struct trace_peak *memory)
{
    find_peak(o, true, type, flop);
    find_peak(o, false, type, memory);
}

void trace_ops_rate(const struct trace_ops *o, const struct trace_op *row, struct trace_ops_rates *out)
{
    struct trace_peak flop, memory;
    double s = (double)row->self_ps * 1e-12;
    trace_ops_peak(o, row->type, &flop, &memory);
    *out = (struct trace_ops_rates){NAN, NAN, NAN, NAN, NAN, NAN, NULL};
    if (o->self_ps > 0)
        out->share = (double)row->self_ps / (double)o->self_ps;
    if (row->is_async)
        return;
    if (row->self_ps > 0) {
        out->flop_per_s = row->flop / s;
        out->bytes_per_s = row->bytes / s;
        out->flop_of_peak = out->flop_per_s / flop.used;
        out->bytes_of_peak = out->bytes_per_s / memory.used;
    }
    if (row->flop > 0 && row->bytes > 0)
        out->intensity = row->flop / row->bytes;
    if ((row->flop > 0 || row->bytes > 0) && flop.used > 0 && memory.used > 0)
        out->bound = row->flop / flop.used > row->bytes / memory.used ? "compute" : "memory";
}

// ---- JSON

static const char *counted_by(double value, enum trace_cost_source from, const char *reason)
{
    if (isnan(value))
        return reason ? reason : "the profile does not say";
    return from == TRACE_COST_PROFILE ? "the compiler's count in the profile"
                                      : "counted from the program's HLO in the profile";
}

static void row_json(struct jw *w, const struct trace_ops *o, const struct trace_op *row)
{
    struct trace_ops_rates r;
    const char *counted = counted_by(row->flop, row->flop_from, row->reason);
    const char *moved = counted_by(row->bytes, row->bytes_from, row->reason);
    char program[32];
    trace_ops_rate(o, row, &r);
    snprintf(program, sizeof program, "%llu", (unsigned long long)row->program_id);
    jw_object(w);
    jw_kv_slice(w, "name", row->name);
    jw_kv_slice(w, "category", row->category);
    jw_kv_slice(w, "module", row->module);
    jw_kv_string(w, "program_id", row->program_id ? program : NULL); // beyond 2^53
    jw_kv_slice(w, "scope", row->scope);
    jw_kv_slice(w, "source", row->source);
    jw_kv_bool(w, "is_operation", row->is_operation);
    jw_kv_bool(w, "is_async", row->is_async);
    jw_kv_uint(w, "occurrences", row->occurrences);
    jw_kv_uint(w, "executions", row->executions);
    jw_kv_int(w, "self_ps", row->self_ps);
    jw_kv_int(w, "total_ps", row->total_ps);
    quantity_json_kv(w, "share", quantity_make(r.share, "1", ORIGIN_DERIVED, "self time over that of all rows"));
    quantity_json_kv(w, "flop", quantity_make(row->flop, "FLOP", ORIGIN_DERIVED, counted));
    quantity_json_kv(w, "bytes", quantity_make(row->bytes, "B", ORIGIN_DERIVED, moved));
    const char *rate = row->is_async ? "asynchronous: what it moves is not of its own time" : "over the self time";
    quantity_json_kv(w, "flop_per_s", quantity_make(r.flop_per_s, "FLOP/s", ORIGIN_DERIVED, rate));
    quantity_json_kv(w, "bytes_per_s", quantity_make(r.bytes_per_s, "B/s", ORIGIN_DERIVED, rate));
    const char *intensity = "FLOP over bytes", *share = "rate over the device's peak; see devices";
    quantity_json_kv(w, "intensity", quantity_make(r.intensity, "FLOP/B", ORIGIN_DERIVED, intensity));
    quantity_json_kv(w, "flop_of_peak", quantity_make(r.flop_of_peak, "1", ORIGIN_DERIVED, share));
    quantity_json_kv(w, "bytes_of_peak", quantity_make(r.bytes_of_peak, "1", ORIGIN_DERIVED, share));
    jw_kv_string(w, "type", row->type == DT_INVALID ? NULL : dtype_name(row->type));
    jw_kv_string(w, "bound", r.bound);
    jw_object_end(w);
}

static void device_json(struct jw *w, const struct trace_device *d)
{
    const char *sheet = "the profile's own figure of the device", *none = "the profile does not say";
    jw_object(w);
    jw_kv_slice(w, "name", d->name);
    jw_kv_string(w, "host", d->file->host);
    jw_kv_string(w, "kind", trace_device_kind_name(d->kind));
    jw_kv_string(w, "model", d->model);
    quantity_json_kv(
        w, "peak", quantity_make(d->peak_flop_per_s, "FLOP/s", ORIGIN_SHEET, isnan(d->peak_flop_per_s) ? none : sheet));
    quantity_json_kv(
        w, "memory_rate",
        quantity_make(d->memory_bytes_per_s, "B/s", ORIGIN_SHEET, isnan(d->memory_bytes_per_s) ? none : sheet));
    jw_kv_string(w, "chip", d->chip ? d->chip->name : NULL);
    if (d->chip) {
        quantity_json_kv(w, "chip_peak", chip_rate(d->chip, CHIP_BF16, CHIP_PER_DEVICE));
        quantity_json_kv(w, "chip_memory_rate", chip_bandwidth(d->chip, CHIP_PER_DEVICE));
    } else {
        const char *no_row = "the chip table has no such device";
        quantity_json_kv(w, "chip_peak", quantity_make(NAN, "FLOP/s", ORIGIN_SHEET, no_row));
        quantity_json_kv(w, "chip_memory_rate", quantity_make(NAN, "B/s", ORIGIN_SHEET, no_row));
    }
    jw_object_end(w);
}

static void line_json(struct jw *w, const struct trace_ops_line *l)
{
    jw_object(w);
    jw_kv_slice(w, "device", l->device->name);
    jw_kv_string(w, "host", l->device->file->host);
    jw_kv_slice(w, "line", l->name);
    jw_kv_uint(w, "events", l->events);
    jw_kv_int(w, "busy_ps", l->union_ps);
    jw_kv_int(w, "span_ps", l->events ? l->last_ps - l->first_ps : 0);
    jw_kv_uint(w, "overlaps", l->overlaps);
    jw_kv_uint(w, "out_of_range", l->out_of_range);
    jw_kv_bool(w, "device_clock", l->device_clock);
    jw_object_end(w);
}

void trace_files_json(const struct trace *t, struct jw *w)
{
    jw_key(w, "files");
    jw_array(w);
    for (size_t i = 0; i < t->n_files; i++) {
        const struct xdamage *d = &t->files[i].space.damage;
        jw_object(w);
        jw_kv_string(w, "path", t->files[i].path);
        jw_kv_string(w, "host", t->files[i].host);
        jw_kv_uint(w, "bytes", t->files[i].space.bytes.size);
        jw_key(w, "damage");
        if (d->what) {
            jw_object(w);
            jw_kv_uint(w, "offset", d->offset);
            jw_kv_string(w, "field", d->where);
            jw_kv_string(w, "message", d->what);
            jw_kv_uint(w, "places", d->count);
            jw_object_end(w);
        } else {
            jw_null(w);
        }
        jw_object_end(w);
    }
    jw_array_end(w);
}

int trace_ops_json(const struct trace *t, const struct trace_ops *o, const struct trace_key *by, size_t top,
                   struct jw *w, struct error *err)
{
    struct arena arena;
    struct trace_op *rows;
    size_t n;
    arena_init(&arena);
    int rc = trace_ops_group(o, by, &arena, &rows, &n, err);
    if (!rc) {
        jw_object(w);
        jw_kv_string(w, "by", by->text);
        jw_kv_int(w, "self_ps", o->self_ps);
        jw_kv_uint(w, "rows", n);
        jw_key(w, "ops");
        jw_array(w);
        for (size_t i = 0; i < n && (!top || i < top); i++)
            row_json(w, o, &rows[i]);
        jw_array_end(w);
        jw_key(w, "devices");
        jw_array(w);
        for (size_t i = 0; i < o->devices.n; i++)
            device_json(w, &o->devices.items[i]);
        jw_array_end(w);
        jw_key(w, "lines");
        jw_array(w);
        for (size_t i = 0; i < o->n_lines; i++)
            line_json(w, &o->lines[i]);
        jw_array_end(w);
        trace_files_json(t, w);
        jw_object_end(w);
    }
    arena_release(&arena);
    return rc;
}

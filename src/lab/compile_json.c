// SPDX-License-Identifier: Apache-2.0
// The document assay.compile/1.
#include <math.h>

#include "lab/compile_part.h"

static void measured(struct jw *w, const char *key, double seconds, const char *source)
{
    quantity_json_kv(w, key, quantity_make(seconds, "s", ORIGIN_MEASURED, source));
}

// Bytes that the compiler plans; negative stands for "not offered".
static void planned(struct jw *w, const char *key, int64_t bytes)
{
    quantity_json_kv(w, key,
                     quantity_make(bytes < 0 ? NAN : (double)bytes, "B", ORIGIN_DERIVED,
                                   bytes < 0 ? "the plugin does not offer it" : "the compiler's plan, of one device"));
}

static void write_failure(const struct compile_case *k, struct jw *w)
{
    jw_key(w, "failure");
    if (k->error.code) {
        jw_object(w);
        jw_kv_string(w, "kind",
                     k->has_failure ? worker_failure_kind_name(k->failure.kind) : error_code_name(k->error.code));
        jw_kv_string(w, "message", k->error.message);
        jw_kv_string(w, "where", k->error.where);
        if (k->has_failure) {
            jw_kv_int(w, "value", k->failure.value);
            jw_kv_string(w, "doing", k->failure.doing);
            jw_kv_string(w, "stderr_tail", k->failure.stderr_tail);
        }
        jw_object_end(w);
    } else {
        jw_null(w);
    }
    jw_key(w, "out_of_memory");
    if (!k->has_figures) {
        jw_null(w);
        return;
    }
    jw_object(w);
    quantity_json_derived(w, "needed", k->needed_bytes, "B", k->needed);
    quantity_json_derived(w, "available", k->available_bytes, "B", k->available);
    jw_kv_string(w, "memory", k->needed_in);
    jw_object_end(w);
}

static void write_plan(const struct compile_case *k, struct jw *w)
{
    const struct worker_memory_plan *m = &k->memory;
    jw_key(w, "memory");
    jw_object(w);
    planned(w, "arguments", m->arguments);
    bool known = k->weight_bytes >= 0;
    quantity_json_kv(w, "weights",
                     quantity_make(known ? (double)k->weight_bytes : NAN, "B", ORIGIN_DERIVED,
                                   known ? "arguments that are weights, as the compiler lays them out"
                                         : "nobody said which arguments are weights, or no plan was dumped"));
    planned(w, "outputs", m->outputs);
    planned(w, "aliases", m->aliases);
    planned(w, "temporaries", m->temporaries);
    planned(w, "allocated", m->allocated);
    planned(w, "code", m->code);
    planned(w, "peak", m->peak);
    planned(w, "executable", k->serialized_bytes);
    quantity_json_kv(w, "usable", chip_memory_usable(k->target.chip, CHIP_PER_DEVICE));
    jw_object_end(w);
}

static void write_buffers(const struct compile_case *k, struct jw *w)
{
    jw_key(w, "buffers");
    jw_array(w);
    for (size_t i = 0; i < k->n_buffers; i++) {
        const struct compile_buffer *b = &k->buffers[i];
        jw_object(w);
        jw_kv_string(w, "kind", buffer_kind_name(b->kind));
        jw_kv_int(w, "bytes", b->bytes);
        jw_kv_string(w, "shape", b->shape);
        jw_kv_string(w, "instruction", b->instruction);
        jw_kv_string(w, "owner", b->owner);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_times(const struct compile_case *k, struct jw *w)
{
    jw_key(w, "time");
    jw_object(w);
    measured(w, "start", k->start_s, "loading the plugin and describing the target");
    measured(w, "compile", k->wall_s, "wall clock");
    measured(w, "compile_cpu", k->cpu_s, "processor time of the worker");
    const char *why = isnan(k->plain_wall_s) ? "not asked for (--dump-cost)" : "without the dump of the final code";
    measured(w, "without_dump", k->plain_wall_s, why);
    measured(w, "without_dump_cpu", k->plain_cpu_s, why);
    measured(w, "read_dump", k->parse_s, "reading the dump of the final code");
    quantity_json_kv(w, "dump_bytes", quantity_make(k->dump_bytes, "B", ORIGIN_MEASURED, "the final code as dumped"));
    quantity_json_kv(w, "peak_rss",
                     quantity_make(k->peak_rss_bytes, "B", ORIGIN_MEASURED, "resident memory of the worker, at most"));
    jw_object_end(w);
}

static void write_floor(const struct compile_case *k, struct jw *w)
{
    const char *no_time = k->target.chip->is_tpu
                              ? "no evidence: the final code was not dumped"
                              : "no time is predicted from a GPU program that was not tuned on its device";
    bool known = !isnan(k->floor_s);
    jw_key(w, "floor");
    jw_object(w);
    quantity_json_derived(w, "time", k->floor_s * 1e6, "us",
                          known ? "max(operations, all bytes of main memory / bandwidth) + collectives" : no_time);
    quantity_json_derived(w, "operations", k->ops_floor_s * 1e6, "us",
                          known ? "sum of max(bundles x iterations / clock, rows / rate of the matrix units, bytes / "
                                  "bandwidth)"
                                : no_time);
    quantity_json_derived(w, "memory", k->memory_floor_s * 1e6, "us",
                          known ? "all bytes of main memory / bandwidth" : no_time);
    quantity_json_derived(w, "collectives", (known ? k->collectives_s : NAN) * 1e6, "us",
                          known ? "bytes into each chip over the links of the chip that has fewest" : no_time);
    quantity_json_derived(w, "of_peak", k->of_peak, "1", known ? "product FLOP / rate of their type / floor" : no_time);
    jw_kv_bool(w, "above_peak", k->above_peak);
    quantity_json_derived(
        w, "compiler_estimate", k->estimated_s * 1e6, "us",
        "the compiler's estimated_cycles added up / clock: known to be up to four times too high for element-wise "
        "work; not a prediction");
    if (k->has_core)
        quantity_json_kv(w, "clock", quantity_make(k->core.clock_hz, "Hz", k->core.origin, k->core.source));
    jw_object_end(w);
    double p = k->predicted_s;
    jw_key(w, "prediction");
    jw_object(w);
    quantity_json_derived(w, "time", p * 1e6, "us", k->efficiency_source);
    quantity_json_derived(w, "low", fmax(p / k->band, k->floor_s) * 1e6, "us", k->efficiency_source);
    quantity_json_derived(w, "high", p * k->band * 1e6, "us", k->efficiency_source);
    quantity_json_derived(w, "efficiency", k->efficiency, "1", k->efficiency_source);
    jw_object_end(w);
}

static void write_code(const struct llo_bundles *b, struct jw *w)
{
    jw_key(w, "matrix");
    jw_array(w);
    for (int i = 0; i < b->n_matrix; i++) {
        jw_object(w);
        jw_kv_string(w, "format", b->matrix[i].format);
        jw_kv_string(w, "unit", b->matrix[i].unit);
        jw_kv_uint(w, "multiplies", b->matrix[i].multiplies);
        jw_kv_uint(w, "pushes", b->matrix[i].pushes);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_op(const struct compile_op *op, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "kind", compile_kind_name(op->kind));
    jw_kv_string(w, "name", op->name);
    jw_kv_string(w, "category", op->what);
    jw_kv_string(w, "scope", op->scope);
    jw_kv_string(w, "group", op->group);
    jw_kv_int(w, "depth", op->depth);
    jw_kv_double(w, "runs", op->runs_unknown ? NAN : op->runs);
    jw_kv_double(w, "flop", op->flop);
    jw_kv_string(w, "type", op->type == DT_INVALID ? NULL : dtype_name(op->type));
    jw_kv_double(w, "hbm_bytes", op->hbm_bytes);
    jw_kv_double(w, "bundles", op->bundles);
    jw_kv_double(w, "iterations", op->code ? op->iterations : NAN);
    jw_kv_bool(w, "shares_code", op->shares_code);
    jw_kv_double(w, "estimated_cycles", op->estimated_cycles);
    jw_kv_double(w, "compute_us", op->compute_s * 1e6);
    jw_kv_double(w, "matrix_us", op->matrix_s * 1e6);
    jw_kv_double(w, "memory_us", op->memory_s * 1e6);
    jw_kv_double(w, "floor_us", op->floor_s * 1e6);
    jw_kv_double(w, "passes", op->passes);
    jw_kv_string(w, "arithmetic", op->arithmetic);
    jw_kv_bool(w, "emulated", op->emulated);
    jw_kv_string(w, "strategy", op->strategy);
    if (op->code)
        write_code(op->code, w);
    if (op->kind == COMPILE_COLLECTIVE) {
        jw_kv_string(w, "collective", op->collective);
        jw_kv_string(w, "groups", op->groups);
        jw_kv_int(w, "group_size", op->group_size);
        jw_kv_bool(w, "between_slices", op->between);
        jw_kv_double(w, "wire_bytes", op->wire_bytes);
        jw_kv_string(w, "no_wire_time", op->wire_reason);
    }
    jw_object_end(w);
}

static void write_groups(const struct compile_case *k, struct jw *w)
{
    jw_key(w, "groups");
    jw_array(w);
    for (size_t i = 0; i < k->n_groups; i++) {
        const struct compile_group *g = &k->groups[i];
        jw_object(w);
        jw_kv_string(w, "name", g->name);
        jw_kv_double(w, "flop", g->flop);
        jw_kv_double(w, "hbm_bytes", g->hbm_bytes);
        jw_kv_double(w, "floor_us", isnan(k->floor_s) ? NAN : g->floor_s * 1e6);
        jw_kv_uint(w, "operations", g->ops);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_stage(const struct compile_case *k, struct jw *w)
{
    const struct compile_stage *s = &k->stage;
    jw_key(w, "stage");
    if (s->of < 2) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_int(w, "number", s->number + 1);
    jw_kv_int(w, "of", s->of);
    jw_kv_int(w, "first_layer", s->cut.first_layer);
    jw_kv_int(w, "last_layer", s->cut.last_layer);
    quantity_json_derived(w, "handed_bytes", s->cut.handed_bytes, "B", "what the next stage takes, of one microbatch");
    quantity_json_derived(w, "handed", s->handed_s * 1e6, "us",
                          "a device's share of it over one link, or between slices");
    jw_object_end(w);
}

static void write_pipelines(const struct compile *c, struct jw *w)
{
    struct compile_pipeline p;
    jw_key(w, "pipelines");
    jw_array(w);
    for (size_t i = 0; i < c->n_cases; i++) {
        const struct compile_case *k = &c->cases[i];
        if (!compile_pipeline(c, i, &p))
            continue;
        const char *turns = "(microbatches + stages - 1) x the slowest stage and its hand-over";
        jw_object(w);
        jw_kv_uint(w, "first_case", i);
        jw_kv_int(w, "stages", k->stage.of);
        jw_kv_int(w, "microbatches", k->stage.microbatches);
        jw_kv_int(w, "sequences", k->stage.sequences);
        quantity_json_derived(w, "bubble", p.bubble, "1", "(stages - 1) / (microbatches + stages - 1)");
        quantity_json_derived(w, "turn", p.turn_s * 1e6, "us",
                              "the longest compiler floor of a stage and its hand-over");
        quantity_json_derived(w, "floor", p.floor_s * 1e6, "us", turns);
        quantity_json_derived(w, "predicted", p.predicted_s * 1e6, "us", turns);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_emulations(const struct compile_case *k, struct jw *w)
{
    jw_key(w, "emulated");
    jw_array(w);
    for (size_t i = 0; i < k->n_emulations; i++) {
        const struct compile_emulation *e = &k->emulations[i];
        const double extents[] = {(double)e->batch, (double)e->m, (double)e->k, (double)e->n};
        double cycles = e->op->bundles * e->op->iterations, bf16 = e->bf16_bundles * e->bf16_iterations;
        jw_object(w);
        jw_kv_string(w, "type", dtype_name(e->type));
        jw_kv_string(w, "operation", e->op->name);
        jw_key(w, "extents");
        jw_array(w);
        for (size_t d = 0; e->batch && d < sizeof extents / sizeof *extents; d++)
            jw_double(w, extents[d]);
        jw_array_end(w);
        jw_kv_double(w, "bundles", e->op->bundles);
        jw_kv_double(w, "iterations", e->op->code ? e->op->iterations : NAN);
        jw_kv_double(w, "bf16_bundles", e->bf16_bundles);
        jw_kv_double(w, "bf16_iterations", e->bf16_iterations);
        quantity_json_derived(w, "times", cycles / bf16, "1",
                              isnan(cycles / bf16) ? "both products' final code is needed"
                                                   : "bundles x iterations, over those of the same product in bf16");
        jw_kv_string(w, "sentence", e->sentence);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_requests(const struct compile *c, struct jw *w)
{
    struct compile_request r;
    jw_key(w, "requests");
    jw_array(w);
    for (size_t i = 0; i < c->n_cases; i++) {
        if (!compile_request(c, i, &r))
            continue;
        const char *calls =
            isnan(r.floor_s) ? "the floor of every program is needed" : "of every program times its calls";
        jw_object(w);
        jw_kv_uint(w, "first_case", i);
        jw_kv_uint(w, "programs", r.n);
        quantity_json_derived(w, "resident", r.resident_bytes, "B",
                              isnan(r.resident_bytes) ? "the compiler's plan of every program is needed"
                              : c->request.one_model
                                  ? "the weights, which all programs share, the code of each, and the rest of the one "
                                    "that needs most"
                                  : "weights and code of all programs, and the rest of the one that needs most");
        quantity_json_derived(w, "usable", r.usable_bytes, "B", "what a device of this chip can give");
        quantity_json_derived(w, "floor", r.floor_s * 1e6, "us", calls);
        quantity_json_derived(w, "predicted", r.predicted_s * 1e6, "us",
                              isnan(r.floor_s) || !isnan(r.predicted_s) ? calls : c->cases[i].efficiency_source);
        measured(w, "compile", r.wall_s, "wall clock, all programs");
        measured(w, "compile_cpu", r.cpu_s, "processor time, all programs");
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_part(const struct model_part *p, struct jw *w)
{
    jw_key(w, "part");
    if (!p) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "name", p->name);
    jw_kv_string(w, "call", p->call);
    jw_kv_int(w, "calls", p->calls);
    jw_object_end(w);
}

static void write_case(const struct compile_case *k, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "target", k->target_name);
    jw_kv_string(w, "chip", k->target.chip->name);
    jw_kv_string(w, "device_kind", k->device_kind);
    jw_kv_uint(w, "devices", k->n_devices);
    jw_kv_int(w, "partitions", k->partitions);
    jw_kv_string(w, "policy", k->policy);
    write_part(k->part, w);
    layers_json(w, &k->rolled);
    write_stage(k, w);
    jw_key(w, "flags");
    jw_object(w);
    for (size_t i = 0; i < k->n_flags; i++)
        jw_kv_string(w, k->flags[i].name, k->flags[i].value);
    jw_object_end(w);
    jw_kv_string(w, "state", compile_state_name(k->state));
    write_failure(k, w);
    jw_key(w, "plugin");
    jw_object(w);
    jw_kv_string(w, "path", k->plugin_path);
    jw_kv_string(w, "version", k->plugin_version);
    jw_kv_string(w, "sha256", k->plugin_sha256[0] ? k->plugin_sha256 : NULL);
    jw_object_end(w);
    write_buffers(k, w);
    if (k->state == COMPILE_DONE) {
        write_plan(k, w);
        jw_kv_string(w, "fingerprint", k->fingerprint);
        write_times(k, w);
        write_floor(k, w);
        write_emulations(k, w);
        write_groups(k, w);
        jw_key(w, "operations");
        jw_array(w);
        for (size_t i = 0; i < k->n_ops; i++)
            write_op(&k->ops[i], w);
        jw_array_end(w);
    }
    jw_object_end(w);
}

void compile_json(const struct compile *c, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "workload", c->options.workload);
    program_file_json("program", &c->program, w);
    jw_kv_string(w, "layout", c->options.layout);
    jw_key(w, "requirement");
    if (c->has_require) {
        jw_object(w);
        jw_kv_string(w, "text", c->require.text);
        jw_kv_bool(w, "met", compile_met(c));
        jw_object_end(w);
    } else {
        jw_null(w);
    }
    jw_key(w, "cases");
    jw_array(w);
    for (size_t i = 0; i < c->n_cases; i++)
        write_case(&c->cases[i], w);
    jw_array_end(w);
    write_pipelines(c, w);
    write_requests(c, w);
    jw_object_end(w);
}

// SPDX-License-Identifier: Apache-2.0
#include "lab/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chips/local.h"
#include "lab/accuracy.h"
#include "lab/compile.h"
#include "plan/layout.h"

// A transformer of 25 blocks takes minutes, and nobody can give a limit where a compilation is one figure of many.
#define MOST_S 1800.0

int predict_targets(const char *const *names, size_t n, bool divided, const char *cpu_model, struct predict_target *out,
                    struct arena *arena, struct error *err)
{
    if (n > PREDICT_MAX_TARGETS)
        return error_set(err, ERR_USAGE, "--target", "give at most %d targets", PREDICT_MAX_TARGETS);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        out[i].name = names[i];
        rc = chip_target_parse(names[i], &out[i].target, err);
        if (!rc)
            rc = chip_get(arena, names[i], cpu_model, NULL, &out[i].chip, err);
        for (size_t k = 0; k < i && !rc; k++) {
            if (strcmp(out[k].name, names[i]) == 0)
                rc = error_set(err, ERR_USAGE, "--target", "%s is given twice", names[i]);
        }
        if (!rc && out[i].target.slices > 1 && !divided)
            rc = error_set(err, ERR_USAGE, "--target", "%s is %d slices, for a program that is divided: give --layout",
                           names[i], out[i].target.slices);
    }
    return rc;
}

static bool is_this_machine(const struct predict_target *t)
{
    return strcmp(t->chip->name, "local") == 0 || strcmp(t->chip->name, "calibrated") == 0;
}

// ---- The compiler

// Why the compiler is not asked about a target; NULL: it is.
static const char *not_asked(const struct predict_target *t)
{
    if (is_this_machine(t))
        return "the compiler of this machine's plugin does not say what its code takes";
    if (!t->chip->is_tpu)
        return "XLA tunes its kernels on the GPU itself: without one no time is predicted (`assay compile` says what "
               "fits and fuses)";
    return NULL;
}

static double known(int64_t bytes)
{
    return bytes < 0 ? NAN : (double)bytes;
}

static void keep_memory(const struct compile_case *k, struct predict_compiled *out)
{
    out->argument_bytes = known(k->memory.arguments);
    out->weight_bytes = known(k->weight_bytes);
    out->output_bytes = known(k->memory.outputs);
    out->temporary_bytes = known(k->memory.temporaries);
    out->code_bytes = known(k->memory.code);
    out->needed_bytes = known(k->memory.allocated) + out->code_bytes;
}

static int keep(const struct compile_case *k, struct predict_compiled *out, struct arena *arena, struct error *err)
{
    out->state = compile_state_name(k->state);
    bool done = k->state == COMPILE_DONE;
    out->compile_s = done ? k->wall_s : NAN;
    out->cpu_s = done ? k->cpu_s : NAN;
    out->band = k->band;
    out->usable_bytes = k->usable_bytes;
    out->needed_bytes = k->has_figures ? k->needed_bytes : NAN;
    if (done) {
        keep_memory(k, out);
        out->floor_s = k->floor_s;
        out->predicted_s = k->predicted_s;
        out->efficiency = arena_strdup(arena, k->efficiency_source ? k->efficiency_source : "", err);
        out->compiler = arena_strdup(arena, k->plugin_version ? k->plugin_version : "", err);
        out->reason = isnan(k->floor_s) ? "the compiler did not write down its final code" : NULL;
        if (k->above_peak) { // no floor, then
            out->reason = arena_printf(arena, err, "it came out at %.0f %% of the published peak, which cannot be: %s",
                                       100 * k->of_peak, k->efficiency_source);
            return out->reason ? 0 : ERR_MEMORY;
        }
        return out->efficiency && out->compiler ? 0 : ERR_MEMORY;
    }
    if (k->has_figures)
        out->reason = arena_printf(arena, err, "it does not fit: %s of %s needed, %s available", k->needed,
                                   k->needed_in, k->available);
    else
        out->reason = arena_printf(arena, err, "%s: %s", compile_state_name(k->state), k->error.message);
    return out->reason ? 0 : ERR_MEMORY;
}

// What is true of every target when there is no compiler at all.
static int keep_absence(const struct error *why, struct predict_compiled *out, size_t n, struct arena *arena,
                        struct error *err)
{
    bool asked = why->code == ERR_USAGE; // of a program that cannot be as it was asked for
    const char *reason =
        arena_printf(arena, err, "%s%s%s%s%s", asked ? "cannot be compiled so: " : "no compiler: ", why->where,
                     why->where[0] ? ": " : "", why->message, asked ? "" : " (`make tpu` fetches it)");
    for (size_t i = 0; i < n; i++)
        out[i].reason = reason;
    return reason ? 0 : ERR_MEMORY;
}

static int ask(const struct predict_job *job, const size_t *asked, size_t n, struct predict_compiled *out,
               struct arena *arena, struct error *err)
{
    const char *names[PREDICT_MAX_TARGETS];
    struct compile c;
    struct error why = {0};
    size_t programs = job->n_programs ? job->n_programs : 1;
    for (size_t i = 0; i < n; i++)
        names[i] = job->targets[asked[i]].name;
    struct compile_job o = {.workload = job->workload,
                            .targets = names,
                            .n_targets = n,
                            .policies = job->names,
                            .modules = job->programs,
                            .n_policies = job->n_programs,
                            .layers = job->layers,
                            .layout = job->layout,
                            .plugin = job->plugin,
                            .timeout_s = MOST_S,
                            .progress = job->progress};
    int rc = compile_open(&c, &o, &why);
    if (!rc)
        rc = compile_run(&c, &why);
    int kept = 0;
    for (size_t i = 0; i < n * programs && !kept; i++) {
        struct predict_compiled *to = &out[asked[i / programs] * programs + i % programs];
        if (!rc)
            kept = keep(&c.cases[i], to, arena, err);
        else if (rc != ERR_INTERRUPTED && rc != ERR_MEMORY)
            kept = keep_absence(&why, to, 1, arena, err);
    }
    compile_close(&c);
    if (rc == ERR_INTERRUPTED || rc == ERR_MEMORY)
        return error_set(err, rc, why.where, "%s", why.message);
    return kept;
}

int predict_compile(const struct predict_job *job, struct predict_compiled *out, struct arena *arena, struct error *err)
{
    size_t asked[PREDICT_MAX_TARGETS], n = 0, programs = job->n_programs ? job->n_programs : 1;
    for (size_t i = 0; i < job->n_targets && job->layout; i++) {
        struct layout l;
        int rc = layout_parse(&l, job->layout, job->targets[i].target.devices, err);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < job->n_targets; i++) {
        const char *reason = not_asked(&job->targets[i]);
        for (size_t k = 0; k < programs; k++)
            out[i * programs + k] = (struct predict_compiled){.reason = reason,
                                                              .floor_s = NAN,
                                                              .predicted_s = NAN,
                                                              .compile_s = NAN,
                                                              .cpu_s = NAN,
                                                              .band = NAN,
                                                              .argument_bytes = NAN,
                                                              .weight_bytes = NAN,
                                                              .output_bytes = NAN,
                                                              .temporary_bytes = NAN,
                                                              .code_bytes = NAN,
                                                              .needed_bytes = NAN,
                                                              .usable_bytes = NAN};
        if (!reason)
            asked[n++] = i;
    }
    return n ? ask(job, asked, n, out, arena, err) : 0;
}

// ---- What was measured

// Share of its bf16 peak that a product on this chip reached, as somebody published; NULL: nobody did, that is known
// here. Of several the first, as the table has them.
static const struct measurement *published_product(const struct chip *chip, double *efficiency)
{
    const struct measurement *m;
    for (size_t i = 0; (m = accuracy_measurement(i)) != NULL; i++) {
        if (m->kind == ACCURACY_PRODUCT && m->unit == ACCURACY_FLOP_PER_S && strcmp(m->chip, chip->name) == 0) {
            *efficiency = m->value / chip_rate(chip, CHIP_BF16, CHIP_PER_CHIP).value;
            return m;
        }
    }
    return NULL;
}

static int make_calibrated(const struct predict_target *t, struct quantity floor, double sent_us, struct arena *arena,
                           struct prediction *out, struct error *err)
{
    double efficiency;
    const struct measurement *m = published_product(t->chip, &efficiency);
    if (is_this_machine(t)) {
        out->calibrated = floor;
        return 0;
    }
    if (!m || isnan(floor.value)) {
        out->calibrated =
            quantity_make(NAN, "us", ORIGIN_DERIVED, m ? floor.source : "nothing measured on this chip is known here");
        return 0;
    }
    const char *source =
        arena_printf(arena, err, "the sheet's floor / %.3g, the share of peak of %s: %s, %s%s", efficiency, m->what,
                     m->printed, m->from.cite, sent_us > 0 ? "; and what is sent, at its floor" : "");
    out->calibrated = quantity_make((floor.value - sent_us) / efficiency + sent_us, "us", ORIGIN_DERIVED, source);
    return source ? 0 : ERR_MEMORY;
}

// ---- Together

static struct quantity none(const char *why)
{
    return quantity_make(NAN, "us", ORIGIN_DERIVED, why);
}

static int make_compiled(const struct predict_compiled *c, const double *times, size_t n, struct arena *arena,
                         struct prediction *out, struct error *err)
{
    const struct predict_compiled *first = &c[0];
    double floor = 0, predicted = 0;
    const char *reason = NULL;
    out->compile_s = out->cpu_s = 0;
    out->state = first->state;
    out->memory = n == 1 && first->state ? first : NULL;
    for (size_t i = 0; i < n; i++) {
        floor += c[i].floor_s * times[i] * 1e6;
        predicted += c[i].predicted_s * times[i] * 1e6;
        out->compile_s += c[i].compile_s;
        out->cpu_s += c[i].cpu_s;
        if (c[i].reason && !reason) {
            reason = c[i].reason;
            out->state = c[i].state;
        }
    }
    if (reason) {
        out->floor = out->predicted = out->low = out->high = none(reason);
        return 0;
    }
    const char *source = arena_printf(arena, err,
                                      "%s: max(bundles x iterations / clock, bytes / bandwidth) of every "
                                      "operation of its final code",
                                      first->compiler);
    out->floor = quantity_make(floor, "us", ORIGIN_DERIVED, source);
    if (isnan(predicted)) {
        out->predicted = out->low = out->high =
            none("no efficiency of such floors was measured on this chip (`assay compile --efficiency` takes one)");
        return source ? 0 : ERR_MEMORY;
    }
    out->predicted = quantity_make(predicted, "us", ORIGIN_DERIVED, first->efficiency);
    out->low = quantity_make(predicted / first->band, "us", ORIGIN_DERIVED, first->efficiency);
    out->high = quantity_make(predicted * first->band, "us", ORIGIN_DERIVED, first->efficiency);
    return source ? 0 : ERR_MEMORY;
}

int predict_make(const struct predict_target *t, const char *layout, struct quantity floor, double sent_us,
                 const struct predict_compiled *compiled, const double *times, size_t n, double measured_us,
                 const char *where, struct arena *arena, struct prediction *out, struct error *err)
{
    *out = (struct prediction){.target = t->name, .layout = layout};
    out->sheet = is_this_machine(t) ? none("this machine has no sheet; its calibration stands beside") : floor;
    out->measured = quantity_make(measured_us, "us", ORIGIN_MEASURED, where);
    int rc = make_compiled(compiled, times, n, arena, out, err);
    return rc ? rc : make_calibrated(t, floor, sent_us, arena, out, err);
}

static void write_memory(const struct predict_compiled *m, struct jw *w)
{
    static const char plan[] = "the compiler's plan, of one device";
    jw_key(w, "memory");
    if (!m) {
        jw_null(w);
        return;
    }
    jw_object(w);
    quantity_json_derived(w, "arguments", m->argument_bytes, "B", plan);
    quantity_json_derived(w, "weights", m->weight_bytes, "B",
                          "arguments that are weights, as the compiler lays them out");
    quantity_json_derived(w, "outputs", m->output_bytes, "B", plan);
    quantity_json_derived(w, "temporaries", m->temporary_bytes, "B", plan);
    quantity_json_derived(w, "code", m->code_bytes, "B", plan);
    quantity_json_derived(w, "needed", m->needed_bytes, "B", plan);
    quantity_json_derived(w, "usable", m->usable_bytes, "B", "what a device of this chip can give to a program");
    jw_object_end(w);
}

void predict_json(const struct prediction *p, struct jw *w)
{
    const char *wall =
                   isnan(p->compile_s) ? "the compiler was not asked, or did not come to an end" : "wall clock, here",
               *cpu = isnan(p->cpu_s) ? wall : "processor time, here";
    jw_kv_string(w, "target", p->target);
    jw_kv_string(w, "layout", p->layout);
    quantity_json_kv(w, "sheet", p->sheet);
    jw_key(w, "compiler");
    jw_object(w);
    jw_kv_string(w, "state", p->state);
    quantity_json_kv(w, "floor", p->floor);
    quantity_json_kv(w, "predicted", p->predicted);
    quantity_json_kv(w, "low", p->low);
    quantity_json_kv(w, "high", p->high);
    quantity_json_kv(w, "compile", quantity_make(p->compile_s, "s", ORIGIN_MEASURED, wall));
    quantity_json_kv(w, "compile_cpu", quantity_make(p->cpu_s, "s", ORIGIN_MEASURED, cpu));
    write_memory(p->memory, w);
    jw_object_end(w);
    quantity_json_kv(w, "calibrated", p->calibrated);
    quantity_json_kv(w, "measured", p->measured);
}

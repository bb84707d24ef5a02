// SPDX-License-Identifier: Apache-2.0
// The document of timed stages.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/device_module.h"
#include "lab/stages.h"

#define NEED_CALIB "needs the stage calib"

static void measured_ms(struct jw *w, const char *key, double ms, const char *source)
{
    quantity_json_kv(w, key, quantity_make(ms, "ms", ORIGIN_MEASURED, source));
}

// ---- what ran

static void write_chip(const char *key, const struct chip *chip, const char *why, struct jw *w)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_string(w, "name", chip ? chip->name : NULL);
    jw_kv_string(w, "absent", chip ? NULL : why);
    jw_key(w, "figures");
    if (!chip) {
        jw_null(w);
        jw_object_end(w);
        return;
    }
    jw_object(w);
    chip_peaks_json(chip, w);
    quantity_json_kv(w, "memory", chip_memory(chip, CHIP_PER_DEVICE));
    quantity_json_kv(w, "memory_usable", chip_memory_usable(chip, CHIP_PER_DEVICE));
    quantity_json_kv(w, "pcie", chip_value_quantity(&chip->pcie));
    jw_object_end(w);
    jw_object_end(w);
}

static void write_wanted(const struct stages_options *o, struct jw *w)
{
    jw_key(w, "stages");
    jw_array(w);
    for (int k = 0; k < STAGES_KINDS; k++) {
        if (o->wanted[k])
            jw_string(w, stages_kind_name((enum stages_kind)k));
    }
    jw_array_end(w);
}

static void write_what(const struct stages *s, struct jw *w)
{
    static const char *const sources[] = {"folder", "files", "random", "tiny"};
    const struct stages_options *o = s->options;
    jw_kv_string(w, "model", s->model);
    jw_key(w, "weights");
    jw_object(w);
    jw_kv_string(w, "source", sources[s->source]);
    jw_kv_string(w, "given", o->klein.weights.weights);
    jw_kv_bool(w, "random", s->random);
    jw_kv_int(w, "bytes", s->weight_bytes);
    jw_object_end(w);
    jw_kv_int(w, "height", s->height);
    jw_kv_int(w, "width", s->width);
    jw_kv_int(w, "batch", s->batch);
    jw_kv_int(w, "steps", s->steps);
    jw_kv_int(w, "text_tokens", s->text_tokens);
    jw_kv_string(w, "prompt", o->prompt);
    jw_kv_uint(w, "prompt_tokens", s->prompt.n_tokens);
    jw_kv_double(w, "guidance", s->guidance);
    jw_kv_string(w, "policy", s->policy);
    jw_kv_uint(w, "seed", o->seed);
    write_wanted(o, w);
}

static void write_where(const struct stages *s, struct jw *w)
{
    jw_kv_string(w, "device", s->device);
    jw_kv_string(w, "plugin_sha256", s->plugin_sha256);
    jw_kv_int(w, "threads", s->options->klein.worker.threads);
    kernels_chosen_json(w, s->kernels_with, s->kernels_absent, &s->kernels);
    write_chip("chip", s->chip, "nothing is published of a device of this kind", w);
    write_chip("calibrated", s->calibrated, NEED_CALIB, w);
    jw_key(w, "host");
    host_json(w, &s->host);
}

// ---- series

// ---- traces

static void traced_ms(struct jw *w, const char *key, double ms, const char *source)
{
    quantity_json_kv(
        w, key, quantity_make(ms, "ms", ORIGIN_MEASURED, isnan(ms) ? "no device ran anything in the trace" : source));
}

static void share_of(struct jw *w, const char *key, double share, const char *source)
{
    quantity_json_kv(
        w, key,
        quantity_make(share, "1", ORIGIN_DERIVED, isnan(share) ? "no device ran anything in the trace" : source));
}

static void write_operations(const struct stages_trace *t, struct jw *w)
{
    jw_key(w, "operations");
    jw_array(w);
    for (int i = 0; i < t->n_operations; i++) {
        const struct stages_operation *o = &t->operations[i];
        jw_object(w);
        jw_kv_string(w, "program", o->program);
        jw_kv_string(w, "operation", o->name);
        jw_kv_string(w, "category", o->category);
        jw_kv_uint(w, "runs", o->runs);
        traced_ms(w, "time", o->ms,
                  t->of_operations ? "self time" : "time that a run, or any thread of a kernel, takes");
        share_of(w, "share", o->ms / t->operations_ms, "time / that of all operations");
        jw_object_end(w);
    }
    jw_array_end(w);
}

// Of one more run; null where none was asked for. The device's time stands beside the untraced median: the tracer
// makes the run longer, not what the device has to do.
static void write_trace(const struct stages_series *s, struct jw *w)
{
    const struct stages_trace *t = &s->trace;
    double p50 = s->ms.p50, device = stages_trace_device_share(t, p50);
    const char *source = t->busy_ms > p50     ? "busy in the trace for longer than the untraced p50"
                         : t->traced_ms < p50 ? "device busy / traced, which took less than p50"
                                              : "device busy / p50";
    jw_key(w, "trace");
    if (!t->done) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "file", t->file);
    jw_kv_string(w, "recorder", t->of_operations ? "operations" : "spans");
    traced_ms(w, "traced", t->traced_ms, "one run with the tracer on; no latency");
    share_of(w, "overhead", t->traced_ms / p50, "traced / p50");
    traced_ms(w, "device_busy", t->busy_ms,
              t->of_operations ? "time that any operation of the device covers"
                               : "our spans: from a program's dispatch to its completion");
    share_of(w, "device_share", device, source);
    share_of(w, "host_share", 1 - device, "1 less the device's share");
    traced_ms(w, "idle_between", t->between_ms, "from the end of one program to the start of the next");
    jw_kv_uint(w, "programs", t->programs);
    write_operations(t, w);
    jw_object_end(w);
}

static void write_series(const struct stages_series *t, const char *device, struct jw *w)
{
    quantity_json_kv(w, "first",
                     quantity_make(t->ran_before ? NAN : t->first_ns * 1e-6, "ms", ORIGIN_MEASURED,
                                   t->ran_before ? "its programs had run before" : device));
    jw_key(w, "warmup");
    measure_warmup_json(w, &t->warmup, device);
    jw_key(w, "time");
    measure_summary_json(w, &t->ms, "ms", device);
    quantity_json_samples(w, "samples_ns", t->ns, t->n, "ns", device);
    write_trace(t, w);
}

static void write_of_sheet(double rate, struct quantity sheet, struct jw *w)
{
    quantity_json_kv(w, "of_sheet",
                     quantity_make(rate / sheet.value, "1", ORIGIN_DERIVED,
                                   isnan(sheet.value) ? sheet.source : "rate / that of the data sheet"));
}

static void write_product(const struct stages *s, const struct stages_product *p, struct jw *w)
{
    struct quantity peak = {NAN, "FLOP/s", ORIGIN_SHEET, "there is no data sheet of it"};
    if (s->chip && !s->chip_is_local)
        peak = chip_rate(s->chip, p->counts, CHIP_PER_DEVICE);
    jw_object(w);
    jw_kv_string(w, "product", p->name);
    jw_kv_string(w, "operands", dtype_name(p->type));
    measured_ms(w, "compile", (double)p->compile_ns * 1e-6, s->device);
    write_series(&p->time, s->device, w);
    quantity_json_kv(
        w, "rate", quantity_make(p->flop_per_s, p->type == DT_S8 ? "OP/s" : "FLOP/s", ORIGIN_MEASURED, "2 n^3 / p50"));
    write_of_sheet(p->flop_per_s, peak, w);
    quantity_json_kv(
        w, "error",
        quantity_make(p->error, "1", ORIGIN_MEASURED,
                      p->type == DT_S8 && p->wrong ? "not equal to sums in int64"
                      : p->type == DT_S8
                          ? "equal to sums in int64 wherever it was scored"
                          : "root of the squared errors of the scored elements over that of the exact ones"));
    jw_kv_bool(w, "implausible", p->implausible);
    jw_object_end(w);
}

// In the form of a product.
static void write_copy(const struct stages *s, struct jw *w)
{
    const struct stages_calib *c = &s->calib;
    char source[96];
    snprintf(source, sizeof source, "%.0f B read and as many written / p50", c->copy_bytes / 2);
    jw_object(w);
    jw_kv_string(w, "product", "copy");
    jw_kv_string(w, "operands", "f32");
    measured_ms(w, "compile", (double)c->copy_compile_ns * 1e-6, s->device);
    write_series(&c->copy, s->device, w);
    quantity_json_kv(w, "rate", quantity_make(c->copy_bytes_per_s, "B/s", ORIGIN_MEASURED, source));
    struct quantity sheet = {NAN, "B/s", ORIGIN_SHEET, "there is no data sheet of it"};
    if (s->chip && !s->chip_is_local)
        sheet = chip_bandwidth(s->chip, CHIP_PER_DEVICE);
    write_of_sheet(c->copy_bytes_per_s, sheet, w);
    quantity_json_kv(w, "error", quantity_make(NAN, "1", ORIGIN_MEASURED, "a copy is exact"));
    jw_kv_bool(w, "implausible", false);
    jw_object_end(w);
}

static void write_calib(const struct stages *s, struct jw *w)
{
    const struct stages_calib *c = &s->calib;
    jw_key(w, "calib");
    if (!s->options->wanted[STAGES_CALIB]) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_int(w, "size", c->size);
    jw_kv_uint(w, "scored", c->scored);
    jw_key(w, "runs");
    jw_array(w);
    for (int i = 0; i < c->n_products; i++) {
        if (!c->products[i].absent)
            write_product(s, &c->products[i], w);
    }
    write_copy(s, w);
    jw_array_end(w);
    jw_key(w, "not_measured");
    jw_array(w);
    for (int i = 0; i < c->n_products; i++) {
        if (!c->products[i].absent)
            continue;
        jw_object(w);
        jw_kv_string(w, "product", c->products[i].name);
        jw_kv_string(w, "why", c->products[i].absent);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

static void write_floor(const char *key, const struct whole_floor *f, struct jw *w)
{
    jw_key(w, key);
    jw_object(w);
    for (int i = 0; i < WHOLES; i++) {
        struct quantity q = f->time[i];
        q.value *= 1e-3;
        q.unit = "ms";
        quantity_json_kv(w, whole_key((enum whole)i), q);
    }
    jw_object_end(w);
}

// FLOP, bytes, rate, floors and shares of peaks. `why_no_share`: it has none.
static void write_price(const struct stages_price *p, double ms, const char *why_no_share, struct jw *w)
{
    quantity_json_derived(w, "flop", p->product_flop, "FLOP", "2 per multiply-add of products");
    quantity_json_derived(w, "bytes", p->bytes, "B", "what enters and leaves each part once");
    jw_key(w, "floors");
    jw_object(w);
    write_floor("sheet", &p->sheet, w);
    write_floor("calibrated", &p->calibrated, w);
    jw_object_end(w);
    struct quantity none = quantity_make(NAN, "1", ORIGIN_DERIVED, why_no_share);
    quantity_json_kv(w, "rate",
                     quantity_make(why_no_share ? NAN : p->product_flop / (ms * 1e-3), "FLOP/s", ORIGIN_MEASURED,
                                   why_no_share ? why_no_share : "product FLOP / p50"));
    quantity_json_kv(w, "mfu_sheet", why_no_share ? none : stages_mfu(&p->sheet, ms, true));
    quantity_json_kv(w, "mfu_calibrated", why_no_share ? none : stages_mfu(&p->calibrated, ms, false));
}

// ---- serving

static void write_transfer(const char *key, double bytes, struct quantity rate, struct jw *w)
{
    quantity_json_kv(w, key,
                     quantity_make(bytes / rate.value * 1e3, "ms", ORIGIN_DERIVED,
                                   isnan(rate.value) ? rate.source : "bytes of the weights / rate"));
}

static void write_staging(const struct stages *s, const struct stages_serving *t, struct jw *w)
{
    double bytes = (double)(t->mapped_bytes + t->copied_bytes);
    const struct stages_disk *d = &s->disk;
    const struct chip *chip = s->chip_is_local || !s->chip ? s->calibrated : s->chip;
    struct quantity disk = {d->done ? d->bytes_per_s : NAN, "B/s", ORIGIN_MEASURED, d->why ? d->why : "not measured"};
    struct quantity pcie = {NAN, "B/s", ORIGIN_SHEET, "nothing is published of a device of this kind"};
    struct quantity hbm = {NAN, "B/s", ORIGIN_SHEET, NEED_CALIB};
    if (s->chip)
        pcie = chip_value_quantity(&s->chip->pcie);
    if (s->chip_is_local)
        pcie.source = "weights go through no PCIe: the device is the host";
    if (chip)
        hbm = chip_bandwidth(chip, CHIP_PER_DEVICE);
    jw_key(w, "staging");
    jw_object(w);
    jw_kv_int(w, "mapped_bytes", t->mapped_bytes);
    jw_kv_int(w, "copied_bytes", t->copied_bytes);
    measured_ms(w, "time", t->staging_s * 1e3, s->device);
    quantity_json_kv(w, "rate",
                     quantity_make(bytes / t->staging_s, "B/s", ORIGIN_MEASURED,
                                   t->mapped_bytes ? "all bytes / time, those that are only mapped, and read when they "
                                                     "are first used, included"
                                                   : "bytes / time"));
    write_transfer("floor_disk", bytes, disk, w);
    write_transfer("floor_pcie", bytes, pcie, w);
    write_transfer("floor_memory", bytes, hbm, w);
    jw_key(w, "page_cache");
    jw_object(w);
    jw_kv_bool(w, "known", t->before.known);
    jw_kv_string(w, "why", t->before.known ? NULL : t->before.why);
    jw_kv_int(w, "bytes", t->before.bytes);
    if (t->before.known)
        jw_kv_int(w, "in_memory", t->before.in_page);
    else
        jw_kv_null(w, "in_memory");
    jw_object_end(w);
    jw_object_end(w);
}

static void device_bytes(struct jw *w, const char *key, const struct stages_serving *t, int64_t bytes, enum origin of)
{
    bool given = t->memory.has_device_stats && bytes >= 0;
    quantity_json_kv(w, key,
                     quantity_make(given ? (double)bytes : NAN, "B", of,
                                   given                        ? of == ORIGIN_MEASURED
                                                                      ? "the device's own count"
                                                                      : "in use, less weights and inputs: programs, and what "
                                                                        "allocators round up"
                                   : t->memory.has_device_stats ? "the plugin gives no such figure"
                                                                : "the plugin gives no memory figures"));
}

static void write_memory(const struct stages_serving *t, struct jw *w)
{
    const struct worker_memory *m = &t->memory;
    int64_t left = m->bytes_in_use - t->weight_bytes - t->known_bytes;
    jw_key(w, "memory");
    jw_object(w);
    device_bytes(w, "in_use", t, m->bytes_in_use, ORIGIN_MEASURED);
    device_bytes(w, "peak", t, m->peak_bytes_in_use, ORIGIN_MEASURED);
    device_bytes(w, "limit", t, m->bytes_limit, ORIGIN_MEASURED);
    jw_kv_int(w, "weights", t->weight_bytes);
    jw_kv_int(w, "inputs", t->known_bytes);
    device_bytes(w, "unattributed", t, m->bytes_in_use >= 0 ? left : -1, ORIGIN_DERIVED);
    quantity_json_kv(w, "process",
                     quantity_make((double)m->rss_bytes, "B", ORIGIN_MEASURED, "resident in the device's process"));
    quantity_json_kv(
        w, "process_peak",
        quantity_make((double)m->peak_rss_bytes, "B", ORIGIN_MEASURED, "resident in the device's process"));
    jw_object_end(w);
}

static void write_one_serving(const struct stages *s, enum stages_kind kind, struct jw *w)
{
    const struct stages_serving *t = &s->serving[kind];
    static const char *const why[] = {"a time that contains compilation and staging gives no share of a peak",
                                      "a time that contains staging gives no share of a peak", NULL};
    jw_object(w);
    jw_kv_string(w, "stage", stages_kind_name(kind));
    jw_kv_bool(w, "compiles_in_request", kind == STAGES_COLD);
    jw_kv_bool(w, "loads_in_request", kind != STAGES_RESIDENT);
    measured_ms(w, "compile", (double)t->compile_ns * 1e-6, s->device);
    quantity_json_kv(w, "make",
                     quantity_make(s->random ? (double)t->make_ns * 1e-6 : NAN, "ms", ORIGIN_MEASURED,
                                   s->random ? "random weights, in no other time" : "weights come from files"));
    write_series(&t->request, s->device, w);
    measured_ms(w, "inside", t->inside_p50_ms, "median over requests of the time inside their programs");
    measured_ms(w, "outside", t->outside_p50_ms, "median over requests of what is left of each");
    quantity_json_kv(w, "images_per_s", quantity_make(t->items_per_s, "1/s", ORIGIN_MEASURED, "images / p50"));
    write_price(&t->price, t->request.ms.p50, why[kind], w);
    write_staging(s, t, w);
    write_memory(t, w);
    jw_object_end(w);
}

static void write_serving(const struct stages *s, struct jw *w)
{
    const struct stages_disk *d = &s->disk;
    jw_key(w, "serving");
    jw_array(w);
    for (int k = 0; k < STAGES_SERVINGS; k++) {
        if (s->serving[k].done)
            write_one_serving(s, (enum stages_kind)k, w);
    }
    jw_array_end(w);
    jw_key(w, "disk");
    jw_object(w);
    quantity_json_kv(w, "rate",
                     quantity_make(d->done ? d->bytes_per_s : NAN, "B/s", ORIGIN_MEASURED,
                                   d->done  ? "the transformer's first file, read from its beginning"
                                   : d->why ? d->why
                                            : "no request was asked for"));
    jw_kv_double(w, "bytes", d->bytes);
    jw_kv_bool(w, "was_cached", d->was_cached);
    jw_object_end(w);
}

// ---- modules

// What the loop's latents are beside those of the steps one by one.
static void write_agreement(const struct stages_module *m, bool compared, struct jw *w)
{
    bool equal = compared && isinf(m->snr_db);
    quantity_json_kv(w, "agreement",
                     quantity_make(compared && !equal ? m->snr_db : NAN, "dB", ORIGIN_MEASURED,
                                   equal      ? "latents equal those of the steps one by one in every value"
                                   : compared ? "signal to noise of its latents beside those of the steps one by one"
                                              : "there is nothing to compare with"));
}

static void write_module(const struct stages *s, enum stages_module_kind kind, struct jw *w)
{
    const struct stages_module *m = &s->modules[kind];
    struct quantity predicted = m->price.calibrated.time[WHOLE_ROWS_MERGED];
    const char *why = predicted.source;
    predicted.value *= 1e-3;
    predicted.unit = "ms";
    jw_object(w);
    jw_kv_string(w, "module", stages_module_name(kind));
    jw_kv_double(w, "runs_per_request", m->calls);
    measured_ms(w, "compile", (double)m->compile_ns * 1e-6, s->device);
    measured_ms(w, "load", (double)m->load_ns * 1e-6, s->device);
    layers_json(w, &m->rolled);
    write_series(&m->time, s->device, w);
    write_price(&m->price, m->time.ms.p50, NULL, w);
    quantity_json_kv(w, "predicted", predicted);
    quantity_json_kv(w, "ratio",
                     quantity_make(m->ratio, "1", ORIGIN_DERIVED, isnan(m->ratio) ? why : "p50 / predicted"));
    jw_kv_string(w, "verdict", stages_verdict_name(m->verdict));
    write_agreement(m, kind == STAGES_M_LOOP, w);
    jw_object_end(w);
}

static double p50_of(const struct stages *s, enum stages_kind kind)
{
    return s->serving[kind].done ? s->serving[kind].request.ms.p50 : NAN;
}

static void derived_ms(struct jw *w, const char *key, double ms, const char *source, const char *needs)
{
    quantity_json_kv(w, key, quantity_make(ms, "ms", ORIGIN_DERIVED, isnan(ms) ? needs : source));
}

static void write_sums(const struct stages *s, struct jw *w)
{
    static const char all[] = "needs the stages text, dit, vae and resident", resident[] = "needs the stage resident";
    double resident_ms = p50_of(s, STAGES_RESIDENT), staged = p50_of(s, STAGES_STAGED) - resident_ms;
    struct stages_sums sums = stages_sums_of(s);
    jw_key(w, "sums");
    jw_object(w);
    derived_ms(w, "modules", sums.modules, "sum of p50 times runs in a request", "needs the stages text, dit and vae");
    quantity_json_kv(w, "request",
                     quantity_make(sums.request, "ms", ORIGIN_MEASURED, isnan(sums.request) ? resident : s->device));
    derived_ms(w, "difference", sums.difference, "request less modules", all);
    derived_ms(w, "outside", sums.outside,
               "median over requests of their time less that of their programs: transfers, checks, the host", resident);
    derived_ms(w, "in_turn", sums.in_turn,
               "the rest: programs of a request, which run in turn, less the same ones run again and again", all);
    derived_ms(w, "staged_minus_resident", staged, "p50 of staged less p50 of resident",
               "needs the stages staged and resident");
    derived_ms(w, "cold_minus_resident", p50_of(s, STAGES_COLD) - resident_ms, "p50 of cold less p50 of resident",
               "needs the stages cold and resident");
    quantity_json_kv(
        w, "staging_over_resident",
        quantity_make(staged / resident_ms, "1", ORIGIN_DERIVED,
                      isnan(staged) ? "needs the stages staged and resident" : "staged less resident, by resident"));
    jw_object_end(w);
}

// ---- what to beware of

static void write_warnings(const struct stages *s, struct jw *w)
{
    char text[512];
    jw_key(w, "warnings");
    jw_array(w);
    if (s->random)
        jw_string(w, "the weights are random: times are those of a model of this size, images show nothing");
    for (int i = 0; i < s->calib.n_products; i++) {
        const struct stages_product *p = &s->calib.products[i], *bf16 = &s->calib.products[0];
        if (p->wrong) {
            snprintf(text, sizeof text,
                     "products of int8 are wrong: %zu of %zu scored elements are not the sums in int64", p->wrong,
                     s->calib.scored);
            jw_string(w, text);
        }
        if (!p->implausible)
            continue;
        snprintf(text, sizeof text,
                 "products called %s are products of bf16: %.0f %% of its rate, and %.1e from the exact result where "
                 "bf16 is %.1e from it",
                 p->name, 100 * p->flop_per_s / bf16->flop_per_s, p->error, bf16->error);
        jw_string(w, text);
    }
    if (s->disk.was_cached)
        jw_string(w,
                  "the kernel kept the weights' files in memory although it was asked to forget them: what is called "
                  "cold, and the rate of the disk, are not");
    for (size_t i = 0; i < s->host.n_warnings; i++)
        jw_string(w, s->host.warnings[i]);
    jw_array_end(w);
}

void stages_json(const struct stages *s, struct jw *w)
{
    jw_object(w);
    write_what(s, w);
    write_where(s, w);
    write_calib(s, w);
    write_serving(s, w);
    jw_key(w, "modules");
    jw_array(w);
    for (int k = 0; k < STAGES_MODULES; k++) {
        if (s->modules[k].done)
            write_module(s, (enum stages_module_kind)k, w);
    }
    jw_array_end(w);
    write_sums(s, w);
    write_warnings(s, w);
    jw_object_end(w);
}

void stages_config(const struct stages_options *o, struct jw *w)
{
    const struct klein_options *k = &o->klein;
    jw_kv_string(w, "workload", o->workload);
    write_wanted(o, w);
    jw_kv_string(w, "weights", k->weights.weights);
    jw_kv_string(w, "tokenizer", k->weights.tokenizer);
    jw_kv_string(w, "prompt", o->prompt);
    jw_kv_string(w, "policy", k->policy);
    jw_kv_int(w, "height", k->height);
    jw_kv_int(w, "width", k->width);
    jw_kv_int(w, "steps", k->steps);
    jw_kv_int(w, "batch", k->batch);
    jw_kv_uint(w, "seed", o->seed);
    jw_kv_int(w, "samples", o->samples);
    jw_kv_int(w, "requests", o->requests);
    jw_kv_int(w, "warmup", o->warmup);
    jw_kv_int(w, "calib_size", o->calib_size);
    jw_kv_bool(w, "trace", o->trace);
    jw_kv_string(w, "device", k->worker.device);
    jw_kv_string(w, "plugin", k->worker.plugin_path);
    jw_kv_int(w, "threads", k->worker.threads);
    jw_kv_bool(w, "kernels", k->worker.kernels);
    jw_kv_string(w, "layers", layers_name(k->layers));
}

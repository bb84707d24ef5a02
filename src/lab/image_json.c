// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "lab/image_part.h"

// A prompt or a name may be any bytes, and a PNG holds UTF-8: what is none becomes U+FFFD.
static void add_utf8(struct str *out, const char *text)
{
    size_t n = strlen(text), at = 0;
    while (at < n) {
        uint32_t c;
        size_t k = utf8_decode(text + at, n - at, &c);
        if (k)
            str_add_n(out, text + at, k);
        else
            str_add(out, "\xef\xbf\xbd");
        at += k ? k : 1;
    }
}

void image_parameters(const struct image_run *r, int64_t i, struct str *out)
{
    const struct klein *k = &r->klein;
    const struct image_options *o = r->options;
    add_utf8(out, o->prompt);
    str_addf(out, "\nSteps: %" PRId64 ", Sampler: euler (%s), ", k->schedule.steps, flux2_sampler_name(k->sampler));
    if (k->guided)
        str_addf(out, "CFG scale: %g, ", k->guidance);
    str_addf(out, "Seed: %" PRIu64 ", Size: %" PRId64 "x%" PRId64 ", Model: ", o->seed, k->width, k->height);
    add_utf8(out, k->weights.name);
    str_addf(out, ", Noise: %s, Policy: %s", noise_name(o->noise), k->policy.name);
    if (k->precision)
        str_addf(out, ", Matmul precision: %s%s", matmul_precision_name(k->precision),
                 k->emulated ? " (emulated)" : "");
    if (k->batch > 1)
        str_addf(out, ", Batch: %" PRId64 " of %" PRId64, i + 1, k->batch);
    if (k->n_references)
        str_addf(out, ", References: %d", k->n_references);
    if (image_run_random(r))
        str_addf(out, ", Weights: %s (random)", image_run_random(r));
    str_addf(out, ", Version: assay %s", ASSAY_VERSION);
}

static void write_weights(const struct image_run *r, struct jw *w)
{
    static const char *const sources[] = {"folder", "files", "random", "tiny"};
    const struct klein_weights *k = &r->klein.weights;
    jw_key(w, "weights");
    jw_object(w);
    jw_kv_string(w, "source", sources[k->source]);
    jw_kv_string(w, "given", r->options->klein.weights.weights);
    jw_kv_bool(w, "random", klein_weights_are_random(k));
    jw_object_end(w);
}

static void write_prompt(const struct image_run *r, struct jw *w)
{
    jw_key(w, "prompt");
    jw_object(w);
    jw_kv_string(w, "text", r->options->prompt);
    jw_kv_string(w, "tokenizer", r->tokenizer);
    jw_kv_uint(w, "tokens", r->prompt.n_tokens);
    jw_kv_uint(w, "tokens_before_cut", r->prompt.n_full);
    jw_kv_uint(w, "cut_of_prompt", r->prompt.cut_prompt);
    jw_kv_uint(w, "cut_of_template", r->prompt.cut_template);
    jw_key(w, "cut_text");
    if (r->cut.length)
        jw_string_n(w, str_text(&r->cut), r->cut.length);
    else
        jw_null(w);
    jw_object_end(w);
}

static void write_schedule(const struct klein *k, struct jw *w)
{
    jw_key(w, "schedule");
    jw_object(w);
    jw_kv_string(w, "sampler", flux2_sampler_name(k->sampler));
    jw_kv_double(w, "mu", k->schedule.mu);
    jw_key(w, "sigmas");
    jw_array(w);
    for (int64_t i = 0; i <= k->schedule.steps; i++)
        jw_double(w, k->schedule.sigmas[i]);
    jw_array_end(w);
    jw_key(w, "times");
    jw_array(w);
    for (int64_t i = 0; i < k->schedule.steps; i++)
        jw_double(w, (double)k->schedule.times[i]);
    jw_array_end(w);
    jw_object_end(w);
}

static void seconds(struct jw *w, const char *key, uint64_t ns, const struct klein *k)
{
    quantity_json_kv(w, key, quantity_make((double)ns * 1e-9, "s", ORIGIN_MEASURED, k->device));
}

static void write_parts(const struct klein *k, struct jw *w)
{
    jw_key(w, "parts");
    jw_array(w);
    for (int i = 0; i < KLEIN_PARTS; i++) {
        const struct klein_figures *f = &k->figures[i];
        if (!f->compile_ns)
            continue;
        jw_object(w);
        jw_kv_string(w, "part", klein_part_name((enum klein_part)i));
        seconds(w, "compile", f->compile_ns, k);
        seconds(w, "make", f->make_ns, k);
        seconds(w, "load", f->load_ns, k);
        seconds(w, "run", f->run_ns, k);
        jw_kv_uint(w, "runs", f->runs);
        jw_kv_int(w, "zero_copy_bytes", f->zero_copy_bytes);
        jw_kv_int(w, "copied_bytes", f->copied_bytes);
        jw_kv_int(w, "temporary_bytes", f->temporary_bytes);
        layers_json(w, &f->rolled);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_files(const struct image_run *r, struct jw *w)
{
    const struct klein *k = &r->klein;
    jw_key(w, "references");
    jw_array(w);
    for (int i = 0; i < k->n_references; i++) {
        jw_object(w);
        jw_kv_string(w, "path", r->options->references[i]);
        jw_kv_int(w, "height", r->sizes[i][0]);
        jw_kv_int(w, "width", r->sizes[i][1]);
        jw_kv_int(w, "used_height", 16 * k->references[i][0]);
        jw_kv_int(w, "used_width", 16 * k->references[i][1]);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "images");
    jw_array(w);
    for (int64_t i = 0; i < k->batch; i++)
        jw_string(w, r->paths[i]);
    jw_array_end(w);
}

int image_run_json(void *run, struct jw *w, struct error *err)
{
    const struct image_run *r = run;
    const struct klein *k = &r->klein;
    (void)err;
    jw_object(w);
    jw_kv_string(w, "model", k->weights.name);
    write_weights(r, w);
    write_prompt(r, w);
    jw_kv_int(w, "height", k->height);
    jw_kv_int(w, "width", k->width);
    jw_kv_int(w, "batch", k->batch);
    jw_kv_int(w, "steps", k->schedule.steps);
    jw_kv_uint(w, "seed", r->options->seed);
    jw_kv_string(w, "noise", noise_name(r->options->noise));
    if (k->guided)
        jw_kv_double(w, "guidance", k->guidance);
    else
        jw_kv_null(w, "guidance");
    jw_kv_string(w, "policy", k->policy.name);
    matmul_precision_json(w, k->precision, k->emulated);
    jw_kv_string(w, "serving", klein_serving_name(k->serving));
    jw_kv_string(w, "device", k->device);
    device_module_kernels_json(w, k->worker, &k->kernels);
    write_files(r, w);
    write_schedule(k, w);
    write_parts(k, w);
    quantity_json_kv(w, "total", quantity_make(r->total_s, "s", ORIGIN_MEASURED, k->device));
    quantity_json_kv(w, "peak_memory",
                     quantity_make(r->peak_bytes ? (double)r->peak_bytes : NAN, "B", ORIGIN_MEASURED,
                                   r->peak_bytes ? "resident in the device's process" : "the kernel does not say"));
    quantity_json_derived(w, "needed_memory", (double)k->needed_bytes, "B",
                          "weights on the device, the most that a program needs beside them, 0.5 GB for the rest");
    jw_object_end(w);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Known answers that need no device.
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sha256.h"
#include "base/stats.h"
#include "base/threads.h"
#include "chips/chips.h"
#include "io/safetensors.h"
#include "ir/cost.h"
#include "ir/policy.h"
#include "lab/check_table.h"
#include "models/builtin.h"
#include "models/wordpiece.h"
#include "num/convert.h"
#include "num/measures.h"
#include "num/quantize.h"
#include "plan/roofline.h"
#include "record/record.h"

// ---- base

int check_sha256(struct check_context *c, struct str *found, struct error *err)
{
    // FIPS 180-2, appendix B.1.
    static const char want[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    char hex[65];
    (void)c;
    int rc = sha256_bytes("abc", 3, hex, err);
    if (!rc && strcmp(hex, want) != 0)
        rc = check_differs(err, "\"abc\" hashes to %s", hex);
    str_addf(found, "of \"abc\": %.8s...", want);
    return rc;
}

int check_json(struct check_context *c, struct str *found, struct error *err)
{
    static const double numbers[] = {0, -0.5, 0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 9007199254740993.0};
    static const char text[] = "\"quoted\" \\ \n \x01 </script> \xc3\xa9";
    enum { N = sizeof numbers / sizeof numbers[0] };
    struct str s;
    struct jw w;
    (void)c;
    str_init(&s);
    jw_init(&w, &s, true);
    jw_object(&w);
    jw_kv_string(&w, "text", text);
    jw_key(&w, "numbers");
    jw_array(&w);
    for (size_t i = 0; i < N; i++)
        jw_double(&w, numbers[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    json_t *root = rc ? NULL : json_parse(str_text(&s), s.length, "check", err);
    if (!rc && !root)
        rc = ERR_INPUT;
    if (!rc && strcmp(json_string_value(json_object_get(root, "text")), text) != 0)
        rc = check_differs(err, "a text came back as another");
    for (size_t i = 0; i < N && !rc; i++) {
        double got = json_number_value(json_array_get(json_object_get(root, "numbers"), i));
        if (got != numbers[i])
            rc = check_differs(err, "%.17g came back as %.17g", numbers[i], got);
    }
    json_decref(root);
    str_release(&s);
    str_addf(found, "%d numbers and a text with quotes and control characters", (int)N);
    return rc;
}

int check_statistics(struct check_context *c, struct str *found, struct error *err)
{
    const double values[] = {3, 1, 4, 2};
    double scratch[4], coverage;
    size_t low, high;
    (void)c;
    double median = stats_median(values, 4, scratch);
    if (median != 2.5)
        return check_differs(err, "the median of 1, 2, 3, 4 is %g", median);
    // 1 - 2 (C(10,0) + C(10,1)) / 2^10, exact in binary
    stats_median_interval(10, 0.95, &low, &high, &coverage);
    if (low != 1 || high != 8 || coverage != 0.978515625)
        return check_differs(err, "the interval of a median of 10 is %zu to %zu, coverage %.12g", low, high, coverage);
    double p = stats_sign_test(0, 5);
    if (p != 0.0625)
        return check_differs(err, "5 of 5 have p %.12g in the sign test", p);
    str_add(found, "median of 10 lies in x[1]..x[8] with 97.85 %");
    return 0;
}

static void add_range(void *context, size_t from, size_t to)
{
    unsigned long long sum = 0;
    for (size_t i = from; i < to; i++)
        sum += i;
    atomic_fetch_add((atomic_ullong *)context, sum);
}

int check_threads(struct check_context *c, struct str *found, struct error *err)
{
    enum { N = 100000 };
    struct threads *t;
    atomic_ullong sum = 0;
    int rc = threads_new(&t, c->options.threads > 0 ? (size_t)c->options.threads : 0, err);
    if (rc)
        return rc;
    threads_for(t, N, 1000, add_range, &sum);
    str_addf(found, "%zu share 0 + 1 + ... + %d", threads_count(t), N - 1);
    threads_free(t);
    unsigned long long want = (unsigned long long)N * (N - 1) / 2;
    return sum == want ? 0 : check_differs(err, "the sum is %llu, not %llu", (unsigned long long)sum, want);
}

// ---- num

int check_convert(struct check_context *c, struct str *found, struct error *err)
{
    static const struct {
        enum dtype type;
        double value;
        uint16_t bits;
    } spots[] = {
        {DT_BF16, 1 + 0x1p-8, 0x3f80},           // halfway: to even
        {DT_BF16, 1 + 3 * 0x1p-8, 0x3f82},       // halfway: to even
        {DT_F16, 1 + 0x1p-11 + 0x1p-40, 0x3c01}, // once: through f32 it would be 1
        {DT_F16, 65520, 0x7c00},                 // to infinity
        {DT_F16, 0x1p-24, 1},                    // a subnormal is kept
        {DT_BF16, 0x1p-133, 1},                  //
        {DT_F8E4M3FN, 448, 0x7e},                // the largest
        {DT_F8E4M3FN, 500, 0x7f},                // NaN: there is no infinity
        {DT_F8E5M2, 57344, 0x7b},                //
    };
    (void)c;
    for (unsigned i = 0; i < 0x10000; i++) {
        uint16_t bits = (uint16_t)i;
        float b = f32_from_bf16(bits), h = f32_from_f16(bits);
        if ((!isnan(b) && bf16_from_f32(b) != bits) || (!isnan(h) && f16_from_f32(h) != bits))
            return check_differs(err, "the bits %04x of bf16 or f16 do not come back from f32", i);
    }
    for (size_t i = 0; i < sizeof spots / sizeof spots[0]; i++) {
        uint16_t bits = 0;
        int rc = convert_elements(spots[i].type, &bits, DT_F64, &spots[i].value, 1, err);
        if (rc)
            return rc;
        if (bits != spots[i].bits)
            return check_differs(err, "%.17g in %s is %04x, not %04x", spots[i].value, dtype_name(spots[i].type), bits,
                                 spots[i].bits);
    }
    str_addf(found, "all bit patterns of bf16 and f16, %zu roundings", sizeof spots / sizeof spots[0]);
    return 0;
}

int check_quantize(struct check_context *c, struct str *found, struct error *err)
{
    // The largest magnitude is 127, so the scale is 1 and codes are the values rounded, ties to even.
    const float x[] = {127, -127, 63.5f, 64.5f, 0.5f, 1.5f, -2.5f, 0};
    const int8_t want[] = {127, -127, 64, 64, 0, 2, -2, 0};
    const int64_t dims[] = {8};
    struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_TENSOR, .channel_axis = -1};
    struct quant_stats stats;
    int8_t codes[8];
    float scale;
    (void)c;
    int rc = quantize(&spec, dims, 1, x, codes, &scale, NULL, &stats, "check", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < 8; i++) {
        if (codes[i] != want[i])
            return check_differs(err, "%g has the code %d, not %d", (double)x[i], codes[i], want[i]);
    }
    if (scale != 1 || stats.clipped || stats.flushed != 1 || !stats.bound_holds)
        return check_differs(err, "scale %g, %zu clipped, %zu flushed", (double)scale, stats.clipped, stats.flushed);
    str_add(found, "ties to even, nothing clipped");
    return 0;
}

int check_measures(struct check_context *c, struct str *found, struct error *err)
{
    const double reference[] = {3, 4};
    const float result[] = {3, 4.5f};
    struct measures m;
    (void)c;
    measures_begin(&m, 2, 1e-6);
    int rc = measures_add(&m, reference, DT_F32, result, 1, err);
    measures_finish(&m);
    if (rc)
        return rc;
    if (m.max_abs != 0.5 || fabs(m.rel_l2 - 0.1) > 1e-15 || fabs(m.snr_db - 20) > 1e-12)
        return check_differs(err, "relative L2 %.17g, max abs %g, SNR %.17g dB", m.rel_l2, m.max_abs, m.snr_db);
    str_add(found, "(3, 4.5) against (3, 4): relative L2 0.1, 20 dB");
    return 0;
}

// ---- io

static int write_tensors(const char *path, const float *f32, const int8_t *s8, struct error *err)
{
    struct safetensors_entry entries[] = {{"a \"b\"/c", DT_F32, 2, (const int64_t[]){2, 3}},
                                          {"codes", DT_S8, 1, (const int64_t[]){64}}};
    struct safetensors_writer w;
    int rc = safetensors_writer_begin(&w, path, entries, 2, NULL, 0, err);
    if (rc)
        return rc;
    rc = safetensors_writer_put(&w, 0, f32, 6 * sizeof *f32, err);
    if (!rc)
        rc = safetensors_writer_put(&w, 1, s8, 64, err);
    if (!rc)
        return safetensors_writer_commit(&w, err);
    safetensors_writer_abort(&w);
    return rc;
}

int check_safetensors(struct check_context *c, struct str *found, struct error *err)
{
    const float f32[] = {1, -2, 0.5f, 0, 3e38f, -1e-40f};
    int8_t s8[64], back8[64];
    float back[6];
    char path[512];
    const char *dir;
    struct checkpoint k;
    for (int i = 0; i < 64; i++)
        s8[i] = (int8_t)(i * 4 - 128);
    int rc = check_directory(c, &dir, err);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "%s/check.safetensors", dir);
    rc = write_tensors(path, f32, s8, err);
    if (!rc)
        rc = checkpoint_open(&k, path, err);
    if (rc)
        return rc;
    const struct tensor_view *a, *b;
    rc = checkpoint_require(&k, "a \"b\"/c", &a, err);
    if (!rc)
        rc = checkpoint_require(&k, "codes", &b, err);
    if (!rc && (a->bytes != sizeof back || b->bytes != sizeof back8 || b->offset % 64))
        rc = check_differs(err, "sizes %zu and %zu, offset %zu", a->bytes, b->bytes, b->offset);
    if (!rc)
        rc = checkpoint_read(&k, a, back, err);
    if (!rc)
        rc = checkpoint_read(&k, b, back8, err);
    for (size_t i = 0; i < 6 && !rc; i++)
        rc = back[i] == f32[i] ? 0 : check_differs(err, "%g came back as %g", (double)f32[i], (double)back[i]);
    if (!rc && memcmp(back8, s8, sizeof back8) != 0)
        rc = check_differs(err, "what was read is not what was written");
    size_t bytes = k.files[0].size;
    if (!rc) {
        struct checkpoint cut;
        if (checkpoint_open_memory(&cut, k.files[0].data, bytes - 1, "cut", NULL) == 0) {
            checkpoint_close(&cut);
            rc = check_differs(err, "a file that lacks its last byte was accepted");
        }
    }
    checkpoint_close(&k);
    str_addf(found, "%zu B written and read back; cut short it is refused", bytes);
    return rc;
}

// ---- ir, models, chips, plan

// x [1, 1024] by w [1024, 1024], bf16 in, f32 out.
static int product_cost(struct check_context *c, struct cost *total, struct error *err)
{
    struct model_shape shape = {0};
    struct module m;
    struct cost_row *rows;
    bool fixed;
    int n;
    module_init(&m, &c->arena, "check");
    int rc = model_module("builtin:gemm:1x1024x1024:bf16", &shape, &m, &fixed, err);
    return rc ? rc : cost_groups(&m, &c->arena, &rows, &n, total, err);
}

int check_cost(struct check_context *c, struct str *found, struct error *err)
{
    struct cost total;
    int rc = product_cost(c, &total, err);
    if (rc)
        return rc;
    if (cost_product_flop(&total) != 2097152 || total.bytes != 2103296)
        return check_differs(err, "%.0f FLOP and %.0f B", cost_product_flop(&total), total.bytes);
    str_add(found, "1x1024x1024 bf16: 2,097,152 FLOP, 2,103,296 B");
    return 0;
}

int check_policy(struct check_context *c, struct str *found, struct error *err)
{
    struct str words, spelled;
    int rc = 0, n = 0;
    (void)c;
    str_init(&words);
    str_init(&spelled);
    policy_words(&words);
    for (char *p = words.text; p && *p && !rc; n++) {
        char *end = strchr(p, '\n');
        struct policy policy, again;
        *end = '\0';
        rc = policy_parse(&policy, p, err);
        str_clear(&spelled);
        if (!rc)
            policy_spell(&policy, &spelled);
        if (!rc)
            rc = policy_parse(&again, str_text(&spelled), err);
        if (!rc && (again.w != policy.w || again.w_grain != policy.w_grain || again.w_group != policy.w_group ||
                    again.a != policy.a || again.op != policy.op || again.acc != policy.acc || again.out != policy.out))
            rc = check_differs(err, "%s spelled out is another policy: %s", p, str_text(&spelled));
        p = end + 1;
    }
    str_addf(found, "%d presets, spelled out and read again", n);
    str_release(&words);
    str_release(&spelled);
    return rc;
}

int check_tokenizer(struct check_context *c, struct str *found, struct error *err)
{
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##break\n##able\n,\nuber\n";
    static const char text[] = "UNbreakable,\xc3\x9c"
                               "BER nothing"; // with U umlaut
    const int32_t want[] = {2, 5, 6, 7, 8, 9, 1, 3};
    enum { N = sizeof want / sizeof want[0] };
    struct wordpiece_config config;
    struct wordpiece_info info;
    struct wordpiece w;
    int32_t ids[16];
    (void)c;
    wordpiece_config_default(&config);
    int rc = wordpiece_load(&w, vocabulary, sizeof vocabulary - 1, "check", &config, err);
    if (rc)
        return rc;
    rc = wordpiece_encode(&w, text, sizeof text - 1, ids, 16, &info, err);
    if (!rc && (info.n_ids != N || memcmp(ids, want, sizeof want) != 0))
        rc = check_differs(err, "%zu pieces, of which the second is %d", info.n_ids, ids[1]);
    wordpiece_release(&w);
    str_add(found, "pieces, accents, punctuation, an unknown word");
    return rc;
}

int check_chips(struct check_context *c, struct str *found, struct error *err)
{
    const struct chip *v5e;
    (void)c;
    int rc = chip_find("TPU v5 lite", &v5e, err);
    if (rc)
        return rc;
    struct quantity ridge = chip_ridge(v5e, CHIP_BF16);
    double want = 197e12 / 819e9; // both as Google prints them
    if (strcmp(v5e->name, "v5e") != 0 || fabs(ridge.value - want) > 1e-9 * want)
        return check_differs(err, "the ridge of %s is %.12g FLOP/B, not %.12g", v5e->name, ridge.value, want);
    str_addf(found, "%.1f FLOP/B in bf16", ridge.value);
    return 0;
}

int check_roofline(struct check_context *c, struct str *found, struct error *err)
{
    const struct chip *v5e;
    struct cost total;
    struct floor f;
    int rc = chip_find("v5e", &v5e, err);
    if (!rc)
        rc = product_cost(c, &total, err);
    if (!rc)
        rc = roofline_floor(&total, v5e, &c->arena, &f, err);
    if (rc)
        return rc;
    double want = 2103296 / 819e9 * 1e6;
    if (f.bound != BOUND_MEMORY || fabs(f.time.value - want) > 1e-9 * want)
        return check_differs(err, "%.12g us, not %.12g us", f.time.value, want);
    str_addf(found, "1x1024x1024 bf16 on v5e: %.3f us, memory", f.time.value);
    return 0;
}

// ---- record

int check_record(struct check_context *c, struct str *found, struct error *err)
{
    static const char config[] = "{\"schema\": \"assay.record.config/1\"}\n";
    static const char report[] = "{\"schema\": \"assay.check/1\"}\n";
    static char word[] = "check";
    char *const argv[] = {word, NULL};
    char path[512];
    const char *dir;
    struct record r, second;
    struct record_contents contents;
    int rc = check_directory(c, &dir, err);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "%s/record", dir);
    rc = record_open(&r, path, "check", 1, argv, err);
    if (rc)
        return rc;
    rc = record_config(&r, config, sizeof config - 1, err);
    if (!rc)
        rc = record_commit(&r, report, sizeof report - 1, err);
    if (rc) {
        record_abandon(&r);
        return rc;
    }
    rc = record_read(&contents, path, &c->arena, err);
    if (rc)
        return rc;
    if (strcmp(contents.config, config) != 0 || strcmp(contents.report, report) != 0)
        return check_differs(err, "what was read is not what was written");
    if (record_open(&second, path, "check", 1, argv, NULL) != ERR_USAGE)
        return check_differs(err, "a second record took the place of the first");
    str_add(found, "complete, and a second one is refused its place");
    return 0;
}

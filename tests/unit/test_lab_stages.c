// SPDX-License-Identifier: Apache-2.0
// The formulas of timed stages, without a device.
#include <string.h>

#include "lab/stages.h"
#include "lab/stages_compare.h"
#include "test.h"

TEST(lab_stages_lists_are_read)
{
    struct error err = {0};
    bool wanted[STAGES_KINDS] = {false};
    CHECK_INT(stages_parse("calib,vae", wanted, &err), 0);
    CHECK_INT(stages_parse("cold", wanted, &err), 0);
    for (int i = 0; i < STAGES_KINDS; i++)
        CHECK_INT(wanted[i], i == STAGES_CALIB || i == STAGES_VAE || i == STAGES_COLD);
    const char *const wrong[] = {"", ",", "cold,", "cold,,vae", "col", "colder", "text dit"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(stages_parse(wrong[i], wanted, &err), ERR_USAGE);
}

TEST(lab_stages_weights_are_of_the_workload)
{
    const struct {
        const char *workload, *given, *want; // NULL: refused
    } cases[] = {
        {"builtin:flux2-klein-4b", NULL, "random:1:flux2-klein-4b"},
        {"flux2-klein-9b", NULL, "random:1:flux2-klein-9b"},
        {"builtin:flux2-klein-9b", "random:7", "random:7:flux2-klein-9b"},
        {"builtin:flux2-klein-4b", "random:7:flux2-klein-4b", "random:7:flux2-klein-4b"},
        {"builtin:flux2-klein-4b", "random:7:flux2-klein-9b", NULL},
        {"builtin:flux2-klein-4b", "tiny:3", "tiny:3"},
        {"some/folder", NULL, "some/folder"},
        {"some/folder", "random:1", NULL},
    };
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        const char *out = NULL;
        int rc = stages_weights(cases[i].workload, cases[i].given, &a, &out, &err);
        CHECK_INT(rc, cases[i].want ? 0 : ERR_USAGE);
        if (cases[i].want)
            CHECK_STR(out, cases[i].want);
    }
    CHECK(stages_has("builtin:flux2-klein-base-4b"));
    CHECK(!stages_has("builtin:minilm"));
    arena_release(&a);
}

// One pass of operands rounded to bf16 is as wrong as bf16 and nearly as fast; three passes are 2^-17 off and take
// three times as long; f32 units are 2^-24 off, whatever they take.
TEST(lab_stages_products_of_f32_that_are_of_bf16_are_found)
{
    const double bf16 = 0x1p-9, rate = 380.1e12;
    CHECK(stages_f32_is_bf16(0.96 * rate, 0x1p-9, rate, bf16));
    CHECK(stages_f32_is_bf16(0.96 * rate, 0.9 * 0x1p-9, rate, bf16));
    CHECK(!stages_f32_is_bf16(rate / 3, 0x1p-17, rate, bf16));
    CHECK(!stages_f32_is_bf16(rate / 6, 0x1p-24, rate, bf16));
    CHECK(!stages_f32_is_bf16(0.96 * rate, 0x1p-24, rate, bf16)); // a CPU without units for bf16
    CHECK(!stages_f32_is_bf16(rate / 4, 0x1p-9, rate, bf16));     // as wrong, and slow enough to be emulated
}

static struct whole_floor math_of(double us)
{
    struct whole_floor f;
    for (int i = 0; i < WHOLES; i++)
        f.time[i] = quantity_make(us, "us", ORIGIN_DERIVED, "a floor");
    return f;
}

// The steps of an image of 512 x 512 in 158.1 ms on a chip of 918 TFLOP/s whose own product reaches 380.1 are known as
// 28.1 % and 67.8 %.
TEST(lab_stages_shares_of_peaks)
{
    const double flop = 40.72e12, ms = 158.1;
    struct whole_floor sheet = math_of(flop / 918e12 * 1e6), calibrated = math_of(flop / 380.1e12 * 1e6);
    CHECK_NEAR(stages_mfu(&sheet, ms, true).value, 0.2806, 5e-5);
    CHECK_NEAR(stages_mfu(&calibrated, ms, false).value, 0.678, 5e-4);
    CHECK_INT(stages_mfu(&sheet, ms, true).origin, ORIGIN_DERIVED);
    // Above the sheet something is counted wrong; above a plain product a better kernel may be.
    CHECK(isnan(stages_mfu(&sheet, 40, true).value));
    CHECK(strstr(stages_mfu(&sheet, 40, true).source, "above 1") != NULL);
    CHECK_NEAR(stages_mfu(&calibrated, 100, false).value, 1.0713, 1e-4);
    struct whole_floor none = math_of(NAN);
    none.time[WHOLE_MATH].source = "no sheet";
    CHECK(isnan(stages_mfu(&none, ms, true).value));
    CHECK_STR(stages_mfu(&none, ms, true).source, "no sheet");
}

TEST(lab_stages_verdicts)
{
    CHECK_INT(stages_verdict_of(1000, 800, NAN), STAGES_NOT_PREDICTED);
    CHECK_INT(stages_verdict_of(1000, 800, 900), STAGES_WITHIN);
    CHECK_INT(stages_verdict_of(1349, 800, 900), STAGES_WITHIN);
    CHECK_INT(stages_verdict_of(1351, 800, 900), STAGES_SLOWER);
    CHECK_INT(stages_verdict_of(721, 800, 900), STAGES_WITHIN); // calibration has its own spread
    CHECK_INT(stages_verdict_of(719, 800, 900), STAGES_TOO_FAST);
}

static void module_of(struct stages *s, enum stages_module_kind kind, double ms, double calls)
{
    s->modules[kind].done = true;
    s->modules[kind].time.ms.p50 = ms;
    s->modules[kind].calls = calls;
}

TEST(lab_stages_sums_name_the_difference)
{
    static struct stages s;
    memset(&s, 0, sizeof s);
    CHECK(isnan(stages_sums_of(&s).modules));
    CHECK(isnan(stages_sums_of(&s).request));
    module_of(&s, STAGES_M_TEXT, 10, 2); // a guided model runs it twice
    module_of(&s, STAGES_M_PREPARE, 1, 2);
    module_of(&s, STAGES_M_STEP, 5, 8); // counted in the steps
    CHECK(isnan(stages_sums_of(&s).modules));
    module_of(&s, STAGES_M_STEPWISE, 42, 1);
    module_of(&s, STAGES_M_VAE, 6, 1);
    CHECK_NEAR(stages_sums_of(&s).modules, 70, 1e-12);
    CHECK(isnan(stages_sums_of(&s).difference));
    struct stages_serving *r = &s.serving[STAGES_RESIDENT];
    r->done = true;
    r->request.ms.p50 = 80;
    r->outside_p50_ms = 7;
    struct stages_sums sums = stages_sums_of(&s);
    CHECK_NEAR(sums.request, 80, 0);
    CHECK_NEAR(sums.difference, 10, 1e-12);
    CHECK_NEAR(sums.outside, 7, 0);
    CHECK_NEAR(sums.in_turn, 3, 1e-12);
}

TEST(lab_stages_parity_of_outputs)
{
    struct error err = {0};
    struct stages_parity p;
    // Levels of 255 are round(255 (x / 2 + 1 / 2)), cut off at both ends: 0, 128, 255, 255.
    const float a[] = {-1, 0, 1, 2}, same[] = {-1, 0, 1, 2}, b[] = {-1, 0, 1 - 4 * 2 / 255.0F, 2};
    CHECK_INT(stages_parity_of(a, same, 4, true, &p, &err), 0);
    CHECK(p.compared && p.equal && isinf(p.snr_db) && isinf(p.psnr_db));
    CHECK_NEAR(p.levels_max, 0, 0);
    CHECK_INT(stages_parity_of(a, b, 4, true, &p, &err), 0);
    CHECK(p.compared && !p.equal);
    CHECK_NEAR(p.levels_max, 4, 0);
    CHECK_NEAR(p.levels_mean, 1, 0);
    CHECK_NEAR(p.psnr_db, 20 * log10(255 / 2.0), 1e-9); // one of four is 4 off: a root mean square of 2
    CHECK_NEAR(p.snr_db, 10 * log10(6 / pow(8 / 255.0, 2)), 1e-4);
    CHECK_INT(stages_parity_of(a, b, 4, false, &p, &err), 0);
    CHECK(isnan(p.levels_max) && isnan(p.psnr_db) && isfinite(p.snr_db));
}

// A module's samples are ms, and 10 % below and above it.
static json_t *document_of(double ms, double math_ms, double rate, int seed)
{
    char text[2048];
    struct error err = {0};
    snprintf(
        text, sizeof text,
        "{\"result\": {\"model\": \"m\", \"weights\": {}, \"prompt\": \"p\", \"height\": 16, \"width\": 16, "
        "\"batch\": 1, \"steps\": 4, \"text_tokens\": 512, \"guidance\": null, \"seed\": %d, "
        "\"device\": \"d\", \"policy\": \"bf16\", \"threads\": 0, "
        "\"calib\": {\"runs\": [{\"product\": \"bf16\", \"rate\": {\"value\": %g}, \"time\": {\"p50\": {\"value\": "
        "%g}}}]}, \"serving\": [], \"modules\": [{\"module\": \"text encoder\", \"samples_ns\": {\"value\": "
        "[%g, %g, %g]}, \"time\": {\"p50\": {\"value\": %g}, \"p50_low\": "
        "{\"value\": %g}, \"p50_high\": {\"value\": %g}}, \"floors\": {\"calibrated\": {\"math\": {\"value\": "
        "%g}}}}]}}",
        seed, rate, 1e12 / rate, ms * 0.9e6, ms * 1.1e6, ms * 1e6, ms, ms * 0.9, ms * 1.1, math_ms);
    return json_parse(text, strlen(text), "document", &err);
}

static double figure(const json_t *of, const char *key)
{
    return json_number_value(json_object_get(json_object_get(of, key), "value"));
}

// b is 2 times as fast where plain products let expect 1.25.
TEST(lab_stages_compared_by_what_products_let_expect)
{
    struct error err = {0};
    struct str text;
    struct jw w;
    struct stages_side a = {.name = "a", .document = document_of(200, 50, 8e11, 0)};
    struct stages_side b = {.name = "b", .document = document_of(100, 40, 1e12, 0)};
    struct stages_side other = {.name = "other", .document = document_of(100, 40, 1e12, 1)};
    str_init(&text);
    jw_init(&w, &text, true);
    const struct stages_order order = {.why = "they are records"};
    CHECK_INT(stages_compare_json(&a, &b, &order, &w, &err), 0);
    json_t *doc = json_parse(str_text(&text), text.length, "result", &err);
    const json_t *row = json_array_get(json_object_get(doc, "rows"), 0);
    CHECK_NEAR(figure(row, "speedup"), 2, 1e-12);
    CHECK_NEAR(figure(row, "speedup_low"), 180 / 110.0, 1e-12);
    CHECK_NEAR(figure(row, "speedup_high"), 220 / 90.0, 1e-12);
    CHECK_NEAR(figure(row, "expected"), 1.25, 1e-12);
    CHECK_NEAR(figure(row, "speedup_by_expected"), 1.6, 1e-12);
    CHECK_NEAR(figure(json_array_get(json_object_get(doc, "products"), 0), "speedup"), 1.25, 1e-12);
    CHECK(json_is_null(json_object_get(row, "paired")));
    CHECK(json_is_false(json_object_get(json_object_get(doc, "order"), "in_turns")));
    CHECK_STR(json_string_value(json_object_get(json_object_get(doc, "order"), "why")), "they are records");
    CHECK(json_is_false(json_object_get(json_object_get(row, "parity"), "compared"))); // nothing was kept
    CHECK_INT(stages_compare_json(&a, &other, &order, &w, &err), ERR_INPUT);
    CHECK(strstr(err.message, "another seed") != NULL);
    json_decref(doc);
    str_release(&text);
    stages_side_release(&a);
    stages_side_release(&b);
    stages_side_release(&other);
}

static json_t *samples_of(const char *of_text_encoder)
{
    char text[1024];
    struct error err = {0};
    snprintf(text, sizeof text,
             "{\"result\": {\"model\": \"m\", \"weights\": {}, \"prompt\": \"p\", \"height\": 16, \"width\": 16, "
             "\"batch\": 1, \"steps\": 4, \"text_tokens\": 512, \"guidance\": null, \"seed\": 0, \"modules\": "
             "[{\"module\": \"text encoder\", \"samples_ns\": {\"value\": [%s]}}]}}",
             of_text_encoder);
    return json_parse(text, strlen(text), "document", &err);
}

// What two sides in turns say: b's samples are those of the same rounds. NULL: the row has no pairs.
static const char *verdict_of(const char *first, const char *second, double speedup[3])
{
    static char verdict[32];
    static const char *const keys[] = {"speedup", "speedup_low", "speedup_high"};
    const struct stages_order order = {.in_turns = true};
    struct error err = {0};
    struct str text;
    struct jw w;
    struct stages_side a = {.name = "a", .document = samples_of(first)};
    struct stages_side b = {.name = "b", .document = samples_of(second)};
    str_init(&text);
    jw_init(&w, &text, true);
    CHECK_INT(stages_compare_json(&a, &b, &order, &w, &err), 0);
    json_t *doc = json_parse(str_text(&text), text.length, "result", &err);
    const json_t *row = json_array_get(json_object_get(doc, "rows"), 0);
    for (int i = 0; i < 3; i++)
        speedup[i] = figure(row, keys[i]);
    const char *found = json_string_value(json_object_get(json_object_get(row, "paired"), "verdict"));
    snprintf(verdict, sizeof verdict, "%s", found ? found : "");
    json_decref(doc);
    str_release(&text);
    stages_side_release(&a);
    stages_side_release(&b);
    return found ? verdict : NULL;
}

// The machine slows down by a factor of ten while they run, but b always takes half the time of a in the same round:
// medians by themselves could not tell. The exact interval of the median of seven is from the first to the last.
TEST(lab_stages_compared_in_turns)
{
    double s[3];
    CHECK_STR(verdict_of("10, 20, 30, 40, 60, 80, 100", "5, 10, 15, 20, 30, 40, 50", s), "faster");
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(s[i], 2, 1e-12);
    // 1/2, 1, 1, 1, 2, 2, 2 times as fast: the interval holds 1
    CHECK_STR(verdict_of("10, 20, 30, 40, 60, 80, 100", "20, 20, 30, 40, 30, 40, 50", s), "AMBIGUOUS");
    CHECK_NEAR(s[0], 1, 1e-12);
    CHECK_NEAR(s[1], 0.5, 1e-12);
    CHECK_NEAR(s[2], 2, 1e-12);
    CHECK_STR(verdict_of("5, 10, 15, 20, 30, 40, 50", "10, 20, 30, 40, 60, 80, 100", s), "slower");
    CHECK_STR(verdict_of("10, 20", "5, 10", s), "AMBIGUOUS"); // too few for an interval of 95 %
    CHECK(!verdict_of("10, 20", "5", s));                     // not of the same rounds
}

TEST(lab_stages_in_turns_where_both_fit)
{
    const char *const cpus[] = {"cpu", "cpu"}, *const unlike[] = {"cpu", "tpu:0"},
                      *const one_kind[] = {"gpu:0", "gpu:1"};
    struct klein_need host = {10, 22, true}, own = {14, 16, false}, unknown = {14, -1, true}, nothing = {0, -1, true};
    CHECK(stages_order_of((struct klein_need[]){host, host}, cpus).in_turns);
    host.free = 21; // as of the one that was asked last
    struct klein_need before = {10, 22, true};
    CHECK(!stages_order_of((struct klein_need[]){before, host}, cpus).in_turns);
    CHECK(stages_order_of((struct klein_need[]){host, own}, unlike).in_turns);
    CHECK(stages_order_of((struct klein_need[]){unknown, unknown}, cpus).in_turns);
    CHECK(stages_order_of((struct klein_need[]){nothing, nothing}, cpus).in_turns);
    CHECK(!stages_order_of((struct klein_need[]){own, own}, one_kind).in_turns);
    struct klein_need large = {14200000000, 22800000000, true};
    CHECK_STR(stages_order_of((struct klein_need[]){large, large}, cpus).why,
              "both at once need 31.2 GB of memory and 22.8 GB are free");
}

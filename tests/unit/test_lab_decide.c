// SPDX-License-Identifier: Apache-2.0
// Which policy is chosen, why the others are not, and what is advised. No program runs: the numbers are made up.
#include "lab/qualify.h"
#include "test.h"

enum { POLICIES = 4, ROUNDS = 16, TEXTS = 20, HIDDEN = 2 };

struct rig {
    struct qualify q;
    struct qualify_policy policies[POLICIES];
    double samples[POLICIES][ROUNDS];
    struct subject_tensor tensor;
    struct error err;
};

// Policies that ran, with finite numbers and the time given for all rounds.
static void rig_init(struct rig *r, const char *const *names, const double *ms, size_t n)
{
    memset(r, 0, sizeof *r);
    arena_init(&r->q.arena);
    r->q.policies = r->policies;
    r->q.n_policies = n;
    r->q.chosen = -1;
    r->q.workload.batch = 4;
    r->q.workload.bert.config.hidden_size = 64;
    r->q.workload.bert.config.intermediate_size = 128;
    for (size_t i = 0; i < n; i++) {
        struct qualify_policy *p = &r->policies[i];
        if (policy_parse(&p->policy, names[i], &r->err) != 0)
            test_fail_error(__FILE__, __LINE__, names[i], r->err.where, r->err.message);
        p->ok = true;
        p->weight_bytes = 1000;
        p->errors = (struct measures){.elements = 40, .rel_l2 = 0.01, .cosine_min = 0.99, .snr_db = 40};
        p->task = (struct retrieval){.top1 = 1, .top10 = 1, .spearman = 1};
        p->samples_ns = r->samples[i];
        p->n_samples = ROUNDS;
        for (int k = 0; k < ROUNDS; k++)
            r->samples[i][k] = ms[i] * 1e6;
        p->time.p50 = ms[i];
    }
}

static void require(struct rig *r, const char *text)
{
    r->q.has_require = true;
    if (require_parse(&r->q.require, text, qualify_metrics, &r->q.arena, &r->err) != 0)
        test_fail_error(__FILE__, __LINE__, text, r->err.where, r->err.message);
}

static int decide(struct rig *r)
{
    if (qualify_decide(&r->q, &r->err) != 0)
        test_fail_error(__FILE__, __LINE__, "qualify_decide", r->err.where, r->err.message);
    return r->q.chosen;
}

static bool advises(const struct rig *r, const char *text)
{
    for (int i = 0; i < r->q.n_advice; i++) {
        if (strstr(r->q.advice[i], text))
            return true;
    }
    for (int i = 0; i < r->q.n_advice; i++)
        printf("  %s\n", r->q.advice[i]);
    return false;
}

#define RELEASE(r) arena_release(&(r)->q.arena)

TEST(lab_decide_takes_the_fastest)
{
    static const char *const names[] = {"f32", "bf16", "w8a8"};
    struct rig r;
    rig_init(&r, names, (double[]){3, 2, 2.5}, 3);
    r.policies[2].weight_bytes = 1; // stores least, and is plainly slower
    CHECK_INT(decide(&r), 1);
    CHECK(strncmp(r.q.reason, "bf16 ran", 8) == 0);
    CHECK_INT(r.q.n_advice, 0);
    RELEASE(&r);
}

TEST(lab_decide_ties_go_to_fewer_bytes)
{
    static const char *const names[] = {"f32", "bf16", "w8a8", "w4a16"};
    struct rig r;
    // 1 % and less apart is the same; 4 % apart in every round is not.
    rig_init(&r, names, (double[]){2.0, 2.01, 2.015, 2.08}, 4);
    r.policies[1].weight_bytes = 600;
    r.policies[2].weight_bytes = 400;
    r.policies[2].scale_bytes = 199; // counts, too
    r.policies[3].weight_bytes = 1;
    CHECK_INT(decide(&r), 2);
    RELEASE(&r);
    // Now slower, now faster: the samples cannot tell.
    rig_init(&r, names, (double[]){2.0, 2.1}, 2);
    for (int k = 0; k < ROUNDS; k++)
        r.samples[1][k] = (k % 2 ? 1.7 : 2.5) * 1e6;
    r.policies[1].weight_bytes = 600;
    CHECK_INT(decide(&r), 1);
    RELEASE(&r);
    // Two rounds are too few for a verdict; when both say slower, the smaller one is not taken for the faster.
    rig_init(&r, names, (double[]){2.0, 3.0}, 2);
    r.policies[0].n_samples = r.policies[1].n_samples = 2;
    r.policies[1].weight_bytes = 600;
    CHECK_INT(decide(&r), 0);
    RELEASE(&r);
    // One round has no interval at all: the time decides.
    rig_init(&r, names, (double[]){2.0, 2.001}, 2);
    r.policies[0].n_samples = r.policies[1].n_samples = 1;
    r.policies[1].weight_bytes = 600;
    CHECK_INT(decide(&r), 0);
    RELEASE(&r);
}

TEST(lab_decide_only_among_those_that_meet)
{
    static const char *const names[] = {"f32", "bf16", "w8a8", "w4a16"};
    struct rig r;
    rig_init(&r, names, (double[]){4, 3, 2, 1}, 4);
    require(&r, "cosine_min>=0.999 and top1>=0.9");
    r.policies[0].errors.cosine_min = 1;
    r.policies[1].errors.cosine_min = 0.999; // at the limit
    r.policies[2].errors.cosine_min = 0.9989;
    r.policies[3].ok = false; // the fastest, and it died
    r.policies[3].error.code = ERR_DEVICE;
    CHECK_INT(decide(&r), 1);
    CHECK(r.policies[0].meets && r.policies[1].meets && !r.policies[2].meets && !r.policies[3].meets);
    CHECK_INT(r.policies[2].n_unmet, 1);
    CHECK_STR(r.policies[2].unmet[0], "cosine_min 0.9989 < 0.999");
    CHECK_STR(r.policies[3].unmet[0], "it could not be run");
    CHECK(strstr(r.q.reason, "bf16 meets the requirement") != NULL);
    CHECK_INT(r.q.n_advice, 0); // somebody meets it
    RELEASE(&r);
    // Every clause that is not met is named; a number that is not known meets none.
    rig_init(&r, names, (double[]){1}, 1);
    require(&r, "cosine_min>=0.999 and p50_ms<=1 and items_per_s>=4000 and rel_l2<=1 and snr_db>=0");
    r.policies[0].errors.rel_l2 = NAN;
    r.policies[0].errors.snr_db = INFINITY;
    CHECK_INT(decide(&r), -1);
    CHECK_INT(r.policies[0].n_unmet, 2);
    CHECK_STR(r.policies[0].unmet[1], "rel_l2 is not known (<= 1 is asked for)");
    CHECK_STR(r.q.reason, "no policy meets the requirement");
    RELEASE(&r);
}

TEST(lab_decide_never_what_is_not_finite)
{
    static const char *const names[] = {"f16", "f32"};
    struct rig r;
    rig_init(&r, names, (double[]){1, 2}, 2);
    r.policies[0].errors.nonfinite_result = 3;
    CHECK_INT(decide(&r), 1); // without any requirement
    CHECK_STR(r.policies[0].unmet[0], "3 of 40 elements of its embeddings are not finite");
    RELEASE(&r);
    rig_init(&r, names, (double[]){1, 2}, 1);
    require(&r, "p50_ms<=2"); // which says nothing of numbers
    r.policies[0].errors.nonfinite_result = 3;
    CHECK_INT(decide(&r), -1);
    CHECK(advises(&r, "f16: numbers beyond the range of f16: --policy bf16"));
    RELEASE(&r);
    rig_init(&r, names, (double[]){1, 2}, 2);
    r.policies[0].errors.nonfinite_reference = r.policies[1].errors.nonfinite_reference = 40;
    CHECK_INT(decide(&r), -1);
    CHECK_STR(r.q.reason, "no policy gives finite results");
    CHECK(advises(&r, "check the checkpoint"));
    CHECK_INT(r.q.n_advice, 1); // once, not for every policy
    RELEASE(&r);
}

TEST(lab_decide_advice_follows_what_is_missed)
{
    static const struct {
        const char *policy, *require, *advice;
    } cases[] = {
        {"w4a16", "top1>=2", "w4a16: finer groups: --policy w=s4/group:16,a=bf16"},
        {"w=int4/group:16,a=bf16", "top1>=2", "more bits: --policy w8a16"},
        {"w8a8", "top1>=2", "w8a8: floating activations keep the stored bytes: --policy w8a16"},
        {"w8a16", "top1>=2", "w8a16: groups in place of channels: --policy w=s8/group:64,a=bf16"},
        {"w=int8/group:16,a=bf16", "top1>=2", "a wider float format: --policy f32"},
        {"bf16", "top1>=2", "bf16: a wider float format: --policy f32"},
        {"w=f32,op=bf16", "top1>=2", "a wider float format: --policy f32"},
        {"f32", "top1>=2", "f32: the requirement asks for more than arithmetic in f32 gives"},
        {"w8a8", "p50_ms<=0.1", "w8a8: accurate enough but too slow"},
        {"w8a8", "p50_ms<=0.1 and items_per_s>=1e9 and top1>=0.5", "w8a8: accurate enough but too slow"},
        {"f32", "weight_bytes<=1 and p50_ms<=0.1", "f32: accurate enough but too large"},
        {"w8a8", "p50_ms<=0.1 and top1>=2", "w8a8: floating activations"},
        {"w8a8-static", "top1>=2", "a scale for every row, made in every call: --policy w=s8/channel,a=s8/row"},
        {"w=int8,a=uint8/tensor", "top1>=2", "--policy w=s8/channel,a=u8/row"},
        {"w=int8/tensor,a=int16/row", "top1>=2", "a scale for every channel: --policy w=s8/channel,a=s16/row"},
        {"fp8", "top1>=2", "--policy w=f8e4m3fn/channel,a=f8e4m3fn/row"},
        {"w=f8e5m2/channel,a=f8e5m2/row", "top1>=2", "--policy w=f8e5m2/channel,a=bf16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r;
        rig_init(&r, &cases[i].policy, (double[]){1}, 1);
        require(&r, cases[i].require);
        CHECK_INT(decide(&r), -1);
        CHECK(advises(&r, cases[i].advice));
        for (int k = 0; k < r.q.n_advice; k++) // never a lower bar
            CHECK(!strstr(r.q.advice[k], "lower") && !strstr(r.q.advice[k], "relax"));
        // A policy that is advised can be asked for.
        const char *option = strstr(r.q.advice[0], "--policy ");
        struct policy advised;
        char name[64];
        snprintf(name, sizeof name, "%s", option ? option + 9 : "f32");
        name[strcspn(name, " ")] = '\0';
        CHECK_INT(policy_parse(&advised, name, &r.err), 0);
        RELEASE(&r);
    }
}

TEST(lab_decide_names_the_weight_that_loses_most)
{
    static const char *const names[] = {"w8a8"};
    struct rig r;
    struct subject_tensor tensors[3] = {
        {"a", "g", {.rel_l2 = 0.1}}, {"b", "g", {.rel_l2 = 0.3}}, {"c", "g", {.rel_l2 = NAN}}};
    rig_init(&r, names, (double[]){1}, 1);
    require(&r, "top1>=2");
    r.policies[0].subject.tensors = tensors;
    r.policies[0].subject.n_tensors = 3;
    CHECK_INT(decide(&r), -1);
    CHECK(advises(&r, "the weight that loses most is b (relative L2 0.3)"));
    RELEASE(&r);
    // Nothing lost, or nothing to lose: no such advice, and no word of nan.
    tensors[0].stats.rel_l2 = tensors[1].stats.rel_l2 = 0;
    rig_init(&r, names, (double[]){1}, 1);
    require(&r, "top1>=2");
    r.policies[0].subject.tensors = tensors;
    r.policies[0].subject.n_tensors = 3;
    decide(&r);
    CHECK_INT(r.q.n_advice, 1);
    RELEASE(&r);
}

// A worker that failed is closed, and what it knew of its weights is gone: nobody looks at it.
TEST(lab_decide_leaves_failed_policies_alone)
{
    static const char *const names[] = {"w8a8", "f32"};
    struct rig r;
    rig_init(&r, names, (double[]){1, 2}, 2);
    require(&r, "top1>=2");
    r.policies[0].ok = false;
    subject_close(&r.policies[0].subject);
    CHECK_INT(decide(&r), -1);
    CHECK_INT(r.q.n_advice, 1);
    CHECK(advises(&r, "f32: "));
    RELEASE(&r);
}

// ---- subsets and errors

static void embed(double *rows, size_t i, double angle)
{
    rows[HIDDEN * i] = cos(angle);
    rows[HIDDEN * i + 1] = sin(angle);
}

TEST(lab_decide_subsets_and_their_errors)
{
    static double reference[TEXTS * HIDDEN], result[TEXTS * HIDDEN];
    struct text_facts facts[TEXTS] = {{0}};
    struct rig r;
    rig_init(&r, (const char *const[]){"f32"}, (double[]){1}, 1);
    r.q.workload.bert.config.hidden_size = HIDDEN;
    r.q.workload.n_texts = TEXTS;
    r.q.workload.facts = facts;
    r.q.reference = reference;
    r.policies[0].result = result;
    // Gaps between neighbours grow, so the nearest text is always the one before, but for the first.
    double angle = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        angle += 0.01 * (double)(i * i);
        embed(reference, i, angle);
        embed(result, i, angle);
        facts[i] = (struct text_facts){.tokens = i < 3 ? 49 : 48, .most_pieces = i == 7 ? 4 : 3};
    }
    embed(result, 7, 0.3); // the rare word's embedding went astray
    REQUIRE_OK(qualify_subsets(&r.q, &r.err), &r.err);
    CHECK_INT(r.q.subset_texts[1], 1);
    CHECK_INT(r.q.subset_texts[2], 3); // more than 48 tokens
    CHECK_INT(r.q.subset_texts[0], 2); // a tenth
    CHECK(r.q.margin_limit >= 0);
    REQUIRE_OK(qualify_judge(&r.q, &r.policies[0], &r.err), &r.err);
    double astray = reference[14] * result[14] + reference[15] * result[15];
    CHECK_NEAR(r.policies[0].subset_cosine_min[1], astray, 1e-15); // of unit vectors
    CHECK_NEAR(r.policies[0].errors.cosine_min, astray, 1e-15);
    CHECK_NEAR(r.policies[0].subset_cosine_min[2], 1, 1e-15);
    // One that is not finite: its subset has no number, whatever comes after it, the others have.
    result[2] = NAN;
    REQUIRE_OK(qualify_judge(&r.q, &r.policies[0], &r.err), &r.err);
    CHECK(isnan(r.policies[0].subset_cosine_min[2]));
    CHECK_NEAR(r.policies[0].subset_cosine_min[1], astray, 1e-15);
    CHECK_INT(r.policies[0].errors.nonfinite_result, 1);
    // A reference with a text that is not finite still has margins; without any there is none, and it is said.
    char rule[160];
    reference[10] = NAN;
    memset(r.q.subset_texts, 0, sizeof r.q.subset_texts);
    REQUIRE_OK(qualify_subsets(&r.q, &r.err), &r.err);
    CHECK(isfinite(r.q.margin_limit));
    CHECK(strstr(qualify_subset_rule(&r.q, 0, rule), "lowest tenth") != NULL);
    for (size_t i = 0; i < TEXTS * HIDDEN; i++)
        reference[i] = NAN;
    memset(r.q.subset_texts, 0, sizeof r.q.subset_texts);
    REQUIRE_OK(qualify_subsets(&r.q, &r.err), &r.err);
    CHECK(isnan(r.q.margin_limit));
    CHECK_INT(r.q.subset_texts[0], 0);
    CHECK_STR(qualify_subset_rule(&r.q, 0, rule), "no embedding of f64 is finite: no margin is known");
    RELEASE(&r);
}

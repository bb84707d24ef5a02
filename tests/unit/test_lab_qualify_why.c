// SPDX-License-Identifier: Apache-2.0
// Two policies with times that are made up, and programs in which the reason is known by construction.
#include "lab/qualify_why.h"

#include "ir/hlo_parse.h"
#include "test.h"

enum { N = 12 };

static const char wide[] = "HloModule m\n\n"
                           "ENTRY e (x: bf16[4,64], w: bf16[64,32]) -> f32[4,32] {\n"
                           "  x = bf16[4,64] parameter(0)\n  w = bf16[64,32] parameter(1)\n"
                           "  ROOT d = f32[4,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
static const char narrow_w8a16[] =
    "HloModule m\n\n"
    "ENTRY e (x: bf16[4,64], w: s8[64,32]) -> f32[4,32] {\n"
    "  x = bf16[4,64] parameter(0)\n  w = s8[64,32] parameter(1)\n"
    "  c = bf16[64,32] convert(w), metadata={op_name=\"mlp.up\"}\n"
    "  ROOT d = f32[4,32] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
static const char narrow_fp8[] =
    "HloModule m\n\n"
    "most (a: f32[], b: f32[]) -> f32[] {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
    "  ROOT m = f32[] maximum(a, b)\n}\n\n"
    "ENTRY e (x: f32[4,64], w: f8e4m3fn[64,32]) -> f32[4,32] {\n"
    "  x = f32[4,64] parameter(0)\n  w = f8e4m3fn[64,32] parameter(1)\n  low = f32[] constant(0)\n"
    "  s = f32[] reduce(x, low), dimensions={0,1}, to_apply=most\n"
    "  b = f32[4,64] broadcast(s), dimensions={}\n  v = f32[4,64] divide(x, b)\n"
    "  q = f8e4m3fn[4,64] convert(v)\n  y = f32[4,64] convert(q)\n  c = f32[64,32] convert(w)\n"
    "  ROOT d = f32[4,32] dot(y, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";

struct made {
    struct qualify q;
    struct qualify_options options;
    struct qualify_policy policies[2];
    struct parameter parameters[2];
    struct worker_info device;
    struct worker_device list;
    double samples[2][N];
};

// `ratio` is the second policy's time over the first one's.
static bool make(struct made *m, const char *policy, const char *program, double ratio)
{
    static const char *const names[] = {"bf16"};
    struct error e = {0};
    int rc = 0;
    memset(m, 0, sizeof *m);
    setenv("XDG_CACHE_HOME", test_dir(), 1); // no calibration
    arena_init(&m->q.arena);
    m->q.options = &m->options;
    m->options.workload.directory = "a model";
    m->options.workload.text_path = "texts";
    m->q.workload.batch = 32;
    m->q.policies = m->policies;
    m->q.n_policies = 2;
    m->device = (struct worker_info){.platform_name = "cpu", .n_devices = 1, .devices = &m->list};
    m->q.device = &m->device;
    m->parameters[1].role = ROLE_WEIGHT;
    for (int i = 0; i < 2 && !rc; i++) {
        struct qualify_policy *p = &m->policies[i];
        const char *text = i ? program : wide;
        struct hlo_parsed parsed;
        rc = policy_parse(&p->policy, i ? policy : names[0], &e);
        if (!rc && text)
            rc = hlo_parse(&parsed, text, strlen(text), "a test", false, &m->q.arena, &e);
        if (!rc && text) {
            p->subject.program.optimized = (char *)(uintptr_t)parsed.message.data;
            p->subject.program.optimized_length = parsed.message.size;
        }
        p->ok = true;
        p->weight_bytes = i ? 2048 : 4096;
        p->subject.module.parameters = m->parameters;
        p->subject.module.n_parameters = 2;
        p->subject.program.memory.temporaries = i ? 5000 : 100;
        p->samples_ns = m->samples[i];
        p->n_samples = N;
        for (int k = 0; k < N; k++)
            m->samples[i][k] = (1e6 + 1e3 * k) * (i ? ratio : 1);
        p->time.p50 = i ? ratio : 1;
    }
    if (!rc)
        rc = qualify_explain(&m->q, &e);
    if (rc)
        printf("  %s: %s\n", e.where, e.message);
    return rc == 0;
}

static const struct why_reason *find(const struct qualify_why *w, const char *kind)
{
    for (int i = 0; w && i < w->n; i++) {
        if (strcmp(w->reasons[i].kind, kind) == 0)
            return &w->reasons[i];
    }
    return NULL;
}

static double figure_of(const struct why_reason *r, const char *name)
{
    for (int i = 0; r && i < r->n_figures; i++) {
        if (strcmp(r->figures[i].name, name) == 0)
            return r->figures[i].value.value;
    }
    return NAN;
}

TEST(lab_why_weights_are_widened)
{
    struct made m;
    REQUIRE(make(&m, "w8a16", narrow_w8a16, 1.25));
    CHECK(m.policies[0].why == NULL); // nothing stores more
    const struct qualify_why *w = m.policies[1].why;
    REQUIRE(w);
    CHECK_INT(w->against, 0);
    CHECK_NEAR(w->ratio.ratio, 1.25, 1e-9);
    CHECK(w->unread == NULL);
    const struct why_reason *r = find(w, "weights widened");
    REQUIRE(r);
    CHECK(figure_of(r, "weights") == 1 && figure_of(r, "elements") == 2048);
    CHECK(figure_of(r, "read") == 2048 && figure_of(r, "written") == 4096);
    CHECK_STR(r->where->largest[0].scope, "mlp.up");
    CHECK_STR(r->command, "assay qualify 'a model' --text texts --policy bf16 --policy w8a16");
    r = find(w, "temporaries");
    REQUIRE(r);
    CHECK(figure_of(r, "largest") == 4096 && figure_of(r, "planned") == 5000 && figure_of(r, "planned_against") == 100);
    r = find(w, "batch");
    REQUIRE(r);
    double moved = 2 * 4 * 64 + 2048 + 2 * 4096 + 4 * 4 * 32; // x, codes, the wide weight twice, the result
    CHECK_NEAR(figure_of(r, "intensity"), 2.0 * 4 * 64 * 32 / moved, 1e-9);
    CHECK(isnan(figure_of(r, "ridge")) && strstr(r->text, "bench --calibrate") != NULL);
    CHECK(find(w, "quantisation") == NULL && find(w, "products") == NULL);
    arena_release(&m.q.arena);
}

TEST(lab_why_products_stay_wide_and_activations_are_quantised)
{
    struct made m;
    REQUIRE(make(&m, "fp8", narrow_fp8, 3));
    const struct qualify_why *w = m.policies[1].why;
    REQUIRE(w);
    const struct why_reason *r = find(w, "products");
    REQUIRE(r);
    CHECK(figure_of(r, "share") == 1 && strstr(r->text, "multiply f32") != NULL);
    CHECK(strstr(r->command, "--policy fp8 --emulate") != NULL);
    r = find(w, "quantisation");
    REQUIRE(r);
    CHECK(figure_of(r, "activations") == 1 && figure_of(r, "elements") == 256);
    r = find(w, "weights widened");
    REQUIRE(r);
    CHECK(figure_of(r, "written") == 4.0 * 2048);
    CHECK(strstr(r->changes, "quantised products") != NULL);
    arena_release(&m.q.arena);
}

TEST(lab_why_only_where_it_is_not_faster)
{
    struct made m;
    REQUIRE(make(&m, "w8a16", narrow_w8a16, 0.8));
    CHECK(m.policies[1].why == NULL);
    arena_release(&m.q.arena);
    REQUIRE(make(&m, "w8a16", NULL, 1.25)); // the plugin keeps its program to itself
    REQUIRE(m.policies[1].why);
    CHECK_INT(m.policies[1].why->n, 0);
    CHECK(strstr(m.policies[1].why->unread, "does not hand over") != NULL);
    arena_release(&m.q.arena);
}

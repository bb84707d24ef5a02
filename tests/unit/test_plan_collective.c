// SPDX-License-Identifier: Apache-2.0
// Collectives on slices, and the layouts of FLUX.2 klein on eight v6e chips, against figures worked out by hand: four
// links of 100 GB/s a chip; a slice of 2x4 does not wrap, so a corner has two of them, and two cross its middle.
#include "plan/collective.h"

#include "lab/price_layout.h"
#include "test.h"

static struct network network(const char *target)
{
    struct chip_target t;
    struct network n = {0};
    struct error e = {0};
    CHECK(chip_target_parse(target, &t, &e) == 0 && network_of(&t, &n, &e) == 0);
    return n;
}

TEST(plan_collective_links_of_slices)
{
    static const struct {
        const char *target;
        int fewest, cut;
    } slices[] = {{"v6e:2x4", 2, 2},    {"v6e:4x4", 2, 4},    {"v6e:8x16", 3, 16}, // wraps on the axis of 16 alone
                  {"v6e:16x16", 4, 32}, {"v5p:4x4x4", 6, 32}, {"v5p:2x2x4", 3, 4}, {"h100:8", 1, 4}};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        struct network n = network(slices[i].target);
        CHECK_INT(n.fewest_links, slices[i].fewest);
        if (!CHECK_INT(n.cut_links, slices[i].cut))
            printf("  %s\n", slices[i].target);
    }
}

// 7.751 GB of weights gathered by eight: 6.782 GB into each chip, 16.956 ms at 400 GB/s, twice that by two links.
// Activations V = 1536 x 3072 x 2 B: 25 attentions send four each, 30 sums (35 in a published count) are added up.
TEST(plan_collective_klein_by_hand)
{
    struct network n = network("v6e:2x4");
    double v = 1536.0 * 3072 * 2;
    struct collective_cost c = collective_cost(&n, COLLECTIVE_ALL_GATHER, 3875544576.0 * 2, 25);
    CHECK_NEAR(c.bytes / 1e9, 6.782, 5.1e-4);
    CHECK_NEAR(c.ports_s * 1e3, 16.956, 5.1e-4);
    CHECK_NEAR(c.topology_s * 1e3, 33.9, 0.051);
    c = collective_cost(&n, COLLECTIVE_ALL_TO_ALL, 100 * v, 100);
    CHECK_NEAR(c.bytes / 1e6, 103.2, 0.051);
    CHECK_NEAR(c.ports_s * 1e3, 0.258, 5.1e-4);
    CHECK_NEAR(c.topology_s * 1e3, 1.18, 5.1e-3);
    c = collective_cost(&n, COLLECTIVE_ALL_REDUCE, 35 * v, 35);
    CHECK_NEAR(c.ports_s * 1e3, 1.445, 5.1e-4);
    CHECK_NEAR(c.topology_s * 1e3, 2.89, 5.1e-3);
    c = collective_cost(&n, COLLECTIVE_ALL_REDUCE, 30 * v, 30);
    CHECK_NEAR(c.ports_s * 1e3, 1.239, 5.1e-4);
}

TEST(plan_collective_rules)
{
    struct network ring = network("v6e:16x16"), line = network("v6e:4x4"), one = network("v6e:1x1");
    struct collective_cost gather = collective_cost(&ring, COLLECTIVE_ALL_GATHER, 1e12, 1);
    struct collective_cost reduce = collective_cost(&ring, COLLECTIVE_ALL_REDUCE, 1e12, 1);
    CHECK_NEAR(reduce.topology_s, 2 * gather.topology_s, 1e-12);
    CHECK_NEAR(gather.topology_s, gather.ports_s, 1e-12); // it wraps on every axis
    CHECK(collective_cost(&line, COLLECTIVE_ALL_GATHER, 1e12, 1).topology_s > 1.8 * gather.topology_s);
    // Little to send: hops. 16 + 16 of half a ring each; 3 + 3 of a line.
    CHECK_NEAR(collective_cost(&ring, COLLECTIVE_ALL_GATHER, 1, 1).topology_s, 16e-6, 1e-12);
    CHECK_NEAR(collective_cost(&line, COLLECTIVE_ALL_GATHER, 1, 10).topology_s, 60e-6, 1e-12);
    CHECK_NEAR(collective_cost(&line, COLLECTIVE_PERMUTE, 1e12, 1).topology_s, 15.0 / 16 * 1e12 / 100e9, 1e-6);
    CHECK(collective_cost(&one, COLLECTIVE_ALL_REDUCE, 1e12, 1).topology_s == 0);
    // Two slices: half of everything crosses between them, 25 GB/s out of each machine. 2x4 chips are one.
    // Through a switch every chip's own link is what counts, not the cut.
    struct network switched = network("h100:8");
    struct collective_cost all = collective_cost(&switched, COLLECTIVE_ALL_TO_ALL, 1e12, 1);
    CHECK_NEAR(all.topology_s, 7.0 / 64 * 1e12 / 450e9, 1e-9);
    CHECK_NEAR(all.topology_s, all.ports_s, 1e-9);
    struct network two = network("v6e:2x4*2");
    CHECK_INT(two.slices, 2);
    CHECK_INT(two.chips, 8);
    double inside = 7.0 / 8 * 1e12 / 200e9;
    CHECK_NEAR(collective_cost(&two, COLLECTIVE_ALL_GATHER, 1e12, 1).topology_s, inside + 0.5e12 / two.dcn, 1e-6);
    CHECK_NEAR(collective_cost(&two, COLLECTIVE_ALL_REDUCE, 1e12, 1).topology_s, 2 * inside + 1e12 / two.dcn, 1e-6);
}

static const struct layout_price *layout(const struct layouts *l, const char *name)
{
    static const struct layout_price none;
    for (int i = 0; i < l->n; i++) {
        if (strcmp(l->rows[i].name, name) == 0)
            return &l->rows[i];
    }
    test_check(false, __FILE__, __LINE__, name);
    return &none;
}

TEST(lab_price_layouts_of_klein)
{
    static const char *const chips[] = {"v6e:2x4"};
    struct price p;
    struct layouts l;
    struct error e = {0};
    struct price_options o = {.workload = "builtin:flux2-klein-4b", .chips = chips, .n_chips = 1};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], NULL, 0, &l, &e), &e);
    CHECK_INT(l.n, 8);
    const struct layout_price *ulysses = layout(&l, "ulysses"), *tp = layout(&l, "tp"), *dp = layout(&l, "dp");
    const struct layout_price *once = layout(&l, "fsdp, gathered once"), *every = layout(&l, "fsdp, every call");
    // A step, and all four of a request.
    CHECK_NEAR(once->parts[1].comms.ports_s * 1e3, 16.956, 5.1e-4);
    CHECK_NEAR(ulysses->parts[1].comms.ports_s * 1e3, 0.258, 5.1e-4);
    CHECK_NEAR(ulysses->parts[1].times * ulysses->parts[1].comms.ports_s * 1e3, 1.03, 5.1e-3);
    CHECK_NEAR(ulysses->parts[1].times * ulysses->parts[1].comms.topology_s * 1e3, 4.72, 5.1e-3);
    CHECK_NEAR(tp->parts[1].comms.ports_s * 1e3, 1.239, 5.1e-4);
    CHECK_NEAR(every->parts[1].times * every->parts[1].comms.ports_s * 1e3, 67.8, 0.051);
    // Arithmetic of one image over eight chips; a batch of one is not divided among them.
    CHECK_NEAR(ulysses->math_s * 1e3, 46.114e3 / 8 / 918, 1e-3);
    CHECK_NEAR(dp->math_s * 1e3, 46.114e3 / 918, 1e-3);
    CHECK(dp->bytes == 0 && dp->chips == 1 && tp->chips == 8);
    CHECK(layout(&l, "ep")->reason != NULL);
    for (int i = 0; i < l.n; i++) {
        const struct layout_price *row = &l.rows[i];
        CHECK(row->serial_s >= row->overlapped_s);
        CHECK(!i || l.rows[i - 1].reason || row->reason || l.rows[i - 1].serial_s <= row->serial_s);
    }
    // By the links of a slice that does not wrap, a step and (times four) an image.
    CHECK_NEAR(once->parts[1].comms.topology_s * 1e3, 33.9, 0.051);
    CHECK_NEAR(tp->parts[1].times * tp->parts[1].comms.topology_s * 1e3, 4 * 2 * 1.239, 5.1e-3);
    // Scope, topology, bounds, direction of bounds, and what was published.
    static const char *const says[] = {"of a whole request (batch 1), all its calls", "chips with 2 links in use",
                                       "Memory is in both, on one chip and on many",
                                       "is an upper bound on what is possible",
                                       "35 sums where a double block needs two and a single block one: 30, or 1.24 ms"};
    int notes = 0;
    for (const char *note; (note = layouts_note(&p, &l, notes, &e)) != NULL; notes++) {
        if (CHECK(notes < 5) && !CHECK(strstr(note, says[notes])))
            printf("  %s\n", note);
    }
    CHECK_INT(notes, 5);
    // Eight images at once: each chip has one.
    price_close(&p);
    o.shape.batch = 8;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], NULL, 0, &l, &e), &e);
    CHECK_NEAR(layout(&l, "dp")->math_s * 1e3, 46.114e3 / 918, 1e-3);
    CHECK_STR(l.rows[0].name, "dp");
    price_close(&p);
}

TEST(lab_price_layouts_that_cannot_be)
{
    static const char *const eight[] = {"v6e:2x4"}, *const many[] = {"v6e:8x8"}, *const one[] = {"v6e"};
    static const char *const mixed[] = {"dp=2,tp=5"}, *const tp[] = {"tp"};
    struct price p;
    struct layouts l;
    struct error e = {0};
    struct price_options o = {.workload = "builtin:flux2-klein-4b", .chips = eight, .n_chips = 1};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    CHECK_INT(price_layouts(&p, &p.targets[0], mixed, 1, &l, &e), ERR_USAGE);
    CHECK(strstr(e.message, "8") != NULL);
    error_clear(&e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], tp, 1, &l, &e), &e);
    CHECK_INT(l.n, 1);
    price_close(&p);
    o.chips = many; // 24 heads over 64 ways
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], tp, 1, &l, &e), &e);
    CHECK(l.rows[0].reason && strstr(l.rows[0].reason, "64"));
    price_close(&p);
    o.chips = one;
    o.layouts = tp;
    o.n_layouts = 1;
    CHECK_INT(price_open(&p, &o, &e), ERR_USAGE);
    price_close(&p);
}

// Pipelines of Llama 3.1 8B (32 layers, a stream of 4096 in bf16) over eight chips, by hand: microbatches + stages - 1
// turns, each of which reads a stage's weights.
TEST(lab_price_layouts_of_pipelines)
{
    static const char *const chips[] = {"v6e:2x4"}, *const layouts[] = {"pp=8", "pp=8,mb=4", "pp=8,mb=3", "pp=4,dp=2"};
    struct price p;
    struct layouts l;
    struct error e = {0};
    struct price_options o = {
        .workload = "builtin:llama-3.1-8b", .chips = chips, .n_chips = 1, .shape = {.batch = 8, .seq = 512}};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], layouts, 4, &l, &e), &e);
    double flop = cost_product_flop(&p.total), weights = p.total.weight_bytes, rest = p.total.bytes_merged - weights;
    double stream = 8.0 * 512 * 4096 * 2, token = 8.0 * 4096 * 2;
    const struct layout_price *each = layout(&l, "pp=8"), *four = layout(&l, "pp=8,mb=4"),
                              *three = layout(&l, "pp=8,mb=3"), *two = layout(&l, "dp=2,pp=4");
    CHECK_NEAR(each->math_s, flop / 918e12 / 8 * (8 + 7) / 8, 1e-9);
    CHECK_NEAR(each->memory_s, (weights / 8 + rest / 8 / 8) * 15 / 1638e9, 1e-6);
    CHECK_NEAR(four->math_s, flop / 918e12 / 8 * (4 + 7) / 4, 1e-9);
    CHECK_NEAR(four->memory_s, (weights / 8 + rest / 4 / 8) * 11 / 1638e9, 1e-6);
    // Ten turns end with a hand-over of a quarter of the batch, over one link of 100 GB/s, or at least a hop of 1 us.
    CHECK_NEAR(four->parts[0].comms.bytes, stream, 1);
    CHECK_NEAR(four->parts[0].comms.topology_s, 10 * stream / 4 / 100e9, 1e-12);
    CHECK_NEAR(four->parts[1].comms.bytes, token, 1);
    CHECK_NEAR(four->parts[1].comms.topology_s, 10 * 1e-6, 1e-12);
    CHECK(three->reason && strstr(three->reason, "mb=3 does not divide the 8 of the batch"));
    CHECK_NEAR(two->math_s, flop / 918e12 / 8 * (4 + 3) / 4, 1e-9);
    CHECK(strstr(layouts_note(&p, &l, 0, &e), "microbatches + stages - 1") != NULL);
    price_close(&p);
}

// Mixtral over eight chips, by hand: each has one expert of every layer, and a copy of all else; a token's stream of
// 4096 in bf16 goes to two experts and comes back, 32 times.
TEST(lab_price_layouts_of_experts)
{
    static const char *const chips[] = {"v6e:2x4"}, *const layouts[] = {"ep", "dp=2,ep=4", "tp", "ep=2,pp=4"};
    struct price p;
    struct layouts l;
    struct error e = {0};
    struct price_options o = {
        .workload = "builtin:mixtral-8x7b", .chips = chips, .n_chips = 1, .shape = {.batch = 8, .seq = 512}};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], layouts, 4, &l, &e), &e);
    const struct layout_price *ep = layout(&l, "ep"), *two = layout(&l, "dp=2,ep=4"), *tp = layout(&l, "tp"),
                              *stages = layout(&l, "pp=4,ep=2");
    double experts = 2.0 * 32 * 8 * 3 * 4096 * 14336, all = (double)p.weight_bytes;
    double rows = 8.0 * 512 * 2 * 4096 * 2 * 32;
    CHECK_NEAR((double)p.expert_bytes, experts, 0);
    CHECK_NEAR(ep->weight_bytes, all - experts * 7 / 8, 1);
    CHECK_NEAR(two->weight_bytes, all - experts * 3 / 4, 1);
    CHECK_NEAR(stages->weight_bytes, (all - experts / 2) / 4, 1);
    CHECK(!ep->reason && !two->reason && !stages->reason && ep->chips == 8);
    CHECK_NEAR(ep->math_s, cost_product_flop(&p.total) / 918e12 / 8, 1e-9);
    CHECK_NEAR(ep->parts[0].comms.bytes, 2 * rows / 8 * 7 / 8, 1);
    CHECK_NEAR(ep->parts[0].comms.topology_s, 2 * rows / 4 / (2 * 100e9), 1e-9); // two links cross the cut of 2x4
    CHECK_NEAR(two->parts[0].comms.bytes, 2 * rows / 2 / 4 * 3 / 4, 1);          // half of the batch among four
    // A step of eight tokens needs 7.2 of eight experts: its weights are read once, an eighth on each chip.
    CHECK(ep->memory_s > tp->memory_s && ep->memory_s < 8 * tp->memory_s);
    // A chip alone with one sequence works for all experts' chips.
    price_close(&p);
    o.shape.batch = 1;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], layouts, 1, &l, &e), &e);
    CHECK(l.rows[0].math_s > cost_product_flop(&p.total) / 918e12 / 8 &&
          l.rows[0].math_s < cost_product_flop(&p.total) / 918e12);
    price_close(&p);
    // Among several dp groups each has fewer tokens, which need fewer experts.
    o.workload = "builtin:deepseek-v2-lite";
    o.shape.batch = 8;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    static const char *const dp[] = {"dp"}, *const six[] = {"ep=8"};
    REQUIRE_OK(price_layouts(&p, &p.targets[0], dp, 1, &l, &e), &e);
    CHECK(l.rows[0].memory_s < 0.6 * p.total.bytes_merged / 1638e9);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], six, 1, &l, &e), &e);
    CHECK(l.rows[0].reason == NULL && l.rows[0].weight_bytes < (double)p.weight_bytes / 4);
    price_close(&p);
}

// What stands where: the ways that send most have axes of their own.
TEST(plan_mesh_places)
{
    static const struct {
        const char *target, *layout;
        int way, fewest, cut; // which, and the links of its groups
        bool wraps;
        double share; // of a link
        const char *place;
    } cases[] = {{"v6e:2x4", "dp=2,tp=4", 0, 1, 1, false, 1, "4 of axis 2, a line"},
                 {"v6e:2x4", "dp=2,tp=4", 1, 1, 1, false, 1, "2 of axis 1, a line"},
                 {"v6e:2x4", "fsdp=4,tp=2", 0, 1, 1, false, 1, "2 of axis 1, a line"},
                 {"v6e:16x16", "dp=16,tp=16", 0, 2, 2, true, 1, "16 of axis 1, a ring"},
                 // A block of 4 of an axis that wraps is a line; the rest of it meets every fourth chip, on a ring.
                 {"v6e:16x16", "fsdp=64,tp=4", 0, 1, 1, false, 1, "4 of axis 1, a line"},
                 {"v6e:16x16", "fsdp=64,tp=4", 1, 4, 8, true, 0.25, "a block apart"},
                 {"v5p:4x4x4", "dp=4,tp=16", 0, 4, 8, true, 1, "4 of axis 1, a ring and 4 of axis 2, a ring"},
                 {"v6e:2x4*2", "dp=2,tp=8", 1, 0, 1, false, 1, "2 slices"},
                 {"h100:8", "dp=2,tp=4", 0, 1, 2, false, 1, "4 behind the switch"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct network n = network(cases[i].target);
        struct layout l;
        struct mesh mesh;
        struct error e = {0};
        REQUIRE_OK(layout_parse(&l, cases[i].layout, (int64_t)n.chips * n.slices, &e), &e);
        REQUIRE_OK(mesh_of(&n, &l, &mesh, &e), &e);
        REQUIRE(mesh.n == 2);
        const struct mesh_way *w = &mesh.ways[cases[i].way];
        CHECK(w->network.chips == 1 || w->network.fewest_links == cases[i].fewest); // between slices: no links
        CHECK(w->network.chips == 1 || w->network.cut_links == cases[i].cut);
        CHECK(w->network.axes == 0 || w->network.wraps[0] == cases[i].wraps);
        CHECK_NEAR(w->network.link / n.link, cases[i].share, 1e-12);
        if (!CHECK(strstr(w->place, cases[i].place) != NULL))
            printf("  %s on %s: %s\n", cases[i].layout, cases[i].target, w->place);
    }
}

TEST(plan_mesh_refuses)
{
    struct network two = network("v6e:2x4*2"), n = network("v6e:2x4");
    struct layout l;
    struct mesh mesh;
    struct error e = {0};
    REQUIRE_OK(layout_parse(&l, "ulysses=2,tp=8", 16, &e), &e);
    CHECK_INT(mesh_of(&two, &l, &mesh, &e), ERR_USAGE);
    CHECK(strstr(e.message, "dp, fsdp and pp cross") != NULL);
    error_clear(&e);
    l = layout_single();
    l.ways[LAYOUT_TP] = 3;
    l.ways[LAYOUT_DP] = 2;
    CHECK_INT(mesh_of(&n, &l, &mesh, &e), ERR_USAGE);
    CHECK(strstr(e.message, "tp=3") != NULL);
}

// Mixtures of klein over 2x4, two images: what each way sends, worked out by hand. A stream is 1536 tokens of 3072 in
// bf16; 30 sums a step, four steps; a group of tp has one of the two images.
TEST(lab_price_layouts_mixed)
{
    static const char *const chips[] = {"v6e:2x4"};
    static const char *const mixed[] = {"dp=2,tp=4", "fsdp=2,tp=4", "tp=2,ulysses=4", "pp=2,tp=4", "dp=8"};
    struct price p;
    struct layouts l;
    struct error e = {0};
    struct price_options o = {
        .workload = "builtin:flux2-klein-4b", .chips = chips, .n_chips = 1, .shape = {.batch = 2}};
    double v = 1536.0 * 3072 * 2, weights = 3875544576.0 * 2;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_layouts(&p, &p.targets[0], mixed, 5, &l, &e), &e);
    CHECK_INT(l.n, 5);
    const struct layout_price *row = layout(&l, "dp=2,tp=4");
    REQUIRE(row->n_ways == 2);
    CHECK_INT(row->ways[0].axis, LAYOUT_TP);
    CHECK_NEAR(row->parts[1].comms.bytes, 2 * 3.0 / 4 * 30 * v, 1e-6 * v);
    CHECK_NEAR(row->parts[1].comms.topology_s, 2 * 3.0 / 4 * 30 * v / 100e9, 1e-9); // a line: one link at its end
    CHECK(row->ways[1].bytes == 0 && row->chips == 8);
    CHECK_NEAR(row->weight_bytes, ((double)p.weight_bytes + (double)p.scale_bytes) / 4, 1);
    CHECK_NEAR(row->math_s * 1e3, 2 * 46.114e3 / 8 / 918, 2e-2);
    // Weights of a quarter are gathered by two, at every step.
    row = layout(&l, "fsdp=2,tp=4");
    CHECK_NEAR(row->ways[1].bytes, (4 * weights + (double)(p.parts[0].weight_bytes + p.parts[2].weight_bytes)) / 4 / 2,
               1e-3 * weights);
    // Heads of half the width go round in four.
    row = layout(&l, "tp=2,ulysses=4");
    CHECK(row->reason == NULL && row->ways[1].axis == LAYOUT_ULYSSES && row->ways[1].bytes > 0);
    // Two stages, two images each after the other: three turns of a stage for two images, and half of each sum. Of the
    // text encoder's 27 layers a stage has 14, of the transformer's 25 blocks 13; the decoder has none, and is whole on
    // one.
    const struct layout_price *stages = layout(&l, "tp=4,pp=2");
    static const double fullest[] = {14.0 / 27, 13.0 / 25};
    double want = 0;
    for (int i = 0; i < 3; i++)
        want += cost_product_flop(&p.parts[i].total) * (double)p.parts[i].part->calls / 918e12 / 4 *
                (i < 2 ? fullest[i] * 3 / 2 : 1);
    CHECK_NEAR(stages->math_s, want, 1e-9);
    CHECK(stages->ways[1].axis == LAYOUT_PP && stages->ways[1].bytes > 0);
    CHECK_NEAR(stages->weight_bytes, ((double)p.weight_bytes + (double)p.scale_bytes) / 8, 1);
    CHECK_STR(layout(&l, "dp")->name, "dp"); // one kind over all
    price_close(&p);
}

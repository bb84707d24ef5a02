// SPDX-License-Identifier: Apache-2.0
// How rows find their program's HLO, and how kernels become executions, on made profiles.
#include "trace/ops_hlo.h"

#include <math.h>
#include <stdlib.h>

#include "base/pbwire.h"
#include "fixture.h"
#include "test.h"

static void entry(struct str *s, uint32_t table, int64_t id, const char *name, const struct slice *proto)
{
    size_t at = pb_begin(s, table);
    pb_put_int(s, 1, id);
    size_t message = pb_begin(s, 2);
    pb_put_int(s, 1, id);
    pb_put_string(s, 2, name);
    if (proto) { // the HLO, and a program_id that is wrong, as libtpu wrote it
        size_t stat = pb_begin(s, 5);
        pb_put_int(s, 1, 1);
        pb_put_bytes(s, 6, proto->data, proto->size);
        pb_end(s, stat);
        stat = pb_begin(s, 5);
        pb_put_int(s, 1, 2);
        pb_put_int(s, 4, 99);
        pb_end(s, stat);
    }
    pb_end(s, message);
    pb_end(s, at);
}

// Statistics of the device: 1 hlo_op, 2 hlo_module, 3 program_id.
static void kernel(struct str *s, int64_t id, int64_t start, const char *op, const char *module, int64_t program)
{
    size_t at = pb_begin(s, 4), stat;
    pb_put_int(s, 1, id);
    pb_put_int(s, 2, start);
    pb_put_int(s, 3, 1000);
    const char *texts[2] = {op, module};
    for (int i = 0; i < 2; i++) {
        stat = pb_begin(s, 4);
        pb_put_int(s, 1, i + 1);
        pb_put_string(s, 5, texts[i]);
        pb_end(s, stat);
    }
    if (program) {
        stat = pb_begin(s, 4);
        pb_put_int(s, 1, 3);
        pb_put_int(s, 3, program);
        pb_end(s, stat);
    }
    pb_end(s, at);
}

struct made {
    const char *metadata; // the entry's name
    const char *module;   // of the events
    int64_t program;
    bool cut; // the HLO
};

// Three runs of "z" (one kernel), and of "r": kernel 2 twice in each, and kernel 3 in two of them.
static void run(const struct made *m, struct trace *t, struct trace_ops *o)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const json_t *row = json_object_get(json_object_get(fixture, "cases"), "cublas_beside_fusion");
    const char *hex = json_string_value(json_object_get(row, "module"));
    uint8_t bytes[4096];
    size_t n = strlen(hex) / 2;
    REQUIRE(n < sizeof bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)strtoul((char[]){hex[2 * i], hex[2 * i + 1], '\0'}, NULL, 16);
    struct slice proto = {bytes, m->cut ? n - 5 : n};
    char path[1024];
    const char *paths[] = {path};
    struct str s;
    struct error e = {0};
    str_init(&s);
    size_t plane = pb_begin(&s, 1);
    pb_put_string(&s, 2, "/device:GPU:0");
    size_t line = pb_begin(&s, 3);
    pb_put_string(&s, 2, "Stream #1(Kernel)");
    for (int i = 0; i < 3; i++) {
        kernel(&s, 1, 10000 * i, "z", m->module, m->program);
        kernel(&s, 2, 10000 * i + 1000, "scope::r", m->module, m->program);
        kernel(&s, 2, 10000 * i + 2000, "scope::r", m->module, m->program);
        if (i)
            kernel(&s, 3, 10000 * i + 3000, "scope::r", m->module, m->program);
    }
    pb_end(&s, line);
    for (int i = 1; i < 4; i++)
        entry(&s, 4, i, "kernel", NULL);
    entry(&s, 5, 1, "hlo_op", NULL);
    entry(&s, 5, 2, "hlo_module", NULL);
    entry(&s, 5, 3, "program_id", NULL);
    pb_end(&s, plane);
    plane = pb_begin(&s, 1);
    pb_put_string(&s, 2, "/host:metadata");
    entry(&s, 4, 12, m->metadata, &proto);
    entry(&s, 5, 1, "Hlo Proto", NULL);
    entry(&s, 5, 2, "program_id", NULL);
    pb_end(&s, plane);
    snprintf(path, sizeof path, "%s/made-hlo.xplane.pb", test_dir());
    REQUIRE_OK(file_write(path, str_text(&s), s.length, &e), &e);
    REQUIRE_OK(trace_open(t, paths, 1, &e), &e);
    REQUIRE_OK(trace_ops(t, NULL, o, &e), &e);
    str_release(&s);
    json_decref(fixture);
}

static const struct trace_op *find(const struct trace_ops *o, const char *name)
{
    for (size_t i = 0; i < o->n_rows; i++) {
        if (slice_is(o->rows[i].name, name))
            return &o->rows[i];
    }
    return NULL;
}

TEST(trace_ops_hlo_executions)
{
    struct trace t;
    struct trace_ops o;
    run(&(struct made){"m(7)", "m", 7, false}, &t, &o);
    const struct trace_op *fusion = find(&o, "z"), *call = find(&o, "scope::r");
    REQUIRE(fusion && call);
    CHECK(fusion->occurrences == 3 && fusion->executions == 3);
    // Eight kernels; the more frequent one ran six times, and the fusion beside it three times.
    CHECK(call->occurrences == 8 && call->executions == 3);
    CHECK(fusion->flop == 3 * 60 && fusion->bytes == 3 * 480);
    CHECK(call->flop == 3 * 480 && call->bytes == 3 * (240 + 160 + 96));
    CHECK(slice_is(fusion->category, "loop fusion") && slice_is(call->category, "custom-call"));
    CHECK(slice_is(fusion->scope, "jit(m)/neg") && slice_is(fusion->source, "m.py:3") && !call->source.size);
    CHECK_INT(o.hlo_modules, 1);
    trace_ops_release(&o);
    trace_close(&t);
}

TEST(trace_ops_hlo_finds_the_program)
{
    const struct {
        struct made made;
        bool found;
    } cases[] = {{{"m(7)", "m", 7, false}, true},      // the id in the parentheses, not the statistic's 99
                 {{"m(7)", "m", 8, false}, true},      // the only one of that name
                 {{"m(7)", "m", 0, false}, true},      // no id
                 {{"m(7)", "other", 7, false}, false}, // the id of another module
                 {{"m(7)", "m", 7, true}, false},      // damaged
                 {{"m", "m", 99, false}, true},        // no parentheses: the statistic
                 {{"m(7x)", "m(7x)", 99, false}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace t;
        struct trace_ops o;
        run(&cases[i].made, &t, &o);
        const struct trace_op *fusion = find(&o, "z");
        REQUIRE(fusion);
        CHECK_INT(!isnan(fusion->flop), cases[i].found);
        CHECK_INT(fusion->category.size > 0, cases[i].found);
        CHECK_INT(o.hlo_damage != NULL, cases[i].made.cut);
        trace_ops_release(&o);
        trace_close(&t);
    }
}

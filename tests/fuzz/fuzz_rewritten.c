// SPDX-License-Identifier: Apache-2.0
// A program from somewhere, an HLO message or its text: where it can be imported every policy is put into it, the
// result priced and printed, and its activations calibrated; where it cannot, or could have been through a compiler, it
// is looked through for what narrow weights cost.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/cost.h"
#include "ir/hlo_import.h"
#include "ir/hlo_parse.h"
#include "ir/policy.h"
#include "ir/retype.h"
#include "lab/narrow.h"

enum { MOST_BYTES = 1 << 16, MOST_INSTRUCTIONS = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

// Refusals say why, and none of them is a mistake of ours.
static bool done(int rc, const struct error *err)
{
    must(rc == 0 || (err->code == rc && rc != ERR_INTERNAL && err->message[0]));
    return rc == 0;
}

static void price(const struct module *m, struct arena *arena)
{
    struct cost_row *rows;
    struct cost total;
    struct str text;
    struct error err = {0};
    int n;
    if (done(cost_groups(m, arena, &rows, &n, &total, &err), &err))
        must(n >= 0);
    str_init(&text);
    if (done(module_print(m, &text, &err), &err))
        must(text.length > 0);
    str_release(&text);
}

static void rewrite(const struct module *m, const char *policy, bool instrument)
{
    struct arena arena;
    struct module to;
    struct policy p;
    struct error err = {0};
    int64_t weights, scales;
    arena_init(&arena);
    module_init(&to, &arena, policy);
    must(policy_parse(&p, policy, &err) == 0);
    if (done(module_apply_policy(m, &p, instrument, &to, &err), &err)) {
        module_weight_bytes(&to, &weights, &scales);
        must(weights >= 0 && scales >= 0 && (!instrument || to.n_results >= m->n_results));
        price(&to, &arena);
    }
    arena_release(&arena);
}

static void imported(const struct module *m)
{
    static const char *const policies[] = {"f32",
                                           "bf16",
                                           "f16",
                                           "w8a16",
                                           "w8a8",
                                           "w8a8-static",
                                           "w4a16",
                                           "fp8",
                                           "w=int8,a=uint8/tensor",
                                           "w=int8/tensor,a=int16/row",
                                           "w=int8/group:2,a=f32",
                                           "w=bf16,red=bf16,norm=bf16,out=bf16"};
    struct arena arena;
    struct error err = {0};
    arena_init(&arena);
    must(module_verify(m, &err) == 0);
    if (module_takes_policies(m)) {
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
            rewrite(m, policies[i], i % 3 == 1);
        for (int steps = 0; steps < 3; steps += 2) {
            struct module to;
            module_init(&to, &arena, "calibration");
            done(module_calibration(m, steps, &to, &err), &err);
            error_clear(&err);
        }
    }
    struct module wide;
    module_init(&wide, &arena, "f64");
    if (done(module_retype_f64(m, &wide, &err), &err))
        price(&wide, &arena);
    arena_release(&arena);
}

static void look_through(struct slice message, struct arena *arena)
{
    static const bool weights[] = {false, true, true, false, true, true, true, true};
    struct narrow n;
    struct error err = {0};
    if (!done(narrow_read(&n, message.data, message.size, weights, sizeof weights, DT_S8, arena, &err), &err))
        return;
    const struct narrow_work *all[] = {&n.widened, &n.inner, &n.copied, &n.quantised, &n.scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        must(all[i]->count >= 0 && all[i]->elements >= 0 && all[i]->read_bytes >= 0 && all[i]->written_bytes >= 0);
        must(all[i]->n_largest >= 0 && all[i]->n_largest <= NARROW_NAMES);
        for (int k = 0; k < all[i]->n_largest; k++)
            must(all[i]->largest[k].instruction && all[i]->largest[k].runs >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct hlo_module hlo;
    struct hlo_parsed parsed;
    struct module m;
    struct error err = {0};
    struct slice message = {data, size};
    if (size > MOST_BYTES)
        return 0;
    arena_init(&arena);
    int rc = 0;
    if (size > 9 && memcmp(data, "HloModule", 9) == 0) {
        rc = hlo_parse(&parsed, (const char *)data, size, "input", false, &arena, &err);
        message = rc ? message : parsed.message;
    }
    if (done(rc, &err) && done(hlo_read(&hlo, message.data, message.size, "input", &arena, &err), &err)) {
        look_through(message, &arena);
        int64_t n = 0;
        for (size_t i = 0; i < hlo.entry->n_instructions; i++)
            n += hlo_is(&hlo.entry->instructions[i], "parameter");
        // All but the last argument are weights.
        struct hlo_import_options o = {.name = "input", .last_weight = n > 1 ? n - 2 : -1};
        module_init(&m, &arena, "input");
        if (done(hlo_import(&hlo, &o, &m, &err), &err) && m.n_instructions <= MOST_INSTRUCTIONS)
            imported(&m);
    }
    arena_release(&arena);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A model's config.json or a GGUF file, as a budget reads them. What is accepted must have sizes that can be worked
// with: a budget of it under several layouts is finite, and a device has no more than all.
#include <math.h>
#include <stdlib.h>

#include "plan/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct arch *a, const struct weights *w, struct arena *arena)
{
    static const char *const layouts[] = {"single", "tp=4", "fsdp=8", "pp=2", "ep=2", "ulysses=2", "ring=4"};
    struct recipe recipe = {.name = "adam-18", OPTIMIZER_ADAM, DT_BF16, DT_F32, DT_F32, DT_F32};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        for (int train = 0; train < 2; train++) {
            struct budget_job job = {.arch = a,
                                     .weights = w,
                                     .kv = DT_BF16,
                                     .item_bytes = 2,
                                     .train = train != 0,
                                     .flash = i % 2 == 0,
                                     .recipe = recipe,
                                     .batch = 8,
                                     .seq = 64,
                                     .page = 16,
                                     .prefill = 32,
                                     .height = 64,
                                     .width = 64};
            struct budget_case c = {.batch = 8, .limit = NAN};
            struct weights_local local;
            struct error e = {0};
            struct layout_limits limits = budget_limits(&job);
            if (layout_parse(&c.layout, layouts[i], 0, &e) || layout_check(&c.layout, &limits, &e))
                continue;
            weights_on_device(w, a, &c.layout, &local);
            // Shares are rounded up by less than one in 10^9, which is what doubles can do.
            double all = (w->bytes + w->scale_bytes) * (1 + 1e-9) + 1;
            if (!(local.bytes >= 0) || local.bytes > all || local.elements > w->parameters * (1 + 1e-9) + 1)
                abort();
            if (budget_evaluate(&job, &local, &c, arena, &e))
                continue;
            for (int k = 0; k < c.n_rows; k++) {
                if (!(c.rows[k].device >= 0) || isinf(c.rows[k].device) || !c.rows[k].how)
                    abort();
            }
        }
    }
}

static int from_gguf(const uint8_t *data, size_t size, struct arch *a, struct weights *w, struct arena *arena,
                     struct checkpoint *c, bool *opened, struct error *e)
{
    int rc = checkpoint_open_memory(c, data, size, "fuzz.gguf", e);
    *opened = !rc;
    if (rc)
        return rc;
    if (c->gguf)
        rc = arch_from_gguf(a, c->gguf, "fuzz.gguf", arena, e);
    if (!rc)
        rc = weights_from_checkpoint(w, c, c->gguf ? a : NULL, arena, e);
    if (!rc && !c->gguf)
        *a = (struct arch){.kind = ARCH_COUNT_ONLY, .name = "fuzz"};
    return rc;
}

static int from_config(const uint8_t *data, size_t size, struct arch *a, struct weights *w, struct arena *arena,
                       struct error *e)
{
    struct hf_config c;
    int rc = hf_config_parse(&c, (const char *)data, size, "fuzz", e);
    if (rc)
        return rc;
    rc = arch_from_config(a, &c, arena, e);
    hf_config_release(&c);
    return rc ? rc : weights_from_arch(w, a, arena, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e = {0};
    struct arena arena;
    struct arch a;
    struct weights w;
    struct checkpoint c;
    arena_init(&arena);
    arena.limit_bytes = 64 << 20;
    bool config = size && data[0] == '{', opened = false;
    int rc =
        config ? from_config(data, size, &a, &w, &arena, &e) : from_gguf(data, size, &a, &w, &arena, &c, &opened, &e);
    if (!rc)
        check(&a, &w, &arena);
    else if (!e.code || !e.message[0])
        abort();
    if (opened)
        checkpoint_close(&c);
    arena_release(&arena);
    return 0;
}

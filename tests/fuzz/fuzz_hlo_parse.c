// SPDX-License-Identifier: Apache-2.0
// HLO text, strictly and leniently. What is refused says why and where; what is taken is a message that the reader
// takes, that can be priced, printed and perhaps imported; and what is taken strictly is taken leniently without a
// note.
#include <math.h>
#include <stdlib.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_import.h"
#include "ir/hlo_parse.h"
#include "ir/hlo_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct hlo_module *m, struct arena *arena)
{
    struct hlo_costs costs;
    struct str text;
    struct error e = {0};
    if (hlo_costs_init(&costs, m, arena, &e))
        abort();
    const struct hlo_cost *c = hlo_cost_module(&costs);
    if (!isfinite(c->bytes) || c->bytes < 0 || !isfinite(c->element_flop) || c->element_flop < 0)
        abort();
    str_init(&text);
    text.max_bytes = 1 << 26;
    if (hlo_text_module(&text, m, &e) && e.code != ERR_MEMORY)
        abort();
    str_release(&text);
}

// What is imported is a module that verifies; what is not says why.
static void import(const struct hlo_module *m, struct arena *arena)
{
    struct hlo_import_options o = {.name = "fuzz", .last_weight = 0};
    struct module out;
    struct error e = {0};
    module_init(&out, arena, "fuzz");
    if (hlo_import(m, &o, &out, &e) ? !e.code || e.code == ERR_INTERNAL : module_verify(&out, &e))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int rc[2];
    for (int lenient = 0; lenient < 2; lenient++) {
        struct arena arena;
        struct hlo_module m;
        struct hlo_parsed parsed;
        struct error e = {0};
        arena_init(&arena);
        rc[lenient] = hlo_parse(&parsed, data, size, "fuzz", lenient, &arena, &e);
        if (rc[lenient]) {
            if (!e.code || !e.message[0] || !e.where[0])
                abort();
        } else {
            if (!lenient && (parsed.n_left_out || parsed.n_notes))
                abort();
            if (hlo_read(&m, parsed.message.data, parsed.message.size, "fuzz", &arena, &e))
                abort();
            use(&m, &arena);
            import(&m, &arena);
        }
        arena_release(&arena);
    }
    if (!rc[0] && rc[1])
        abort();
    return 0;
}

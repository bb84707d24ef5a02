// SPDX-License-Identifier: Apache-2.0
// An HLO module. Whatever is handed out must lie inside the file, references must lead backwards, costs are numbers
// that are not below zero, and every module that can be read can be printed.
#include <math.h>
#include <stdlib.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_layout.h"
#include "ir/hlo_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *bytes;
static size_t n_bytes;

static void inside(struct slice s)
{
    if (s.size && (s.data < bytes || s.size > n_bytes || (size_t)(s.data - bytes) > n_bytes - s.size))
        abort();
}

static void shape(const struct hlo_shape *s)
{
    inside(s->layout);
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] < 0)
            abort();
    }
    if (hlo_shape_elements(s) < 0 || hlo_shape_bytes(s) < 0 || hlo_padded_bytes(s) < 0)
        abort();
    (void)hlo_memory_space(s);
}

static void instruction(const struct hlo_module *m, const struct hlo_computation *c, const struct hlo_instruction *in)
{
    inside(in->name);
    inside(in->opcode);
    inside(in->message);
    inside(in->metadata.op_name);
    inside(in->metadata.source_file);
    shape(&in->shape);
    for (size_t i = 0; i < in->n_operands; i++) {
        if (in->operands[i] < c->instructions || in->operands[i] >= in)
            abort();
    }
    for (size_t i = 0; i < in->n_called; i++) {
        if (in->called[i] < m->computations || in->called[i] >= c)
            abort();
    }
}

static void attributes(const struct hlo_module *m, const struct hlo_instruction *in, struct arena *arena)
{
    struct hlo_attributes a;
    struct hlo_numbers *lists;
    struct error e = {0};
    struct slice file;
    int64_t v = 0;
    size_t n;
    if (hlo_attributes_read(&a, m, in, arena, &e))
        abort();
    inside(a.custom_call_target);
    inside(a.backend_config);
    inside(a.literal);
    inside(a.sharding);
    if (a.feature_groups < 1 || a.batch_groups < 1)
        abort();
    if (!hlo_groups_list(&a.groups, arena, &lists, &n, &e) && a.groups.form > HLO_GROUPS_LIST && n * lists[0].n > 65536)
        abort();
    hlo_literal_integer(in, &v);
    hlo_source(m, in, &file, &v);
    inside(file);
}

static void number(double v)
{
    if (!isfinite(v) || v < 0)
        abort();
}

static void price(const struct hlo_costs *costs, const struct hlo_instruction *in)
{
    struct hlo_cost c;
    struct error e = {0};
    if (hlo_cost_instruction(costs, in, &c, &e))
        abort();
    number(hlo_cost_product_flop(&c));
    number(c.element_flop);
    number(c.transcendentals);
    number(c.bytes);
    if (isnan(hlo_cost_flop(&c)) != (c.flop_reason != NULL) || isnan(hlo_cost_bytes(&c)) != (c.bytes_reason != NULL))
        abort();
    if (!hlo_category(in).size && in->opcode.size)
        abort();
    for (size_t k = 0; k <= in->n_operands; k++)
        number(hlo_cost_read_bytes(costs, in, k));
    number(hlo_cost_written_bytes(in));
}

static void print(const struct hlo_module *m)
{
    struct str text;
    struct error e = {0};
    str_init(&text);
    text.max_bytes = 1 << 26;
    if (hlo_text_module(&text, m, &e) && e.code != ERR_MEMORY)
        abort();
    for (size_t i = 0; i < text.length; i++) {
        if ((unsigned char)text.text[i] > 126 || ((unsigned char)text.text[i] < 32 && text.text[i] != '\n'))
            abort();
    }
    str_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hlo_costs costs;
    struct arena arena;
    struct hlo_module m;
    struct error e = {0};
    bytes = data;
    n_bytes = size;
    arena_init(&arena);
    if (hlo_read(&m, data, size, "fuzz", &arena, &e)) {
        if (!e.code || !e.message[0])
            abort();
        arena_release(&arena);
        return 0;
    }
    if (m.entry < m.computations || m.entry >= m.computations + m.n_computations)
        abort();
    for (size_t i = 0; i < m.n_frames; i++)
        inside(m.frames[i].file);
    for (size_t i = 0; i < m.n_computations; i++) {
        const struct hlo_computation *c = &m.computations[i];
        if (c->root < c->instructions || c->root >= c->instructions + c->n_instructions)
            abort();
        for (size_t k = 0; k < c->n_instructions; k++) {
            instruction(&m, c, &c->instructions[k]);
            attributes(&m, &c->instructions[k], &arena);
        }
    }
    if (hlo_costs_init(&costs, &m, &arena, &e))
        abort();
    for (size_t i = 0; i < m.n_computations; i++) {
        for (size_t k = 0; k < m.computations[i].n_instructions; k++)
            price(&costs, &m.computations[i].instructions[k]);
    }
    print(&m);
    arena_release(&arena);
    return 0;
}

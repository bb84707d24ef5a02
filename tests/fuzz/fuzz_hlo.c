// SPDX-License-Identifier: Apache-2.0
// An HLO module. Whatever is handed out must lie inside the file, and references must lead backwards.
#include <stdlib.h>

#include "ir/hlo.h"

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
    if (hlo_shape_elements(s) < 0 || hlo_shape_bytes(s) < 0)
        abort();
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
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
        for (size_t k = 0; k < c->n_instructions; k++)
            instruction(&m, c, &c->instructions[k]);
    }
    arena_release(&arena);
    return 0;
}

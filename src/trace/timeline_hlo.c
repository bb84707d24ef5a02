// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_hlo.h"

#include <stdlib.h>
#include <string.h>

#include "ir/hlo_text.h"
#include "trace/ops_hlo.h"
#include "trace/timeline_texts.h"

struct timeline_hlo_place {
    const struct hlo_computation *computation;
    const struct hlo_instruction *instruction;
};

struct timeline_hlo {
    struct arena arena;
    struct trace_program *programs;
    struct hlo_module *modules; // one for each program, read when an event first needs it
    bool *tried, *readable;
    size_t n;
    struct timeline_texts names; // of instructions, of the program that is the kind
    struct timeline_hlo_place *places;
    size_t cap_places;
};

static int read_programs(struct timeline_hlo *h, const struct trace *t, struct error *err)
{
    int rc = trace_programs(t, &h->arena, &h->programs, &h->n, err);
    if (rc)
        return rc;
    h->modules = arena_new(&h->arena, struct hlo_module, h->n, err);
    h->tried = arena_new(&h->arena, bool, h->n, err);
    h->readable = arena_new(&h->arena, bool, h->n, err);
    return h->modules && h->tried && h->readable ? 0 : ERR_MEMORY;
}

int timeline_hlo_new(struct timeline_hlo **out, const struct trace *t, struct error *err)
{
    struct timeline_hlo *h = calloc(1, sizeof *h);
    *out = h;
    if (!h)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the programs of a profile");
    arena_init(&h->arena);
    timeline_texts_init(&h->names);
    int rc = read_programs(h, t, err);
    if (rc) {
        timeline_hlo_free(h);
        *out = NULL;
    }
    return rc;
}

void timeline_hlo_free(struct timeline_hlo *h)
{
    if (!h)
        return;
    timeline_texts_release(&h->names);
    arena_release(&h->arena);
    free(h);
}

static int add_names(struct timeline_hlo *h, size_t program, struct error *err)
{
    const struct hlo_module *m = &h->modules[program];
    int rc = 0;
    for (size_t c = 0; c < m->n_computations && !rc; c++) {
        const struct hlo_computation *computation = &m->computations[c];
        for (size_t i = 0; i < computation->n_instructions && !rc; i++) {
            uint32_t index;
            bool fresh;
            rc = timeline_texts_put(&h->names, computation->instructions[i].name, program, &index, &fresh, err);
            struct timeline_hlo_place *more =
                rc ? NULL : arena_grow(&h->arena, h->places, &h->cap_places, (size_t)index + 1, sizeof *h->places, err);
            if (!more)
                return ERR_MEMORY;
            h->places = more;
            h->places[index] = (struct timeline_hlo_place){computation, &computation->instructions[i]};
        }
    }
    return rc;
}

int timeline_hlo_text(struct timeline_hlo *h, const struct trace_file *file, uint64_t program, struct slice module,
                      struct slice operation, struct str *out, struct error *err)
{
    size_t i = 0;
    uint32_t index;
    while (i < h->n && (h->programs[i].file != file || h->programs[i].id != program ||
                        (module.size && !slice_equal(h->programs[i].name, module))))
        i++;
    if (i == h->n)
        return 0;
    if (!h->tried[i]) {
        struct error why = {0}; // a program that cannot be read has no text; trace ops says so
        const struct slice proto = h->programs[i].proto;
        h->tried[i] = true;
        int rc = hlo_read(&h->modules[i], proto.data, proto.size, file->path, &h->arena, &why);
        h->readable[i] = rc == 0;
        if (rc == 0)
            rc = add_names(h, i, err);
        if (rc == ERR_MEMORY)
            return error_set(err, ERR_MEMORY, file->path, "no memory for the HLO of a program");
    }
    if (!h->readable[i] || !timeline_texts_find(&h->names, operation, i, &index))
        return 0;
    const struct timeline_hlo_place *at = &h->places[index];
    return hlo_text_instruction(out, &h->modules[i], at->computation, at->instruction, err);
}

// SPDX-License-Identifier: Apache-2.0
// The ladder of a BERT encoder.
#include <string.h>

#include "lab/ladder_part.h"
#include "models/bert.h"

#define PROGRAM "encoder"

static const struct ladder_rung rungs[] = {
    {1, "embeddings, normalised", 1e-5, 50, false},
    {2, "every layer", 1e-5, 40, false},
    {3, "sentence embedding", 1e-5, 40, false},
};
static const struct ladder_place places[] = {{PROGRAM, "embeddings", 1}, {PROGRAM, "layer.", 2}, {PROGRAM, "", 3}, {0}};

static int run_bert(struct ladder *l, const struct progress *progress, struct error *err)
{
    struct bert bert;
    struct checkpoint weights;
    struct module m;
    const struct tensor_view *ids = ladder_tap(&l->reference, PROGRAM, "input_ids");
    if (!ids || ids->rank != 2)
        return error_set(err, ERR_INPUT, PROGRAM "/input_ids", "the reference has no such matrix of ids");
    struct bert_build how = {.batch = ids->dims[0], .seq = ids->dims[1], .taps = true, .first_layer = -1};
    int rc = bert_open(&bert, l->workload, err);
    if (!rc)
        rc = checkpoint_open(&weights, l->workload, err);
    if (rc)
        return rc;
    module_init(&m, &l->arena, PROGRAM);
    rc = bert_bind(&bert, &weights, err);
    if (!rc)
        rc = bert_module(&bert, &how, &m, err);
    if (!rc)
        rc = ladder_program(l, PROGRAM, &m, &weights, progress, err);
    checkpoint_close(&weights);
    return rc;
}

static const char *const programs[] = {PROGRAM, NULL};

const struct ladder_model ladder_bert = {.name = "bert",
                                         .rungs = rungs,
                                         .n_rungs = sizeof rungs / sizeof *rungs,
                                         .places = places,
                                         .programs = programs,
                                         .run = run_bert};

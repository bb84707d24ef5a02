// SPDX-License-Identifier: Apache-2.0
// How a matrix is stored, as `assay precision --policy` reads it. What is accepted is tried on a small matrix: it gives
// bytes and values, or a reason; and so does the way in which it stores activations.
#include "lab/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void try(const struct storage *s)
{
    static const float x[3][40] = {{1, -2, 0.5f, 1e-9f, 3e5f, -0.0f, 7}, {0}, {1e-40f, -1e-38f, 448, 464, 65504}};
    float back[3][40];
    struct storage_result result;
    struct error err = {0};
    struct str rule;
    str_init(&rule);
    storage_describe(s, &rule);
    must(rule.length > 0);
    str_release(&rule);
    if (storage_apply(s, 3, 40, &x[0][0], &back[0][0], &result, "x", &err)) {
        must(err.code != ERR_INTERNAL && err.message[0]);
        return;
    }
    must(result.code_bytes > 0 && result.code_bytes <= sizeof back * 2 && result.flushed <= 120);
    for (int i = 0; i < 40; i++)
        must(back[1][i] == 0 || s->format != NULL); // zeros come back as zeros, but from a cast to e8m0
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size), activations[64];
    must(text != NULL);
    struct storage s, a;
    struct error err = {0};
    if (storage_parse(&s, text, &err)) {
        must(err.code == ERR_USAGE && err.message[0]);
    } else {
        try(&s);
        if (s.has_activations) {
            if (storage_parse_activations(&s, &a, activations, &err))
                must(err.code == ERR_USAGE && err.message[0]);
            else
                try(&a);
        }
    }
    free(text);
    return 0;
}

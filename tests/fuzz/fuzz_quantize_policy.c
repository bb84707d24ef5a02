// SPDX-License-Identifier: Apache-2.0
// A policy of `assay quantize`. What is accepted is spelled out, and reads back as the same.
#include <stdlib.h>
#include <string.h>

#include "lab/quantize_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[300];
    struct quantize_policy p, again;
    struct error e = {0};
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, n);
    text[n] = '\0';
    if (quantize_policy_parse(&p, text, &e)) {
        if (!e.code || !e.message[0])
            abort();
        return 0;
    }
    struct str once, twice;
    str_init(&once);
    str_init(&twice);
    quantize_policy_describe(&p, &once);
    str_clear(&once);
    quantize_policy_spell(&p, &once);
    // Spelling out may be longer than what may be given.
    if (once.length < sizeof p.text) {
        if (quantize_policy_parse(&again, str_text(&once), &e))
            abort();
        quantize_policy_spell(&again, &twice);
        if (strcmp(str_text(&once), str_text(&twice)) != 0)
            abort();
    }
    str_release(&once);
    str_release(&twice);
    return 0;
}

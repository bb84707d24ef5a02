// SPDX-License-Identifier: Apache-2.0
// A tokenizer_config.json. What is accepted must be within the limits that struct wordpiece_config promises.
#include <stdlib.h>
#include <string.h>

#include "models/wordpiece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wordpiece_config c;
    struct error err = {0};
    if (wordpiece_config_parse(&c, (const char *)data, size, "fuzz", &err)) {
        if (!err.code || !err.message[0])
            abort();
        return 0;
    }
    if (c.max_chars_per_word < 1 || c.max_chars_per_word > WORDPIECE_MAX_CHARS || c.model_max_length == 1 ||
        c.model_max_length > INT32_MAX)
        abort();
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        if (!memchr(c.special[i], 0, sizeof c.special[i]))
            abort();
    }
    return 0;
}

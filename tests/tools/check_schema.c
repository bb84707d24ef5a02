// SPDX-License-Identifier: Apache-2.0
// check-schema SCHEMA FILE...   does each JSON file follow docs/schemas/SCHEMA? Says where it does not; status 1.
#include <stdio.h>
#include <stdlib.h>

#include "../unit/schema.h"
#include "../unit/test.h"
#include "base/file.h"

const char *test_top(void)
{
    const char *top = getenv("TOP");
    return top ? top : ".";
}

int main(int argc, char **argv)
{
    int bad = argc < 3 ? 2 : 0;
    for (int i = 2; i < argc; i++) {
        struct error err = {0};
        struct str text;
        str_init(&text);
        if (file_read(&text, argv[i], 1u << 28, &err)) {
            printf("%s: %s\n", argv[i], err.message);
            bad = 1;
        } else if (!schema_check(argv[1], str_text(&text), text.length)) {
            printf("%s does not follow %s\n", argv[i], argv[1]);
            bad = 1;
        }
        str_release(&text);
    }
    return bad;
}

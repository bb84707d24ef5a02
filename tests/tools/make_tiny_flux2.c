// SPDX-License-Identifier: Apache-2.0
// make-tiny-flux2 [OPTION]... DIR   writes the small FLUX.2 for command tests (tests/unit/tiny_flux2.h)
//   --seed N   --bfl   --unaligned   --kept   --part text|transformer|vae   --drop TENSOR   --extra TENSOR
//   --fp8 TENSOR   --nan TENSOR
//   --text-hidden N   --vocabulary N
#include <stdio.h>
#include <string.h>

#include "../unit/tiny_flux2.h"
#include "base/str.h"

int main(int argc, char **argv)
{
    static const char *const parts[] = {"text", "transformer", "vae"};
    struct tiny_flux2_options o = {.seed = 1};
    struct error err = {0};
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool flag = true;
        if (strcmp(argv[i], "--bfl") == 0)
            o.bfl = true;
        else if (strcmp(argv[i], "--unaligned") == 0)
            o.unaligned = true;
        else if (strcmp(argv[i], "--kept") == 0)
            o.kept = true;
        else
            flag = false;
        if (flag)
            continue;
        if (strcmp(argv[i], "--seed") == 0)
            o.seed = parse_u64(value, &o.seed) ? o.seed : 1;
        else if (strcmp(argv[i], "--drop") == 0)
            o.drop = value;
        else if (strcmp(argv[i], "--extra") == 0)
            o.extra = value;
        else if (strcmp(argv[i], "--fp8") == 0)
            o.fp8 = value;
        else if (strcmp(argv[i], "--nan") == 0)
            o.nan = value;
        else if (strcmp(argv[i], "--text-hidden") == 0 && !parse_i64(value, &o.text_hidden))
            return 2;
        else if (strcmp(argv[i], "--vocabulary") == 0 && !parse_i64(value, &o.vocabulary))
            return 2;
        for (int k = 0; k < 3 && strcmp(argv[i], "--part") == 0; k++) {
            if (strcmp(value, parts[k]) == 0)
                o.part = (enum tiny_flux2_part)k;
        }
        i++;
    }
    if (i + 1 != argc) {
        fprintf(stderr, "make-tiny-flux2: expected options and one DIR\n");
        return 2;
    }
    if (tiny_flux2_write(argv[i], &o, &err) != 0) {
        fprintf(stderr, "make-tiny-flux2: %s: %s\n", err.where, err.message);
        return 1;
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// What a workload costs: cc price.c -o price -lassay -ljansson -lcrypto -lpng -ljpeg -lz -lm -ldl -lpthread
//
//     ./price builtin:minilm v5e h100      the document of assay.price/1 on stdout, a note on each chip on stderr
#include <assay/assay.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct assay_error error;
    if (argc < 2) {
        fprintf(stderr, "usage: %s WORKLOAD [CHIP...]\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        struct assay_quantity rate;
        if (assay_chip_rate(argv[i], "bf16", &rate, &error))
            break; // assay_price says the same
        fprintf(stderr, "%s: %.4g %s in bf16 [%c] %s\n", argv[i], rate.value, rate.unit, rate.origin, rate.source);
    }
    struct assay_price_options options = {.chips = (const char *const *)argv + 2, .chip_count = (size_t)argc - 2};
    char *json;
    if (assay_price(argv[1], &options, &json, &error)) {
        fprintf(stderr, "%s: %s: %s\n", assay_error_name(error.code), error.where, error.message);
        return assay_error_exit_code(error.code);
    }
    fputs(json, stdout);
    assay_free(json);
    return 0;
}

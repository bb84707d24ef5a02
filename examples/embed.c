// SPDX-License-Identifier: Apache-2.0
// Which of some texts is nearest to the first: cc embed.c -o embed -lassay -ljansson -lcrypto -lpng -ljpeg -lz -lm -ldl
// -lpthread
//
//     ./embed third_party/models/minilm 'reset my password' 'I forgot my login' 'opening hours'
#include <assay/assay.h>
#include <stdio.h>

// The rows have length one, so this is their cosine.
static double product(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

int main(int argc, char **argv)
{
    struct assay_error error;
    struct assay_embeddings e;
    struct assay_embed_options options = {.policy = "bf16"};
    if (argc < 4) {
        fprintf(stderr, "usage: %s MODEL QUERY TEXT...\n", argv[0]);
        return 2;
    }
    if (assay_embed(argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &options, &e, &error)) {
        fprintf(stderr, "%s: %s: %s\n", assay_error_name(error.code), error.where, error.message);
        return assay_error_exit_code(error.code);
    }
    for (size_t i = 1; i < e.rows; i++)
        printf("%.3f  %s\n", product(e.values, e.values + i * e.columns, e.columns), argv[2 + i]);
    assay_free(e.values);
    return 0;
}

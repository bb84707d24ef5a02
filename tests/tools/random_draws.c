// SPDX-License-Identifier: Apache-2.0
// random-draws numpy|jax|torch SEED KIND COUNT   writes the draws to stdout, as bytes (kinds: random_draws.h).
#include <inttypes.h>
#include <stdio.h>

#include "../unit/random_draws.h"

int main(int argc, char **argv)
{
    struct error e = {0};
    struct str out;
    uint64_t seed, count;
    str_init(&out);
    if (argc != 5 || !parse_u64(argv[2], &seed) || !parse_u64(argv[4], &count)) {
        fprintf(stderr, "usage: random-draws numpy|jax|torch SEED KIND COUNT\n");
        return 2;
    }
    int rc = random_draws(argv[1], seed, argv[3], count, &out, &e);
    if (rc)
        fprintf(stderr, "random-draws: %s\n", e.message);
    else
        fwrite(str_text(&out), 1, out.length, stdout);
    str_release(&out);
    return rc ? error_exit_code(rc) : 0;
}

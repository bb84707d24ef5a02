// SPDX-License-Identifier: Apache-2.0
// dispatch PLUGIN RUNS   for every line on stdin: runs an 8x8 f32 addition RUNS times, each awaited and its output
// freed, and prints the nanoseconds of all of them and the median of one. At the end of stdin: the peak resident bytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stats.h"
#include "base/str.h"
#include "pjrt/pjrt.h"

static const char module[] = "func.func public @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
                             "  %0 = stablehlo.add %a, %b : tensor<8x8xf32>\n"
                             "  return %0 : tensor<8x8xf32>\n"
                             "}\n";

static int prepare(const char *path, struct launch **out, struct error *err)
{
    static struct plugin *plugin; // they live as long as the program
    static struct client *client;
    static struct program *program;
    static struct buffer *args[2];
    static const float data[64] = {1};
    struct array_type type = {DT_F32, 2, {8, 8}};
    int rc = plugin_load(&plugin, path, err);
    if (!rc)
        rc = client_new(&client, plugin, &(struct client_options){.device_count = 1}, err);
    if (!rc)
        rc = program_compile(&program, client, module, strlen(module), "mlir", NULL, err);
    for (int i = 0; !rc && i < 2; i++)
        rc = buffer_from_host(&args[i], client, 0, data, &type, HOST_COPY, err);
    return rc ? rc : launch_new(out, program, args, 2, err);
}

int main(int argc, char **argv)
{
    uint64_t runs = 0;
    if (argc != 3 || !parse_u64(argv[2], &runs) || runs == 0 || runs > 100000000) {
        fprintf(stderr, "usage: dispatch PLUGIN RUNS\n");
        return 2;
    }
    struct error err = {0};
    struct launch *launch = NULL;
    uint64_t *ns = calloc(runs, sizeof *ns);
    double *values = calloc(2 * runs, sizeof *values);
    int rc = ns && values ? prepare(argv[1], &launch, &err) : error_set(&err, ERR_MEMORY, NULL, "no memory");
    char line[64];
    while (!rc && fgets(line, sizeof line, stdin)) {
        uint64_t start_ns = clock_ns();
        rc = launch_time(launch, runs, ns, NULL, &err);
        uint64_t all_ns = clock_ns() - start_ns;
        for (size_t i = 0; i < runs; i++)
            values[i] = (double)ns[i];
        printf("%llu %.0f\n", (unsigned long long)all_ns, stats_median(values, runs, values + runs));
        fflush(stdout);
    }
    if (rc) {
        fprintf(stderr, "dispatch: %s: %s\n", err.where, err.message);
        return 1;
    }
    return 0;
}

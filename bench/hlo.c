// SPDX-License-Identifier: Apache-2.0
// The side of bench/hlo that is ours: hlo TEXT. After each line on stdin it reads the text into a module, and prints
// the nanoseconds, those of the processor, and the number of instructions.
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "ir/hlo_parse.h"

static uint64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct file_map map;
    if (argc != 2)
        return 2;
    if (file_map_open(&map, argv[1], &err)) {
        fprintf(stderr, "hlo: %s: %s\n", err.where, err.message);
        return 1;
    }
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        struct arena arena;
        struct hlo_module m;
        size_t n = 0;
        arena_init(&arena);
        uint64_t begin = clock_ns(), busy = processor_ns();
        if (hlo_read_any(&m, map.data, map.size, argv[1], false, NULL, &arena, &err)) {
            fprintf(stderr, "hlo: %s: %s\n", err.where, err.message);
            return 1;
        }
        busy = processor_ns() - busy;
        uint64_t end = clock_ns();
        for (size_t i = 0; i < m.n_computations; i++)
            n += m.computations[i].n_instructions;
        printf("%llu %llu %zu\n", (unsigned long long)(end - begin), (unsigned long long)busy, n);
        fflush(stdout);
        arena_release(&arena);
    }
    file_map_close(&map);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// load FOLDER POLICY   the side of bench/load that is ours. For each line on stdin it loads the transformer of FOLDER
// into the worker and gives it back again; "cold" first lets the kernel forget the file, and reads what is used in
// place once. It prints seconds of loading, of that reading, the bytes used in place and the bytes copied, then the
// worker's peak memory. The line "copy" prints the seconds in which two threads copy 1 GiB between memory that is there
// already, and into memory that is new.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/threads.h"
#include "ir/bind.h"
#include "ir/policy.h"
#include "lab/device_module.h"
#include "lab/klein_weights.h"

enum { THREADS = 2 };
static const size_t COPY_BYTES = (size_t)1 << 30;

struct bench {
    struct arena arena;
    struct klein_weights weights;
    const struct checkpoint *checkpoint;
    struct worker *worker;
    struct module plain, module;
    struct threads *threads;
    uint8_t *from, *to;
    _Atomic uint64_t sum; // so that nobody leaves the reading out
};

static int open_all(struct bench *b, const char *folder, const char *policy, struct error *err)
{
    struct policy p;
    struct flux2_build how = {.batch = 1, .rows = 16, .columns = 16};
    arena_init(&b->arena);
    module_init(&b->plain, &b->arena, "transformer");
    module_init(&b->module, &b->arena, "transformer");
    int rc = klein_weights_open(&b->weights, &(struct klein_weights_options){.weights = folder}, err);
    if (!rc)
        rc = klein_weights_get(&b->weights, FLUX2_DIT, &b->checkpoint, err);
    if (!rc)
        rc = policy_parse(&p, policy, err);
    if (!rc)
        rc = flux2_dit_module(&b->weights.config, &how, &b->plain, err);
    if (!rc)
        rc = module_apply_policy(&b->plain, &p, false, &b->module, err);
    if (!rc)
        rc = threads_new(&b->threads, THREADS, err);
    return rc ? rc : worker_start(&b->worker, &(struct worker_options){.threads = THREADS}, err);
}

static void read_range(void *context, size_t from, size_t to)
{
    struct bench *b = context;
    uint64_t sum = 0;
    for (size_t i = from; i < to; i += 64)
        sum += b->checkpoint->files[0].data[i];
    b->sum += sum;
}

static int load(struct bench *b, bool cold, struct error *err)
{
    struct device_weights tally = {0};
    struct worker_memory memory;
    const struct module *m = &b->module;
    int *args = arena_new(&b->arena, int, m->n_parameters, err);
    if (!args)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_parameters; i++)
        args[i] = -1;
    if (cold)
        klein_weights_chill(&b->weights, FLUX2_DIT);
    uint64_t start = clock_ns();
    int rc = bind_check(m, b->checkpoint, err);
    for (int i = 0; i < m->n_parameters && !rc; i++) {
        if (m->parameters[i].role == ROLE_WEIGHT && args[i] < 0)
            rc = device_module_weight(b->worker, m, b->checkpoint, i, args, &tally, NULL, err);
    }
    uint64_t loaded = clock_ns();
    if (!rc && cold && tally.zero_copy_bytes)
        threads_for(b->threads, b->checkpoint->files[0].size, (size_t)4 << 20, read_range, b);
    uint64_t end = clock_ns();
    if (!rc)
        rc = worker_memory(b->worker, &memory, err);
    for (int i = 0; i < m->n_parameters && !rc; i++)
        rc = args[i] < 0 ? 0 : worker_free(b->worker, args[i], err);
    if (!rc)
        printf("%.6f %.6f %lld %lld %llu\n", (double)(loaded - start) * 1e-9, (double)(end - loaded) * 1e-9,
               (long long)tally.zero_copy_bytes, (long long)tally.copied_bytes,
               (unsigned long long)memory.peak_rss_bytes);
    return rc;
}

static void copy_range(void *context, size_t from, size_t to)
{
    struct bench *b = context;
    memcpy(b->to + from, b->from + from, to - from);
}

static int copy(struct bench *b, struct error *err)
{
    if (!b->from) {
        b->from = aligned_alloc(1 << 21, COPY_BYTES);
        b->to = aligned_alloc(1 << 21, COPY_BYTES);
        if (!b->from || !b->to)
            return error_set(err, ERR_MEMORY, NULL, "no memory for a copy");
        madvise(b->from, COPY_BYTES, MADV_HUGEPAGE);
        madvise(b->to, COPY_BYTES, MADV_HUGEPAGE);
        memset(b->from, 1, COPY_BYTES);
        memset(b->to, 2, COPY_BYTES);
    }
    uint64_t start = clock_ns();
    threads_for(b->threads, COPY_BYTES, (size_t)4 << 20, copy_range, b);
    uint64_t there = clock_ns() - start;
    uint8_t *old = b->to;
    start = clock_ns();
    b->to = mmap(NULL, COPY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool mapped = b->to != MAP_FAILED;
    if (mapped) {
        madvise(b->to, COPY_BYTES, MADV_HUGEPAGE);
        threads_for(b->threads, COPY_BYTES, (size_t)4 << 20, copy_range, b);
    }
    uint64_t fresh = clock_ns() - start;
    if (mapped)
        munmap(b->to, COPY_BYTES);
    b->to = old;
    printf("%.6f %.6f\n", (double)there * 1e-9, (double)fresh * 1e-9);
    return mapped ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for a copy");
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct error err = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: load FOLDER POLICY\n");
        return 2;
    }
    int rc = open_all(&b, argv[1], argv[2], &err);
    for (char line[16]; !rc && fgets(line, sizeof line, stdin);) {
        rc = strcmp(line, "copy\n") == 0 ? copy(&b, &err) : load(&b, strcmp(line, "cold\n") == 0, &err);
        fflush(stdout);
    }
    if (rc)
        fprintf(stderr, "load: %s: %s\n", err.where, err.message);
    worker_stop(b.worker);
    klein_weights_close(&b.weights);
    threads_free(b.threads);
    free(b.from);
    free(b.to);
    arena_release(&b.arena);
    return rc ? 1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "trace/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/pbwire.h"
#include "base/str.h"
#include "fixture.h"
#include "made_trace.h"
#include "test.h"
#include "trace/heap.h"

static int open_memory(struct trace *t, struct trace_memory *m, const char *path, struct error *err)
{
    *err = (struct error){0};
    int rc = trace_open(t, &path, 1, err);
    if (rc)
        memset(m, 0, sizeof *m);
    return rc ? rc : trace_memory(t, m, err);
}

static const struct trace_allocator *find(const struct trace_memory *m, const char *name)
{
    for (size_t i = 0; i < m->n_allocators; i++) {
        if (strcmp(m->allocators[i].name, name) == 0)
            return &m->allocators[i];
    }
    return NULL;
}

static int64_t live_bytes(const struct trace_allocator *a)
{
    int64_t all = 0;
    for (size_t i = 0; i < a->n_live; i++)
        all += a->live[i].bytes * (int64_t)(a->live[i].blocks ? a->live[i].blocks : 1);
    return all;
}

// Every allocator's peak as XProf has it, and what was alive then adds up to it.
TEST(trace_memory_equals_xprof)
{
    struct error e = {0};
    struct str table;
    char last[64] = "";
    str_init(&table);
    REQUIRE_OK(file_read(&table, fixture_path("traces/xprof_memory.tsv"), 1 << 20, &e), &e);
    struct trace t = {0};
    struct trace_memory m = {0};
    size_t compared = 0, left = 0;
    char *cell[8], *rest = table.text;
    while (fixture_cells(&rest, cell, 8)) {
        if (strcmp(last, cell[0]) != 0) {
            CHECK_INT(left, 0);
            trace_memory_release(&m);
            trace_close(&t);
            REQUIRE_OK(open_memory(&t, &m, fixture_profile(cell[0]), &e), &e);
            snprintf(last, sizeof last, "%s", cell[0]);
            left = m.n_allocators;
        }
        const struct trace_allocator *a = find(&m, cell[1]);
        REQUIRE(a);
        const struct trace_memory_event *peak = &a->events[a->peak];
        CHECK_INT(a->peak_bytes, strtoll(cell[2], NULL, 10));
        CHECK_INT(peak->heap_bytes, strtoll(cell[3], NULL, 10));
        CHECK_INT(peak->reserved_bytes, strtoll(cell[4], NULL, 10));
        CHECK_INT(peak->available_bytes, strtoll(cell[5], NULL, 10));
        CHECK_INT(a->capacity_bytes, strtoll(cell[6], NULL, 10));
        CHECK_INT(a->lifetime_bytes, strtoll(cell[7], NULL, 10));
        CHECK_INT(live_bytes(a), a->peak_bytes);
        compared++;
        left--;
    }
    CHECK_INT(left, 0);
    CHECK_INT(compared, 16);
    trace_memory_release(&m);
    trace_close(&t);
    str_release(&table);
}

static void event(struct made *m, int64_t at_ps, bool is_free, int64_t address, int64_t bytes, int64_t heap)
{
    made_event(m, is_free ? "MemoryDeallocation" : "MemoryAllocation", at_ps, 0);
    made_text(m, "allocator_name", "a");
    made_number(m, "addr", address);
    made_number(m, "allocation_bytes", bytes);
    made_number(m, "bytes_allocated", heap);
    made_number(m, "bytes_reserved", 5);
    made_number(m, "bytes_available", 1000 - heap);
}

TEST(trace_memory_of_a_made_profile)
{
    struct made made;
    made_begin(&made);
    made_plane(&made, "/host:CPU");
    made_line(&made, "one", 0);
    event(&made, 10, false, 100, 40, 70); // 30 were there before
    made_text(&made, "tf_op", "jit(f)/dot");
    made_text(&made, "shape", "f32[10]");
    made_text(&made, "region_type", "(null)");
    event(&made, 30, false, 300, 8, 98);
    event(&made, 40, false, 400, 8, 106); // the peak
    event(&made, 60, true, 900, 16, 50);  // one of those that were there before
    made_line(&made, "another", 0);
    event(&made, 20, false, 200, 20, 90);
    event(&made, 50, true, 100, 40, 66);
    event(&made, 70, false, 100, 56, 106); // as much again, later
    made_event(&made, "MemoryAllocation", 80, 0);
    struct trace t;
    struct trace_memory m;
    struct error e;
    REQUIRE_OK(open_memory(&t, &m, made_end(&made, "memory"), &e), &e);
    CHECK_INT(m.unnamed, 1);
    const struct trace_allocator *a = find(&m, "a");
    REQUIRE(a && m.n_allocators == 1 && a->n_events == 7);
    CHECK(a->allocated == 5 && a->freed == 2);
    CHECK_INT(a->events[a->peak].at_ps, 40);
    CHECK_INT(a->peak_bytes, 111);
    CHECK_INT(a->capacity_bytes, 111 + 894);
    CHECK_INT(live_bytes(a), 111);
    const struct {
        enum trace_memory_kind kind;
        int64_t bytes;
        uint64_t blocks;
    } live[] = {{TRACE_MEMORY_BLOCK, 40, 1},   {TRACE_MEMORY_BLOCK, 20, 1},  {TRACE_MEMORY_BLOCK, 8, 2},
                {TRACE_MEMORY_EARLIER, 16, 1}, {TRACE_MEMORY_UNSEEN, 14, 0}, {TRACE_MEMORY_RESERVED, 5, 0}};
    REQUIRE(a->n_live == sizeof live / sizeof *live);
    for (size_t i = 0; i < a->n_live; i++)
        CHECK(a->live[i].kind == live[i].kind && a->live[i].bytes == live[i].bytes &&
              a->live[i].blocks == live[i].blocks);
    CHECK(slice_is(a->live[0].scope, "jit(f)/dot") && slice_is(a->live[0].shape, "f32[10]") && !a->live[0].region.size);
    trace_memory_release(&m);
    trace_close(&t);
}

// ---- Buffer assignments

static void put_buffer(struct str *s, int64_t id, int64_t bytes, int64_t space)
{
    size_t at = pb_begin(s, 1);
    pb_put_int(s, 1, id);
    pb_put_int(s, 2, bytes);
    size_t place = pb_begin(s, 3);
    pb_put_string(s, 2, "unknown");
    pb_end(s, place);
    pb_put_int(s, 4, space);
    pb_end(s, at);
}

static void put_allocation(struct str *s, int64_t index, int64_t bytes, int64_t space, uint32_t flag, int64_t buffer)
{
    size_t at = pb_begin(s, 3);
    pb_put_int(s, 1, index);
    pb_put_int(s, 2, bytes);
    pb_put_int(s, 8, space);
    if (flag)
        pb_put_bool(s, flag, true);
    size_t assigned = pb_begin(s, 9);
    pb_put_int(s, 1, buffer);
    pb_end(s, assigned);
    pb_end(s, at);
}

static void put_step(struct str *s, int64_t kind, int64_t buffer, int64_t shared, const char *instruction)
{
    size_t at = pb_begin(s, 1);
    pb_put_int(s, 1, kind);
    pb_put_int(s, 2, buffer);
    pb_put_string(s, 4, instruction);
    pb_put_int(s, 5, shared);
    pb_end(s, at);
}

// Buffers 1 to 4 come and go, 5 is a parameter; 2 is used a second time by 3. The simulation says that it fills an
// allocation of this number.
static void put_assignment(struct str *s, int64_t filled)
{
    for (int64_t i = 1; i <= 5; i++)
        put_buffer(s, i, i * 10, 0);
    put_buffer(s, 6, 7, 5);
    put_allocation(s, 0, 50, 0, 5, 5);
    put_allocation(s, 1, 64, 0, 0, 1);
    put_allocation(s, 2, 7, 5, 7, 6);
    put_allocation(s, 3, 1000, 0, 3, 5); // of a thread: not the program's memory
    size_t simulation = pb_begin(s, 4);
    put_step(s, 0, 1, 0, "a"); // 10
    put_step(s, 0, 2, 0, "b"); // 30
    put_step(s, 2, 3, 2, "c"); // 3 lies where 2 does
    put_step(s, 1, 2, 0, "c");
    put_step(s, 1, 1, 0, "d"); // 20
    put_step(s, 0, 4, 0, "d"); // 60: the peak
    put_step(s, 1, 3, 0, "e"); // 40
    put_step(s, 1, 99, 0, "e");
    put_step(s, 1, 4, 0, "f");
    pb_put_int(s, 3, filled);
    pb_end(s, simulation);
}

// Whatever number a simulation gives: what its buffers are assigned to is what it fills.
static void check_made_assignment(int64_t filled)
{
    struct str s;
    struct error e = {0};
    str_init(&s);
    put_assignment(&s, filled);
    struct hlo_module m = {.buffer_assignment = {(const uint8_t *)str_text(&s), s.length}};
    struct trace_heaps h = {0};
    arena_init(&h.arena);
    REQUIRE_OK(trace_heaps_add(&h, &m, (struct slice){(const uint8_t *)"f", 1}, 3, &e), &e);
    REQUIRE(h.n_heaps == 2 && !h.damage);
    const struct trace_heap *device = &h.heaps[0], *host = &h.heaps[1];
    CHECK(device->space == 0 && host->space == 5 && device->program_id == 3 && slice_is(device->program, "f"));
    CHECK(device->fixed_bytes == 50 && device->pool_bytes == 64 && device->peak_bytes == 110);
    CHECK(slice_is(device->at, "d"));
    CHECK_INT(device->unknown, 1);
    const int64_t points[] = {60, 80, 80, 110, 90, 50};
    REQUIRE(device->n_points == sizeof points / sizeof *points);
    for (size_t i = 0; i < device->n_points; i++)
        CHECK_INT(device->points[i].bytes, points[i]);
    REQUIRE(device->n_live == 3);
    CHECK(device->live[0].kind == TRACE_HEAP_PARAMETER && device->live[0].bytes == 50);
    CHECK(device->live[1].kind == TRACE_HEAP_TEMPORARY && device->live[1].bytes == 40);
    CHECK(device->live[2].bytes == 20 && slice_is(device->live[2].instruction, "unknown"));
    CHECK(host->peak_bytes == 7 && host->n_live == 1 && host->live[0].kind == TRACE_HEAP_RESULT && !host->n_points);
    trace_heaps_release(&h);
    // Cut anywhere, it is read as far as it goes.
    for (size_t n = 0; n < s.length; n++) {
        m.buffer_assignment.size = n;
        REQUIRE_OK(trace_heaps_add(&h, &m, (struct slice){0}, 0, &e), &e);
        trace_heaps_release(&h);
    }
    str_release(&s);
}

TEST(trace_heap_of_a_made_assignment)
{
    check_made_assignment(1);
    check_made_assignment(3); // a thread's, as the CPU's back end writes it
    check_made_assignment(77);
}

// The replay of every recorded program needs no more than was set aside for it, and what is alive adds up to the peak.
TEST(trace_heap_of_recorded_programs)
{
    static const char *const names[] = {"cpu-small", "gpu-gtx1080ti-2x", "gpu-mi300x-jax-conv", "gpu-mi300x-jax-gemm",
                                        "tpu-v6e-4chip-inference"};
    size_t replayed = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = fixture_profile(names[i]);
        struct trace t;
        struct trace_heaps heaps;
        struct error e = {0};
        REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
        REQUIRE_OK(trace_heaps(&t, &heaps, &e), &e);
        CHECK(heaps.programs > 0 && heaps.n_heaps >= heaps.programs && !heaps.damage);
        for (size_t k = 0; k < heaps.n_heaps; k++) {
            const struct trace_heap *h = &heaps.heaps[k];
            int64_t all = 0;
            for (size_t j = 0; j < h->n_live; j++)
                all += h->live[j].bytes;
            CHECK_INT(all, h->peak_bytes);
            CHECK_INT(h->unknown, 0);
            CHECK(h->peak_bytes - h->fixed_bytes <= h->pool_bytes);
            replayed += h->n_points > 0;
        }
        trace_heaps_release(&heaps);
        trace_close(&t);
    }
    CHECK(replayed > 0);
}

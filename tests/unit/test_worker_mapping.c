// SPDX-License-Identifier: Apache-2.0
// Copies of a file's parts, whichever threads make them.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"
#include "worker/mapping.h"
#include "worker_test.h"

enum { LARGE = MAPPING_LARGE, BYTES = 3 * LARGE + 12345 };

struct file {
    uint8_t *bytes;
    int fd;
};

static bool file_make(struct file *f)
{
    f->bytes = malloc(BYTES);
    f->fd = open(test_below("weights"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (!f->bytes || f->fd < 0)
        return false;
    for (uint32_t i = 0; i < BYTES; i++)
        f->bytes[i] = (uint8_t)((i * 2654435761u) >> 24);
    return write(f->fd, f->bytes, BYTES) == BYTES;
}

static void file_release(struct file *f)
{
    close(f->fd);
    free(f->bytes);
}

// Whether the page is part of any mapping.
static bool is_mapped(const void *at)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;
    return mincore((void *)((uintptr_t)at / page * page), 1, &resident) == 0;
}

static void check_copy(const struct file *f, const struct worker_part *parts, size_t n, struct threads *threads)
{
    const void *data;
    struct error e = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += parts[i].bytes;
    int mapping = mapping_copy(f->fd, parts, n, bytes, "weights", threads, &data, &e);
    if (!CHECK(mapping >= 0)) {
        printf("  %s: %s\n", e.where, e.message);
        return;
    }
    const uint8_t *at = data;
    bool same = (uintptr_t)at % (bytes < LARGE ? 4096 : LARGE) == 0;
    for (size_t i = 0; i < n; at += parts[i++].bytes)
        same = same && memcmp(at, f->bytes + parts[i].offset, parts[i].bytes) == 0;
    if (!CHECK(same))
        printf("  %zu bytes in %zu parts, the first at %zu, %zu threads\n", bytes, n, parts[0].offset,
               threads_count(threads));
    const uint8_t *first = data, *last = first + bytes - 1;
    CHECK(is_mapped(first) && is_mapped(last));
    mapping_close(mapping);
    CHECK(!is_mapped(first) && !is_mapped(last));
}

TEST(worker_mapping_copies_any_stretch)
{
    static const size_t sizes[] = {1, 4095, 4097, LARGE - 1, LARGE, LARGE + 1, 2 * LARGE, 3 * LARGE + 1};
    static const size_t offsets[] = {0, 1, 8, 4095, 4096, BYTES - 3 * LARGE - 1};
    struct file f;
    struct threads *three = NULL;
    struct error e = {0};
    REQUIRE(file_make(&f));
    REQUIRE_OK(threads_new(&three, 3, &e), &e);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
            const struct worker_part part = {offsets[o], sizes[s]};
            check_copy(&f, &part, 1, NULL);
            check_copy(&f, &part, 1, three);
        }
    }
    threads_free(three);
    file_release(&f);
}

TEST(worker_mapping_joins_parts_across_large_pages)
{
    // None of them ends where a thread's piece does, one is empty, one holds several pieces, the last is a byte.
    static const struct worker_part parts[] = {{7, LARGE - 3},      {LARGE + 1, 5},     {4096, 0},
                                               {11, 2 * LARGE + 9}, {BYTES - 777, 777}, {0, 1}};
    struct file f;
    struct threads *two = NULL;
    struct error e = {0};
    REQUIRE(file_make(&f));
    REQUIRE_OK(threads_new(&two, 2, &e), &e);
    check_copy(&f, parts, sizeof parts / sizeof *parts, NULL);
    check_copy(&f, parts, sizeof parts / sizeof *parts, two);
    threads_free(two);
    file_release(&f);
}

static void check_refused(int fd, struct worker_part part, size_t bytes, struct threads *threads, int code,
                          const char *words)
{
    const void *data = &data;
    struct error e = {0};
    CHECK_ERROR(mapping_copy(fd, &part, 1, bytes, "weights", threads, &data, &e), code, words, &e);
    CHECK(!data);
}

TEST(worker_mapping_refuses_what_is_not_there)
{
    struct file f;
    struct threads *two = NULL;
    struct error e = {0};
    REQUIRE(file_make(&f));
    REQUIRE_OK(threads_new(&two, 2, &e), &e);
    check_refused(f.fd, (struct worker_part){1, BYTES}, BYTES, two, ERR_INPUT, "ends at byte");
    check_refused(f.fd, (struct worker_part){SIZE_MAX, 2}, 2, two, ERR_INPUT, "ends at byte");
    check_refused(f.fd, (struct worker_part){0, 8}, 9, two, ERR_USAGE, "have 8 bytes together, not 9");
    check_refused(f.fd, (struct worker_part){0, 0}, 0, two, ERR_USAGE, "together");
    REQUIRE(ftruncate(f.fd, 2 * LARGE + 5) == 0);
    check_refused(f.fd, (struct worker_part){3, 3 * LARGE}, 3 * LARGE, two, ERR_INPUT, "ends at byte 4194309");
    int written = open(test_below("weights"), O_WRONLY | O_CLOEXEC);
    check_refused(written, (struct worker_part){3, 2 * LARGE}, 2 * LARGE, two, ERR_INPUT, "cannot be read");
    close(written);
    threads_free(two);
    file_release(&f);
}

// Files of the kernel say that they have a page, and end before: as one does that is cut while it is read.
TEST(worker_mapping_notices_a_file_that_ends_while_it_is_read)
{
    int fd = open("/sys/devices/system/cpu/possible", O_RDONLY | O_CLOEXEC);
    char text[4096];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
    if (n < 2 || n >= (ssize_t)sizeof text || lseek(fd, 0, SEEK_END) != (off_t)sizeof text) {
        test_skip("no file that is shorter than it says");
        return;
    }
    const void *data;
    struct error e = {0};
    char words[64];
    snprintf(words, sizeof words, "ends at byte %zd", n);
    check_refused(fd, (struct worker_part){1, 4000}, 4000, NULL, ERR_INPUT, words);
    const struct worker_part part = {1, (size_t)n - 1}; // what is there can be had
    int mapping = mapping_copy(fd, &part, 1, part.bytes, "possible", NULL, &data, &e);
    if (CHECK(mapping >= 0)) {
        CHECK(memcmp(data, text + 1, part.bytes) == 0);
        mapping_close(mapping);
    }
    close(fd);
}

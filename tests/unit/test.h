// SPDX-License-Identifier: Apache-2.0
// A small runner: TEST(name) places a record in a linker section; each test runs in a process of its own, so a crash is
// one failed test. Names say what is tested: LAYER_THING_CASE; a test that loads a plugin has "plugin" in its name.
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct test_case {
    const char *name;
    void (*run)(void);
};

#define TEST(id)                                                                                                       \
    static void test_##id(void);                                                                                       \
    static const struct test_case test_record_##id = {#id, test_##id};                                                 \
    static const struct test_case *const test_pointer_##id __attribute__((used, section("test_cases"))) =              \
        &test_record_##id;                                                                                             \
    static void test_##id(void)

// A failed check prints the place and what was compared, and lets the test go on.
#define CHECK(condition)     test_check((condition), __FILE__, __LINE__, #condition)
#define CHECK_INT(got, want) test_check_int((long long)(got), (long long)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) test_check_str((got), (want), __FILE__, __LINE__, #got)
// |got - want| <= tolerance; NaN fails.
#define CHECK_NEAR(got, want, tolerance) test_check_near((got), (want), (tolerance), __FILE__, __LINE__, #got)
// Ends the test when the condition does not hold (what follows would crash).
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!CHECK(condition))                                                                                         \
            return;                                                                                                    \
    } while (0)
// A call that must succeed; prints the error object's text.
#define REQUIRE_OK(call, err)                                                                                          \
    do {                                                                                                               \
        if ((call) != 0) {                                                                                             \
            test_fail_error(__FILE__, __LINE__, #call, (err)->where, (err)->message);                                  \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

bool test_check(bool ok, const char *file, int line, const char *text);
bool test_check_int(long long got, long long want, const char *file, int line, const char *text);
bool test_check_str(const char *got, const char *want, const char *file, int line, const char *text);
bool test_check_near(double got, double want, double tolerance, const char *file, int line, const char *text);
void test_fail_error(const char *file, int line, const char *text, const char *where, const char *message);
// What the test needs is not here: it is counted as skipped, with the reason, unless a check fails. Return afterwards.
void test_skip(const char *reason);
// A private directory for the test, removed afterwards.
const char *test_dir(void);
// A path in it; the last four stay valid.
const char *test_below(const char *name);
// The top of the source tree (environment TOP, else the current directory): fixtures lie under TOP/tests/fixtures.
const char *test_top(void);

#endif

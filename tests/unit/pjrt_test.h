// SPDX-License-Identifier: Apache-2.0
// For tests that drive a plugin in their own process: where the plugins are, and short forms of the usual steps.
#ifndef TESTS_UNIT_PJRT_TEST_H
#define TESTS_UNIT_PJRT_TEST_H

#include "pjrt/pjrt.h"
#include "test.h"

// Two tests of one body: with the plugin of today and with an older one (PJRT API 0.81).
#define PLUGIN_TEST(id)                                                                                                \
    static void both_##id(const char *path);                                                                           \
    TEST(pjrt_plugin_##id)                                                                                             \
    {                                                                                                                  \
        both_##id(pjrt_test_plugin(false));                                                                            \
    }                                                                                                                  \
    TEST(pjrt_old_plugin_##id)                                                                                         \
    {                                                                                                                  \
        both_##id(pjrt_test_plugin(true));                                                                             \
    }                                                                                                                  \
    static void both_##id(const char *path)

const char *pjrt_test_plugin(bool old);
// A file that the build puts beside the test program: "faulty_plugin.so".
const char *pjrt_test_beside(const char *file);

// A plugin with a client. Functions return false after printing the error.
struct rig {
    struct plugin *plugin;
    struct client *client;
    struct error err;
};
bool rig_open(struct rig *r, const char *path, int device_count);
// Sets ASSAY_FAULT and opens the faulty plugin.
bool rig_open_faulty(struct rig *r, const char *fault, int device_count);
// Closes and checks that nothing of the plugin's is alive.
void rig_close(struct rig *r);
struct program *rig_compile(struct rig *r, const char *mlir, const struct compile_options *options);
struct buffer *rig_upload(struct rig *r, size_t device, const void *data, enum dtype dtype, int rank,
                          const int64_t *dims);
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

// Checks that the error is of that code and its message or place holds the text; clears it.
#define CHECK_ERROR(rc, code, text, err) pjrt_test_error((rc), (code), (text), (err), __FILE__, __LINE__)
void pjrt_test_error(int rc, int code, const char *text, struct error *err, const char *file, int line);

// bfloat16 as its 16 bits: exact to float, and to the nearest, ties to even.
float bf16_to_float(uint16_t bits);
uint16_t bf16_from_float(float f);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "pjrt_test.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

const char *pjrt_test_plugin(bool old)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/third_party/%s/pjrt_c_api_cpu_plugin.so", test_top(),
             old ? "pjrt-cpu-old" : "pjrt-cpu");
    return path;
}

const char *pjrt_test_beside(const char *file)
{
    static char path[2 * PATH_MAX];
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(path, sizeof path, "%s/%s", dirname(self), file);
    return path;
}

bool rig_open(struct rig *r, const char *path, int device_count)
{
    memset(r, 0, sizeof *r);
    struct client_options options = {.device_count = device_count};
    if (plugin_load(&r->plugin, path, &r->err) == 0 && client_new(&r->client, r->plugin, &options, &r->err) == 0)
        return true;
    test_fail_error(__FILE__, __LINE__, path, r->err.where, r->err.message);
    return false;
}

bool rig_open_faulty(struct rig *r, const char *fault, int device_count)
{
    setenv("ASSAY_FAULT", fault, 1);
    return rig_open(r, pjrt_test_beside("faulty_plugin.so"), device_count);
}

void rig_close(struct rig *r)
{
    client_free(r->client);
    plugin_free(r->plugin);
    CHECK_INT(pjrt_live_objects(), 0);
}

struct program *rig_compile(struct rig *r, const char *mlir, const struct compile_options *options)
{
    struct program *p;
    if (program_compile(&p, r->client, mlir, strlen(mlir), "mlir", options, &r->err) != 0)
        test_fail_error(__FILE__, __LINE__, mlir, r->err.where, r->err.message);
    return p;
}

struct buffer *rig_upload(struct rig *r, size_t device, const void *data, enum dtype dtype, int rank,
                          const int64_t *dims)
{
    struct array_type type = {dtype, rank, {0}};
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    struct buffer *b;
    if (buffer_from_host(&b, r->client, device, data, &type, HOST_COPY, &r->err) != 0)
        test_fail_error(__FILE__, __LINE__, "upload", r->err.where, r->err.message);
    return b;
}

void pjrt_test_error(int rc, int code, const char *text, struct error *err, const char *file, int line)
{
    test_check_int(rc, code, file, line, "the result");
    test_check_int(err->code, code, file, line, "the error's code");
    if (!strstr(err->message, text) && !strstr(err->where, text)) {
        test_check(false, file, line, text);
        printf("    in \"%s: %s\"\n", err->where, err->message);
    }
    error_clear(err);
}

float bf16_to_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

uint16_t bf16_from_float(float f)
{
    uint32_t wide;
    memcpy(&wide, &f, sizeof wide);
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

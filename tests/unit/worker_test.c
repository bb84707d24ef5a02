// SPDX-License-Identifier: Apache-2.0
#include "worker_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

const char *worker_test_libtpu(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/third_party/libtpu/libtpu.so", test_top());
    if (!file_exists(path))
        test_skip("libtpu is not here (make tpu fetches it)");
    else if (access("/sys/devices/system/cpu/possible", R_OK) != 0)
        test_skip("libtpu ends a process that cannot read /sys/devices/system/cpu/possible");
    else
        return path;
    return NULL;
}

int worker_test_open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

bool worker_test_no_child_left(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

bool worker_test_gone(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int i = 0; i < 6000; i++) {
        struct str s;
        str_init(&s);
        bool gone = file_read(&s, path, 4096, NULL) != 0 || strstr(str_text(&s), ") Z");
        str_release(&s);
        if (gone)
            return true;
        usleep(10000);
    }
    return false;
}

struct worker *worker_test_start(const char *plugin, const char *fault)
{
    setenv("ASSAY_FAULT", fault ? fault : "", 1);
    struct worker *w;
    struct error err = {0};
    struct worker_options o = {.plugin_path = plugin, .device = "cpu", .label = "test"};
    if (worker_start(&w, &o, &err) != 0) {
        test_fail_error(__FILE__, __LINE__, "worker_start", err.where, err.message);
        worker_stop(w);
        return NULL;
    }
    return w;
}

int worker_test_compile_add(struct worker *w, struct error *err)
{
    static const char text[] = "module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "%0 = stablehlo.add %a, %a : tensor<4xf32>\nreturn %0 : tensor<4xf32> } }";
    struct worker_shape arg = {DT_F32, 1, {4}};
    struct worker_program p = {
        .text = text, .length = sizeof text - 1, .format = "mlir", .name = "add", .n_args = 1, .args = &arg};
    struct worker_executable e;
    if (worker_compile(w, &p, &e, err) != 0)
        return -1;
    int id = e.id;
    worker_executable_release(&e);
    return id;
}

int worker_test_upload(struct worker *w, const float *values, size_t n, int position)
{
    struct worker_tensor t = {.shape = {DT_F32, 1, {(int64_t)n}}, .name = "values", .position = position};
    int id = -1;
    struct error err = {0};
    if (worker_upload_bytes(w, values, n * sizeof *values, &t, &id, NULL, &err) != 0)
        test_fail_error(__FILE__, __LINE__, "worker_upload_bytes", err.where, err.message);
    return id;
}

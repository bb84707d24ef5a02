// SPDX-License-Identifier: Apache-2.0
#include "cli/worker_options.h"

#include <string.h>

struct worker_options cli_worker_options(const struct cli *cli)
{
    double seconds = cli_double(cli, "timeout", 0);
    return (struct worker_options){
        .device = cli_string(cli, "device"),
        .plugin_path = cli_string(cli, "plugin"),
        .threads = (int)cli_int(cli, "threads", 0),
        .load_timeout_s = seconds,
        .compile_timeout_s = seconds,
        .run_timeout_s = seconds,
    };
}

struct worker_options cli_pipeline_worker(const struct cli *cli)
{
    struct worker_options o = cli_worker_options(cli);
    if (!cli_given(cli, "timeout")) {
        o.compile_timeout_s = 1800;
        o.run_timeout_s = 3600;
    }
    return o;
}

bool cli_wants_kernels(const struct cli *cli)
{
    return strcmp(cli_string(cli, "kernels"), "on") == 0;
}

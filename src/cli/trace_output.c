// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_output.h"

#include <inttypes.h>
#include <stdlib.h>

#include "trace/run.h"

const char *trace_directory(void)
{
    const char *environment = getenv("TPU_TRACE_DIR");
    return environment && *environment ? environment : "./tpu-xprof-trace";
}

int trace_output(struct cli *cli, const struct capture *c, const char **path, struct error *err)
{
    struct str file;
    str_init(&file);
    int rc = trace_run_write(trace_directory(), c->epoch_ns, &c->space, &file, err);
    *path = rc ? NULL : arena_strdup(&cli->arena, str_text(&file), err);
    str_release(&file);
    if (rc || !*path)
        return rc ? rc : ERR_MEMORY;
    cli_note(cli, "profile: %s, %" PRIu64 " event%s", *path, c->events, c->events == 1 ? "" : "s");
    if (c->without_buffers)
        cli_note(cli, "%s", c->without_buffers);
    if (c->dropped)
        cli_note(cli, "%" PRIu64 " span%s not in the profile: there was no room", c->dropped,
                 c->dropped == 1 ? " is" : "s are");
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_input.h"

#include <inttypes.h>

int trace_input(struct cli *cli, struct trace *t, struct error *err)
{
    int rc = trace_open(t, cli->operands, cli->n_operands, err);
    if (!rc && t->n_other_runs)
        cli_note(cli, "reading %s; beside it lie %zu older", t->run, t->n_other_runs);
    return rc;
}

int trace_damage(const struct trace *t, struct error *err)
{
    for (size_t i = 0; i < t->n_files; i++) {
        const struct xdamage *d = &t->files[i].space.damage;
        if (d->what)
            return error_set(err, ERR_INPUT, t->files[i].path,
                             "is damaged at offset %" PRIu64 " (%s): %s; what can be read of it was used", d->offset,
                             d->where, d->what);
    }
    return 0;
}

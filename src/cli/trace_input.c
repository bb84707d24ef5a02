// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_input.h"

#include <inttypes.h>
#include <string.h>

// What of a trace in JSON has no place in a profile.
static void note_left_out(struct cli *cli, const struct trace_file *f)
{
    if (f->chrome.left_out)
        cli_note(cli, "%s: without %" PRIu64 " event%s of kinds that profiles have no place for", f->path,
                 f->chrome.left_out, f->chrome.left_out == 1 ? "" : "s");
    if (f->chrome.arrows_left_out)
        cli_note(cli, "%s: without %" PRIu64 " end%s of arrows where no event is", f->path, f->chrome.arrows_left_out,
                 f->chrome.arrows_left_out == 1 ? "" : "s");
}

int trace_input(struct cli *cli, struct trace *t, struct error *err)
{
    int rc = trace_open(t, cli->operands, cli->n_operands, err);
    if (!rc && t->n_other_runs)
        cli_note(cli, "reading %s; beside it lie %zu older", t->run, t->n_other_runs);
    for (size_t i = 0; !rc && i < t->n_files; i++)
        note_left_out(cli, &t->files[i]);
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

bool trace_wants_json(const struct cli *cli)
{
    return cli->json || strcmp(cli_string(cli, "format"), "json") == 0;
}

int trace_document(struct cli *cli, struct trace *t,
                   int (*fill)(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err), void *of,
                   struct error *err)
{
    struct str text;
    struct jw w;
    struct error damage = {0};
    str_init(&text);
    jw_init(&w, &text, false);
    int rc = fill(cli, t, of, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&text), trace_damage(t, &damage) ? &damage : NULL, err);
    str_release(&text);
    return rc;
}

enum table_format trace_format(const struct cli *cli)
{
    enum table_format format = TABLE_TEXT;
    table_format_parse(cli_string(cli, "format"), &format);
    return format;
}

size_t trace_top(const struct cli *cli)
{
    bool all = trace_format(cli) == TABLE_CSV && !cli_given(cli, "top");
    return all ? 0 : (size_t)cli_int(cli, "top", 0);
}

void trace_cell(struct table *t, struct slice s)
{
    struct str text;
    str_init(&text);
    str_add_n(&text, s.data, s.size);
    table_cell(t, s.size ? str_text(&text) : "(none)");
    str_release(&text);
}

void trace_key_words(struct str *out)
{
    str_add(out, "op\nname\ncategory\nmodule\nscope\nscope:2\nsource\nstat:\n");
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded.h"

#include <string.h>

#include "report/report.h"

int cli_show(struct cli *cli, const struct str *document, const char *format, struct error *err)
{
    enum report_format form;
    if (cli->json || strcmp(format, "json") == 0) {
        str_add_n(&cli->out, document->text, document->length);
        cli->document = true;
        return 0;
    }
    if (!report_format_parse(format, &form))
        return error_set(err, ERR_INTERNAL, "--format", "%s", format);
    json_t *doc = json_parse(document->text, document->length, "report.json", err);
    int rc = doc ? report_render(&cli->out, doc, NULL, form, (size_t)cli->width, cli->color, err) : ERR_INTERNAL;
    json_decref(doc);
    return rc;
}

int cli_recorded(struct cli *cli, const char *command, cli_fill *fill, void *of, const char *format, struct error *err)
{
    struct record record;
    struct str document;
    int rc = record_open(&record, cli_string(cli, "run-dir"), command, cli->argc, cli->argv, err);
    if (rc)
        return rc;
    str_init(&document);
    rc = fill(of, &record, &document, err);
    if (rc)
        cli_note(cli, "what was written so far is in %s", record.building);
    else {
        cli->record = arena_strdup(&cli->arena, record_path(&record), err);
        rc = cli->record ? cli_show(cli, &document, format, err) : ERR_MEMORY;
    }
    str_release(&document);
    return rc;
}

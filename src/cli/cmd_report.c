// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/json.h"
#include "base/sha256.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "record/record.h"
#include "report/report.h"
#include "report/stale.h"

// Under --json the rendered text, or the document itself, is the envelope's result.
static int envelope(struct cli *cli, const char *format, const char *content, size_t n, struct error *err)
{
    struct str result;
    struct jw w;
    str_init(&result);
    jw_init(&w, &result, false);
    jw_object(&w);
    jw_kv_string(&w, "format", format);
    if (strcmp(format, "json") == 0) {
        jw_key(&w, "document");
        jw_raw(&w, content);
    } else {
        jw_key(&w, "text");
        jw_string_n(&w, content, n);
    }
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    cli->record = cli->operands[0];
    if (!rc)
        rc = cli_envelope(cli, str_text(&result), NULL, err);
    str_release(&result);
    return rc;
}

// Says which pages and pictures of the record were drawn from another report.json: *stale is their number.
static int look_for_stale(struct cli *cli, const char *sha256, size_t *stale, struct error *err)
{
    struct str names;
    str_init(&names);
    int rc = report_stale(&names, stale, cli->operands[0], sha256, err);
    const char *name = str_text(&names);
    for (size_t i = 0; i < *stale && !rc; i++) {
        int n = (int)strcspn(name, "\n");
        cli_note(cli, "%.*s was not drawn from this report.json: do not believe it; --format html draws it anew", n,
                 name);
        name += n + 1;
    }
    str_release(&names);
    return rc;
}

static int show(struct cli *cli, const struct record_contents *record, const char *sha256, struct error *err)
{
    const char *name = cli_string(cli, "format");
    enum report_format format;
    if (!report_format_parse(name, &format) || (cli->json && !cli_given(cli, "format"))) { // json: as it was written
        if (cli->json)
            return envelope(cli, "json", record->report, record->report_bytes, err);
        str_add_n(&cli->out, record->report, record->report_bytes);
        return 0;
    }
    json_t *doc = json_parse(record->report, record->report_bytes, "report.json", err);
    if (!doc)
        return ERR_INPUT;
    struct str text;
    str_init(&text);
    int rc = report_render(&text, doc, sha256, format, (size_t)cli->width, cli->color, err);
    if (!rc && cli->json)
        rc = envelope(cli, name, str_text(&text), text.length, err);
    else if (!rc)
        str_add_n(&cli->out, str_text(&text), text.length);
    str_release(&text);
    json_decref(doc);
    return rc;
}

static int run(struct cli *cli, struct error *err)
{
    struct record_contents record;
    char sha256[65];
    size_t stale = 0;
    int rc = record_read(&record, cli->operands[0], &cli->arena, err);
    if (!rc)
        rc = sha256_bytes(record.report, record.report_bytes, sha256, err);
    if (!rc)
        rc = show(cli, &record, sha256, err);
    if (!rc)
        rc = look_for_stale(cli, sha256, &stale, err);
    return rc ? rc : stale ? 1 : 0;
}

const struct command command_report = {
    .name = "report",
    .operands = "RECORD",
    .min_operands = 1,
    .max_operands = 1,
    .operand_complete = COMPLETE_DIR,
    .summary = "show a record again, in another form",
    .description =
        (const char *const[]){
            "Reads the directory that a command has written and prints its report. text is what the command itself "
            "prints; md holds every table; html is one page with charts that needs no script and no network; json is "
            "the record's report.json, byte for byte.",
            "Pages and pictures in a record carry the hash of the report.json that they were drawn from. Where it is "
            "another one a note says so and the exit code is 1: somebody has changed one of the two.",
            "A record whose run failed or never ended is refused, with the reason. With --json the document is the "
            "member `document` of the result, or, when --format asks for another form, `text`.",
            NULL},
    .options = (const struct option[]){OPTION_FORMAT("text json md html csv"), {0}},
    .examples = (const struct example[]){{"assay report runs/qualify-20250101-120000-4711",
                                          "what the run printed, for this terminal's width"},
                                         {"assay report --format html runs/r1 > r1.html", "the page with charts"},
                                         {0}},
    .run = run,
};

// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <string.h>

#include "report/doc.h"
#include "report/ladder.h"
#include "report/precision.h"
#include "report/probe.h"
#include "report/qualify.h"
#include "report/stages.h"

// One row per schema that has a report.
static const struct report {
    const char *schema;
    int (*text)(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
    int (*markdown)(struct str *out, const json_t *doc, struct error *err);
    int (*html)(struct str *out, const json_t *doc, const char *sha256, struct error *err);
    int (*csv)(struct str *out, const json_t *doc, struct error *err); // NULL: has none
} reports[] = {
    {"assay.qualify/1", report_qualify_text, report_qualify_markdown, report_qualify_html, NULL},
    {"assay.precision/1", report_precision_text, report_precision_markdown, report_precision_html,
     report_precision_csv},
    {"assay.probe/1", report_probe_text, report_probe_markdown, report_probe_html, NULL},
    {"assay.ladder/1", report_ladder_text, report_ladder_markdown, report_ladder_html, report_ladder_csv},
    {"assay.bench.stages/1", report_stages_text, report_stages_markdown, report_stages_html, report_stages_csv},
    {"assay.bench.compare/1", report_stages_compare_text, report_stages_compare_markdown, report_stages_compare_html,
     report_stages_compare_csv},
};

bool report_format_parse(const char *name, enum report_format *out)
{
    static const char *const names[] = {"text", "md", "html", "csv"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum report_format)i;
            return true;
        }
    }
    return false;
}

static int render(const struct report *r, struct str *out, const json_t *doc, const char *sha256,
                  enum report_format format, size_t width, bool color, struct error *err)
{
    switch (format) {
    case REPORT_TEXT:
        return r->text(out, doc, width, color, err);
    case REPORT_MARKDOWN:
        return r->markdown(out, doc, err);
    case REPORT_HTML:
        return r->html(out, doc, sha256, err);
    case REPORT_CSV:
        break;
    }
    return r->csv ? r->csv(out, doc, err) : error_set(err, ERR_USAGE, "--format", "%s has no form csv", r->schema);
}

int report_render(struct str *out, const json_t *doc, const char *sha256, enum report_format format, size_t width,
                  bool color, struct error *err)
{
    const char *schema = doc_text(doc, "schema", "");
    struct str known;
    str_init(&known);
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        const struct report *r = &reports[i];
        if (strcmp(r->schema, schema) == 0) {
            str_release(&known);
            return render(r, out, doc, sha256, format, width, color, err);
        }
        str_addf(&known, "%s%s", i ? ", " : "", r->schema);
    }
    error_set(err, ERR_INPUT, "schema", "\"%.80s\" has no report, only %s", schema, str_text(&known));
    str_release(&known);
    return ERR_INPUT;
}

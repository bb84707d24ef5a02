// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <string.h>

#include "report/doc.h"
#include "report/precision.h"
#include "report/qualify.h"

static int qualify_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    (void)sha256;
    return report_qualify_html(out, doc, err);
}

// One row per schema that has a report.
static const struct report {
    const char *schema;
    int (*text)(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
    int (*markdown)(struct str *out, const json_t *doc, struct error *err);
    int (*html)(struct str *out, const json_t *doc, const char *sha256, struct error *err);
} reports[] = {
    {"assay.qualify/1", report_qualify_text, report_qualify_markdown, qualify_html},
    {"assay.precision/1", report_precision_text, report_precision_markdown, report_precision_html},
};

bool report_format_parse(const char *name, enum report_format *out)
{
    static const char *const names[] = {"text", "md", "html"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum report_format)i;
            return true;
        }
    }
    return false;
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
            return format == REPORT_TEXT       ? r->text(out, doc, width, color, err)
                   : format == REPORT_MARKDOWN ? r->markdown(out, doc, err)
                                               : r->html(out, doc, sha256, err);
        }
        str_addf(&known, "%s%s", i ? ", " : "", r->schema);
    }
    error_set(err, ERR_INPUT, "schema", "\"%.80s\" has no report, only %s", schema, str_text(&known));
    str_release(&known);
    return ERR_INPUT;
}

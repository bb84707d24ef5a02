// SPDX-License-Identifier: Apache-2.0
// The qualify document on a terminal (the first screen) and in Markdown (all of it).
#include <math.h>
#include <string.h>

#include "report/format.h"
#include "report/page.h"
#include "report/qualify.h"
#include "report/qualify_decision.h"
#include "report/qualify_tables.h"
#include "report/qualify_why.h"

static void add_count(struct str *s, const json_t *o, const char *path, const char *before, const char *after)
{
    char text[FORMAT_MAX];
    double v = doc_number(o, path);
    if (!isfinite(v))
        return;
    format_count(text, v);
    str_addf(s, "%s%s%s", before, text, after);
}

// "synthetic (bert), 22.7 M parameters, 90.9 MB; 320 texts in batches of 32 x 128"
static void workload_line(struct str *s, const json_t *result)
{
    char text[FORMAT_MAX];
    str_addf(s, "%s (%s)", doc_text(result, "workload.name", "(no name)"), doc_text(result, "workload.kind", "?"));
    double parameters = doc_number(result, "workload.parameters");
    if (isfinite(parameters)) {
        format_si(text, parameters, "");
        str_addf(s, ", %s%sparameters", text, text[strlen(text) - 1] == ' ' ? "" : " "); // no prefix: it ends there
    }
    format_quantity(text, doc_quantity(result, "workload.weight_bytes"));
    str_addf(s, ", %s", text);
    add_count(s, result, "workload.texts", "; ", " texts");
    add_count(s, result, "workload.cases", "; cases: ", "");
    add_count(s, result, "workload.batch", "; batch ", "");
    add_count(s, result, "workload.seq", " x ", " tokens");
    if (doc_number(result, "workload.truncated_texts") > 0)
        add_count(s, result, "workload.truncated_texts", "; ", " texts were longer and were cut");
}

static void device_line(struct str *s, const json_t *result)
{
    str_addf(s, "%s: %s", doc_text(result, "device.requested", "?"), doc_text(result, "device.kind", "?"));
    const char *model = doc_text(result, "host.cpu.model", NULL);
    if (model && strcmp(model, doc_text(result, "device.kind", "")) != 0)
        str_addf(s, ", %s", model);
    add_count(s, result, "host.cpu.cores", ", ", " cores");
    const char *api = doc_text(result, "device.plugin.api_version", NULL);
    if (api)
        str_addf(s, ", PJRT %s", api);
}

static void unmet_text(struct str *s, const json_t *policy)
{
    for (size_t i = 0; i < doc_count(policy, "unmet"); i++)
        str_addf(s, "%s%s", i ? ", " : "", doc_item_text(policy, "unmet", i));
}

static void decision(const struct page *p, const json_t *result)
{
    struct str s;
    str_init(&s);
    qualify_headline(&s, result);
    bool chosen = doc_text(result, "decision.chosen", NULL) != NULL;
    bool asked = doc_text(result, "decision.require", NULL) != NULL;
    page_paragraph(p, !asked ? PAGE_BOLD : chosen ? PAGE_BOLD PAGE_GOOD : PAGE_BOLD PAGE_BAD, "", str_text(&s));
    if (asked)
        page_paragraph(p, NULL, "  required: ", doc_text(result, "decision.require", ""));
    if (*doc_text(result, "decision.reason", ""))
        page_paragraph(p, NULL, "  ", doc_text(result, "decision.reason", ""));
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        if (!doc_count(policy, "unmet"))
            continue;
        str_clear(&s);
        str_addf(&s, "%s: ", qualify_policy_name(policy));
        unmet_text(&s, policy);
        page_paragraph(p, PAGE_DIM, "  not met by ", str_text(&s));
    }
    for (size_t i = 0; i < doc_count(result, "decision.advice"); i++)
        page_paragraph(p, NULL, "  try: ", doc_item_text(result, "decision.advice", i));
    str_release(&s);
}

static void notes(const struct page *p, const json_t *result)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        str_clear(&s);
        str_addf(&s, "%s: ", qualify_policy_name(policy));
        size_t name = s.length;
        qualify_policy_notes(&s, result, policy);
        if (s.length > name)
            page_paragraph(p, PAGE_WARN, "", str_text(&s));
    }
    p->out->failed |= s.failed;
    str_release(&s);
}

int report_qualify_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err)
{
    const json_t *result = qualify_result(doc, err);
    if (!result)
        return ERR_INPUT;
    struct page p = {out, width, color};
    struct str s;
    str_init(&s);
    workload_line(&s, result);
    page_paragraph(&p, PAGE_BOLD, "", str_text(&s));
    str_clear(&s);
    device_line(&s, result);
    page_paragraph(&p, NULL, "", str_text(&s));
    for (size_t i = 0; i < doc_count(result, "host.warnings"); i++)
        page_paragraph(&p, PAGE_WARN, "warning: ", doc_item_text(result, "host.warnings", i));
    str_add_char(out, '\n');
    int rc = page_table(&p, qualify_table_policies, result, TABLE_TEXT, err);
    bool outputs = qualify_table_applies(qualify_table_outputs, result);
    page_paragraph(&p, PAGE_DIM, "",
                   outputs
                       ? "errors are against the same graph in f64, of the worst output; time is per run, below 1 is "
                         "faster"
                       : "errors are against the same graph in f64; time is per batch, below 1 is faster");
    if (!rc && outputs) {
        str_add_char(out, '\n');
        rc = page_table(&p, qualify_table_outputs, result, TABLE_TEXT, err);
    }
    notes(&p, result);
    str_add_char(out, '\n');
    if (qualify_why_any(result)) {
        qualify_why_text(&p, result);
        str_add_char(out, '\n');
    }
    if (!rc && doc_count(result, "modules")) {
        rc = page_table(&p, qualify_table_modules, result, TABLE_TEXT, err);
        str_clear(&s);
        str_addf(&s, "floors of %s on one device; c: bound by compute, m: by memory",
                 qualify_policy_name(qualify_modules_policy(result)));
        page_paragraph(&p, PAGE_DIM, "", str_text(&s));
        str_add_char(out, '\n');
        if (!rc)
            rc = page_table(&p, qualify_table_predictions, result, TABLE_TEXT, err);
        str_add_char(out, '\n');
        if (!rc && qualify_has_targets(result)) {
            rc = page_table(&p, qualify_table_targets, result, TABLE_TEXT, err);
            str_add_char(out, '\n');
        }
    }
    decision(&p, result);
    if (qualify_parts(result)) {
        str_add_char(out, '\n');
        qualify_parts_text(&p, result);
        str_add_char(out, '\n');
    }
    const char *record = doc_text(doc, "record", NULL);
    if (record)
        page_paragraph(&p, NULL, "record: ", record);
    page_paragraph(&p, PAGE_DIM, "", "[S] from a sheet  [D] derived  [M] measured");
    rc = rc ? rc : str_check(&s, err);
    str_release(&s);
    return rc ? rc : str_check(out, err);
}

static void markdown(struct str *out, const char *text)
{
    str_add_markdown(out, text, strlen(text));
}

static void markdown_failures(struct str *out, const json_t *result)
{
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        const char *tail = doc_text(policy, "failure.stderr_tail", "");
        if (!qualify_failed(policy) || !*tail)
            continue;
        str_add(out, "\nLast words of ");
        markdown(out, qualify_policy_name(policy));
        str_add(out, ":\n\n");
        for (const char *line = tail; *line;) { // an indented block, so nothing in it is markup
            size_t n = strcspn(line, "\n");
            str_add(out, "    ");
            str_add_terminal(out, line, n);
            str_add_char(out, '\n');
            line += n + (line[n] == '\n');
        }
    }
}

static void markdown_decision(struct str *out, const json_t *result)
{
    struct str s;
    str_init(&s);
    qualify_headline(&s, result);
    str_add(out, "**");
    markdown(out, str_text(&s));
    str_add(out, "**\n\n");
    if (doc_text(result, "decision.require", NULL)) {
        str_add(out, "Required: ");
        markdown(out, doc_text(result, "decision.require", ""));
        str_add(out, "\n\n");
    }
    markdown(out, doc_text(result, "decision.reason", ""));
    str_add(out, "\n\n");
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        if (!doc_count(policy, "unmet"))
            continue;
        str_clear(&s);
        unmet_text(&s, policy);
        str_add(out, "- not met by ");
        markdown(out, qualify_policy_name(policy));
        str_add(out, ": ");
        markdown(out, str_text(&s));
        str_add_char(out, '\n');
    }
    for (size_t i = 0; i < doc_count(result, "decision.advice"); i++) {
        str_add(out, "- try: ");
        markdown(out, doc_item_text(result, "decision.advice", i));
        str_add_char(out, '\n');
    }
    out->failed |= s.failed;
    str_release(&s);
}

int report_qualify_markdown(struct str *out, const json_t *doc, struct error *err)
{
    static const struct {
        const char *title, *about;
        void (*fill)(struct table *, const json_t *);
    } sections[] = {
        {"Policies", "Errors are against the same graph in f64; time is per batch.", qualify_table_policies},
        {"Errors and the task", "", qualify_table_errors},
        {"Outputs", "Same: rows whose largest element is where f64 has it; of integers, equal elements.",
         qualify_table_outputs},
        {"Subsets", "", qualify_table_subsets},
        {"Time", "Every sample is in the record.", qualify_table_time},
        {"The whole request", "", qualify_table_request},
        {"Modules and floors", "Of the policy that was chosen, else the first; c: bound by compute, m: by memory.",
         qualify_table_modules},
        {"Predictions", "", qualify_table_predictions},
        {"Three predictions",
         "Of one batch on one device: by the sheet (sum of the modules' floors), by the compiler ahead of time (what "
         "its code "
         "takes at least, and that over a measured efficiency, within its band), by what was measured on such a chip.",
         qualify_table_targets},
        {"Rates of the chips", "", qualify_table_chips},
        {"Memory", "Arguments to code are the compiler's own account.", qualify_table_memory},
        {"What each policy is", "", qualify_table_specs},
        {NULL, "", qualify_table_parts},
        {"Quantised activations",
         "Values beyond the codes on the texts of --text, padding left out; static scales are from other texts.",
         qualify_table_activations},
        {"Which products ran", "", qualify_table_products},
        {"What went wrong inside", "", qualify_table_diagnostics},
        {"Arguments", "", qualify_table_arguments},
        {"Files", "", qualify_table_files},
    };
    const json_t *result = qualify_result(doc, err);
    if (!result)
        return ERR_INPUT;
    struct page p = {out, 0, false};
    struct str s;
    str_init(&s);
    str_add(out, "# assay qualify: ");
    markdown(out, doc_text(result, "workload.name", "(no name)"));
    str_add(out, "\n\n");
    workload_line(&s, result);
    markdown(out, str_text(&s));
    str_add(out, "  \n");
    str_clear(&s);
    device_line(&s, result);
    markdown(out, str_text(&s));
    str_add(out, "\n\n## Decision\n\n");
    markdown_decision(out, result);
    int rc = 0;
    for (size_t i = 0; i < qualify_parts(result) && !rc; i++) {
        str_clear(&s);
        qualify_part_title(&s, result, i);
        str_add(out, i ? "\n### " : "\n## Decision report\n\n### ");
        markdown(out, str_text(&s));
        str_add(out, "\n\n");
        rc = page_table(&p, qualify_table_part, qualify_part(result, i), TABLE_MARKDOWN, err);
    }
    for (size_t i = 0; i < sizeof sections / sizeof *sections && !rc; i++) {
        if (!qualify_table_applies(sections[i].fill, result))
            continue;
        str_add_char(out, '\n');
        if (sections[i].title)
            str_addf(out, "## %s\n\n%s%s", sections[i].title, sections[i].about, *sections[i].about ? "\n\n" : "");
        if (sections[i].fill == qualify_table_targets && !qualify_has_targets(result))
            str_add(out, "--target asks the compilers of TPUs; this run did not.\n");
        else
            rc = page_table(&p, sections[i].fill, result, TABLE_MARKDOWN, err);
        if (sections[i].fill == qualify_table_policies)
            markdown_failures(out, result);
        if (sections[i].fill == qualify_table_time && qualify_why_any(result)) {
            str_add(out, "\n## Why narrower is not faster\n\n");
            qualify_why_markdown(out, result);
        }
    }
    str_add(out, "\n## Provenance\n\n");
    rc = rc ? rc : page_table(&p, qualify_table_facts, doc, TABLE_MARKDOWN, err);
    str_add(out, "\n\\[S\\] from a sheet, \\[D\\] derived by a formula, \\[M\\] measured on the device.\n");
    rc = rc ? rc : str_check(&s, err);
    str_release(&s);
    return rc ? rc : str_check(out, err);
}

// SPDX-License-Identifier: Apache-2.0
#include "api/probe_record.h"

#include "api/evidence.h"
#include "report/probe.h"

struct probing {
    const struct probe_run *run;
    const struct probe_options *options;
};

static void config(const void *of, struct jw *w)
{
    const struct probing *p = of;
    probe_config(w, p->options);
}

static int result(const void *of, struct jw *w, struct error *err)
{
    const struct probing *p = of;
    return probe_json(w, p->run, p->options, err);
}

static void failures(const void *of, struct jw *w)
{
    const struct probing *p = of;
    probe_failures(w, p->run);
}

int probe_record(struct probe_run *r, const struct probe_options *o, const struct progress *progress,
                 struct record *record, struct str *document, struct error *err)
{
    const struct probing of = {r, o};
    const struct evidence evidence = {.command = "probe",
                                      .of = &of,
                                      .config = config,
                                      .result = result,
                                      .failures = failures,
                                      .markdown = report_probe_markdown,
                                      .html = report_probe_html};
    int rc = evidence_config(&evidence, record, err);
    if (!rc)
        rc = probe_execute(r, o, progress, record, err);
    if (!rc)
        rc = probe_write_evidence(r, record, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    return rc;
}

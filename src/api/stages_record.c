// SPDX-License-Identifier: Apache-2.0
#include "api/stages_record.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/evidence.h"
#include "report/stages.h"

struct timing {
    const struct stages *stages;
    const struct stages_options *options;
};

static void config(const void *of, struct jw *w)
{
    const struct timing *t = of;
    stages_config(t->options, w);
}

static int result(const void *of, struct jw *w, struct error *err)
{
    const struct timing *t = of;
    (void)err;
    stages_json(t->stages, w);
    return 0;
}

static void failures(const void *of, struct jw *w)
{
    const struct timing *t = of;
    int done = t->stages->calib.n_products ? 1 : 0;
    for (int i = 0; i < STAGES_SERVINGS; i++)
        done += t->stages->serving[i].done;
    for (int i = 0; i < STAGES_MODULES; i++)
        done += t->stages->modules[i].done;
    jw_object(w);
    jw_kv_int(w, "timed", done);
    jw_object_end(w);
}

static int write_outputs(const struct stages *s, struct record *record, const char *name, char path[1024],
                         struct error *err)
{
    int rc = s->n_outputs ? record_place(record, name, path, 1024, err) : 0;
    return rc || !s->n_outputs ? rc : stages_outputs_write(s, path, err);
}

int stages_record(struct stages *s, const struct stages_options *o, const struct progress *progress,
                  struct record *record, struct str *document, struct error *err)
{
    const struct timing of = {s, o};
    const struct evidence evidence = {.command = "bench stages",
                                      .of = &of,
                                      .config = config,
                                      .result = result,
                                      .failures = failures,
                                      .markdown = report_stages_markdown,
                                      .html = report_stages_html};
    int rc = evidence_config(&evidence, record, err);
    if (!rc)
        rc = stages_run(s, o, record, progress, err);
    char path[1024];
    if (!rc)
        rc = write_outputs(s, record, "outputs.safetensors", path, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    return rc;
}

// ---- two devices

struct comparing {
    const struct stages_options *options;
    const struct stages_device *devices;
    const struct stages_order *order;
    struct stages_side sides[2];
};

static void compare_config(const void *of, struct jw *w)
{
    const struct comparing *c = of;
    stages_config(c->options, w);
    jw_key(w, "devices");
    jw_array(w);
    jw_string(w, c->devices[0].name);
    jw_string(w, c->devices[1].name);
    jw_array_end(w);
    jw_kv_bool(w, "in_turns", c->order->in_turns);
}

static int compare_result(const void *of, struct jw *w, struct error *err)
{
    const struct comparing *c = of;
    return stages_compare_json(&c->sides[0], &c->sides[1], c->order, w, err);
}

static void compare_failures(const void *of, struct jw *w)
{
    const struct comparing *c = of;
    jw_object(w);
    jw_kv_int(w, "devices_timed", (c->sides[0].document != NULL) + (c->sides[1].document != NULL));
    jw_object_end(w);
}

static int stages_result(void *of, struct jw *w, struct error *err)
{
    (void)err;
    stages_json(of, w);
    return 0;
}

// What one device gave, in the record and as a side.
static int keep_side(struct stages *s, int which, const char *name, struct record *record, struct stages_side *side,
                     struct error *err)
{
    static const char *const files[2][2] = {{"a/stages.json", "a/outputs.safetensors"},
                                            {"b/stages.json", "b/outputs.safetensors"}};
    struct str document;
    char path[1024];
    str_init(&document);
    int rc = record_document(&document, "bench stages", NULL, stages_result, s, err);
    if (!rc)
        rc = record_write(record, files[which][0], document.text, document.length, err);
    if (!rc)
        rc = write_outputs(s, record, files[which][1], path, err);
    if (!rc && s->n_outputs) {
        rc = checkpoint_open(&side->outputs, path, err);
        side->has_outputs = !rc;
    }
    side->name = name;
    if (!rc && !(side->document = json_parse(document.text, document.length, name, err)))
        rc = ERR_INTERNAL;
    str_release(&document);
    return rc;
}

static struct stages_options options_of(const struct stages_options *o, const struct stages_device *d)
{
    struct stages_options one = *o;
    one.klein.worker.device = d->device;
    if (d->threads)
        one.klein.worker.threads = d->threads;
    return one;
}

int stages_compare_check(const struct stages_options *o, const struct stages_device devices[2],
                         struct stages_order *order, struct error *err)
{
    struct klein_need needs[2];
    const char *const names[2] = {devices[0].device, devices[1].device};
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        struct stages_options one = options_of(o, &devices[i]);
        rc = stages_check(&one, &needs[i], err);
    }
    if (!rc)
        *order = stages_order_of(needs, names);
    return rc;
}

// What runs on one device, and what it leaves.
struct side_run {
    struct stages_options options;
    struct stages stages;
    int which;
    const char *name;
    struct record *record;
    const struct progress *progress;
    struct stages_side *side;
};

static void report_of_side(void *context, const char *stage, size_t done, size_t total)
{
    const struct side_run *r = context;
    char text[160];
    snprintf(text, sizeof text, "%s: %s", r->name, stage);
    progress_report(r->progress, text, done, total);
}

static void note_of_side(void *context, const char *text)
{
    const struct side_run *r = context;
    progress_note(r->progress, text);
}

static int run_side(void *of, struct turn *turn, struct error *err)
{
    struct side_run *r = of;
    const struct progress named = {report_of_side, note_of_side, r};
    r->options.turn = turn;
    int rc = stages_run(&r->stages, &r->options, r->record, &named, err);
    if (!rc)
        rc = keep_side(&r->stages, r->which, r->name, r->record, r->side, err);
    stages_release(&r->stages);
    return rc;
}

static int run_both(struct comparing *c, const struct progress *progress, struct record *record, struct error *err)
{
    const char *const names[2] = {c->devices[0].name, c->devices[1].name};
    struct side_run *runs = calloc(2, sizeof *runs);
    int rc = runs ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for two runs");
    for (int i = 0; i < 2 && !rc; i++)
        runs[i] = (struct side_run){.options = options_of(c->options, &c->devices[i]),
                                    .which = i,
                                    .name = names[i],
                                    .record = record,
                                    .progress = progress,
                                    .side = &c->sides[i]};
    if (!rc && c->order->in_turns)
        rc = turns_both(run_side, (void *const[]){&runs[0], &runs[1]}, names, c->options->seed, err);
    for (int i = 0; i < 2 && !rc && !c->order->in_turns; i++)
        rc = run_side(&runs[i], NULL, err);
    free(runs);
    return rc;
}

int stages_compare_record(const struct stages_options *o, const struct stages_device devices[2],
                          const struct stages_order *order, const struct progress *progress, struct record *record,
                          struct str *document, struct error *err)
{
    struct comparing of = {.options = o, .devices = devices, .order = order};
    const struct evidence evidence = {.command = "bench compare",
                                      .of = &of,
                                      .config = compare_config,
                                      .result = compare_result,
                                      .failures = compare_failures,
                                      .markdown = report_stages_compare_markdown,
                                      .html = report_stages_compare_html};
    int rc = evidence_config(&evidence, record, err);
    if (!rc)
        rc = run_both(&of, progress, record, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    for (int i = 0; i < 2; i++)
        stages_side_release(&of.sides[i]);
    return rc;
}

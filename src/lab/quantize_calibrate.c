// SPDX-License-Identifier: Apache-2.0
#include "lab/quantize_calibrate.h"

#include <inttypes.h>
#include <string.h>

// The policy in the words of models, whose weights know fewer ways to find a scale: those do not matter to activations.
static void as_of_models(const struct quantize_policy *p, struct str *out)
{
    const struct quant_spec *s = &p->spec;
    if (!strchr(p->text, '=')) {
        str_add(out, p->text);
        return;
    }
    if (p->form == QUANTIZE_CODES) {
        str_addf(out, "w=%s", dtype_name(s->type));
        if (s->granularity == QUANT_PER_GROUP)
            str_addf(out, "/group:%" PRId64, s->group);
        else
            str_add(out, s->granularity == QUANT_PER_CHANNEL ? "/channel" : "/tensor");
    } else {
        str_addf(out, "w=%s", p->form == QUANTIZE_NARROW ? dtype_name(p->to) : p->block->name);
    }
    str_addf(out, "%s%s", p->others[0] ? "," : "", p->others);
}

static int parse_policy(const struct quantize_policy *p, struct policy *model, struct error *err)
{
    struct str text;
    str_init(&text);
    as_of_models(p, &text);
    int rc = str_check(&text, err);
    if (!rc)
        rc = policy_parse(model, str_text(&text), err);
    if (rc)
        error_context(err, "to calibrate, a model runs under the policy");
    str_release(&text);
    if (rc || model->a_static)
        return rc;
    return error_set(err, ERR_USAGE, "--calibrate",
                     "policy '%s' has no static scales of activations to make; w8a8-static has, and fields like "
                     "a=int8/tensor:static,op=int8",
                     p->text);
}

static int keep(struct quantize_calibration *c, const struct ranges *r, const struct policy *model, struct arena *a,
                struct error *err)
{
    const struct workload *w = &r->workload;
    struct str fields;
    c->path = arena_strdup(a, w->text_path, err);
    c->bytes = w->text_bytes;
    memcpy(c->sha256, w->text_sha256, sizeof c->sha256);
    c->texts = w->n_texts;
    c->tokens = w->n_tokens;
    c->truncated = w->n_truncated;
    c->batch = w->batch;
    c->seq = w->seq;
    c->type = model->a;
    c->percentile = model->a_percentile;
    c->count = (size_t)r->n;
    str_init(&fields);
    policy_spell(model, &fields);
    c->policy = arena_strdup(a, str_text(&fields), err);
    str_release(&fields);
    c->activations = arena_new(a, struct quantize_activation, c->count, err);
    if (!c->path || !c->policy || !c->activations)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->count; i++) {
        struct quantize_activation *x = &c->activations[i];
        struct activation_range range = model->ranges[i];
        x->name = arena_strdup(a, r->activations[i].scope, err);
        x->module = arena_strdup(a, r->activations[i].group, err);
        if (!x->name || !x->module)
            return ERR_MEMORY;
        x->low = range.low;
        x->high = range.high;
        policy_static_scale(model, range, &x->scale, &x->zero);
    }
    return 0;
}

static int run(struct quantize_calibration *c, struct ranges *r, struct policy *model,
               const struct quantize_calibrate_options *o, const struct progress *progress, struct arena *a,
               struct error *err)
{
    struct bert_build how = {.batch = r->workload.batch, .seq = r->workload.seq, .first_layer = -1};
    struct module module;
    struct policy *const policies[] = {model};
    module_init(&module, a, r->workload.name);
    int rc = bert_module(&r->workload.bert, &how, &module, err);
    if (!rc)
        rc = ranges_measure(r, &module, &o->worker, policies, 1, progress, a, err);
    return rc ? rc : keep(c, r, model, a, err);
}

int quantize_calibrate(struct quantize_calibration *c, const char *directory, const struct quantize_policy *policy,
                       const struct quantize_calibrate_options *o, const struct progress *progress, struct arena *a,
                       struct error *err)
{
    struct policy model;
    struct ranges r;
    // No texts are evaluated: those of the calibration are all there are.
    const struct workload none = {.directory = directory, .text_path = "", .batch = o->batch, .seq = o->seq};
    memset(c, 0, sizeof *c);
    int rc = parse_policy(policy, &model, err);
    if (!rc)
        rc = ranges_open(&r, &none, o->texts, err);
    if (rc)
        return rc;
    r.trace = o->trace;
    rc = run(c, &r, &model, o, progress, a, err);
    ranges_close(&r);
    return rc;
}

void quantize_calibration_json(const struct quantize_calibration *c, struct jw *w)
{
    jw_object(w);
    jw_key(w, "text_file");
    jw_object(w);
    jw_kv_string(w, "path", c->path);
    jw_kv_uint(w, "bytes", c->bytes);
    jw_kv_string(w, "sha256", c->sha256);
    jw_object_end(w);
    jw_kv_uint(w, "texts", c->texts);
    jw_kv_uint(w, "tokens", c->tokens);
    jw_kv_uint(w, "truncated_texts", c->truncated);
    jw_kv_int(w, "batch", c->batch);
    jw_kv_int(w, "seq", c->seq);
    jw_kv_string(w, "policy", c->policy);
    jw_kv_string(w, "type", dtype_name(c->type));
    jw_kv_double(w, "percentile", c->percentile);
    jw_key(w, "list");
    jw_array(w);
    for (size_t i = 0; i < c->count; i++) {
        const struct quantize_activation *x = &c->activations[i];
        jw_object(w);
        jw_kv_string(w, "name", x->name);
        jw_kv_string(w, "module", x->module);
        jw_kv_double(w, "low", (double)x->low);
        jw_kv_double(w, "high", (double)x->high);
        jw_kv_double(w, "scale", (double)x->scale);
        jw_kv_int(w, "zero_point", x->zero);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

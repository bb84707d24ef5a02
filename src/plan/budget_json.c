// SPDX-License-Identifier: Apache-2.0
// The document of assay.budget/1.
#include <inttypes.h>
#include <math.h>

#include "plan/budget.h"

static void bytes(struct jw *w, const char *key, double v, const char *source)
{
    quantity_json_kv(w, key, quantity_make(v, "B", ORIGIN_DERIVED, source));
}

static void model_json(const struct budget *b, struct jw *w)
{
    const struct arch *a = &b->arch;
    jw_key(w, "model");
    jw_object(w);
    jw_kv_string(w, "name", a->name);
    jw_kv_string(w, "family", a->family);
    jw_kv_string(w, "kind", arch_kind_name(a->kind));
    jw_kv_string(w, "source", a->source);
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"layers", a->layers},         {"encoder_layers", a->encoder_layers},
                 {"hidden", a->hidden},         {"heads", a->heads},
                 {"kv_heads", a->kv_heads},     {"head_dim", a->head_dim},
                 {"v_head_dim", a->v_head_dim}, {"ffn", a->ffn},
                 {"vocab", a->vocab},           {"max_positions", a->max_positions},
                 {"kv_lora", a->kv_lora},       {"rope_dim", a->rope_dim},
                 {"window", a->window},         {"local_layers", arch_layers_local(a, 0, a->layers)},
                 {"experts", a->experts},       {"active_experts", a->active_experts},
                 {"expert_ffn", a->expert_ffn}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        jw_kv_int(w, sizes[i].key, sizes[i].value);
    jw_kv_bool(w, "tied", a->tied);
    jw_kv_string(w, "assumed", a->assumed);
    jw_kv_string(w, "note", a->note);
    quantity_json_kv(w, "parameters",
                     quantity_make(b->stored.parameters, "1", b->stored.stored ? ORIGIN_SHEET : ORIGIN_DERIVED,
                                   b->stored.stored ? "tensors of the files" : "sum of all tensors' shapes"));
    quantity_json_kv(w, "active_parameters",
                     quantity_make(a->active_parameters > 0 ? a->active_parameters : NAN, "1", ORIGIN_DERIVED,
                                   a->active_parameters > 0 ? "those that one token passes"
                                                            : "the files do not say which experts a token passes"));
    quantity_json_kv(w, "published",
                     quantity_make(a->published > 0 ? a->published : NAN, "1", ORIGIN_SHEET,
                                   a->published > 0 ? a->source : "no number with all digits is published"));
    jw_object_end(w);
}

static void totals_json(const struct budget *b, const char *key, bool by_part, bool by_type, struct jw *w)
{
    struct weight_total rows[48];
    size_t n = weights_totals(&b->weights, &b->arch, by_part, by_type, rows, sizeof rows / sizeof *rows);
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < n; i++) {
        jw_object(w);
        jw_kv_string(w, "part", rows[i].part);
        jw_kv_string(w, "type", rows[i].type);
        jw_kv_double(w, "parameters", rows[i].elements);
        bytes(w, "bytes", rows[i].bytes, b->weights.how);
        bytes(w, "scale_bytes", rows[i].scale_bytes, b->weights.how);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void weights_json(const struct budget *b, struct jw *w)
{
    const struct weights *v = &b->weights;
    jw_key(w, "weights");
    jw_object(w);
    quantity_json_kv(w, "bytes", quantity_make(v->bytes, "B", v->stored ? ORIGIN_SHEET : ORIGIN_DERIVED, v->how));
    quantity_json_kv(w, "scale_bytes",
                     quantity_make(v->scale_bytes, "B", v->stored ? ORIGIN_SHEET : ORIGIN_DERIVED, v->how));
    quantity_json_kv(w, "bits_per_parameter",
                     quantity_make(v->parameters > 0 ? 8 * (v->bytes + v->scale_bytes) / v->parameters : NAN, "bit",
                                   ORIGIN_DERIVED, v->parameters > 0 ? "8 * all bytes / parameters" : "no parameters"));
    bytes(w, "unpacked_bytes", v->unpacked_bytes, "what is more where codes below 8 bits take a byte each");
    jw_kv_string(w, "note", v->note);
    totals_json(b, "parts", true, false, w);
    totals_json(b, "types", false, true, w);
    totals_json(b, "groups", true, true, w);
    jw_object_end(w);
}

static void job_json(const struct budget *b, struct jw *w)
{
    const struct budget_job *j = &b->job;
    static const char *const remats[] = {"none", "selective", "full"};
    struct str recipe;
    jw_key(w, "job");
    jw_object(w);
    jw_kv_string(w, "mode", j->train ? "train" : "serve");
    jw_kv_int(w, "seq", j->seq);
    jw_kv_string(w, "cache_type", dtype_name(j->kv));
    jw_kv_int(w, "page", j->page);
    jw_kv_int(w, "prefill", j->prefill);
    jw_kv_string(w, "attention", j->flash ? "flash" : "naive");
    str_init(&recipe);
    if (j->train)
        recipe_formula(&j->recipe, &recipe);
    jw_kv_string(w, "recipe", j->train ? j->recipe.name : NULL);
    jw_kv_string(w, "recipe_formula", j->train ? str_text(&recipe) : NULL);
    str_release(&recipe);
    jw_kv_string(w, "remat", j->train ? remats[j->remat] : NULL);
    jw_kv_int(w, "height", j->height);
    jw_kv_int(w, "width", j->width);
    jw_kv_double(w, "utilization", b->utilization);
    jw_object_end(w);
}

static void rows_json(const struct budget_case *c, struct jw *w)
{
    jw_key(w, "rows");
    jw_array(w);
    for (int i = 0; i < c->n_rows; i++) {
        const struct budget_row *r = &c->rows[i];
        jw_object(w);
        jw_kv_string(w, "name", r->name);
        jw_kv_string(w, "group", budget_group_name(r->group));
        bytes(w, "once", r->once, isnan(r->once) ? "it is of a device, not of the job" : r->how);
        bytes(w, "device", r->device, r->how);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void count_json(struct jw *w, const char *key, double v, const char *source, bool has_limit)
{
    const char *why = has_limit ? "not asked of this kind of model" : "no chip was given";
    quantity_json_kv(w, key, quantity_make(v, "1", ORIGIN_DERIVED, isnan(v) ? why : source));
}

static void case_json(const struct budget *b, const struct budget_case *c, struct jw *w)
{
    bool limit = !isnan(c->limit);
    jw_object(w);
    jw_kv_string(w, "target", c->target_text);
    jw_kv_string(w, "chip", c->has_target ? c->target.chip->name : NULL);
    jw_kv_int(w, "chips", c->has_target ? c->target.chips : 0);
    jw_kv_int(w, "devices", layout_devices(&c->layout));
    jw_kv_string(w, "layout", c->layout_text);
    jw_kv_int(w, "batch", c->batch);
    rows_json(c, w);
    bytes(w, "device", c->device, "sum of the rows, on the fullest device");
    if (c->has_target) {
        quantity_json_kv(w, "nominal", c->nominal);
        quantity_json_kv(w, "usable", c->usable);
    } else {
        jw_kv_null(w, "nominal");
        jw_kv_null(w, "usable");
    }
    bytes(w, "limit", c->limit,
          !limit                   ? "no chip was given"
          : isnan(c->usable.value) ? "nominal memory of a device * utilization: what is usable is not known"
                                   : "usable memory of a device * utilization");
    bytes(w, "headroom", c->limit - c->device, limit ? "limit - device" : "no chip was given");
    jw_key(w, "fits");
    if (limit)
        jw_bool(w, c->fits);
    else
        jw_null(w);
    count_json(w, b->arch.kind == ARCH_DIFFUSION ? "most_images" : "most_sequences", c->most_sequences,
               "the largest number whose rows fit, for all devices together", limit);
    count_json(w, "most_tokens", c->most_tokens, "the longest sequences that fit, at this batch", limit);
    jw_key(w, "fixes");
    jw_array(w);
    for (int i = 0; i < c->n_fixes; i++) {
        jw_object(w);
        jw_kv_string(w, "change", c->fixes[i].change);
        bytes(w, "device", c->fixes[i].device, "the rows again, with this change");
        jw_kv_bool(w, "fits", c->fixes[i].fits);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

int budget_json(struct budget *b, struct jw *w, struct error *err)
{
    struct str policy;
    str_init(&policy);
    if (b->has_policy)
        policy_spell(&b->policy, &policy);
    jw_object(w);
    jw_kv_string(w, "workload", b->workload);
    jw_kv_string(w, "policy", b->has_policy ? str_text(&policy) : NULL);
    model_json(b, w);
    weights_json(b, w);
    job_json(b, w);
    jw_key(w, "cases");
    jw_array(w);
    for (size_t i = 0; i < b->n_cases; i++)
        case_json(b, &b->cases[i], w);
    jw_array_end(w);
    jw_kv_string(w, "skipped_layouts", b->skipped);
    jw_kv_string(w, "mismatch", b->mismatch);
    jw_object_end(w);
    int rc = str_check(&policy, err);
    str_release(&policy);
    return rc;
}

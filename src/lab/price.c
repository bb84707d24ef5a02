// SPDX-License-Identifier: Apache-2.0
#include "lab/price.h"

#include <string.h>

#include "base/host.h"
#include "chips/local.h"
#include "ir/policy.h"
#include "models/builtin.h"

static int find_chips(struct price *p, const struct price_options *o, struct error *err)
{
    struct host_facts host;
    int rc = 0;
    if (o->n_chips > PRICE_MAX_CHIPS)
        return error_set(err, ERR_USAGE, "--chip", "give at most %d chips", PRICE_MAX_CHIPS);
    host_read(&host, "/");
    for (size_t i = 0; i < o->n_chips && !rc; i++) {
        rc = chip_get(&p->arena, o->chips[i], host.model, NULL, &p->chips[i], err);
        for (size_t k = 0; k < i && !rc; k++) { // floors are named by chip
            if (strcmp(p->chips[k]->name, p->chips[i]->name) == 0)
                rc = error_set(err, ERR_USAGE, "--chip", "%s is given twice", p->chips[i]->name);
        }
        p->n_chips++;
    }
    return rc;
}

int price_open(struct price *p, const struct price_options *o, struct error *err)
{
    struct model_shape shape = {.batch = o->batch, .seq = o->seq};
    struct policy policy;
    struct module plain;
    bool fixed;
    memset(p, 0, sizeof *p);
    arena_init(&p->arena);
    p->workload = o->workload;
    module_init(&plain, &p->arena, o->workload);
    int rc = model_module(o->workload, &shape, &plain, &fixed, err);
    if (!rc && fixed && o->policy)
        rc = error_set(err, ERR_USAGE, "--policy", "a product has its type in its name");
    if (!rc && fixed)
        p->module = plain;
    if (!rc && !fixed) {
        p->policy = o->policy ? o->policy : "f32";
        module_init(&p->module, &p->arena, o->workload);
        rc = policy_parse(&policy, p->policy, err);
        if (!rc)
            rc = module_apply_policy(&plain, &policy, false, &p->module, err);
    }
    if (!rc)
        rc = (o->by_scope ? cost_scopes : cost_groups)(&p->module, &p->arena, &p->rows, &p->n_rows, &p->total, err);
    if (rc)
        return rc;
    module_weight_bytes(&p->module, &p->weight_bytes, &p->scale_bytes);
    return find_chips(p, o, err);
}

void price_close(struct price *p)
{
    arena_release(&p->arena);
}

const struct cost *price_cost(const struct price *p, int i)
{
    return i < p->n_rows ? &p->rows[i].cost : &p->total;
}

int price_floor(struct price *p, int i, size_t k, struct floor *out, struct error *err)
{
    return i < p->n_rows ? roofline_floor(&p->rows[i].cost, p->chips[k], &p->arena, out, err)
                         : roofline_total(p->rows, p->n_rows, p->chips[k], &p->arena, out, err);
}

static void derived(struct jw *w, const char *key, double v, const char *unit, const char *source)
{
    quantity_json_kv(w, key, quantity_make(v, unit, ORIGIN_DERIVED, source));
}

static int write_row(struct price *p, int i, struct jw *w, struct error *err)
{
    const struct cost *c = price_cost(p, i);
    int rc = 0;
    jw_object(w);
    jw_kv_string(w, "name", i < p->n_rows ? p->rows[i].group : "all");
    cost_json(c, w);
    jw_key(w, "floors");
    jw_object(w);
    for (size_t k = 0; k < p->n_chips && !rc; k++) {
        struct floor f;
        rc = price_floor(p, i, k, &f, err);
        if (rc)
            break;
        jw_key(w, p->chips[k]->name);
        jw_object(w);
        floor_json(&f, w);
        jw_object_end(w);
    }
    jw_object_end(w);
    jw_object_end(w);
    return rc;
}

int price_json(struct price *p, struct jw *w, struct error *err)
{
    int rc = 0;
    jw_object(w);
    jw_kv_string(w, "workload", p->workload);
    jw_kv_string(w, "policy", p->policy);
    derived(w, "weight_bytes", (double)p->weight_bytes, "B", "values and codes as they are stored");
    derived(w, "scale_bytes", (double)p->scale_bytes, "B", "scales, f32");
    jw_key(w, "modules");
    jw_array(w);
    for (int i = 0; i < p->n_rows && !rc; i++)
        rc = write_row(p, i, w, err);
    jw_array_end(w);
    jw_key(w, "total");
    if (!rc)
        rc = write_row(p, p->n_rows, w, err);
    jw_object_end(w);
    return rc;
}

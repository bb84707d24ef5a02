// SPDX-License-Identifier: Apache-2.0
// Three predictions for every policy and target, beside what was measured.
#include <math.h>
#include <string.h>

#include "lab/qualify.h"
#include "lab/qualify_why.h"

// Whether the policies ran on a device of this chip.
static bool ran_here(const struct qualify *q, const struct chip *chip)
{
    const struct chip *own;
    struct error unknown = {0};
    bool cpu = strcmp(q->device->platform_name, "cpu") == 0;
    if (cpu)
        return strcmp(chip->name, "local") == 0 || strcmp(chip->name, "calibrated") == 0;
    return chip_find(q->device->devices[q->device->device].kind, &own, &unknown) == 0 && own == chip;
}

// What was measured needs a row to stand in.
static int add_this_machine(struct qualify *q, struct error *err)
{
    const struct chip *chip;
    const char *reason;
    bool there = strcmp(q->device->platform_name, "cpu") != 0;
    int rc = qualify_device_chip(q, &chip, &reason, err);
    for (size_t i = 0; i < q->n_targets; i++)
        there |= ran_here(q, q->targets[i].chip);
    if (rc || there || !chip)
        return rc;
    q->targets[q->n_targets++] = (struct predict_target){
        .name = chip->name, .chip = chip, .target = {.chip = chip, .slices = 1, .chips = 1, .devices = 1}};
    return 0;
}

static int predict_policy(struct qualify *q, struct qualify_policy *p, const struct predict_compiled *compiled,
                          struct error *err)
{
    static const double once[] = {1};
    size_t i = (size_t)(p - q->policies);
    int rc = 0;
    p->predictions = arena_new(&q->arena, struct prediction, q->n_targets, err);
    if (!p->predictions)
        return ERR_MEMORY;
    for (size_t t = 0; t < q->n_targets && !rc; t++) {
        struct floor f;
        bool here = p->ok && ran_here(q, q->targets[t].chip);
        const char *layout = q->targets[t].target.devices > 1 ? q->options->layout : NULL;
        rc = roofline_total(p->rows, p->n_rows, q->targets[t].chip, &q->arena, &f, err);
        if (layout)
            f.time = quantity_make(NAN, "us", ORIGIN_DERIVED,
                                   "`assay price --layout` has the sheet's floor of a divided program");
        here &= !layout;
        if (!rc)
            rc = predict_make(&q->targets[t], layout, f.time, 0, &compiled[t * q->n_policies + i], once, 1,
                              here ? p->time.p50 * 1e3 : (double)NAN,
                              here ? q->device->devices[q->device->device].kind : "nothing ran on such a device",
                              &q->arena, &p->predictions[t], err);
    }
    return rc;
}

int qualify_predict(struct qualify *q, struct error *err)
{
    struct module *modules[QUALIFY_MAX_POLICIES];
    const char *names[QUALIFY_MAX_POLICIES];
    if (!q->n_targets)
        return 0;
    int rc = add_this_machine(q, err);
    for (size_t i = 0; i < q->n_policies && !rc; i++) {
        names[i] = q->policies[i].policy.name;
        modules[i] = arena_new(&q->arena, struct module, 1, err);
        if (!modules[i])
            return ERR_MEMORY;
        module_init(modules[i], &q->arena, names[i]);
        rc = module_apply_policy(&q->module, &q->policies[i].policy, false, modules[i], err);
    }
    struct predict_compiled *compiled =
        rc ? NULL : arena_new(&q->arena, struct predict_compiled, q->n_targets * q->n_policies, err);
    if (!compiled)
        return rc ? rc : ERR_MEMORY;
    struct predict_job job = {.workload = q->workload.name,
                              .layers = LAYERS_WRITTEN, // as they run
                              .targets = q->targets,
                              .n_targets = q->n_targets,
                              .programs = modules,
                              .names = names,
                              .n_programs = q->n_policies,
                              .layout = q->options->layout,
                              .progress = q->progress};
    rc = predict_compile(&job, compiled, &q->arena, err);
    for (size_t i = 0; i < q->n_policies && !rc; i++)
        rc = predict_policy(q, &q->policies[i], compiled, err);
    return rc;
}

void qualify_predictions_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    jw_key(w, "predictions");
    jw_array(w);
    for (size_t t = 0; t < q->n_targets && p->predictions; t++) {
        jw_object(w);
        predict_json(&p->predictions[t], w);
        jw_object_end(w);
    }
    jw_array_end(w);
}

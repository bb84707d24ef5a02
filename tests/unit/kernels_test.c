// SPDX-License-Identifier: Apache-2.0
#include "kernels_test.h"

#include <stdlib.h>

#include "base/file.h"
#include "ir/cost.h"
#include "ir/policy.h"
#include "ir/retype.h"
#include "num/convert.h"
#include "num/isa.h"
#include "num/random.h"

bool kernels_rig_open(struct rig *r)
{
    char text[KERNELS_TEXT], path[512];
    snprintf(path, sizeof path, "%s/third_party/onednn/lib/libdnnl.so.3", test_top());
    if (!file_exists(path)) {
        test_skip("oneDNN is not here (scripts/setup fetches it)");
        return false;
    }
    if (!rig_open(r, pjrt_test_plugin(false), 1))
        return false;
    if (kernels_register(r->plugin, path, text, &r->err) == 0)
        return true;
    test_fail_error(__FILE__, __LINE__, "kernels_register", r->err.where, r->err.message);
    rig_close(r);
    return false;
}

// Values for a parameter in its type, malloc'd.
static void *draw(const struct parameter *p, const struct shape *s, int seed)
{
    struct random_numpy random;
    size_t n = (size_t)shape_elements(s);
    double *wide = malloc((n + 1) * sizeof *wide);
    void *out = malloc((size_t)shape_bytes(s) + 64);
    random_numpy_seed(&random, (uint64_t)seed);
    if (wide && out && dtype_is_integer(s->dtype)) {
        uint64_t range = s->dtype == DT_S8 ? 254 : s->dtype == DT_U8 ? 255 : 1;
        random_numpy_integers(&random, s->dtype, s->dtype == DT_S8 ? -127 : 0, range, out, n, NULL);
    } else if (wide && out && s->dtype == DT_PRED) {
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = random_numpy_u32(&random) % 4 != 0;
    } else if (wide && out) {
        if (strncmp(p->name, "scale", 5) == 0)
            random_numpy_uniform(&random, 0.5, 1.5, wide, n);
        else
            random_numpy_standard_normal(&random, wide, n);
        convert_elements(s->dtype, out, DT_F64, wide, n, NULL);
    }
    free(wide);
    return out;
}

static void count_flop(const struct module *m, double *product, double *element)
{
    *product = *element = 0;
    for (int i = 0; i < m->n_instructions; i++) {
        struct cost c;
        cost_instruction(m, i, &c);
        *product += cost_product_flop(&c);
        *element += c.element_flop;
    }
}

// Result 0 of the module, malloc'd; NULL after printing the error.
static void *run_one(struct rig *r, const struct module *m, const void *const *args)
{
    void *outs[8] = {0};
    struct program *p = ir_compile(r, m);
    if (!p)
        printf("  %s: %s\n", r->err.where, r->err.message);
    bool ok = p && ir_run(r, p, m, args, outs);
    program_free(p);
    for (int i = 1; i < m->n_results && i < 8; i++)
        free(outs[i]);
    return ok ? outs[0] : NULL;
}

bool kernels_run(struct rig *r, const struct module *m, const void *const *args, int seed, struct kernels_run *out)
{
    struct module called, wide;
    struct error err = {0};
    void *owned[16] = {0};
    const void *used[16];
    memset(out, 0, sizeof *out);
    module_init(&called, m->arena, "kernels");
    module_init(&wide, m->arena, "f64");
    bool coded = false;
    for (int i = 0; i < m->n_parameters; i++)
        coded |= m->parameters[i].binding.part != BIND_VALUES;
    if (!CHECK(kernels_choose(m, 0, &called, &out->chosen, &err) == 0) ||
        !CHECK(coded || module_retype_f64(m, &wide, &err) == 0) || !CHECK(m->n_parameters <= 16)) {
        printf("  %s: %s\n", err.where, err.message);
        return false;
    }
    for (int i = 0; i < m->n_parameters; i++) {
        const struct shape *s = &m->instructions[m->parameters[i].instruction].shape;
        used[i] = args ? args[i] : (owned[i] = draw(&m->parameters[i], s, 100 * seed + i));
    }
    const struct shape *result = &m->instructions[m->results[0]].shape;
    out->type = result->dtype;
    out->n = shape_elements(result);
    count_flop(m, &out->flop[0], &out->element_flop[0]);
    count_flop(&called, &out->flop[1], &out->element_flop[1]);
    for (int i = 0; i < called.n_instructions; i++)
        out->adds_left += called.instructions[i].op == OP_ADD;
    out->plain = run_one(r, m, used);
    out->kernels = run_one(r, &called, used);
    void *f64 = coded ? NULL : run_one(r, &wide, used);
    enum dtype wide_type = coded ? out->type : wide.instructions[wide.results[0]].shape.dtype;
    const void *reference = coded ? out->plain : f64;
    out->f64 = reference ? ir_doubles(wide_type, reference, out->n) : NULL;
    out->plain64 = out->plain ? ir_doubles(out->type, out->plain, out->n) : NULL;
    out->kernels64 = out->kernels ? ir_doubles(out->type, out->kernels, out->n) : NULL;
    free(f64);
    for (int i = 0; i < m->n_parameters; i++)
        free(owned[i]);
    return CHECK(out->f64 && out->plain64 && out->kernels64);
}

void kernels_run_release(struct kernels_run *k)
{
    free(k->plain);
    free(k->kernels);
    free(k->plain64);
    free(k->kernels64);
    free(k->f64);
}

double kernels_off(const struct kernels_run *k)
{
    return ir_rel_l2(k->kernels64, k->f64, k->n);
}

double kernels_plain_off(const struct kernels_run *k)
{
    return ir_rel_l2(k->plain64, k->f64, k->n);
}

void kernels_trial_begin(struct kernels_trial *t, const char *name)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
    module_init(&t->m, &t->arena, name);
}

void kernels_trial_end(struct kernels_trial *t, const char *what, bool ok, double bound)
{
    bool known = t->k.f64 && t->k.n;
    if (!ok)
        printf("  %s%s%s: kernels %g off, plain %g, bound %g\n", t->m.name, *what ? ", " : "", what,
               known ? kernels_off(&t->k) : 0, known ? kernels_plain_off(&t->k) : 0, bound);
    kernels_run_release(&t->k);
    arena_release(&t->arena);
}

void kernels_apply(struct builder *b, const char *policy, struct module *m)
{
    struct policy p;
    struct error err = {0};
    bool ok = builder_finish(b, &err) == 0 && policy_parse(&p, policy, &err) == 0 &&
              module_apply_policy(b->module, &p, false, m, &err) == 0;
    if (!CHECK(ok))
        printf("  %s: %s\n", err.where, err.message);
}

void kernels_agree(struct rig *r, struct kernels_trial *t, const char *what, enum kernel_kind kind, int seed,
                   double bound)
{
    bool ok = kernels_run(r, &t->m, NULL, seed, &t->k);
    ok = ok && CHECK_INT(t->k.chosen.count[kind], 1);
    ok = ok && CHECK(kernels_off(&t->k) <= bound) && CHECK(kernels_off(&t->k) <= 1.5 * kernels_plain_off(&t->k) + 1e-7);
    kernels_trial_end(t, what, ok, bound);
}

void kernels_each_isa(size_t n, void (*one)(struct rig *r, size_t i, const char *isa))
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (size_t i = 0; i < n && isa_force((enum isa)isa); i++)
            one(&r, i, isa_name((enum isa)isa));
    }
    rig_close(&r);
}

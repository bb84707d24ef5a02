// SPDX-License-Identifier: Apache-2.0
#include "models/flux2_schedule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "models/parts.h"
#include "num/convert.h"

static const char *const names[] = {[FLUX2_DIFFUSERS] = "diffusers", [FLUX2_BFL] = "bfl", [FLUX2_EXACT] = "exact"};

bool flux2_sampler_parse(enum flux2_sampler *out, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum flux2_sampler)i;
            return true;
        }
    }
    return false;
}

const char *flux2_sampler_name(enum flux2_sampler s)
{
    return names[s];
}

static double shift(int64_t tokens, int64_t steps)
{
    double n = (double)tokens, m200 = 0.00016927 * n + 0.45666666, m10 = 8.73809524e-05 * n + 1.89833333;
    double a = (m200 - m10) / 190.0;
    return tokens > 4300 ? m200 : a * (double)steps + (m200 - 200.0 * a);
}

// The part of the way that is left before step i, as each sampler makes it. BFL's is torch.linspace(1, 0, steps + 1) in
// f32, which counts from the nearer end.
static double left(enum flux2_sampler sampler, int64_t i, int64_t steps)
{
    if (sampler != FLUX2_BFL) {
        // numpy.linspace(1, 1 / steps, steps): start plus a multiple of the distance.
        double last = 1.0 / (double)steps, u = steps > 1 ? 1.0 + (double)i * ((last - 1.0) / (double)(steps - 1)) : 1;
        if (i > 0 && i == steps - 1)
            u = last;
        return sampler == FLUX2_EXACT ? (double)(steps - i) / (double)steps : (double)(float)u;
    }
    float distance = -1.0F / (float)steps;
    return (double)(i < (steps + 1) / 2 ? 1.0F + distance * (float)i : 0.0F - distance * (float)(steps - i));
}

static double sigma_at(enum flux2_sampler sampler, double mu, int64_t i, int64_t steps)
{
    double u = left(sampler, i, steps), e = exp(mu);
    if (i == steps)
        return 0;
    if (sampler == FLUX2_EXACT)
        return e / (e + (1 / u - 1));
    float inverse = 1.0F / (float)u - 1.0F, whole = (float)e + inverse;
    // BFL divides a number by a tensor, which torch makes a product with the reciprocal.
    return (double)(sampler == FLUX2_BFL ? 1.0F / whole * (float)e : (float)e / whole);
}

static float rounded(float x)
{
    float back = x;
    uint16_t bits;
    convert_elements(DT_BF16, &bits, DT_F32, &x, 1, NULL);
    convert_elements(DT_F32, &back, DT_BF16, &bits, 1, NULL);
    return back;
}

static float time_of(enum flux2_sampler sampler, bool bf16, double sigma)
{
    float s = (float)sigma;
    if (sampler == FLUX2_EXACT)
        return (float)(1000 * sigma);
    if (sampler == FLUX2_BFL)
        return bf16 ? rounded(1000.0F * rounded(s)) : 1000.0F * s;
    float t = s * 1000.0F;
    return bf16 ? rounded(rounded(rounded(t) / 1000.0F) * 1000.0F) : t / 1000.0F * 1000.0F;
}

int flux2_schedule_make(struct flux2_schedule *s, enum flux2_sampler sampler, bool bf16, int64_t tokens, int64_t steps,
                        struct error *err)
{
    if (steps < 1 || steps > FLUX2_MAX_STEPS)
        return error_set(err, ERR_USAGE, "--steps", "must be from 1 to %d, not %" PRId64, FLUX2_MAX_STEPS, steps);
    memset(s, 0, sizeof *s);
    s->mu = shift(tokens, steps);
    s->steps = steps;
    for (int64_t i = 0; i <= steps; i++)
        s->sigmas[i] = sigma_at(sampler, s->mu, i, steps);
    for (int64_t i = 0; i < steps; i++) {
        s->times[i] = time_of(sampler, bf16, s->sigmas[i]);
        s->deltas[i] = (float)(s->sigmas[i + 1] - s->sigmas[i]);
    }
    return 0;
}

// x rounded to bf16 and widened again, as part of the model.
static int through_bf16(struct builder *b, int x)
{
    enum dtype wide = builder_shape(b, x)->dtype;
    return build_convert(b, build_convert(b, x, DT_BF16), wide);
}

static int scaled(struct builder *b, int x, int scalar)
{
    int wide = build_convert(b, scalar, builder_shape(b, x)->dtype);
    return build_binary(b, OP_MULTIPLY, x, build_broadcast(b, wide, *builder_shape(b, x), NULL));
}

int flux2_update_module(const struct flux2_config *c, const struct flux2_build *how, enum flux2_sampler sampler,
                        bool bf16, bool guided, struct module *m, struct error *err)
{
    struct builder b;
    enum dtype latent_type = how->latent ? how->latent : DT_F32;
    struct shape all = SHAPE(latent_type, how->batch, how->rows * how->columns, c->dit.channels),
                 scalar = SHAPE(DT_F32);
    struct shape handed = shape_with_dtype(all, how->handed ? how->handed : DT_F32);
    bool narrow = bf16 && sampler != FLUX2_EXACT;
    builder_init(&b, m);
    builder_scope(&b, "sampler", "sampler");
    int latent = build_parameter(&b, ROLE_INPUT, "latent", all, NULL);
    int v = build_convert(&b, build_parameter(&b, ROLE_INPUT, "velocity", handed, NULL), latent_type);
    int delta = build_parameter(&b, ROLE_INPUT, "delta", scalar, NULL);
    if (narrow)
        v = through_bf16(&b, v);
    if (guided) {
        int empty = build_convert(&b, build_parameter(&b, ROLE_INPUT, "velocity.empty", handed, NULL), latent_type);
        int guidance = build_parameter(&b, ROLE_INPUT, "guidance", scalar, NULL);
        if (narrow)
            empty = through_bf16(&b, empty);
        int difference = build_binary(&b, OP_SUBTRACT, v, empty);
        difference = scaled(&b, narrow ? through_bf16(&b, difference) : difference, guidance);
        v = build_binary(&b, OP_ADD, empty, narrow ? through_bf16(&b, difference) : difference);
        if (narrow)
            v = through_bf16(&b, v);
    }
    // diffusers' delta is a tensor and becomes bf16; BFL's is a number of Python and stays f32.
    if (narrow && sampler == FLUX2_DIFFUSERS)
        delta = through_bf16(&b, delta);
    v = scaled(&b, v, delta);
    latent = build_binary(&b, OP_ADD, latent, narrow ? through_bf16(&b, v) : v);
    if (narrow)
        latent = through_bf16(&b, latent);
    build_result(&b, "latent", latent);
    build_result(&b, "nonfinite", part_nonfinite(&b, latent));
    return builder_finish(&b, err);
}

// SPDX-License-Identifier: Apache-2.0
// What the stages made, as files beside their times: the same inputs on another device can be held against them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "lab/stages_part.h"
#include "num/convert.h"
#include "num/measures.h"

static struct stages_output *next_output(struct stages *s, const char *name, const struct shape *shape,
                                         struct error *err)
{
    struct stages_output *o = &s->outputs[s->n_outputs];
    size_t n = (size_t)shape_elements(shape);
    *o = (struct stages_output){.name = name, .shape = *shape, .n = n};
    o->shape.dtype = DT_F32;
    o->values = arena_new(&s->arena, float, n, err);
    s->n_outputs += o->values != NULL;
    return o->values ? o : NULL;
}

int stages_keep(struct stages *s, const char *name, const struct shape *shape, const void *bytes, struct error *err)
{
    struct stages_output *o = next_output(s, name, shape, err);
    if (!o)
        return ERR_MEMORY;
    int rc = convert_elements(DT_F32, o->values, shape->dtype, bytes, o->n, err);
    size_t wrong = 0;
    for (size_t i = 0; i < o->n && !rc; i++)
        wrong += isfinite(o->values[i]) ? 0 : 1;
    return wrong ? error_set(err, ERR_DEVICE, s->model, "the stage %s: %zu of %zu values are infinite or no numbers",
                             name, wrong, o->n)
                 : rc;
}

int stages_keep_buffer(struct stages *s, const char *name, const struct shape *shape, int buffer, struct error *err)
{
    size_t bytes = (size_t)shape_bytes(shape);
    void *raw = malloc(bytes + 1);
    int rc = raw ? worker_download(s->klein.worker, buffer, raw, bytes, err)
                 : error_set(err, ERR_MEMORY, NULL, "no memory for %s", name);
    if (!rc)
        rc = stages_keep(s, name, shape, raw, err);
    free(raw);
    return rc;
}

int stages_outputs_write(const struct stages *s, const char *path, struct error *err)
{
    struct safetensors_entry entries[STAGES_OUTPUTS];
    struct safetensors_writer w;
    for (int i = 0; i < s->n_outputs; i++) {
        const struct stages_output *o = &s->outputs[i];
        entries[i] =
            (struct safetensors_entry){.name = o->name, .dtype = DT_F32, .rank = o->shape.rank, .dims = o->shape.dims};
    }
    int rc = safetensors_writer_begin(&w, path, entries, (size_t)s->n_outputs, NULL, 0, err);
    if (rc)
        return rc;
    for (int i = 0; i < s->n_outputs && !rc; i++)
        rc = safetensors_writer_put(&w, (size_t)i, s->outputs[i].values, s->outputs[i].n * sizeof(float), err);
    if (!rc)
        return safetensors_writer_commit(&w, err);
    safetensors_writer_abort(&w);
    return rc;
}

// ---- beside each other

// As diffusers makes levels of [-1, 1].
static double level(double x)
{
    double y = x / 2 + 0.5;
    return nearbyint(255 * (y < 0 ? 0 : y > 1 ? 1 : y));
}

int stages_parity_of(const float *a, const float *b, size_t n, bool image, struct stages_parity *out, struct error *err)
{
    struct measures m;
    double *reference = malloc((n + 1) * sizeof *reference), sum = 0, squares = 0;
    *out = (struct stages_parity){.compared = true, .levels_max = NAN, .levels_mean = NAN, .psnr_db = NAN};
    if (!reference)
        return error_set(err, ERR_MEMORY, NULL, "no memory to compare %zu values", n);
    measures_begin(&m, n, 1e-30);
    int rc = convert_elements(DT_F64, reference, DT_F32, a, n, err);
    if (!rc)
        rc = measures_add(&m, reference, DT_F32, b, 1, err);
    measures_finish(&m);
    free(reference);
    out->snr_db = m.snr_db;
    out->equal = !m.nonfinite_result && !m.nonfinite_reference && m.max_abs == 0;
    for (size_t i = 0; i < n && image && !rc; i++) {
        double off = fabs(level((double)a[i]) - level((double)b[i]));
        out->levels_max = isnan(out->levels_max) || off > out->levels_max ? off : out->levels_max;
        sum += off;
        squares += off * off;
    }
    if (image) {
        out->levels_mean = sum / (double)n;
        out->psnr_db = 20 * log10(255 / sqrt(squares / (double)n));
    }
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
// Confirmation: the model that a fingerprint means, run against the device on random products.
#ifndef LAB_PROBE_REPLAY_H
#define LAB_PROBE_REPLAY_H

#include "lab/probe.h"

enum { REPLAY_DOTS = 10000 };
static inline size_t replay_dots(const struct probe_target *t)
{
    return t->dots ? t->dots : REPLAY_DOTS;
}

// The model of p->print; its arrays live as long as those of the fingerprint.
void probe_model_of(struct dot_model *out, const struct probe_float *p, const struct probe_path *path);

// REPLAY_DOTS random dots or a few more (as many rows as needed, all columns), and every one compared with the model,
// bit for bit. Where the inferred model does not reproduce the first of them, near variants and the known devices of
// the path's operand type are tried too, and the best is kept in p->model. Then the same product again (repeats_same),
// and with its rows turned around (rows_same). Fills the confirmation part of p->print.
int probe_replay(struct probe_float *p, struct probe_target *t, struct arena *a, struct error *err);

// Random operands of a type: uniform in [-1, 1) times 2^-3 to 2^3, or codes of the whole range.
void probe_random_operands(double *out, size_t n, enum dtype type, uint64_t seed);

#endif

// SPDX-License-Identifier: Apache-2.0
// How a layout divides the values of a module over devices, in the notation that XLA's partitioner reads.
#ifndef PLAN_SHARDING_H
#define PLAN_SHARDING_H

#include "ir/module.h"
#include "plan/layout.h"

// The axes of the devices, outermost first: dp, fsdp, ring, ulysses, tp; over several slices first the one of dp and
// fsdp that goes between them. A pipeline's stages are programs of their own (stage.h), and pp is not looked at.
//
//   dp       the batch of inputs, results and activations
//   fsdp     the batch, and an axis of every weight, which is gathered before it is used
//   tp       weights whose outputs are heads or ffn columns along these, those that take them along what they take, by
//            their names (weight_side.h); weights of other names are whole. With sp, tokens behind the second kind.
//   ulysses  tokens; around attention heads in their place
//   ring     tokens, also those of keys and values, which go round
//
// `m` has its attention in blocks for the ring (ring.h) and its stacked weights interleaved where tp divides them
// (interleave.h). Everything is in the arena. ERR_USAGE:
// what layout_check says (ep: no model that has a graph here has experts), no weight that tp divides, an axis that the
// ways do not divide, attention whose sequences lie one behind the other in one axis with more of them than ways of the
// batch.
int sharding_make(struct module_division *out, const struct module *m, const struct layout *l, int slices,
                  struct arena *arena, struct error *err);

#endif

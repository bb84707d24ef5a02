// SPDX-License-Identifier: Apache-2.0
// In which order a device adds products. One unit in every place, a huge number in one place and its opposite in
// another: what is added while the huge number stands is lost, so the result counts the places outside the smallest
// subtree that holds both. From these counts the whole summation tree follows (FPRev: Xie and others, "FPRev: Revealing
// the Order of Floating-Point Summation", USENIX ATC 2025).
#ifndef LAB_PROBE_TREE_H
#define LAB_PROBE_TREE_H

#include "lab/probe_target.h"

// Orders that have a name. `block` says how many.
enum probe_shape {
    SHAPE_NONE,       // no tree could be read
    SHAPE_SEQUENTIAL, // first to last
    SHAPE_REVERSED,   // last to first
    SHAPE_PAIRS_ODD,  // 1, 0, 3, 2, 5, 4, ...
    SHAPE_PAIRWISE,   // halves
    SHAPE_LANES,      // `block` sums, each of every block-th product, in vectors of `width`: the vectors are added one
                      // after another, then halves of what is left
    SHAPE_BLOCKED,    // blocks of `block`, each first to last, the blocks' sums first to last
    SHAPE_BLOCKED_PAIRS, // the same, each in pairs, the odd one first
    SHAPE_FUSED,         // blocks of `block` that are added to the sum at once
    SHAPE_GROUPS,        // blocks of `block`, pairwise, then to the sum
    SHAPE_OTHER,         // a tree without a name
    SHAPES
};
const char *probe_shape_name(enum probe_shape s); // "sequential", "fused blocks"

struct probe_tree {
    struct dot_tree tree; // arrays in the arena; nodes 0 when none could be read
    enum probe_shape shape;
    int block, width;
    const char *why; // there is no tree
    int *row;        // leaves - 1 sizes of the smallest subtree of 0 and j, j = 1...
};

// The size of the smallest subtree that holds leaves i and j; negative for an answer that makes no sense.
typedef int probe_tree_query(void *context, int i, const int *others, int n, int *sizes, struct error *err);

// Builds the tree of n leaves from such answers (asked for one leaf and several others at a time). An answer that
// contradicts another leaves out->tree empty and says why. The shape is found by comparing with the named ones.
int probe_tree_build(struct probe_tree *out, int n, probe_tree_query *query, void *context, struct arena *a,
                     struct error *err);
// The tree of a named order. `width` counts for lanes.
int probe_tree_named(struct probe_tree *out, int n, enum probe_shape shape, int block, int width, struct arena *a,
                     struct error *err);
bool probe_tree_same(const struct probe_tree *x, const struct probe_tree *y);
// Asks the target. A target that refuses gives its error.
int probe_tree_read(struct probe_tree *out, struct probe_target *t, struct arena *a, struct error *err);
// "((0 1) 2) 3": the whole tree, inner nodes in parentheses.
void probe_tree_print(struct str *out, const struct probe_tree *t);
// In words: "first to last", "blocks of 16, aligned and added to the sum at once".
void probe_tree_describe(struct str *out, const struct probe_tree *t);

#endif

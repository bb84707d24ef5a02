// SPDX-License-Identifier: Apache-2.0
// Weights on their way to where they are multiplied: values of a module that hold a weight's numbers in another order,
// type or cut, and which of a weight's axes are output channels, which are contracted, and along which matrices lie
// stacked. With that a policy multiplies the codes of x @ w.T, of heads that were split off, of a layer that a loop
// cuts out of a stack, and of experts that a router chose.
#ifndef IR_WEIGHT_VIEW_H
#define IR_WEIGHT_VIEW_H

#include "ir/module.h"

// AXIS_STACK: a matrix of its own for each index, as for layers and experts.
enum axis_class { AXIS_OPEN, AXIS_STACK, AXIS_OUTPUT, AXIS_CONTRACTED };

// How a weight is stored: matrices as the policy's w=, vectors (and stacks of them) as its vectors, and what is
// neither, as kernels of convolutions, in a wide float.
enum weight_kind { WEIGHT_OTHER, WEIGHT_VECTOR, WEIGHT_MATRIX };

struct weight_axes {
    enum weight_kind kind;
    enum axis_class class[SHAPE_MAX_RANK];
};

// A part of a dimension: indices of an axis of the weight, or copies of everything.
struct view_factor {
    int dim;       // of the view
    int axis;      // of the weight; -1: copies
    int64_t size;  // indices
    int64_t inner; // how many indices of the axis one step is
};

struct weight_view {
    int weight; // its OP_PARAMETER
    int n;
    struct view_factor factors[SHAPE_MAX_RANK]; // row by row
};

struct views {
    const struct module *m;
    struct weight_view **of;   // by value; NULL for one that is no view of a matrix
    struct weight_axes **axes; // by value: those of the weight that it is; NULL for what is none of rank 2 or more
};

// Everything lives in the arena. ERR_MEMORY.
int views_find(struct views *v, const struct module *m, struct arena *a, struct error *err);
enum axis_class views_class(const struct views *v, const struct weight_view *w, const struct view_factor *f);
// The factors of one class, in the order in which codes have them: by axis, the outer part of an axis first. How many.
int views_factors(const struct views *v, const struct weight_view *w, enum axis_class class,
                  const struct view_factor *out[SHAPE_MAX_RANK]);
// The elements of all factors of a class.
int64_t views_extent(const struct views *v, const struct weight_view *w, enum axis_class class);

// A product of x and a view of a weight. It is computed from x as [stack..., copies..., rows..., contracted] by
// codes [stack..., output, contracted].
struct linear {
    int x, w;          // operands
    bool weight_first; // the weight is the first
    bool folded;       // the output channels are contracted: scales go to x
    bool in_place;     // x_order changes nothing
    int n_stack;       // batch dimensions along which the weight has matrices
    int n_copies;      // and along which it is the same
    int n_contract, n_free;
    int x_order[SHAPE_MAX_RANK];     // dimensions of x in the order above
    int batch_order[SHAPE_MAX_RANK]; // the product's batch dimensions, the stacked ones first
    int stack[SHAPE_MAX_RANK];       // of each: which of the weight's stack factors it is
    int free_dims[SHAPE_MAX_RANK];   // of the weight
};
// Whether `in` is such a product. With a weight on both sides the second one counts.
bool views_linear(const struct views *v, const struct instruction *in, struct linear *out);
// The elements of x that go into one output.
int64_t views_contracted(const struct views *v, const struct linear *l);

#endif

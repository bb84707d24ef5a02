// SPDX-License-Identifier: Apache-2.0
#include "ir/weight_view.h"

#include <string.h>

// What is known of a weight while its uses are looked at.
struct votes {
    bool products;                      // some product says what its axes are
    bool in_rows;                       // rows of it are looked up
    bool whole;                         // something uses it as it is
    bool looked_up;                     // rows of it are cut out by an index outside of loops
    bool in_loop;                       // or inside of one
    int64_t rows;                       // cut out by number
    bool sliced[SHAPE_MAX_RANK];        // cut to one index along the axis
    enum axis_class by[SHAPE_MAX_RANK]; // what products say
};

struct finding {
    struct views *v;
    const struct module *m;
    struct arena *arena;
    struct votes **votes;
    struct error *err;
};

enum axis_class views_class(const struct views *v, const struct weight_view *w, const struct view_factor *f)
{
    return f->axis < 0 ? AXIS_OPEN : v->axes[w->weight]->class[f->axis];
}

static bool comes_before(const struct view_factor *a, const struct view_factor *b)
{
    return a->axis < b->axis || (a->axis == b->axis && a->inner > b->inner);
}

int views_factors(const struct views *v, const struct weight_view *w, enum axis_class class,
                  const struct view_factor *out[SHAPE_MAX_RANK])
{
    int n = 0;
    for (int i = 0; i < w->n; i++) {
        if (w->factors[i].axis < 0 || views_class(v, w, &w->factors[i]) != class)
            continue;
        int at = n++;
        for (; at > 0 && comes_before(&w->factors[i], out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = &w->factors[i];
    }
    return n;
}

int64_t views_extent(const struct views *v, const struct weight_view *w, enum axis_class class)
{
    const struct view_factor *list[SHAPE_MAX_RANK];
    int64_t extent = 1;
    for (int i = views_factors(v, w, class, list) - 1; i >= 0; i--)
        extent *= list[i]->size;
    return extent;
}

// ---- Views

static bool add_factor(struct weight_view *w, struct view_factor f)
{
    if (w->n >= SHAPE_MAX_RANK)
        return false;
    w->factors[w->n++] = f;
    return true;
}

// The factors of one dimension: the first, and how many.
static const struct view_factor *factors_of(const struct weight_view *w, int dim, int *n)
{
    int at = 0;
    while (at < w->n && w->factors[at].dim != dim)
        at++;
    for (*n = 0; at + *n < w->n && w->factors[at + *n].dim == dim;)
        ++*n;
    return &w->factors[at];
}

static bool copy_dim(struct weight_view *to, int dim, const struct weight_view *from, int old)
{
    int n;
    const struct view_factor *f = factors_of(from, old, &n);
    for (int i = 0; i < n; i++) {
        struct view_factor g = f[i];
        g.dim = dim;
        if (!add_factor(to, g))
            return false;
    }
    return true;
}

static bool view_transpose(const struct weight_view *x, const struct instruction *in, struct weight_view *out)
{
    for (int d = 0; d < in->shape.rank; d++) {
        if (!copy_dim(out, d, x, (int)in->a[d]))
            return false;
    }
    return true;
}

static bool view_broadcast(const struct finding *s, const struct weight_view *x, const struct instruction *in,
                           struct weight_view *out)
{
    const struct shape *from = &s->m->instructions[in->operands[0]].shape;
    for (int d = 0; d < in->shape.rank; d++) {
        int old = -1;
        for (int k = 0; k < from->rank; k++)
            old = in->a[k] == d ? k : old;
        if (old >= 0 && from->dims[old] == in->shape.dims[d]) {
            if (!copy_dim(out, d, x, old))
                return false;
        } else if (in->shape.dims[d] > 1 && !add_factor(out, (struct view_factor){d, -1, in->shape.dims[d], 1})) {
            return false;
        }
    }
    return true;
}

// Factors of a dimension that lie as one become one.
static void join(struct weight_view *w)
{
    int n = 0;
    for (int i = 0; i < w->n; i++) {
        struct view_factor *last = n ? &w->factors[n - 1] : NULL, f = w->factors[i];
        bool one =
            last && last->dim == f.dim && last->axis == f.axis && (f.axis < 0 || last->inner == f.inner * f.size);
        if (one) {
            last->size *= f.size;
            last->inner = f.inner;
        } else {
            w->factors[n++] = f;
        }
    }
    w->n = n;
}

// No dimension is partly copies.
static bool is_pure(const struct weight_view *w)
{
    for (int i = 1; i < w->n; i++) {
        const struct view_factor *a = &w->factors[i - 1], *b = &w->factors[i];
        if (a->dim == b->dim && (a->axis < 0) != (b->axis < 0))
            return false;
    }
    return true;
}

// Elements keep their order; dimensions take factors, and parts of them, until they are full.
static bool view_reshape(const struct weight_view *x, const struct instruction *in, struct weight_view *out)
{
    int at = 0;
    int64_t left = 0; // of the factor at hand
    for (int d = 0; d < in->shape.rank; d++) {
        int64_t room = in->shape.dims[d];
        while (room > 1) {
            for (; at < x->n && !left; at += !left)
                left = x->factors[at].size > 1 ? x->factors[at].size : 0;
            if (at >= x->n)
                return false;
            int64_t take = left < room ? left : room;
            if (left % take || room % take)
                return false;
            struct view_factor f = {d, x->factors[at].axis, take, x->factors[at].inner * (left / take)};
            if (!add_factor(out, f))
                return false;
            left /= take;
            room /= take;
            at += left == 1;
            left = left == 1 ? 0 : left;
        }
    }
    join(out);
    return is_pure(out);
}

// The one factor of a dimension that may be cut, or NULL.
static struct view_factor *cut_factor(struct weight_view *w, int dim)
{
    int n;
    const struct view_factor *f = factors_of(w, dim, &n);
    return n == 1 && f->axis >= 0 ? &w->factors[f - w->factors] : NULL;
}

static bool is_zero(const struct module *m, int value)
{
    const struct instruction *in = &m->instructions[value];
    return in->op == OP_CONSTANT && in->constant == CONST_SPLAT && in->splat == 0;
}

// Whether a slice cuts along the dimension; of one index of one it does where it is looked for.
static bool cuts(const struct module *m, const struct instruction *in, int dim)
{
    int64_t from = m->instructions[in->operands[0]].shape.dims[dim], to = in->shape.dims[dim];
    return from != to || (in->op == OP_DYNAMIC_SLICE && to == 1 && !is_zero(m, in->operands[1 + dim]));
}

static bool view_slice(const struct finding *s, const struct weight_view *x, const struct instruction *in,
                       struct weight_view *out)
{
    struct votes *votes = s->votes[x->weight];
    *out = *x;
    for (int d = 0; d < in->shape.rank; d++) {
        if (!cuts(s->m, in, d))
            continue;
        struct view_factor *f = cut_factor(out, d);
        if (!f)
            return false;
        f->size = in->shape.dims[d];
        votes->sliced[f->axis] |= f->size == 1;
        votes->rows += in->op == OP_SLICE && f->axis == 0;
        *(in->region ? &votes->in_loop : &votes->looked_up) |= in->op == OP_DYNAMIC_SLICE;
    }
    return true;
}

// Of matrices that are looked up, as experts are: rows of a table are values, and no weights any more.
static bool view_gather(const struct finding *s, const struct weight_view *x, const struct instruction *in,
                        struct weight_view *out)
{
    const struct shape *table = &s->m->instructions[in->operands[0]].shape;
    const struct shape *rows = &s->m->instructions[in->operands[1]].shape;
    struct weight_view copy = *x;
    struct view_factor *f = cut_factor(&copy, 0);
    if (!f || s->m->instructions[x->weight].shape.rank < 3)
        return false;
    int64_t inner = 1;
    for (int d = rows->rank - 1; d >= 0; d--)
        inner *= rows->dims[d];
    for (int d = 0; d < rows->rank; d++) {
        inner /= rows->dims[d] ? rows->dims[d] : 1;
        if (!add_factor(out, (struct view_factor){d, f->axis, rows->dims[d], inner}))
            return false;
    }
    for (int d = 1; d < table->rank; d++) {
        if (!copy_dim(out, d - 1 + rows->rank, x, d))
            return false;
    }
    s->votes[x->weight]->sliced[f->axis] = true;
    return true;
}

static bool follow(const struct finding *s, const struct instruction *in, struct weight_view *out)
{
    const struct weight_view *x = s->v->of[in->operands[0]];
    out->weight = x->weight;
    switch (in->op) {
    case OP_TRANSPOSE:
        return view_transpose(x, in, out);
    case OP_BROADCAST:
        return view_broadcast(s, x, in, out);
    case OP_RESHAPE:
        return view_reshape(x, in, out);
    case OP_CONVERT:
        *out = *x;
        return dtype_is_float(in->shape.dtype) && !(in->flags & FLAG_MODEL_ROUNDING);
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
        return view_slice(s, x, in, out);
    case OP_GATHER:
        return view_gather(s, x, in, out);
    default:
        return false;
    }
}

static bool has_elements(const struct shape *s)
{
    for (int d = 0; d < s->rank; d++) {
        if (s->dims[d] < 1)
            return false;
    }
    return true;
}

static int begin_weight(struct finding *s, int i)
{
    const struct instruction *in = &s->m->instructions[i];
    struct weight_view *w = arena_new(s->arena, struct weight_view, 1, s->err);
    s->v->of[i] = w;
    s->votes[i] = arena_new(s->arena, struct votes, 1, s->err);
    s->v->axes[i] = arena_new(s->arena, struct weight_axes, 1, s->err);
    if (!w || !s->votes[i] || !s->v->axes[i])
        return ERR_MEMORY;
    *s->votes[i] = (struct votes){0};
    *s->v->axes[i] = (struct weight_axes){0};
    *w = (struct weight_view){.weight = i, .n = in->shape.rank};
    for (int d = 0; d < in->shape.rank; d++)
        w->factors[d] = (struct view_factor){d, d, in->shape.dims[d], 1};
    return 0;
}

static bool is_weight(const struct module *m, const struct instruction *in)
{
    return in->op == OP_PARAMETER && m->parameters[in->parameter].role == ROLE_WEIGHT && in->shape.rank >= 2 &&
           dtype_is_float(in->shape.dtype);
}

// Used as it is, not one index of its first axis.
static void note_whole(const struct finding *s, const struct weight_view *x)
{
    for (int i = 0; i < x->n; i++)
        s->votes[x->weight]->whole |= x->factors[i].axis == 0 && x->factors[i].size > 1;
}

// Every use that is no view: of a product it is said later which.
static void note_uses(const struct finding *s, const struct instruction *in, bool follows)
{
    for (int k = 0; k < in->n_operands; k++) {
        const struct weight_view *x = s->v->of[in->operands[k]];
        if (x && in->op == OP_GATHER && k == 0 && !follows)
            s->votes[x->weight]->in_rows = true;
        if (x && !(follows && k == 0))
            note_whole(s, x);
    }
}

static int find_views(struct finding *s)
{
    for (int i = 0; i < s->m->n_instructions; i++) {
        const struct instruction *in = &s->m->instructions[i];
        struct weight_view out = {.n = 0};
        if (is_weight(s->m, in)) {
            if (begin_weight(s, i))
                return ERR_MEMORY;
            continue;
        }
        bool follows = in->n_operands && s->v->of[in->operands[0]] && has_elements(&in->shape) && follow(s, in, &out);
        note_uses(s, in, follows);
        if (!follows)
            continue;
        s->v->of[i] = arena_new(s->arena, struct weight_view, 1, s->err);
        if (!s->v->of[i])
            return ERR_MEMORY;
        *s->v->of[i] = out;
    }
    for (int r = 0; r <= s->m->n_regions; r++) { // what regions return, and the program
        bool all = r == s->m->n_regions;
        const int *results = all ? s->m->results : s->m->regions[r].results;
        for (int i = 0; i < (all ? s->m->n_results : s->m->regions[r].n_results); i++) {
            if (s->v->of[results[i]])
                note_whole(s, s->v->of[results[i]]);
        }
    }
    return 0;
}

// ---- Classes of axes

static bool is_in(int dim, const int *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (list[i] == dim)
            return true;
    }
    return false;
}

struct side {
    const int *batch, *contract, *x_batch, *x_contract;
    int w, x;
};

static struct side side_of(const struct instruction *in, bool second)
{
    return second ? (struct side){in->dot.rhs_batch,    in->dot.rhs_contract, in->dot.lhs_batch,
                                  in->dot.lhs_contract, in->operands[1],      in->operands[0]}
                  : (struct side){in->dot.lhs_batch,    in->dot.lhs_contract, in->dot.rhs_batch,
                                  in->dot.rhs_contract, in->operands[0],      in->operands[1]};
}

static bool is_product(const struct instruction *in)
{
    return in->op == OP_DOT && dtype_is_float(in->shape.dtype);
}

// Where two uses differ, what is their output along the first axis in which they do stays it: the rows of a matrix.
static void take_side(struct votes *v, const enum axis_class *said)
{
    int d = 0;
    while (d < SHAPE_MAX_RANK - 1 && v->by[d] == said[d])
        d++;
    bool better = v->by[d] == AXIS_CONTRACTED && said[d] == AXIS_OUTPUT;
    for (int k = 0; k < SHAPE_MAX_RANK && v->products; k++)
        better &= (v->by[k] == AXIS_STACK) == (said[k] == AXIS_STACK);
    if (better || !v->products)
        memcpy(v->by, said, sizeof v->by);
    v->products = true;
}

// What a product says of the axes of its weight: nothing where it contracts none of them, or parts of one differently.
static void vote(const struct finding *s, const struct instruction *in)
{
    bool second = s->v->of[in->operands[1]] != NULL, contracts = false;
    struct side side = side_of(in, second);
    const struct weight_view *w = s->v->of[side.w];
    enum axis_class said[SHAPE_MAX_RANK] = {AXIS_OPEN};
    if (!w)
        return;
    bool matrix = s->m->instructions[w->weight].shape.rank == 2; // which has no matrices in it
    for (int i = 0; i < w->n; i++) {
        const struct view_factor *f = &w->factors[i];
        bool batch = is_in(f->dim, side.batch, in->dot.n_batch);
        bool contracted = is_in(f->dim, side.contract, in->dot.n_contract);
        contracts |= contracted && f->axis >= 0;
        if (f->axis < 0 || f->size == 1)
            continue;
        enum axis_class one = batch && !matrix ? AXIS_STACK : contracted ? AXIS_CONTRACTED : AXIS_OUTPUT;
        if (said[f->axis] && said[f->axis] != one)
            return;
        said[f->axis] = one;
    }
    if (contracts)
        take_side(s->votes[w->weight], said);
}

// Whether the weight is cut into what lies along the axis. All rows of a matrix are, or a loop does it: of a table that
// is looked up some are.
static bool is_stacked(const struct votes *v, int axis, const struct shape *shape)
{
    if (shape->rank > 2)
        return v->sliced[axis];
    bool rows = axis == 0 && v->sliced[0] && !v->sliced[1] && (v->in_loop || v->rows >= shape->dims[0]);
    return rows && !v->products && !v->whole && !v->looked_up && !v->in_rows;
}

// Axes along which matrices lie are those that a product goes along in step with x, and those that are cut. What is
// left without a product are rows and columns.
static void settle_one(struct weight_axes *a, const struct votes *v, const struct shape *shape)
{
    int left = shape->rank, next = AXIS_OUTPUT;
    for (int d = 0; d < shape->rank; d++) {
        a->class[d] = v->by[d] ? v->by[d] : is_stacked(v, d, shape) ? AXIS_STACK : AXIS_OPEN;
        left -= a->class[d] == AXIS_STACK;
    }
    a->kind = v->products || left == 2 ? WEIGHT_MATRIX : left < 2 ? WEIGHT_VECTOR : WEIGHT_OTHER;
    for (int d = 0; d < shape->rank; d++) {
        if (a->class[d] != AXIS_OPEN)
            continue;
        a->class[d] = v->products ? AXIS_OUTPUT : (enum axis_class)next;
        next = AXIS_CONTRACTED;
    }
}

static void settle(const struct finding *s)
{
    static const enum axis_class rows[SHAPE_MAX_RANK] = {AXIS_OUTPUT, AXIS_CONTRACTED};
    for (int i = 0; i < s->m->n_instructions; i++) {
        const struct instruction *in = &s->m->instructions[i];
        if (is_product(in))
            vote(s, in);
    }
    for (int i = 0; i < s->m->n_instructions; i++) {
        const struct instruction *in = &s->m->instructions[i];
        struct votes *v = s->votes[i];
        if (!v)
            continue;
        // Tensors that are stacked for one product are stacked along its output.
        if (in->shape.rank == 2 && (v->in_rows || s->m->parameters[in->parameter].binding.n_sources > 1))
            take_side(v, rows);
        settle_one(s->v->axes[i], v, &in->shape);
    }
}

// ---- What can be done to codes

static bool is_only_output(const struct views *v, const struct weight_view *w, const struct view_factor *f)
{
    const struct view_factor *list[SHAPE_MAX_RANK];
    return f->inner == 1 && views_factors(v, w, AXIS_OUTPUT, list) == 1;
}

// Codes are cut along matrices and output channels; in their contracted rows they lie packed.
static bool cuts_codes(const struct views *v, const struct instruction *in)
{
    const struct weight_view *x = v->of[in->operands[0]];
    for (int d = 0; d < in->shape.rank; d++) {
        int n;
        const struct view_factor *f = factors_of(x, d, &n);
        if (!cuts(v->m, in, d))
            continue;
        enum axis_class class = views_class(v, x, f);
        if (class != AXIS_STACK && !(class == AXIS_OUTPUT && is_only_output(v, x, f)))
            return false;
    }
    return true;
}

static bool picks_codes(const struct views *v, const struct instruction *in)
{
    const struct weight_view *x = v->of[in->operands[0]];
    const struct view_factor *list[SHAPE_MAX_RANK];
    int n;
    const struct view_factor *f = factors_of(x, 0, &n);
    return views_factors(v, x, AXIS_STACK, list) > 0 && list[0] == f;
}

static void drop_others(struct views *v)
{
    for (int i = 0; i < v->m->n_instructions; i++) {
        const struct instruction *in = &v->m->instructions[i];
        bool ok = v->of[i] != NULL;
        if (ok && in->op == OP_PARAMETER)
            ok = v->axes[i]->kind == WEIGHT_MATRIX;
        else if (ok)
            ok = v->of[in->operands[0]] != NULL;
        if (ok && (in->op == OP_SLICE || in->op == OP_DYNAMIC_SLICE))
            ok = cuts_codes(v, in);
        if (ok && in->op == OP_GATHER)
            ok = picks_codes(v, in);
        if (!ok)
            v->of[i] = NULL;
    }
}

int views_find(struct views *v, const struct module *m, struct arena *a, struct error *err)
{
    size_t n = (size_t)m->n_instructions;
    *v = (struct views){.m = m};
    v->of = (struct weight_view **)arena_alloc(a, n, sizeof(void *), err);
    v->axes = (struct weight_axes **)arena_alloc(a, n, sizeof(void *), err);
    struct finding s = {v, m, a, (struct votes **)arena_alloc(a, n, sizeof(void *), err), err};
    if (!v->of || !v->axes || !s.votes)
        return ERR_MEMORY;
    if (find_views(&s))
        return ERR_MEMORY;
    settle(&s);
    drop_others(v);
    return 0;
}

// ---- Products

// Every factor of the dimension is of the class; a single index of anything is.
static bool is_all(const struct views *v, const struct weight_view *w, int dim, enum axis_class class)
{
    int n;
    const struct view_factor *f = factors_of(w, dim, &n);
    for (int i = 0; i < n; i++) {
        if (f[i].size != 1 && (f[i].axis < 0 || views_class(v, w, &f[i]) != class))
            return false;
    }
    return true;
}

// Which of the stack factors a batch dimension is; -1: none, it holds copies or one index; -2: it is neither.
static int stack_factor(const struct views *v, const struct weight_view *w, int dim)
{
    const struct view_factor *list[SHAPE_MAX_RANK];
    int n, n_stack = views_factors(v, w, AXIS_STACK, list);
    const struct view_factor *f = factors_of(w, dim, &n);
    bool copies = true;
    for (int i = 0; i < n; i++)
        copies &= f[i].axis < 0 || f[i].size == 1;
    for (int i = 0; i < n_stack && !copies; i++) {
        if (n == 1 && list[i] == f)
            return i;
    }
    return copies ? -1 : -2;
}

static bool take_batch(const struct views *v, const struct instruction *in, const struct side *side, struct linear *l)
{
    const struct weight_view *w = v->of[side->w];
    int n = 0;
    for (int stacked = 1; stacked >= 0; stacked--) {
        for (int k = 0; k < in->dot.n_batch; k++) {
            int at = stack_factor(v, w, side->batch[k]);
            if (at < -1)
                return false;
            if ((at >= 0) != (stacked == 1))
                continue;
            l->batch_order[n] = k;
            l->stack[n] = at;
            l->x_order[n++] = side->x_batch[k];
        }
        *(stacked ? &l->n_stack : &l->n_copies) = stacked ? n : n - l->n_stack;
    }
    return true;
}

// Contracted dimensions in the order in which codes have them, behind all others of x. Those of one index come first.
static bool take_contracted(const struct views *v, const struct instruction *in, const struct side *side,
                            struct linear *l, int at)
{
    const struct weight_view *w = v->of[side->w];
    const struct view_factor *first[SHAPE_MAX_RANK], *last = NULL;
    int dims[SHAPE_MAX_RANK] = {0}, n;
    for (int k = 0; k < in->dot.n_contract; k++) {
        const struct view_factor *f = factors_of(w, side->contract[k], &n);
        while (n > 0 && f->size == 1)
            f++, n--;
        f = n ? f : NULL;
        int i = k;
        for (; i > 0 && first[i - 1] && (!f || comes_before(f, first[i - 1])); i--) {
            first[i] = first[i - 1];
            dims[i] = dims[i - 1];
        }
        first[i] = f;
        dims[i] = k;
    }
    for (int k = 0; k < in->dot.n_contract; k++) {
        const struct view_factor *f = factors_of(w, side->contract[dims[k]], &n);
        for (int i = 0; i < n; i++) {
            if (f[i].size == 1)
                continue;
            if (last && !comes_before(last, &f[i]))
                return false;
            last = &f[i];
        }
        l->x_order[at + k] = side->x_contract[dims[k]];
    }
    l->n_contract = in->dot.n_contract;
    return true;
}

static bool one_side(const struct views *v, const struct instruction *in, bool second, struct linear *l)
{
    struct side side = side_of(in, second);
    const struct weight_view *w = v->of[side.w];
    int rank = v->m->instructions[side.w].shape.rank, x_rank = v->m->instructions[side.x].shape.rank;
    if (!w)
        return false;
    *l = (struct linear){.x = side.x, .w = side.w, .weight_first = !second};
    for (int k = 0; k < in->dot.n_contract; k++)
        l->folded |= !is_all(v, w, side.contract[k], AXIS_CONTRACTED);
    for (int d = 0; d < rank; d++) {
        if (is_in(d, side.batch, in->dot.n_batch))
            continue;
        bool contracted = is_in(d, side.contract, in->dot.n_contract);
        if (!is_all(v, w, d, contracted != l->folded ? AXIS_CONTRACTED : AXIS_OUTPUT))
            return false;
        if (!contracted)
            l->free_dims[l->n_free++] = d;
    }
    if (in->dot.n_contract < 1 || !take_batch(v, in, &side, l))
        return false;
    int n = in->dot.n_batch;
    for (int d = 0; d < x_rank; d++) {
        if (!is_in(d, side.x_batch, in->dot.n_batch) && !is_in(d, side.x_contract, in->dot.n_contract))
            l->x_order[n++] = d;
    }
    if (!take_contracted(v, in, &side, l, n))
        return false;
    l->in_place = true;
    for (int d = 0; d < x_rank; d++)
        l->in_place &= l->x_order[d] == d;
    // The result is made with a dimension for each factor of the channels.
    const struct view_factor *list[SHAPE_MAX_RANK];
    int made = views_factors(v, w, l->folded ? AXIS_CONTRACTED : AXIS_OUTPUT, list);
    return n + made <= SHAPE_MAX_RANK;
}

bool views_linear(const struct views *v, const struct instruction *in, struct linear *out)
{
    return is_product(in) && (one_side(v, in, true, out) || one_side(v, in, false, out));
}

int64_t views_contracted(const struct views *v, const struct linear *l)
{
    return views_extent(v, v->of[l->w], l->folded ? AXIS_OUTPUT : AXIS_CONTRACTED);
}

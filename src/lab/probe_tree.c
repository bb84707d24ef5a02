// SPDX-License-Identifier: Apache-2.0
#include "lab/probe_tree.h"

#include <math.h>
#include <string.h>

const char *probe_shape_name(enum probe_shape s)
{
    static const char *const names[] = {"none",         "sequential", "reversed", "pairs-odd",
                                        "pairwise",     "lanes",      "blocked",  "blocked-pairs-odd",
                                        "fused-blocks", "groups",     "other"};
    return (unsigned)s < SHAPES ? names[s] : "unknown";
}

// ---- building

struct building {
    struct probe_tree *out;
    probe_tree_query *query;
    void *context;
    struct arena *arena;
    int *start, *children, n_children; // of the tree
    const char *wrong;                 // answers contradict each other
    struct error *err;
};

static int new_node(struct building *b, const int *children, int n)
{
    struct dot_tree *t = &b->out->tree;
    if (n == 1)
        return children[0];
    memcpy(b->children + b->n_children, children, (size_t)n * sizeof *children);
    b->n_children += n;
    b->start[t->nodes - t->leaves + 1] = b->n_children;
    return t->nodes++;
}

// The children, at most n, of a node of size `whole` whose leaves outside what is already known are set[0..n). Leaf
// set[0] and one other are in the same child when their smallest common subtree is smaller than `whole`.
static int build_children(struct building *b, const int *set, int n, int whole, int *out, int *n_out) // NOLINT
{
    int *rest = arena_new(b->arena, int, n, b->err), *sizes = arena_new(b->arena, int, n, b->err),
        *group = arena_new(b->arena, int, n, b->err), *list = arena_new(b->arena, int, n + 1, b->err);
    if (!rest || !sizes || !group || !list)
        return ERR_MEMORY;
    memcpy(rest, set, (size_t)n * sizeof *rest);
    *n_out = 0;
    while (n > 0) {
        int first = rest[0], node = first, have = 1;
        int rc = n > 1 ? b->query(b->context, first, rest + 1, n - 1, sizes, b->err) : 0;
        if (rc)
            return rc;
        for (int level = 2; level < whole && !b->wrong;) {
            int next = whole, n_group = 0, n_list = 1; // the smallest size from `level` on
            for (int i = 0; i < n - 1; i++)
                next = sizes[i] >= level && sizes[i] < next ? sizes[i] : next;
            if (next == whole)
                break;
            for (int i = 0; i < n - 1; i++) {
                if (sizes[i] == next)
                    group[n_group++] = rest[i + 1];
            }
            have += n_group;
            if (have != next) {
                b->wrong = "the counts contradict each other: this is no summation tree";
                return 0;
            }
            int *inner = arena_new(b->arena, int, n_group + 1, b->err), n_inner;
            if (!inner)
                return ERR_MEMORY;
            memcpy(inner, group, (size_t)n_group * sizeof *inner);
            rc = build_children(b, inner, n_group, next, list + 1, &n_inner);
            if (rc)
                return rc;
            list[0] = node;
            n_list += n_inner;
            node = new_node(b, list, n_list);
            level = next + 1;
        }
        out[(*n_out)++] = node;
        int left = 0;
        for (int i = 0; i < n - 1; i++) {
            if (sizes[i] < 2 || sizes[i] > whole)
                b->wrong = "a count is out of range: sums are not cut or rounded to nearest, or units are lost";
            if (sizes[i] >= whole)
                rest[left++] = rest[i + 1];
        }
        n = left;
        if (b->wrong)
            return 0;
    }
    return 0;
}

static int build(struct probe_tree *out, int n, probe_tree_query *query, void *context, struct arena *a,
                 struct error *err)
{
    *out = (struct probe_tree){.tree = {.leaves = n, .nodes = n}};
    struct building b = {.out = out, .query = query, .context = context, .arena = a, .err = err};
    b.start = arena_new(a, int, n + 1, err);
    b.children = arena_new(a, int, 2 * n + 1, err);
    out->row = arena_new(a, int, n, err);
    int *all = arena_new(a, int, n, err), top, count;
    if (!b.start || !b.children || !all || !out->row)
        return ERR_MEMORY;
    for (int i = 0; i < n; i++)
        all[i] = i;
    int rc = n > 1 ? query(context, 0, all + 1, n - 1, out->row, err) : 0;
    if (!rc) {
        int *tops = arena_new(a, int, n, err);
        rc = tops ? build_children(&b, all, n, n + 1, tops, &count) : ERR_MEMORY;
        top = tops ? tops[0] : 0;
        if (!rc && !b.wrong && (count != 1 || top != out->tree.nodes - 1))
            b.wrong = "the counts contradict each other: this is no summation tree";
    }
    out->tree.start = b.start;
    out->tree.children = b.children;
    out->why = b.wrong;
    if (b.wrong)
        out->tree.nodes = 0;
    return rc;
}

// ---- named orders

struct named {
    enum probe_shape shape;
    int block, width, n;
};

// Halves of n: the size of the smallest subtree of i and j, both below n.
static int halves_size(int n, int i, int j)
{
    while (n > 1) {
        int left = n / 2;
        if ((i < left) != (j < left))
            return n;
        n = i < left ? left : n - left;
        i -= i < left ? 0 : left;
        j -= j < left ? 0 : left;
    }
    return n;
}

static int lanes_size(int lanes, int width, int n, int i, int j)
{
    int x = i % lanes, y = j % lanes, each = n / lanes, half = width / 2;
    if (x == y)
        return (i > j ? i : j) / lanes + 1;
    if (x % width == y % width)
        return ((x > y ? x : y) / width + 1) * each;
    while ((x - y) % half != 0)
        half /= 2;
    return width / half * (lanes / width) * each;
}

static int named_size(const struct named *s, int i, int j)
{
    int b = s->block ? s->block : 1, most = i > j ? i : j, base = most / b * b, end = base + b < s->n ? base + b : s->n,
        inside = i / b == j / b, x = i - base, y = j - base;
    switch (s->shape) {
    case SHAPE_SEQUENTIAL:
        return most + 1;
    case SHAPE_REVERSED:
        return s->n - (i < j ? i : j);
    case SHAPE_PAIRS_ODD:
        i = (i ^ 1) < s->n ? i ^ 1 : i;
        j = (j ^ 1) < s->n ? j ^ 1 : j;
        return (i > j ? i : j) + 1;
    case SHAPE_PAIRWISE:
        return halves_size(s->n, i, j);
    case SHAPE_LANES:
        return lanes_size(b, s->width, s->n, i, j);
    case SHAPE_BLOCKED_PAIRS:
        x = (x ^ 1) < end - base ? x ^ 1 : x;
        y = (y ^ 1) < end - base ? y ^ 1 : y;
        return inside ? (x > y ? x : y) + 1 : end;
    case SHAPE_BLOCKED:
        return inside ? (x > y ? x : y) + 1 : end;
    case SHAPE_GROUPS:
        return inside ? halves_size(end - base, x, y) : end;
    default:
        return end;
    }
}

static int named_query(void *context, int i, const int *others, int n, int *sizes, struct error *err)
{
    (void)err;
    for (int k = 0; k < n; k++)
        sizes[k] = named_size(context, i, others[k]);
    return 0;
}

int probe_tree_named(struct probe_tree *out, int n, enum probe_shape shape, int block, int width, struct arena *a,
                     struct error *err)
{
    struct named s = {shape, block, width, n};
    int rc = build(out, n, named_query, &s, a, err);
    out->shape = shape;
    out->block = block;
    out->width = width;
    return rc;
}

bool probe_tree_same(const struct probe_tree *first, const struct probe_tree *second)
{
    const struct dot_tree *x = &first->tree, *y = &second->tree;
    size_t inner = (size_t)(x->nodes - x->leaves);
    return x->nodes == y->nodes && x->leaves == y->leaves &&
           memcmp(x->start, y->start, (inner + 1) * sizeof *x->start) == 0 &&
           memcmp(x->children, y->children, (size_t)x->start[inner] * sizeof *x->children) == 0;
}

// Compares with one named tree, made in an arena of its own.
static int is_named(struct probe_tree *t, enum probe_shape shape, int block, int width, bool *same, struct error *err)
{
    struct probe_tree named;
    struct arena scratch;
    arena_init(&scratch);
    int rc = probe_tree_named(&named, t->tree.leaves, shape, block, width, &scratch, err);
    *same = !rc && named.tree.nodes > 0 && probe_tree_same(t, &named);
    arena_release(&scratch);
    if (*same) {
        t->shape = shape;
        t->block = block;
        t->width = width;
    }
    return rc;
}

static int classify(struct probe_tree *t, struct error *err)
{
    static const enum probe_shape plain[] = {SHAPE_SEQUENTIAL, SHAPE_REVERSED, SHAPE_PAIRS_ODD, SHAPE_PAIRWISE};
    static const enum probe_shape in_blocks[] = {SHAPE_FUSED, SHAPE_GROUPS, SHAPE_BLOCKED, SHAPE_BLOCKED_PAIRS};
    bool same = false;
    int n = t->tree.leaves, rc = 0;
    t->shape = SHAPE_OTHER;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0] && !rc && !same; i++)
        rc = is_named(t, plain[i], 0, 0, &same, err);
    for (int block = 2; block <= n && !rc && !same; block *= 2) {
        for (size_t i = 0; i < sizeof in_blocks / sizeof in_blocks[0] && !rc && !same; i++)
            rc = is_named(t, in_blocks[i], block, 0, &same, err);
        for (int width = block; width > 1 && n % block == 0 && block < n && !rc && !same; width /= 2)
            rc = is_named(t, SHAPE_LANES, block, width, &same, err);
    }
    return rc;
}

int probe_tree_build(struct probe_tree *out, int n, probe_tree_query *query, void *context, struct arena *a,
                     struct error *err)
{
    int rc = build(out, n, query, context, a, err);
    return rc || out->tree.nodes == 0 ? rc : classify(out, err);
}

// ---- asking a target

// Numbers that make units and what absorbs them: unit = ua * ub, huge = ma * mb.
struct scale {
    double ua, ub, ma, mb;
};

struct asking {
    struct probe_target *target;
    struct scale scale;
};

static int ask(struct asking *q, int i, const int *others, int n, int *sizes, double sign, struct error *err)
{
    struct probe_batch batch;
    struct arena scratch; // a long sum is asked often
    double unit = q->scale.ua * q->scale.ub, all = (double)q->target->k;
    arena_init(&scratch);
    probe_batch_init(&batch, &scratch);
    for (int k = 0; k < n; k++) {
        struct probe_vector *v = sizes[k] < 0 ? probe_batch_add(&batch, "tree", "") : NULL;
        if (!v)
            continue;
        v->fill = true;
        v->fill_a = q->scale.ua;
        v->fill_b = q->scale.ub;
        probe_vector_term(v, (size_t)i, q->scale.ma, sign * q->scale.mb);
        probe_vector_term(v, (size_t)others[k], q->scale.ma, -sign * q->scale.mb);
    }
    int rc = probe_batch_run(&batch, 0, q->target, err);
    for (size_t k = 0, asked = 0; k < (size_t)n && !rc; k++) {
        if (sizes[k] >= 0)
            continue;
        double kept = batch.vectors[asked++].out / unit;
        sizes[k] = kept >= 0 && kept <= all - 2 && kept == rint(kept) ? (int)(all - kept) : -1;
    }
    arena_release(&scratch);
    return rc;
}

// A sum that is cut (toward zero) loses more than the units when the huge number is negative first, so what makes no
// sense is asked again with the signs exchanged.
static int ask_target(void *context, int i, const int *others, int n, int *sizes, struct error *err)
{
    struct asking *q = context;
    int rc = 0;
    bool unclear = false;
    for (int k = 0; k < n; k++)
        sizes[k] = -1;
    rc = ask(q, i, others, n, sizes, 1, err);
    for (int k = 0; k < n; k++)
        unclear |= sizes[k] < 0;
    return rc || !unclear ? rc : ask(q, i, others, n, sizes, -1, err);
}

// What the path's types hold: first with the widest ratio. Units must be normal numbers unless there is no room.
static size_t scales_of(const struct probe_path *p, struct scale out[2])
{
    const struct dot_format *f = dot_format(dtype_name(p->lhs)), *o = dot_format(dtype_name(p->out));
    double top = ldexp(1, f->emax), low = ldexp(1, f->emin - (f->bits - 1));
    if (f->emax >= 127) { // the second for operands that are cast to f16
        out[0] = (struct scale){1, 1, 1, ldexp(1, f->emax)};
        out[1] = (struct scale){0x1p-12, 0x1p-12, 0x1p15, 0x1p15};
        return 2;
    }
    if (f->emin <= -14) { // f16, f8e5m2
        out[0] = (struct scale){0x1p-12, 0x1p-12, top, o->emax < 2 * f->emax ? 1 : top};
        return 1;
    }
    out[0] = (struct scale){low, low, top, top};
    return 1;
}

int probe_tree_read(struct probe_tree *out, struct probe_target *t, struct arena *a, struct error *err)
{
    struct scale scales[2];
    size_t n = scales_of(t->path, scales);
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        struct asking q = {t, scales[i]};
        rc = probe_tree_build(out, (int)t->k, ask_target, &q, a, err);
        if (rc || out->tree.nodes > 0)
            break;
    }
    return rc;
}

// ---- in words

void probe_tree_describe(struct str *out, const struct probe_tree *t)
{
    switch (t->shape) {
    case SHAPE_NONE:
        str_add(out, "no order could be read");
        break;
    case SHAPE_SEQUENTIAL:
        str_add(out, "first to last");
        break;
    case SHAPE_REVERSED:
        str_add(out, "last to first");
        break;
    case SHAPE_PAIRS_ODD:
        str_add(out, "pair after pair, the odd one of each first");
        break;
    case SHAPE_PAIRWISE:
        str_add(out, "pairwise");
        break;
    case SHAPE_LANES:
        str_addf(out, "%d interleaved sums, added at the end: ", t->block);
        if (t->width < t->block)
            str_addf(out, "%d vectors of %d one after another, then ", t->block / t->width, t->width);
        str_add(out, "halves");
        break;
    case SHAPE_BLOCKED:
        str_addf(out, "blocks of %d, each first to last, then the blocks", t->block);
        break;
    case SHAPE_BLOCKED_PAIRS:
        str_addf(out, "blocks of %d, each pair after pair, the odd one first, then the blocks", t->block);
        break;
    case SHAPE_FUSED:
        str_addf(out, "blocks of %d, added to the sum at once", t->block);
        break;
    case SHAPE_GROUPS:
        str_addf(out, "blocks of %d, each pairwise, then to the sum", t->block);
        break;
    default: {
        str_add(out, "an order without a name: the smallest subtree of product 0 and product 1, 2, ... holds");
        int n = t->tree.leaves - 1 < 12 ? t->tree.leaves - 1 : 12;
        for (int i = 0; i < n; i++)
            str_addf(out, " %d", t->row[i]);
        str_add(out, n < t->tree.leaves - 1 ? " ..." : "");
    }
    }
}

static void print_node(struct str *out, const struct dot_tree *t, int node) // NOLINT
{
    if (node < t->leaves) {
        str_addf(out, "%d", node);
        return;
    }
    int i = node - t->leaves;
    str_add_char(out, '(');
    for (int k = t->start[i]; k < t->start[i + 1]; k++) {
        str_add(out, k > t->start[i] ? " " : "");
        print_node(out, t, t->children[k]);
    }
    str_add_char(out, ')');
}

void probe_tree_print(struct str *out, const struct probe_tree *t)
{
    if (t->tree.nodes > 0)
        print_node(out, &t->tree, t->tree.nodes - 1);
}

// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/region.h"

void builder_init(struct builder *b, struct module *m)
{
    memset(b, 0, sizeof *b);
    b->module = m;
    b->scope = b->group = "other";
}

static bool make_room(struct builder *b, size_t n)
{
    struct module *m = b->module;
    struct instruction *list = arena_grow(m->arena, m->instructions, &m->cap_instructions, n, sizeof *list, &b->error);
    if (list)
        m->instructions = list;
    return list;
}

void builder_reserve(struct builder *b, size_t n)
{
    if (n)
        make_room(b, n);
}

int builder_finish(struct builder *b, struct error *err)
{
    if (b->error.code)
        return error_set(err, b->error.code, b->error.where, "%s", b->error.message);
    return module_verify(b->module, err);
}

static void set_place(struct builder *b, const char *group, const char *scope, enum domain domain)
{
    if (strcmp(scope, b->scope) != 0) {
        const char *copy = arena_strdup(b->module->arena, scope, &b->error);
        b->scope = copy ? copy : "other";
    }
    if (strcmp(group, b->group) != 0) {
        const char *copy = arena_strdup(b->module->arena, group, &b->error);
        b->group = copy ? copy : "other";
    }
    b->domain = domain;
}

void builder_scope(struct builder *b, const char *group, const char *fmt, ...)
{
    char scope[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(scope, sizeof scope, fmt, ap);
    va_end(ap);
    set_place(b, group, scope, DOMAIN_GENERAL);
}

void builder_place(struct builder *b, const struct instruction *like)
{
    set_place(b, like->group, like->scope, like->domain);
}

const struct shape *builder_shape(const struct builder *b, int x)
{
    static const struct shape none = {.dtype = DT_PRED};
    return x < 0 || x >= b->module->n_instructions ? &none : &b->module->instructions[x].shape;
}

// Copies n values into the module's arena; NULL where there are none to copy.
static void *keep(struct builder *b, const void *from, int64_t n, size_t size)
{
    void *to = from && n ? arena_alloc(b->module->arena, (size_t)n, size, &b->error) : NULL;
    if (to)
        memcpy(to, from, (size_t)n * size);
    return to;
}

static const struct kernel_call *keep_kernel(struct builder *b, const struct kernel_call *from)
{
    struct kernel_call *to = keep(b, from, 1, sizeof *to);
    if (to) {
        to->target = arena_strdup(b->module->arena, from->target, &b->error);
        to->attributes = arena_strdup(b->module->arena, from->attributes, &b->error);
    }
    return to;
}

// What the instruction points to becomes the module's own.
static bool keep_attributes(struct builder *b, struct instruction *in)
{
    int64_t n_dense = in->op == OP_CONSTANT && in->constant == CONST_DENSE ? shape_elements(&in->shape) : 0;
    int rank = in->window && in->n_operands ? b->module->instructions[in->operands[0]].shape.rank : 0;
    in->operands = keep(b, in->operands, in->n_operands, sizeof *in->operands);
    in->regions = keep(b, in->regions, in->n_regions, sizeof *in->regions);
    in->kernel = keep_kernel(b, in->kernel);
    in->dense = n_dense || !in->dense ? keep(b, in->dense, n_dense, sizeof *in->dense)
                                      : arena_new(b->module->arena, double, 1, &b->error); // of no elements
    in->window = keep(b, in->window, rank, sizeof *in->window);
    in->convolution = keep(b, in->convolution, 1, sizeof *in->convolution);
    in->indexing = keep(b, in->indexing, 1, sizeof *in->indexing);
    return !b->error.code;
}

int builder_append(struct builder *b, const struct instruction *in)
{
    struct module *m = b->module;
    struct instruction made = *in;
    if (b->error.code)
        return -1;
    made.region = in->op == OP_PARAMETER ? 0 : b->region;
    for (int i = 0; i < in->n_operands && i < OP_MAX_OPERANDS; i++) {
        if (in->operands[i] < 0 || in->operands[i] >= m->n_instructions) {
            error_set(&b->error, ERR_INTERNAL, op_info(in->op)->name, "operand %d does not exist", i);
            return -1;
        }
    }
    struct shape shape;
    if (module_check(m, &made, m->n_instructions, &shape, &b->error) ||
        shape_check(&shape, op_info(in->op)->name, &b->error)) {
        error_context(&b->error, "in %s", b->scope);
        return -1;
    }
    if (!make_room(b, (size_t)m->n_instructions + 1) || !keep_attributes(b, &made))
        return -1;
    made.shape = shape;
    made.scope = b->scope;
    made.group = b->group;
    made.domain = b->domain;
    m->instructions[m->n_instructions] = made;
    return m->n_instructions++;
}

int builder_store(struct builder *b, int x)
{
    if (x >= 0)
        b->module->instructions[x].flags |= FLAG_STORE;
    return x;
}

// One instruction from its operands; `in` carries the attributes.
static int append(struct builder *b, struct instruction in, const int *operands, int n)
{
    int copy[OP_MAX_OPERANDS];
    if (n > OP_MAX_OPERANDS) {
        error_set(&b->error, ERR_INTERNAL, op_info(in.op)->name, "has %d operands", n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        if (operands[i] < 0) { // stays as it is when something failed before
            error_set(&b->error, ERR_INTERNAL, op_info(in.op)->name, "operand %d does not exist", i);
            return -1;
        }
        copy[i] = operands[i];
    }
    in.operands = copy;
    in.n_operands = n;
    return builder_append(b, &in);
}

static void set_dims(int64_t *to, const int *from, int n)
{
    for (int i = 0; i < n && i < SHAPE_MAX_RANK; i++)
        to[i] = from[i];
}

static void set_extents(int64_t *to, const int64_t *from, int n, int64_t absent)
{
    for (int i = 0; i < n && i < SHAPE_MAX_RANK; i++)
        to[i] = from ? from[i] : absent;
}

static bool keep_sources(struct builder *b, struct binding *bind)
{
    for (int i = 0; i < bind->n_sources && i < BIND_MAX_SOURCES; i++)
        bind->sources[i] = arena_strdup(b->module->arena, bind->sources[i], &b->error);
    struct binding *layers = keep(b, bind->layers, bind->n_layers, sizeof *layers);
    for (int i = 0; i < bind->n_layers && layers; i++)
        keep_sources(b, &layers[i]);
    bind->layers = layers;
    return !b->error.code;
}

int build_parameter(struct builder *b, enum param_role role, const char *name, struct shape shape,
                    const struct binding *binding)
{
    struct module *m = b->module;
    if (b->error.code)
        return -1;
    struct parameter *list =
        arena_grow(m->arena, m->parameters, &m->cap_parameters, (size_t)m->n_parameters + 1, sizeof *list, &b->error);
    char *copy = arena_strdup(m->arena, name, &b->error);
    if (!list || !copy)
        return -1;
    m->parameters = list;
    struct parameter *p = &list[m->n_parameters];
    *p = (struct parameter){.role = role, .name = copy};
    if (binding)
        p->binding = *binding;
    if (!keep_sources(b, &p->binding))
        return -1;
    p->instruction =
        append(b, (struct instruction){.op = OP_PARAMETER, .shape = shape, .parameter = m->n_parameters}, NULL, 0);
    if (p->instruction < 0)
        return -1;
    m->n_parameters++;
    return p->instruction;
}

int build_weight(struct builder *b, const char *tensor, struct shape shape)
{
    struct binding bind = {.n_sources = 1, .sources = {tensor}, .store = shape.dtype, .part = BIND_VALUES};
    return build_parameter(b, ROLE_WEIGHT, tensor, shape, &bind);
}

int build_splat(struct builder *b, struct shape shape, double value)
{
    return append(b, (struct instruction){.op = OP_CONSTANT, .shape = shape, .splat = value}, NULL, 0);
}

int build_symbol(struct builder *b, struct shape shape, enum constant_kind symbol)
{
    return append(b, (struct instruction){.op = OP_CONSTANT, .shape = shape, .constant = symbol}, NULL, 0);
}

int build_dense(struct builder *b, struct shape shape, const double *values)
{
    return append(b, (struct instruction){.op = OP_CONSTANT, .shape = shape, .constant = CONST_DENSE, .dense = values},
                  NULL, 0);
}

int build_iota(struct builder *b, struct shape shape, int axis)
{
    return append(b, (struct instruction){.op = OP_IOTA, .shape = shape, .axis = axis}, NULL, 0);
}

int build_unary(struct builder *b, enum opcode op, int x)
{
    return append(b, (struct instruction){.op = op}, &x, 1);
}

int build_binary(struct builder *b, enum opcode op, int x, int y)
{
    return append(b, (struct instruction){.op = op}, (int[]){x, y}, 2);
}

int build_binary_scalar(struct builder *b, enum opcode op, int x, double y)
{
    return x < 0 ? -1 : build_binary(b, op, x, build_splat(b, *builder_shape(b, x), y));
}

int build_compare(struct builder *b, enum compare_direction direction, int x, int y)
{
    return append(b, (struct instruction){.op = OP_COMPARE, .compare = direction}, (int[]){x, y}, 2);
}

int build_select(struct builder *b, int condition, int on_true, int on_false)
{
    return append(b, (struct instruction){.op = OP_SELECT}, (int[]){condition, on_true, on_false}, 3);
}

int build_clamp(struct builder *b, int low, int x, int high)
{
    return append(b, (struct instruction){.op = OP_CLAMP}, (int[]){low, x, high}, 3);
}

static int build_retyped(struct builder *b, enum opcode op, int x, enum dtype to)
{
    struct shape s = *builder_shape(b, x);
    if (x < 0 || s.dtype == to)
        return x;
    return append(b, (struct instruction){.op = op, .shape = shape_with_dtype(s, to)}, &x, 1);
}

int build_convert(struct builder *b, int x, enum dtype to)
{
    return build_retyped(b, OP_CONVERT, x, to);
}

int build_bitcast_convert(struct builder *b, int x, enum dtype to)
{
    return build_retyped(b, OP_BITCAST_CONVERT, x, to);
}

int build_broadcast(struct builder *b, int x, struct shape to, const int *dims)
{
    const struct shape *s = builder_shape(b, x);
    struct instruction in = {.op = OP_BROADCAST, .shape = shape_with_dtype(to, s->dtype), .n_a = s->rank};
    set_dims(in.a, dims, s->rank);
    return append(b, in, &x, 1);
}

static int broadcast_from(struct builder *b, int x, int like, bool trailing)
{
    int dims[SHAPE_MAX_RANK];
    const struct shape *s = builder_shape(b, x), *to = builder_shape(b, like);
    if (x < 0 || like < 0)
        return -1;
    for (int i = 0; i < s->rank; i++)
        dims[i] = trailing ? to->rank - s->rank + i : i;
    return build_broadcast(b, x, *to, dims);
}

int build_broadcast_trailing(struct builder *b, int x, int like)
{
    return broadcast_from(b, x, like, true);
}

int build_broadcast_leading(struct builder *b, int x, int like)
{
    return broadcast_from(b, x, like, false);
}

int build_reshape(struct builder *b, int x, int rank, const int64_t *dims)
{
    return append(b, (struct instruction){.op = OP_RESHAPE, .shape = shape_of(builder_shape(b, x)->dtype, rank, dims)},
                  &x, 1);
}

int build_transpose(struct builder *b, int x, const int *permutation)
{
    struct instruction in = {.op = OP_TRANSPOSE, .n_a = builder_shape(b, x)->rank};
    set_dims(in.a, permutation, in.n_a);
    return append(b, in, &x, 1);
}

int build_slice(struct builder *b, int x, const int64_t *start, const int64_t *limit, const int64_t *stride)
{
    struct instruction in = {.op = OP_SLICE, .n_a = builder_shape(b, x)->rank};
    set_extents(in.a, start, in.n_a, 0);
    set_extents(in.b, limit, in.n_a, 0);
    set_extents(in.c, stride, in.n_a, 1);
    return append(b, in, &x, 1);
}

int build_slice_axis(struct builder *b, int x, int axis, int64_t start, int64_t limit)
{
    const struct shape *s = builder_shape(b, x);
    int64_t from[SHAPE_MAX_RANK] = {0}, to[SHAPE_MAX_RANK];
    memcpy(to, s->dims, sizeof to);
    if (x >= 0 && (axis < 0 || axis >= s->rank))
        error_set(&b->error, ERR_INTERNAL, "slice", "has no dimension %d", axis);
    if (x < 0 || b->error.code)
        return -1;
    from[axis] = start;
    to[axis] = limit;
    return build_slice(b, x, from, to, NULL);
}

int build_concatenate(struct builder *b, const int *values, int n, int axis)
{
    return append(b, (struct instruction){.op = OP_CONCATENATE, .axis = axis}, values, n);
}

int build_pad(struct builder *b, int x, int value, const int64_t *low, const int64_t *high, const int64_t *interior)
{
    struct instruction in = {.op = OP_PAD, .n_a = builder_shape(b, x)->rank};
    set_extents(in.a, low, in.n_a, 0);
    set_extents(in.b, high, in.n_a, 0);
    set_extents(in.c, interior, in.n_a, 0);
    return append(b, in, (int[]){x, value}, 2);
}

int build_reverse(struct builder *b, int x, const int *dims, int n)
{
    struct instruction in = {.op = OP_REVERSE, .n_a = n};
    set_dims(in.a, dims, n);
    return append(b, in, &x, 1);
}

int build_dynamic_slice(struct builder *b, int x, const int *starts, const int64_t *sizes)
{
    int rank = builder_shape(b, x)->rank, operands[1 + SHAPE_MAX_RANK] = {x};
    memcpy(operands + 1, starts, (size_t)rank * sizeof *starts);
    struct instruction in = {.op = OP_DYNAMIC_SLICE, .n_a = rank};
    set_extents(in.a, sizes, rank, 0);
    return append(b, in, operands, 1 + rank);
}

int build_dynamic_update_slice(struct builder *b, int x, int update, const int *starts)
{
    int rank = builder_shape(b, x)->rank, operands[2 + SHAPE_MAX_RANK] = {x, update};
    memcpy(operands + 2, starts, (size_t)rank * sizeof *starts);
    return append(b, (struct instruction){.op = OP_DYNAMIC_UPDATE_SLICE}, operands, 2 + rank);
}

int build_gather(struct builder *b, int table, int indices)
{
    return append(b, (struct instruction){.op = OP_GATHER}, (int[]){table, indices}, 2);
}

int build_dot(struct builder *b, int x, int y, int n_batch, const int *x_batch, const int *y_batch, int n_contract,
              const int *x_contract, const int *y_contract, enum dtype result)
{
    struct instruction in = {.op = OP_DOT, .shape = {.dtype = result}};
    in.dot.n_batch = n_batch;
    in.dot.n_contract = n_contract;
    in.dot.precision = PRECISION_HIGHEST;
    for (int i = 0; i < n_batch && i < SHAPE_MAX_RANK; i++) {
        in.dot.lhs_batch[i] = x_batch[i];
        in.dot.rhs_batch[i] = y_batch[i];
    }
    for (int i = 0; i < n_contract && i < SHAPE_MAX_RANK; i++) {
        in.dot.lhs_contract[i] = x_contract[i];
        in.dot.rhs_contract[i] = y_contract[i];
    }
    return append(b, in, (int[]){x, y}, 2);
}

int build_linear(struct builder *b, int x, int w, enum dtype result)
{
    const int last[1] = {builder_shape(b, x)->rank - 1}, one[1] = {1};
    return build_dot(b, x, w, 0, NULL, NULL, 1, last, one, result);
}

int build_convolution(struct builder *b, int x, int kernel, const int64_t *strides, const int64_t *low,
                      const int64_t *high, int64_t groups, enum dtype result)
{
    int n = builder_shape(b, x)->rank - 2;
    struct instruction in = {.op = OP_CONVOLUTION, .shape = {.dtype = result}, .n_a = n, .axis = groups};
    in.dot.precision = PRECISION_HIGHEST;
    set_extents(in.a, strides, n, 1);
    set_extents(in.b, low, n, 0);
    set_extents(in.c, high, n, 0);
    return append(b, in, (int[]){x, kernel}, 2);
}

int build_neutral(struct builder *b, enum opcode reducer, struct shape s)
{
    enum dtype t = s.dtype;
    bool pred = t == DT_PRED, is_float = dtype_is_float(t);
    switch (reducer) {
    case OP_ADD:
    case OP_OR:
    case OP_XOR:
        return build_splat(b, s, 0);
    case OP_MULTIPLY:
        return build_splat(b, s, 1);
    case OP_AND: // all bits
        return pred                                ? build_splat(b, s, 1)
               : dtype_info(t)->kind == DTK_SIGNED ? build_splat(b, s, -1)
                                                   : build_symbol(b, s, CONST_INFINITY);
    case OP_MAXIMUM:
        return pred ? build_splat(b, s, 0) : is_float ? build_splat(b, s, -INFINITY) : build_symbol(b, s, CONST_LOWEST);
    case OP_MINIMUM:
        return pred ? build_splat(b, s, 1) : build_symbol(b, s, CONST_INFINITY);
    default:
        error_set(&b->error, ERR_INTERNAL, op_info(reducer)->name, "has no neutral element to reduce from");
        return -1;
    }
}

int build_reduce(struct builder *b, enum opcode reducer, int x, const int *dims, int n)
{
    if (x < 0)
        return -1;
    struct instruction in = {.op = OP_REDUCE, .reducer = reducer, .n_a = n};
    set_dims(in.a, dims, n);
    int init = build_neutral(b, reducer, (struct shape){.dtype = builder_shape(b, x)->dtype});
    return append(b, in, (int[]){x, init}, 2);
}

int build_result(struct builder *b, const char *name, int x)
{
    struct module *m = b->module;
    if (x < 0 || x >= m->n_instructions)
        error_set(&b->error, ERR_INTERNAL, name, "this result does not exist");
    if (b->error.code)
        return -1;
    int *list = arena_grow(m->arena, m->results, &m->cap_results, (size_t)m->n_results + 1, sizeof *list, &b->error);
    const char **names =
        arena_grow(m->arena, m->result_names, &m->cap_result_names, (size_t)m->n_results + 1, sizeof *names, &b->error);
    const char *copy = arena_strdup(m->arena, name, &b->error);
    if (!list || !names || !copy)
        return -1;
    m->results = list;
    m->result_names = names;
    m->results[m->n_results] = x;
    m->result_names[m->n_results++] = copy;
    return x;
}

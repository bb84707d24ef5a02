// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KEPT 256 // operations
// Operations of oneDNN ask for a megabyte or two; more than this means that one packs a whole weight.
#define MAX_SCRATCH ((size_t)512 << 20)

#define FUNCTIONS(X)                                                                                                   \
    X(dnnl_version)                                                                                                    \
    X(dnnl_get_effective_cpu_isa)                                                                                      \
    X(dnnl_set_primitive_cache_capacity)                                                                               \
    X(dnnl_engine_create)                                                                                              \
    X(dnnl_stream_create)                                                                                              \
    X(dnnl_stream_wait)                                                                                                \
    X(dnnl_memory_desc_create_with_strides)                                                                            \
    X(dnnl_memory_desc_clone)                                                                                          \
    X(dnnl_memory_desc_destroy)                                                                                        \
    X(dnnl_memory_desc_get_size)                                                                                       \
    X(dnnl_memory_create)                                                                                              \
    X(dnnl_memory_destroy)                                                                                             \
    X(dnnl_memory_set_data_handle)                                                                                     \
    X(dnnl_primitive_attr_create)                                                                                      \
    X(dnnl_primitive_attr_destroy)                                                                                     \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                                                         \
    X(dnnl_primitive_attr_set_post_ops)                                                                                \
    X(dnnl_post_ops_create)                                                                                            \
    X(dnnl_post_ops_destroy)                                                                                           \
    X(dnnl_post_ops_append_binary)                                                                                     \
    X(dnnl_memory_desc_create_with_tag)                                                                                \
    X(dnnl_convolution_forward_primitive_desc_create)                                                                  \
    X(dnnl_reorder_primitive_desc_create)                                                                              \
    X(dnnl_matmul_primitive_desc_create)                                                                               \
    X(dnnl_primitive_desc_destroy)                                                                                     \
    X(dnnl_primitive_desc_query_md)                                                                                    \
    X(dnnl_primitive_create)                                                                                           \
    X(dnnl_primitive_execute)                                                                                          \
    X(dnnl_primitive_destroy)

#define MEMBER(name) __typeof__(name) *name;
static struct {
    FUNCTIONS(MEMBER)
} dnn;

// The OpenMP runtime that oneDNN divides its work with, as gcc compiles calls of it; NULL where it is another.
static struct {
    void (*parallel)(void (*fn)(void *), void *context, unsigned threads, unsigned flags);
    int (*threads)(void);
} gomp;

enum { MAX_ROLES = 6 };

// What operations are kept under; zeroed before it is filled, since padding is compared, too.
union key {
    struct onednn_product product;
    struct onednn_convolution convolution;
};

// One operation for one shape: the primitive, and a memory object per role whose data is set for every call.
struct operation {
    char key[sizeof(union key)];
    size_t key_bytes;
    dnnl_primitive_t primitive;
    int roles[MAX_ROLES]; // DNNL_ARG_*
    dnnl_memory_t memory[MAX_ROLES];
    int n_roles;
    size_t scratch_bytes;
    dnnl_primitive_t reorder; // of a convolution's kernel, from `stored` to `packed`; else NULL
    dnnl_memory_t stored, packed;
    size_t packed_bytes;
    uint64_t used; // when
};

// Memory that is used again and again, and grows.
struct room {
    void *data;
    size_t bytes;
};

static struct {
    bool open;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct operation kept[MAX_KEPT];
    uint64_t clock;
    struct room scratch, packed, callers;
    char version[32];
} state;

static int load(const char *path, struct error *err)
{
    // Its threads wait for each other by spinning for some 10 ms, then asleep: where they sleep at once they lose their
    // processor to others, and blocks of FLUX.2 take a tenth more; where they never sleep XLA's threads go without.
    // Read when libgomp is loaded.
    setenv("GOMP_SPINCOUNT", "1000000", 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return error_set(err, ERR_DEVICE, path, "oneDNN cannot be loaded: %s", dlerror());
    void *symbol;
#define FIND(name)                                                                                                     \
    symbol = dlsym(library, #name);                                                                                    \
    if (!symbol)                                                                                                       \
        return error_set(err, ERR_DEVICE, path, "is not oneDNN 3: it has no " #name);                                  \
    memcpy(&dnn.name, &symbol, sizeof symbol);
    FUNCTIONS(FIND)
    void *parallel = dlsym(library, "GOMP_parallel"), *threads = dlsym(library, "omp_get_max_threads");
    if (parallel && threads) {
        memcpy(&gomp.parallel, &parallel, sizeof parallel);
        memcpy(&gomp.threads, &threads, sizeof threads);
    }
    const dnnl_version_t *v = dnn.dnnl_version();
    if (v->major != DNNL_VERSION_MAJOR)
        return error_set(err, ERR_DEVICE, path, "is oneDNN %d.%d, and not %d.x", v->major, v->minor,
                         DNNL_VERSION_MAJOR);
    snprintf(state.version, sizeof state.version, "%d.%d.%d", v->major, v->minor, v->patch);
    return 0;
}

int onednn_open(const char *path, struct error *err)
{
    if (state.open)
        return 0;
    int rc = load(path, err);
    if (rc)
        return rc;
    dnn.dnnl_set_primitive_cache_capacity(0); // what is made is kept here
    if (dnn.dnnl_engine_create(&state.engine, dnnl_cpu, 0) != dnnl_success ||
        dnn.dnnl_stream_create(&state.stream, state.engine, dnnl_stream_default_flags) != dnnl_success)
        return error_set(err, ERR_DEVICE, path, "oneDNN cannot use this CPU");
    state.open = true;
    return 0;
}

const char *onednn_version(void)
{
    return state.version;
}

const char *onednn_isa(void)
{
    switch (state.open ? (int)dnn.dnnl_get_effective_cpu_isa() : 0) {
    case dnnl_cpu_isa_avx512_core_amx_fp16:
    case dnnl_cpu_isa_avx512_core_amx:
        return "amx";
    case dnnl_cpu_isa_avx512_core_fp16:
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_bf16";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_vnni";
    case dnnl_cpu_isa_avx512_core:
        return "avx512";
    case dnnl_cpu_isa_avx2_vnni_2:
    case dnnl_cpu_isa_avx2_vnni:
    case dnnl_cpu_isa_avx2:
        return "avx2";
    default:
        return "sse";
    }
}

static void operation_release(struct operation *o)
{
    for (int i = 0; i < o->n_roles; i++)
        dnn.dnnl_memory_destroy(o->memory[i]);
    if (o->primitive)
        dnn.dnnl_primitive_destroy(o->primitive);
    if (o->reorder)
        dnn.dnnl_primitive_destroy(o->reorder);
    if (o->stored)
        dnn.dnnl_memory_destroy(o->stored);
    if (o->packed)
        dnn.dnnl_memory_destroy(o->packed);
    memset(o, 0, sizeof *o);
}

// The operation of a key; where there is none, the place of the one not used for longest, emptied: *made is then false.
static struct operation *operation_of(const void *key, size_t bytes, bool *made)
{
    struct operation *oldest = &state.kept[0];
    for (int i = 0; i < MAX_KEPT; i++) {
        struct operation *o = &state.kept[i];
        if (o->primitive && o->key_bytes == bytes && memcmp(o->key, key, bytes) == 0) {
            *made = true;
            o->used = ++state.clock;
            return o;
        }
        if (o->used < oldest->used)
            oldest = o;
    }
    operation_release(oldest);
    memcpy(oldest->key, key, bytes);
    oldest->key_bytes = bytes;
    oldest->used = ++state.clock;
    *made = false;
    return oldest;
}

static dnnl_data_type_t type_of(enum dtype t)
{
    return t == DT_BF16  ? dnnl_bf16
           : t == DT_F32 ? dnnl_f32
           : t == DT_S8  ? dnnl_s8
           : t == DT_U8  ? dnnl_u8
           : t == DT_S32 ? dnnl_s32
                         : dnnl_data_type_undef;
}

static bool add_role(struct operation *o, int role, const_dnnl_memory_desc_t desc)
{
    if (o->n_roles == MAX_ROLES ||
        dnn.dnnl_memory_create(&o->memory[o->n_roles], desc, state.engine, DNNL_MEMORY_NONE) != dnnl_success)
        return false;
    o->roles[o->n_roles++] = role;
    return true;
}

// The primitive of a description and the memory objects of its roles; both are given up.
static bool finish(struct operation *o, dnnl_primitive_desc_t pd, const int *roles, dnnl_memory_desc_t *descs, int n)
{
    bool ok = pd && dnn.dnnl_primitive_create(&o->primitive, pd) == dnnl_success;
    for (int i = 0; i < n; i++) {
        ok = ok && add_role(o, roles[i], descs[i]);
        if (descs[i])
            dnn.dnnl_memory_desc_destroy(descs[i]);
    }
    if (ok) {
        const_dnnl_memory_desc_t scratch = dnn.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        o->scratch_bytes = dnn.dnnl_memory_desc_get_size(scratch);
        ok = o->scratch_bytes <= MAX_SCRATCH && add_role(o, DNNL_ARG_SCRATCHPAD, scratch);
    }
    if (pd)
        dnn.dnnl_primitive_desc_destroy(pd);
    if (!ok)
        operation_release(o);
    return ok;
}

static int need(struct room *r, size_t bytes, struct error *err)
{
    if (bytes <= r->bytes)
        return 0;
    free(r->data);
    r->bytes = 0;
    r->data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!r->data)
        return error_set(err, ERR_MEMORY, "oneDNN", "no memory for %zu bytes", bytes);
    r->bytes = bytes;
    return 0;
}

int onednn_room(size_t bytes, void **data, struct error *err)
{
    int rc = need(&state.callers, bytes, err);
    *data = state.callers.data;
    return rc;
}

struct loop {
    threads_fn *fn;
    void *context;
    size_t n, grain;
    atomic_size_t next;
};

static void share(void *context)
{
    struct loop *l = context;
    size_t from;
    while ((from = atomic_fetch_add(&l->next, l->grain)) < l->n)
        l->fn(l->context, from, l->n - from > l->grain ? from + l->grain : l->n);
}

void onednn_for(struct threads *pool, size_t n, size_t grain, threads_fn *fn, void *context)
{
    struct loop l = {.fn = fn, .context = context, .n = n, .grain = grain};
    size_t most = threads_count(pool), threads = gomp.parallel ? (size_t)gomp.threads() : 0;
    if (threads > 1 && most > 1 && n > grain)
        gomp.parallel(share, &l, (unsigned)(threads < most ? threads : most), 0);
    else
        threads_for(threads ? NULL : pool, n, grain, fn, context);
}

// data[i] belongs to role i; the scratch memory is added.
static int execute(struct operation *o, void *const *data, struct error *err)
{
    dnnl_exec_arg_t args[MAX_ROLES];
    int rc = need(&state.scratch, o->scratch_bytes, err);
    if (rc)
        return rc;
    for (int i = 0; i < o->n_roles; i++) {
        bool scratch = o->roles[i] == DNNL_ARG_SCRATCHPAD;
        dnn.dnnl_memory_set_data_handle(o->memory[i], scratch ? state.scratch.data : data[i]);
        args[i] = (dnnl_exec_arg_t){o->roles[i], o->memory[i]};
    }
    int status = (int)dnn.dnnl_primitive_execute(o->primitive, state.stream, o->n_roles, args);
    if (status == dnnl_success)
        status = (int)dnn.dnnl_stream_wait(state.stream);
    return status == dnnl_success ? 0 : error_set(err, ERR_INTERNAL, "oneDNN", "an operation failed with %d", status);
}

static dnnl_primitive_attr_t attributes(void)
{
    dnnl_primitive_attr_t a = NULL;
    if (dnn.dnnl_primitive_attr_create(&a) == dnnl_success)
        dnn.dnnl_primitive_attr_set_scratchpad_mode(a, dnnl_scratchpad_mode_user);
    return a;
}

static dnnl_memory_desc_t describe(int rank, const int64_t *dims, const int64_t *strides, enum dtype t)
{
    dnnl_memory_desc_t d = NULL;
    dnn.dnnl_memory_desc_create_with_strides(&d, rank, dims, type_of(t), strides);
    return d;
}

static bool make_product(struct operation *o, const struct onednn_product *p)
{
    static const int roles[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const dnnl_dims_t w_strides = {p->w_rows_are_outputs ? 1 : p->w_stride, p->w_rows_are_outputs ? p->w_stride : 1};
    dnnl_memory_desc_t d[3] = {describe(2, (dnnl_dims_t){p->m, p->k}, (dnnl_dims_t){p->x_stride, 1}, p->x),
                               describe(2, (dnnl_dims_t){p->k, p->n}, w_strides, p->w),
                               describe(2, (dnnl_dims_t){p->m, p->n}, (dnnl_dims_t){p->out_stride, 1}, p->out)};
    dnnl_primitive_attr_t attr = attributes();
    dnnl_primitive_desc_t pd = NULL;
    if (attr && d[0] && d[1] && d[2])
        dnn.dnnl_matmul_primitive_desc_create(&pd, state.engine, d[0], d[1], NULL, d[2], attr);
    if (attr)
        dnn.dnnl_primitive_attr_destroy(attr);
    return finish(o, pd, roles, d, 3);
}

int onednn_product(const struct onednn_product *p, const void *x, const void *w, void *out, struct error *err)
{
    union key key;
    memset(&key, 0, sizeof key);
    key.product.m = p->m, key.product.k = p->k, key.product.n = p->n;
    key.product.x_stride = p->x_stride, key.product.w_stride = p->w_stride, key.product.out_stride = p->out_stride;
    key.product.x = p->x, key.product.w = p->w, key.product.out = p->out;
    key.product.w_rows_are_outputs = p->w_rows_are_outputs;
    bool made;
    struct operation *o = operation_of(&key, sizeof key.product, &made);
    if (!made && !make_product(o, p))
        return error_set(err, ERR_INTERNAL, "oneDNN", "has no product of %s by %s to %s", dtype_name(p->x),
                         dtype_name(p->w), dtype_name(p->out));
    void *const data[3] = {(void *)(uintptr_t)x, (void *)(uintptr_t)w, out};
    return execute(o, data, err);
}

// ---- convolutions

static dnnl_memory_desc_t describe_image(int64_t batch, const int64_t size[2], int64_t channels, enum dtype t)
{
    const dnnl_dims_t strides = {size[0] * size[1] * channels, 1, size[1] * channels, channels};
    return describe(4, (dnnl_dims_t){batch, channels, size[0], size[1]}, strides, t);
}

static dnnl_memory_desc_t describe_kernel(const struct onednn_convolution *c, bool stored)
{
    const dnnl_dims_t dims = {c->outputs, c->inputs, c->window[0], c->window[1]};
    dnnl_memory_desc_t d = NULL;
    dnn.dnnl_memory_desc_create_with_tag(&d, 4, dims, type_of(c->x), stored ? dnnl_oihw : dnnl_format_tag_any);
    return d;
}

// Adds the residual behind the sums, in f32.
static bool add_residual(dnnl_primitive_attr_t attr, dnnl_memory_desc_t residual)
{
    dnnl_post_ops_t ops = NULL;
    bool ok = residual && dnn.dnnl_post_ops_create(&ops) == dnnl_success &&
              dnn.dnnl_post_ops_append_binary(ops, dnnl_binary_add, residual) == dnnl_success &&
              dnn.dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    if (ops)
        dnn.dnnl_post_ops_destroy(ops);
    return ok;
}

// From the order in which the kernel is stored to the one that the convolution wants.
static bool make_reorder(struct operation *o, const struct onednn_convolution *c, const_dnnl_memory_desc_t packed)
{
    dnnl_memory_desc_t stored = describe_kernel(c, true);
    dnnl_primitive_desc_t pd = NULL;
    bool ok =
        stored &&
        dnn.dnnl_reorder_primitive_desc_create(&pd, stored, state.engine, packed, state.engine, NULL) == dnnl_success &&
        dnn.dnnl_primitive_create(&o->reorder, pd) == dnnl_success &&
        dnn.dnnl_memory_create(&o->stored, stored, state.engine, DNNL_MEMORY_NONE) == dnnl_success &&
        dnn.dnnl_memory_create(&o->packed, packed, state.engine, DNNL_MEMORY_NONE) == dnnl_success;
    o->packed_bytes = ok ? dnn.dnnl_memory_desc_get_size(packed) : 0;
    if (stored)
        dnn.dnnl_memory_desc_destroy(stored);
    if (pd)
        dnn.dnnl_primitive_desc_destroy(pd);
    return ok;
}

// Roles in the order of onednn_convolve's data: x, kernel, out, bias, residual.
static bool make_convolution(struct operation *o, const struct onednn_convolution *c)
{
    int roles[5] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, n = 3;
    const dnnl_dims_t bias_dims = {c->outputs}, one = {1}, no_dilation = {0};
    const dnnl_dims_t stride = {c->stride[0], c->stride[1]}, low = {c->low[0], c->low[1]},
                      high = {c->high[0], c->high[1]};
    dnnl_memory_desc_t d[5] = {describe_image(c->batch, c->in, c->inputs, c->x), describe_kernel(c, false),
                               describe_image(c->batch, c->out, c->outputs, c->out_type)};
    dnnl_memory_desc_t bias = c->bias ? describe(1, bias_dims, one, DT_F32) : NULL;
    dnnl_memory_desc_t residual =
        c->residual != DT_INVALID ? describe_image(c->batch, c->out, c->outputs, c->residual) : NULL;
    dnnl_primitive_attr_t attr = attributes();
    dnnl_primitive_desc_t pd = NULL;
    bool ok = attr && (c->residual == DT_INVALID || add_residual(attr, residual)) &&
              dnn.dnnl_convolution_forward_primitive_desc_create(&pd, state.engine, dnnl_forward_inference,
                                                                 dnnl_convolution_direct, d[0], d[1], bias, d[2],
                                                                 stride, no_dilation, low, high, attr) == dnnl_success;
    if (attr)
        dnn.dnnl_primitive_attr_destroy(attr);
    if (bias)
        d[n] = bias, roles[n++] = DNNL_ARG_BIAS;
    if (residual)
        d[n] = residual, roles[n++] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
    const_dnnl_memory_desc_t packed = ok ? dnn.dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0) : NULL;
    ok = ok && make_reorder(o, c, packed);
    if (ok) { // what was left open is decided
        dnn.dnnl_memory_desc_destroy(d[1]);
        d[1] = NULL;
        ok = dnn.dnnl_memory_desc_clone(&d[1], packed) == dnnl_success;
    }
    ok &= finish(o, pd, roles, d, n);
    if (!ok)
        operation_release(o);
    return ok;
}

static int pack_kernel(struct operation *o, const void *w, struct error *err)
{
    int rc = need(&state.packed, o->packed_bytes, err);
    if (rc)
        return rc;
    dnn.dnnl_memory_set_data_handle(o->stored, (void *)(uintptr_t)w);
    dnn.dnnl_memory_set_data_handle(o->packed, state.packed.data);
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, o->stored}, {DNNL_ARG_TO, o->packed}};
    int status = (int)dnn.dnnl_primitive_execute(o->reorder, state.stream, 2, args);
    return status == dnnl_success ? 0 : error_set(err, ERR_INTERNAL, "oneDNN", "a reorder failed with %d", status);
}

int onednn_convolve(const struct onednn_convolution *c, const void *x, const void *w, const void *bias,
                    const void *residual, void *out, struct error *err)
{
    union key key;
    memset(&key, 0, sizeof key);
    struct onednn_convolution *k = &key.convolution;
    k->batch = c->batch, k->inputs = c->inputs, k->outputs = c->outputs;
    for (int i = 0; i < 2; i++) {
        k->in[i] = c->in[i], k->out[i] = c->out[i], k->window[i] = c->window[i];
        k->stride[i] = c->stride[i], k->low[i] = c->low[i], k->high[i] = c->high[i];
    }
    k->x = c->x, k->out_type = c->out_type, k->residual = c->residual, k->bias = c->bias;
    bool made;
    struct operation *o = operation_of(&key, sizeof key.convolution, &made);
    if (!made && !make_convolution(o, c))
        return error_set(err, ERR_INTERNAL, "oneDNN", "has no convolution of %s to %s", dtype_name(c->x),
                         dtype_name(c->out_type));
    int rc = pack_kernel(o, w, err);
    if (rc)
        return rc;
    void *data[5] = {(void *)(uintptr_t)x, state.packed.data, out};
    int n = 3;
    if (c->bias)
        data[n++] = (void *)(uintptr_t)bias;
    if (c->residual != DT_INVALID)
        data[n] = (void *)(uintptr_t)residual;
    return execute(o, data, err);
}

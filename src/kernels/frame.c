// SPDX-License-Identifier: Apache-2.0
#include "kernels/frame.h"

#include <string.h>

static enum dtype type_of(XLA_FFI_DataType t)
{
    switch (t) {
    case XLA_FFI_DataType_PRED:
        return DT_PRED;
    case XLA_FFI_DataType_S8:
        return DT_S8;
    case XLA_FFI_DataType_U8:
        return DT_U8;
    case XLA_FFI_DataType_S32:
        return DT_S32;
    case XLA_FFI_DataType_BF16:
        return DT_BF16;
    case XLA_FFI_DataType_F32:
        return DT_F32;
    default:
        return DT_INVALID;
    }
}

static bool is_query(XLA_FFI_CallFrame *call)
{
    for (XLA_FFI_Extension_Base *e = call->extension_start; e; e = e->next) {
        if (e->type == XLA_FFI_Extension_Metadata) {
            XLA_FFI_Metadata *m = ((XLA_FFI_Metadata_Extension *)(void *)e)->metadata;
            m->api_version.major_version = XLA_FFI_API_MAJOR;
            m->api_version.minor_version = XLA_FFI_API_MINOR;
            m->traits = 0;
            return true;
        }
    }
    return false;
}

static int read_tensor(struct tensor *out, const void *buffer, struct error *err)
{
    const XLA_FFI_Buffer *b = buffer;
    out->shape = (struct shape){.dtype = type_of(b->dtype), .rank = (int)b->rank};
    out->data = b->data;
    if (out->shape.dtype == DT_INVALID || b->rank < 0 || b->rank > SHAPE_MAX_RANK)
        return error_set(err, ERR_INTERNAL, "kernel", "type %d of rank %d is not taken", (int)b->dtype, (int)b->rank);
    for (int i = 0; i < out->shape.rank; i++)
        out->shape.dims[i] = b->dims[i];
    return 0;
}

static int read_frame(struct frame *f, XLA_FFI_CallFrame *call, int min_args, int max_args, struct error *err)
{
    memset(f, 0, sizeof *f);
    f->call = call;
    if (call->args.size < min_args || call->args.size > max_args || call->args.size > FRAME_MAX_ARGS ||
        call->rets.size != 1)
        return error_set(err, ERR_INTERNAL, "kernel", "has %d operands and %d results", (int)call->args.size,
                         (int)call->rets.size);
    f->n_args = (int)call->args.size;
    for (int i = 0; i < f->n_args; i++) {
        if (read_tensor(&f->args[i], call->args.args[i], err))
            return ERR_INTERNAL;
    }
    return read_tensor(&f->result, call->rets.rets[0], err);
}

static const XLA_FFI_Scalar *scalar(const struct frame *f, const char *name)
{
    const XLA_FFI_Attrs *a = &f->call->attrs;
    size_t n = strlen(name);
    for (int64_t i = 0; i < a->size; i++) {
        if (a->types[i] == XLA_FFI_AttrType_SCALAR && a->names[i]->len == n && memcmp(a->names[i]->ptr, name, n) == 0)
            return a->attrs[i];
    }
    return NULL;
}

int64_t frame_integer(const struct frame *f, const char *name, int64_t absent)
{
    const XLA_FFI_Scalar *s = scalar(f, name);
    return s && s->dtype == XLA_FFI_DataType_S64 ? *(const int64_t *)s->value : absent;
}

double frame_real(const struct frame *f, const char *name, double absent)
{
    const XLA_FFI_Scalar *s = scalar(f, name);
    return s && s->dtype == XLA_FFI_DataType_F64 ? *(const double *)s->value : absent;
}

static XLA_FFI_Error *answer(XLA_FFI_CallFrame *call, int rc, const struct error *err)
{
    if (!rc)
        return NULL;
    XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                      .message = err->message,
                                      .errc = rc == ERR_MEMORY ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
                                                               : XLA_FFI_Error_Code_INTERNAL};
    return call->api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error *frame_run(XLA_FFI_CallFrame *call, const struct frame_work *work, void *kernel)
{
    struct frame f;
    struct error err = {0};
    if (is_query(call))
        return NULL;
    int rc = read_frame(&f, call, work->min_args, work->max_args, &err);
    if (!rc)
        rc = work->open(kernel, &f, &err);
    if (!rc && shape_elements(&f.result.shape))
        rc = team_run(work->span, work->run, kernel, &err);
    return answer(call, rc, &err);
}

// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "io/checkpoint.h"

_Static_assert((int)ASSAY_MAX_RANK == (int)CHECKPOINT_MAX_RANK, "dims are copied whole");

struct assay_checkpoint {
    struct checkpoint checkpoint;
};

int assay_checkpoint_open(struct assay_checkpoint **out, const char *path, struct assay_error *error)
{
    struct api_call call;
    api_begin(&call);
    int rc = api_need(&call, path, "path");
    struct assay_checkpoint *c = rc ? NULL : malloc(sizeof *c);
    if (!rc && !c)
        rc = error_set(&call.err, ERR_MEMORY, path, "no memory to open it");
    if (!rc)
        rc = checkpoint_open(&c->checkpoint, path, &call.err);
    if (rc)
        free(c);
    else
        *out = c;
    return api_end(&call, rc, error);
}

void assay_checkpoint_close(struct assay_checkpoint *checkpoint)
{
    if (checkpoint)
        checkpoint_close(&checkpoint->checkpoint);
    free(checkpoint);
}

size_t assay_checkpoint_count(const struct assay_checkpoint *checkpoint)
{
    return checkpoint->checkpoint.count;
}

bool assay_checkpoint_tensor(const struct assay_checkpoint *checkpoint, size_t index, struct assay_tensor *out)
{
    const struct checkpoint *c = &checkpoint->checkpoint;
    if (index >= c->count)
        return false;
    const struct tensor_view *t = &c->tensors[index];
    *out = (struct assay_tensor){.name = t->name,
                                 .type = tensor_type_name(t),
                                 .rank = t->rank,
                                 .elements = t->elements,
                                 .bytes = t->bytes,
                                 .offset = t->offset,
                                 .file = c->files[t->file].path};
    memcpy(out->dims, t->dims, sizeof out->dims);
    return true;
}

size_t assay_checkpoint_find(const struct assay_checkpoint *checkpoint, const char *name)
{
    const struct tensor_view *t = checkpoint_find(&checkpoint->checkpoint, name);
    return t ? (size_t)(t - checkpoint->checkpoint.tensors) : SIZE_MAX;
}

int assay_checkpoint_read_f32(const struct assay_checkpoint *checkpoint, size_t index, float *out, size_t count,
                              struct assay_error *error)
{
    const struct checkpoint *c = &checkpoint->checkpoint;
    struct api_call call;
    int rc;
    api_begin(&call);
    if (index >= c->count)
        rc = error_set(&call.err, ERR_USAGE, "index", "is %zu, but there are %zu tensors", index, c->count);
    else if (count != c->tensors[index].elements)
        rc = error_set(&call.err, ERR_USAGE, c->tensors[index].name, "has %zu elements, not %zu",
                       c->tensors[index].elements, count);
    else
        rc = checkpoint_read_as(c, &c->tensors[index], DT_F32, out, &call.err);
    return api_end(&call, rc, error);
}

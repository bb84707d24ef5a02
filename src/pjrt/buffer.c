// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "pjrt/api.h"

#define ZERO_COPY_ALIGN 64 // what the CPU client needs to use host memory in place

static int check_pred(const uint8_t *bytes, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] > 1)
            return error_set(err, ERR_USAGE, "pred array", "byte %zu is %u; a pred is 0 or 1", i, bytes[i]);
    return 0;
}

static int check_host_array(const struct client *c, size_t device, const void *data, const struct array_type *type,
                            enum host_copy copy, size_t *bytes, struct error *err)
{
    if (device >= c->info.addressable_count)
        return error_set(err, ERR_USAGE, "device", "there is no device %zu, there are %zu", device,
                         c->info.addressable_count);
    if (!array_type_bytes(type, bytes))
        return error_set(err, ERR_USAGE, "array type", "a %s array of rank %d is not one that can be made",
                         dtype_name(type->dtype), type->rank);
    if (*bytes > 0 && !data)
        return error_set(err, ERR_USAGE, "array data", "no data is given for an array of %zu bytes", *bytes);
    if (copy == HOST_ZERO_COPY && *bytes > 0 && (uintptr_t)data % ZERO_COPY_ALIGN != 0)
        return error_set(err, ERR_USAGE, "array data", "zero copy needs data aligned to %d bytes", ZERO_COPY_ALIGN);
    return type->dtype == DT_PRED ? check_pred(data, *bytes, err) : 0;
}

// Whether the device reads the caller's memory: it then has the array at that very address.
static bool is_aliased(const struct plugin *p, PJRT_Buffer *buffer, const void *data)
{
    PJRT_ARGS(p, PJRT_Buffer_UnsafePointer_Args, args);
    args->buffer = buffer;
    bool offered;
    int rc = PJRT_TRY(p, PJRT_Buffer_UnsafePointer, args, &offered, NULL);
    return rc == 0 && offered && args->buffer_pointer == (uintptr_t)data;
}

static int upload(struct buffer *b, const void *data, size_t bytes, enum host_copy copy, struct error *err)
{
    static const uint64_t nothing[ZERO_COPY_ALIGN / 8] __attribute__((aligned(ZERO_COPY_ALIGN)));
    const struct plugin *p = b->client->plugin;
    PJRT_ARGS(p, PJRT_Client_BufferFromHostBuffer_Args, args);
    args->client = b->client->client;
    args->data = bytes ? data : nothing;
    args->type = (PJRT_Buffer_Type)dtype_info(b->type.dtype)->pjrt;
    args->dims = b->type.dims;
    args->num_dims = (size_t)b->type.rank;
    args->host_buffer_semantics = copy == HOST_ZERO_COPY ? PJRT_HostBufferSemantics_kImmutableZeroCopy
                                                         : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    args->device = b->client->addressable[b->device];
    int rc = PJRT_CALL(p, PJRT_Client_BufferFromHostBuffer, args, err);
    if (rc)
        return rc;
    b->buffer = args->buffer;
    pjrt_live_add(args->done_with_host_buffer ? 2 : 1);
    if (copy == HOST_ZERO_COPY) {
        b->host_done = args->done_with_host_buffer;
        b->aliased = bytes > 0 && is_aliased(p, b->buffer, data);
        return 0;
    }
    return args->done_with_host_buffer
               ? event_await(p, args->done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer", err)
               : 0;
}

int buffer_from_host(struct buffer **out, struct client *c, size_t device, const void *data,
                     const struct array_type *type, enum host_copy copy, struct error *err)
{
    *out = NULL;
    size_t bytes;
    int rc = check_host_array(c, device, data, type, copy, &bytes, err);
    if (rc)
        return rc;
    struct buffer *b = calloc(1, sizeof *b);
    if (!b)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the buffer's record");
    b->client = c;
    b->device = device;
    b->type = *type;
    rc = upload(b, data, bytes, copy, err);
    if (rc) {
        buffer_free(b);
        return rc;
    }
    *out = b;
    return 0;
}

static int host_copy_out(struct buffer *b, void *dst, size_t *bytes, PJRT_Event **done, struct error *err)
{
    const struct plugin *p = b->client->plugin;
    int64_t minor_to_major[ARRAY_MAX_RANK];
    for (int i = 0; i < b->type.rank; i++)
        minor_to_major[i] = b->type.rank - 1 - i;
    // Without a layout the bytes come in the device's order of dimensions.
    PJRT_Buffer_MemoryLayout layout = {.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major;
    layout.tiled.minor_to_major_size = (size_t)b->type.rank;
    PJRT_ARGS(p, PJRT_Buffer_ToHostBuffer_Args, args);
    args->src = b->buffer;
    args->host_layout = &layout;
    args->dst = dst;
    args->dst_size = *bytes;
    int rc = PJRT_CALL(p, PJRT_Buffer_ToHostBuffer, args, err);
    *bytes = args->dst_size;
    *done = args->event;
    if (!rc && args->event)
        pjrt_live_add(1);
    return rc;
}

int buffer_to_host(struct buffer *b, void *dst, size_t bytes, struct error *err)
{
    size_t want, needed = 0;
    if (!array_type_bytes(&b->type, &want) || want != bytes)
        return error_set(err, ERR_USAGE, "destination", "%zu bytes are given for a %s array of %zu bytes", bytes,
                         dtype_name(b->type.dtype), want);
    if (bytes == 0)
        return buffer_await(b, err);
    PJRT_Event *done = NULL;
    int rc = host_copy_out(b, NULL, &needed, &done, err);
    if (rc)
        return rc;
    if (needed > bytes)
        return error_set(err, ERR_DEVICE, b->client->plugin->info.path,
                         "the plugin wants to write %zu bytes for a %s array of %zu bytes", needed,
                         dtype_name(b->type.dtype), bytes);
    rc = host_copy_out(b, dst, &bytes, &done, err);
    if (!rc && done)
        rc = event_await(b->client->plugin, done, "PJRT_Buffer_ToHostBuffer", err);
    return rc;
}

int buffer_await(struct buffer *b, struct error *err)
{
    PJRT_ARGS(b->client->plugin, PJRT_Buffer_ReadyEvent_Args, args);
    args->buffer = b->buffer;
    int rc = PJRT_CALL(b->client->plugin, PJRT_Buffer_ReadyEvent, args, err);
    if (rc || !args->event)
        return rc;
    pjrt_live_add(1);
    return event_await(b->client->plugin, args->event, "PJRT_Buffer_ReadyEvent", err);
}

const struct array_type *buffer_type(const struct buffer *b)
{
    return &b->type;
}

size_t buffer_device(const struct buffer *b)
{
    return b->device;
}

int buffer_device_bytes(struct buffer *b, size_t *out, struct error *err)
{
    PJRT_ARGS(b->client->plugin, PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
    args->buffer = b->buffer;
    int rc = PJRT_CALL(b->client->plugin, PJRT_Buffer_OnDeviceSizeInBytes, args, err);
    *out = args->on_device_size_in_bytes;
    return rc;
}

bool buffer_is_aliased(const struct buffer *b)
{
    return b->aliased;
}

void buffer_free(struct buffer *b)
{
    if (!b)
        return;
    const struct plugin *p = b->client->plugin;
    if (b->buffer) {
        PJRT_ARGS(p, PJRT_Buffer_Destroy_Args, args);
        args->buffer = b->buffer;
        PJRT_DESTROY(p, PJRT_Buffer_Destroy, args);
        pjrt_live_add(-1);
    }
    if (b->host_done) // now it comes: the caller may take its memory back
        event_await(p, b->host_done, "PJRT_Client_BufferFromHostBuffer", NULL);
    free(b);
}

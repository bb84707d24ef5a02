// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "pjrt/api.h"

#define F6_API_MINOR    114 // a plugin from before it ends the process when it meets the f6 types
#define ZERO_COPY_ALIGN 64  // what the CPU client needs to use host memory in place

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
    const struct plugin_info *plugin = &c->plugin->info;
    if (dtype_info(type->dtype)->pjrt >= PJRT_Buffer_Type_F6E2M3FN && plugin->api_minor < F6_API_MINOR)
        return error_set(err, ERR_DEVICE, "array type", "%s came with PJRT API 0.%d, the plugin's is %d.%d",
                         dtype_name(type->dtype), F6_API_MINOR, plugin->api_major, plugin->api_minor);
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

// ---- copying out ----

// The order in which the dimensions lie on the device, the fastest first; row-major where the plugin does not say.
static int device_order(struct buffer *b, int64_t minor_to_major[ARRAY_MAX_RANK], struct error *err)
{
    int rank = b->type.rank;
    for (int i = 0; i < rank; i++)
        minor_to_major[i] = rank - 1 - i;
    PJRT_ARGS(b->client->plugin, PJRT_Buffer_GetMemoryLayout_Args, args);
    args->buffer = b->buffer;
    args->layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
    bool offered;
    int rc = PJRT_TRY(b->client->plugin, PJRT_Buffer_GetMemoryLayout, args, &offered, err);
    if (rc || !offered || args->layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled)
        return rc;
    const PJRT_Buffer_MemoryLayout_Tiled *tiled = &args->layout.tiled;
    bool seen[ARRAY_MAX_RANK] = {false};
    if (tiled->minor_to_major_size != (size_t)rank)
        return error_set(err, ERR_DEVICE, b->client->plugin->info.path,
                         "the plugin orders %zu dimensions of an array that has %d", tiled->minor_to_major_size, rank);
    for (int i = 0; i < rank; i++) {
        int64_t d = tiled->minor_to_major[i];
        if (d < 0 || d >= rank || seen[d])
            return error_set(err, ERR_DEVICE, b->client->plugin->info.path,
                             "the plugin's order of an array's dimensions is no order");
        seen[d] = true;
        minor_to_major[i] = d;
    }
    return 0;
}

// Copies out in the given order of dimensions, without tiles or padding. With dst NULL only *bytes is set.
static int copy_out(struct buffer *b, const int64_t *minor_to_major, void *dst, size_t *bytes, struct error *err)
{
    const struct plugin *p = b->client->plugin;
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
    if (rc || !args->event)
        return rc;
    pjrt_live_add(1);
    return event_await(p, args->event, "PJRT_Buffer_ToHostBuffer", err);
}

// Row-major from the order of minor_to_major; elements of `size` bytes.
static void reorder(const struct array_type *type, const int64_t *minor_to_major, size_t size, const char *src,
                    char *dst)
{
    size_t stride[ARRAY_MAX_RANK], step = size, count;
    int64_t at[ARRAY_MAX_RANK] = {0};
    for (int i = 0; i < type->rank; i++) {
        stride[minor_to_major[i]] = step;
        step *= (size_t)type->dims[minor_to_major[i]];
    }
    if (!array_type_count(type, &count))
        return;
    for (size_t n = 0; n < count; n++, dst += size) {
        memcpy(dst, src, size);
        for (int d = type->rank - 1; d >= 0; d--) { // to the next element of dst
            src += stride[d];
            if (++at[d] < type->dims[d])
                break;
            src -= stride[d] * (size_t)type->dims[d];
            at[d] = 0;
        }
    }
}

// The plugin leaves the upper bits of a narrow element zero.
static void extend_signs(enum dtype dtype, void *data, size_t n)
{
    int spare = 8 - dtype_bits(dtype);
    if (dtype_info(dtype)->kind != DTK_SIGNED || spare <= 0)
        return;
    int8_t *bytes = data;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (int8_t)((int8_t)(bytes[i] << spare) >> spare);
}

// Asks for the device's own order and reorders here: some plugins ignore the order they are asked for.
static int copy_row_major(struct buffer *b, void *dst, size_t bytes, struct error *err)
{
    int64_t order[ARRAY_MAX_RANK];
    int rc = device_order(b, order, err);
    if (rc)
        return rc;
    size_t needed = 0;
    rc = copy_out(b, order, NULL, &needed, err);
    if (rc)
        return rc;
    if (needed > bytes)
        return error_set(err, ERR_DEVICE, b->client->plugin->info.path,
                         "the plugin wants to write %zu bytes for a %s array of %zu bytes", needed,
                         dtype_name(b->type.dtype), bytes);
    bool row_major = true;
    for (int i = 0; i < b->type.rank; i++)
        row_major &= order[i] == b->type.rank - 1 - i;
    if (row_major)
        return copy_out(b, order, dst, &bytes, err);
    char *as_it_lies = malloc(bytes);
    if (!as_it_lies)
        return error_set(err, ERR_MEMORY, NULL, "no memory to reorder an array of %zu bytes", bytes);
    rc = copy_out(b, order, as_it_lies, &bytes, err);
    if (!rc)
        reorder(&b->type, order, ((size_t)dtype_bits(b->type.dtype) + 7) / 8, as_it_lies, dst);
    free(as_it_lies);
    return rc;
}

int buffer_to_host(struct buffer *b, void *dst, size_t bytes, struct error *err)
{
    size_t want;
    if (!array_type_bytes(&b->type, &want) || want != bytes)
        return error_set(err, ERR_USAGE, "destination", "%zu bytes are given for a %s array of %zu bytes", bytes,
                         dtype_name(b->type.dtype), want);
    if (bytes == 0)
        return buffer_await(b, err);
    int rc = copy_row_major(b, dst, bytes, err);
    if (!rc)
        extend_signs(b->type.dtype, dst, bytes);
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

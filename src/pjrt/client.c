// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "pjrt/api.h"

PJRT_NamedValue attribute_value(const struct attribute *a)
{
    PJRT_NamedValue v = {.struct_size = PJRT_NamedValue_STRUCT_SIZE};
    v.name = a->name;
    v.name_size = strlen(a->name);
    v.value_size = 1;
    switch (a->type) {
    case ATTRIBUTE_STRING:
        v.type = PJRT_NamedValue_kString;
        v.string_value = a->string;
        v.value_size = strlen(a->string);
        break;
    case ATTRIBUTE_INT:
        v.type = PJRT_NamedValue_kInt64;
        v.int64_value = a->integer;
        break;
    case ATTRIBUTE_INT_LIST:
        v.type = PJRT_NamedValue_kInt64List;
        v.int64_array_value = a->list;
        v.value_size = a->list_count;
        break;
    case ATTRIBUTE_FLOAT:
        v.type = PJRT_NamedValue_kFloat;
        v.float_value = a->number;
        break;
    case ATTRIBUTE_BOOL:
        v.type = PJRT_NamedValue_kBool;
        v.bool_value = a->boolean;
        break;
    }
    return v;
}

static int create(struct client *c, const struct client_options *options, struct error *err)
{
    size_t count = options->option_count, with_devices = count + (options->device_count > 0);
    PJRT_NamedValue *values = arena_new(&c->arena, PJRT_NamedValue, count + 1, err);
    if (!values)
        return ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        values[i] = attribute_value(&options->options[i]);
    if (with_devices > count) {
        struct attribute devices = {"cpu_device_count", .type = ATTRIBUTE_INT, .integer = options->device_count};
        values[count] = attribute_value(&devices);
    }
    PJRT_ARGS(c->plugin, PJRT_Client_Create_Args, args);
    args->create_options = values;
    args->num_options = with_devices;
    struct error first = {0};
    int rc = PJRT_CALL(c->plugin, PJRT_Client_Create, args, &first);
    bool refused =
        strncmp(first.message, "INVALID_ARGUMENT", 16) == 0 || strncmp(first.message, "UNIMPLEMENTED", 13) == 0;
    if (rc && refused && with_devices > count) { // perhaps this plugin does not know the option
        args->num_options = count;
        args->client = NULL;
        rc = PJRT_CALL(c->plugin, PJRT_Client_Create, args, NULL);
    }
    if (rc)
        return error_set(err, first.code, first.where, "%s", first.message);
    c->client = args->client;
    pjrt_live_add(1);
    return 0;
}

int device_describe(const struct plugin *p, PJRT_DeviceDescription *description, struct arena *a,
                    struct device_info *out, struct error *err)
{
    PJRT_ARGS(p, PJRT_DeviceDescription_Id_Args, id);
    id->device_description = description;
    int rc = PJRT_CALL(p, PJRT_DeviceDescription_Id, id, err);
    PJRT_ARGS(p, PJRT_DeviceDescription_ProcessIndex_Args, process);
    process->device_description = description;
    if (!rc)
        rc = PJRT_CALL(p, PJRT_DeviceDescription_ProcessIndex, process, err);
    PJRT_ARGS(p, PJRT_DeviceDescription_Kind_Args, kind);
    kind->device_description = description;
    if (!rc)
        rc = PJRT_CALL(p, PJRT_DeviceDescription_Kind, kind, err);
    PJRT_ARGS(p, PJRT_DeviceDescription_DebugString_Args, debug);
    debug->device_description = description;
    bool offered = false;
    if (!rc)
        rc = PJRT_TRY(p, PJRT_DeviceDescription_DebugString, debug, &offered, err);
    if (rc)
        return rc;
    out->id = id->id;
    out->process_index = process->process_index;
    out->local_hardware_id = -1;
    out->kind = arena_strndup(a, kind->device_kind, kind->device_kind_size, err);
    out->debug_string =
        arena_strndup(a, offered ? debug->debug_string : "", offered ? debug->debug_string_size : 0, err);
    if (!out->kind || !out->debug_string)
        return ERR_MEMORY;

    PJRT_ARGS(p, PJRT_DeviceDescription_Attributes_Args, attributes);
    attributes->device_description = description;
    rc = PJRT_TRY(p, PJRT_DeviceDescription_Attributes, attributes, &offered, err);
    if (rc || !offered)
        return rc;
    return attributes_copy(a, &out->attributes, attributes->attributes, attributes->num_attributes, err);
}

static int describe_device(struct client *c, struct device_info *out, PJRT_Device *device, struct error *err)
{
    const struct plugin *p = c->plugin;
    PJRT_ARGS(p, PJRT_Device_GetDescription_Args, get);
    get->device = device;
    int rc = PJRT_CALL(p, PJRT_Device_GetDescription, get, err);
    if (!rc)
        rc = device_describe(p, get->device_description, &c->arena, out, err);
    if (rc || !out->addressable)
        return rc;
    PJRT_ARGS(p, PJRT_Device_LocalHardwareId_Args, local);
    local->device = device;
    bool offered;
    rc = PJRT_TRY(p, PJRT_Device_LocalHardwareId, local, &offered, err);
    if (!rc && offered)
        out->local_hardware_id = local->local_hardware_id;
    return rc;
}

static int describe_devices(struct client *c, struct error *err)
{
    PJRT_ARGS(c->plugin, PJRT_Client_Devices_Args, all);
    all->client = c->client;
    int rc = PJRT_CALL(c->plugin, PJRT_Client_Devices, all, err);
    PJRT_ARGS(c->plugin, PJRT_Client_AddressableDevices_Args, local);
    local->client = c->client;
    if (!rc)
        rc = PJRT_CALL(c->plugin, PJRT_Client_AddressableDevices, local, err);
    if (rc)
        return rc;
    struct device_info *devices = arena_new(&c->arena, struct device_info, all->num_devices, err);
    size_t *addressable = arena_new(&c->arena, size_t, local->num_addressable_devices, err);
    if (!devices || !addressable)
        return ERR_MEMORY;
    c->addressable = local->addressable_devices;
    c->info.devices = devices;
    c->info.device_count = all->num_devices;
    c->info.addressable = addressable;
    c->info.addressable_count = local->num_addressable_devices;
    for (size_t i = 0; i < local->num_addressable_devices; i++) {
        size_t d = 0;
        while (d < all->num_devices && all->devices[d] != local->addressable_devices[i])
            d++;
        if (d == all->num_devices)
            return error_set(err, ERR_DEVICE, c->plugin->info.path,
                             "addressable device %zu is not among the plugin's devices", i);
        devices[d].addressable = true;
        addressable[i] = d;
    }
    for (size_t d = 0; d < all->num_devices; d++) {
        rc = describe_device(c, &devices[d], all->devices[d], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int describe_topology(struct client *c, struct error *err)
{
    PJRT_ARGS(c->plugin, PJRT_Client_TopologyDescription_Args, get);
    get->client = c->client;
    bool offered;
    int rc = PJRT_TRY(c->plugin, PJRT_Client_TopologyDescription, get, &offered, err);
    if (rc || !offered || !get->topology)
        return rc;
    PJRT_ARGS(c->plugin, PJRT_TopologyDescription_Attributes_Args, attributes);
    attributes->topology = get->topology;
    rc = PJRT_TRY(c->plugin, PJRT_TopologyDescription_Attributes, attributes, &offered, err);
    if (rc || !offered)
        return rc;
    return attributes_copy(&c->arena, &c->info.topology, attributes->attributes, attributes->num_attributes, err);
}

static int describe(struct client *c, struct error *err)
{
    const struct plugin *p = c->plugin;
    PJRT_ARGS(p, PJRT_Client_PlatformName_Args, name);
    name->client = c->client;
    int rc = PJRT_CALL(p, PJRT_Client_PlatformName, name, err);
    PJRT_ARGS(p, PJRT_Client_PlatformVersion_Args, version);
    version->client = c->client;
    if (!rc)
        rc = PJRT_CALL(p, PJRT_Client_PlatformVersion, version, err);
    PJRT_ARGS(p, PJRT_Client_ProcessIndex_Args, process);
    process->client = c->client;
    if (!rc)
        rc = PJRT_CALL(p, PJRT_Client_ProcessIndex, process, err);
    if (rc)
        return rc;
    c->info.platform_name = arena_strndup(&c->arena, name->platform_name, name->platform_name_size, err);
    c->info.platform_version = arena_strndup(&c->arena, version->platform_version, version->platform_version_size, err);
    c->info.process_index = process->process_index;
    if (!c->info.platform_name || !c->info.platform_version)
        return ERR_MEMORY;
    rc = describe_devices(c, err);
    return rc ? rc : describe_topology(c, err);
}

int client_new(struct client **out, struct plugin *p, const struct client_options *options, struct error *err)
{
    static const struct client_options none;
    *out = NULL;
    if (!options)
        options = &none;
    if (options->device_count < 0)
        return error_set(err, ERR_USAGE, "device count", "%d is not a number of devices", options->device_count);
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the client's record");
    c->plugin = p;
    arena_init(&c->arena);
    int rc = create(c, options, err);
    if (!rc)
        rc = describe(c, err);
    if (!rc && c->info.addressable_count < (size_t)options->device_count)
        rc = error_set(err, ERR_DEVICE, p->info.path,
                       "%d devices are wanted, but this plugin (PJRT API %d.%d, platform %s) makes %zu and cannot be "
                       "asked for more",
                       options->device_count, p->info.api_major, p->info.api_minor, c->info.platform_name,
                       c->info.addressable_count);
    if (rc) {
        client_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    if (c->client) {
        PJRT_ARGS(c->plugin, PJRT_Client_Destroy_Args, args);
        args->client = c->client;
        PJRT_DESTROY(c->plugin, PJRT_Client_Destroy, args);
        pjrt_live_add(-1);
    }
    arena_release(&c->arena);
    free(c);
}

const struct client_info *client_info(const struct client *c)
{
    return &c->info;
}

struct plugin *client_plugin(const struct client *c)
{
    return c->plugin;
}

static int64_t or_unknown(bool is_set, int64_t value)
{
    return is_set ? value : -1;
}

int client_device_memory(struct client *c, size_t device, struct device_memory *out, bool *offered, struct error *err)
{
    *offered = false;
    *out = (struct device_memory){-1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (device >= c->info.addressable_count)
        return error_set(err, ERR_USAGE, "device", "there is no device %zu, there are %zu", device,
                         c->info.addressable_count);
    PJRT_ARGS(c->plugin, PJRT_Device_MemoryStats_Args, args);
    args->device = c->addressable[device];
    int rc = PJRT_TRY(c->plugin, PJRT_Device_MemoryStats, args, offered, err);
    if (rc || !*offered)
        return rc;
    out->bytes_in_use = args->bytes_in_use;
    out->peak_bytes_in_use = or_unknown(args->peak_bytes_in_use_is_set, args->peak_bytes_in_use);
    out->bytes_limit = or_unknown(args->bytes_limit_is_set, args->bytes_limit);
    out->bytes_reserved = or_unknown(args->bytes_reserved_is_set, args->bytes_reserved);
    out->largest_alloc_bytes = or_unknown(args->largest_alloc_size_is_set, args->largest_alloc_size);
    out->allocation_count = or_unknown(args->num_allocs_is_set, args->num_allocs);
    out->largest_free_block_bytes = or_unknown(args->largest_free_block_bytes_is_set, args->largest_free_block_bytes);
    out->pool_bytes = or_unknown(args->pool_bytes_is_set, args->pool_bytes);
    out->peak_pool_bytes = or_unknown(args->peak_pool_bytes_is_set, args->peak_pool_bytes);
    return 0;
}

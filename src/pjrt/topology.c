// SPDX-License-Identifier: Apache-2.0
// Devices that need not be there, and compiling for them.
#include <stdlib.h>

#include "pjrt/api.h"

static int create(struct topology *t, const char *name, const struct attribute *options, size_t n, struct error *err)
{
    PJRT_NamedValue *values = arena_new(&t->arena, PJRT_NamedValue, n + 1, err);
    if (!values)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        values[i] = attribute_value(&options[i]);
    PJRT_ARGS(t->plugin, PJRT_TopologyDescription_Create_Args, args);
    args->topology_name = name;
    args->topology_name_size = strlen(name);
    args->create_options = values;
    args->num_options = n;
    int rc = PJRT_CALL(t->plugin, PJRT_TopologyDescription_Create, args, err);
    if (rc)
        return rc;
    t->topology = args->topology;
    pjrt_live_add(1);
    return 0;
}

static int describe(struct topology *t, struct error *err)
{
    const struct plugin *p = t->plugin;
    PJRT_ARGS(p, PJRT_TopologyDescription_PlatformName_Args, name);
    name->topology = t->topology;
    int rc = PJRT_CALL(p, PJRT_TopologyDescription_PlatformName, name, err);
    PJRT_ARGS(p, PJRT_TopologyDescription_PlatformVersion_Args, version);
    version->topology = t->topology;
    if (!rc)
        rc = PJRT_CALL(p, PJRT_TopologyDescription_PlatformVersion, version, err);
    PJRT_ARGS(p, PJRT_TopologyDescription_GetDeviceDescriptions_Args, devices);
    devices->topology = t->topology;
    if (!rc)
        rc = PJRT_CALL(p, PJRT_TopologyDescription_GetDeviceDescriptions, devices, err);
    if (rc)
        return rc;
    t->info.platform_name = arena_strndup(&t->arena, name->platform_name, name->platform_name_size, err);
    t->info.platform_version = arena_strndup(&t->arena, version->platform_version, version->platform_version_size, err);
    struct device_info *list = arena_new(&t->arena, struct device_info, devices->num_descriptions, err);
    if (!t->info.platform_name || !t->info.platform_version || !list)
        return ERR_MEMORY;
    t->info.devices = list;
    t->info.device_count = devices->num_descriptions;
    for (size_t i = 0; i < devices->num_descriptions && !rc; i++)
        rc = device_describe(p, devices->descriptions[i], &t->arena, &list[i], err);
    if (rc)
        return rc;
    PJRT_ARGS(p, PJRT_TopologyDescription_Attributes_Args, attributes);
    attributes->topology = t->topology;
    bool offered;
    rc = PJRT_TRY(p, PJRT_TopologyDescription_Attributes, attributes, &offered, err);
    if (rc || !offered)
        return rc;
    return attributes_copy(&t->arena, &t->info.attributes, attributes->attributes, attributes->num_attributes, err);
}

int topology_new(struct topology **out, struct plugin *p, const char *name, const struct attribute *options, size_t n,
                 struct error *err)
{
    *out = NULL;
    struct topology *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the topology's record");
    t->plugin = p;
    arena_init(&t->arena);
    int rc = create(t, name, options, n, err);
    if (!rc)
        rc = describe(t, err);
    if (rc) {
        topology_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void topology_free(struct topology *t)
{
    if (!t)
        return;
    if (t->topology) {
        PJRT_ARGS(t->plugin, PJRT_TopologyDescription_Destroy_Args, args);
        args->topology = t->topology;
        PJRT_DESTROY(t->plugin, PJRT_TopologyDescription_Destroy, args);
        pjrt_live_add(-1);
    }
    arena_release(&t->arena);
    free(t);
}

const struct topology_info *topology_info(const struct topology *t)
{
    return &t->info;
}

static int compile(struct program *p, struct topology *t, const void *code, size_t n, const char *format,
                   const struct compile_options *options, struct error *err)
{
    int rc = compile_options_check(options, t->info.device_count, err);
    if (rc)
        return rc;
    // Several devices are said one by one, in the topology's order: over several slices the default is of no use.
    int *ids = NULL, count = options->num_replicas * options->num_partitions;
    if (count > 1) {
        ids = arena_new(&p->arena, int, (size_t)count, err);
        if (!ids)
            return ERR_MEMORY;
        for (int i = 0; i < count; i++)
            ids[i] = t->info.devices[i].id;
    }
    struct str encoded;
    str_init(&encoded);
    compile_options_encode(&encoded, options, ids);
    rc = str_check(&encoded, err);
    PJRT_ARGS(p->plugin, PJRT_Program, source);
    source->code = (char *)code; // read only: the field serves output, too
    source->code_size = n;
    source->format = format;
    source->format_size = strlen(format);
    PJRT_ARGS(p->plugin, PJRT_Compile_Args, args);
    args->topology = t->topology;
    args->program = source;
    args->compile_options = str_text(&encoded);
    args->compile_options_size = encoded.length;
    if (!rc)
        rc = PJRT_CALL(p->plugin, PJRT_Compile, args, err);
    str_release(&encoded);
    if (rc)
        return rc;
    p->executable = args->executable;
    pjrt_live_add(1);
    rc = program_describe(p, err);
    p->info.device_count = rc ? 0 : p->info.num_replicas * p->info.num_partitions;
    return rc;
}

int program_compile_for(struct program **out, struct topology *t, const void *code, size_t n, const char *format,
                        const struct compile_options *options, struct error *err)
{
    *out = NULL;
    struct program *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the program's record");
    p->plugin = t->plugin;
    arena_init(&p->arena);
    struct compile_options o = *options;
    o.device_ids = NULL;
    int rc = compile(p, t, code, n, format, &o, err);
    if (rc) {
        program_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

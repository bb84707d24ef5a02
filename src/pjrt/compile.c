// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/pbwire.h"
#include "pjrt/api.h"

#define EXCESS_PRECISION "xla_allow_excess_precision"
// XLA's CPU back end compiles maximum and minimum to instructions that lose a NaN in one of their operands: max(1, NaN)
// is 1, and the largest element of a row with a NaN is a number. Off for every program, at no cost that could be
// measured.
#define FAST_MIN_MAX "xla_cpu_enable_fast_min_max"

static int or_one(int n)
{
    return n == 0 ? 1 : n;
}

// Field numbers: xla/pjrt/proto/compile_options.proto and DeviceAssignmentProto of xla/xla_data.proto.
static void put_device_assignment(struct str *out, int replicas, int partitions, const int *ids)
{
    size_t assignment = pb_begin(out, 9); // ExecutableBuildOptionsProto.device_assignment
    pb_put_int(out, 1, replicas);
    pb_put_int(out, 2, partitions);
    for (int p = 0; p < partitions; p++) {
        size_t computation = pb_begin(out, 3); // computation_devices, one per partition
        size_t packed = pb_begin(out, 1);      // replica_device_ids
        for (int r = 0; r < replicas; r++)
            pb_put_varint(out, (uint64_t)(int64_t)ids[r * partitions + p]);
        pb_end(out, packed);
        pb_end(out, computation);
    }
    pb_end(out, assignment);
}

static void put_override(struct str *out, const struct compile_override *o)
{
    size_t entry = pb_begin(out, 7); // CompileOptionsProto.env_option_overrides, a map
    pb_put_string(out, 1, o->name);
    size_t value = pb_begin(out, 2); // OptionOverrideProto
    switch (o->type) {
    case OVERRIDE_STRING:
        pb_put_string(out, 1, o->string);
        break;
    case OVERRIDE_BOOL:
        pb_put_bool(out, 2, o->boolean);
        break;
    case OVERRIDE_INT:
        pb_put_int(out, 3, o->integer);
        break;
    case OVERRIDE_DOUBLE:
        pb_put_double(out, 4, o->number);
        break;
    }
    pb_end(out, value);
    pb_end(out, entry);
}

void compile_options_encode(struct str *out, const struct compile_options *options, const int *default_ids)
{
    int replicas = or_one(options->num_replicas), partitions = or_one(options->num_partitions);
    const int *ids = options->device_ids ? options->device_ids : default_ids;
    size_t build = pb_begin(out, 3); // executable_build_options: without it the plugin aborts
    pb_put_int(out, 4, replicas);
    pb_put_int(out, 5, partitions);
    if (options->use_spmd_partitioning)
        pb_put_bool(out, 6, true);
    if (ids)
        put_device_assignment(out, replicas, partitions, ids);
    if (options->use_shardy)
        pb_put_bool(out, 19, true);
    pb_end(out, build);
    struct compile_override excess = {EXCESS_PRECISION, OVERRIDE_BOOL, .boolean = options->allow_excess_precision};
    put_override(out, &excess);
    for (size_t i = 0; i < options->override_count; i++)
        put_override(out, &options->overrides[i]);
}

static bool device_known(const struct client *c, int id)
{
    for (size_t i = 0; i < c->info.device_count; i++)
        if (c->info.devices[i].id == id)
            return true;
    return false;
}

int compile_options_check(const struct compile_options *options, size_t have, struct error *err)
{
    int replicas = options->num_replicas, partitions = options->num_partitions;
    if (replicas < 0 || partitions < 0)
        return error_set(err, ERR_USAGE, "compile options", "%d replicas and %d partitions are not counts", replicas,
                         partitions);
    int64_t count = (int64_t)or_one(replicas) * or_one(partitions);
    if (count > (int64_t)have)
        return error_set(err, ERR_USAGE, "compile options",
                         "%d replicas of %d partitions need %lld devices, there are %zu", or_one(replicas),
                         or_one(partitions), (long long)count, have);
    if (options->use_shardy && !options->use_spmd_partitioning)
        return error_set(err, ERR_USAGE, "compile options", "use_shardy needs use_spmd_partitioning");
    for (size_t i = 0; i < options->override_count; i++)
        if (strcmp(options->overrides[i].name, EXCESS_PRECISION) == 0)
            return error_set(err, ERR_USAGE, EXCESS_PRECISION,
                             "is not to be overridden by name: it is allow_excess_precision of the compile options");
    return 0;
}

// Checks what XLA would only find out by a failed CHECK, which ends the process.
static int check_options(const struct client *c, const struct compile_options *options, struct error *err)
{
    size_t have = options->device_ids ? c->info.device_count : c->info.addressable_count;
    int rc = compile_options_check(options, have, err);
    int64_t count = (int64_t)or_one(options->num_replicas) * or_one(options->num_partitions);
    for (int64_t i = 0; !rc && options->device_ids && i < count; i++) {
        int id = options->device_ids[i];
        if (!device_known(c, id))
            return error_set(err, ERR_USAGE, "compile options", "there is no device with id %d", id);
        for (int64_t j = 0; j < i; j++)
            if (options->device_ids[j] == id)
                return error_set(err, ERR_USAGE, "compile options", "device %d is assigned twice", id);
    }
    return rc;
}

static int encode(struct program *p, struct str *out, const struct compile_options *options, struct error *err)
{
    const struct client_info *info = &p->client->info;
    int *ids = NULL;
    // One device is left to the plugin: an assignment would bind the program to it.
    if (!options->device_ids && (options->num_replicas > 1 || options->num_partitions > 1)) {
        ids = arena_new(&p->arena, int, info->addressable_count, err);
        if (!ids)
            return ERR_MEMORY;
        for (size_t i = 0; i < info->addressable_count; i++)
            ids[i] = info->devices[info->addressable[i]].id;
    }
    struct compile_options complete = *options;
    struct compile_override *list = arena_new(&p->arena, struct compile_override, options->override_count + 1, err);
    if (!list)
        return ERR_MEMORY;
    size_t n = 0;
    if (strcmp(info->platform_name, "cpu") == 0)
        list[n++] = (struct compile_override){FAST_MIN_MAX, OVERRIDE_BOOL, .boolean = false};
    for (size_t i = 0; i < options->override_count; i++)
        list[n++] = options->overrides[i]; // of two entries with one name the last holds
    complete.overrides = list;
    complete.override_count = n;
    compile_options_encode(out, &complete, ids);
    return str_check(out, err);
}

static int copy_signature(struct program *p, const struct compile_options *options, struct error *err)
{
    p->check_parameters = options->check_parameters;
    if (!p->check_parameters)
        return 0;
    p->parameter_count = options->parameter_count;
    p->parameters = arena_new(&p->arena, struct array_type, p->parameter_count, err);
    if (!p->parameters)
        return ERR_MEMORY;
    for (size_t i = 0; i < p->parameter_count; i++)
        p->parameters[i] = options->parameters[i];
    return 0;
}

static int find_devices(struct program *p, struct error *err)
{
    PJRT_ARGS(p->plugin, PJRT_LoadedExecutable_AddressableDevices_Args, args);
    args->executable = p->loaded;
    int rc = PJRT_CALL(p->plugin, PJRT_LoadedExecutable_AddressableDevices, args, err);
    if (rc)
        return rc;
    size_t n = args->num_addressable_devices;
    int *ids = arena_new(&p->arena, int, n, err);
    p->devices = arena_new(&p->arena, size_t, n, err);
    if (!ids || !p->devices)
        return ERR_MEMORY;
    const struct client *c = p->client;
    for (size_t i = 0; i < n; i++) {
        size_t d = 0;
        while (d < c->info.addressable_count && c->addressable[d] != args->addressable_devices[i])
            d++;
        if (d == c->info.addressable_count)
            return error_set(err, ERR_DEVICE, c->plugin->info.path,
                             "the program was placed on a device that is not addressable");
        p->devices[i] = d;
        ids[i] = c->info.devices[c->info.addressable[d]].id;
    }
    p->info.device_ids = ids;
    p->info.device_count = n;
    return 0;
}

static int compile(struct program *p, const void *code, size_t n, const char *format,
                   const struct compile_options *options, struct error *err)
{
    int rc = check_options(p->client, options, err);
    if (!rc)
        rc = copy_signature(p, options, err);
    struct str encoded;
    str_init(&encoded);
    if (!rc)
        rc = encode(p, &encoded, options, err);
    const struct plugin *plugin = p->plugin;
    PJRT_ARGS(plugin, PJRT_Program, source);
    source->code = (char *)code; // read only: the field serves output, too
    source->code_size = n;
    source->format = format;
    source->format_size = strlen(format);
    PJRT_ARGS(plugin, PJRT_Client_Compile_Args, args);
    args->client = p->client->client;
    args->program = source;
    args->compile_options = str_text(&encoded);
    args->compile_options_size = encoded.length;
    if (!rc)
        rc = PJRT_CALL(plugin, PJRT_Client_Compile, args, err);
    str_release(&encoded);
    if (rc)
        return rc;
    p->loaded = args->executable;
    pjrt_live_add(1);

    PJRT_ARGS(plugin, PJRT_LoadedExecutable_GetExecutable_Args, get);
    get->loaded_executable = p->loaded;
    rc = PJRT_CALL(plugin, PJRT_LoadedExecutable_GetExecutable, get, err);
    if (rc)
        return rc;
    p->executable = get->executable;
    pjrt_live_add(1);
    rc = find_devices(p, err);
    return rc ? rc : program_describe(p, err);
}

int program_compile(struct program **out, struct client *c, const void *code, size_t n, const char *format,
                    const struct compile_options *options, struct error *err)
{
    static const struct compile_options none;
    *out = NULL;
    struct program *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the program's record");
    p->client = c;
    p->plugin = c->plugin;
    arena_init(&p->arena);
    int rc = compile(p, code, n, format, options ? options : &none, err);
    if (rc) {
        program_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void program_free(struct program *p)
{
    if (!p)
        return;
    const struct plugin *plugin = p->plugin;
    if (p->executable) {
        PJRT_ARGS(plugin, PJRT_Executable_Destroy_Args, args);
        args->executable = p->executable;
        PJRT_DESTROY(plugin, PJRT_Executable_Destroy, args);
        pjrt_live_add(-1);
    }
    if (p->loaded) {
        PJRT_ARGS(plugin, PJRT_LoadedExecutable_Destroy_Args, args);
        args->executable = p->loaded;
        PJRT_DESTROY(plugin, PJRT_LoadedExecutable_Destroy, args);
        pjrt_live_add(-1);
    }
    arena_release(&p->arena);
    free(p);
}

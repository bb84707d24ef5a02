// SPDX-License-Identifier: Apache-2.0
// Execution. What a run needs is laid out once, so that a run is three calls per device into the plugin.
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/span.h"
#include "pjrt/api.h"

struct launch {
    struct program *program;
    const struct plugin *plugin;
    size_t device_count, output_count;
    PJRT_Buffer **outputs;  // [device_count * output_count]
    PJRT_Event **completed; // [device_count]
    PJRT_LoadedExecutable_Execute_Args *execute;
    struct arena arena;
};

// An argument struct that lives as long as the launch, with the room of PJRT_ARGS behind it.
#define NEW_ARGS(launch, type, err) ((type *)new_args((launch), sizeof(type), type##_STRUCT_SIZE, (err)))

static void *new_args(struct launch *l, size_t bytes, size_t struct_size, struct error *err)
{
    size_t *args = arena_alloc(&l->arena, 1, bytes + PJRT_ROOM_BYTES, err);
    if (args)
        *args = plugin_struct_size(l->plugin, struct_size); // the first field of every one
    return args;
}

static int check_argument(const struct program *p, const struct buffer *b, size_t device, size_t arg, struct error *err)
{
    char where[64];
    snprintf(where, sizeof where, "argument %zu on device %zu", arg, device);
    if (b->client != p->client)
        return error_set(err, ERR_USAGE, where, "the array belongs to another client");
    if (b->device != p->devices[device])
        return error_set(err, ERR_USAGE, where, "the array is on device %zu, the program wants it on device %zu",
                         b->device, p->devices[device]);
    if (!p->check_parameters || array_type_equal(&b->type, &p->parameters[arg]))
        return 0;
    struct str text;
    str_init(&text);
    str_add(&text, "the array is ");
    array_type_print(&text, &b->type);
    str_add(&text, ", the program wants ");
    array_type_print(&text, &p->parameters[arg]);
    int rc = error_set(err, ERR_USAGE, where, "%s", str_text(&text));
    str_release(&text);
    return rc;
}

static int check_arguments(const struct program *p, struct buffer *const *args, size_t arg_count, struct error *err)
{
    if (p->check_parameters && arg_count != p->parameter_count)
        return error_set(err, ERR_USAGE, p->info.name, "%zu arguments are given, the program takes %zu", arg_count,
                         p->parameter_count);
    for (size_t d = 0; d < p->info.device_count; d++)
        for (size_t i = 0; i < arg_count; i++) {
            int rc = check_argument(p, args[d * arg_count + i], d, i, err);
            if (rc)
                return rc;
        }
    return 0;
}

// Lists every argument as not to be donated when the program reuses some for its outputs, or might.
static int forbid_donation(struct launch *l, PJRT_ExecuteOptions *options, size_t arg_count, struct error *err)
{
    struct program_memory memory;
    int rc = program_memory(l->program, &memory, err);
    if (rc || memory.aliases == 0)
        return rc;
    int64_t *indices = arena_new(&l->arena, int64_t, arg_count, err);
    if (!indices)
        return ERR_MEMORY;
    for (size_t i = 0; i < arg_count; i++)
        indices[i] = (int64_t)i;
    options->non_donatable_input_indices = indices;
    options->num_non_donatable_input_indices = arg_count;
    return 0;
}

static int lay_out(struct launch *l, struct buffer *const *args, size_t arg_count, struct error *err)
{
    size_t devices = l->device_count, all_args, all_outputs;
    if (!size_mul(devices, arg_count, &all_args) || !size_mul(devices, l->output_count, &all_outputs))
        return error_set(err, ERR_MEMORY, NULL, "%zu devices with %zu arguments each are too many", devices, arg_count);
    PJRT_ExecuteOptions *options = NEW_ARGS(l, PJRT_ExecuteOptions, err);
    l->execute = NEW_ARGS(l, PJRT_LoadedExecutable_Execute_Args, err);
    PJRT_Buffer **buffers = arena_new(&l->arena, PJRT_Buffer *, all_args, err);
    PJRT_Buffer *const **arg_lists = arena_new(&l->arena, PJRT_Buffer *const *, devices, err);
    PJRT_Buffer ***output_lists = arena_new(&l->arena, PJRT_Buffer **, devices, err);
    l->outputs = arena_new(&l->arena, PJRT_Buffer *, all_outputs, err);
    l->completed = arena_new(&l->arena, PJRT_Event *, devices, err);
    if (!options || !l->execute || !buffers || !arg_lists || !output_lists || !l->outputs || !l->completed)
        return ERR_MEMORY;
    for (size_t i = 0; i < all_args; i++)
        buffers[i] = args[i]->buffer;
    for (size_t d = 0; d < devices; d++) {
        arg_lists[d] = buffers + d * arg_count;
        output_lists[d] = l->outputs + d * l->output_count;
    }
    l->execute->executable = l->program->loaded;
    l->execute->options = options;
    l->execute->argument_lists = arg_lists;
    l->execute->num_devices = devices;
    l->execute->num_args = arg_count;
    l->execute->output_lists = output_lists;
    l->execute->device_complete_events = l->completed;
    return forbid_donation(l, options, arg_count, err);
}

static int check_functions(const struct plugin *p, struct error *err)
{
    if (!PJRT_HAS(p, PJRT_LoadedExecutable_Execute))
        return plugin_lacks(p, "PJRT_LoadedExecutable_Execute", err);
    if (!PJRT_HAS(p, PJRT_Event_Await))
        return plugin_lacks(p, "PJRT_Event_Await", err);
    if (!PJRT_HAS(p, PJRT_Event_Destroy))
        return plugin_lacks(p, "PJRT_Event_Destroy", err);
    if (!PJRT_HAS(p, PJRT_Buffer_Destroy))
        return plugin_lacks(p, "PJRT_Buffer_Destroy", err);
    return 0;
}

int launch_new(struct launch **out, struct program *p, struct buffer *const *args, size_t arg_count, struct error *err)
{
    *out = NULL;
    if (!p->client)
        return error_set(err, ERR_USAGE, "program", "it was compiled for devices that are not here, and cannot run");
    int rc = check_functions(p->plugin, err);
    if (!rc)
        rc = check_arguments(p, args, arg_count, err);
    if (rc)
        return rc;
    struct launch *l = calloc(1, sizeof *l);
    if (!l)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the launch's record");
    l->program = p;
    l->plugin = p->plugin;
    l->device_count = p->info.device_count;
    l->output_count = p->info.output_count;
    arena_init(&l->arena);
    rc = lay_out(l, args, arg_count, err);
    if (rc) {
        launch_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void launch_free(struct launch *l)
{
    if (!l)
        return;
    arena_release(&l->arena);
    free(l);
}

static void destroy_outputs(struct launch *l)
{
    PJRT_ARGS(l->plugin, PJRT_Buffer_Destroy_Args, args);
    for (size_t i = 0; i < l->device_count * l->output_count; i++) {
        if (!l->outputs[i])
            continue;
        args->buffer = l->outputs[i];
        plugin_check(l->plugin, l->plugin->api->PJRT_Buffer_Destroy(args), "PJRT_Buffer_Destroy", NULL, NULL);
        l->outputs[i] = NULL;
    }
}

static void destroy_events(struct launch *l)
{
    PJRT_ARGS(l->plugin, PJRT_Event_Destroy_Args, args);
    for (size_t d = 0; d < l->device_count; d++) {
        args->event = l->completed[d];
        plugin_check(l->plugin, l->plugin->api->PJRT_Event_Destroy(args), "PJRT_Event_Destroy", NULL, NULL);
    }
}

// One run: the outputs are in l->outputs afterwards. *end_ns is taken as soon as every device is done. Objects made
// here are counted by the caller: the timing loop has none left over. With `spans` both halves are recorded, which no
// timed run should pay for.
static int run(struct launch *l, bool spans, uint64_t *end_ns, struct error *err)
{
    const struct plugin *p = l->plugin;
    struct span_open dispatch = {0}, wait = {0};
    if (spans)
        dispatch = span_begin(span_register("dispatch"));
    int rc =
        plugin_check(p, p->api->PJRT_LoadedExecutable_Execute(l->execute), "PJRT_LoadedExecutable_Execute", NULL, err);
    if (spans) {
        span_end(dispatch);
        wait = span_begin(span_register("wait"));
    }
    if (rc)
        return rc;
    PJRT_ARGS(p, PJRT_Event_Await_Args, await);
    for (size_t d = 0; d < l->device_count; d++) {
        await->event = l->completed[d];
        int failed = plugin_check(p, p->api->PJRT_Event_Await(await), "PJRT_LoadedExecutable_Execute", NULL, err);
        rc = rc ? rc : failed;
    }
    *end_ns = clock_ns();
    if (spans)
        span_end(wait);
    destroy_events(l);
    if (rc)
        destroy_outputs(l);
    return rc;
}

// A record of its own for output i; takes the plugin's object over.
static int take_output(struct launch *l, size_t i, struct buffer **out, struct error *err)
{
    struct program *p = l->program;
    struct buffer *b = calloc(1, sizeof *b);
    if (!b)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the buffer's record");
    b->client = p->client;
    b->device = p->devices[i / l->output_count];
    b->buffer = l->outputs[i];
    l->outputs[i] = NULL;
    pjrt_live_add(1);
    *out = b;
    if (p->info.outputs) {
        b->type = p->info.outputs[i % l->output_count];
        return 0;
    }
    PJRT_ARGS(l->plugin, PJRT_Buffer_ElementType_Args, type);
    type->buffer = b->buffer;
    int rc = PJRT_CALL(l->plugin, PJRT_Buffer_ElementType, type, err);
    PJRT_ARGS(l->plugin, PJRT_Buffer_Dimensions_Args, dims);
    dims->buffer = b->buffer;
    if (!rc)
        rc = PJRT_CALL(l->plugin, PJRT_Buffer_Dimensions, dims, err);
    if (rc)
        return rc;
    if (dims->num_dims > ARRAY_MAX_RANK)
        return error_set(err, ERR_DEVICE, "output", "output %zu has %zu dimensions; at most %d are handled",
                         i % l->output_count, dims->num_dims, ARRAY_MAX_RANK);
    b->type.dtype = dtype_from_pjrt((int)type->type);
    b->type.rank = (int)dims->num_dims;
    for (int k = 0; k < b->type.rank; k++)
        b->type.dims[k] = dims->dims[k];
    return 0;
}

int launch_run(struct launch *l, struct buffer **outputs, struct error *err)
{
    size_t count = l->device_count * l->output_count;
    for (size_t i = 0; i < count; i++)
        outputs[i] = NULL;
    uint64_t end_ns;
    int rc = run(l, true, &end_ns, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = take_output(l, i, &outputs[i], err);
    if (rc) {
        destroy_outputs(l);
        for (size_t i = 0; i < count; i++) {
            buffer_free(outputs[i]);
            outputs[i] = NULL;
        }
    }
    return rc;
}

int launch_time(struct launch *l, size_t count, uint64_t *ns, size_t *done, struct error *err)
{
    int rc = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        uint64_t start_ns = clock_ns(), end_ns;
        rc = run(l, false, &end_ns, err);
        if (rc)
            break;
        if (ns)
            ns[i] = end_ns - start_ns;
        destroy_outputs(l);
    }
    if (done)
        *done = i;
    return rc;
}

int program_execute(struct program *p, struct buffer *const *args, size_t arg_count, struct buffer **outputs,
                    struct error *err)
{
    struct launch *l;
    int rc = launch_new(&l, p, args, arg_count, err);
    if (rc)
        return rc;
    rc = launch_run(l, outputs, err);
    launch_free(l);
    return rc;
}

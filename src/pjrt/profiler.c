// SPDX-License-Identifier: Apache-2.0
// The profiler extension, which has a function table, argument structs and error objects of its own:
// openxla/xla, xla/backends/profiler/plugin/profiler_c_api.h and plugin_tracer_impl.cc.
#include <stdlib.h>

#include "base/pbread.h"
#include "pjrt/api.h"
#include "xla/backends/profiler/plugin/profiler_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

struct profiler {
    const struct plugin *plugin;
    const PLUGIN_Profiler_Api *api;
    PLUGIN_Profiler *profiler;
    bool running;
};

#define HAS(api, function)                                                                                             \
    (offsetof(PLUGIN_Profiler_Api, function) + sizeof(void *) <= (api)->struct_size && (api)->function != NULL)

// The table, when it is there and has what a capture needs.
static const PLUGIN_Profiler_Api *profiler_api(const struct plugin *p)
{
    const PJRT_Profiler_Extension *e = (const void *)plugin_extension(p, PJRT_Extension_Type_Profiler);
    size_t least = offsetof(PJRT_Profiler_Extension, profiler_api) + sizeof(void *);
    if (!e || e->base.struct_size < least || !e->profiler_api)
        return NULL;
    const PLUGIN_Profiler_Api *a = e->profiler_api;
    bool whole = HAS(a, error_destroy) && HAS(a, error_message) && HAS(a, error_get_code) && HAS(a, create) &&
                 HAS(a, destroy) && HAS(a, start) && HAS(a, stop) && HAS(a, collect_data);
    return whole ? a : NULL;
}

bool profiler_offered(const struct plugin *p)
{
    return profiler_api(p) != NULL;
}

// Takes the error object; NULL is success.
static int check(const struct profiler *p, PLUGIN_Profiler_Error *error, const char *what, struct error *err)
{
    if (!error)
        return 0;
    PLUGIN_Profiler_Error_Message_Args message = {.struct_size = PLUGIN_Profiler_Error_Message_Args_STRUCT_SIZE,
                                                  .error = error};
    p->api->error_message(&message);
    size_t n = message.message ? message.message_size : 0;
    int rc = error_set(err, ERR_DEVICE, p->plugin->info.path, "the plugin's profiler cannot %s: %.*s", what,
                       n > 4096 ? 4096 : (int)n, message.message ? message.message : "");
    PLUGIN_Profiler_Error_Destroy_Args destroy = {.struct_size = PLUGIN_Profiler_Error_Destroy_Args_STRUCT_SIZE,
                                                  .error = error};
    p->api->error_destroy(&destroy);
    return rc;
}

// tensorflow.ProfileOptions, version 1: what the host's runtime marks, the device, and the programs' HLO; no Python.
static void encode_options(struct str *out)
{
    pb_put_uint(out, 2, 2);
    pb_put_uint(out, 3, 1);
    pb_put_uint(out, 4, 0);
    pb_put_uint(out, 5, 1);
    pb_put_bool(out, 7, true);
}

int profiler_start(struct profiler **out, const struct plugin *plugin, struct error *err)
{
    *out = NULL;
    const PLUGIN_Profiler_Api *api = profiler_api(plugin);
    if (!api)
        return error_set(err, ERR_DEVICE, plugin->info.path, "the plugin has no profiler");
    struct profiler *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the profiler's record");
    p->plugin = plugin;
    p->api = api;
    struct str options;
    str_init(&options);
    encode_options(&options);
    PLUGIN_Profiler_Create_Args create = {.struct_size = PLUGIN_Profiler_Create_Args_STRUCT_SIZE,
                                          .options = str_text(&options),
                                          .options_size = options.length};
    int rc = str_check(&options, err);
    if (!rc)
        rc = check(p, api->create(&create), "be made", err);
    str_release(&options);
    if (!rc) {
        p->profiler = create.profiler;
        pjrt_live_add(1);
        PLUGIN_Profiler_Start_Args start = {.struct_size = PLUGIN_Profiler_Start_Args_STRUCT_SIZE,
                                            .profiler = p->profiler};
        rc = check(p, api->start(&start), "start", err);
    }
    p->running = !rc;
    if (rc)
        profiler_free(p);
    else
        *out = p;
    return rc;
}

static int stop(struct profiler *p, struct error *err)
{
    PLUGIN_Profiler_Stop_Args args = {.struct_size = PLUGIN_Profiler_Stop_Args_STRUCT_SIZE, .profiler = p->profiler};
    p->running = false;
    return check(p, p->api->stop(&args), "stop", err);
}

// Plugins may count one byte more than the profile has. No field is a single byte.
static size_t without_padding(const uint8_t *data, size_t n)
{
    struct pb_reader r = pb_reader(data, n);
    struct pb_field f;
    while (pb_next(&r, &f))
        ;
    return r.damage && r.damaged + 1 == data + n ? n - 1 : n;
}

static void add_profile(struct str *out, const uint8_t *data, size_t n)
{
    if (data)
        str_add_n(out, data, without_padding(data, n));
}

// The plugin keeps the bytes and shows them; where it gives a size alone, it wants room and fills it.
static int collect_data(struct profiler *p, struct str *out, struct error *err)
{
    PLUGIN_Profiler_CollectData_Args args = {.struct_size = PLUGIN_Profiler_CollectData_Args_STRUCT_SIZE,
                                             .profiler = p->profiler};
    int rc = check(p, p->api->collect_data(&args), "give its data", err);
    if (rc || args.buffer || !args.buffer_size_in_bytes) {
        if (!rc)
            add_profile(out, args.buffer, args.buffer_size_in_bytes);
        return rc;
    }
    uint8_t *room = calloc(1, args.buffer_size_in_bytes);
    if (!room)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a profile of %zu bytes", args.buffer_size_in_bytes);
    args.buffer = room;
    rc = check(p, p->api->collect_data(&args), "give its data", err);
    if (!rc)
        add_profile(out, room, args.buffer_size_in_bytes);
    free(room);
    return rc;
}

// The newer way, where all of it is there.
static int consume(struct profiler *p, struct str *out, struct error *err)
{
    PLUGIN_Profiler_Consume_Args args = {.struct_size = PLUGIN_Profiler_Consume_Args_STRUCT_SIZE,
                                         .profiler = p->profiler};
    int rc = check(p, p->api->consume(&args), "give its data", err);
    if (rc)
        return rc;
    PLUGIN_Profiler_Serialize_Args serialize = {.struct_size = PLUGIN_Profiler_Serialize_Args_STRUCT_SIZE,
                                                .profiler = p->profiler,
                                                .consume_result = args.result};
    rc = check(p, p->api->serialize(&serialize), "write its data", err);
    if (!rc)
        add_profile(out, serialize.serialized_bytes, serialize.serialized_size);
    PLUGIN_Profiler_ConsumeResult_Destroy_Args destroy = {
        .struct_size = PLUGIN_Profiler_ConsumeResult_Destroy_Args_STRUCT_SIZE, .consume_result = args.result};
    p->api->consume_result_destroy(&destroy);
    return rc;
}

int profiler_collect(struct profiler *p, struct str *out, struct error *err)
{
    const PLUGIN_Profiler_Api *a = p->api;
    int rc = p->running ? stop(p, err) : 0;
    bool newer = HAS(a, consume) && HAS(a, consume_result_destroy) && HAS(a, serialize);
    if (!rc)
        rc = newer ? consume(p, out, err) : collect_data(p, out, err);
    return rc ? rc : str_check(out, err);
}

void profiler_free(struct profiler *p)
{
    if (!p)
        return;
    if (p->running)
        stop(p, NULL);
    if (p->profiler) {
        PLUGIN_Profiler_Destroy_Args args = {.struct_size = PLUGIN_Profiler_Destroy_Args_STRUCT_SIZE,
                                             .profiler = p->profiler};
        check(p, p->api->destroy(&args), "be destroyed", NULL);
        pjrt_live_add(-1);
    }
    free(p);
}

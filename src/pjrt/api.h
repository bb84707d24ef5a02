// SPDX-License-Identifier: Apache-2.0
// Inside the PJRT layer (and for kernels/, which registers custom calls): how the plugin's functions are called.
#ifndef PJRT_API_H
#define PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "pjrt/pjrt.h"
#include "xla/pjrt/c/pjrt_c_api.h"

struct plugin {
    const PJRT_Api *api;
    struct arena arena;
    struct plugin_info info;
};

// A plugin refuses an argument struct that is smaller than the one in its own headers, and takes a larger one. For a
// plugin that is newer than our headers every struct is therefore followed by zeroed room and announced with it: fields
// we do not know read as absent.
#define PJRT_ROOM_BYTES 128

#define PJRT_ARGS(plugin, type, name)                                                                                  \
    struct {                                                                                                           \
        type args;                                                                                                     \
        unsigned char room[PJRT_ROOM_BYTES];                                                                           \
    } name##_roomy;                                                                                                    \
    memset(&name##_roomy, 0, sizeof name##_roomy);                                                                     \
    type *const name = &name##_roomy.args;                                                                             \
    name->struct_size = plugin_struct_size((plugin), type##_STRUCT_SIZE)

static inline size_t plugin_struct_size(const struct plugin *p, size_t known)
{
    return p->api->pjrt_api_version.minor_version > PJRT_API_MINOR ? known + PJRT_ROOM_BYTES : known;
}

// A function is there when its slot lies inside the plugin's table and is filled.
#define PJRT_HAS(plugin, function)                                                                                     \
    (offsetof(PJRT_Api, function) + sizeof(void *) <= (plugin)->api->struct_size && (plugin)->api->function != NULL)

// Calls a function: 0, or ERR_DEVICE with the plugin's message, or naming the function when the plugin lacks it.
#define PJRT_CALL(plugin, function, args, err)                                                                         \
    (PJRT_HAS(plugin, function) ? plugin_check((plugin), (plugin)->api->function(args), #function, NULL, (err))        \
                                : plugin_lacks((plugin), #function, (err)))
// The same for what a plugin need not offer: missing or UNIMPLEMENTED is 0 with *offered false.
#define PJRT_TRY(plugin, function, args, offered, err)                                                                 \
    (*(offered) = PJRT_HAS(plugin, function),                                                                          \
     *(offered) ? plugin_check((plugin), (plugin)->api->function(args), #function, (offered), (err)) : 0)
// For the release of objects, which has no one to report to.
#define PJRT_DESTROY(plugin, function, args)                                                                           \
    (PJRT_HAS(plugin, function) ? plugin_check((plugin), (plugin)->api->function(args), #function, NULL, NULL) : 0)

// Takes the plugin's error object (NULL is success), destroys it. With `offered`, UNIMPLEMENTED is 0 and sets it false.
int plugin_check(const struct plugin *p, PJRT_Error *error, const char *function, bool *offered, struct error *err);
int plugin_lacks(const struct plugin *p, const char *function, struct error *err);
// The extension of that type, or NULL.
const PJRT_Extension_Base *plugin_extension(const struct plugin *p, PJRT_Extension_Type type);

// Waits for the event and destroys it.
int event_await(const struct plugin *p, PJRT_Event *event, const char *function, struct error *err);

// Counts objects that a plugin made for us (+1) and that we gave back (-1).
void pjrt_live_add(long n);

// Copies the plugin's values; a value of a type that is not known is an error.
int attributes_copy(struct arena *a, struct attributes *out, const PJRT_NamedValue *values, size_t count,
                    struct error *err);

// What a plugin takes as options of a client or a topology. Texts and lists stay the caller's.
PJRT_NamedValue attribute_value(const struct attribute *a);
// Fills `out` from the plugin's description of a device (all but what only a client knows: local_hardware_id is -1).
int device_describe(const struct plugin *p, PJRT_DeviceDescription *description, struct arena *a,
                    struct device_info *out, struct error *err);

struct client {
    struct plugin *plugin;
    PJRT_Client *client;
    PJRT_Device *const *addressable; // [info.addressable_count], owned by the client
    struct arena arena;
    struct client_info info;
};

struct topology {
    struct plugin *plugin;
    PJRT_TopologyDescription *topology;
    struct arena arena;
    struct topology_info info;
};

struct program {
    struct plugin *plugin;
    struct client *client;         // NULL: compiled for a topology, cannot run
    PJRT_LoadedExecutable *loaded; // NULL as well then
    PJRT_Executable *executable;
    size_t *devices; // [info.device_count]: indices of addressable devices
    struct array_type *parameters;
    size_t parameter_count;
    bool check_parameters;
    struct arena arena;
    struct program_info info;
    struct attributes cost;
    bool cost_copied;
};

struct buffer {
    struct client *client;
    PJRT_Buffer *buffer;
    PJRT_Event *host_done; // of a zero-copy upload: the caller's memory is no longer used; NULL otherwise
    struct array_type type;
    size_t device;
    bool aliased;
};

// Fills program->info and what launches need, after compilation.
int program_describe(struct program *p, struct error *err);
// Counts and options that XLA would only find out by a failed CHECK, which ends the process; `have` devices are there.
int compile_options_check(const struct compile_options *options, size_t have, struct error *err);

#endif

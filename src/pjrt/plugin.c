// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "pjrt/api.h"

#define MAX_EXTENSIONS 256 // a chain that is longer is taken for a loop

static atomic_long live;

long pjrt_live_objects(void)
{
    return atomic_load(&live);
}

void pjrt_live_add(long n)
{
    atomic_fetch_add(&live, n);
}

// ---- errors ----

static const char *status_name(PJRT_Error_Code code)
{
    static const char *const names[] = {
        "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED",
    };
    return (size_t)code < sizeof names / sizeof *names ? names[code] : "an unknown status";
}

int plugin_check(const struct plugin *p, PJRT_Error *error, const char *function, bool *offered, struct error *err)
{
    if (!error)
        return 0;
    pjrt_live_add(1);
    PJRT_ARGS(p, PJRT_Error_GetCode_Args, code);
    code->error = error;
    code->code = PJRT_Error_Code_UNKNOWN;
    PJRT_Error *nested = p->api->PJRT_Error_GetCode(code);
    PJRT_ARGS(p, PJRT_Error_Destroy_Args, destroy);
    if (nested) {
        destroy->error = nested;
        p->api->PJRT_Error_Destroy(destroy);
    }
    int rc = 0;
    if (offered && code->code == PJRT_Error_Code_UNIMPLEMENTED) {
        *offered = false;
    } else {
        PJRT_ARGS(p, PJRT_Error_Message_Args, message);
        message->error = error;
        p->api->PJRT_Error_Message(message);
        // The places in XLA's sources that may follow are for its authors.
        const char *text = message->message ? message->message : "";
        size_t n = message->message ? message->message_size : 0;
        const char *trace = memmem(text, n, "=== Source Location", 19);
        n = trace ? (size_t)(trace - text) : n;
        while (n > 0 && isspace((unsigned char)text[n - 1]))
            n--;
        bool memory = code->code == PJRT_Error_Code_RESOURCE_EXHAUSTED;
        rc = error_set(err, ERR_DEVICE, function, "%s%s: %.*s", memory ? "out of memory on the device: " : "",
                       status_name(code->code), n > 4096 ? 4096 : (int)n, text);
    }
    destroy->error = error;
    p->api->PJRT_Error_Destroy(destroy);
    pjrt_live_add(-1);
    return rc;
}

int plugin_lacks(const struct plugin *p, const char *function, struct error *err)
{
    return error_set(err, ERR_DEVICE, p->info.path,
                     "the plugin has no %s: its PJRT API is %d.%d, this program was built with %d.%d; a newer plugin "
                     "may have it",
                     function, p->info.api_major, p->info.api_minor, p->info.known_major, p->info.known_minor);
}

int event_await(const struct plugin *p, PJRT_Event *event, const char *function, struct error *err)
{
    PJRT_ARGS(p, PJRT_Event_Await_Args, await);
    await->event = event;
    int rc;
    if (PJRT_HAS(p, PJRT_Event_Await))
        rc = plugin_check(p, p->api->PJRT_Event_Await(await), function, NULL, err);
    else
        rc = plugin_lacks(p, "PJRT_Event_Await", err);
    PJRT_ARGS(p, PJRT_Event_Destroy_Args, destroy);
    destroy->event = event;
    PJRT_DESTROY(p, PJRT_Event_Destroy, destroy);
    pjrt_live_add(-1);
    return rc;
}

// ---- what a plugin has ----

// Every function this layer calls beside those of PJRT_Error, in the order of use.
#define FUNCTIONS(X)                                                                                                   \
    X(PJRT_Plugin_Initialize)                                                                                          \
    X(PJRT_Plugin_Attributes)                                                                                          \
    X(PJRT_Event_Await)                                                                                                \
    X(PJRT_Event_Destroy)                                                                                              \
    X(PJRT_Client_Create)                                                                                              \
    X(PJRT_Client_Destroy)                                                                                             \
    X(PJRT_Client_PlatformName)                                                                                        \
    X(PJRT_Client_PlatformVersion)                                                                                     \
    X(PJRT_Client_ProcessIndex)                                                                                        \
    X(PJRT_Client_Devices)                                                                                             \
    X(PJRT_Client_AddressableDevices)                                                                                  \
    X(PJRT_Client_TopologyDescription)                                                                                 \
    X(PJRT_TopologyDescription_Attributes)                                                                             \
    X(PJRT_TopologyDescription_Create)                                                                                 \
    X(PJRT_TopologyDescription_Destroy)                                                                                \
    X(PJRT_TopologyDescription_PlatformName)                                                                           \
    X(PJRT_TopologyDescription_PlatformVersion)                                                                        \
    X(PJRT_TopologyDescription_GetDeviceDescriptions)                                                                  \
    X(PJRT_Compile)                                                                                                    \
    X(PJRT_Device_GetDescription)                                                                                      \
    X(PJRT_Device_LocalHardwareId)                                                                                     \
    X(PJRT_Device_MemoryStats)                                                                                         \
    X(PJRT_DeviceDescription_Id)                                                                                       \
    X(PJRT_DeviceDescription_ProcessIndex)                                                                             \
    X(PJRT_DeviceDescription_Kind)                                                                                     \
    X(PJRT_DeviceDescription_DebugString)                                                                              \
    X(PJRT_DeviceDescription_Attributes)                                                                               \
    X(PJRT_Client_Compile)                                                                                             \
    X(PJRT_LoadedExecutable_Destroy)                                                                                   \
    X(PJRT_LoadedExecutable_GetExecutable)                                                                             \
    X(PJRT_LoadedExecutable_AddressableDevices)                                                                        \
    X(PJRT_LoadedExecutable_Execute)                                                                                   \
    X(PJRT_Executable_Destroy)                                                                                         \
    X(PJRT_Executable_Name)                                                                                            \
    X(PJRT_Executable_NumReplicas)                                                                                     \
    X(PJRT_Executable_NumPartitions)                                                                                   \
    X(PJRT_Executable_NumOutputs)                                                                                      \
    X(PJRT_Executable_OutputElementTypes)                                                                              \
    X(PJRT_Executable_OutputDimensions)                                                                                \
    X(PJRT_Executable_Fingerprint)                                                                                     \
    X(PJRT_Executable_GetCompiledMemoryStats)                                                                          \
    X(PJRT_Executable_GetCostAnalysis)                                                                                 \
    X(PJRT_Executable_OptimizedProgram)                                                                                \
    X(PJRT_Executable_Serialize)                                                                                       \
    X(PJRT_Client_BufferFromHostBuffer)                                                                                \
    X(PJRT_Buffer_Destroy)                                                                                             \
    X(PJRT_Buffer_ElementType)                                                                                         \
    X(PJRT_Buffer_Dimensions)                                                                                          \
    X(PJRT_Buffer_GetMemoryLayout)                                                                                     \
    X(PJRT_Buffer_ToHostBuffer)                                                                                        \
    X(PJRT_Buffer_ReadyEvent)                                                                                          \
    X(PJRT_Buffer_OnDeviceSizeInBytes)                                                                                 \
    X(PJRT_Buffer_UnsafePointer)

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define ROW(function) {#function, offsetof(PJRT_Api, function)},
    FUNCTIONS(ROW)
#undef ROW
};
#define FUNCTION_COUNT (sizeof functions / sizeof *functions)

static bool has_slot(const struct plugin *p, size_t offset)
{
    const void *slot;
    if (offset + sizeof slot > p->api->struct_size)
        return false;
    memcpy(&slot, (const char *)p->api + offset, sizeof slot);
    return slot != NULL;
}

bool plugin_offers(const struct plugin *p, const char *function)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (strcmp(functions[i].name, function) == 0)
            return has_slot(p, functions[i].offset);
    return false;
}

static int list_missing(struct plugin *p, struct error *err)
{
    const char **missing = arena_new(&p->arena, const char *, FUNCTION_COUNT, err);
    if (!missing)
        return ERR_MEMORY;
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (!has_slot(p, functions[i].offset))
            missing[p->info.missing_count++] = functions[i].name;
    p->info.missing = missing;
    return 0;
}

static const char *const extension_names[] = {
    [PJRT_Extension_Type_Gpu_Custom_Call] = "Gpu_Custom_Call",
    [PJRT_Extension_Type_Profiler] = "Profiler",
    [PJRT_Extension_Type_Custom_Partitioner] = "Custom_Partitioner",
    [PJRT_Extension_Type_Stream] = "Stream",
    [PJRT_Extension_Type_Layouts] = "Layouts",
    [PJRT_Extension_Type_FFI] = "FFI",
    [PJRT_Extension_Type_MemoryDescriptions] = "MemoryDescriptions",
    [PJRT_Extension_Type_Triton] = "Triton",
    [PJRT_Extension_Type_RawBuffer] = "RawBuffer",
    [PJRT_Extension_Type_PhaseCompile] = "PhaseCompile",
    [PJRT_Extension_Type_Example] = "Example",
    [PJRT_Extension_Type_Unknown] = "Unknown",
    [PJRT_Extension_Type_CrossHostTransfers] = "CrossHostTransfers",
    [PJRT_Extension_Type_ExecutableMetadata] = "ExecutableMetadata",
    [PJRT_Extension_Type_Callback] = "Callback",
    [PJRT_Extension_Type_HostAllocator] = "HostAllocator",
    [PJRT_Extension_Type_TpuTopology] = "TpuTopology",
    [PJRT_Extension_Type_TpuExecutable] = "TpuExecutable",
    [PJRT_Extension_Type_Megascale] = "Megascale",
    [PJRT_Extension_Type_Shardings] = "Shardings",
    [PJRT_Extension_Type_AbiVersion] = "AbiVersion",
    [PJRT_Extension_Type_Collectives] = "Collectives",
    [PJRT_Extension_Type_MultiSlice] = "MultiSlice",
    [PJRT_Extension_Type_HostMemoryAllocator] = "HostMemoryAllocator",
    [PJRT_Extension_Type_XlaTransform] = "XlaTransform",
};

const PJRT_Extension_Base *plugin_extension(const struct plugin *p, PJRT_Extension_Type type)
{
    const PJRT_Extension_Base *e = p->api->extension_start;
    for (int i = 0; e && i < MAX_EXTENSIONS; i++, e = e->next)
        if (e->type == type)
            return e;
    return NULL;
}

static int list_extensions(struct plugin *p, struct error *err)
{
    size_t n = 0;
    const PJRT_Extension_Base *e;
    for (e = p->api->extension_start; e && n < MAX_EXTENSIONS; e = e->next)
        n++;
    if (e)
        return error_set(err, ERR_DEVICE, p->info.path, "the plugin's list of extensions does not end");
    struct plugin_extension *list = arena_new(&p->arena, struct plugin_extension, n, err);
    if (!list)
        return ERR_MEMORY;
    p->info.extensions = list;
    p->info.extension_count = n;
    for (e = p->api->extension_start; e; e = e->next, list++) {
        list->type = (int)e->type;
        if ((size_t)e->type < sizeof extension_names / sizeof *extension_names)
            list->name = extension_names[e->type];
        else
            list->name = arena_printf(&p->arena, err, "type %d", (int)e->type);
        if (!list->name)
            return ERR_MEMORY;
    }
    return 0;
}

// ---- loading ----

// Plugins that were initialised in this process; they stay so.
struct initialised {
    const PJRT_Api *api;
    struct initialised *next;
};
static struct initialised *initialised_plugins;
static pthread_mutex_t initialised_lock = PTHREAD_MUTEX_INITIALIZER;

static int initialise_once(struct plugin *p, struct error *err)
{
    int rc = 0;
    pthread_mutex_lock(&initialised_lock);
    const struct initialised *i = initialised_plugins;
    while (i && i->api != p->api)
        i = i->next;
    if (!i) {
        PJRT_ARGS(p, PJRT_Plugin_Initialize_Args, args);
        rc = PJRT_CALL(p, PJRT_Plugin_Initialize, args, err);
        struct initialised *entry = rc ? NULL : malloc(sizeof *entry);
        if (entry) {
            *entry = (struct initialised){p->api, initialised_plugins};
            initialised_plugins = entry;
        } else if (!rc) {
            rc = error_set(err, ERR_MEMORY, p->info.path, "no memory for the plugin's record");
        }
    }
    pthread_mutex_unlock(&initialised_lock);
    return rc;
}

// Finds the function table and checks that it is one this layer can read.
static int open_library(struct plugin *p, struct error *err)
{
    const char *path = p->info.path;
    if (access(path, F_OK) != 0)
        return error_set(err, ERR_DEVICE, path, "there is no plugin at this path");
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0); // XLA reads it while it is being loaded
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return error_set(err, ERR_DEVICE, path, "cannot be loaded as a plugin: %s", dlerror());
    const PJRT_Api *(*get_api)(void);
    void *symbol = dlsym(library, "GetPjrtApi");
    memcpy(&get_api, &symbol, sizeof get_api);
    if (!get_api)
        return error_set(err, ERR_DEVICE, path, "is a shared library but not a PJRT plugin: it has no GetPjrtApi");
    p->api = get_api();
    if (!p->api)
        return error_set(err, ERR_DEVICE, path, "GetPjrtApi gives no function table");
    size_t least = offsetof(PJRT_Api, PJRT_Error_Destroy);
    if (p->api->struct_size < least)
        return error_set(err, ERR_DEVICE, path,
                         "the plugin's function table has %zu bytes, too few to hold its version (%zu)",
                         p->api->struct_size, least);
    const PJRT_Api_Version *version = &p->api->pjrt_api_version;
    p->info.api_major = version->major_version;
    p->info.api_minor = version->minor_version;
    if (version->major_version != PJRT_API_MAJOR)
        return error_set(err, ERR_DEVICE, path,
                         "the plugin's PJRT API is %d.%d, this program speaks %d.x; use a plugin of that major version",
                         version->major_version, version->minor_version, PJRT_API_MAJOR);
    if (!PJRT_HAS(p, PJRT_Error_Destroy) || !PJRT_HAS(p, PJRT_Error_Message) || !PJRT_HAS(p, PJRT_Error_GetCode))
        return error_set(err, ERR_DEVICE, path,
                         "the plugin's function table (%zu bytes, PJRT API %d.%d) lacks the functions of PJRT_Error",
                         p->api->struct_size, version->major_version, version->minor_version);
    return 0;
}

static int read_attributes(struct plugin *p, struct error *err)
{
    PJRT_ARGS(p, PJRT_Plugin_Attributes_Args, args);
    bool offered;
    int rc = PJRT_TRY(p, PJRT_Plugin_Attributes, args, &offered, err);
    if (rc || !offered)
        return rc;
    return attributes_copy(&p->arena, &p->info.attributes, args->attributes, args->num_attributes, err);
}

int plugin_load(struct plugin **out, const char *path, struct error *err)
{
    *out = NULL;
    struct plugin *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, ERR_MEMORY, path, "no memory for the plugin's record");
    arena_init(&p->arena);
    p->info.known_major = PJRT_API_MAJOR;
    p->info.known_minor = PJRT_API_MINOR;
    // A bare name would be searched for among the system's libraries.
    p->info.path = arena_printf(&p->arena, err, "%s%s", strchr(path, '/') ? "" : "./", path);
    int rc = p->info.path ? 0 : ERR_MEMORY;
    if (!rc)
        rc = open_library(p, err);
    if (!rc)
        rc = list_missing(p, err);
    if (!rc)
        rc = list_extensions(p, err);
    if (!rc)
        rc = initialise_once(p, err);
    if (!rc)
        rc = read_attributes(p, err);
    if (rc) {
        plugin_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void plugin_free(struct plugin *p)
{
    if (!p)
        return;
    arena_release(&p->arena);
    free(p);
}

const struct plugin_info *plugin_info(const struct plugin *p)
{
    return &p->info;
}

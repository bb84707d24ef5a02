// SPDX-License-Identifier: Apache-2.0
// clang-format off (the table below)
// A plugin that misbehaves on request, for tests: the real CPU plugin (environment ASSAY_FAULT_PLUGIN, else the one the
// build knows) with some functions replaced. ASSAY_FAULT, read when the function table is asked for, is one of
//   wrong-major      another major version of the API
//   small-table      a function table too small to hold its version
//   no-errors        a function table that ends before the functions of PJRT_Error
//   endless-list     a list of extensions that is a loop
//   older            a function table that ends where PJRT API 0.30 ended, with PJRT_Client_TopologyDescription
//   newer            a later minor version, whose structs have grown
//   no-memory-stats  PJRT_Executable_GetCompiledMemoryStats is a null pointer
//   no-optimized     PJRT_Executable_OptimizedProgram is a null pointer
//   no-options       the client refuses every option, as plugins did before they had any
//   abort-create     abort() with a message on stderr, while the client is made
//   hang-create      never returns
//   abort-compile    abort() with two lines on stderr
//   exit-compile     exit(7)
//   hang-compile     never returns
//   oom-compile      a RESOURCE_EXHAUSTED error object
//   error-compile    an INTERNAL error object with a message of 5000 characters
//   no-dump          compiles without the options that it was given, so it dumps nothing
//   shrink-compile   cuts the file ASSAY_FAULT_FILE to one page, then compiles as it should
//   abort-dump       abort(), for a compilation that writes a dump
//   error-dump       an INVALID_ARGUMENT error object, for such a one
//   crash-execute    SIGSEGV
//   kill-execute     SIGKILL
//   hang-execute     never returns
//   shrink-execute   cuts the file ASSAY_FAULT_FILE to one page, then executes as it should
//   error-execute    an INTERNAL error object
//   error-await      every wait for an event answers with an ABORTED error object
//   oom-buffer       a RESOURCE_EXHAUSTED error object for every upload
//   profiler         a profiler that records how often programs ran, as an XSpace, in the plugin's memory, counted one
//                    byte too long
//   profiler-newer   the same by way of consume and serialize
//   profiler-caller  the same into the caller's memory
//   profiler-empty   a profiler that records nothing
//   profiler-refuses one that does not start
//   profiler-small   one whose function table ends before collect_data
// clang-format on
//
// What concerns programs can be narrowed. ASSAY_FAULT_TEXT: only programs whose text holds it, and the processes that
// compiled one (a policy's worker has one policy). ASSAY_FAULT_AFTER: only after so many executions.
// ASSAY_FAULT_ONES=1, whatever the fault: programs in StableHLO text return ones, which compiles at once; for tests of
// all but the numbers. Without them it behaves. Independently of the caller it counts the objects it handed out:
// faulty_live.
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xla/backends/profiler/plugin/profiler_c_api.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

long faulty_live(void);
const PJRT_Api *GetPjrtApi(void);

static const PJRT_Api *real;
static const char *fault = "", *fault_text = "";
static long fault_after;
static bool returns_ones;
static atomic_long live, executions;
static atomic_bool marked; // a program that holds fault_text was compiled

// Clients, executables, buffers and events handed out and not yet given back, and our own error objects.
long faulty_live(void)
{
    return atomic_load(&live);
}

static bool is(const char *name)
{
    return strcmp(fault, name) == 0;
}

static void shrink(void)
{
    if (truncate(getenv("ASSAY_FAULT_FILE"), 4096) != 0)
        abort();
}

static bool is_marked(const char *name)
{
    return is(name) && atomic_load(&marked);
}

static bool is_due(const char *name)
{
    return is_marked(name) && atomic_load(&executions) > fault_after;
}

static _Noreturn void hang(void)
{
    for (;;)
        pause();
}

// ---- error objects of our own, told from the real plugin's by their first field ----

struct our_error {
    const void *mark;
    PJRT_Error_Code code;
    char message[5120];
};

static PJRT_Error *make_error(PJRT_Error_Code code, const char *message)
{
    struct our_error *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->mark = &real;
    e->code = code;
    snprintf(e->message, sizeof e->message, "%s", message);
    atomic_fetch_add(&live, 1);
    return (PJRT_Error *)e;
}

static struct our_error *ours(const PJRT_Error *error)
{
    struct our_error *e = (struct our_error *)error;
    return e && e->mark == &real ? e : NULL;
}

static void error_destroy(PJRT_Error_Destroy_Args *args)
{
    struct our_error *e = ours(args->error);
    if (!e) {
        real->PJRT_Error_Destroy(args);
        return;
    }
    free(e);
    atomic_fetch_sub(&live, 1);
}

static void error_message(PJRT_Error_Message_Args *args)
{
    const struct our_error *e = ours(args->error);
    if (!e) {
        real->PJRT_Error_Message(args);
        return;
    }
    args->message = e->message;
    args->message_size = strlen(e->message);
}

static PJRT_Error *error_get_code(PJRT_Error_GetCode_Args *args)
{
    const struct our_error *e = ours(args->error);
    if (!e)
        return real->PJRT_Error_GetCode(args);
    args->code = e->code;
    return NULL;
}

// ---- functions that misbehave, and count ----

// As a plugin does whose structs grew: the struct must be announced as large enough, and the new field be empty.
static PJRT_Error *refuse_small(const void *args, size_t known)
{
    size_t announced, field;
    memcpy(&announced, args, sizeof announced);
    if (!is("newer"))
        return NULL;
    if (announced < known + sizeof field)
        return make_error(PJRT_Error_Code_INVALID_ARGUMENT, "faulty plugin: the argument struct is too small");
    memcpy(&field, (const char *)args + known, sizeof field);
    return field ? make_error(PJRT_Error_Code_INVALID_ARGUMENT, "faulty plugin: the new field is not empty") : NULL;
}

static PJRT_Error *counted(PJRT_Error *error, long objects)
{
    if (!error)
        atomic_fetch_add(&live, objects);
    return error;
}

static PJRT_Error *client_create(PJRT_Client_Create_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_Client_Create_Args_STRUCT_SIZE);
    if (refused)
        return refused;
    if (is("abort-create")) {
        fprintf(stderr, "faulty plugin: no client today\n");
        abort();
    }
    if (is("hang-create"))
        hang();
    if (is("no-options") && args->num_options > 0)
        return make_error(PJRT_Error_Code_INVALID_ARGUMENT, "faulty plugin: options are not known");
    return counted(real->PJRT_Client_Create(args), 1);
}

static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *args)
{
    return counted(real->PJRT_Client_Destroy(args), -1);
}

// A program of the same signature that returns ones, malloc'd; NULL where the text's main is not found.
static char *make_ones(const char *text, size_t size, size_t *ones_size)
{
    char *copy = strndup(text, size), *ones = NULL;
    char *main_at = copy ? strstr(copy, "@main(") : NULL, *types = main_at ? strstr(main_at, "-> (") : NULL;
    char *end = types ? strstr(types, ") {") : NULL;
    FILE *out = end ? open_memstream(&ones, ones_size) : NULL;
    if (!out) {
        free(copy);
        return NULL;
    }
    *end = '\0';
    types += strlen("-> (");
    fprintf(out, "%s) {\n", copy);
    int n = 0;
    for (const char *type = types; (type = strstr(type, "tensor<")); type++) {
        int length = (int)strcspn(type, ">") + 1;
        const char *element = type + length - 1;
        while (element[-1] != 'x' && element[-1] != '<')
            element--;
        const char *one = *element == 'f' || *element == 'b' ? "1.0" : "1";
        fprintf(out, "%%one%d = \"stablehlo.constant\"() {value = dense<%s> : %.*s} : () -> %.*s\n", n++, one, length,
                type, length, type);
    }
    fprintf(out, "\"func.return\"(");
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%%one%d", i ? ", " : "", i);
    fprintf(out, ") : (%s) -> ()\n}}\n", types);
    fclose(out);
    free(copy);
    return ones;
}

static PJRT_Error *compile_ones(PJRT_Client_Compile_Args *args)
{
    const PJRT_Program *asked = args->program;
    PJRT_Program program = *asked;
    char *ones = make_ones(asked->code, asked->code_size, &program.code_size);
    if (!ones)
        return make_error(PJRT_Error_Code_INVALID_ARGUMENT, "faulty plugin: no main in the program");
    program.code = ones;
    args->program = &program;
    PJRT_Error *error = real->PJRT_Client_Compile(args);
    args->program = asked;
    free(ones);
    return error;
}

static PJRT_Error *client_compile(PJRT_Client_Compile_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_Client_Compile_Args_STRUCT_SIZE);
    if (!refused)
        refused = refuse_small(args->program, PJRT_Program_STRUCT_SIZE);
    if (refused)
        return refused;
    const PJRT_Program *program = args->program;
    if (!*fault_text || memmem(program->code, program->code_size, fault_text, strlen(fault_text)))
        atomic_store(&marked, true);
    if (is_marked("abort-compile")) {
        fprintf(stderr, "faulty plugin: about to fail\nfaulty plugin: Check failed: compiler is well\n");
        abort();
    }
    if (is_marked("exit-compile"))
        exit(7);
    if (is_marked("hang-compile"))
        hang();
    // Not the whole name of the option: a file that holds that is taken for a plugin that lists the flags it knows.
    bool dumps = memmem(args->compile_options, args->compile_options_size, "_dump_to", 8) != NULL;
    if (dumps && is_marked("abort-dump")) {
        fprintf(stderr, "faulty plugin: Check failed: dump is well\n");
        abort();
    }
    if (dumps && is_marked("error-dump"))
        return make_error(PJRT_Error_Code_INVALID_ARGUMENT, "faulty plugin: No such compile option");
    if (is_marked("shrink-compile"))
        shrink();
    if (is_marked("oom-compile"))
        return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "faulty plugin: 16.08G of 15.75G hbm");
    if (is_marked("error-compile")) {
        char text[5001];
        memset(text, 'x', 5000);
        text[5000] = 0;
        return make_error(PJRT_Error_Code_INTERNAL, text);
    }
    if (is_marked("no-dump")) { // one replica, one partition, and nothing else
        args->compile_options = "\x1a\x04\x20\x01\x28\x01";
        args->compile_options_size = 6;
    }
    return counted(returns_ones ? compile_ones(args) : real->PJRT_Client_Compile(args), 1);
}

static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *args)
{
    return counted(real->PJRT_LoadedExecutable_Destroy(args), -1);
}

static PJRT_Error *get_executable(PJRT_LoadedExecutable_GetExecutable_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE);
    if (refused)
        return refused;
    return counted(real->PJRT_LoadedExecutable_GetExecutable(args), 1);
}

static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *args)
{
    return counted(real->PJRT_Executable_Destroy(args), -1);
}

static long output_count(PJRT_LoadedExecutable *loaded)
{
    struct {
        PJRT_LoadedExecutable_GetExecutable_Args args;
        char room[64];
    } get = {.args = {.struct_size = sizeof get, .loaded_executable = loaded}};
    if (real->PJRT_LoadedExecutable_GetExecutable(&get.args))
        abort();
    struct {
        PJRT_Executable_NumOutputs_Args args;
        char room[64];
    } count = {.args = {.struct_size = sizeof count, .executable = get.args.executable}};
    if (real->PJRT_Executable_NumOutputs(&count.args))
        abort();
    struct {
        PJRT_Executable_Destroy_Args args;
        char room[64];
    } destroy = {.args = {.struct_size = sizeof destroy, .executable = get.args.executable}};
    if (real->PJRT_Executable_Destroy(&destroy.args))
        abort();
    return (long)count.args.num_outputs;
}

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE);
    if (!refused)
        refused = refuse_small(args->options, PJRT_ExecuteOptions_STRUCT_SIZE);
    if (refused)
        return refused;
    atomic_fetch_add(&executions, 1);
    if (is_due("crash-execute"))
        raise(SIGSEGV);
    if (is_due("kill-execute"))
        kill(getpid(), SIGKILL);
    if (is_due("hang-execute"))
        hang();
    if (is_due("shrink-execute"))
        shrink();
    if (is_due("error-execute"))
        return make_error(PJRT_Error_Code_INTERNAL, "faulty plugin: the device fell over");
    long per_device = output_count(args->executable) + (args->device_complete_events ? 1 : 0);
    return counted(real->PJRT_LoadedExecutable_Execute(args), (long)args->num_devices * per_device);
}

static PJRT_Error *from_host(PJRT_Client_BufferFromHostBuffer_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE);
    if (refused)
        return refused;
    if (is_marked("oom-buffer"))
        return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "faulty plugin: no room for the buffer");
    PJRT_Error *error = real->PJRT_Client_BufferFromHostBuffer(args);
    return counted(error, !error && args->done_with_host_buffer ? 2 : 1);
}

static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE);
    if (refused)
        return refused;
    args->event = NULL;
    PJRT_Error *error = real->PJRT_Buffer_ToHostBuffer(args);
    return counted(error, !error && args->event ? 1 : 0);
}

static PJRT_Error *ready_event(PJRT_Buffer_ReadyEvent_Args *args)
{
    return counted(real->PJRT_Buffer_ReadyEvent(args), 1);
}

static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *args)
{
    return counted(real->PJRT_Buffer_Destroy(args), -1);
}

static PJRT_Error *event_await(PJRT_Event_Await_Args *args)
{
    PJRT_Error *refused = refuse_small(args, PJRT_Event_Await_Args_STRUCT_SIZE);
    if (refused)
        return refused;
    PJRT_Error *error = real->PJRT_Event_Await(args);
    if (is_due("error-await") && !error)
        return make_error(PJRT_Error_Code_ABORTED, "faulty plugin: the event went wrong");
    return error;
}

static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *args)
{
    return counted(real->PJRT_Event_Destroy(args), -1);
}

// ---- a profiler ----

static long profiled_from; // executions when it was started
static uint8_t profile[80];
static size_t profile_size;

static PLUGIN_Profiler_Error *profiler_error(const char *message)
{
    return (PLUGIN_Profiler_Error *)make_error(PJRT_Error_Code_INTERNAL, message);
}

static void profiler_error_destroy(PLUGIN_Profiler_Error_Destroy_Args *args)
{
    free(args->error);
    atomic_fetch_sub(&live, 1);
}

static void profiler_error_message(PLUGIN_Profiler_Error_Message_Args *args)
{
    const struct our_error *e = (const struct our_error *)args->error;
    args->message = e->message;
    args->message_size = strlen(e->message);
}

static PLUGIN_Profiler_Error *profiler_error_code(PLUGIN_Profiler_Error_GetCode_Args *args)
{
    args->code = PJRT_Error_Code_INTERNAL;
    return NULL;
}

static PLUGIN_Profiler_Error *profiler_create(PLUGIN_Profiler_Create_Args *args)
{
    if (!args->options_size)
        return profiler_error("faulty plugin: a profiler needs options");
    args->profiler = (PLUGIN_Profiler *)profile;
    atomic_fetch_add(&live, 1);
    return NULL;
}

static PLUGIN_Profiler_Error *profiler_destroy(PLUGIN_Profiler_Destroy_Args *args)
{
    (void)args;
    atomic_fetch_sub(&live, 1);
    return NULL;
}

static PLUGIN_Profiler_Error *profiler_start(PLUGIN_Profiler_Start_Args *args)
{
    (void)args;
    if (is("profiler-refuses"))
        return profiler_error("faulty plugin: Failed to start TraceMeRecorder");
    profiled_from = atomic_load(&executions);
    return NULL;
}

// {plane {name "/device:TPU:0" line {name "XLA Ops" event {duration_ps 2}...}}}: an event for each execution, at
// most 9.
static PLUGIN_Profiler_Error *profiler_stop(PLUGIN_Profiler_Stop_Args *args)
{
    (void)args;
    long runs = atomic_load(&executions) - profiled_from;
    uint8_t n = (uint8_t)(is("profiler-empty") ? 0 : runs > 9 ? 9 : runs);
    uint8_t *at = profile, line = (uint8_t)(9 + 4 * n);
    *at++ = 0x0a;
    *at++ = (uint8_t)(15 + 2 + line);
    memcpy(at, "\x12\x0d/device:TPU:0\x1a", 16);
    at += 16;
    *at++ = line;
    memcpy(at, "\x12\x07XLA Ops", 9);
    at += 9;
    for (int i = 0; i < n; i++, at += 4)
        memcpy(at, "\x22\x02\x18\x02", 4);
    profile_size = (size_t)(at - profile);
    return NULL;
}

static PLUGIN_Profiler_Error *profiler_collect(PLUGIN_Profiler_CollectData_Args *args)
{
    if (!is("profiler-caller")) {
        args->buffer = profile;
        args->buffer_size_in_bytes = profile_size + 1;
    } else if (args->buffer) {
        memcpy(args->buffer, profile, profile_size);
    } else {
        args->buffer_size_in_bytes = profile_size;
    }
    return NULL;
}

static PLUGIN_Profiler_Error *profiler_consume(PLUGIN_Profiler_Consume_Args *args)
{
    args->result = (PLUGIN_Profiler_ConsumeResult *)&profile_size;
    atomic_fetch_add(&live, 1);
    return NULL;
}

static void profiler_consumed_destroy(PLUGIN_Profiler_ConsumeResult_Destroy_Args *args)
{
    (void)args;
    atomic_fetch_sub(&live, 1);
}

static PLUGIN_Profiler_Error *profiler_serialize(PLUGIN_Profiler_Serialize_Args *args)
{
    args->serialized_bytes = profile;
    args->serialized_size = profile_size;
    return NULL;
}

// The extension, in front of the real plugin's own.
static PJRT_Extension_Base *profiler_extension(void)
{
    static PLUGIN_Profiler_Api api = {.error_destroy = profiler_error_destroy,
                                      .error_message = profiler_error_message,
                                      .error_get_code = profiler_error_code,
                                      .create = profiler_create,
                                      .destroy = profiler_destroy,
                                      .start = profiler_start,
                                      .stop = profiler_stop,
                                      .collect_data = profiler_collect};
    static PJRT_Profiler_Extension extension = {.profiler_api = &api};
    api.struct_size = sizeof api;
    if (is("profiler-newer")) {
        api.consume = profiler_consume;
        api.consume_result_destroy = profiler_consumed_destroy;
        api.serialize = profiler_serialize;
    }
    if (is("profiler-small"))
        api.struct_size = offsetof(PLUGIN_Profiler_Api, collect_data);
    extension.base = (PJRT_Extension_Base){sizeof extension, PJRT_Extension_Type_Profiler, real->extension_start};
    return &extension.base;
}

// ---- the function table ----

static const PJRT_Api *load_real(void)
{
    const char *path = getenv("ASSAY_FAULT_PLUGIN");
    void *library = dlopen(path ? path : REAL_PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library ? dlsym(library, "GetPjrtApi") : NULL;
    if (!symbol) {
        fprintf(stderr, "faulty plugin: %s\n", dlerror());
        return NULL;
    }
    const PJRT_Api *(*get_api)(void);
    memcpy(&get_api, &symbol, sizeof get_api);
    return get_api();
}

const PJRT_Api *GetPjrtApi(void)
{
    static PJRT_Api *table;
    static PJRT_Extension_Base loop = {sizeof loop, PJRT_Extension_Type_Example, &loop};
    fault = getenv("ASSAY_FAULT") ? getenv("ASSAY_FAULT") : "";
    fault_text = getenv("ASSAY_FAULT_TEXT") ? getenv("ASSAY_FAULT_TEXT") : "";
    fault_after = getenv("ASSAY_FAULT_AFTER") ? strtol(getenv("ASSAY_FAULT_AFTER"), NULL, 10) : -1;
    returns_ones = getenv("ASSAY_FAULT_ONES") != NULL;
    atomic_store(&marked, !*fault_text);
    if (!real)
        real = load_real();
    if (!real)
        return NULL;
    if (!table)
        table = calloc(1, real->struct_size + sizeof *table); // the real table may be longer than ours, or shorter
    if (!table)
        return NULL;
    memcpy(table, real, real->struct_size);
    table->PJRT_Error_Destroy = error_destroy;
    table->PJRT_Error_Message = error_message;
    table->PJRT_Error_GetCode = error_get_code;
    table->PJRT_Client_Create = client_create;
    table->PJRT_Client_Destroy = client_destroy;
    table->PJRT_Client_Compile = client_compile;
    table->PJRT_LoadedExecutable_Destroy = loaded_destroy;
    table->PJRT_LoadedExecutable_GetExecutable = get_executable;
    table->PJRT_LoadedExecutable_Execute = execute;
    table->PJRT_Executable_Destroy = executable_destroy;
    table->PJRT_Client_BufferFromHostBuffer = from_host;
    table->PJRT_Buffer_ToHostBuffer = to_host;
    table->PJRT_Buffer_ReadyEvent = ready_event;
    table->PJRT_Buffer_Destroy = buffer_destroy;
    table->PJRT_Event_Await = event_await;
    table->PJRT_Event_Destroy = event_destroy;
    if (strncmp(fault, "profiler", 8) == 0)
        table->extension_start = profiler_extension();
    if (is("wrong-major"))
        table->pjrt_api_version.major_version = PJRT_API_MAJOR + 1;
    if (is("small-table"))
        table->struct_size = 2 * sizeof(size_t);
    if (is("no-errors"))
        table->struct_size = offsetof(PJRT_Api, PJRT_Error_Destroy);
    if (is("endless-list"))
        table->extension_start = &loop;
    if (is("no-memory-stats"))
        table->PJRT_Executable_GetCompiledMemoryStats = NULL;
    if (is("no-optimized"))
        table->PJRT_Executable_OptimizedProgram = NULL;
    if (is("newer"))
        table->pjrt_api_version.minor_version = 999;
    if (is("older")) {
        table->pjrt_api_version.minor_version = 30;
        table->struct_size =
            offsetof(PJRT_Api, PJRT_Client_TopologyDescription) + sizeof table->PJRT_Client_TopologyDescription;
    }
    return table;
}

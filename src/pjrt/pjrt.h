// SPDX-License-Identifier: Apache-2.0
// Driving a PJRT plugin (XLA) inside this process: plugin, client with its devices, program, buffer, launch.
//
// A plugin may abort the process, hang, or take all memory; nothing here can catch that. Programs load plugins only in
// the worker process (worker/), which speaks this interface on behalf of the layers above.
//
// Errors: everything a plugin reports is ERR_DEVICE, with the plugin's own message and status name; a device out of
// memory says "out of memory". A function that the plugin lacks is ERR_DEVICE naming it and both API versions. A call
// that is wrong on our side of the fence (argument count, shapes against a signature, a short destination) is ERR_USAGE
// and never reaches the plugin.
//
// Ownership: `*_new`, `plugin_load`, `program_compile`, `buffer_from_host` and `launch_run` make owners, released by
// the matching `*_free` (NULL is fine) in reverse order: launches and buffers, programs, client, plugin. Strings and
// arrays inside `*_info` belong to their object. Objects are used from one thread at a time.
#ifndef PJRT_PJRT_H
#define PJRT_PJRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "num/dtype.h"

struct plugin;
struct client;
struct program;
struct buffer;
struct launch;

// Objects of plugins that are alive in this process: clients, executables, buffers, events, errors. 0 when everything
// was released.
long pjrt_live_objects(void);

// ---- arrays ----

#define ARRAY_MAX_RANK 16

// Element type and extents of an array, row-major wherever its bytes lie in host memory.
struct array_type {
    enum dtype dtype;
    int rank;
    int64_t dims[ARRAY_MAX_RANK];
};

// Number of elements; false on a negative extent, a rank out of range or overflow.
bool array_type_count(const struct array_type *t, size_t *out);
// Bytes in host memory. Elements narrower than a byte take one byte each there (the plugin packs them on the way in and
// ignores the upper bits; on the way out signed ones are sign-extended), so this is not dtype_bytes for s4, u4, s2, u2,
// f4e2m1fn, f6*. False as above, or for DT_INVALID.
bool array_type_bytes(const struct array_type *t, size_t *out);
bool array_type_equal(const struct array_type *a, const struct array_type *b);
// "bf16[2,3]", as HLO writes it; appended.
void array_type_print(struct str *s, const struct array_type *t);

// ---- named values: plugin attributes, device attributes, client options, cost properties ----

enum attribute_type { ATTRIBUTE_STRING, ATTRIBUTE_INT, ATTRIBUTE_INT_LIST, ATTRIBUTE_FLOAT, ATTRIBUTE_BOOL };

struct attribute {
    const char *name;
    enum attribute_type type;
    const char *string; // ATTRIBUTE_STRING: a C string (bytes after a NUL of the plugin's are cut)
    const int64_t *list;
    size_t list_count;
    int64_t integer; // ATTRIBUTE_INT
    float number;    // ATTRIBUTE_FLOAT
    bool boolean;    // ATTRIBUTE_BOOL
};

struct attributes {
    const struct attribute *items;
    size_t count;
};

// NULL when there is none of that name.
const struct attribute *attributes_find(const struct attributes *a, const char *name);
// The value as text ("3", "[1,2]", "true"), appended; strings as they are (not escaped).
void attribute_print(struct str *s, const struct attribute *a);

// ---- plugin ----

struct plugin_extension {
    int type;         // PJRT_Extension_Type
    const char *name; // "FFI", "Layouts"; "type 99" for one that is not known here
};

struct plugin_info {
    const char *path;
    int api_major, api_minor;     // the plugin's
    int known_major, known_minor; // the headers' that this program was built with
    const struct plugin_extension *extensions;
    size_t extension_count;
    struct attributes attributes; // xla_version, stablehlo_current_version, stablehlo_minimum_version, ...
    const char *const *missing;   // names of the functions this program can use that the plugin lacks
    size_t missing_count;
};

// Loads the shared library and initialises the plugin. Sets TF_CPP_MIN_LOG_LEVEL=2 first unless it is set already.
// The library itself is never unloaded (it owns threads and static registries); loading the same path again is cheap.
// ERR_DEVICE: no such file, not a shared library, no GetPjrtApi in it, another major version, a function table that is
// too small.
int plugin_load(struct plugin **out, const char *path, struct error *err);
void plugin_free(struct plugin *p);
const struct plugin_info *plugin_info(const struct plugin *p);
// Whether a function ("PJRT_Client_Load") is one this layer knows and the plugin has.
bool plugin_offers(const struct plugin *p, const char *function);

// ---- client and devices ----

struct device_info {
    int id;                // unique over all processes
    int local_hardware_id; // -1 when the plugin does not say
    int process_index;     // the process that can address it
    bool addressable;
    const char *kind; // "cpu", "NVIDIA H100 80GB HBM3", "TPU v6 lite"
    const char *debug_string;
    struct attributes attributes;
};

struct client_info {
    const char *platform_name; // "cpu", "cuda", "tpu"
    const char *platform_version;
    int process_index;
    const struct device_info *devices; // all, in the plugin's order
    size_t device_count;
    const size_t *addressable; // indices into `devices`, in the plugin's order
    size_t addressable_count;
    struct attributes topology; // empty where the plugin offers none
};

struct client_options {
    // Devices wanted, 0: as many as the plugin makes by itself. Offered to the plugin as cpu_device_count, which the
    // CPU plugin turns into so many virtual devices; one that does not know the option is started without it. Fewer
    // devices than asked for is an error.
    int device_count;
    const struct attribute *options; // further options, passed on as they are; an unknown one is the plugin's error
    size_t option_count;
};

int client_new(struct client **out, struct plugin *p, const struct client_options *options, struct error *err);
void client_free(struct client *c);
const struct client_info *client_info(const struct client *c);
struct plugin *client_plugin(const struct client *c);

// Memory of a device as its allocator counts it; -1 where the plugin does not say.
struct device_memory {
    int64_t bytes_in_use, peak_bytes_in_use, bytes_limit, bytes_reserved, largest_alloc_bytes, allocation_count;
    int64_t largest_free_block_bytes, pool_bytes, peak_pool_bytes;
};
// `device` counts addressable devices. *offered is false (and the call succeeds, all -1) where the plugin has no such
// statistics for this device (the CPU plugin).
int client_device_memory(struct client *c, size_t device, struct device_memory *out, bool *offered, struct error *err);

// ---- topologies: devices that need not be there ----

struct topology;

struct topology_info {
    const char *platform_name; // "tpu", "cuda"
    const char *platform_version;
    const struct device_info *devices; // none is addressable
    size_t device_count;
    struct attributes attributes;
};

// A slice by the plugin's own name for it ("v6e:2x4"), with options of the plugin's (TPU: chip_config_name,
// chips_per_host_bounds, wrap, num_slices; CUDA: target_config, topology). ERR_DEVICE for one that does not exist, with
// the plugin's message, and for a plugin that has none.
int topology_new(struct topology **out, struct plugin *p, const char *name, const struct attribute *options, size_t n,
                 struct error *err);
void topology_free(struct topology *t);
const struct topology_info *topology_info(const struct topology *t);

// ---- program ----

enum override_type { OVERRIDE_STRING, OVERRIDE_BOOL, OVERRIDE_INT, OVERRIDE_DOUBLE };

// One field of xla.DebugOptions (or, on TPU, one compiler flag) for one compile, by name: "xla_dump_to".
struct compile_override {
    const char *name;
    enum override_type type;
    const char *string;
    bool boolean;
    int64_t integer;
    double number;
};

// All zero is: one device, no partitioning, intermediates rounded to their type after every operation.
struct compile_options {
    int num_replicas;            // 0 is 1
    int num_partitions;          // 0 is 1
    const int *device_ids;       // [num_replicas * num_partitions], replica-major; NULL: the first addressable devices
    bool use_spmd_partitioning;  // partition by the module's shardings; needed with num_partitions > 1
    bool use_shardy;             // read sdy.* shardings; needs use_spmd_partitioning
    bool allow_excess_precision; // true lets the compiler keep bf16 and f16 intermediates wider than their type
    // An unknown name is the plugin's error. On the CPU xla_cpu_enable_fast_min_max is off unless it is given here:
    // with it a maximum may lose a NaN.
    const struct compile_override *overrides;
    size_t override_count;
    // The types of the program's parameters on each device (after partitioning), when the caller knows them: launch_new
    // checks arguments against it. The plugin cannot be asked, and may abort on wrong arguments. Copied.
    const struct array_type *parameters;
    size_t parameter_count;
    bool check_parameters; // parameters and parameter_count are given (a program may have none)
};

// The bytes of CompileOptionsProto for `options` (appended): exposed for tests and records. `default_ids` stands in for
// a NULL device_ids.
void compile_options_encode(struct str *out, const struct compile_options *options, const int *default_ids);

struct program_info {
    const char *name;
    const char *fingerprint; // printable, in hexadecimal where the plugin's own is not; NULL where it offers none
    size_t num_replicas, num_partitions;
    const int *device_ids; // addressable devices it runs on, in the order launches take arguments
    size_t device_count;
    size_t output_count;
    const struct array_type *outputs; // per device; NULL where the plugin cannot be asked
};

// Compiles n bytes of `format`: "mlir" (StableHLO text or bytecode) or "hlo" (serialised HloModuleProto).
int program_compile(struct program **out, struct client *c, const void *code, size_t n, const char *format,
                    const struct compile_options *options, struct error *err);
// The same for devices that are not there: the program can be asked about, not run. It outlives the topology.
// device_ids of the options are ignored.
int program_compile_for(struct program **out, struct topology *t, const void *code, size_t n, const char *format,
                        const struct compile_options *options, struct error *err);
void program_free(struct program *p);
const struct program_info *program_info(const struct program *p);

// What the compiler planned, in bytes per device; -1 where this plugin does not say.
struct program_memory {
    int64_t code, arguments, outputs, aliases, temps; // aliases: arguments reused for outputs
    int64_t host_code, host_arguments, host_outputs, host_aliases, host_temps;
    int64_t peak, total;
    int64_t allocated; // arguments, outputs and temporaries together, without code
};
int program_memory(struct program *p, struct program_memory *out, struct error *err);

// The optimised program (appended) and its format, usually "hlo_with_config" (HloModuleProtoWithConfig).
int program_optimized(struct program *p, struct str *out, char format[32], struct error *err);

// Bytes of the executable as the plugin would store it; -1 where it cannot.
int program_serialized_bytes(struct program *p, int64_t *out, struct error *err);

// The plugin's own cost analysis; *offered is false (and the call succeeds) where it has none.
int program_cost(struct program *p, const struct attributes **out, bool *offered, struct error *err);

// ---- buffers ----

enum host_copy {
    HOST_COPY, // the data is read before the call returns
    // The device may use the caller's memory in place: it must be 64-byte aligned (else ERR_USAGE), stay mapped and
    // unchanged until the buffer is freed. Devices with memory of their own copy.
    HOST_ZERO_COPY,
};

// An array on addressable device `device`, from row-major host data of array_type_bytes(type) bytes. `data` may be NULL
// for an array without elements. Bytes of a pred array must be 0 or 1 (else ERR_USAGE).
int buffer_from_host(struct buffer **out, struct client *c, size_t device, const void *data,
                     const struct array_type *type, enum host_copy copy, struct error *err);
// Waits for the buffer and copies it out row-major, whatever its layout on the device; `bytes` must be exactly
// array_type_bytes of its type.
int buffer_to_host(struct buffer *b, void *dst, size_t bytes, struct error *err);
// Waits until the array is there; the error of the computation that should have made it.
int buffer_await(struct buffer *b, struct error *err);
const struct array_type *buffer_type(const struct buffer *b);
size_t buffer_device(const struct buffer *b); // index of the addressable device it was put on
int buffer_device_bytes(struct buffer *b, size_t *out, struct error *err);
// Whether the device uses the host memory the buffer was made from (false where that cannot be known).
bool buffer_is_aliased(const struct buffer *b);
void buffer_free(struct buffer *b);

// ---- execution ----

// A program with its arguments, prepared once so that running it costs little. `args` is
// [program device_count][arg_count], device-major; the buffers are borrowed and must outlive the launch. Nothing is
// ever donated: arguments are the same after a run. ERR_USAGE names the argument that does not fit the signature.
int launch_new(struct launch **out, struct program *p, struct buffer *const *args, size_t arg_count, struct error *err);
void launch_free(struct launch *l);
// Runs once and waits for all devices. `outputs` is [device_count][output_count], device-major; the caller owns them.
int launch_run(struct launch *l, struct buffer **outputs, struct error *err);
// Runs `count` times, one after the other, each waited for on all devices; outputs are thrown away. ns[i] is the time
// from the call to the last device's completion, without the release of the outputs. *done is the number of runs that
// succeeded, also on failure. `ns` may be NULL (warm-up); `done` may be NULL.
int launch_time(struct launch *l, size_t count, uint64_t *ns, size_t *done, struct error *err);
// launch_new, launch_run and launch_free in one.
int program_execute(struct program *p, struct buffer *const *args, size_t arg_count, struct buffer **outputs,
                    struct error *err);

// ---- profiles ----

// The plugin's own profiler, an extension that the CPU plugin does not have. One may run at a time in a process.
struct profiler;
// Whether there is one with all that a capture needs.
bool profiler_offered(const struct plugin *p);
// Makes it and starts it: host runtime and devices are traced, and the HLO of what runs is kept.
int profiler_start(struct profiler **out, const struct plugin *p, struct error *err);
// Stops it and appends what it recorded, an XSpace; empty when it recorded nothing.
int profiler_collect(struct profiler *p, struct str *out, struct error *err);
void profiler_free(struct profiler *p);

#endif

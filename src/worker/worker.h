// SPDX-License-Identifier: Apache-2.0
// A device, reached through another process. XLA aborts the process on some programs and compilers run out of memory,
// so a plugin is only ever loaded by the program assay-worker; this is its client side. Calls are synchronous: one
// frame out, one frame back, under a time limit. Only one thread may use a worker at a time, and the caller sees to it
// that only one worker works at a time when it measures.
//
// A call that fails while the worker lives (a program that does not compile, a shape that does not fit) leaves it
// usable. A worker that died, hung or broke the protocol is a failure: worker_failure describes it, the call and every
// later one return ERR_DEVICE (ERR_INPUT when it died of a file that was cut short) with the same text. When
// interrupt_pending, the call ends the worker and returns ERR_INTERRUPTED; that is no failure.
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"
#include "base/str.h"
#include "num/dtype.h"

#define WORKER_MAX_RANK    16
#define WORKER_MAX_ARGS    4096 // arguments or outputs of one program on one device
#define WORKER_MAX_DEVICES 1024
#define WORKER_MAX_PARTS   4096                 // of a file, that one tensor is joined from
#define WORKER_MAX_PROGRAM ((size_t)1000 << 20) // bytes of a program's text

struct worker;

struct worker_options {
    const char *plugin_path; // NULL: worker_find_plugin for `device`
    const char *device;      // "cpu", "gpu", "tpu", "tpu:0"; NULL: "cpu"
    bool compile_only;       // no client is made and no device needed: worker_topology and worker_compile_for
    bool kernels;            // load our own CPU kernels where they can be (worker_info.kernels)
    bool skip_hash;          // plugin_sha256 stays empty: a quarter of a second for a file of 467 MB
    // "NAME=VALUE" sets and "NAME" removes variables for the worker, before the plugin is loaded; ended by NULL.
    const char *const *env;   // NULL: none
    const char *worker_path;  // NULL: environment ASSAY_WORKER, beside the running program, PREFIX
    const char *label;        // the policy's name, for messages; NULL: none
    int cpu_device_count;     // 0: one
    int threads;              // 0: all the process may use; else the worker's affinity and XLA's pool
    double load_timeout_s;    // 0: 20
    double compile_timeout_s; // 0: 300
    double run_timeout_s;     // of each upload, execution, timing loop, download; 0: 600
};

struct worker_device {
    int id, process_index, local_hardware_id;
    bool local;             // this process can execute on it
    const char *kind;       // "cpu", "TPU v6 lite"
    const char *attributes; // "coords=[0,0,0] core_on_chip=0", as the plugin gives them; may be empty
};

// Owned by the worker; valid until worker_stop, also after a failure.
struct worker_info {
    const char *plugin_path;
    char plugin_sha256[65];
    int api_major, api_minor; // of the plugin
    const char *extensions;   // "5 FFI, 4 Layouts"; may be empty
    const char *platform_name, *platform_version;
    const char *attributes; // of the plugin: "xla_version=2 stablehlo_current_version=[1,13,0]"; may be empty
    size_t n_devices;       // 0 with compile_only
    const struct worker_device *devices;
    size_t device; // index in devices of the one used
    uint64_t client_create_ns;
    int pid; // of the worker
    // What our CPU kernels compute with ("oneDNN 3.2.0 (avx512_bf16), 2 threads"); a program for this worker may then
    // call them. NULL: there are none, and no_kernels says why (NULL when they were not asked for).
    const char *kernels, *no_kernels;
};

// Starts the program, loads the plugin, creates the client, selects the device. ERR_DEVICE: no plugin (says where it
// was looked for), not a plugin, another major version, no such device (lists those that exist), a worker of another
// version of the program, or it died (with the last of its stderr). ERR_USAGE: XLA_FLAGS holds what the plugin would
// end the process for. On an error *out is NULL, or a dead worker that only tells its failure: worker_stop it in any
// case. The worker dies with the thread that starts it.
int worker_start(struct worker **out, const struct worker_options *options, struct error *err);
// Asks it to leave, then kills it; frees everything. NULL is fine.
void worker_stop(struct worker *w);
const struct worker_info *worker_info(const struct worker *w);

struct worker_shape {
    enum dtype dtype;
    int rank;
    int64_t dims[WORKER_MAX_RANK];
};

// A compile option of XLA ("xla_dump_to"). Values are text, "true" and "false" for a boolean; the plugin reads
// the rest as its option's type.
struct worker_override {
    const char *name, *value;
};

// Borrowed for the call.
struct worker_program {
    const char *text; // may hold zero bytes
    size_t length;
    const char *format;               // "mlir" (text or bytecode) or "hlo"
    const char *name;                 // for messages
    int num_replicas, num_partitions; // 0: one
    bool allow_excess_precision;      // false for every numerical result: what is asked for is what runs
    bool want_optimized;              // hand the optimised program over
    bool shardy;                      // partition by Shardy
    size_t n_overrides;
    const struct worker_override *overrides;
    size_t n_args; // of the entry; PJRT cannot tell them, so the caller does, and execution checks
    const struct worker_shape *args;
};

// Bytes, as the compiler counts them; -1: not offered.
struct worker_memory_plan {
    int64_t code, arguments, outputs, aliases, temporaries, peak, total;
    int64_t host_code, host_arguments, host_outputs, host_aliases, host_temporaries;
    int64_t allocated; // arguments, outputs and temporaries together, without code
};

struct worker_executable {
    int id;
    uint64_t compile_ns;
    struct worker_memory_plan memory;
    char *fingerprint; // NULL: not offered
    char *optimized;   // NULL unless asked for and offered; may hold zero bytes; a zero byte follows
    size_t optimized_length;
    char *optimized_format;       // "hlo_with_config"
    size_t n_devices;             // num_replicas * num_partitions
    size_t n_outputs;             // on one device
    struct worker_shape *outputs; // dims are one device's part
};

// ERR_DEVICE: refused by the compiler (its message), or the worker died of it. Release `out` with
// worker_executable_release; the program stays in the worker until worker_unload or worker_stop.
int worker_compile(struct worker *w, const struct worker_program *program, struct worker_executable *out,
                   struct error *err);
void worker_executable_release(struct worker_executable *e);
int worker_unload(struct worker *w, int executable, struct error *err);
// What a program was called when it was compiled, also after it was unloaded; "program" when that is not known, or w is
// NULL.
const char *worker_program_name(const struct worker *w, int executable);

// An option of a topology; a value that is a whole number or a list of them ("[1,1,0]") is handed over as such, any
// other as text. "text:" before a value keeps it a text.
struct worker_topology_option {
    const char *name, *value;
};
// Owned by the worker; valid until worker_stop.
struct worker_topology_info {
    const char *platform_name, *platform_version, *attributes;
    size_t n_devices;
    const struct worker_device *devices;
};
// Describes devices that need not be there, by the plugin's name for them ("v6e:2x4"); what is compiled from then on by
// worker_compile_for is for them. ERR_DEVICE with the plugin's message for one that does not exist.
int worker_topology(struct worker *w, const char *name, const struct worker_topology_option *options, size_t n,
                    struct worker_topology_info *out, struct error *err);

// What a compiler says about a program, beside what worker_executable holds.
struct worker_cost {
    char *name; // "flops", "bytes accessed"
    double value;
};
struct worker_ahead {
    struct worker_executable program; // it cannot run
    uint64_t cpu_ns;                  // of the whole worker while it compiled
    uint64_t peak_rss_bytes;
    int64_t serialized_bytes; // -1: not offered
    struct worker_cost *costs;
    size_t n_costs; // 0: no cost analysis is offered
};
// As worker_compile, for the topology. `args` of the program are not looked at.
int worker_compile_for(struct worker *w, const struct worker_program *program, struct worker_ahead *out,
                       struct error *err);
void worker_ahead_release(struct worker_ahead *a);

// Appends the HLO module (an HloProto) that the plugin makes of a program in format "mlir" before it optimises
// anything. A worker of its own does it, and is ended as soon as the module is written, so the compilation costs
// nothing, and a compiler that would refuse the program, or die of it, still says what it read. `overrides` and `args`
// of the program are not looked at. A temporary folder (TMPDIR) is made, and removed whatever happens. ERR_DEVICE when
// the plugin cannot read the program, and says why, or died of it: `why` (may be NULL) tells which; also when there is
// no plugin.
struct worker_lowering {
    bool refused, died;
};
int worker_lower(const struct worker_options *options, const struct worker_program *program, struct str *hlo,
                 struct worker_lowering *why, struct error *err);

// A tensor in a file descriptor: a memfd or a checkpoint's file, of which [offset, offset+bytes) is mapped read-only.
struct worker_part {
    size_t offset, bytes;
};
struct worker_tensor {
    int fd;
    size_t offset, bytes; // dense row-major; sub-byte types hold one element in each byte, as PJRT takes them
    // Where a tensor lies in several parts of the file, which are copied one behind the other: `offset` is ignored, and
    // `bytes` is their sum. NULL and 0: [offset, offset+bytes) alone.
    const struct worker_part *parts;
    size_t n_parts;
    struct worker_shape shape;
    const char *name; // for messages: "model.safetensors: encoder.layer.0.attention.self.query.weight"
    int position;     // place in the device assignment: 0 is the device used, then the other local ones in order
};

struct worker_upload_result {
    uint64_t ns;
    uint64_t device_bytes; // 0: not offered
    bool zero_copy;        // the buffer is the file's mapping itself: on the CPU, at an offset aligned to 64 bytes
};

// `id` names the buffer until worker_free. A file cut short while it is mapped is a failure of the worker that names
// it.
int worker_upload(struct worker *w, const struct worker_tensor *tensor, int *id, struct worker_upload_result *result,
                  struct error *err);
// The same from memory, through a sealed memfd; tensor's fd, offset, bytes and parts are ignored.
int worker_upload_bytes(struct worker *w, const void *bytes, size_t n, const struct worker_tensor *tensor, int *id,
                        struct worker_upload_result *result, struct error *err);

// args: n_devices * n_args buffer ids, device by device, checked against the signature; outputs: room for n_devices *
// n_outputs ids, to be freed. *ns is the time from the call to the completion on every device; may be NULL.
int worker_execute(struct worker *w, int executable, const int *args, size_t n_args, int *outputs, size_t n_outputs,
                   uint64_t *ns, struct error *err);
// Runs it `runs` times in the worker (execute, await, destroy the outputs); ns_each has room for `runs`.
int worker_time(struct worker *w, int executable, const int *args, size_t n_args, size_t runs, double *ns_each,
                struct error *err);

// Copies the whole buffer, dense row-major; `bytes` must be its size.
int worker_download(struct worker *w, int buffer, void *dst, size_t bytes, struct error *err);
int worker_free(struct worker *w, int buffer, struct error *err);

struct worker_memory {
    uint64_t rss_bytes, peak_rss_bytes;
    bool peak_resettable;  // worker_reset_peak works here
    bool has_device_stats; // the rest, -1 where not offered
    int64_t bytes_in_use, peak_bytes_in_use, bytes_limit, bytes_reserved, largest_free_block_bytes;
    int64_t num_allocs;
};
int worker_memory(struct worker *w, struct worker_memory *out, struct error *err);
// Peak RSS counts from now on. ERR_DEVICE where the kernel does not allow it.
int worker_reset_peak(struct worker *w, struct error *err);

// The spans the worker recorded since the last call (compile, upload, execute...), on the caller's clock. *spans is
// malloc'd (NULL when there are none); names are literals. *dropped counts what the ring could not hold.
struct worker_span {
    char name[48];
    uint64_t start_ns, end_ns; // CLOCK_MONOTONIC
    uint32_t tid;
    int32_t of; // of a run: the program's id; else -1
};
int worker_spans(struct worker *w, struct worker_span **spans, size_t *n, uint64_t *dropped, struct error *err);

// The plugin's own profiler, from here to worker_profile_collect. *offered is false (and the call succeeds) where the
// plugin has none: spans are all there is then.
int worker_profile_start(struct worker *w, bool *offered, struct error *err);
// Appends what it recorded, an XSpace of at most 1 GiB.
int worker_profile_collect(struct worker *w, struct str *space, struct error *err);

enum worker_failure_kind { WORKER_EXIT, WORKER_SIGNAL, WORKER_TIMEOUT, WORKER_PROTOCOL };
struct worker_failure {
    enum worker_failure_kind kind;
    int value;       // exit code, signal, or 0
    double seconds;  // WORKER_TIMEOUT: the limit that passed
    char doing[160]; // "compile bf16"
    char label[64];
    char stderr_tail[2048]; // raw: escape it where it is shown
};
// NULL while the worker lives.
const struct worker_failure *worker_failure(const struct worker *w);
const char *worker_failure_kind_name(enum worker_failure_kind kind); // "exit", "signal", "timeout", "protocol"
// One line: "worker (bf16) died of signal 6 (SIGABRT) while compiling main: LAST LINE OF STDERR", escaped.
void worker_failure_describe(const struct worker_failure *f, struct str *out);

// Finds the plugin of a device ("cpu", "gpu", "tpu", "tpu:0"). Looked for in: ASSAY_PLUGIN_PATH (a file, or directories
// separated by ':'), beside the program, ../lib/assay, ../third_party/..., PREFIX/lib/assay. ERR_DEVICE lists where.
int worker_find_plugin(const char *device, struct str *path, struct error *err);
// oneDNN, which our CPU kernels call: the file that ASSAY_ONEDNN_PATH names, else looked for as a plugin is. ERR_DEVICE
// lists where.
int worker_find_onednn(struct str *path, struct error *err);

#endif

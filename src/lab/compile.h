// SPDX-License-Identifier: Apache-2.0
// What the real compiler makes of a workload, for devices that are not there: whether it fits, its memory, its
// schedule, the arithmetic it chose, and the least time of it all. Every compilation is in a worker of its own, since
// compilers abort and keep what they took.
#ifndef LAB_COMPILE_H
#define LAB_COMPILE_H

#include "base/json.h"
#include "base/progress.h"
#include "chips/chips.h"
#include "chips/core.h"
#include "ir/buffers.h"
#include "ir/hlo_cost.h"
#include "ir/llo.h"
#include "ir/module.h"
#include "lab/layers.h"
#include "lab/require.h"
#include "models/builtin.h"
#include "models/program.h"
#include "plan/stages.h"
#include "worker/worker.h"

enum { COMPILE_MAX_CASES = 256, COMPILE_MAX_FLAGS = 32 };

struct compile_job {
    const char *workload;       // as model_request takes it; a program without a policy goes to the compiler as it is
    struct model_shape shape;   // weight_args of a program under policies
    const char *const *targets; // "v6e:2x4", "h100": at least one
    const char *const *policies;
    struct module *const *modules; // one for each of `policies`, which only name them: ready, in place of the workload
    const char *const *flags;      // "NAME=VALUE", options of the compiler
    const char *const *programs;   // of a request of several ("text", "dit"), each once; none: all of them
    size_t n_targets, n_policies, n_flags, n_programs;
    bool sweep;              // flags of one name are alternatives, in place of an error
    const char *precision;   // "default", "high" or "highest" for all products of a model; NULL: as it asks
    const char *layout;      // "tp", "dp=32,tp=8"; NULL: one device's program
    enum layers_form layers; // of a model; one that is divided has them written out
    bool no_evidence;        // the final code is not dumped: faster, and no arithmetic and no floor
    bool emulations;         // says what types that are emulated cost, which compiles products in bf16 beside them
    bool dump_cost;          // compile once more without the dump, to say what it costs
    const char *dump;        // a directory, which must not exist, that keeps what the compiler dumped; NULL: removed
    bool hash_plugin;        // for a document
    const char *plugin;      // NULL: found by the kind of target
    double timeout_s;        // of one compilation; 0: 300, of a request of several programs 1800
    double efficiency; // what share of the floor's speed this chip reaches, for the prediction; 0: what is known of it
    int jobs;          // workers at a time; 0: one for every two processors, at most the cases
    const char *require; // 'fits==1 and floor_us<=200', held to every case; NULL: nothing
    const struct progress *progress;
};

enum compile_state { COMPILE_DONE, COMPILE_TOO_LARGE, COMPILE_REFUSED, COMPILE_DIED };
const char *compile_state_name(enum compile_state s); // "compiled", "does not fit", "refused", "died"

// A value that takes memory in the device's main memory, and whose it is.
struct compile_buffer {
    const char *instruction, *shape, *owner; // owner: the argument's or the operation's name; "" where it is not known
    enum buffer_kind kind;
    int64_t bytes;
};

enum compile_kind { COMPILE_OP, COMPILE_PREFETCH, COMPILE_TRANSFER, COMPILE_COLLECTIVE, COMPILE_WAIT, COMPILE_LOOP };
const char *compile_kind_name(enum compile_kind k); // "operation", "prefetch", ...

struct compile_op {
    const struct hlo_instruction *in;
    enum compile_kind kind;
    const char *name, *what;   // of the instruction; its category ("output fusion", "copy")
    const char *scope, *group; // where in the model: the operation's name and its row; "" where the compiler says none
    int depth;                 // of loops around it
    double runs;               // in one run of the program; of COMPILE_LOOP its own trips as well
    bool runs_unknown;         // in a loop that runs as often as its data say: counted once
    // Of one run.
    double flop;                    // of products
    enum dtype type;                // of the left operand of its products; DT_INVALID: none
    enum dtype asked;               // the same as our module has it, which a GPU's compiler may widen
    double hbm_bytes;               // read from and written to the main memory
    double bundles;                 // of its code; NAN where there is no dump of it
    double iterations;              // of that code: the product of its iteration bounds
    double estimated_cycles;        // the compiler's own estimate; NAN: none
    double compute_s, memory_s;     // to issue its bundles, to move its bytes; NAN: not known
    double matrix_s;                // of the matrix units, for its rows at their published rate; NAN: not known
    double floor_s;                 // the longest; of a collective its wire time; 0 for what takes none
    const struct llo_bundles *code; // NULL: none of its own
    bool shares_code;               // with an earlier operation
    double passes;                  // how often its products go through the matrix units; NAN: not known
    const char *arithmetic;         // in words, how its products are made; NULL
    bool emulated;
    const char *strategy; // of a collective: the compiler's choice; of a GPU's kernel: its kind; or ""
    // COMPILE_COLLECTIVE
    const char *collective, *groups; // "all-reduce"; how many of how many devices
    int64_t group_size;
    int box[3];              // of the first group's devices: how many along each axis; 0: they are no box
    int apart;               // neighbours of a group are that far apart
    bool between;            // slices
    double hops, contention; // of a permute: the longest way, and how many take the same link; 0: not known
    double wire_bytes;       // of the whole array
    const char *wire_reason; // why there is no wire time; NULL: there is
};

// A type that the target has no products of: the largest product of that type beside the same one in bf16.
struct compile_emulation {
    enum dtype type;
    const struct compile_op *op;
    int64_t batch, m, k, n;               // products of m x k by k x n; batch 0: it is no plain product
    double bf16_bundles, bf16_iterations; // compiled by itself for the same target; NAN: not known
    const char *sentence;                 // all of it in words
};

struct compile_group {
    const char *name;
    double flop, hbm_bytes, floor_s;
    enum dtype type; // of most of its FLOP
    size_t ops;
};

struct compile_place {
    int coordinates[3], slice;
};

// One of the programs that a pipeline is: its layers, and how the batch comes through it.
struct compile_stage {
    int number, of; // from 0; of 1: no pipeline
    struct stage cut;
    int64_t microbatches, sequences; // of the batch; in one of them, over all ways
    double handed_s;                 // to the next stage; 0 behind the last, NAN: not known
};

struct compile_case {
    struct arena arena;
    // What is asked for.
    const char *target_name;
    struct chip_target target;
    const char *policy; // NULL: the workload has its types
    struct worker_override flags[COMPILE_MAX_FLAGS];
    size_t n_flags;
    size_t policy_number;    // of those that were asked for
    struct model_part *part; // of a request of several programs: which one; NULL: there is one
    struct compile_stage stage;
    const struct module *module;       // NULL: a program of the user's
    struct rolled rolled;              // its layers that run as loops
    int64_t first_weight, last_weight; // its arguments that are weights; last below first: none
    const char *text, *format;         // "mlir" or "hlo"
    size_t text_bytes;
    int partitions;
    bool shardy;
    // What became of it.
    enum compile_state state;
    struct error error;
    bool has_failure;
    struct worker_failure failure;
    bool has_figures;                           // COMPILE_TOO_LARGE, with the compiler's own figures
    const char *needed, *available, *needed_in; // "96.00G", "31.24G", "HBM"
    double needed_bytes, available_bytes;
    const char *plugin_path, *plugin_version; // the second: the platform's
    char plugin_sha256[65];
    size_t n_devices;
    struct compile_place *places; // of the devices, in order; NULL: not known
    const char *device_kind;
    double start_s, wall_s, cpu_s;    // to load plugin and topology; to compile
    double plain_wall_s, plain_cpu_s; // without the dump; NAN: not measured
    double peak_rss_bytes;
    struct worker_memory_plan memory;
    double usable_bytes; // what one device's memory can hold; NAN: not known
    int64_t serialized_bytes;
    const char *fingerprint;        // NULL: none
    int64_t weight_bytes;           // of the arguments that are weights, as the compiler lays them out; -1: not known
    struct compile_buffer *buffers; // the largest first
    size_t n_buffers;
    double dump_bytes, parse_s; // of the final code
    // The schedule, and what it takes.
    struct hlo_module hlo;
    struct hlo_costs costs;
    struct compile_op *ops; // in order
    size_t n_ops, cap_ops;
    struct compile_group *groups;
    size_t n_groups;
    struct compile_emulation *emulations;
    size_t n_emulations;
    struct chip_core core;
    bool has_core;
    double flop, hbm_bytes, prefetch_bytes;                     // of one run of the program on one device
    double ops_floor_s, memory_floor_s, collectives_s, floor_s; // NAN: no evidence
    double estimated_s;                                         // the compiler's estimates added up, as a warning
    double of_peak;                                             // FLOP at the floor's time over the rate of their type
    bool above_peak;                                            // which cannot be: no time is predicted from it
    double predicted_s;                                         // NAN: none
    double efficiency, band;       // the prediction is floor / efficiency, within a factor of band
    const char *efficiency_source; // also why there is none
    bool loops_unknown;
};

// A pipeline as a whole: m microbatches through p stages take m + p - 1 turns of the slowest.
struct compile_pipeline {
    double turn_s; // the longest floor of a stage with its hand-over; NAN: not known of every stage
    double bubble; // share of the time in which a stage waits: (p - 1) / (m + p - 1)
    double floor_s, predicted_s;
};

// The programs of a request together, in one run of it each as often as it is called.
struct compile_request {
    size_t n; // cases, one behind the other
    // With all weights and code in memory, and the rest of one program at a time, B; NAN: not known of every program.
    double resident_bytes, usable_bytes;
    double floor_s, predicted_s; // NAN: not known of every program
    double wall_s, cpu_s;        // to compile them
};

struct compile {
    struct arena arena;
    struct compile_job options;
    struct program_file program;               // path NULL: the workload is none
    struct model_request request;              // n_parts 0: the compiler takes a program of the user's as it is
    struct model_part *parts[MODEL_MAX_PARTS]; // of several, those that are compiled
    size_t n_parts;
    struct compile_case *cases;
    size_t n_cases;
    struct require require;
    bool has_require;
};

// Reads the workload and makes the cases (targets x policies x alternatives of flags x programs). ERR_USAGE names what
// is not known; ERR_INPUT a file. Of several programs one that cannot be divided as asked for is a case that is
// refused. compile_close in any case.
int compile_open(struct compile *c, const struct compile_job *o, struct error *err);
// Compiles every case, `jobs` at a time. A case that does not fit, is refused or dies is a result, not an error.
// ERR_DEVICE when there is no plugin at all, or no case could be tried; ERR_INTERRUPTED.
int compile_run(struct compile *c, struct error *err);
void compile_close(struct compile *c);
// Of the pipeline whose first stage is case i; false where none begins.
bool compile_pipeline(const struct compile *c, size_t i, struct compile_pipeline *out);
// Of the request whose first program is case i; false where none of several programs begins.
bool compile_request(const struct compile *c, size_t i, struct compile_request *out);
// Whether every case meets the requirement. The metrics: fits, floor_us, predicted_us, memory_bytes, code_bytes,
// compile_s, and of the request that a program is of resident_bytes; a case without a number does not meet what is
// asked of it.
bool compile_met(const struct compile *c);
// The `result` object of assay.compile/1.
void compile_json(const struct compile *c, struct jw *w);

#endif

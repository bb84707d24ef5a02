// SPDX-License-Identifier: Apache-2.0
// assay as a library: what a model costs on an accelerator, and what low precision does to its results.
//
//     #include <assay/assay.h>
//
//     char *json;
//     struct assay_error error;
//     if (assay_price("builtin:minilm", NULL, &json, &error))
//         return fprintf(stderr, "%s: %s\n", error.where, error.message), assay_error_exit_code(error.code);
//     puts(json);
//     assay_free(json);
//
// Link with libassay.a -ljansson -lcrypto -lpng -ljpeg -lz -lm -ldl -lpthread. What executes runs in another process,
// the program assay-worker, so nothing a plugin does can end yours. It is looked for beside your program, in
// ../lib/assay from there, and under the prefix the library was built for; a device's plugin likewise. struct
// assay_device names them elsewhere.
//
// Conventions, for every function:
// - Results. A function that can fail returns 0, or a negative enum assay_code with `error` filled in. `error` may be
//   NULL. On failure nothing is handed out and there is nothing to free.
// - Options. A pointer to options may be NULL, and a member of zero (or NULL) means its default. So initialise with
//   = {0}: members may be added at the end.
// - Ownership. Arguments are borrowed for the call. What comes out through a pointer is yours; free it with assay_free,
//   or with the function that its description names.
// - Units are in the names (bytes, ns), or in the `unit` that stands beside a value.
// - Text is UTF-8, numbers have a decimal point whatever the locale. JSON is the document that the program prints under
//   --json; docs/schemas describes it.
// - Threads. Functions may be called from several threads at once; an object (struct assay_checkpoint) may be read from
//   several, and closed by one when the others are done. A call that starts workers is over when they are.
// - The process. Nothing is printed and nothing exits. A handler for SIGBUS is installed when the first file is read (a
//   mapped file that is cut short is then an error); it passes on what is not its own. Child processes are waited for
//   by their number: do not ignore SIGCHLD while a call runs.
#ifndef ASSAY_ASSAY_H
#define ASSAY_ASSAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- version and errors

// Of the library: "0.1.0". Static.
const char *assay_version(void);

enum assay_code {
    ASSAY_ERROR_USAGE = -2,    // an argument: a name that is not known, a number out of range, a directory that exists
    ASSAY_ERROR_INPUT = -3,    // a file: missing, damaged, of the wrong kind
    ASSAY_ERROR_DEVICE = -4,   // device or plugin: absent, wrong version, crashed, out of memory
    ASSAY_ERROR_INTERNAL = -5, // a mistake of ours
    ASSAY_ERROR_MEMORY = -6,   // the host has no memory left
    ASSAY_ERROR_IO = -7,       // a file could not be written
    ASSAY_ERROR_INTERRUPTED = -8, // not from the library: a program's own handler
};

struct assay_error {
    int code;          // 0 after success
    char where[320];   // file, tensor or argument (as the program's option: "--policy"); may be empty. As found: escape
                       // it where it is shown
    char message[960]; // what was wrong and what to do about it: lower case, no full stop
};

// "usage", "bad-input", "device", "internal", "out-of-memory", "write-failed", "interrupted". Static.
const char *assay_error_name(int code);
// The exit code that the program gives for it: 2 to 5, 130.
int assay_error_exit_code(int code);

// Frees what a function of the library handed out. NULL is fine.
void assay_free(void *memory);

// ---- what a workload costs

struct assay_price_options {
    const char *policy;       // default "f32", for images and decoders "bf16"; not for a product, which has its own
    const char *const *chips; // chip_count of them ("v5e", "h100", "v6e:2x4", "local"): floors are computed for these
    size_t chip_count;
    int64_t batch;                // texts, images or prompts in one run; default 32 texts, 1 image or prompt
    int64_t seq;                  // tokens of a text or prompt; default 128, of a decoder's prompt 2048
    int64_t height, width, steps; // of an image; default 512 x 512, and the model's own number of steps
    int64_t tokens;               // that a decoder writes; default 128
    const char *const *layouts;   // layout_count of them ("dp", "tp"), for chips that are slices; default all there are
    size_t layout_count;
    const char *calibration; // record of `assay bench --calibrate`, or a calibration.json: floors by measured rates too
    const char *weight_args; // of a program: which arguments are weights, "N..M"
    bool what_if;            // also what changes would save, on every chip
    bool by_scope;           // a row per scope in place of one per module
    bool lenient;            // leave out what is not understood of a program's text
    const char *const *targets; // target_count of them ("v6e"): three predictions, of which one compiles, in seconds
    size_t target_count;
    const char *weights, *inputs; // of a program: files (safetensors or GGUF; .npz or .npy) whose names say which
                                  // arguments are what; no data of them is read
};

// Prices a workload from its shapes: FLOP, bytes, intensity and floors, per module and in all. Nothing runs, no weights
// are read. `workload` is a model directory (its configurations are read), "builtin:minilm", "builtin:flux2-klein-4b",
// "builtin:gemm:MxKxN:TYPE" and whatever else `assay price` takes. *json is a document of assay.price/1. Takes
// milliseconds. A size or number that the workload does not have is ASSAY_ERROR_USAGE.
int assay_price(const char *workload, const struct assay_price_options *options, char **json,
                struct assay_error *error);

// ---- what the real compiler makes of it, without the device

struct assay_compile_options {
    const char *const *targets; // target_count of them, at least one: "v6e:2x4", "tpu7x", "h100"
    size_t target_count;
    const char *const *policies; // policy_count of them; default "f32", of several programs "bf16"; not for a product
                                 // or a program
    size_t policy_count;
    const char *const *flags; // flag_count of them, "NAME=VALUE": options of the compiler
    size_t flag_count;
    const char *layout; // "tp", "dp=32,tp=8": divides a model over the target's devices; default one device's program
    const char *precision; // "default", "high" or "highest" (default): what every product of a model asks for
    const char *plugin;    // the compiler's file; found by the kind of target when NULL
    int64_t batch, seq;    // default: the workload's own
    bool no_evidence;      // faster, without arithmetic and floors
    double efficiency;     // floor over measured time on that chip, for the prediction; default what is known of it
    double timeout_s;      // of one compilation, default 300, of a request of several programs 1800
    int jobs;              // compilations at a time; default one for every two processors
    const char *const *programs;  // program_count of those that a request consists of ("text", "dit", "vae"; "prefill",
    size_t program_count;         // "decode"); default all of them
    int64_t height, width, steps; // of an image; default 512 x 512, and the model's own number of steps
    int64_t tokens;               // that a decoder writes; default 128
};

// Compiles a workload (as assay_price takes it, or a file *.mlir of StableHLO) for every target and policy, each in a
// process of its own; of a request of several programs (an image, a decoder of text) each of them, and what all take
// together. *json is a document of assay.compile/1, in which a program that does not fit, is refused or on
// which the compiler aborts is a row. ASSAY_ERROR_DEVICE when there is no compiler.
int assay_compile(const char *workload, const struct assay_compile_options *options, char **json,
                  struct assay_error *error);

// ---- what fits

struct assay_budget_options {
    const char *params;       // "300M": a number of parameters in place of a model, which is NULL then
    const char *cache;        // with params: "24x8x64", layers, heads of keys and values, head_dim; default: no cache
    const char *policy;       // how weights and cache are stored ("w8a16,kv=int8"); default: as they are
    const char *const *chips; // chip_count of them ("v6e", "v6e:2x4", "v5p-8"); default: none, so no verdict
    size_t chip_count;
    const char *const *layouts; // layout_count of them ("fsdp=4,tp=2,sp"); default: every one that can be
    size_t layout_count;
    int64_t batch, seq;    // sequences at once on all devices; tokens of each, default 4096 or what the model allows
    const char *train;     // "adam-18", "adam-16", "adam-8bit", "adafactor", "sgd", "sgd-momentum"; default: serve
    const char *remat;     // "none" (default), "selective", "full"
    bool naive_attention;  // scores of all pairs of tokens are held
    bool unpacked;         // codes below 8 bits take a byte each
    bool weights_only;     // count what the files hold, without asking what the model is
    int64_t page, prefill; // tokens in a page of the cache, default 16; tokens that run at once, default 2048
    double reserve_bytes;  // of each device, to keep free
    double utilization;    // share of the usable memory, default 1
    int64_t height, width; // of images, default 1024
};

// Whether a model fits devices: what weights, cache, training state, activations and workspace take on each, against
// what is usable; how much fits, and what would make it fit. Nothing runs; of weights the headers are read. `workload`
// is a directory with config.json, a config.json, a .safetensors or .gguf file or "builtin:NAME"; NULL with params.
// *json is a document of assay.budget/1. Takes milliseconds.
int assay_budget(const char *workload, const struct assay_budget_options *options, char **json,
                 struct assay_error *error);

// ---- chips

// A number with where it comes from.
struct assay_quantity {
    double value;     // NaN where no number can be given; then `source` says why
    char unit[16];    // "FLOP/s", "OP/s", "B/s", "B"
    char origin;      // 'S' from a sheet, 'D' derived by a formula, 'M' measured
    char source[512]; // a link with its date, a formula, a device
};

// The chips of the table; names are static. NULL past the last.
size_t assay_chip_count(void);
const char *assay_chip_name(size_t index);

// Of one device of a chip, as a program sees it (half a chip on tpu7x): the dense peak rate of products of `type`
// ("bf16", "int8", ...; a multiply-add counts as two), the nominal memory and its bandwidth. `chip` may be an alias, or
// a device kind as PJRT names it. For "local" a calibration is read from the user's cache, where there is one.
int assay_chip_rate(const char *chip, const char *type, struct assay_quantity *out, struct assay_error *error);
int assay_chip_memory(const char *chip, struct assay_quantity *out, struct assay_error *error);
int assay_chip_bandwidth(const char *chip, struct assay_quantity *out, struct assay_error *error);

// ---- running on a device

struct assay_device {
    const char *name;   // "cpu" (default), "gpu", "tpu", or one of several: "tpu:1"
    const char *plugin; // path of the PJRT plugin; default: looked for
    const char *worker; // path of assay-worker; default: looked for
    int threads;        // to compute with; default: as many as the process may run on
    double timeout_s;   // for one step on the device; default: 20 to load, 300 to compile, 600 to run
    bool no_kernels;    // our own CPU kernels take over no part of a model's program, as with `--kernels off`; default:
                        // on the CPU they do, where they can. Only assay_embed and assay_qualify have them
};

// What long work tells while it runs: a short phrase and how far it is (total 0: not known). Called from the calling
// thread; NULL: silent.
struct assay_progress {
    void (*report)(void *context, const char *stage, size_t done, size_t total);
    void *context;
};

struct assay_embed_options {
    struct assay_device device;
    // A preset ("f32", "bf16", "f16", "w8a16", "w8a8", "w4a16", "fp8") or spelled out; default "f32". One with static
    // activation scales ("w8a8-static") is for assay_qualify, which makes them.
    const char *policy;
    int64_t batch; // texts in one run of the program; default 32, or fewer when there are fewer texts
    int64_t seq;   // tokens per text, padding included; default: the longest text, up to the model's own limit
    struct assay_progress progress;
};

struct assay_embeddings {
    size_t rows, columns; // texts, dimensions
    float *values;        // [rows][columns]; free it with assay_free
    size_t truncated;     // texts that were longer than the model takes: their beginning was embedded
};

// Runs `count` texts (C strings; an empty one is a text, too) through a sentence embedding model. `directory` holds
// config.json, model.safetensors and vocab.txt in Hugging Face layout. Every call loads and compiles (about a second):
// give it many texts.
int assay_embed(const char *directory, const char *const *texts, size_t count,
                const struct assay_embed_options *options, struct assay_embeddings *out, struct assay_error *error);

struct assay_qualify_options {
    struct assay_device device;
    const char *text_path;       // needed for a model: a file with one text per line, at least 3
    const char *const *policies; // policy_count of them, the first is what the others are timed against; default: "f32"
    size_t policy_count;
    const char *const *chips; // chip_count of them, to predict floors for; default: none
    size_t chip_count;
    const char *require; // "cosine_min>=0.999 and p50_ms<=20"; default: nothing is demanded
    const char *run_dir; // where the record is written; must not exist; default: runs/qualify-YYYYMMDD-HHMMSS-PID
    int64_t batch;       // default 32
    int64_t seq;         // default: the longest text, up to the model's own limit
    int64_t samples;     // timed runs per policy, default 30
    int64_t warmup;      // runs before them; default: until times no longer fall; -1: none
    uint64_t seed;       // of the order of the runs
    struct assay_progress progress;
    // Needed by policies with static activation scales ("w8a8-static"), which are made from its texts, one per line; a
    // text that is also in text_path is refused.
    const char *calibrate_path;
    bool emulate;               // make products that the device lacks in types that it has, with the same values
    const char *const *targets; // target_count of them ("v6e:2x4"): the compiler's predictions beside what is measured
    size_t target_count;
    const char *calibration; // record of `assay bench --calibrate`, or a calibration.json: floors by measured rates too
    // Of a program that somebody exported (.hlo.pb, .hlo.txt, .mlir), in place of the texts. weights: a safetensors
    // file, whose tensors are found by the names of the arguments, or by position where they are called 0, 1, ...;
    // weight_args: "N..M", which arguments are weights, where names do not say it. inputs: .npz or .npy with all other
    // arguments; default: random floats from the seed.
    const char *weights, *weight_args, *inputs;
};

struct assay_qualification {
    char *json;   // the document of assay.qualify/1, equal to report.json of the record; free it with assay_free
    char *record; // path of the record; free it with assay_free
    bool refused; // no policy was chosen: none meets what was demanded, or none gave finite results
};

// Prices a model, or a program that was exported, runs it under every policy beside the same graph in f64, measures all
// of them in turns, and says which to use. Writes a record with everything measured and a report for people
// (report.html). A policy that fails is a row of the document; the call fails only when none ran. Takes seconds to
// minutes.
int assay_qualify(const char *workload, const struct assay_qualify_options *options, struct assay_qualification *out,
                  struct assay_error *error);

struct assay_precision_options {
    struct assay_device device;
    const char *const *suites; // suite_count of them ("accumulate"); needed, unless there is a tensor
    size_t suite_count;
    const char *tensor;          // "FILE:NAME", a matrix of your own
    const char *const *policies; // policy_count of them, for the tensor ("w8a8", "mxfp4", "int4/group:32")
    size_t policy_count;
    uint64_t seed; // of random inputs; counts when `seeded`, else a suite takes the seeds of its recorded figures
    bool seeded;
    int64_t batch, features, outputs; // of products; default: the suite's own
    int64_t steps;                    // timed runs, or steps of training; default: the suite's own
    bool trace;                       // keep spans of warmed runs
    const char *run_dir; // where the record is written; must not exist; default: runs/precision-YYYYMMDD-HHMMSS-PID
    struct assay_progress progress;
};

struct assay_precision_result {
    char *json;   // the document of assay.precision/1, equal to report.json of the record; free it with assay_free
    char *record; // path of the record; free it with assay_free
    bool failed;  // a check of some suite does not hold
};

// Runs suites of the precision lab: what number formats do to products, on inputs that anyone can make again, with
// known answers checked. Writes a record with tables, figures (figures/*.svg) and programs. What one format cannot do
// is a row with its failure; the call fails when a device does.
int assay_precision(const struct assay_precision_options *options, struct assay_precision_result *out,
                    struct assay_error *error);

// ---- checkpoints

// The tensors of a model's files, mapped, not copied.
struct assay_checkpoint;

enum { ASSAY_MAX_RANK = 8 };

struct assay_tensor {
    const char *name; // as in the file; escape it where it is shown. Lives as long as the checkpoint
    const char *type; // of the elements: "f32", "bf16", "s8", ...; of blocks in GGUF "Q4_K", ... Static
    int rank;
    int64_t dims[ASSAY_MAX_RANK]; // row-major
    uint64_t elements;
    uint64_t bytes;
    uint64_t offset;  // of the data in its file, in bytes
    const char *file; // path. Lives as long as the checkpoint
};

// Opens a .safetensors file, a GGUF file, a .safetensors.index.json, or a directory that holds one. The whole header is
// checked; data is not touched. Close it with assay_checkpoint_close.
int assay_checkpoint_open(struct assay_checkpoint **out, const char *path, struct assay_error *error);
void assay_checkpoint_close(struct assay_checkpoint *checkpoint); // NULL is fine

// In the order of files, then of offsets. assay_checkpoint_tensor: false past the last.
size_t assay_checkpoint_count(const struct assay_checkpoint *checkpoint);
bool assay_checkpoint_tensor(const struct assay_checkpoint *checkpoint, size_t index, struct assay_tensor *out);
// By name: the index, or SIZE_MAX when there is none of that name.
size_t assay_checkpoint_find(const struct assay_checkpoint *checkpoint, const char *name);

// Copies a tensor's elements as f32 (rounded to nearest, ties to even, where they are wider) into `out`, which has room
// for `count` floats; `count` must be the tensor's elements. Blocks are decoded. Not for types narrower than a byte.
int assay_checkpoint_read_f32(const struct assay_checkpoint *checkpoint, size_t index, float *out, size_t count,
                              struct assay_error *error);

struct assay_quantize_options {
    const char *const *skip; // skip_count patterns (*, ?, [...]) of names of tensors that are kept
    size_t skip_count;
    const char *nan; // of values that are not finite: "error" (default), "saturate" or "keep"
    int threads;     // default: as many as the process may run on
    // Static scales of activations: a file with one text per line that `in`, a model directory, is run on; default:
    // none. `device`, `batch` and `seq` are for that run, as in assay_embed.
    const char *calibrate;
    struct assay_device device;
    int64_t batch, seq;
    struct assay_progress progress;
};

// Writes the weights of `in` (as for assay_checkpoint_open) to the new safetensors file `out` as `policy` stores them:
// a preset ("w8a16", "w4a16", "fp8", "bf16", ...), a block format ("mxfp4", "nvfp4", ...) or spelled out
// ("w=int4/group:128/mse"). docs/quantize.md describes the file. It appears when it is complete; after a failure
// nothing is left. *json is a document of assay.quantize/1: what became of every tensor.
int assay_quantize(const char *in, const char *out, const char *policy, const struct assay_quantize_options *options,
                   char **json, struct assay_error *error);

#ifdef __cplusplus
}
#endif

#endif

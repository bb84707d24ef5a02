// SPDX-License-Identifier: Apache-2.0
// The precision lab: suites of experiments on what a number format does to a product. A suite is one row of a table:
// it makes inputs, runs programs on the device through a worker that all suites share, and fills one document, which
// one renderer shows (report/precision.h).
//
// To add a suite: write src/lab/precision_NAME.c with `const struct precision_suite precision_suite_NAME` and put its
// name into PRECISION_SUITES. Its run function gets a `struct precision` and uses the functions below:
//
//     static int run(struct precision *p, struct error *err)
//     {
//         struct precision_case *c = precision_case(p, "policies", "bf16, f32 sums", "seed 0");
//         c->w = c->a = c->op = "bf16";
//         c->acc = c->out = "f32";
//         int rc = precision_execute(p, &run, err);             // the only kind of call that can fail at once
//         precision_on_device(p, c);
//         precision_measure(p, c, "f64", reference, result, n);
//         precision_check_number(p, "seed 0", "the largest error", 0.03718, c->measures[0].max_abs, 5e-6, "5 digits");
//         precision_note(p, "what a reader has to know");
//         return 0;
//     }
//
// Functions that add to the document cannot fail for the caller: a lack of memory is kept and ends the run. All texts
// handed to them are copied. Names of cases are unique within a suite.
#ifndef LAB_PRECISION_H
#define LAB_PRECISION_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/host.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/quantity.h"
#include "base/slice.h"
#include "ir/module.h"
#include "lab/measure.h"
#include "record/record.h"
#include "worker/worker.h"

// The list of suites, in the order in which they are shown and run.
#define PRECISION_SUITES(X) X(accumulate) X(lab) X(deployment) X(scaling)

enum {
    PRECISION_MEASURES = 4,  // references that one case is compared with
    PRECISION_OUTPUTS = 8,   // of one program
    PRECISION_PRODUCTS = 16, // contractions of one program that are listed
};

// ---- What is asked for

struct precision_options {
    struct worker_options worker;
    const char *const *suites; // n_suites names; none with a tensor alone
    size_t n_suites;
    const char *tensor; // FILE:NAME of a matrix of the user's own; NULL: none
    const char *const *policies;
    size_t n_policies;                // for the tensor; 0: a selection
    uint64_t seed;                    // of every random input
    bool seed_given;                  // else a suite may take the seeds that its recorded figures belong to
    int64_t batch, features, outputs; // of the product: [batch, features] x [features, outputs]. 0: the suite's own
    int64_t steps;                    // timed runs, or steps of training. 0: the suite's own
    bool trace;                       // keep the spans of a few warmed runs of each timed program
};

// Which of the options a suite looks at; the others are refused when they are given for it alone.
enum precision_uses {
    PRECISION_USES_SEED = 1,
    PRECISION_USES_SHAPE = 2, // batch, features, outputs
    PRECISION_USES_STEPS = 4,
    PRECISION_USES_TRACE = 8,
    PRECISION_USES_BATCH = 16,                         // batch alone
    PRECISION_TRACES_EACH = 32 | PRECISION_USES_TRACE, // programs that are not timed, too; the run writes the profile
};

struct precision;

struct precision_suite {
    const char *name;
    const char *help; // one line, lower case, no full stop
    unsigned uses;    // enum precision_uses
    // Refuses what cannot be done (ERR_USAGE naming the option) before there is a record; NULL: anything can.
    int (*check)(const struct precision_options *o, struct error *err);
    // Fills p's document. A device that fails ends the run; what one case cannot do is the case's `failure`.
    int (*run)(struct precision *p, struct error *err);
};

// NULL-ended, in the order of PRECISION_SUITES.
extern const struct precision_suite *const precision_suites[];
// NULL when there is none of that name.
const struct precision_suite *precision_find_suite(const char *name);
// One name per line: what a shell completes.
struct str;
void precision_words(struct str *out);

// ---- The document of a suite

// How far a case's result is from one reference. NAN: no such number (a norm of zero).
struct precision_measure {
    const char *against;      // "f64", "f32 product"
    double max_abs, mean_abs; // of |result - reference|, in the unit of the values
    double rel_l2;            // ||result - reference|| / ||reference||
    double snr_db;            // 20 log10 of its inverse; infinite without an error
    size_t nonfinite;         // elements where one side alone is not finite; they make the errors NAN
};

// Something a case has besides: a number, or a text.
struct precision_fact {
    const char *name; // a few words, lower case: "ratio", "requested"
    const char *text; // NULL: it is the number
    struct quantity number;
};

struct precision_case {
    const char *section; // cases of one section stand in one table, under this heading
    const char *name;    // unique within the suite: "bf16, f32 sums, seed 0"
    const char *label;   // what the table and the figures call it; the name when not set
    const char *input;   // "balanced", "seed 0"; NULL: none
    // The policy: storage of weights and activations, operand type, accumulation, result. NULL: does not apply.
    const char *w, *a, *op, *acc, *out;
    // Where the measures come from: ORIGIN_DERIVED "computed on the host" until precision_on_device.
    enum origin origin;
    const char *source;
    struct precision_measure measures[PRECISION_MEASURES];
    size_t n_measures;
    double code_bytes, scale_bytes; // stored; NAN: does not apply
    int64_t clipped;                // values beyond the largest code; -1: does not apply
    struct precision_fact *facts;
    size_t n_facts, cap_facts;
    const char *failure; // NULL, or why there is no result
};

struct precision_check {
    const char *name, *shows;
    const char *expected, *got; // as texts; numbers exact (shortest that read back equal)
    double tolerance;           // NAN: texts, or a condition
    const char *why;            // of the tolerance; NULL
    bool ok;
};

struct precision_input {
    const char *name, *type, *source;
    int rank;
    int64_t dims[WORKER_MAX_RANK];
    char sha256[65]; // of the bytes, row-major, little-endian
};

// A picture's values are named, not copied: a bar is "this quantity of that case", a line "this column of that table".
// So it is always drawn from the document.
enum precision_panel_kind {
    PANEL_BARS,    // series side by side in each category, from zero (linear) or from the axis' foot (log)
    PANEL_STACKED, // series on top of each other, linear
    PANEL_POINTS,  // a mark per category and series
    PANEL_LINES,   // table columns against each other
};

struct precision_series {
    const char *name;     // legend
    const char *quantity; // of the cases: "measures/AGAINST/max_abs" (mean_abs, rel_l2, snr_db), "stored/codes",
                          // "stored/scales", "clipped", "facts/NAME". NULL for lines
    const char **cases;   // per category: a case's name, or NULL
    size_t n_cases, cap_cases;
    const char *table, *x, *y; // lines: a table's name and two of its columns
};

struct precision_panel {
    enum precision_panel_kind kind;
    const char *title, *x_title, *x_unit, *y_title, *y_unit; // unit "1" for none
    bool x_log, y_log;
    const char **categories;
    size_t n_categories, cap_categories;
    struct precision_series *series; // read through precision_series; grows
    size_t n_series, cap_series;
};

struct precision_figure {
    const char *name; // of the file: figures/SUITE-NAME.svg; letters, digits, dashes
    const char *title, *caption;
    struct precision_panel **panels;
    size_t n_panels, cap_panels;
};

struct precision_column {
    const char *name, *unit; // unit NULL: texts
    enum origin origin;
    const char *source;
};

struct precision_cell {
    const char *text; // NULL: the number; NAN is a null
    double number;
};

// What does not fit a case: a trajectory, codes of a worked example.
struct precision_table {
    const char *name, *title;
    struct precision_column *columns;
    size_t n_columns, cap_columns;
    struct precision_cell *cells; // row-major
    size_t n_cells, cap_cells;
};

// A program that ran.
struct precision_program {
    const char *name;
    const char *lowered, *optimized; // files in the record; NULL without a record, or where none is offered
    const char *lowered_sha256;
    const char *optimized_sha256;
    // The contractions of the optimised program, as the compiler left them: "f32[64,64] dot(bf16[64,256],
    // bf16[256,64])", with the operand precision where it is not the default, or a custom call's name.
    const char *products[PRECISION_PRODUCTS];
    size_t n_products;
    uint64_t compile_ns;
    struct worker_memory_plan memory;
    double *samples_ns; // timed runs after the warm-up; NULL when not timed
    size_t n_samples;
    struct measure_warmup warmup;
    const char *trace; // file in the record; NULL
    // Its first traced run: from the call to the return here, and all that the worker did in its traced runs.
    uint64_t traced_start_ns, traced_end_ns;
    const struct worker_span *spans; // NULL: not traced
    const void *traced_hlo;          // the optimised program, as the worker gave it; NULL: not offered
    size_t traced_hlo_bytes;
    struct slice traced_buffers;        // its BufferAssignmentProto; empty: none
    const char *traced_without_buffers; // then why
    size_t n_spans;
};

struct precision_document {
    const char *name, *help; // of the suite
    struct precision_input *inputs;
    size_t n_inputs, cap_inputs;
    struct precision_case **cases;
    size_t n_cases, cap_cases;
    struct precision_check *checks;
    size_t n_checks, cap_checks;
    const char **notes;
    size_t n_notes, cap_notes;
    struct precision_figure **figures;
    size_t n_figures, cap_figures;
    struct precision_table **tables;
    size_t n_tables, cap_tables;
    struct precision_program **programs;
    size_t n_programs, cap_programs;
    double wall_s;
};

// ---- A run

struct precision {
    struct arena arena; // lives as long as the run: inputs, results, the document
    const struct precision_options *options;
    const struct progress *progress;
    struct record *record;           // NULL: none
    struct worker *worker;           // started by the first program
    struct precision_tensor *tensor; // opened when one was asked for; NULL
    struct host_facts host;
    struct precision_document *document; // of the suite that runs
    bool trace_each;                     // with options->trace: PRECISION_TRACES_EACH of that suite
    struct precision_document **documents;
    size_t n_documents, cap_documents;
    struct error error; // a lack of memory while filling the document
    // What is handed out then: it belongs to no document.
    struct {
        struct precision_case a_case;
        struct precision_fact fact;
        struct precision_check check;
        struct precision_figure figure;
        struct precision_panel panel;
        struct precision_table table;
        struct precision_program program;
    } spare;
    double wall_s;
};

// Checks suites, options and the tensor's name: ERR_USAGE lists what is known. Nothing runs yet. `o` is borrowed.
int precision_open(struct precision *p, const struct precision_options *o, const struct progress *progress,
                   struct error *err);
void precision_close(struct precision *p);
// The options in force, for config.json: members of an open object.
void precision_config(const struct precision *p, struct jw *w);
// Runs every suite that was asked for. Programs, samples and spans go into the record when it is given. ERR_DEVICE when
// the device fails.
int precision_run(struct precision *p, struct record *record, struct error *err);
// Begins the document of one more suite, which is filled next; precision_run does it for those of the table. The texts
// are borrowed.
int precision_begin(struct precision *p, const char *name, const char *help, struct error *err);
// A check of some suite failed.
bool precision_failed(const struct precision *p);
// The `result` object of assay.precision/1.
int precision_json(const struct precision *p, struct jw *w, struct error *err);
// How the worker ended, for failure.json.
void precision_failures(const struct precision *p, struct jw *w);

// ---- For suites: the document

void precision_note(struct precision *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Records an input with the hash of its bytes; `source` says how it is made ("threefry normal, key 0").
void precision_add_input(struct precision *p, const char *name, enum dtype type, int rank, const int64_t *dims,
                         const void *data, const char *source);

struct precision_case *precision_case(struct precision *p, const char *section, const char *name, const char *input);
// The results of the case come from the device.
void precision_on_device(struct precision *p, struct precision_case *c);
// Compares n elements and adds the measure. Both are in f64 (precision_doubles). Infinities of one sign agree.
const struct precision_measure *precision_measure(struct precision *p, struct precision_case *c, const char *against,
                                                  const double *reference, const double *result, size_t n);
const struct precision_measure *precision_measure_f32(struct precision *p, struct precision_case *c,
                                                      const char *against, const float *reference, const float *result,
                                                      size_t n);
void precision_number(struct precision *p, struct precision_case *c, const char *name, struct quantity number);
void precision_text(struct precision *p, struct precision_case *c, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void precision_fail(struct precision *p, struct precision_case *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// A failed check makes the answer of the command "no" (exit code 1). `shows` is a sentence: what it proves.
void precision_check(struct precision *p, const char *name, const char *shows, bool ok, const char *expected,
                     const char *got);
void precision_check_text(struct precision *p, const char *name, const char *shows, const char *expected,
                          const char *got); // equal
// |got - expected| <= tolerance; `why` the tolerance is that size.
void precision_check_number(struct precision *p, const char *name, const char *shows, double expected, double got,
                            double tolerance, const char *why);
void precision_check_count(struct precision *p, const char *name, const char *shows, int64_t expected, int64_t got);

// Figures. Titles come without units; those are given apart and shown after them.
struct precision_figure *precision_figure(struct precision *p, const char *name, const char *title,
                                          const char *caption);
struct precision_panel *precision_panel(struct precision *p, struct precision_figure *f, enum precision_panel_kind kind,
                                        const char *title);
void precision_axis_x(struct precision *p, struct precision_panel *panel, const char *title, const char *unit,
                      bool log);
void precision_axis_y(struct precision *p, struct precision_panel *panel, const char *title, const char *unit,
                      bool log);
void precision_category(struct precision *p, struct precision_panel *panel, const char *label);
// `cases`: one per category, NULL where there is none; `n` is the number of categories.
void precision_series(struct precision *p, struct precision_panel *panel, const char *name, const char *quantity,
                      const char *const *cases, size_t n);
void precision_line(struct precision *p, struct precision_panel *panel, const char *name, const char *table,
                    const char *x, const char *y);

struct precision_table *precision_table(struct precision *p, const char *name, const char *title);
// Columns come before cells. unit NULL: a column of texts.
void precision_column(struct precision *p, struct precision_table *t, const char *name, const char *unit,
                      enum origin origin, const char *source);
// Cells in row-major order.
void precision_cell_number(struct precision *p, struct precision_table *t, double v);
void precision_cell_text(struct precision *p, struct precision_table *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// A program of the document, by name (precision_execute adds them).
struct precision_program *precision_program(struct precision *p, const char *name);

// ---- For suites: memory, arithmetic, the device

// n * size bytes of the run's arena; NULL with p->error and err set.
void *precision_alloc(struct precision *p, size_t n, size_t size, struct error *err);
// n elements of any type that convert.h reads, as doubles in the arena. NULL as above.
const double *precision_doubles(struct precision *p, enum dtype type, const void *data, size_t n, struct error *err);
// y[m,n] = x[m,k] w[k,n] in f64, k ascending: the reference. In the arena.
const double *precision_product_f64(struct precision *p, const double *x, const double *w, size_t m, size_t k, size_t n,
                                    struct error *err);

// Dense row-major; elements narrower than a byte take one byte each.
struct precision_array {
    const char *name;
    enum dtype type;
    int rank;
    int64_t dims[WORKER_MAX_RANK];
    const void *data;
};
struct precision_array precision_matrix(const char *name, enum dtype type, size_t rows, size_t columns,
                                        const void *data);
size_t precision_elements(const struct precision_array *a);
size_t precision_bytes(const struct precision_array *a);
// The same array in another type (convert.h: one rounding, ties to even), in the run's arena.
int precision_convert(struct precision *p, const struct precision_array *from, enum dtype type,
                      struct precision_array *to, struct error *err);

// One program, compiled with xla_allow_excess_precision=false, and one run of it.
struct precision_execution {
    const char *name;                   // within the suite; also of the files: programs/SUITE/NAME.mlir
    const struct module *module;        // its parameters are the arguments in order; or
    const char *text;                   // StableHLO
    const struct precision_array *args; // n_args
    size_t n_args;
    size_t samples; // timed runs besides, after a warm-up; 0: none. With options->trace their spans are kept, too
    // Filled in. The data of the outputs is in the arena.
    struct precision_array outputs[PRECISION_OUTPUTS];
    size_t n_outputs;
    const struct precision_program *program;
};
// Starts the worker if none runs. Compiles, uploads, executes, downloads, unloads; adds the program to the document and
// its texts to the record. ERR_DEVICE: refused (the worker lives on: precision_lost says whether it does) or died.
int precision_execute(struct precision *p, struct precision_execution *e, struct error *err);
// Writes the document's traced runs as one profile, trace/plugins/profile/TIME/HOST.xplane.pb in the record, with
// "_LABEL" behind the time unless label is NULL: each program is a step called precision_case, with its name inside.
// Does nothing without a record or without traced programs.
int precision_write_profile(struct precision *p, const char *label, struct error *err);
// For loops: compiles the program and adds it to the document, and leaves it in p->worker, where it is called through
// worker.h. Of e->args only types and shapes matter. The caller unloads and releases *out.
int precision_load(struct precision *p, struct precision_execution *e, struct worker_executable *out,
                   struct error *err);
// The worker is gone: nothing more can run.
bool precision_lost(const struct precision *p);
// "cpu" or the device's kind; starts the worker if none runs. NULL with err set.
const char *precision_device(struct precision *p, struct error *err);
// The plainest program: y[m,n] = x[m,k] w[k,n] on operands as they come, accumulated and returned in `result`, with the
// operand precision asked for. *y is the output, in the arena.
int precision_execute_dot(struct precision *p, const char *name, const struct precision_array *x,
                          const struct precision_array *w, enum dtype result, enum dot_precision precision,
                          size_t samples, struct precision_array *y, const struct precision_program **program,
                          struct error *err);

#endif

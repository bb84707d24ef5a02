// SPDX-License-Identifier: Apache-2.0
// What a workload costs, from its shapes alone: nothing runs, no weights are read.
#ifndef LAB_PRICE_H
#define LAB_PRICE_H

#include "chips/chips.h"
#include "ir/cost.h"
#include "lab/accuracy.h"
#include "lab/predict.h"
#include "models/builtin.h"
#include "models/program.h"
#include "plan/roofline.h"

enum { PRICE_MAX_CHIPS = 32 };

struct price_options {
    const char *workload;     // as model_request takes it
    const char *policy;       // NULL: f32, for FLUX.2 and decoders bf16. Of a product: ERR_USAGE, its name has its type
    const char *const *chips; // or targets ("v6e:2x4"): floors are computed for one device of these
    size_t n_chips;
    const char *const *targets; // what price_predict asks the compiler about
    size_t n_targets;
    const char *plugin;         // the compiler's file; NULL: found by the kind of target
    const char *calibration;    // a record or file of assay.calibration/1: floors also by what was measured; NULL: none
    const char *const *layouts; // of targets of several chips; none: all that there are
    size_t n_layouts;
    struct model_shape shape;
    const char *weights, *inputs; // of a program: files of which the names say what its arguments are; NULL: none
    bool what_if;                 // price_json also says what changes would save
    bool by_scope;                // a row per scope in place of one per module
    bool lenient;                 // a program's text is read as far as it is understood
};

// One program of the request, under the policy.
struct price_part {
    const struct model_part *part;
    struct module module;
    struct cost total; // of one call
    int64_t weight_bytes, scale_bytes;
    int first_row, n_rows;
};

// What the arguments of a program are.
struct price_arguments {
    int n_weights, n_inputs;
    double input_bytes;
    size_t n_unused; // tensors of the weights' file that are none of them
    size_t n_cases;  // that the inputs' file holds; a price is of one
};

// What one target makes of a whole request, and of each of its programs. Times are of a request: of a program that it
// calls four times, of all four.
struct price_prediction {
    struct prediction whole;
    struct prediction *parts; // one for each part of the request; NULL: the program is taken as it is
    // With the weights and the code of all programs in memory, and the rest of the one that needs most: B, NAN where
    // the compiler says nothing.
    double resident_bytes, usable_bytes;
};

struct price {
    struct arena arena;
    const char *workload, *policy; // policy NULL for a product
    struct program_file program;   // path NULL: the workload is none
    struct price_arguments arguments;
    struct model_request request;
    struct price_part parts[MODEL_MAX_PARTS];
    struct cost_row *rows; // of a whole request: a row per group, or per scope, of every part
    int n_rows;
    struct cost total;
    int64_t weight_bytes, scale_bytes, expert_bytes; // expert_bytes: of both, what routed experts have
    const char *note; // how a program is priced; NULL: it is none, or there is nothing to say
    const struct chip *chips[PRICE_MAX_CHIPS];
    struct chip_target targets[PRICE_MAX_CHIPS]; // with their slices; chips is 1 where only a chip was named
    size_t n_chips;
    const char *const *layouts; // as asked for
    size_t n_layouts;
    struct predict_target predict[PREDICT_MAX_TARGETS];
    struct price_prediction *predictions; // of each of options.n_targets one for each layout; NULL: not yet
    size_t n_predictions;
    struct price_options options; // as given; its strings are borrowed
};

// ERR_USAGE for names that are not known, ERR_INPUT for a model's files. Call price_close in any case.
int price_open(struct price *p, const struct price_options *o, struct error *err);
void price_close(struct price *p);

// Cost of row i in a whole request, or of everything for i == n_rows; and its floor on chip k (the total's is the sum
// of the rows').
const struct cost *price_cost(const struct price *p, int i);
int price_floor(struct price *p, int i, size_t k, struct floor *out, struct error *err);
const struct price_part *price_part_of(const struct price *p, int row);

// Asks the compiler about every part of the request on every target, which takes its time; before price_json. Without
// targets nothing is done. An absent compiler is a reason in the predictions, not an error.
int price_predict(struct price *p, const struct progress *progress, struct error *err);

// What somebody measured of this very request on a chip, or, with the name of a part, of that part of it; NULL: nothing
// is known here.
const struct measurement *price_published(const struct price *p, const struct chip *chip, const char *part);

// An element of "predictions".
void price_prediction_json(const struct price *p, const struct price_prediction *k, struct jw *w);

// What is published about this very request and differs from what is computed here, and why; NULL: nothing is known.
const char *price_note(const struct price *p);

// Of a program that was exported (price_program.c). Where the operation table has all of its operations the request is
// filled, and it is priced as any module is (*done false). Else, and when a compiler has been through it, it is priced
// here as it is: instruction by instruction, loops as often as they run.
int price_program(struct price *p, const struct price_options *o, bool *done, struct error *err);

// The `result` object of assay.price/1.
int price_json(struct price *p, struct jw *w, struct error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// Our predictions beside what others have measured and published: how far each method is off, failures included.
#ifndef LAB_ACCURACY_H
#define LAB_ACCURACY_H

#include "base/arena.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/str.h"
#include "chips/chips.h"

enum accuracy_kind {
    ACCURACY_PRODUCT, // one matrix product
    ACCURACY_STAGE,   // a part of a request for an image
    ACCURACY_DECODE,  // a token of a language model at batch 1
    ACCURACY_TRAIN,   // a token of training, for one chip
    ACCURACY_KINDS,
};
const char *accuracy_kind_name(enum accuracy_kind kind);

// What `value` of a measurement is.
enum accuracy_unit { ACCURACY_FLOP_PER_S, ACCURACY_TOKENS_PER_S, ACCURACY_SECONDS };

// A published measurement. All strings are static.
struct measurement {
    const char *what; // "4096 x 4096 x 4096, bf16"
    enum accuracy_kind kind;
    const char *chip;
    const char *workload;         // of price, or for tokens a name of the built-in architectures
    const char *part;             // of the request; NULL: all of it
    int64_t seq;                  // tokens in a sequence, of training
    int64_t height, width, steps; // of an image; 0: of none
    double bits;                  // in which a weight is stored with its scales, of decoding
    enum accuracy_unit unit;
    double value;
    const char *printed; // as the source has it
    struct chip_source from;
    double compiler_s;    // the compiler's floor, where it was asked; 0: not
    const char *compiler; // which, and how the figure comes about
    const char *remark;   // why prediction and measurement differ, where that is known; else NULL
};
// Row i of docs/measurements.json, which is part of the program; NULL past the last.
const struct measurement *accuracy_measurement(size_t i);
// Whether all of that file could be read; ERR_INTERNAL says which row could not.
int accuracy_measurements_check(struct error *err);

enum accuracy_method {
    ACCURACY_SHEET,      // the floor from the specification table
    ACCURACY_COMPILER,   // the floor of the compiled program
    ACCURACY_CALIBRATED, // the sheet's floor over the efficiency that was measured elsewhere, never in this row
    ACCURACY_METHODS,
};
const char *accuracy_method_name(enum accuracy_method method);

struct accuracy_row {
    const struct measurement *m;
    double measured_s;
    struct quantity predicted[ACCURACY_METHODS]; // s [D]; NAN with the reason
    double error[ACCURACY_METHODS];              // predicted / measured - 1; NAN
};

struct accuracy {
    struct arena arena;
    struct accuracy_row *rows;
    size_t n_rows;
};

int accuracy_open(struct accuracy *a, struct error *err);
void accuracy_close(struct accuracy *a);

// The median of the absolute errors of a method, over the rows of a kind (ACCURACY_KINDS: all); *n says of how many.
double accuracy_median(const struct accuracy *a, enum accuracy_kind kind, enum accuracy_method method, size_t *n);

// The `result` object of assay.accuracy/1.
void accuracy_json(const struct accuracy *a, struct jw *w);

#endif

// SPDX-License-Identifier: Apache-2.0
// What a workload costs, from its shapes alone: nothing runs, no weights are read.
#ifndef LAB_PRICE_H
#define LAB_PRICE_H

#include "chips/chips.h"
#include "ir/cost.h"
#include "plan/roofline.h"

enum { PRICE_MAX_CHIPS = 32 };

struct price_options {
    const char *workload;     // as model_module takes it
    const char *policy;       // NULL: f32. A product has its type in its name: giving one as well is ERR_USAGE
    const char *const *chips; // floors are computed for these
    size_t n_chips;
    int64_t batch, seq; // 0: 32 and 128
    bool by_scope;      // a row per scope in place of one per module
};

struct price {
    struct arena arena;
    const char *workload, *policy; // policy NULL for a product
    struct module module;          // under the policy
    struct cost_row *rows;         // a row per group of the module, or per scope
    int n_rows;
    struct cost total;
    int64_t weight_bytes, scale_bytes;
    const struct chip *chips[PRICE_MAX_CHIPS];
    size_t n_chips;
};

// ERR_USAGE for names that are not known, ERR_INPUT for a model's files. Call price_close in any case.
int price_open(struct price *p, const struct price_options *o, struct error *err);
void price_close(struct price *p);

// Cost of row i, or of everything for i == n_rows; and its floor on chip k (the total's is the sum of the rows').
const struct cost *price_cost(const struct price *p, int i);
int price_floor(struct price *p, int i, size_t k, struct floor *out, struct error *err);

// The `result` object of assay.price/1.
int price_json(struct price *p, struct jw *w, struct error *err);

#endif

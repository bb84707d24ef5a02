// SPDX-License-Identifier: Apache-2.0
// What to optimise next: what each change would take off the floor of a request on one device of a chip, and where it
// would take nothing.
#ifndef LAB_PRICE_WHATIF_H
#define LAB_PRICE_WHATIF_H

#include "lab/price.h"

enum { WHAT_IF_MAX = 64, WHAT_IF_MAX_BATCHES = 6 };

struct what_if {
    const char *name;  // "int8 products: dit, the 4 largest"
    bool counted;      // the floors here have it already: what is lost without it
    double rows_us;    // what it takes off the sum of row floors, 0 where the row waits for something else
    double rows_share; // of that sum
    double single_us;  // and off the single floor
    double single_share;
};

struct what_ifs {
    const struct chip *chip;
    struct whole_floor now;
    struct what_if list[WHAT_IF_MAX]; // the most off the sum of row floors first; those counted already last
    int n;
    // From how many in a batch arithmetic of all rows takes longer than their memory, per part; NAN: never, since what
    // grows with the batch takes longer to move than to compute.
    double compute_bound_batch[MODEL_MAX_PARTS];
};

// ERR_INPUT when the chip has no rate for the products.
int price_what_ifs(struct price *p, size_t chip, struct what_ifs *out, struct error *err);
void what_ifs_json(const struct price *p, const struct what_ifs *w, struct jw *j);

// The same workload with other batches: floors of one item.
struct batch_price {
    int64_t batch;
    double rows_us, single_us; // per image, text or sequence
};
// Twice the batch and on, up to WHAT_IF_MAX_BATCHES; fewer where a batch is too large for the model.
int price_batches(const struct price_options *o, struct price *p, size_t chip, struct batch_price *out, int *n,
                  struct error *err);

#endif

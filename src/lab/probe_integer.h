// SPDX-License-Identifier: Apache-2.0
// Integer products: whether sums are exact, and where they wrap, saturate, or pass through something narrower.
#ifndef LAB_PROBE_INTEGER_H
#define LAB_PROBE_INTEGER_H

#include "lab/probe_target.h"

struct probe_integer {
    struct probe_batch evidence;
    bool explained;        // one kind gives every result
    enum dot_integer kind; // the first that does
    size_t rivals;         // others that do as well
    size_t replayed, same; // random dots that the kind reproduces
    bool long_sums;        // dots of 140000 were asked, too
};
enum { PROBE_LONG_SUM = 140000 };

// Asks t; and `longer` (k of PROBE_LONG_SUM; may be NULL) where sums pass 2^24 and 2^31.
int probe_integer_run(struct probe_integer *out, struct probe_target *t, struct probe_target *longer, struct arena *a,
                      struct error *err);
void probe_say_integer(struct str *out, const struct probe_integer *i);

#endif

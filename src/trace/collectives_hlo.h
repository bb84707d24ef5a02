// SPDX-License-Identifier: Apache-2.0
// What an operation's name says of it, and what the HLO in a profile says of its collectives.
#ifndef TRACE_COLLECTIVES_HLO_H
#define TRACE_COLLECTIVES_HLO_H

#include "trace/collectives_group.h"

enum collective_part { COLLECTIVE_NONE, COLLECTIVE_WHOLE, COLLECTIVE_START, COLLECTIVE_DONE };

// "all-reduce-start.3", "ncclDevKernel_AllReduce_...": its kind, one of a fixed list ("copy" only for its start and its
// end), and which part of it. Kind NULL with COLLECTIVE_NONE.
enum collective_part collective_of_name(struct slice name, const char **kind);

struct collective_facts {
    uint64_t program;
    struct slice name;
    const char *kind;
    enum collective_part part;
    struct slice start; // of an end: the name of its start
    int64_t bytes;
    int64_t groups, group_size;        // 0: not said
    const struct trace_group_set *set; // NULL: not known which devices they are
};

// Of all programs in the profile, by program and name; everything in `arena`, which is that of the sets, too. Programs
// that cannot be read are left out.
int collective_facts(const struct trace *t, struct arena *arena, struct trace_group_sets *sets,
                     struct collective_facts **out, size_t *n, struct error *err);
const struct collective_facts *collective_facts_find(const struct collective_facts *facts, size_t n, uint64_t program,
                                                     struct slice name);

#endif

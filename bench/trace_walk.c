// SPDX-License-Identifier: Apache-2.0
// trace_walk FILE   the floor of every analysis: a pass over the file that looks at every event's frame and at nothing
// in it. Prints the number of events.
#include <inttypes.h>
#include <stdio.h>

#include "trace/session.h"

int main(int argc, char **argv)
{
    struct trace t;
    struct error err = {0};
    const char *paths[] = {argc > 1 ? argv[1] : ""};
    uint64_t events = 0;
    if (trace_open(&t, paths, 1, &err)) {
        fprintf(stderr, "trace_walk: %s: %s\n", err.where, err.message);
        return 3;
    }
    for (size_t i = 0; i < t.files[0].space.n_planes; i++) {
        const struct xplane *p = &t.files[0].space.planes[i];
        for (size_t k = 0; k < p->n_lines; k++) {
            struct pb_reader r = pb_reader(p->lines[k].events.data, p->lines[k].events.size);
            struct pb_field f;
            while (pb_next(&r, &f))
                events += pb_is(&f, 4, PB_BYTES);
        }
    }
    printf("%" PRIu64 "\n", events);
    trace_close(&t);
    return 0;
}

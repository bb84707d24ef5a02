// SPDX-License-Identifier: Apache-2.0
#include "plan/mesh.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Of each axis of the slice, how many are left, and how far apart they lie.
struct left {
    int64_t extent[3], apart[3];
};

static int64_t divisor_of_both(int64_t a, int64_t b)
{
    while (b) {
        int64_t c = a % b;
        a = b;
        b = c;
    }
    return a;
}

// The axis to take from for `need` ways: one that is needed whole, untouched before begun, longest first; else the one
// that shares the largest factor. -1: none does.
static int best_axis(const struct network *n, const struct left *left, int64_t need)
{
    int best = -1;
    int64_t best_rank = 1;
    for (int i = 0; i < n->axes; i++) {
        int64_t common = divisor_of_both(need, left->extent[i]);
        bool whole = common == left->extent[i], untouched = left->apart[i] == 1;
        int64_t rank = common > 1 ? common * 8 + (whole ? 4096 * 8 : 0) + (whole && untouched ? 4 : 0) +
                                        (common == need ? 2 : 0) + (n->wraps[i] && whole)
                                  : 0;
        if (rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

static void add_place(struct mesh_way *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_place(struct mesh_way *w, const char *fmt, ...)
{
    size_t at = strlen(w->place);
    va_list ap;
    if (at)
        at += (size_t)snprintf(w->place + at, sizeof w->place - at, " and ");
    va_start(ap, fmt);
    if (at < sizeof w->place)
        vsnprintf(w->place + at, sizeof w->place - at, fmt, ap);
    va_end(ap);
}

// Takes `need` ways of the slice's axes.
static bool take(const struct network *n, struct left *left, int64_t need, struct mesh_way *w)
{
    double share = 1;
    while (need > 1) {
        int axis = best_axis(n, left, need);
        if (axis < 0)
            return false;
        int64_t part = divisor_of_both(need, left->extent[axis]), apart = left->apart[axis];
        bool rest = part == left->extent[axis], wraps = rest && n->wraps[axis];
        struct network *to = &w->network;
        to->extent[to->axes] = (int)part;
        to->wraps[to->axes++] = wraps;
        if (1.0 / (double)apart < share)
            share = 1.0 / (double)apart;
        add_place(w, "%" PRId64 " of axis %d, %s%s", part, axis + 1, apart > 1 ? "a block apart, " : "",
                  wraps ? "a ring" : "a line");
        if (part < 2)
            return false;
        left->extent[axis] /= part;
        left->apart[axis] *= part;
        need /= part;
    }
    w->network.link *= share; // neighbours a block apart share the links between them with the block's
    return true;
}

// Between slices goes the outermost way that they divide.
static int between(const struct mesh *m, int slices)
{
    for (int i = m->n - 1; i >= 0; i--) {
        enum layout_axis a = m->ways[i].axis;
        if (m->ways[i].ways % slices == 0 && (a == LAYOUT_DP || a == LAYOUT_FSDP || a == LAYOUT_PP))
            return i;
    }
    return -1;
}

int mesh_of(const struct network *n, const struct layout *l, struct mesh *out, struct error *err)
{
    static const enum layout_axis order[] = {LAYOUT_TP,   LAYOUT_ULYSSES, LAYOUT_RING, LAYOUT_EP,
                                             LAYOUT_FSDP, LAYOUT_DP,      LAYOUT_PP};
    struct left left = {{0}, {1, 1, 1}};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < n->axes; i++)
        left.extent[i] = n->extent[i];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (l->ways[order[i]] > 1)
            out->ways[out->n++] = (struct mesh_way){.axis = order[i], .ways = l->ways[order[i]]};
    }
    int outer = n->slices > 1 ? between(out, n->slices) : -1;
    if (n->slices > 1 && outer < 0)
        return error_set(
            err, ERR_USAGE, "--layout",
            "%d slices are joined by a network that only dp, fsdp and pp cross in a sensible time; give one "
            "of these a multiple of %d ways",
            n->slices, n->slices);
    for (int i = 0; i < out->n; i++) {
        struct mesh_way *w = &out->ways[i];
        int64_t inside = i == outer ? w->ways / n->slices : w->ways;
        w->network = *n;
        w->network.slices = i == outer ? n->slices : 1;
        w->network.chips = (int)inside;
        w->network.axes = 0;
        w->network.dcn = n->dcn / ((double)n->chips / (double)inside); // all groups go at once
        if (n->axes && !take(n, &left, inside, w))
            return error_set(err, ERR_USAGE, "--layout",
                             "%s=%" PRId64 " cannot be laid on what the other ways leave of a slice of %dx%dx%d",
                             layout_axis_name(w->axis), w->ways, n->extent[0], n->axes > 1 ? n->extent[1] : 1,
                             n->axes > 2 ? n->extent[2] : 1);
        if (!n->axes)
            add_place(w, "%" PRId64 " behind the switch", inside);
        if (i == outer)
            add_place(w, "%d slices", n->slices);
        network_count_links(&w->network);
    }
    return 0;
}

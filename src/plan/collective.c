// SPDX-License-Identifier: Apache-2.0
#include "plan/collective.h"

#include <math.h>

// jax-ml/scaling-book, tpus.md: about 1 us a hop, and 25 GB/s from a machine into the data centre's network.
#define HOP_S     1e-6
#define DCN_BYTES 2.5e10

void network_count_links(struct network *n)
{
    int longest = 0;
    n->fewest_links = 0;
    for (int i = 0; i < n->axes; i++) {
        if (n->extent[i] > 1) // an axis of two has one link, however it is drawn
            n->fewest_links += n->wraps[i] && n->extent[i] > 2 ? 2 : 1;
        if (n->extent[i] > n->extent[longest])
            longest = i;
    }
    n->cut_links = n->axes > 0 && n->wraps[longest] && n->extent[longest] > 2 ? 2 : 1;
    for (int i = 0; i < n->axes; i++)
        n->cut_links *= i == longest ? 1 : n->extent[i];
    if (!n->axes) { // a switch: half the chips send to the other half
        n->fewest_links = n->ports;
        n->cut_links = n->ports * n->chips / 2;
    }
}

int network_of(const struct chip_target *t, struct network *out, struct error *err)
{
    struct quantity link = chip_link(t->chip);
    int slices = t->slices > 1 ? t->slices : 1;
    *out = (struct network){.chips = t->chips / slices,
                            .axes = t->chip->torus_dims,
                            .ports = t->chip->ports,
                            .link = link.value,
                            .slices = slices,
                            .dcn = NAN};
    if (isnan(link.value) || t->chip->ports < 1)
        return error_set(err, ERR_INPUT, t->chip->name, "nothing is published about its links: %s",
                         link.source ? link.source : "no layout can be priced");
    for (int i = 0; i < out->axes && i < 3; i++) {
        out->extent[i] = i < t->dims ? t->shape[i] : 1;
        out->wraps[i] = i < t->dims && chip_target_wraps(t, i);
    }
    if (t->hosts > 0)
        out->dcn = DCN_BYTES * t->hosts / slices;
    network_count_links(out);
    return 0;
}

// Hops that the last byte needs.
static double hops(const struct network *n)
{
    double sum = n->axes ? 0 : 1;
    for (int i = 0; i < n->axes; i++)
        sum += n->wraps[i] ? n->extent[i] / 2 : n->extent[i] - 1;
    return sum;
}

// Bytes that leave each slice for the others.
static double between_slices(const struct network *n, enum collective op, double bytes)
{
    double s = n->slices, share = (s - 1) / s;
    switch (op) {
    case COLLECTIVE_ALL_REDUCE: // reduced inside first, gathered inside afterwards
        return 2 * share * bytes;
    case COLLECTIVE_ALL_TO_ALL:
        return share * bytes / s;
    default:
        return share * bytes;
    }
}

struct collective_cost collective_cost(const struct network *n, enum collective op, double bytes, double count)
{
    double all = (double)n->chips * n->slices, into = (all - 1) / all * bytes, inside = 0;
    struct collective_cost c = {0};
    if (all < 2 || !(bytes > 0))
        return c;
    double links = n->fewest_links > 0 ? n->fewest_links : 1, phases = op == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    double within = n->chips > 1 ? (n->chips - 1.0) / n->chips : 0; // what moves inside a slice
    switch (op) {
    case COLLECTIVE_ALL_TO_ALL:
        c.bytes = into / all;
        if (n->chips > 1) // the narrowest cut, or the links of each chip
            inside = fmax(bytes / n->slices / 4 / (n->cut_links * n->link), c.bytes / (links * n->link));
        break;
    case COLLECTIVE_PERMUTE:
        c.bytes = into;
        inside = within * bytes / n->link;
        break;
    default:
        c.bytes = phases * into;
        inside = phases * within * bytes / (links * n->link);
    }
    c.ports_s = c.bytes / (n->ports * n->link);
    double latency = count * phases * HOP_S * (op == COLLECTIVE_PERMUTE ? all - 1 : hops(n));
    c.topology_s = fmax(inside, latency);
    if (n->slices > 1)
        c.topology_s += between_slices(n, op, bytes) / n->dcn;
    return c;
}

struct collective_cost collective_hand_over(const struct network *n, double bytes, double count)
{
    struct collective_cost c = {.bytes = bytes};
    if (n->chips * n->slices < 2 || !(bytes > 0))
        return (struct collective_cost){0};
    c.ports_s = bytes / (n->ports * n->link);
    c.topology_s = fmax(bytes / n->link, count * HOP_S);
    if (n->slices > 1)
        c.topology_s = fmax(c.topology_s, bytes * n->chips / n->dcn);
    return c;
}

// SPDX-License-Identifier: Apache-2.0
// What collectives cost on a slice: bytes by the usual convention, and times by the links that the slice really has.
//
// Rules (jax-ml/scaling-book, sharding.md), V bytes in the whole array, N chips:
//   all-gather, reduce-scatter   (N-1)/N V into each chip, at best through all links of the chip that has fewest
//   all-reduce                   twice that
//   all-to-all                   a quarter of V crosses the narrowest cut each way: V / 4 / (links across it x one
//   way),
//                                and (N-1)/N V/N goes into each chip
//   permute                      a chip's share over one link
#ifndef PLAN_COLLECTIVE_H
#define PLAN_COLLECTIVE_H

#include "chips/chips.h"

enum collective {
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_PERMUTE, // every chip's share goes round once: N - 1 steps
};

// The links of one slice, and what is between slices.
struct network {
    int chips, axes; // of a slice; axes 0: a switch, every chip with `ports` links into it
    int extent[3];
    bool wraps[3];
    int ports;        // links of a chip, as its sheet says
    double link;      // B/s, one direction of one link
    int slices;       // 1: all in one
    double dcn;       // B/s out of a slice into the network between slices, all its machines together; NAN: not known
    int fewest_links; // of any chip that are used: at a corner of a slice that does not wrap
    int cut_links;    // across the narrowest cut that halves the slice
};

// ERR_INPUT with the reason where nothing is published about the chip's links.
int network_of(const struct chip_target *target, struct network *out, struct error *err);

// Counts fewest_links and cut_links anew, from extents, wraps and ports.
void network_count_links(struct network *n);

struct collective_cost {
    double bytes;      // into each chip
    double ports_s;    // these bytes through all ports of a chip at once: what a torus that wraps everywhere could do
    double topology_s; // by the links of this slice, and between slices; at least the hops' latency
};
// `bytes` in all whole arrays together, moved by `count` collectives. 1 us a hop.
struct collective_cost collective_cost(const struct network *n, enum collective op, double bytes, double count);

// `bytes` from every chip of a stage to its like in the next, `count` times: over one link, or between slices.
struct collective_cost collective_hand_over(const struct network *n, double bytes, double count);

#endif

// SPDX-License-Identifier: Apache-2.0
// Calibration: the range of an activation from batches of representative data, and what that range then does to data it
// has not seen. Which items were used for which is a split; it is recorded, and no item is on both sides.
#ifndef NUM_CALIBRATE_H
#define NUM_CALIBRATE_H

#include "base/json.h"
#include "num/quantize.h"

// Bins of the histogram of each sign. A percentile is exact to one bin: 1/4096 of the largest magnitude at worst. The
// bins are powers of two wide and pairs of them are merged as the range grows, so the order of batches does not matter.
#define CALIBRATE_BINS 8192

struct calibration; // one running range

// The spec says how the range is found (quant_spec.from and search) and what scale follows; its granularity must be per
// tensor (ERR_USAGE). Absolute maxima need no histogram; FROM_ERROR takes every value at the middle of its bin.
// free() accepts NULL.
struct calibration *calibration_new(const struct quant_spec *spec, const char *name, struct error *err);
void calibration_free(struct calibration *c);
// One batch. Values that are not finite are refused (ERR_INPUT), or counted and left out, as the spec says.
int calibration_add(struct calibration *c, const float *x, size_t n, struct error *err);

struct calibration_result {
    size_t batches, values, nonfinite;
    double low, high;           // of all finite values seen
    double used_low, used_high; // what the scale covers was made from; 0 is inside
    float scale;
    int32_t zero;
    bool scale_raised, scale_lowered; // see quant_spec.scale_type
};
// ERR_INPUT when no finite value was added: there is nothing to calibrate on.
int calibration_finish(const struct calibration *c, struct calibration_result *out, struct error *err);

// What a fixed scale does to a batch, counted up over calls: initialise with {0}. `beyond` is the largest distance of a
// finite value from what the codes can represent, in units of x (0 when nothing was clipped).
struct calibration_clipping {
    size_t values, nonfinite, clipped;
    double beyond;
};
int calibration_clip(const struct quant_spec *spec, float scale, int32_t zero, const float *x, size_t n,
                     struct calibration_clipping *counts, const char *name, struct error *err);
// {"batches", "values", "nonfinite", "low", "high", "used_low", "used_high", "scale", "zero_point"}: one object.
void calibration_json(const struct calibration_result *r, struct jw *w);
// {"values", "nonfinite", "clipped", "clipped_share", "largest_beyond"}
void calibration_clipping_json(const struct calibration_clipping *c, struct jw *w);

// Which items calibrate and which are held out, by the SHA-256 of their content.
enum split_role { SPLIT_CALIBRATE, SPLIT_HELD_OUT };
struct split_item;
struct split {
    struct split_item *items;
    size_t n, capacity;
    size_t *slots; // hash table of indices into items, plus 1
    size_t n_slots;
};
void split_init(struct split *s);
void split_release(struct split *s);
// Adds the n bytes of an item. `name` is for people (a file and line). ERR_INPUT when the same content has the other
// role already: the message names both. The same content twice in one role is one item of two names, and is counted.
int split_add(struct split *s, enum split_role role, const char *name, const void *bytes, size_t n, struct error *err);
size_t split_count(const struct split *s, enum split_role role);
// The role that content would get when a data set is divided: held out for a share of all contents that is
// `held_out_share` (0..1) on average, chosen by the hash alone. So equal contents always fall on one side, and adding
// items moves none.
int split_choose(const void *bytes, size_t n, double held_out_share, enum split_role *role, struct error *err);
// {"rule", "calibrate": {"items", "duplicates", "sha256"}, "held_out": {...}}; sha256 is that of the sorted hashes of
// the side, one hexadecimal hash and a line feed each. With `list` each side also has "list": [{"name", "sha256"}].
int split_json(const struct split *s, bool list, struct jw *w, struct error *err);

#endif

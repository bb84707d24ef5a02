// SPDX-License-Identifier: Apache-2.0
// What is published about accelerators: every value with its source and date, and the other values seen for it.
// The table itself is chips_data.c; to add a chip, add a row there.
#ifndef CHIPS_CHIPS_H
#define CHIPS_CHIPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/str.h"

// Element types that products have a rate for.
enum chip_type { CHIP_F64, CHIP_F32, CHIP_F16, CHIP_BF16, CHIP_FP8, CHIP_INT8, CHIP_FP4, CHIP_INT4, CHIP_TYPES };

// Where something was read.
struct chip_source {
    const char *link; // a URL
    const char *date; // of the page or snapshot read, YYYY-MM-DD
    const char *cite; // both in one string: what a quantity carries
};

// Another value that was seen, in the unit of the chip_value it belongs to. NAN: the source says there is none.
struct chip_reading {
    double value;
    const char *printed; // as the source has it: "16 GB", "1600 Gbps"
    struct chip_source from;
};

// The value we use, and what else was seen.
struct chip_value {
    double value; // NAN where none is known
    const char *unit;
    enum origin origin;  // S; D where it follows from printed values; M for `local`
    const char *printed; // S: as the source has it. D: the formula. NULL where there is no value
    const char *note;    // why there is none, or how the printed value was read; else NULL
    struct chip_source from;
    const struct chip_reading *others; // ended by a row without `printed`; NULL: none
};

// What is told in words, or counted.
struct chip_fact {
    const char *text; // NULL: not known
    struct chip_source from;
};

// When does an axis of a slice close into a ring? Never implied by the generation alone.
enum chip_wrap {
    CHIP_WRAP_NONE,    // no torus, or not documented
    CHIP_WRAP_FULL_16, // an axis of length 16 only (v5e, v6e)
    CHIP_WRAP_CUBES,   // every axis, in slices whose axes are all multiples of 4 (v4, v5p, tpu7x)
};

struct chip {
    const char *name;
    const char *const *aliases; // ended by NULL; case does not matter
    const char *vendor;
    const char *device_kind; // as PJRT reports it; NULL where that is not known
    bool is_tpu;

    // Counting: what the figures below are divided by.
    int devices_per_chip; // as JAX and PJRT count
    int cores_per_chip;   // of the kind that core_name says; 0: not known
    const char *core_name;
    int torus_dims; // axes of a slice: 2 or 3; 0: not a torus
    int ports;      // links per chip; a GPU has one, into its switch; 0: not known
    enum chip_wrap wrap;
    int pod_chips;              // largest slice; 0: not known
    struct chip_source counted; // where these counts stand

    const char *const *slices;       // shapes in use, "2x4"; ended by NULL; NULL: not known
    struct chip_fact naming;         // what the number in an accelerator's name counts ("v5p-8")
    struct chip_fact mxu;            // matrix units of one core
    struct chip_fact host;           // the machine it is sold in
    unsigned pci_vendor, pci_device; // 0: not known

    struct chip_value rate[CHIP_TYPES]; // FLOP/s or OP/s; per chip, dense, a multiply-add counts as two
    struct chip_value memory;           // B, nominal, per chip
    struct chip_value memory_usable;    // B, what XLA will fill, per device
    struct chip_value bandwidth;        // B/s of that memory, per chip
    struct chip_value vmem;             // B of vector memory, per core
    struct chip_value interconnect;     // B/s, all links, both directions, per chip
    struct chip_value link;             // B/s, one direction of one link
    struct chip_value network;          // B/s of the data-centre network, one direction, per chip
    struct chip_value pcie;             // B/s between host and chip, one direction, per chip
    struct chip_value power;            // W, per chip
};

enum chip_scope { CHIP_PER_CHIP, CHIP_PER_DEVICE };

size_t chip_count(void);
const struct chip *chip_at(size_t i); // in the order of the table; `local` is the last

// By name, alias or device kind, in any case; a TARGET ("v6e:2x4", "v5p-8") picks its chip. ERR_USAGE lists what there
// is and the nearest name. `local` gives the row without values; see local.h for one with values.
int chip_find(const char *name, const struct chip **out, struct error *err);
// The same without a message: NULL when there is none. For strings that come from a plugin.
const struct chip *chip_by_device_kind(const char *device_kind);
// Appends "v2, v3, ..., local".
void chip_list_names(struct str *out);
// One name per line: what a shell completes.
void chip_words(struct str *out);

// "bf16", "int8", and the names of element types that run at that rate ("s8", "u8", "f8e4m3fn", ...).
// CHIP_TYPES when products of that type have no row of their own.
enum chip_type chip_type_from_name(const char *name);
const char *chip_type_name(enum chip_type type);

// Numbers with their origin. NAN with the reason as source where none is published. What is known per chip is divided
// for CHIP_PER_DEVICE, and the other way round, as [D].
struct quantity chip_rate(const struct chip *chip, enum chip_type type, enum chip_scope scope);
struct quantity chip_bandwidth(const struct chip *chip, enum chip_scope scope);
struct quantity chip_memory(const struct chip *chip, enum chip_scope scope);
struct quantity chip_memory_usable(const struct chip *chip, enum chip_scope scope);
// FLOP/B above which products of `type` are bound by arithmetic: rate / bandwidth.
struct quantity chip_ridge(const struct chip *chip, enum chip_type type);
struct quantity chip_link(const struct chip *chip);         // one direction of one link
struct quantity chip_interconnect(const struct chip *chip); // all links, both directions
struct quantity chip_value_quantity(const struct chip_value *v);

// A slice, or several of them: "v6e:2x4", "h100:8", "tpu7x" (one chip), "v5p-8" (as the cloud calls it: 8 TensorCores,
// which are 4 chips), "v5e:16x16*2" (two slices, which only the data-centre network connects). On TPUs the extents are
// those of the torus of one slice.
struct chip_target {
    const struct chip *chip;
    int dims; // 0 when only a chip was named: then chips is 1
    int shape[3];
    int slices;         // 1 or more
    int chips;          // of all slices
    int devices;        // chips * devices_per_chip
    int chips_per_host; // 0: not known
    int hosts;          // virtual machines that the chips are in; 0: not known
};
// ERR_USAGE for a slice that nobody can rent, with the shapes that exist.
int chip_target_parse(const char *text, struct chip_target *out, struct error *err);
// "v6e:2x4", in the form that is parsed; the chip alone where no shape was given.
void chip_target_spell(const struct chip_target *target, struct str *out);
// Whether this axis of the slice closes into a ring.
bool chip_target_wraps(const struct chip_target *target, int axis);

// Members of an open object: "bandwidth" of one device, and "peaks" with the rate of each type.
void chip_peaks_json(const struct chip *chip, struct jw *w);

#endif

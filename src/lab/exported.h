// SPDX-License-Identifier: Apache-2.0
// A program that somebody exported, with the weights and the inputs that it is given: what bench and qualify run of it.
#ifndef LAB_EXPORTED_H
#define LAB_EXPORTED_H

#include "io/checkpoint.h"
#include "io/npz.h"
#include "ir/module.h"
#include "ir/policy.h"
#include "models/program.h"
#include "num/calibrate.h"

enum { EXPORTED_MAX_CASES = 4096 };

struct exported_options {
    const char *path;        // of the program
    const char *weights;     // safetensors or GGUF, NULL: none
    const char *inputs;      // .npz or .npy, NULL: random ones
    const char *weight_args; // "N..M", NULL: those that a tensor of `weights` is named like
    uint64_t seed;           // of random inputs
    bool lenient;            // what is not understood of a program's text is left out
};

// Where the bytes of an argument come from.
enum argument_source { ARGUMENT_TENSOR, ARGUMENT_ARRAY, ARGUMENT_RANDOM };

struct argument {
    const char *name; // of the parameter: any characters; escape it
    struct shape shape;
    enum param_role role;
    enum argument_source source;
    const char *from; // name of the tensor or array; NULL for a random one
    bool per_case;    // the array has a dimension for the cases in front
    const void *data; // of an array or an integer tensor, in the parameter's type, case after case; NULL else
};

struct exported {
    struct program program;
    struct module module; // as policies rewrite it; weights are bound to the tensors of the checkpoint
    struct argument *arguments;
    int n_arguments;
    size_t n_cases;          // sets of inputs, 1 where none has a dimension for them
    size_t values;           // elements of all results of one case
    size_t n_unused;         // tensors of the checkpoint that no argument is named like
    bool has_weights;        // some weight has a tensor
    bool names_only;         // exported_roles: no data was read, so that no argument has any
    const char *inputs_path; // as given; NULL: random
    uint64_t seed;
    struct exported_options options; // as given
};

// Reads program, weights and inputs; `checkpoint` is opened where weights are given (*opened says so, and it is then
// the caller's to close). Everything else lives in the arena.
//
// A weight is an argument of `weight_args`; without these every argument is one that a tensor is named like. Names are
// compared by their parts ("params['layers'][0]['w']", "layers.0.w" and "layers_0_w" agree): the parts of the tensor's
// must be the last of the argument's, and the tensor with most parts counts. A checkpoint whose tensors are all called
// 0, 1, ... gives the weights by position. An array of the inputs is found in the same way among all other arguments,
// and arr_0, arr_1, ... (as np.savez calls arrays without a name) are these by position. Types and shapes must be the
// argument's; a float of 16 bits may stand for a wider one and an integer for another that holds all its values. Arrays
// may have one dimension more in front, of the same extent in all that have it: that many cases.
//
// ERR_INPUT, ERR_USAGE; messages name the argument, and what there is.
int exported_open(struct exported *e, const struct exported_options *o, struct checkpoint *checkpoint, bool *opened,
                  struct arena *arena, struct error *err);

// The same for what only prices: from names, types and shapes of weights and inputs, of which no data is read. A tensor
// of integers is then a weight like others, since it is stored like them. Programs that cannot be rewritten have roles,
// too: `*rewritable` is false and *why says why; `module` is then empty. All of it lives in the arena.
int exported_roles(struct exported *e, const struct exported_options *o, struct arena *arena, bool *rewritable,
                   struct error *why, struct error *err);

// The bytes of argument i, an input, for one case into dst (shape_bytes): those given, or random ones by
// random_argument.
int exported_argument(const struct exported *e, int i, size_t which, void *dst, struct error *err);

// Adds every case to the split by the hash of all its inputs, under the name of the inputs and its number.
int exported_split(const struct exported *e, struct split *split, enum split_role role, struct error *err);

// Refuses what random inputs would make meaningless: integers (ERR_USAGE names the argument and, where it is an index,
// says so). For what looks at results; a clock does not mind.
int exported_check_random(const struct exported *e, struct error *err);

// Whether a policy can change anything of it: ERR_INPUT says why not (floats of 8 bits; neither a product nor a
// weight).
int exported_check_policies(const struct exported *e, struct error *err);

// Whether the policy's codes for weights would be made at all: ERR_USAGE says why not.
int exported_check_codes(const struct exported *e, const struct policy *p, struct error *err);

// Looks for what is not finite among weights and inputs and says where the first is ("weight ... holds 3 values that
// are not finite"); "" when there is none.
int exported_find_nonfinite(const struct exported *e, const struct checkpoint *checkpoint, char out[320],
                            struct error *err);

// How many tokens the input "attention_mask" of the first `cases` says are none of padding.
int64_t exported_mask_rows(const struct exported *e, size_t cases);

// Random bytes for an argument: uniform in [-1, 1) for floats (so that no sum overflows f16), -127 to 127 for integers
// of 8 bits, ones for an attention_mask, 1000 to 20999 for other integers of 32 bits (tokens), 0 or 1 for the rest.
int random_argument(const struct shape *s, const char *name, uint64_t seed, void *dst, struct error *err);

#endif

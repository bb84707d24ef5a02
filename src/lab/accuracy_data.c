// SPDX-License-Identifier: Apache-2.0
// Measurements that others published, each with its source and the day it was read. To add one: add a row. Figures
// stand as the source has them; what they are compared with is computed by this program, never typed in. Rows are not
// chosen by how well they fit.
#include "lab/accuracy.h"

#include <stddef.h>

#define SOURCE(link, day)                                                                                              \
    {                                                                                                                  \
        link, day, link " (" day ")"                                                                                   \
    }
// The best of many shapes that were tried; mean of 100 runs, caches cleared between them.
#define SWEEP    SOURCE("https://github.com/stas00/ml-engineering/tree/master/compute/accelerator", "2026-11-29")
#define MAXTEXT  SOURCE("https://maxtext.readthedocs.io/en/maxtext-v0.2.2/reference/models/tiering.html", "2026-11-29")
#define GPT_FAST SOURCE("https://github.com/pytorch-labs/gpt-fast", "2026-11-29")
#define KLEIN    SOURCE("\"One TPU chip, one image: klein-4B on a Colab v6e-1\", notes of a JAX port", "2026-11-29")
#define KLEIN_L4 SOURCE("\"One TPU chip, one image: klein-4B on a Colab v6e-1\", section on the L4", "2026-11-29")

#define PRODUCT(chip, m, k, n, type, tera, text, from)                                                                 \
#m " x " #k " x " #n ", " type, ACCURACY_PRODUCT, chip, "gemm:" #m "x" #k "x" #n ":" type, NULL, 0, 0,             \
        ACCURACY_FLOP_PER_S, (tera)*1e12, text, from
#define STAGE(chip, name, part, ms, text, from)                                                                        \
    "klein-4B, 512 x 512: " name, ACCURACY_STAGE, chip, "builtin:flux2-klein-4b", part, 0, 0, ACCURACY_SECONDS,        \
        (ms)*1e-3, text, from
#define DECODE(chip, model, name, bits, rate, text, from)                                                              \
    name ", one sequence", ACCURACY_DECODE, chip, model, NULL, 0, bits, ACCURACY_TOKENS_PER_S, rate, text, from
#define TRAIN(chip, model, name, seq, rate, text, from)                                                                \
    name ", sequences of " #seq, ACCURACY_TRAIN, chip, model, NULL, seq, 0, ACCURACY_TOKENS_PER_S, rate, text, from
#define NO_COMPILER 0, NULL

#define HELD_BACK                                                                                                      \
    "2.3 times the floor of the compiler's own code, so the difference is not in the code but in how it is run: a "    \
    "shared virtual machine, where other products of this chip reach no more either"
#define HOST                                                                                                           \
    "the host feeds the device: its profile shows the matrix units idle for 85 % of this stage, which no floor knows"
#define EXPERTS                                                                                                        \
    "every expert is read and routed, and tokens are sent between chips: the floor has the active ones alone"

// clang-format off
static const struct measurement table[] = {
    {PRODUCT("v6e", 4096, 4096, 4096, "bf16", 380.1, "380.1 TFLOP/s", KLEIN), 154.6423e-6,
     "libtpu 0.0.52: 11,276 bundles x 24 iterations = 270,624 cycles at 1750 MHz", HELD_BACK},
    {PRODUCT("l4", 4096, 4096, 4096, "bf16", 80.6, "80.6 TFLOP/s", KLEIN_L4), NO_COMPILER,
     "inferred: a board of 72 W does not hold its highest clock under load"},
    {PRODUCT("a100", 1024, 5120, 10240, "bf16", 271.2, "271.2 TFLOPS", SWEEP), NO_COMPILER, NULL},
    {PRODUCT("h100", 2048, 13312, 2048, "bf16", 794.5, "794.5 TFLOPS", SWEEP), NO_COMPILER, NULL},
    {PRODUCT("mi300x", 10240, 8192, 15360, "bf16", 668.4, "668.4 TFLOPS", SWEEP), NO_COMPILER,
     "the first version of the same table has 781.9 for another shape: which library made it matters more than the shape"},
    {PRODUCT("mi300x", 4096, 10240, 4864, "bf16", 781.9, "781.9 TFLOPS (first version of the table)", SWEEP), NO_COMPILER, NULL},

    {STAGE("v6e", "text encoder", "text", 104.8, "104.8 ms", KLEIN), NO_COMPILER, HOST},
    {STAGE("v6e", "four steps", "dit", 158.1, "158.1 ms", KLEIN), NO_COMPILER, NULL},
    {STAGE("v6e", "image decoder", "vae", 14.4, "5.5 % of 262 ms", KLEIN), NO_COMPILER, NULL},
    {STAGE("v6e", "the whole request", NULL, 262, "0.262 s", KLEIN), NO_COMPILER, HOST},
    {STAGE("l4", "four steps", "dit", 1385.1, "1385.1 ms", KLEIN_L4), NO_COMPILER, NULL},

    {DECODE("a100", "llama-2-7b",  "Llama 2 7B, bf16",                 16, 104.9,  "104.9 tokens/s", GPT_FAST), NO_COMPILER, NULL},
    {DECODE("a100", "llama-2-7b",  "Llama 2 7B, int8 weights",          8, 155.58, "155.58 tokens/s", GPT_FAST), NO_COMPILER,
     "half the bytes of bf16, 1.5 times its speed: what is not weights does not shrink"},
    {DECODE("a100", "llama-2-7b",  "Llama 2 7B, int4 in groups of 32",  5, 196.80, "196.80 tokens/s", GPT_FAST), NO_COMPILER,
     "a third of the bytes of bf16, 1.9 times its speed: the same, and codes have to be unpacked"},
    {DECODE("a100", "llama-2-70b", "Llama 2 70B, int8 weights",         8, 19.13,  "19.13 tokens/s", GPT_FAST), NO_COMPILER, NULL},
    {DECODE("a100", "llama-2-70b", "Llama 2 70B, int4 in groups of 32", 5, 25.25,  "25.25 tokens/s", GPT_FAST), NO_COMPILER, NULL},

    {TRAIN("v6e", "llama-2-70b",    "Llama 2 70B on 256 chips",    4096, 900,  "900 tokens/s/device", MAXTEXT), NO_COMPILER, NULL},
    {TRAIN("v6e", "llama-3.1-8b",   "Llama 3.1 8B on 256 chips",   8192, 7207, "7,207 tokens/s/device", MAXTEXT), NO_COMPILER, NULL},
    {TRAIN("v6e", "llama-3.1-70b",  "Llama 3.1 70B on 256 chips",  8192, 960,  "960 tokens/s/device", MAXTEXT), NO_COMPILER, NULL},
    {TRAIN("v6e", "llama-3.1-405b", "Llama 3.1 405B on 256 chips", 8192, 123,  "123 tokens/s/device", MAXTEXT), NO_COMPILER,
     "inferred: to fit, activations are computed a second time, which the floor has not"},
    {TRAIN("v6e", "mixtral-8x7b",   "Mixtral 8x7B on 256 chips",   4096, 3899, "3,899 tokens/s/device", MAXTEXT), NO_COMPILER, EXPERTS},
    {TRAIN("v6e", "mixtral-8x22b",  "Mixtral 8x22B on 256 chips",  4096, 1326, "1,326 tokens/s/device", MAXTEXT), NO_COMPILER, EXPERTS},
    {TRAIN("v5p", "llama-2-70b",    "Llama 2 70B on 512 chips",    4096, 692,  "692 tokens/s/device", MAXTEXT), NO_COMPILER, NULL},
    {TRAIN("v5p", "mixtral-8x7b",   "Mixtral 8x7B on 256 chips",   4096, 2909, "2,909 tokens/s/device", MAXTEXT), NO_COMPILER, NULL},
};
// clang-format on

const struct measurement *accuracy_measurement(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

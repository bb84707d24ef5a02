// SPDX-License-Identifier: Apache-2.0
// Options that several commands take, as rows for their tables, so that they mean and say the same everywhere.
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/command.h"

// clang-format off
#define OPTION_TRACE(what)                                                                                             \
    {.name = "trace", .kind = OPTION_FLAG,                                                                             \
     .help = "make a profile of a few warmed steps of " what ", after all samples are taken; it is in the record"}
#define OPTION_RUN_DIR                                                                                                 \
    {.name = "run-dir", .kind = OPTION_STRING, .argument = "DIR",                                                      \
     .help = "where the record is written; must not exist; runs/COMMAND-YYYYMMDD-HHMMSS-PID when not given"}
#define OPTION_SEED                                                                                                    \
    {.name = "seed", .kind = OPTION_SEED64, .argument = "N", .preset = "0",                                            \
     .help = "start of every random stream, up to 2^64-1"}
#define OPTION_THREADS                                                                                                 \
    {.name = "threads", .kind = OPTION_INT, .argument = "N", .min = 1, .max = 4096,                                    \
     .help = "threads to compute with; as many as the process may run on when not given"}
#define OPTION_SAMPLES(n)                                                                                              \
    {.name = "samples", .kind = OPTION_INT, .argument = "N", .preset = n, .min = 1, .max = 1e6,                        \
     .help = "timed runs after the warm-up; every one is kept"}
#define OPTION_WARMUP                                                                                                  \
    {.name = "warmup", .kind = OPTION_INT, .argument = "N", .min = 0, .max = 1e6,                                      \
     .help = "runs before the timed ones; until times no longer fall when not given"}
#define OPTION_TIMEOUT                                                                                                 \
    {.name = "timeout", .kind = OPTION_DOUBLE, .argument = "S", .min = 1e-3, .max = 1e6,                               \
     .help = "seconds that one step on the device may take; 20 to load and 300 to compile when not given"}
#define OPTION_KERNELS                                                                                                 \
    {.name = "kernels", .kind = OPTION_STRING, .preset = "on", .choices = "on off",                                    \
     .help = "whether our own CPU kernels may take over parts of the program"}
#define OPTION_KERNELS_PAIR                                                                                            \
    {.name = "kernels", .kind = OPTION_STRINGS, .preset = "on", .choices = "on off",                                   \
     .help = "whether our own CPU kernels may take over parts of the program; twice to compare with and without"}
#define OPTION_REQUIRE                                                                                                 \
    {.name = "require", .kind = OPTION_STRING, .argument = "EXPR",                                                     \
     .help = "what must hold, for example 'rel_l2<=0.01 and p50_ms<=20'; written down before anything is measured; "   \
             "exit 1 when it does not hold"}
#define OPTION_FORMAT(list)                                                                                            \
    {.name = "format", .kind = OPTION_STRING, .preset = "text", .choices = list, .help = "form of the output"}
#define OPTION_PLUGIN                                                                                                  \
    {.name = "plugin", .kind = OPTION_STRING, .argument = "PATH", .complete = COMPLETE_FILE,                           \
     .help = "the PJRT plugin itself; found through ASSAY_PLUGIN_PATH and beside the program when not given"}
#define OPTION_DEVICE                                                                                                  \
    {.name = "device", .kind = OPTION_STRING, .argument = "DEVICE", .preset = "cpu",                                   \
     .help = "where it runs: cpu, gpu, tpu, or one of several as in tpu:0"}
#define OPTION_CHIP                                                                                                    \
    {.name = "chip", .kind = OPTION_STRINGS, .argument = "CHIP", .words = chip_words,                                  \
     .help = "predict the floor on one device of this chip; `local` is this machine after `assay bench --calibrate`"}
#define OPTION_POLICY                                                                                                  \
    {.name = "policy", .kind = OPTION_STRING, .argument = "POLICY", .preset = "f32", .words = policy_words,            \
     .help = "a preset (f32, bf16, f16, w8a16, w8a8, w4a16, fp8) or a spelled-out policy"}
#define OPTION_POLICIES(what)                                                                                          \
    {.name = "policy", .kind = OPTION_STRINGS, .argument = "POLICY", .preset = "f32", .words = policy_words,           \
     .help = what}
#define OPTION_MATMUL_PRECISION                                                                                        \
    {.name = "matmul-precision", .kind = OPTION_STRING, .preset = "highest", .choices = "default high highest",        \
     .help = "what f32 products are formed from: one product of bf16 operands (default), three (high), or f32; "       \
             "emulated on a CPU, which has only the last"}
#define OPTION_TARGETS                                                                                                 \
    {.name = "target", .kind = OPTION_STRINGS, .argument = "TARGET", .words = chip_words,                              \
     .help = "chip and shape (v6e:2x4, tpu7x): three predictions side by side, by its sheet, by its compiler ahead of " \
             "time, by what was measured"}
#define OPTION_CALIBRATION                                                                                             \
    {.name = "calibration", .kind = OPTION_STRING, .argument = "RECORD", .complete = COMPLETE_FILE,                    \
     .help = "rates that were measured: the record of `assay bench --calibrate`, or its calibration.json; floors by "  \
             "these, as the chip `calibrated`"}
#define OPTION_TEXT(what)                                                                                              \
    {.name = "text", .kind = OPTION_STRING, .argument = "FILE", .complete = COMPLETE_FILE, .help = what}
// `n`: the preset, or NULL where `what` says what holds when it is not given.
#define OPTION_BATCH(n, what)                                                                                          \
    {.name = "batch", .kind = OPTION_INT, .argument = "N", .preset = n, .min = 1, .max = 65536, .help = what}
#define OPTION_SEQ(n, what)                                                                                            \
    {.name = "seq", .kind = OPTION_INT, .argument = "N", .preset = n, .min = 2, .max = 65536, .help = what}
#define OPTION_IMAGE                                                                                                   \
    {.name = "height", .kind = OPTION_INT, .argument = "N", .min = 1, .max = 65536,                                    \
     .help = "of an image; 512 when not given"},                                                                       \
    {.name = "width", .kind = OPTION_INT, .argument = "N", .min = 1, .max = 65536,                                     \
     .help = "of an image; 512 when not given"},                                                                       \
    {.name = "steps", .kind = OPTION_INT, .argument = "N", .min = 1, .max = 65536,                                     \
     .help = "of an image; as many as the model is made for when not given"}
// `when`: "" or "with --stages: ".
#define OPTION_LAYERS(when)                                                                                            \
    {.name = "layers", .kind = OPTION_STRING, .preset = "auto", .choices = "auto loop written",                        \
     .help = when "layers that repeat as a loop over stacked weights, all written out, or as suits the device: auto "  \
                  "makes loops of an image model's on a TPU"}
#define OPTION_TOKENS                                                                                                  \
    {.name = "tokens", .kind = OPTION_INT, .argument = "N", .min = 1, .max = 1048576,                                  \
     .help = "that a decoder writes behind its prompt; 128 when not given"}
#define OPTION_WEIGHT_ARGS                                                                                             \
    {.name = "weight-args", .kind = OPTION_STRING, .argument = "N..M",                                                 \
     .help = "of a program: which arguments are weights, counted from 0; policies store these, all others are inputs"}
#define OPTION_WEIGHTS                                                                                                 \
    {.name = "weights", .kind = OPTION_STRING, .argument = "FILE", .complete = COMPLETE_FILE,                          \
     .help = "of a program: its weights (safetensors), found by the names of its arguments or, where the tensors are " \
             "called 0, 1, ..., by position"}
#define OPTION_INPUTS                                                                                                  \
    {.name = "inputs", .kind = OPTION_STRING, .argument = "FILE", .complete = COMPLETE_FILE,                           \
     .help = "of a program: its other arguments (.npz, .npy), by name or by position; one dimension more in front is "   \
             "as many cases; random floats from --seed when not given"}
// `n`: the preset; 0 is all.
#define OPTION_TOP(n, what)                                                                                            \
    {.name = "top", .kind = OPTION_INT, .argument = "N", .preset = n, .min = 0, .max = 1e9, .help = what}
// clang-format on

#endif

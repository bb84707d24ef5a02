// SPDX-License-Identifier: Apache-2.0
// The one list of commands, in the order in which help shows them.
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/command.h"

#define COMMANDS(X)                                                                                                    \
    X(accuracy)                                                                                                        \
    X(bench)                                                                                                           \
    X(budget)                                                                                                          \
    X(check)                                                                                                           \
    X(chips)                                                                                                           \
    X(compile)                                                                                                         \
    X(completion)                                                                                                      \
    X(cost)                                                                                                            \
    X(devices)                                                                                                         \
    X(embed)                                                                                                           \
    X(help)                                                                                                            \
    X(image)                                                                                                           \
    X(ladder)                                                                                                          \
    X(precision)                                                                                                       \
    X(price)                                                                                                           \
    X(probe)                                                                                                           \
    X(qualify)                                                                                                         \
    X(quantize)                                                                                                        \
    X(report)                                                                                                          \
    X(trace_capture)                                                                                                   \
    X(trace_collectives)                                                                                               \
    X(trace_convert)                                                                                                   \
    X(trace_diff)                                                                                                      \
    X(trace_memory)                                                                                                    \
    X(trace_merge)                                                                                                     \
    X(trace_modules)                                                                                                   \
    X(trace_ops)                                                                                                       \
    X(trace_source)                                                                                                    \
    X(trace_steps)                                                                                                     \
    X(trace_summary)                                                                                                   \
    X(trace_timeline)

#define DECLARE(name) extern const struct command command_##name;
COMMANDS(DECLARE)
#undef DECLARE

extern const struct command *const commands[]; // ended by NULL

#endif

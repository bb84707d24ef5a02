// SPDX-License-Identifier: Apache-2.0
// What all commands about profiles share: how they are named, and what becomes of damage.
#ifndef CLI_TRACE_INPUT_H
#define CLI_TRACE_INPUT_H

#include "cli/command.h"
#include "report/table.h"
#include "trace/session.h"

#define TRACE_INPUT_TEXT                                                                                               \
    "PATH is a profile (*.xplane.pb, or a trace in Chrome's JSON; also packed by gzip), several of them, or a "        \
    "directory: one with profiles in it, or one with runs below plugins/profile, of which the newest is taken. A "     \
    "damaged file is used as far as it goes; the place is named and the exit code is 3."

// Opens the operands, and says which run was taken where there was a choice. Close it even after an error.
int trace_input(struct cli *cli, struct trace *t, struct error *err);
// ERR_INPUT naming the first damaged file and the place in it; 0 when all are whole.
int trace_damage(const struct trace *t, struct error *err);

// Whether the answer is a document: --json, or --format json.
bool trace_wants_json(const struct cli *cli);
// Puts the document into cli->out whose `result` fill writes from `of`; damage stands beside it. The exit code is
// trace_damage's to give.
int trace_document(struct cli *cli, struct trace *t,
                   int (*fill)(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err), void *of,
                   struct error *err);
// The form of tables, as --format says; text where it asks for a document.
enum table_format trace_format(const struct cli *cli);
// How many rows --top asks for, 0 for all: a CSV, which is for programs, has all unless it is given.
size_t trace_top(const struct cli *cli);
// What `--by` of operations takes, for completion.
void trace_key_words(struct str *out);
// A text of a profile as a cell; "(none)" for an empty one.
void trace_cell(struct table *t, struct slice s);

#endif

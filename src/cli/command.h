// SPDX-License-Identifier: Apache-2.0
// What a command is. One file per command defines one `struct command`; parser, help, manual page and completion all
// read that table and nothing else. To add a command: write src/cli/cmd_NAME.c with `const struct command command_NAME`
// and name it in COMMANDS of commands.h.
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/str.h"

enum option_kind {
    OPTION_FLAG,    // takes no value
    OPTION_STRING,  //
    OPTION_INT,     // whole number in [min, max]
    OPTION_SEED64,  // whole number from 0 to 2^64-1
    OPTION_DOUBLE,  // finite number in [min, max]
    OPTION_STRINGS, // a string that may be given again and again; the order is kept
};

// What the shell offers for a value. For a closed list use `choices`, for a computed one `words`.
enum complete { COMPLETE_NOTHING, COMPLETE_FILE, COMPLETE_DIR, COMPLETE_COMMAND };

// Appends names to offer, each followed by a newline.
typedef void complete_words(struct str *out);

struct option {
    const char *name; // without the dashes; NULL ends a table
    char letter;      // 'o' for -o; 0 for none
    enum option_kind kind;
    const char *argument; // as shown: "FILE", "N"; NULL shows the choices
    const char *preset;   // value when not given, parsed like a given one; NULL: none
    const char *choices;  // the only values accepted, parted by spaces; NULL: any
    double min, max;      // for numbers; no bounds while min == max
    enum complete complete;
    complete_words *words;
    const char *help; // a sentence or two, lower case, no full stop at the end
};

struct example {
    const char *line; // without the prompt; NULL ends a table
    const char *what; // lower case, no full stop
};

struct cli;

struct command {
    const char *name;               // "chips"; a member of a group has two words: "trace ops"
    const char *operands;           // as in the synopsis: "WORKLOAD", "[NAME...]"; NULL: none
    int min_operands, max_operands; // max -1: no limit
    enum complete operand_complete;
    complete_words *operand_words;
    const char *summary;            // one line, lower case, no full stop
    const char *const *description; // paragraphs, ended by NULL
    const struct option *options;   // its own and the common ones it takes (options.h); NULL: none
    const struct example *examples; // NULL: none
    // Returns 0; a positive exit code of cli.md that is an answer (1: the answer is no, 6: ambiguous); or a negative
    // error code with `err` set. Puts what goes to stdout into cli->out.
    int (*run)(struct cli *cli, struct error *err);
};

struct option_value {
    bool given;           // on the command line (a preset does not count)
    size_t count;         // OPTION_STRINGS: how many
    const char **strings; // every value, count of them (1 for the other kinds)
    int64_t integer;      // OPTION_INT
    uint64_t seed;        // OPTION_SEED64
    double number;        // OPTION_DOUBLE
};

// One call of the program: what was asked, and where the answer goes.
struct cli {
    int argc;
    char *const *argv; // the whole command line: what a record says was asked
    const struct command *command;
    const char *const *operands;
    size_t n_operands;
    struct option_value *values; // parallel to command->options

    bool json, quiet, no_color, help, version; // the global options
    bool color;                                // stdout is a terminal that wants attributes
    int width;                                 // columns of the terminal, or COLUMNS, or 80

    struct arena arena;       // lives as long as the call
    struct str out;           // what is written to stdout when the command returns, verbatim, also when it failed
    bool document;            // out holds a JSON document (set by cli_envelope)
    const char *record;       // run directory or NULL: goes into the envelope, and is the last line on stderr
    struct progress progress; // for everything that takes long
};

// Values of the command's options by name. A name the command does not have is a mistake of ours and aborts. Strings
// live as long as the call.
bool cli_given(const struct cli *cli, const char *name);
bool cli_flag(const struct cli *cli, const char *name);
const char *cli_string(const struct cli *cli, const char *name); // NULL when neither given nor preset
int64_t cli_int(const struct cli *cli, const char *name, int64_t absent);
uint64_t cli_seed(const struct cli *cli); // --seed; 0 when neither given nor preset
double cli_double(const struct cli *cli, const char *name, double absent);
size_t cli_strings(const struct cli *cli, const char *name, const char *const **out); // a preset counts as one

// Under --json: appends the one document
//     {"schema": "assay.COMMAND/1", "assay": VERSION, "record": cli->record, "result": RESULT, "error": ...}
// (record_envelope) to cli->out.
int cli_envelope(struct cli *cli, const char *result, const struct error *error, struct error *err);

// The same with a result that `fill` writes (record_document).
int cli_document(struct cli *cli, int (*fill)(void *of, struct jw *w, struct error *err), void *of, struct error *err);

// For a command whose answer is a text that is no table: the text as it is, or under --json {"text": "..."} in the
// envelope of assay.SCHEMA/1.
int cli_text_result(struct cli *cli, const char *schema, const struct str *text, struct error *err);

// A line to stderr for the person who waits; silent under --quiet. Bytes from files are escaped.
void cli_note(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Wipes a progress line, where there is one. Called before anything else is written to stderr.
void cli_progress_clear(struct cli *cli);

// Switches terminal attributes on and off when cli->color: "" otherwise.
const char *cli_bold(const struct cli *cli);
const char *cli_dim(const struct cli *cli);
const char *cli_plain(const struct cli *cli);

#endif

// SPDX-License-Identifier: Apache-2.0
// One error object for the whole program: what was wrong, where, and what to do about it.
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

// Functions that can fail return 0 or one of these. The program's exit code follows from it (error_exit_code).
enum error_code {
    ERR_USAGE = -2,       // the command line, a name that is not known, a run directory that exists
    ERR_INPUT = -3,       // a file: missing, damaged, of the wrong kind
    ERR_DEVICE = -4,      // device or plugin: absent, wrong version, crashed, out of memory
    ERR_INTERNAL = -5,    // a mistake of ours
    ERR_MEMORY = -6,      // the host has no memory left
    ERR_IO = -7,          // a file could not be written
    ERR_INTERRUPTED = -8, // the user stopped it
};

struct error {
    int code;          // 0 while nothing happened
    char where[320];   // file, offset, tensor, option; may be empty. Escaped when shown, not here.
    char message[960]; // lower case, no full stop, with the cure where there is one
};

// Sets the error (the first one stays: a later call on a set error changes nothing) and returns `code`.
// `err` may be NULL: the code is still returned. `where` may be NULL.
int error_set(struct error *err, int code, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int error_setv(struct error *err, int code, const char *where, const char *fmt, va_list ap);
#ifdef __clang_analyzer__
// Tells the analyzer what it cannot see: no code is 0, so nothing goes on after an error that was set.
#define error_set(err, code, ...) (error_set((err), (code), __VA_ARGS__), (code))
#endif
// Puts "prefix: " before the message of an error that is set: says what was being done.
void error_context(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void error_clear(struct error *err);

// The exit code that belongs to an error code, and its name in JSON ("bad-input").
int error_exit_code(int code);
const char *error_code_name(int code);

#endif

// SPDX-License-Identifier: Apache-2.0
// Other programs: started from an argument vector, supervised under a time limit, ended without leaving anything.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

enum process_stream { PROCESS_NULL, PROCESS_INHERIT, PROCESS_PIPE };

struct process_options {
    const char *const *argv; // NULL-terminated; argv[0] is a path, or a name looked up in PATH
    const char *const *env;  // NULL-terminated, or NULL: "NAME=VALUE" sets, "NAME" removes, over the caller's own
    enum process_stream in;  // PROCESS_PIPE is not offered here: treated as PROCESS_NULL
    enum process_stream out, err;
    const int *fds; // become 3, 4, ... in the program; all other descriptors are closed there
    size_t n_fds;   // at most 16
    // A group of its own: Ctrl-C at the terminal does not reach it, and what it started itself ends with it.
    bool own_group;
    // SIGKILL when the starting thread ends (the kernel counts threads, not processes: start it from one that stays).
    bool die_with_parent;
    // Lines of stderr worth keeping when much is written after them; NULL: none. It sees their first bytes.
    bool (*notable)(const char *line, size_t n);
};

enum process_end { PROCESS_EXITED, PROCESS_SIGNALED, PROCESS_TIMED_OUT, PROCESS_INTERRUPTED };

struct process_exit {
    enum process_end how;
    int value; // exit code or signal; 0 for the other two
};

#define PROCESS_TAIL_BYTES 8192
#define PROCESS_LINE_BYTES 512

// A running or ended program. Fill through process_start only.
struct process {
    pid_t pid;
    int pidfd;          // -1 where the kernel has none
    int out_fd, err_fd; // read ends with PROCESS_PIPE, non-blocking; else -1
    bool own_group, ended;
    struct process_exit exit;      // once ended
    uint64_t err_bytes;            // all that came through err_fd
    char tail[PROCESS_TAIL_BYTES]; // the last of it: a ring, at err_bytes modulo its size
    bool (*is_notable)(const char *line, size_t n);
    char line[PROCESS_LINE_BYTES]; // the beginning of the line that is being read
    size_t line_bytes;
    char notable[PROCESS_LINE_BYTES + 1]; // the last notable line's beginning, or ""
};

// ERR_INPUT when the program cannot be started (missing, not executable): names it and the reason. On success
// process_release must follow.
int process_start(struct process *p, const struct process_options *options, struct error *err);
// Reads what is there on err_fd into the tail; never blocks.
void process_read_stderr(struct process *p);
// Waits at most timeout_s (0: looks once; INFINITY: for ever), reading stderr meanwhile. True when it has ended: then
// `exit` is filled, it is reaped, and its group is gone. False: still running (early when interrupt_pending).
bool process_wait(struct process *p, double timeout_s);
// SIGKILL to it and its group, then reaps. False when even that did not end it within 5 s (stuck in the kernel).
bool process_kill(struct process *p);
// Kills it if it runs, closes everything.
void process_release(struct process *p);
// The last of stderr, at most size-1 bytes, from the start of a line where it was cut, without the last line feed.
void process_stderr_tail(const struct process *p, char *out, size_t size);

// Runs it to its end or for timeout_s, then kills it. `out` (may be NULL) takes stdout, at most max_out bytes (more is
// ERR_INPUT); `tail` (may be NULL) the last of stderr. The streams of `options` are overridden: out is piped when `out`
// is given, err when `tail` is. 0 whenever it ended, whatever its exit code: look at `exit`. ERR_INTERRUPTED when
// interrupt_pending.
int process_run(const struct process_options *options, double timeout_s, struct str *out, size_t max_out,
                struct process_exit *exit, char *tail, size_t tail_size, struct error *err);

// Looks a name without '/' up in PATH; false when it is not there. Appends to `out`.
bool process_find(const char *name, struct str *out);
// "exit code 3", "signal 6 (SIGABRT)", "time limit", "interrupted"; appended.
void process_exit_describe(const struct process_exit *e, struct str *out);
// The directory of the running program (/proc/self/exe), without a trailing slash; appended. False when unknown.
bool process_own_dir(struct str *out);
// "SIGABRT", or "signal N" for one without a name. The text is static or in `buffer`.
const char *process_signal_name(int sig, char buffer[24]);

#endif

// SPDX-License-Identifier: Apache-2.0
// The client side's inside: the process, its channel, and one call after the other.
#ifndef WORKER_CLIENT_H
#define WORKER_CLIENT_H

#include "base/arena.h"
#include "base/process.h"
#include "worker/frame.h"
#include "worker/message.h"
#include "worker/worker.h"

struct worker {
    struct process process;
    int socket;
    uint32_t last_request;
    bool dead;        // no call is possible any more: `failure` or an interruption
    bool interrupted; // ended because the user stopped us
    int failed_code;  // what every call returns from then on
    struct worker_failure failure;
    struct worker_info info;
    double load_timeout_s, compile_timeout_s, run_timeout_s;
    char label[64];
    char (*programs)[64]; // what programs were called when they were compiled, by id; malloc'd
    size_t n_programs;
    struct arena arena; // of `info`
};

// Asked whenever fd (-1: none) can be read while a reply is waited for: true ends the worker, since what was wanted of
// it is there, and the call, with ERR_INTERRUPTED and no error set.
struct call_watch {
    int fd;
    bool (*enough)(void *context);
    void *context;
};

// One exchange. Filled by the caller: `request` is its encoded body; after success `reply` reads what follows the
// status, and call_release must be called (also after a failure).
struct call {
    enum frame_type type;
    struct str request;
    int fd; // goes with the request; -1: none
    double timeout_s;
    struct call_watch watch;
    char doing[sizeof((struct worker_failure *)0)->doing]; // "compiling main"
    struct wire reply;
    struct arena arena; // of the reply's arrays
    struct frame *frame;
};
// `doing` is a format for what is being done: "compiling %s".
void call_init(struct call *c, enum frame_type type, double timeout_s, struct wire *request, const char *doing, ...)
    __attribute__((format(printf, 5, 6)));
int call_run(struct worker *w, struct call *c, struct error *err);
// 0 when the reply was read whole; else the worker broke the protocol, and fails.
int call_done(struct worker *w, struct call *c, struct error *err);
void call_release(struct call *c);

// Copies in the worker's arena; NULL with `err` set without memory.
const char *worker_keep_text(struct worker *w, const char *s, struct error *err);
const struct worker_device *worker_keep_devices(struct worker *w, const struct worker_device *devices, size_t n,
                                                struct error *err);
// The request of COMPILE and COMPILE_FOR, and what its reply says, copied; ERR_USAGE for what a worker does not take.
// `watch` may be NULL.
int call_compile(struct call *c, struct worker *w, enum frame_type type, const struct worker_program *program,
                 const struct call_watch *watch, struct error *err);
int worker_keep_executable(const struct msg_compile_reply *m, struct worker_executable *out, struct error *err);

// The text of a failure as an error, with the code that belongs to it.
int worker_failure_error(const struct worker *w, struct error *err);
// Is it the line of a failed check, as XLA writes it?
bool worker_failure_is_fatal(const char *line, size_t n);
// The line of stderr that says most: the last of a failed check, else the last that is not a stack trace. Appended raw.
void worker_failure_line(const char *tail, struct str *out);

// The plugin file that `path` names: its hash (remembered while the file does not change; NULL: not wanted) and whether
// each flag of XLA_FLAGS occurs in it. ERR_DEVICE: no such file; ERR_USAGE: a flag that would make the plugin end the
// process.
int worker_check_plugin(const char *path, char sha256[65], struct error *err);
// Splits the text of XLA_FLAGS as XLA does, and calls fn with each flag's name (without dashes). ERR_USAGE for what XLA
// would stop at or silently leave out.
int worker_check_flags(const char *text, const char *where, bool (*known)(void *context, const char *name, size_t n),
                       void *context, struct error *err);
// The program assay-worker.
int worker_find_program(const char *wanted, struct str *path, struct error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// How a worker ended, in words.
#include <signal.h>
#include <string.h>

#include "base/interrupt.h"
#include "worker/client.h"
#include "worker/mapping.h"

const char *worker_failure_kind_name(enum worker_failure_kind kind)
{
    static const char *const names[] = {"exit", "signal", "timeout", "protocol"};
    return names[kind];
}

// abseil begins a fatal message with F, the month and day in four digits, and a space.
bool worker_failure_is_fatal(const char *line, size_t n)
{
    bool fatal = n > 5 && line[0] == 'F' && line[5] == ' ';
    for (int i = 1; i < 5 && fatal; i++)
        fatal = line[i] >= '0' && line[i] <= '9';
    return fatal;
}

// Lines of a stack trace, what announces one, and a notice that abseil writes before its first message.
static bool is_trace(const char *line, size_t n)
{
    static const char notice[] = "WARNING: All log messages before absl";
    return n == 0 || line[0] == ' ' || line[0] == '\t' || line[0] == '@' || strncmp(line, "***", 3) == 0 ||
           strncmp(line, notice, sizeof notice - 1) == 0;
}

// Past the date, the time and the thread of abseil's messages.
static size_t prefix_length(const char *line, size_t n)
{
    size_t at = 0;
    for (int field = 0; field < 3; field++) {
        while (at < n && line[at] != ' ')
            at++;
        while (at < n && line[at] == ' ')
            at++;
    }
    return at;
}

void worker_failure_line(const char *tail, struct str *out)
{
    const char *best = NULL;
    size_t best_n = 0;
    bool best_fatal = false;
    for (const char *line = tail; *line;) {
        size_t n = strcspn(line, "\n");
        bool fatal = worker_failure_is_fatal(line, n);
        if (fatal || (!best_fatal && !is_trace(line, n))) {
            best = line;
            best_n = n;
            best_fatal = fatal;
        }
        line += n + (line[n] == '\n');
    }
    size_t skip = best_fatal ? prefix_length(best, best_n) : 0;
    if (skip == best_n)
        skip = 0;
    if (best)
        str_add_n(out, best + skip, best_n - skip);
}

void worker_failure_describe(const struct worker_failure *f, struct str *out)
{
    str_add(out, "the worker");
    if (f->label[0]) {
        str_add(out, " (");
        str_add_terminal(out, f->label, strlen(f->label));
        str_add(out, ")");
    }
    char name[24];
    switch (f->kind) {
    case WORKER_EXIT:
        str_addf(out, " ended with exit code %d while ", f->value);
        break;
    case WORKER_SIGNAL:
        str_addf(out, " died of signal %d (%s) while ", f->value, process_signal_name(f->value, name));
        break;
    case WORKER_TIMEOUT:
        str_addf(out, " was ended after its time limit of %g s while ", f->seconds);
        break;
    case WORKER_PROTOCOL:
        str_add(out, " answered something that is no answer while ");
        break;
    }
    str_add_terminal(out, f->doing, strlen(f->doing));
    if (f->kind == WORKER_SIGNAL && f->value == SIGKILL)
        str_add(out, "; somebody killed it, the kernel if memory ran out (dmesg says so)");
    if (strstr(f->stderr_tail, "Unknown flag") || strstr(f->stderr_tail, "Flag parsing failed"))
        str_add(out, "; XLA_FLAGS holds a flag or a value that this plugin does not take: remove it");
    struct str line;
    str_init(&line);
    worker_failure_line(f->stderr_tail, &line);
    if (line.length) {
        str_add(out, "; it said: ");
        str_add_terminal(out, line.text, line.length);
    }
    str_release(&line);
}

int worker_failure_error(const struct worker *w, struct error *err)
{
    if (w->interrupted) {
        const char *signal = interrupt_signal();
        return error_set(err, ERR_INTERRUPTED, NULL, "%s while %s", signal ? signal : "interrupted", w->failure.doing);
    }
    struct str text;
    str_init(&text);
    worker_failure_describe(&w->failure, &text);
    int rc = error_set(err, w->failed_code, NULL, "%s", str_text(&text));
    str_release(&text);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"

extern char **environ;

#define MAX_FDS        16
#define KILL_SECONDS   5.0
#define LOOK_AGAIN_NS  250000000u // an interruption may come just before a wait begins
#define NO_PIDFD_NS    2000000u   // without a pidfd the end of a process has to be asked for
#define NULL_DEVICE    "/dev/null"
#define CLOSE_MARK     (1u << 2) // CLOSE_RANGE_CLOEXEC
#define OUT_CHUNK      65536
#define WANTED_STREAMS 3

bool process_own_dir(struct str *out)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || (size_t)n >= sizeof path - 1)
        return false;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    str_add_n(out, path, slash == path ? 1 : (size_t)(slash - path));
    return !out->failed;
}

bool process_find(const char *name, struct str *out)
{
    const char *path = getenv("PATH");
    if (!path || !*path)
        path = "/usr/local/bin:/usr/bin:/bin";
    while (true) {
        size_t n = strcspn(path, ":");
        struct str candidate;
        str_init(&candidate);
        str_addf(&candidate, "%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
        bool found = !candidate.failed && access(candidate.text, X_OK) == 0;
        if (found)
            str_add(out, candidate.text);
        str_release(&candidate);
        if (found)
            return !out->failed;
        if (!path[n])
            return false;
        path += n + 1;
    }
}

const char *process_signal_name(int sig, char buffer[24])
{
    const char *name = sigabbrev_np(sig);
    if (name)
        snprintf(buffer, 24, "SIG%s", name);
    else
        snprintf(buffer, 24, "signal %d", sig);
    return buffer;
}

void process_exit_describe(const struct process_exit *e, struct str *out)
{
    char name[24];
    switch (e->how) {
    case PROCESS_EXITED:
        str_addf(out, "exit code %d", e->value);
        break;
    case PROCESS_SIGNALED:
        str_addf(out, "signal %d (%s)", e->value, process_signal_name(e->value, name));
        break;
    case PROCESS_TIMED_OUT:
        str_add(out, "time limit");
        break;
    case PROCESS_INTERRUPTED:
        str_add(out, "interrupted");
        break;
    }
}

// The caller's environment with the changes, as one malloc'd array whose strings are borrowed; NULL without memory.
static char **environment(const char *const *changes)
{
    size_t n = 0, k = 0;
    while (environ && environ[n])
        n++;
    while (changes && changes[k])
        k++;
    char **env = calloc(n + k + 1, sizeof *env);
    if (!env)
        return NULL;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        bool replaced = false;
        for (size_t j = 0; j < k && !replaced; j++) {
            size_t length = strcspn(changes[j], "=");
            replaced = strncmp(environ[i], changes[j], length) == 0 && environ[i][length] == '=';
        }
        if (!replaced)
            env[at++] = environ[i];
    }
    for (size_t j = 0; j < k; j++) {
        if (strchr(changes[j], '='))
            env[at++] = (char *)(uintptr_t)changes[j];
    }
    return env;
}

// What the child needs between vfork and exec: everything is prepared, it only makes system calls.
struct launch_plan {
    const char *path;
    char *const *argv;
    char *const *env;
    int sources[WANTED_STREAMS + MAX_FDS]; // become 0, 1, 2, 3...
    int n_sources;
    int report_fd;
    bool own_group, die_with_parent;
    pid_t parent;
};

static _Noreturn void child_fail(const struct launch_plan *plan)
{
    int e = errno;
    ssize_t k;
    do
        k = write(plan->report_fd, &e, sizeof e);
    while (k < 0 && errno == EINTR);
    _exit(127);
}

// Runs in the child, which shares the parent's memory until exec: only async-signal-safe calls, nothing written but
// the plan, which is the caller's local.
static __attribute__((noinline)) _Noreturn void child_main(struct launch_plan *plan)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int s = 1; s < NSIG; s++)
        sigaction(s, &standard, NULL);
    if (plan->own_group)
        setpgid(0, 0);
    if (plan->die_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != plan->parent) // it died before the request was in place
            _exit(127);
    }
    // First out of the way of the places they go to, the report's end too; the copies close at exec.
    int above = WANTED_STREAMS + MAX_FDS;
    plan->report_fd = fcntl(plan->report_fd, F_DUPFD_CLOEXEC, above);
    if (plan->report_fd < 0)
        _exit(127);
    for (int i = 0; i < plan->n_sources; i++) {
        plan->sources[i] = fcntl(plan->sources[i], F_DUPFD_CLOEXEC, above);
        if (plan->sources[i] < 0)
            child_fail(plan);
    }
    syscall(SYS_close_range, (unsigned)plan->n_sources, ~0u, CLOSE_MARK);
    for (int i = 0; i < plan->n_sources; i++) {
        if (dup2(plan->sources[i], i) < 0)
            child_fail(plan);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(plan->path, plan->argv, plan->env);
    child_fail(plan);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int start(struct process *p, struct launch_plan *plan, const char *where, struct error *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return error_set(err, ERR_MEMORY, where, "no pipe: %s", strerror(errno));
    plan->report_fd = report[1];
    // A handler of ours must not run in the child while it shares our memory.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        child_main(plan);
    int failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return error_set(err, ERR_MEMORY, where, "cannot be started: %s", strerror(failed));
    }
    int e = 0;
    ssize_t k;
    do
        k = read(report[0], &e, sizeof e);
    while (k < 0 && errno == EINTR);
    close(report[0]);
    if (k > 0) {
        waitpid(pid, NULL, 0);
        return error_set(err, ERR_INPUT, where, "cannot be started: %s", strerror(e));
    }
    p->pid = pid;
    p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    return 0;
}

int process_start(struct process *p, const struct process_options *o, struct error *err)
{
    memset(p, 0, sizeof *p);
    p->pidfd = p->out_fd = p->err_fd = -1;
    p->own_group = o->own_group;
    p->is_notable = o->notable;
    const char *name = o->argv[0];
    if (o->n_fds > MAX_FDS)
        return error_set(err, ERR_INTERNAL, name, "more than %d descriptors handed over", MAX_FDS);
    struct str path;
    str_init(&path);
    if (strchr(name, '/'))
        str_add(&path, name);
    else if (!process_find(name, &path)) {
        str_release(&path);
        return error_set(err, ERR_INPUT, name, "no such program in PATH");
    }
    int rc = str_check(&path, err);
    char **env = rc ? NULL : environment(o->env);
    if (!rc && !env)
        rc = error_set(err, ERR_MEMORY, name, "no memory for the environment");

    int null_fd = rc ? -1 : open(NULL_DEVICE, O_RDWR | O_CLOEXEC);
    if (!rc && null_fd < 0)
        rc = error_set(err, ERR_IO, NULL_DEVICE, "cannot be opened: %s", strerror(errno));
    int out_pipe[2] = {-1, -1}, err_pipe[2] = {-1, -1};
    if (!rc && ((o->out == PROCESS_PIPE && pipe2(out_pipe, O_CLOEXEC) != 0) ||
                (o->err == PROCESS_PIPE && pipe2(err_pipe, O_CLOEXEC) != 0)))
        rc = error_set(err, ERR_MEMORY, name, "no pipe: %s", strerror(errno));
    if (!rc) {
        struct launch_plan plan = {.path = path.text,
                                   .argv = (char *const *)(uintptr_t)o->argv,
                                   .env = env,
                                   .own_group = o->own_group,
                                   .die_with_parent = o->die_with_parent,
                                   .parent = getpid()};
        // A standard stream that is closed here is the null device there.
        plan.sources[0] = o->in == PROCESS_INHERIT && fcntl(0, F_GETFD) >= 0 ? 0 : null_fd;
        plan.sources[1] = o->out == PROCESS_PIPE                                ? out_pipe[1]
                          : o->out == PROCESS_INHERIT && fcntl(1, F_GETFD) >= 0 ? 1
                                                                                : null_fd;
        plan.sources[2] = o->err == PROCESS_PIPE                                ? err_pipe[1]
                          : o->err == PROCESS_INHERIT && fcntl(2, F_GETFD) >= 0 ? 2
                                                                                : null_fd;
        plan.n_sources = WANTED_STREAMS;
        for (size_t i = 0; i < o->n_fds; i++)
            plan.sources[plan.n_sources++] = o->fds[i];
        rc = start(p, &plan, name, err);
    }
    close_fd(&null_fd);
    close_fd(&out_pipe[1]);
    close_fd(&err_pipe[1]);
    if (rc) {
        close_fd(&out_pipe[0]);
        close_fd(&err_pipe[0]);
    } else {
        p->out_fd = out_pipe[0];
        p->err_fd = err_pipe[0];
        if (p->out_fd >= 0)
            fcntl(p->out_fd, F_SETFL, O_NONBLOCK);
        if (p->err_fd >= 0)
            fcntl(p->err_fd, F_SETFL, O_NONBLOCK);
    }
    free(env);
    str_release(&path);
    return rc;
}

static void end_line(struct process *p)
{
    if (p->is_notable && p->line_bytes && p->is_notable(p->line, p->line_bytes)) {
        memcpy(p->notable, p->line, p->line_bytes);
        p->notable[p->line_bytes] = 0;
    }
    p->line_bytes = 0;
}

void process_read_stderr(struct process *p)
{
    char chunk[4096];
    while (p->err_fd >= 0) {
        ssize_t k = read(p->err_fd, chunk, sizeof chunk);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN)
            return;
        if (k <= 0) {
            end_line(p);
            close_fd(&p->err_fd);
            return;
        }
        for (ssize_t i = 0; i < k; i++) {
            p->tail[p->err_bytes++ % PROCESS_TAIL_BYTES] = chunk[i];
            if (chunk[i] == '\n')
                end_line(p);
            else if (p->line_bytes < PROCESS_LINE_BYTES)
                p->line[p->line_bytes++] = chunk[i];
        }
    }
}

void process_stderr_tail(const struct process *p, char *out, size_t size)
{
    size_t kept = p->err_bytes < PROCESS_TAIL_BYTES ? (size_t)p->err_bytes : PROCESS_TAIL_BYTES;
    size_t n = kept < size - 1 ? kept : size - 1;
    bool cut = n < p->err_bytes;
    for (size_t i = 0; i < n; i++)
        out[i] = p->tail[(p->err_bytes - n + i) % PROCESS_TAIL_BYTES];
    out[n] = 0;
    if (cut) {
        char *line = memchr(out, '\n', n);
        if (line && line + 1 < out + n) {
            n -= (size_t)(line + 1 - out);
            memmove(out, line + 1, n + 1);
        }
    }
    while (n && out[n - 1] == '\n')
        out[--n] = 0;
}

// Looks whether it has ended, without waiting. Its group goes before it is reaped: until then nobody else can have its
// number.
static bool collect(struct process *p)
{
    if (p->ended)
        return true;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    int rc;
    do
        rc = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc != 0 && errno == EINTR);
    if (rc == 0 && info.si_pid == 0)
        return false;
    p->ended = true;
    p->exit = (struct process_exit){PROCESS_EXITED, 0};
    if (rc != 0) // reaped by somebody else (SIGCHLD is ignored): how it ended is not known
        p->exit.value = -1;
    else {
        if (p->own_group)
            kill(-p->pid, SIGKILL);
        int status = 0;
        waitpid(p->pid, &status, 0);
        if (WIFSIGNALED(status))
            p->exit = (struct process_exit){PROCESS_SIGNALED, WTERMSIG(status)};
        else
            p->exit.value = WEXITSTATUS(status);
    }
    process_read_stderr(p);
    return true;
}

// Nanoseconds on the clock at which timeout_s from now is over; UINT64_MAX for never.
static uint64_t deadline_of(double timeout_s)
{
    double ns = timeout_s * 1e9;
    return ns >= 1e18 ? UINT64_MAX : clock_ns() + (ns > 0 ? (uint64_t)ns : 0);
}

// Sleeps until something happens on a stream (the caller's `out` too), it ends, or the deadline is near.
static void sleep_until_news(struct process *p, bool with_out, uint64_t deadline)
{
    struct pollfd fds[3];
    nfds_t n = 0;
    if (p->pidfd >= 0)
        fds[n++] = (struct pollfd){.fd = p->pidfd, .events = POLLIN};
    if (p->err_fd >= 0)
        fds[n++] = (struct pollfd){.fd = p->err_fd, .events = POLLIN};
    if (with_out && p->out_fd >= 0)
        fds[n++] = (struct pollfd){.fd = p->out_fd, .events = POLLIN};
    uint64_t now = clock_ns(), left = deadline > now ? deadline - now : 0;
    if (p->pidfd < 0 && left > NO_PIDFD_NS)
        left = NO_PIDFD_NS;
    if (left > LOOK_AGAIN_NS)
        left = LOOK_AGAIN_NS;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
    ppoll(fds, n, &t, NULL);
}

static bool wait_until(struct process *p, uint64_t deadline, bool interruptible)
{
    while (true) {
        process_read_stderr(p);
        if (collect(p))
            return true;
        if ((interruptible && interrupt_pending()) || clock_ns() >= deadline)
            return false;
        sleep_until_news(p, false, deadline);
    }
}

bool process_wait(struct process *p, double timeout_s)
{
    return wait_until(p, deadline_of(timeout_s), true);
}

bool process_kill(struct process *p)
{
    if (collect(p))
        return true;
    kill(p->own_group ? -p->pid : p->pid, SIGKILL);
    return wait_until(p, deadline_of(KILL_SECONDS), false);
}

void process_release(struct process *p)
{
    if (p->pid > 0 && !p->ended)
        process_kill(p);
    close_fd(&p->pidfd);
    close_fd(&p->out_fd);
    close_fd(&p->err_fd);
    p->pid = 0;
}

// Takes what stdout holds now; false past max_out.
static bool read_stdout(struct process *p, struct str *out, size_t *taken, size_t max_out)
{
    char chunk[OUT_CHUNK];
    while (p->out_fd >= 0) {
        ssize_t k = read(p->out_fd, chunk, sizeof chunk);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN)
            return true;
        if (k <= 0) {
            close_fd(&p->out_fd);
            return true;
        }
        if ((size_t)k > max_out - *taken)
            return false;
        *taken += (size_t)k;
        str_add_n(out, chunk, (size_t)k);
    }
    return true;
}

int process_run(const struct process_options *options, double timeout_s, struct str *out, size_t max_out,
                struct process_exit *exit, char *tail, size_t tail_size, struct error *err)
{
    struct process_options o = *options;
    if (out)
        o.out = PROCESS_PIPE;
    if (tail)
        o.err = PROCESS_PIPE;
    struct process p;
    int rc = process_start(&p, &o, err);
    if (rc)
        return rc;
    uint64_t deadline = deadline_of(timeout_s);
    size_t taken = 0;
    struct process_exit forced = {.how = PROCESS_EXITED};
    while (true) {
        // Ended is asked first: what it wrote before its end is then read after it.
        bool ended = collect(&p);
        process_read_stderr(&p);
        if (out && !read_stdout(&p, out, &taken, max_out)) {
            rc = error_set(err, ERR_INPUT, o.argv[0], "wrote more than %zu bytes", max_out);
            break;
        }
        if (ended)
            break;
        if (interrupt_pending() || clock_ns() >= deadline) {
            forced.how = interrupt_pending() ? PROCESS_INTERRUPTED : PROCESS_TIMED_OUT;
            break;
        }
        sleep_until_news(&p, out != NULL, deadline);
    }
    process_kill(&p);
    if (exit)
        *exit = forced.how == PROCESS_EXITED ? p.exit : forced;
    if (tail)
        process_stderr_tail(&p, tail, tail_size);
    process_release(&p);
    if (!rc && forced.how == PROCESS_INTERRUPTED)
        rc = error_set(err, ERR_INTERRUPTED, o.argv[0], "interrupted");
    return rc ? rc : out ? str_check(out, err) : 0;
}

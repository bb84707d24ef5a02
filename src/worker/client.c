// SPDX-License-Identifier: Apache-2.0
#include "worker/client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "chips/pci.h"
#include "worker/mapping.h"

#define LOAD_S        20.0
#define COMPILE_S     300.0
#define RUN_S         600.0
#define LEAVE_S       5.0 // politely asked to leave
#define END_S         5.0 // between the channel's end and the process's
#define LOOK_AGAIN_NS 250000000u
#define MAX_ENV       64 // variables that a caller sets for the worker

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

// The last of stderr, and before it the failed check when so much followed that it is not in it.
static void keep_stderr(struct worker *w)
{
    char *tail = w->failure.stderr_tail;
    size_t size = sizeof w->failure.stderr_tail;
    const char *notable = w->process.notable;
    process_stderr_tail(&w->process, tail, size);
    if (!notable[0] || strstr(tail, notable))
        return;
    int n = snprintf(tail, size, "%s\n...\n", notable);
    process_stderr_tail(&w->process, tail + n, size - (size_t)n);
}

// Ends the worker and keeps how and at what.
static int fail(struct worker *w, const struct call *c, enum worker_failure_kind kind, int value, struct error *err)
{
    process_kill(&w->process);
    w->dead = true;
    w->failure.kind = kind;
    w->failure.value = value;
    w->failure.seconds = kind == WORKER_TIMEOUT ? c->timeout_s : 0;
    // A file that is cut short is the file's fault, all else the device's.
    w->failed_code = kind == WORKER_EXIT && value == WORKER_EXIT_FILE ? ERR_INPUT : ERR_DEVICE;
    copy_text(w->failure.doing, sizeof w->failure.doing, c->doing);
    copy_text(w->failure.label, sizeof w->failure.label, w->label);
    keep_stderr(w);
    return worker_failure_error(w, err);
}

// The channel is closed at the other end: the process has ended, or soon will.
static int fail_of_end(struct worker *w, const struct call *c, struct error *err)
{
    bool ended = process_wait(&w->process, END_S);
    const struct process_exit *e = &w->process.exit;
    if (ended && e->how == PROCESS_EXITED)
        return fail(w, c, WORKER_EXIT, e->value, err);
    if (ended && e->how == PROCESS_SIGNALED)
        return fail(w, c, WORKER_SIGNAL, e->value, err);
    return fail(w, c, WORKER_PROTOCOL, 0, err);
}

static int interrupted(struct worker *w, const struct call *c, struct error *err)
{
    process_kill(&w->process);
    w->dead = w->interrupted = true;
    w->failed_code = ERR_INTERRUPTED;
    copy_text(w->failure.doing, sizeof w->failure.doing, c->doing);
    return worker_failure_error(w, err);
}

// The caller has what it wanted.
static int ended_early(struct worker *w)
{
    process_kill(&w->process);
    w->dead = w->interrupted = true;
    w->failed_code = ERR_INTERRUPTED;
    return ERR_INTERRUPTED;
}

void call_init(struct call *c, enum frame_type type, double timeout_s, struct wire *request, const char *doing, ...)
{
    *c = (struct call){.type = type, .fd = -1, .timeout_s = timeout_s, .watch.fd = -1};
    str_init(&c->request);
    arena_init(&c->arena);
    wire_write(request, &c->request);
    va_list ap;
    va_start(ap, doing);
    vsnprintf(c->doing, sizeof c->doing, doing, ap);
    va_end(ap);
}

void call_release(struct call *c)
{
    str_release(&c->request);
    arena_release(&c->arena);
    if (c->frame)
        frame_release(c->frame);
    free(c->frame);
}

// Waits for the reply, reading stderr meanwhile so that the worker never blocks on it.
static int await_reply(struct worker *w, struct call *c, uint64_t deadline, struct error *err)
{
    while (true) {
        // A descriptor below 0 is passed over.
        struct pollfd fds[3] = {{.fd = w->socket, .events = POLLIN},
                                {.fd = w->process.err_fd, .events = POLLIN},
                                {.fd = c->watch.fd, .events = POLLIN}};
        uint64_t now = clock_ns(), left = deadline > now ? deadline - now : 0;
        if (left > LOOK_AGAIN_NS)
            left = LOOK_AGAIN_NS;
        struct timespec t = {.tv_sec = 0, .tv_nsec = (long)left};
        int n = ppoll(fds, 3, &t, NULL);
        process_read_stderr(&w->process);
        if (n > 0 && fds[2].revents && c->watch.enough(c->watch.context))
            return ended_early(w);
        if (n > 0 && fds[0].revents)
            break;
        if (interrupt_pending())
            return interrupted(w, c, err);
        if (clock_ns() >= deadline)
            return fail(w, c, WORKER_TIMEOUT, 0, err);
    }
    struct error damaged = {0};
    int got = frame_receive(w->socket, c->frame, &damaged);
    if (got == 0)
        return fail_of_end(w, c, err);
    if (got < 0) {
        fail(w, c, WORKER_PROTOCOL, 0, err);
        error_context(err, "%s", damaged.message);
        return w->failed_code;
    }
    return 0;
}

int call_run(struct worker *w, struct call *c, struct error *err)
{
    if (w->dead)
        return worker_failure_error(w, err);
    int rc = str_check(&c->request, err);
    if (rc)
        return rc;
    uint64_t limit_ns = c->timeout_s < 1e9 ? (uint64_t)(c->timeout_s * 1e9) : 1000000000000000000u;
    uint64_t deadline = clock_ns() + limit_ns;
    struct frame_header h = {.type = (uint16_t)c->type, .request = ++w->last_request, .n_fds = c->fd >= 0};
    struct error send_err = {0};
    rc = frame_send(w->socket, &h, c->request.text, c->request.length, &c->fd, &send_err);
    if (rc == ERR_DEVICE)
        return fail_of_end(w, c, err);
    if (rc)
        return error_set(err, rc, send_err.where, "%s", send_err.message);
    struct frame *f = c->frame = malloc(sizeof *f);
    if (!f) // the answer would come to nobody
        return fail(w, c, WORKER_PROTOCOL, 0, err);
    f->mapped = NULL;
    for (size_t i = 0; i < FRAME_MAX_FDS; i++)
        f->fds[i] = -1;
    rc = await_reply(w, c, deadline, err);
    if (rc)
        return rc;
    const struct frame_header *r = &f->header;
    struct msg_status status = {0};
    wire_read(&c->reply, f->body, f->body_bytes, &c->arena);
    msg_status(&c->reply, &status);
    if (!r->reply || r->type != c->type || r->request != h.request || r->n_fds || c->reply.failed || status.code > 0)
        return fail(w, c, WORKER_PROTOCOL, 0, err);
    if (!status.code)
        return 0;
    return error_set(err, status.code, status.where, "%s", status.message ? status.message : "");
}

int call_done(struct worker *w, struct call *c, struct error *err)
{
    return wire_done(&c->reply) ? 0 : fail(w, c, WORKER_PROTOCOL, 0, err);
}

const char *worker_keep_text(struct worker *w, const char *s, struct error *err)
{
    return arena_strdup(&w->arena, s ? s : "", err);
}

const struct worker_device *worker_keep_devices(struct worker *w, const struct worker_device *devices, size_t n,
                                                struct error *err)
{
    struct worker_device *d = arena_new(&w->arena, struct worker_device, n, err);
    for (size_t k = 0; d && k < n; k++) {
        d[k] = devices[k];
        d[k].kind = worker_keep_text(w, d[k].kind, err);
        d[k].attributes = worker_keep_text(w, d[k].attributes, err);
        if (!d[k].kind || !d[k].attributes)
            return NULL;
    }
    return d;
}

static int keep_info(struct worker *w, const struct msg_hello_reply *m, struct error *err)
{
    struct worker_info *i = &w->info;
    i->api_major = m->api_major;
    i->api_minor = m->api_minor;
    i->extensions = worker_keep_text(w, m->extensions, err);
    i->platform_name = worker_keep_text(w, m->platform_name, err);
    i->platform_version = worker_keep_text(w, m->platform_version, err);
    i->attributes = worker_keep_text(w, m->attributes, err);
    i->n_devices = m->n_devices;
    i->device = m->device;
    i->client_create_ns = m->client_create_ns;
    i->kernels = m->kernels ? worker_keep_text(w, m->kernels, err) : NULL;
    if (m->no_kernels)
        i->no_kernels = worker_keep_text(w, m->no_kernels, err);
    i->devices = worker_keep_devices(w, m->devices, m->n_devices, err);
    return err->code;
}

// The file that kernels need, or why there are none.
static const char *kernels_library(struct worker *w, const char *device)
{
    struct error why = {0};
    struct str path;
    str_init(&path);
    const char *file = NULL;
    if (strcmp(device, "cpu") != 0 && strncmp(device, "cpu:", 4) != 0)
        w->info.no_kernels = "they are for the CPU";
    else if (worker_find_onednn(&path, &why) == 0)
        file = worker_keep_text(w, str_text(&path), &why);
    else
        w->info.no_kernels = worker_keep_text(w, why.message, &why);
    str_release(&path);
    return file;
}

static int hello(struct worker *w, const struct worker_options *o, const char *device, struct error *err)
{
    struct wire request;
    struct call c;
    call_init(&c, FRAME_HELLO, w->load_timeout_s, &request, "loading the plugin %s", w->info.plugin_path);
    struct msg_hello m = {.version = ASSAY_VERSION,
                          .plugin_path = w->info.plugin_path,
                          .device = device,
                          .cpu_device_count = o->cpu_device_count,
                          .threads = o->threads,
                          .compile_only = o->compile_only,
                          .onednn = o->kernels && !o->compile_only ? kernels_library(w, device) : NULL};
    msg_hello(&request, &m);
    int rc = call_run(w, &c, err);
    if (!rc) {
        struct msg_hello_reply reply = {0};
        msg_hello_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
        if (!rc && (!reply.version || strcmp(reply.version, ASSAY_VERSION) != 0))
            rc = error_set(err, ERR_DEVICE, NULL, "the worker is of another version: install both from one build");
        if (!rc)
            rc = keep_info(w, &reply, err);
    }
    call_release(&c);
    return rc;
}

// XLA's CPU client allocates the temporaries of a program anew for every run, and glibc gives blocks of that size back
// to the kernel each time. In pages of 4 KiB their faults cost a tenth to a fifth of the run of a small encoder
// (MiniLM, 32 x 128 tokens, 2 cores: 516 to 451 ms of processor time in int8, 834 to 679 ms in bf16); in huge pages
// next to nothing, for 2 to 10 % more peak memory. Keeping the blocks instead (M_MMAP_MAX 0, M_TRIM_THRESHOLD) is no
// better and doubles the memory, since glibc 2.36 does not find an aligned block again. The allocator reads this at
// exec only.
static void allocator_tunables(struct str *out)
{
    const char *own = getenv("GLIBC_TUNABLES"), *tunable = "glibc.malloc.hugetlb";
    bool chosen = own && strstr(own, tunable);
    str_addf(out, "GLIBC_TUNABLES=%s%s", own ? own : "", own && *own && !chosen ? ":" : "");
    if (!chosen)
        str_addf(out, "%s=1", tunable);
}

static bool tpu_on_the_bus(void)
{
    struct chips_pci_entry found[16]; // as many kinds as the table has, and more
    return chips_pci_scan("/sys/bus/pci/devices", found, sizeof found / sizeof *found) > 0;
}

static int start_process(struct worker *w, const struct worker_options *o, struct error *err)
{
    struct str program, tunables;
    str_init(&program);
    str_init(&tunables);
    allocator_tunables(&tunables);
    int ends[2] = {-1, -1};
    int rc = worker_find_program(o->worker_path, &program, err);
    if (!rc && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        rc = error_set(err, ERR_MEMORY, NULL, "no channel to a worker: %s", strerror(errno));
    if (!rc) {
        const char *const argv[] = {program.text, "--channel=3", NULL};
        const char *env[MAX_ENV + 4] = {str_text(&tunables)};
        size_t n = 1;
        if (!o->compile_only && o->device && strncmp(o->device, "tpu", 3) == 0 && !tpu_on_the_bus()) {
            // Off a TPU machine libtpu waits half a minute for each of several answers of a metadata server that is not
            // there, and leaves a lock behind; told so, it says at once that there is no TPU.
            env[n++] = "TPU_SKIP_MDS_QUERY=1";
            env[n++] = "ALLOW_MULTIPLE_LIBTPU_LOAD=1";
        }
        for (size_t i = 0; o->env && o->env[i] && i < MAX_ENV; i++)
            env[n++] = o->env[i];
        struct process_options p = {.argv = argv,
                                    .env = env,
                                    .err = PROCESS_PIPE,
                                    .fds = &ends[1],
                                    .n_fds = 1,
                                    .own_group = true,
                                    .die_with_parent = true,
                                    .notable = worker_failure_is_fatal};
        struct error start_err = {0};
        rc = process_start(&w->process, &p, &start_err);
        if (rc) // a program that cannot be started is no bad input
            rc = error_set(err, ERR_DEVICE, start_err.where, "%s", start_err.message);
        close(ends[1]);
        w->socket = ends[0];
    }
    str_release(&program);
    str_release(&tunables);
    return rc;
}

int worker_start(struct worker **out, const struct worker_options *o, struct error *err)
{
    *out = NULL;
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, ERR_MEMORY, NULL, "no memory");
    arena_init(&w->arena);
    w->socket = -1;
    w->process.pidfd = w->process.out_fd = w->process.err_fd = -1;
    w->load_timeout_s = o->load_timeout_s > 0 ? o->load_timeout_s : LOAD_S;
    w->compile_timeout_s = o->compile_timeout_s > 0 ? o->compile_timeout_s : COMPILE_S;
    w->run_timeout_s = o->run_timeout_s > 0 ? o->run_timeout_s : RUN_S;
    copy_text(w->label, sizeof w->label, o->label);

    struct error local = {0}; // `err` may be NULL, and codes are read from it here
    const char *device = o->device ? o->device : "cpu";
    struct str plugin;
    str_init(&plugin);
    int rc = 0;
    if (o->plugin_path)
        str_add(&plugin, o->plugin_path);
    else
        rc = worker_find_plugin(device, &plugin, &local);
    if (!rc)
        rc = worker_check_plugin(str_text(&plugin), o->skip_hash ? NULL : w->info.plugin_sha256, &local);
    if (!rc) {
        w->info.plugin_path = arena_strdup(&w->arena, str_text(&plugin), &local);
        rc = local.code;
    }
    if (!rc)
        rc = start_process(w, o, &local);
    if (!rc) {
        w->info.pid = (int)w->process.pid;
        rc = hello(w, o, device, &local);
    }
    str_release(&plugin);
    if (rc) {
        error_set(err, local.code, local.where, "%s", local.message);
        if (worker_failure(w))
            *out = w;
        else
            worker_stop(w);
        return rc;
    }
    *out = w;
    return 0;
}

void worker_stop(struct worker *w)
{
    if (!w)
        return;
    if (!w->dead && w->socket >= 0 && w->process.pid > 0) {
        struct wire request;
        struct call c;
        struct error ignored = {0};
        call_init(&c, FRAME_QUIT, LEAVE_S, &request, "leaving");
        // What it still holds goes with it; without an answer it is killed.
        if (call_run(w, &c, &ignored) == 0)
            process_wait(&w->process, LEAVE_S);
        call_release(&c);
    }
    process_release(&w->process);
    if (w->socket >= 0)
        close(w->socket);
    free(w->programs);
    arena_release(&w->arena);
    free(w);
}

const struct worker_info *worker_info(const struct worker *w)
{
    return &w->info;
}

const struct worker_failure *worker_failure(const struct worker *w)
{
    return w->dead && !w->interrupted ? &w->failure : NULL;
}

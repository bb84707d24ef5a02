// SPDX-License-Identifier: Apache-2.0
// The protocol without a plugin: frames, messages, a worker that is spoken to by hand, a client that hears nonsense.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "worker/client.h"
#include "worker_test.h"

static struct frame frame;

TEST(worker_protocol_header)
{
    struct frame_header h = {.type = FRAME_TIME, .reply = true, .request = 77, .n_fds = 1}, back;
    uint8_t packet[FRAME_HEADER_BYTES + 8] = {0};
    frame_print(&h, packet);
    CHECK(frame_parse(packet, FRAME_HEADER_BYTES, &back, NULL));
    CHECK(back.type == FRAME_TIME && back.reply && back.request == 77 && back.n_fds == 1 && !back.body_in_fd);
    CHECK(!frame_parse(packet, FRAME_HEADER_BYTES + 1, &back, NULL)); // a byte that the header does not know of
    h.body_bytes = 8;
    frame_print(&h, packet);
    CHECK(frame_parse(packet, FRAME_HEADER_BYTES + 8, &back, NULL));
    for (size_t n = 0; n < FRAME_HEADER_BYTES + 8; n++)
        CHECK(!frame_parse(packet, n, &back, NULL));

    // Each field out of its range.
    static const struct {
        size_t at;
        uint8_t value;
    } damages[] = {{0, 0}, {6, 0}, {6, FRAME_TYPES}, {7, 0x40}, {12, 3}, {15, 1}, {16, 9}, {23, 1}, {24, 2}, {28, 1}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint8_t damaged[sizeof packet];
        memcpy(damaged, packet, sizeof packet);
        damaged[damages[i].at] = damages[i].value;
        unsigned other = 1;
        if (!CHECK(!frame_parse(damaged, sizeof damaged, &back, &other)))
            printf("  with byte %zu changed\n", damages[i].at);
        CHECK_INT(other, 0);
    }
    unsigned other = 0;
    packet[4] = FRAME_PROTOCOL + 1;
    CHECK(!frame_parse(packet, sizeof packet, &back, &other));
    CHECK_INT(other, FRAME_PROTOCOL + 1);
    h.body_in_fd = true;
    frame_print(&h, packet);
    CHECK(frame_parse(packet, FRAME_HEADER_BYTES, &back, NULL) && back.body_in_fd && back.body_bytes == 8);
    CHECK(!frame_parse(packet, FRAME_HEADER_BYTES + 8, &back, NULL)); // the body would be there twice
}

TEST(worker_protocol_frames_travel)
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    int before = worker_test_open_fds();
    struct error err = {0};
    // Sizes around the limit of a packet; the larger ones arrive in shared memory.
    static const size_t sizes[] = {0, 1, FRAME_MAX_INLINE, FRAME_MAX_INLINE + 1, 3000000};
    static char body[3000000];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int fd = frame_memfd("attached", "hello", 5, &err);
        REQUIRE(fd >= 0);
        struct frame_header h = {.type = FRAME_UPLOAD, .request = (uint32_t)i, .n_fds = 1};
        REQUIRE_OK(frame_send(ends[0], &h, body, sizes[i], &fd, &err), &err);
        close(fd);
        CHECK_INT(frame_receive(ends[1], &frame, &err), 1);
        CHECK_INT(frame.header.request, i);
        CHECK_INT(frame.body_bytes, sizes[i]);
        CHECK(memcmp(frame.body, body, sizes[i]) == 0);
        CHECK_INT((fcntl(frame.fds[0], F_GETFD) & FD_CLOEXEC), FD_CLOEXEC);
        char text[5];
        CHECK_INT(pread(frame.fds[0], text, 5, 0), 5);
        CHECK(memcmp(text, "hello", 5) == 0);
        frame_release(&frame);
    }
    CHECK_INT(worker_test_open_fds(), before);
    close(ends[0]);
    CHECK_INT(frame_receive(ends[1], &frame, &err), 0); // closed
    CHECK_ERROR(frame_send(ends[1], &(struct frame_header){.type = FRAME_QUIT}, NULL, 0, NULL, &err), ERR_DEVICE,
                "cannot be reached", &err);
    close(ends[1]);
}

// Sends bytes with descriptors, as no side of ours would.
static void send_raw(int socket, const void *bytes, size_t n, const int *fds, size_t n_fds)
{
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {0};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    CHECK_INT(sendmsg(socket, &m, 0), n);
}

TEST(worker_protocol_damaged_frames_leave_nothing_open)
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    struct error err = {0};
    int fds[5];
    for (int i = 0; i < 5; i++)
        fds[i] = frame_memfd("x", "0123456789", 10, &err);
    int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
    REQUIRE(ftruncate(unsealed, 10) == 0);
    int before = worker_test_open_fds();
    uint8_t head[FRAME_HEADER_BYTES];
    struct frame_header h = {.type = FRAME_UPLOAD};
    frame_print(&h, head);
    send_raw(ends[0], "nonsense", 8, fds, 2);
    send_raw(ends[0], head, sizeof head, fds, 1); // more descriptors than the header says
    send_raw(ends[0], head, sizeof head, fds, 5); // than there is room for
    h.n_fds = 2;
    frame_print(&h, head);
    send_raw(ends[0], head, sizeof head, fds, 1); // fewer
    h = (struct frame_header){.type = FRAME_UPLOAD, .body_in_fd = true, .body_bytes = 11};
    frame_print(&h, head);
    send_raw(ends[0], head, sizeof head, fds, 1); // a body of another length
    h.body_bytes = 10;
    frame_print(&h, head);
    send_raw(ends[0], head, sizeof head, &unsealed, 1); // one that could be cut short while it is read
    for (int i = 0; i < 6; i++)
        CHECK_ERROR(frame_receive(ends[1], &frame, &err), ERR_DEVICE, "damaged", &err);
    head[4] = FRAME_PROTOCOL + 1;
    send_raw(ends[0], head, sizeof head, NULL, 0);
    CHECK_ERROR(frame_receive(ends[1], &frame, &err), ERR_DEVICE, "different versions", &err);
    CHECK_INT(worker_test_open_fds(), before);
}

TEST(worker_protocol_messages_round_trip)
{
    struct worker_shape args[2] = {{DT_BF16, 3, {2, 3, 4}}, {DT_PRED, 0, {0}}};
    struct worker_override overrides[1] = {{"xla_dump_to", "/tmp/a b"}};
    struct msg_compile m = {.text = "mo\0dule",
                            .length = 7,
                            .format = "mlir",
                            .num_partitions = 8,
                            .shardy = true,
                            .overrides = overrides,
                            .n_overrides = 1,
                            .args = args,
                            .n_args = 2};
    struct str s;
    str_init(&s);
    struct wire w;
    wire_write(&w, &s);
    msg_compile(&w, &m);
    CHECK(wire_done(&w));
    struct arena arena;
    arena_init(&arena);
    struct msg_compile back = {0};
    wire_read(&w, s.text, s.length, &arena);
    msg_compile(&w, &back);
    REQUIRE(wire_done(&w));
    CHECK(back.length == 7 && memcmp(back.text, "mo\0dule", 8) == 0);
    CHECK(back.shardy && !back.want_optimized && back.num_partitions == 8 && back.num_replicas == 0);
    CHECK_STR(back.overrides[0].value, "/tmp/a b");
    CHECK(back.n_args == 2 && back.args[0].dtype == DT_BF16 && back.args[0].dims[2] == 4 && back.args[1].rank == 0);
    // Cut anywhere, it is refused and nothing is read past the cut.
    for (size_t n = 0; n < s.length; n++) {
        char *copy = malloc(n ? n : 1); // its own place, so that a sanitizer sees a step too far
        memcpy(copy, s.text, n);
        wire_read(&w, copy, n, &arena);
        msg_compile(&w, &back);
        CHECK(!wire_done(&w));
        free(copy);
    }
    str_add_char(&s, 0);
    wire_read(&w, s.text, s.length, &arena);
    msg_compile(&w, &back);
    CHECK(!wire_done(&w)); // something is left over
    arena_release(&arena);
    str_release(&s);
}

TEST(worker_protocol_false_counts_and_values)
{
    struct arena arena;
    arena_init(&arena);
    struct wire w;
    uint32_t count = MESSAGE_MAX_RUNS; // allowed, but nothing follows
    wire_read(&w, &count, sizeof count, &arena);
    struct msg_time_reply times;
    msg_time_reply(&w, &times);
    CHECK(!wire_done(&w) && times.n == 0);
    CHECK(arena.used_bytes < 4096); // no room was made for what cannot be there
    struct str s;
    str_init(&s);
    wire_write(&w, &s);
    struct msg_upload m = {.name = "x", .shape = {DT_COUNT, 0, {0}}};
    msg_upload(&w, &m);
    CHECK(!wire_done(&w));
    m.shape = (struct worker_shape){DT_F32, WORKER_MAX_RANK + 1, {0}};
    wire_write(&w, &s);
    msg_upload(&w, &m);
    CHECK(!wire_done(&w));
    str_clear(&s);
    wire_read(&w, "\2", 1, &arena);
    bool b;
    wire_bool(&w, &b);
    CHECK(!wire_done(&w) && !b);
    wire_read(&w, "\3\0\0\0a\0b\0", 8, &arena); // a text with a zero byte inside
    const char *text;
    wire_text(&w, &text);
    CHECK(!wire_done(&w) && !text);
    str_release(&s);
    arena_release(&arena);
}

// ---- the worker program, spoken to by hand ----

static bool start_worker(struct process *p, int *socket)
{
    int ends[2];
    struct error err = {0};
    if (!CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0))
        return false;
    const char *const argv[] = {pjrt_test_beside("assay-worker"), "--channel=3", NULL};
    struct process_options o = {.argv = argv, .err = PROCESS_PIPE, .fds = &ends[1], .n_fds = 1};
    bool ok = CHECK_INT(process_start(p, &o, &err), 0);
    close(ends[1]);
    *socket = ends[0];
    return ok;
}

// Sends a request and gives the status of its reply.
static int ask(int socket, enum frame_type type, const struct str *body, const char **message)
{
    struct error err = {0};
    struct frame_header h = {.type = (uint16_t)type, .request = 5};
    CHECK_INT(frame_send(socket, &h, body->text, body->length, NULL, &err), 0);
    if (!CHECK_INT(frame_receive(socket, &frame, &err), 1))
        return 0;
    CHECK(frame.header.reply && frame.header.type == type && frame.header.request == 5);
    static struct arena arena;
    struct wire w;
    struct msg_status status;
    wire_read(&w, frame.body, frame.body_bytes, &arena);
    msg_status(&w, &status);
    CHECK(wire_done(&w));
    static char kept[960];
    snprintf(kept, sizeof kept, "%s", status.message ? status.message : "");
    *message = kept;
    frame_release(&frame);
    return status.code;
}

TEST(worker_protocol_worker_refuses)
{
    struct process p;
    int socket;
    REQUIRE(start_worker(&p, &socket));
    const char *message;
    struct str body;
    str_init(&body);
    CHECK_INT(ask(socket, FRAME_MEMORY, &body, &message), ERR_INTERNAL);
    CHECK(strstr(message, "first request") != NULL);
    CHECK_INT(ask(socket, FRAME_HELLO, &body, &message), ERR_INTERNAL);
    CHECK(strstr(message, "damaged") != NULL);
    // Another version of the program: both are named, and what else it says is not looked at.
    struct wire w;
    wire_write(&w, &body);
    const char *version = "0.0.0-other";
    wire_text(&w, &version);
    CHECK_INT(ask(socket, FRAME_HELLO, &body, &message), ERR_DEVICE);
    CHECK(strstr(message, "0.0.0-other") && strstr(message, ASSAY_VERSION));
    str_clear(&body);
    CHECK_INT(ask(socket, FRAME_QUIT, &body, &message), 0);
    CHECK(process_wait(&p, 60));
    CHECK(p.exit.how == PROCESS_EXITED && p.exit.value == 0);
    process_release(&p);
    close(socket);
    str_release(&body);
}

TEST(worker_protocol_worker_leaves)
{
    struct process p;
    int socket;
    REQUIRE(start_worker(&p, &socket));
    close(socket); // the program is gone
    CHECK(process_wait(&p, 60));
    CHECK(p.exit.how == PROCESS_EXITED && p.exit.value == 0);
    process_release(&p);

    REQUIRE(start_worker(&p, &socket));
    send_raw(socket, "nonsense", 8, NULL, 0);
    CHECK(process_wait(&p, 60));
    CHECK(p.exit.how == PROCESS_EXITED && p.exit.value == 70);
    char tail[128];
    process_stderr_tail(&p, tail, sizeof tail);
    CHECK_STR(tail, "assay-worker: a frame is damaged");
    process_release(&p);
    close(socket);

    struct process_options o = {.argv = (const char *const[]){pjrt_test_beside("assay-worker"), NULL}};
    struct error err = {0};
    struct process_exit e;
    REQUIRE_OK(process_run(&o, 60, NULL, 0, &e, tail, sizeof tail, &err), &err);
    CHECK_INT(e.value, 2);
    CHECK(strstr(tail, "started by assay") != NULL);
}

// ---- a client that hears nonsense ----

// A worker that is only a sleeping program; what it "answers" lies in the channel before the call.
static bool fake_worker(struct worker *w, int *other)
{
    memset(w, 0, sizeof *w);
    arena_init(&w->arena);
    int ends[2];
    struct error err = {0};
    struct process_options o = {.argv = (const char *const[]){"/bin/sleep", "600", NULL}, .err = PROCESS_PIPE};
    if (!CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) ||
        !CHECK_INT(process_start(&w->process, &o, &err), 0))
        return false;
    w->socket = ends[0];
    *other = ends[1];
    return true;
}

static void release_fake(struct worker *w, int other)
{
    process_release(&w->process);
    close(w->socket);
    close(other);
}

static void check_protocol_failure(struct worker *w, int other)
{
    struct worker_memory m;
    struct error err = {0};
    CHECK_ERROR(worker_memory(w, &m, &err), ERR_DEVICE, "no answer while asking for memory", &err);
    const struct worker_failure *f = worker_failure(w);
    CHECK(f && f->kind == WORKER_PROTOCOL);
    CHECK(w->process.ended); // and is killed
    CHECK(worker_test_no_child_left());
    release_fake(w, other);
}

TEST(worker_protocol_client_hears_nonsense)
{
    struct worker w;
    int other;
    REQUIRE(fake_worker(&w, &other));
    send_raw(other, "nonsense", 8, NULL, 0);
    check_protocol_failure(&w, other);

    static const struct frame_header headers[] = {
        {.type = FRAME_MEMORY, .reply = false, .request = 1}, // not a reply
        {.type = FRAME_SPANS, .reply = true, .request = 1},   // to something else
        {.type = FRAME_MEMORY, .reply = true, .request = 2},  // to a later request
        {.type = FRAME_MEMORY, .reply = true, .request = 1},  // but too short
    };
    struct str ok;
    str_init(&ok);
    struct wire wire;
    wire_write(&wire, &ok);
    struct msg_status status = {0};
    msg_status(&wire, &status);
    struct error err = {0};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        REQUIRE(fake_worker(&w, &other));
        REQUIRE_OK(frame_send(other, &headers[i], ok.text, ok.length, NULL, &err), &err);
        check_protocol_failure(&w, other);
    }
    // A status that is neither success nor an error.
    str_clear(&ok);
    wire_write(&wire, &ok);
    status.code = 3;
    msg_status(&wire, &status);
    REQUIRE(fake_worker(&w, &other));
    REQUIRE_OK(frame_send(other, &headers[3], ok.text, ok.length, NULL, &err), &err);
    check_protocol_failure(&w, other);
    str_release(&ok);
}

// Notes the names that are asked about; those that begin with "bad" are not known.
static bool known(void *context, const char *name, size_t n)
{
    str_addf(context, "%.*s,", (int)n, name);
    return strncmp(name, "bad", 3) != 0;
}

// Whether a flag is known is asked of the plugin's strings, and only of a plugin that has those of all common flags: a
// name or two may be there to set an option by.
TEST(worker_protocol_flags_that_a_plugin_has)
{
    static const char few[] = "text\0xla_dump_to\0help: --xla_dump_hlo_as_text=true\0";
    static const char all[] =
        "\0xla_dump_to\0xla_dump_hlo_as_text\0xla_backend_optimization_level\0long_xla_disable_hlo_passes\0"
        "xla_force_host_platform_device_count\0xla_other_and_more\0";
    char path[1024];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/plugin.so", test_dir());
    setenv("XLA_FLAGS", "--xla_other=1", 1);
    REQUIRE_OK(file_write(path, few, sizeof few, &err), &err);
    REQUIRE_OK(worker_check_plugin(path, NULL, &err), &err);
    REQUIRE_OK(file_write(path, all, sizeof all, &err), &err);
    CHECK_ERROR(worker_check_plugin(path, NULL, &err), ERR_USAGE, "xla_other", &err); // the beginning of another
    setenv("XLA_FLAGS", "--xla_disable_hlo_passes=x --xla_dump_to=y", 1);
    REQUIRE_OK(worker_check_plugin(path, NULL, &err), &err);
    unsetenv("XLA_FLAGS");
}

TEST(worker_protocol_flags_are_read_as_xla_reads_them)
{
    struct str names;
    str_init(&names);
    struct error err = {0};
    REQUIRE_OK(worker_check_flags("  --a=1\t--b --c_d='x --not y' --e=\"q\\\" --f\"\n--g=", "W", known, &names, &err),
               &err);
    CHECK_STR(str_text(&names), "a,b,c_d,e,g,");
    REQUIRE_OK(worker_check_flags("", "W", known, &names, &err), &err);
    CHECK_ERROR(worker_check_flags("--a --bad=1", "W", known, &names, &err), ERR_USAGE, "--bad", &err);
    CHECK_ERROR(worker_check_flags("--a -b", "W", known, &names, &err), ERR_USAGE, "'-b'", &err);
    CHECK_ERROR(worker_check_flags("--a word --b", "W", known, &names, &err), ERR_USAGE, "'word'", &err);
    CHECK_ERROR(worker_check_flags("---a", "W", known, &names, &err), ERR_USAGE, "---a", &err);
    CHECK_ERROR(worker_check_flags("--", "W", known, &names, &err), ERR_USAGE, "'--'", &err);
    CHECK_ERROR(worker_check_flags("--a='x", "W", known, &names, &err), ERR_USAGE, "closing quote", &err);
    CHECK_ERROR(worker_check_flags("--a=\"x\\\"", "W", known, &names, &err), ERR_USAGE, "closing quote", &err);
    str_release(&names);
}

TEST(worker_protocol_failure_line)
{
    static const struct {
        const char *tail, *line;
    } cases[] = {
        {"", ""},
        {"one\ntwo\n", "two"},
        {"F0000 00:00:1.5 17 a.cc:7] Check failed: x\n*** Check failure stack trace: ***\n    @ 0x1 f()\nthe end\n",
         "a.cc:7] Check failed: x"},
        {"terminate called\n    @ 0x1 f()\n\n", "terminate called"},
        {"WARNING: All log messages before absl::InitializeLog() ...\n", ""},
        {"F1129 12", "F1129 12"}, // cut inside what would be left out
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str s;
        str_init(&s);
        worker_failure_line(cases[i].tail, &s);
        CHECK_STR(str_text(&s), cases[i].line);
        str_release(&s);
    }
    struct worker_failure f = {.kind = WORKER_EXIT, .value = 9, .doing = "a\nb", .label = "\033[1m"};
    struct str s;
    str_init(&s);
    worker_failure_describe(&f, &s);
    CHECK(strchr(str_text(&s), '\n') == NULL && strchr(str_text(&s), '\033') == NULL); // one line, escaped
    CHECK(strstr(str_text(&s), "exit code 9") != NULL);
    str_release(&s);
    CHECK_STR(worker_failure_kind_name(WORKER_TIMEOUT), "timeout");
}

TEST(worker_protocol_shared_memory_is_all_there)
{
    static const size_t sizes[] = {1, 4097, (8u << 20) + 5};
    struct threads *two = NULL;
    struct error e = {0};
    REQUIRE_OK(threads_new(&two, 2, &e), &e);
    for (size_t i = 0; i < 6; i++) {
        size_t n = sizes[i / 2];
        void *data;
        int fd = frame_memfd_map("weights", n, i % 2 ? two : NULL, &data, &e);
        REQUIRE(fd >= 0 && data);
        uint8_t *bytes = data, back;
        unsigned char resident[(8 << 20) / 4096 + 2] = {0};
        size_t pages = (n + 4095) / 4096, there = 0, zeros = 0;
        CHECK(sysconf(_SC_PAGESIZE) != 4096 || mincore(data, n, resident) == 0);
        for (size_t k = 0; k < pages; k++)
            there += resident[k] & 1;
        for (size_t k = 0; k < n; k++)
            zeros += !bytes[k];
        CHECK(sysconf(_SC_PAGESIZE) != 4096 || there == pages);
        CHECK_INT(zeros, n);
        bytes[n - 1] = 7;
        CHECK(pread(fd, &back, 1, (off_t)n - 1) == 1 && back == 7 && lseek(fd, 0, SEEK_END) == (off_t)n);
        CHECK(ftruncate(fd, 0) != 0 && ftruncate(fd, (off_t)n + 1) != 0);
        munmap(data, n);
        close(fd);
    }
    void *data = two;
    int fd = frame_memfd_map("nothing", 0, two, &data, &e);
    CHECK(fd >= 0 && !data);
    close(fd);
    CHECK_ERROR(frame_memfd_map("all", (size_t)1 << 60, two, &data, &e), ERR_MEMORY, "shared memory", &e);
    CHECK_ERROR(frame_memfd_map("all", SIZE_MAX, two, &data, &e), ERR_MEMORY, "shared memory", &e);
    threads_free(two);
}

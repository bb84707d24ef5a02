// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "record/record.h"

enum { DEFAULT_WIDTH = 80, LEAST_WIDTH = 20, MOST_WIDTH = 1000 };

// --- stderr
// -------------------------------------------------------------------------------------------------------------

// Talk is best effort: nothing can be said when stderr itself fails.
static void talk(const struct str *line)
{
    struct error ignored = {0};
    fd_write_all(STDERR_FILENO, str_text(line), line->length, "stderr", &ignored);
}

struct progress_line {
    struct cli *cli;
    bool shown;
    uint64_t last_ns;
    char stage[64]; // that is shown, or its beginning
};

static struct progress_line line; // there is one terminal

// "  [#####.....]  ": how much of it is done, at a glance.
static void add_bar(struct str *text, size_t done, size_t total)
{
    enum { CELLS = 20 };
    size_t full = (size_t)((double)(done < total ? done : total) / (double)total * CELLS);
    char bar[CELLS + 1] = {0};
    memset(bar, '.', CELLS);
    memset(bar, '#', full);
    str_addf(text, "  [%s]  ", bar);
}

static void progress_show(void *context, const char *stage, size_t done, size_t total)
{
    struct progress_line *p = context;
    uint64_t now = clock_ns();
    bool last = total && done >= total;
    bool same = strncmp(p->stage, stage, sizeof p->stage - 1) == 0;
    // What begins is shown at once: it may be the one that takes minutes.
    if (p->shown && same && !last && now - p->last_ns < 50000000u) // 20 a second are enough for an eye
        return;
    p->last_ns = now;
    snprintf(p->stage, sizeof p->stage, "%s", stage);
    struct str s, text;
    str_init(&s);
    str_init(&text);
    str_add_terminal(&text, stage, strlen(stage));
    if (total) {
        add_bar(&text, done, total);
        str_addf(&text, "%zu/%zu", done, total);
    } else if (done)
        str_addf(&text, "  %zu", done);
    size_t room = (size_t)p->cli->width - 1, n = text.length < room ? text.length : room;
    while (n && n < text.length && ((unsigned char)text.text[n] & 0xc0) == 0x80)
        n--; // not in the middle of a character
    str_add(&s, "\r\033[K");
    str_add_n(&s, str_text(&text), n);
    talk(&s);
    p->shown = true;
    str_release(&s);
    str_release(&text);
}

void cli_progress_clear(struct cli *cli)
{
    (void)cli;
    if (!line.shown)
        return;
    struct error ignored = {0};
    fd_write_all(STDERR_FILENO, "\r\033[K", 4, "stderr", &ignored);
    line.shown = false;
}

void cli_note(struct cli *cli, const char *fmt, ...)
{
    if (cli->quiet)
        return;
    cli_progress_clear(cli);
    struct str text, s;
    str_init(&text);
    str_init(&s);
    va_list ap;
    va_start(ap, fmt);
    str_addv(&text, fmt, ap);
    va_end(ap);
    str_add_terminal(&s, str_text(&text), text.length);
    str_add_char(&s, '\n');
    talk(&s);
    str_release(&text);
    str_release(&s);
}

static void progress_note_show(void *context, const char *text)
{
    const struct progress_line *p = context;
    cli_note(p->cli, "%s", text);
}

// --- the terminal
// -------------------------------------------------------------------------------------------------------

static int columns(void)
{
    const char *text = getenv("COLUMNS");
    uint64_t n = 0;
    struct winsize ws;
    if (text && parse_u64(text, &n) && n > 0) {
        // as it says
    } else if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
        n = ws.ws_col;
    else
        n = DEFAULT_WIDTH;
    return n < LEAST_WIDTH ? LEAST_WIDTH : n > MOST_WIDTH ? MOST_WIDTH : (int)n;
}

void cli_output_init(struct cli *cli)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool dumb = !term || strcmp(term, "dumb") == 0;
    cli->width = columns();
    cli->color = !cli->no_color && !cli->json && !(no_color && *no_color) && !dumb && isatty(STDOUT_FILENO);
    line = (struct progress_line){.cli = cli};
    cli->progress = (struct progress){.note = progress_note_show, .context = &line};
    if (!cli->quiet && !dumb && isatty(STDERR_FILENO))
        cli->progress.report = progress_show;
}

const char *cli_bold(const struct cli *cli)
{
    return cli->color ? "\033[1m" : "";
}

const char *cli_dim(const struct cli *cli)
{
    return cli->color ? "\033[2m" : "";
}

const char *cli_plain(const struct cli *cli)
{
    return cli->color ? "\033[0m" : "";
}

// --- documents
// ----------------------------------------------------------------------------------------------------------

int cli_envelope(struct cli *cli, const char *result, const struct error *error, struct error *err)
{
    int rc = record_envelope(&cli->out, cli->command->name, cli->record, result, error, err);
    cli->document = rc == 0;
    return rc;
}

int cli_document(struct cli *cli, int (*fill)(void *of, struct jw *w, struct error *err), void *of, struct error *err)
{
    int rc = record_document(&cli->out, cli->command->name, cli->record, fill, of, err);
    cli->document = rc == 0;
    return rc;
}

int cli_text_result(struct cli *cli, const char *schema, const struct str *text, struct error *err)
{
    int rc = str_check(text, err);
    if (rc || !cli->json) {
        str_add_n(&cli->out, str_text(text), text->length);
        return rc;
    }
    struct str result;
    struct jw w;
    str_init(&result);
    jw_init(&w, &result, false);
    jw_object(&w);
    jw_kv_string(&w, "text", str_text(text));
    jw_object_end(&w);
    rc = jw_finish(&w, err);
    if (!rc)
        rc = record_envelope(&cli->out, schema, NULL, str_text(&result), NULL, err);
    cli->document = rc == 0;
    str_release(&result);
    return rc;
}

void cli_show_error(struct cli *cli, const struct error *e)
{
    if (cli->json) {
        if (cli->document)
            return; // the command has put it beside its result
        struct error second = {0};
        str_clear(&cli->out);
        cli->document = record_envelope(&cli->out, "error", NULL, NULL, e, &second) == 0;
        return;
    }
    cli_progress_clear(cli);
    struct str s;
    str_init(&s);
    str_add(&s, "assay: ");
    if (e->where[0]) {
        str_add_terminal(&s, e->where, strlen(e->where));
        str_add(&s, ": ");
    }
    str_add_terminal(&s, e->message, strlen(e->message));
    str_add_char(&s, '\n');
    talk(&s);
    str_release(&s);
}

// --- stdout
// -------------------------------------------------------------------------------------------------------------

static void end_as_sigpipe(void)
{
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
    _exit(128 + SIGPIPE); // where the signal is blocked
}

static int write_failed(int code, struct error *err)
{
    return error_set(err, ERR_IO, "stdout", "cannot be written: %s", strerror(code));
}

int cli_write_out(struct cli *cli, struct error *err)
{
    const char *p = str_text(&cli->out);
    size_t left = cli->out.length;
    int rc = str_check(&cli->out, err);
    while (!rc && left) {
        ssize_t n = write(STDOUT_FILENO, p, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE)
            end_as_sigpipe();
        if (n < 0)
            rc = write_failed(errno, err);
        else {
            p += n;
            left -= (size_t)n;
        }
    }
    if (close(STDOUT_FILENO) != 0 && cli->out.length && !rc) // some file systems report a full disk only here
        rc = write_failed(errno, err);
    return rc;
}

void cli_guard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        // The wrong way round on purpose: reading from it, or writing to it, fails.
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            abort();
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/manual.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/parse.h"
#include "cli/wrap.h"

#define MANUAL_DATE "2026-11-29" // of the text below; man pages carry one

// One writer for both forms: every page is said once, in sections, paragraphs, items and lines of code.
struct page {
    struct str *out;
    bool roff;
    int width;
    const char *bold, *plain;
};

enum { INDENT = 4, DEEP = 8 };

// --- the writer
// ---------------------------------------------------------------------------------------------------------

// One word for roff: what would be set as a typographic quote or dash is escaped, and a control character where the
// line starts.
static void add_roff_word(struct str *out, const char *word, size_t n, bool first)
{
    static const struct {
        char plain;
        const char *set;
    } escapes[] = {{'\\', "\\e"}, {'-', "\\-"}, {'`', "\\(ga"}, {'\'', "\\(aq"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
    if (first && n && (*word == '.' || *word == '\''))
        str_add(out, "\\&");
    for (size_t k = 0; k < n; k++) {
        const char *set = NULL;
        for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
            set = escapes[i].plain == word[k] ? escapes[i].set : set;
        if (set)
            str_add(out, set);
        else
            str_add_char(out, word[k]);
    }
}

// A line for roff, whatever its length.
static void add_roff(struct str *out, const char *text)
{
    add_roff_word(out, text, strlen(text), true);
}

// Running text for roff in lines of a length that people can edit, and a newline.
static void add_roff_text(struct str *out, const char *text)
{
    size_t line = out->length;
    while (*text) {
        size_t n = strcspn(text, " ");
        bool first = out->length == line;
        if (!first && out->length - line + n > 70) {
            str_add_char(out, '\n');
            line = out->length;
            first = true;
        }
        if (!first)
            str_add_char(out, ' ');
        add_roff_word(out, text, n, first);
        text += n + (text[n] == ' ');
    }
    str_add_char(out, '\n');
}

static void pad(struct str *out, int n)
{
    str_addf(out, "%*s", n, "");
}

static void section(struct page *p, const char *title)
{
    if (p->roff)
        str_addf(p->out, ".SH %s\n", title);
    else
        str_addf(p->out, "%s%s%s%s\n", p->out->length ? "\n" : "", p->bold, title, p->plain);
}

static void paragraph(struct page *p, const char *text, bool first)
{
    if (p->roff) {
        if (!first)
            str_add(p->out, ".PP\n");
        add_roff_text(p->out, text);
        return;
    }
    if (!first)
        str_add_char(p->out, '\n');
    wrap_text(p->out, text, INDENT, 0, p->width);
}

// A term with its explanation below it, or beside it where `beside` is the column for that and the term is short.
static void item(struct page *p, const char *term, const char *text, int beside)
{
    if (p->roff) {
        str_add(p->out, ".TP\n\\fB");
        add_roff(p->out, term);
        str_add(p->out, "\\fR\n");
        add_roff_text(p->out, text);
        return;
    }
    pad(p->out, INDENT);
    str_addf(p->out, "%s%s%s", p->bold, term, p->plain);
    int column = INDENT + (int)strlen(term);
    if (column + 2 <= beside && beside + 20 <= p->width) {
        pad(p->out, beside - column);
        wrap_text(p->out, text, beside, beside, p->width);
    } else {
        str_add_char(p->out, '\n');
        wrap_text(p->out, text, DEEP, 0, p->width);
    }
}

// A line that is not wrapped.
static void code(struct page *p, const char *text, bool first)
{
    if (p->roff) {
        str_add(p->out, first ? ".nf\n" : "");
        add_roff(p->out, text);
        str_add(p->out, "\n");
        return;
    }
    pad(p->out, INDENT);
    str_addf(p->out, "%s\n", text);
}

static void code_end(struct page *p)
{
    if (p->roff)
        str_add(p->out, ".fi\n");
}

// --- pieces
// -------------------------------------------------------------------------------------------------------------

static void options(struct page *p, const struct option *table)
{
    for (const struct option *o = table; o && o->name; o++) {
        struct str term, text;
        str_init(&term);
        str_init(&text);
        option_synopsis(&term, o);
        str_add(&text, o->help);
        if (o->kind == OPTION_STRINGS)
            str_add(&text, "; may be given again");
        if (o->preset)
            str_addf(&text, " (%s when not given)", o->preset);
        if (o->argument && o->choices) {
            str_add(&text, ": one of ");
            str_add(&text, o->choices);
        }
        item(p, str_text(&term), str_text(&text), 0);
        str_release(&term);
        str_release(&text);
    }
}

static void header(struct page *p, const char *name)
{
    if (!p->roff)
        return;
    str_add(p->out, ".\\\" SPDX-License-Identifier: Apache-2.0\n.TH ");
    for (const char *c = name; *c; c++) {
        if (*c == '-')
            str_add(p->out, "\\-");
        else
            str_add_char(p->out, (char)toupper((unsigned char)*c));
    }
    str_add(p->out, " 1 " MANUAL_DATE " \"assay " ASSAY_VERSION "\" \"assay manual\"\n");
}

static void name_section(struct page *p, const char *name, const char *summary)
{
    section(p, "NAME");
    if (p->roff) {
        add_roff(p->out, name);
        str_add(p->out, " \\-\n");
        add_roff_text(p->out, summary);
        return;
    }
    pad(p->out, INDENT);
    str_addf(p->out, "%s -", name);
    wrap_text(p->out, summary, INDENT, INDENT + (int)strlen(name) + 2, p->width);
}

// "assay-trace-ops" for "trace ops".
static void page_name(char out[96], const char *command)
{
    snprintf(out, 96, "assay-%s", command);
    for (char *c = out; *c; c++)
        *c = *c == ' ' ? '-' : *c;
}

static void command_page(struct page *p, const struct command *c)
{
    char name[96];
    page_name(name, c->name);
    header(p, name);
    name_section(p, name, c->summary);

    struct str s;
    str_init(&s);
    str_addf(&s, "assay %s%s%s%s", c->name, c->options ? " [OPTION...]" : "", c->operands ? " " : "",
             c->operands ? c->operands : "");
    section(p, "SYNOPSIS");
    code(p, str_text(&s), true);
    code_end(p);
    str_release(&s);

    section(p, "DESCRIPTION");
    for (size_t i = 0; c->description && c->description[i]; i++)
        paragraph(p, c->description[i], i == 0);
    if (c->options && c->options->name) {
        section(p, "OPTIONS");
        options(p, c->options);
    }
    section(p, "GLOBAL OPTIONS");
    options(p, global_options);
    if (c->examples) {
        section(p, "EXAMPLES");
        for (const struct example *e = c->examples; e->line; e++)
            item(p, e->line, e->what, 0);
    }
    section(p, "SEE ALSO");
    paragraph(p, p->roff ? "assay(1) has the exit codes and the environment" : "assay help: exit codes, environment",
              true);
}

static const struct {
    const char *code, *meaning;
} exits[] = {
    {"0", "done"},
    {"1",
     "done, and the answer is no: --require is not met, slower than --tolerance, a rung failed, a claim is refuted"},
    {"2", "the command line: an unknown command, option, chip, policy, suite or target; a run directory that exists"},
    {"3", "a file: missing, damaged, of the wrong kind, or it could not be written"},
    {"4", "device or plugin: absent, of the wrong version, crashed, out of memory"},
    {"5", "a mistake of the program"},
    {"6", "ambiguous: the measurement cannot tell"},
    {"130", "interrupted"},
};

static const struct {
    const char *name, *meaning;
} variables[] = {
    {"ASSAY_ISA",
     "the instruction set of conversions and quantisation: portable, neon, avx2, avx512, avx512_bf16 or amx; the "
     "best that the CPU has when not set, or when it lacks the one named. Results do not depend on it"},
    {"ASSAY_PLUGIN_PATH",
     "folders, parted by colons, in which PJRT plugins are looked for, and the plugins themselves"},
    {"ASSAY_WORKER", "the program assay-worker, where it is not beside assay nor installed with it"},
    {"COLUMNS", "width of the output; the terminal's own, or 80, when not set"},
    {"NO_COLOR", "when set and not empty, no terminal attributes"},
    {"XDG_CACHE_HOME", "folder under which the calibration of this machine is kept; ~/.cache when not set"},
};

static const char *const about[] = {
    "assay answers, for one model and one accelerator: what will it cost, what does low precision do to its answers, "
    "how "
    "fast does it really run, and where did the time go. It keeps the evidence in a run directory.",
    "The answer goes to stdout, progress and remarks go to stderr. With --json stdout is one JSON document: its "
    "\"schema\" "
    "names what is in \"result\", and an error is a document too. Every number carries a unit and its origin: S from a "
    "sheet, D derived by a formula, M measured; where no number can be given it is null and says why.",
    NULL};

// The commands whose names begin with `prefix`.
static void command_list(struct page *p, const struct command *const *all, const char *prefix)
{
    size_t n = strlen(prefix);
    int widest = 0;
    section(p, "COMMANDS");
    for (size_t i = 0; all[i]; i++) {
        int width = strncmp(all[i]->name, prefix, n) == 0 ? (int)strlen(all[i]->name) : 0;
        widest = width > widest ? width : widest;
    }
    for (size_t i = 0; all[i]; i++) {
        if (strncmp(all[i]->name, prefix, n) == 0)
            item(p, all[i]->name, all[i]->summary, INDENT + widest + 2);
    }
}

static void program_page(struct page *p, const struct command *const *all)
{
    header(p, "assay");
    name_section(p, "assay", "price, run and compare machine-learning programs on accelerators");
    section(p, "SYNOPSIS");
    code(p, "assay [OPTION...] COMMAND [OPTION...] [OPERAND...]", true);
    code(p, "assay help COMMAND", false);
    code_end(p);
    section(p, "DESCRIPTION");
    for (size_t i = 0; about[i]; i++)
        paragraph(p, about[i], i == 0);
    command_list(p, all, "");
    section(p, "GLOBAL OPTIONS");
    options(p, global_options);
    section(p, "EXIT STATUS");
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++)
        item(p, exits[i].code, exits[i].meaning, INDENT + 5);
    section(p, "ENVIRONMENT");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        item(p, variables[i].name, variables[i].meaning, 0);
}

// --- the four forms
// -----------------------------------------------------------------------------------------------------

static struct page text_page(const struct cli *cli, struct str *out)
{
    return (struct page){.out = out, .width = cli->width, .bold = cli_bold(cli), .plain = cli_plain(cli)};
}

void manual_command(const struct cli *cli, const struct command *c, struct str *out)
{
    struct page p = text_page(cli, out);
    command_page(&p, c);
}

void manual_program(const struct cli *cli, const struct command *const *commands, struct str *out)
{
    struct page p = text_page(cli, out);
    program_page(&p, commands);
}

bool manual_group(const struct cli *cli, const struct command *const *commands, const char *group, struct str *out)
{
    struct page p = text_page(cli, out);
    char prefix[64], name[72], what[96];
    int n = snprintf(prefix, sizeof prefix, "%s ", group);
    size_t members = 0;
    for (size_t i = 0; commands[i] && n < (int)sizeof prefix; i++)
        members += strncmp(commands[i]->name, prefix, (size_t)n) == 0;
    if (!members)
        return false;
    snprintf(name, sizeof name, "assay %s", group);
    snprintf(what, sizeof what, "a group of commands; `assay help %s NAME` says more of each", group);
    name_section(&p, name, what);
    command_list(&p, commands, prefix);
    return true;
}

void manual_command_roff(const struct command *c, struct str *out)
{
    struct page p = {.out = out, .roff = true};
    command_page(&p, c);
}

void manual_program_roff(const struct command *const *commands, struct str *out)
{
    struct page p = {.out = out, .roff = true};
    program_page(&p, commands);
}

void manual_usage(const struct command *const *commands, struct str *out)
{
    str_add(out, "usage: assay [--json] [--quiet] [--no-color] COMMAND ...\n\n");
    int widest = 0;
    for (size_t i = 0; commands[i]; i++) {
        int n = (int)strlen(commands[i]->name);
        widest = n > widest ? n : widest;
    }
    for (size_t i = 0; commands[i]; i++)
        str_addf(out, "  %-*s  %s\n", widest, commands[i]->name, commands[i]->summary);
    str_add(out, "\n`assay help COMMAND` says more.\n");
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

const struct option global_options[] = {
    {.name = "json", .help = "one JSON document on stdout, errors too"},
    {.name = "quiet", .letter = 'q', .help = "no progress and no remarks on stderr"},
    {.name = "no-color", .help = "no terminal attributes; the environment variable NO_COLOR does the same"},
    {.name = "help", .letter = 'h', .help = "print the manual page"},
    {.name = "version", .help = "print the version"},
    {0},
};

// --- names
// --------------------------------------------------------------------------------------------------------------

const struct command *command_find(const struct command *const *commands, const char *name)
{
    for (size_t i = 0; commands[i]; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

bool command_is_group(const struct command *const *commands, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; commands[i]; i++) {
        if (strncmp(commands[i]->name, name, n) == 0 && commands[i]->name[n] == ' ')
            return true;
    }
    return false;
}

int command_unknown(const struct command *const *commands, const char *name, struct error *err)
{
    struct suggest s = {.wanted = name};
    for (size_t i = 0; commands[i]; i++)
        suggest_offer(&s, commands[i]->name);
    if (s.best)
        return error_set(err, ERR_USAGE, NULL, "there is no command \"%s\"; did you mean \"%s\"?", name, s.best);
    return error_set(err, ERR_USAGE, NULL, "there is no command \"%s\"; `assay help` lists them", name);
}

static int member_unknown(const struct command *const *commands, const char *group, const char *member,
                          struct error *err)
{
    struct str list;
    str_init(&list);
    size_t n = strlen(group);
    struct suggest s = {.wanted = member ? member : ""};
    for (size_t i = 0; commands[i]; i++) {
        if (strncmp(commands[i]->name, group, n) == 0 && commands[i]->name[n] == ' ') {
            str_addf(&list, "%s%s", list.length ? ", " : "", commands[i]->name + n + 1);
            suggest_offer(&s, commands[i]->name + n + 1);
        }
    }
    if (!member)
        error_set(err, ERR_USAGE, group, "say what to do: %s", str_text(&list));
    else if (s.best)
        error_set(err, ERR_USAGE, group, "cannot do \"%s\"; did you mean \"%s\"? There is %s", member, s.best,
                  str_text(&list));
    else
        error_set(err, ERR_USAGE, group, "cannot do \"%s\"; there is %s", member, str_text(&list));
    str_release(&list);
    return ERR_USAGE;
}

void option_synopsis(struct str *out, const struct option *o)
{
    if (o->letter)
        str_addf(out, "-%c, ", o->letter);
    str_addf(out, "--%s", o->name);
    if (o->kind == OPTION_FLAG)
        return;
    str_add_char(out, ' ');
    if (o->argument) {
        str_add(out, o->argument);
        return;
    }
    for (const char *c = o->choices; *c; c++)
        str_add_char(out, *c == ' ' ? '|' : *c);
}

bool option_is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = choices; n && (p = strstr(p, value)); p++) {
        if ((p == choices || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0') && !memchr(p, ' ', n))
            return true;
    }
    return false;
}

// --- values
// -------------------------------------------------------------------------------------------------------------

static int put_number(const struct option *o, struct option_value *v, const char *shown, const char *text,
                      struct error *err)
{
    bool bounded = o->min < o->max;
    if (o->kind == OPTION_SEED64)
        return parse_u64(text, &v->seed)
                   ? 0
                   : error_set(err, ERR_USAGE, shown, "\"%s\" is not a whole number from 0 to 18446744073709551615",
                               text);
    if (o->kind == OPTION_INT) {
        size_t sign = text[0] == '-' || text[0] == '+', digits = strspn(text + sign, "0123456789");
        if (!parse_i64(text, &v->integer))
            return error_set(err, ERR_USAGE, shown, "\"%s\" is %s", text,
                             digits && !text[sign + digits] ? "too large a number" : "not a whole number");
        v->number = (double)v->integer;
    } else if (!parse_double(text, &v->number))
        return error_set(err, ERR_USAGE, shown, "\"%s\" is not a number", text);
    if (bounded && (v->number < o->min || v->number > o->max))
        return error_set(err, ERR_USAGE, shown, "%s is not between %.16g and %.16g", text, o->min, o->max);
    return 0;
}

static int put(struct cli *cli, const struct option *o, struct option_value *v, const char *text, struct error *err)
{
    char shown[80];
    snprintf(shown, sizeof shown, "--%s", o->name);
    if (o->choices && !option_is_choice(o->choices, text))
        return error_set(err, ERR_USAGE, shown, "\"%s\" is not one of: %s", text, o->choices);
    if (o->kind == OPTION_INT || o->kind == OPTION_SEED64 || o->kind == OPTION_DOUBLE) {
        int rc = put_number(o, v, shown, text, err);
        if (rc)
            return rc;
    }
    // Doubles whenever the count is a power of two, so that a thousand options stay linear.
    if ((v->count & (v->count - 1)) == 0) {
        const char **more = arena_new(&cli->arena, const char *, v->count ? 2 * v->count : 1, err);
        if (!more)
            return ERR_MEMORY;
        if (v->count)
            memcpy(more, v->strings, v->count * sizeof *more);
        v->strings = more;
    }
    v->strings[v->count++] = text;
    return 0;
}

static int put_presets(struct cli *cli, const struct option *options, struct error *err)
{
    for (size_t i = 0; options && options[i].name; i++) {
        struct option_value *v = &cli->values[i];
        if (!v->given && options[i].preset) {
            int rc = put(cli, &options[i], v, options[i].preset, err);
            if (rc)
                return rc;
        }
    }
    return 0;
}

// --- options
// ------------------------------------------------------------------------------------------------------------

// Looks `name` (n bytes) or, when n is 0, `letter` up. Returns the row and its index, or NULL.
static const struct option *find(const struct option *options, const char *name, size_t n, char letter, size_t *index)
{
    for (size_t i = 0; options && options[i].name; i++) {
        const struct option *o = &options[i];
        bool same = n ? strlen(o->name) == n && memcmp(o->name, name, n) == 0 : o->letter && o->letter == letter;
        if (same) {
            *index = i;
            return o;
        }
    }
    return NULL;
}

static int unknown(const struct cli *cli, const char *arg, size_t n, struct error *err)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), arg);
    struct suggest s = {.wanted = name + (name[0] == '-') + (name[1] == '-')};
    const struct option *tables[] = {cli->command ? cli->command->options : NULL, global_options};
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; tables[t] && tables[t][i].name; i++)
            suggest_offer(&s, tables[t][i].name);
    }
    const char *of = cli->command ? cli->command->name : NULL;
    if (s.best)
        return error_set(err, ERR_USAGE, of, "there is no option %s; did you mean --%s?", name, s.best);
    return error_set(err, ERR_USAGE, of, "there is no option %s; `assay help%s%s` lists them", name,
                     cli->command ? " " : "", cli->command ? of : "");
}

static bool global_flag(struct cli *cli, const char *name)
{
    struct {
        const char *name;
        bool *flag;
    } flags[] = {{"json", &cli->json},
                 {"quiet", &cli->quiet},
                 {"no-color", &cli->no_color},
                 {"help", &cli->help},
                 {"version", &cli->version}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(flags[i].name, name) == 0)
            return *flags[i].flag = true;
    }
    return false;
}

// argv[*at] begins with '-' and is no operand. Leaves *at on the last argument used.
static int parse_option(struct cli *cli, int argc, char **argv, int *at, struct error *err)
{
    const char *arg = argv[*at], *value = NULL;
    const struct option *own = cli->command ? cli->command->options : NULL;
    bool is_long = arg[1] == '-';
    size_t index = 0, length = 0; // of a long name
    const char *name = is_long ? arg + 2 : arg + 1;
    if (is_long) {
        const char *equals = strchr(name, '=');
        length = (size_t)(equals ? equals - name : (ptrdiff_t)strlen(name));
        value = equals ? equals + 1 : NULL;
    } else
        value = name[1] ? name + 1 : NULL;
    const struct option *o = NULL;
    bool global = false;
    if (!is_long || length) {
        o = find(own, name, length, *name, &index);
        if (!o && (o = find(global_options, name, length, *name, &index)))
            global = true;
    }
    if (!o)
        return unknown(cli, arg, is_long ? length + 2 : strlen(arg), err);

    char shown[80];
    snprintf(shown, sizeof shown, "--%s", o->name);
    if (o->kind == OPTION_FLAG) {
        if (value)
            return error_set(err, ERR_USAGE, shown, "takes no value");
        if (global)
            global_flag(cli, o->name);
        else
            cli->values[index].given = true;
        return 0;
    }
    if (!value) {
        // What looks like an option is one: a value that begins with two dashes is written --option=VALUE.
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            return error_set(err, ERR_USAGE, shown, "needs a value (%s)", o->argument ? o->argument : o->choices);
        value = argv[++*at];
    }
    struct option_value *v = &cli->values[index];
    if (v->given && o->kind != OPTION_STRINGS)
        return error_set(err, ERR_USAGE, shown, "is given twice");
    v->given = true;
    return put(cli, o, v, value, err);
}

// --- the whole line
// -----------------------------------------------------------------------------------------------------

static int choose_command(struct cli *cli, const struct command *const *commands, int argc, char **argv, int *at,
                          struct error *err)
{
    const char *name = argv[*at];
    cli->command = command_find(commands, name);
    if (!cli->command && command_is_group(commands, name)) {
        const char *member = *at + 1 < argc && argv[*at + 1][0] != '-' ? argv[*at + 1] : NULL;
        if (member) {
            const char *full = arena_printf(&cli->arena, err, "%s %s", name, member);
            if (!full)
                return ERR_MEMORY;
            cli->command = command_find(commands, full);
            ++*at;
        }
        if (!cli->command)
            return member_unknown(commands, name, member, err);
    }
    if (!cli->command)
        return command_unknown(commands, name, err);
    size_t n = 0;
    while (cli->command->options && cli->command->options[n].name)
        n++;
    cli->values = arena_new(&cli->arena, struct option_value, n, err);
    return cli->values ? 0 : ERR_MEMORY;
}

static int check_operands(const struct cli *cli, struct error *err)
{
    const struct command *c = cli->command;
    if (cli->n_operands < (size_t)c->min_operands)
        return error_set(err, ERR_USAGE, c->name, "needs %s; `assay help %s` says more", c->operands, c->name);
    if (c->max_operands >= 0 && cli->n_operands > (size_t)c->max_operands) {
        const char *extra = cli->operands[c->max_operands];
        if (c->max_operands == 0)
            return error_set(err, ERR_USAGE, c->name, "takes no operand, \"%s\" is one too many", extra);
        return error_set(err, ERR_USAGE, c->name, "takes %s, \"%s\" is one too many", c->operands, extra);
    }
    return 0;
}

int cli_parse(struct cli *cli, const struct command *const *commands, int argc, char **argv, struct error *err)
{
    const char **operands = arena_new(&cli->arena, const char *, argc > 0 ? argc : 1, err);
    if (!operands)
        return ERR_MEMORY;
    cli->operands = operands;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        int rc = 0;
        if (!only_operands && strcmp(arg, "--") == 0)
            only_operands = true;
        else if (!only_operands && arg[0] == '-' && arg[1])
            rc = parse_option(cli, argc, argv, &i, err);
        else if (!cli->command)
            rc = choose_command(cli, commands, argc, argv, &i, err);
        else
            operands[cli->n_operands++] = arg;
        if (rc)
            return rc;
    }
    if (!cli->command || cli->help || cli->version)
        return 0;
    int rc = check_operands(cli, err);
    return rc ? rc : put_presets(cli, cli->command->options, err);
}

// --- reading the values
// -------------------------------------------------------------------------------------------------

static const struct option_value *value_of(const struct cli *cli, const char *name)
{
    const struct option *options = cli->command->options;
    for (size_t i = 0; options && options[i].name; i++) {
        if (strcmp(options[i].name, name) == 0)
            return &cli->values[i];
    }
    fprintf(stderr, "assay: the command %s has no option --%s in its table\n", cli->command->name, name);
    abort();
}

bool cli_given(const struct cli *cli, const char *name)
{
    return value_of(cli, name)->given;
}

bool cli_flag(const struct cli *cli, const char *name)
{
    return value_of(cli, name)->given;
}

const char *cli_string(const struct cli *cli, const char *name)
{
    const struct option_value *v = value_of(cli, name);
    return v->count ? v->strings[v->count - 1] : NULL;
}

int64_t cli_int(const struct cli *cli, const char *name, int64_t absent)
{
    const struct option_value *v = value_of(cli, name);
    return v->count ? v->integer : absent;
}

uint64_t cli_seed(const struct cli *cli)
{
    return value_of(cli, "seed")->seed;
}

double cli_double(const struct cli *cli, const char *name, double absent)
{
    const struct option_value *v = value_of(cli, name);
    return v->count ? v->number : absent;
}

size_t cli_strings(const struct cli *cli, const char *name, const char *const **out)
{
    const struct option_value *v = value_of(cli, name);
    *out = v->strings;
    return v->count;
}

// SPDX-License-Identifier: Apache-2.0
// Every command's table is complete, and parser, help, man page and completion say the same.
#include "base/json.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "record/record.h"
#include "test.h"

// Lower case (unless it begins with a name or an abbreviation), no full stop, one line.
static bool prose(const char *s)
{
    if (!s || !*s)
        return false;
    size_t word = strcspn(s, " "), lower = 0;
    while (lower + 1 < word && s[lower + 1] >= 'a' && s[lower + 1] <= 'z')
        lower++;
    bool capitalised = s[0] >= 'A' && s[0] <= 'Z' && word > 1 && lower == word - 1;
    return !capitalised && s[strlen(s) - 1] != '.' && !strchr(s, '\n') && utf8_valid(s, strlen(s), NULL);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

static void check_option(const struct command *c, const struct option *o)
{
    bool ok = prose(o->help) && (o->kind == OPTION_FLAG) == (!o->argument && !o->choices) && strlen(o->name) > 1 &&
              strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(o->name) && o->min <= o->max &&
              !(o->choices && o->words) && !(o->preset && o->kind == OPTION_FLAG) &&
              (o->kind == OPTION_INT || o->kind == OPTION_DOUBLE || o->min == o->max) &&
              (!o->choices || !o->preset || option_is_choice(o->choices, o->preset));
    for (const struct option *g = global_options; g->name; g++)
        ok &= strcmp(g->name, o->name) != 0 && (!o->letter || g->letter != o->letter);
    for (const struct option *other = c->options; other != o; other++)
        ok &= strcmp(other->name, o->name) != 0 && (!o->letter || other->letter != o->letter);
    if (!CHECK(ok))
        printf("    %s --%s\n", c->name, o->name);
}

TEST(cli_tables_are_complete)
{
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        bool ok = prose(c->summary) && c->run && c->description && c->description[0] && c->min_operands >= 0 &&
                  (c->max_operands < 0 || c->max_operands >= c->min_operands) &&
                  (c->max_operands == 0) == (c->operands == NULL) && c->examples && c->examples->line;
        for (size_t k = 0; k < i; k++)
            ok &= strcmp(commands[k]->name, c->name) != 0;
        for (const struct example *e = c->examples; e && e->line; e++)
            ok &= prose(e->what) && strstr(e->line, "assay ") != NULL;
        for (size_t k = 0; c->description && c->description[k]; k++)
            ok &= c->description[k][strlen(c->description[k]) - 1] == '.';
        if (!CHECK(ok))
            printf("    %s\n", c->name);
        for (const struct option *o = c->options; o && o->name; o++)
            check_option(c, o);
    }
}

// Presets go through the same checks as values that are given.
TEST(cli_tables_presets_parse)
{
    for (size_t i = 0; commands[i]; i++) {
        struct cli cli = {0};
        struct error e = {0};
        char name[64], program[] = "assay", operand[] = "x";
        snprintf(name, sizeof name, "%s", commands[i]->name);
        char *argv[16] = {program};
        int argc = 1;
        char *save = NULL;
        for (char *w = strtok_r(name, " ", &save); w; w = strtok_r(NULL, " ", &save))
            argv[argc++] = w;
        for (int k = 0; k < commands[i]->min_operands && argc < 15; k++)
            argv[argc++] = operand;
        REQUIRE_OK(cli_parse(&cli, commands, argc, argv, &e), &e);
        CHECK(cli.command == commands[i]);
        arena_release(&cli.arena);
    }
}

TEST(cli_tables_help_man_and_completion_agree)
{
    struct cli cli = {.width = 80};
    struct str text, man, bash, zsh;
    str_init(&text);
    str_init(&man);
    str_init(&bash);
    str_init(&zsh);
    completion_bash(commands, &bash);
    completion_zsh(commands, &zsh);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        str_clear(&text);
        str_clear(&man);
        manual_command(&cli, c, &text);
        manual_command_roff(c, &man);
        char part[160];
        // The command's own stretch of each script.
        snprintf(part, sizeof part, "\n    '%s')\n", c->name);
        const char *in_bash = strstr(str_text(&bash), part), *in_zsh = strstr(str_text(&zsh), part);
        REQUIRE(in_bash && in_zsh);
        const char *bash_end = strstr(in_bash, "\n        ;;\n"), *zsh_end = strstr(in_zsh, "\n        ;;\n");
        REQUIRE(bash_end && zsh_end);
        for (const struct option *o = c->options; o && o->name; o++) {
            struct str shown;
            str_init(&shown);
            option_synopsis(&shown, o);
            snprintf(part, sizeof part, "\n    %s\n", str_text(&shown));
            bool ok = count(str_text(&text), part) == 1;
            snprintf(part, sizeof part, " --%s", o->name);
            const char *b = strstr(in_bash, part);
            snprintf(part, sizeof part, "'%s--%s%s[", o->kind == OPTION_STRINGS ? "*" : "", o->name,
                     o->kind == OPTION_FLAG ? "" : "=");
            const char *z = strstr(in_zsh, part);
            ok &= b && b < bash_end && z && z < zsh_end;
            // roff escapes the dashes
            struct str escaped;
            str_init(&escaped);
            str_add(&escaped, "\\-\\-");
            for (const char *p = o->name; *p; p++)
                str_addf(&escaped, *p == '-' ? "\\-" : "%c", *p);
            ok &= strstr(str_text(&man), str_text(&escaped)) != NULL;
            if (!CHECK(ok))
                printf("    %s --%s\n", c->name, o->name);
            str_release(&escaped);
            str_release(&shown);
        }
        for (const struct option *o = global_options; o->name; o++) {
            snprintf(part, sizeof part, "--%s\n", o->name);
            CHECK_INT(count(str_text(&text), part), 1);
        }
    }
    CHECK_INT(bash.failed + zsh.failed + text.failed + man.failed, 0);
    str_release(&text);
    str_release(&man);
    str_release(&bash);
    str_release(&zsh);
}

TEST(cli_completion_of_groups)
{
    static const struct command ops = {.name = "trace ops", .summary = "s"},
                                steps = {.name = "trace steps", .summary = "s"},
                                go = {.name = "go", .summary = "it's a: [go]"};
    const struct command *const table[] = {&go, &ops, &steps, NULL};
    struct str bash, zsh;
    str_init(&bash);
    str_init(&zsh);
    completion_bash(table, &bash);
    completion_zsh(table, &zsh);
    CHECK(strstr(str_text(&bash), "'') words=' go trace'") != NULL); // the group once
    CHECK(strstr(str_text(&bash), "'trace') words=' ops steps'") != NULL);
    CHECK(strstr(str_text(&bash), "''|trace) ;;") != NULL); // a second word follows
    CHECK(strstr(str_text(&bash), "'trace ops')") != NULL);
    CHECK(strstr(str_text(&zsh), "'go:it'\\''s a\\: \\[go\\]'") != NULL); // quoted for the shell and for _describe
    CHECK(strstr(str_text(&zsh), "'trace:") != NULL);
    CHECK(strstr(str_text(&zsh), "'trace') _values 'what to do' ops steps") != NULL);
    CHECK(strstr(str_text(&zsh), "'trace steps')") != NULL);
    str_release(&bash);
    str_release(&zsh);
}

TEST(cli_manual_fits_the_terminal)
{
    for (int width = 20; width <= 120; width += 20) {
        struct cli cli = {.width = width};
        struct str text;
        str_init(&text);
        manual_program(&cli, commands, &text);
        for (size_t i = 0; commands[i]; i++)
            manual_command(&cli, commands[i], &text);
        for (char *line = text.text, *end; line && *line; line = end + 1) {
            end = strchr(line, '\n');
            REQUIRE(end);
            *end = '\0';
            // Only what cannot be broken may be longer: one word, or a term or a line of code, which stand 4 deep.
            size_t indent = strspn(line, " ");
            bool unbroken = !strchr(line + indent, ' ') || indent == 4;
            if (!CHECK((int)strlen(line) <= width || unbroken))
                printf("    %d: %s\n", width, line);
            CHECK(line == end || end[-1] != ' ');
        }
        str_release(&text);
    }
}

TEST(cli_envelope_is_one_document)
{
    struct error e = {0}, beside = {0};
    struct str s;
    str_init(&s);
    REQUIRE_OK(record_envelope(&s, "trace ops", "runs/x", "{\"a\": 1}", NULL, &e), &e);
    json_t *root = json_parse(str_text(&s), s.length, "envelope", &e);
    REQUIRE(root);
    CHECK_STR(json_string_value(json_object_get(root, "schema")), "assay.trace.ops/1");
    CHECK_STR(json_string_value(json_object_get(root, "assay")), ASSAY_VERSION);
    CHECK_STR(json_string_value(json_object_get(root, "record")), "runs/x");
    CHECK(json_object_get(root, "error") == NULL);
    json_decref(root);
    str_clear(&s);
    error_set(&beside, ERR_INPUT, "a\n\"b", "cut <short>");
    REQUIRE_OK(record_envelope(&s, "chips", NULL, "[]", &beside, &e), &e);
    root = json_parse(str_text(&s), s.length, "envelope", &e);
    REQUIRE(root);
    const json_t *o = json_object_get(root, "error");
    CHECK_STR(json_string_value(json_object_get(o, "code")), "bad-input");
    CHECK_STR(json_string_value(json_object_get(o, "message")), "cut <short>");
    CHECK_STR(json_string_value(json_object_get(o, "where")), "a\n\"b");
    CHECK(json_is_null(json_object_get(root, "record")));
    json_decref(root);
    str_release(&s);
}

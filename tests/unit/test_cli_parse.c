// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"
#include "cli/parse.h"
#include "test.h"

static const struct option go_options[] = {
    {.name = "flag", .letter = 'f', .help = "h"},
    {.name = "out", .letter = 'o', .kind = OPTION_STRING, .argument = "FILE", .help = "h"},
    {.name = "chip", .kind = OPTION_STRINGS, .argument = "CHIP", .help = "h"},
    {.name = "count", .kind = OPTION_INT, .argument = "N", .preset = "7", .min = 1, .max = 10, .help = "h"},
    {.name = "shift", .kind = OPTION_INT, .argument = "N", .help = "h"},
    {.name = "scale", .kind = OPTION_DOUBLE, .argument = "X", .min = 0.5, .max = 2, .help = "h"},
    {.name = "list", .kind = OPTION_STRINGS, .argument = "X", .preset = "one", .help = "h"},
    OPTION_KERNELS,
    {0},
};
static const struct command go = {
    .name = "go", .operands = "A [B]", .min_operands = 1, .max_operands = 2, .options = go_options, .summary = "s"};
static const struct command bare = {.name = "bare", .summary = "s"};
static const struct command many = {.name = "many", .operands = "[X...]", .max_operands = -1, .summary = "s"};
static const struct command trace_ops = {
    .name = "trace ops", .operands = "FILE", .min_operands = 1, .max_operands = 1, .summary = "s"};
static const struct command trace_steps = {.name = "trace steps", .summary = "s"};
static const struct command *const table[] = {&bare, &go, &many, &trace_ops, &trace_steps, NULL};

static struct cli cli;
static struct error error;

static int parse(const char *line)
{
    static char words[512];
    static char *argv[64];
    snprintf(words, sizeof words, "assay %s", line);
    int argc = 0;
    char *save = NULL;
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    arena_release(&cli.arena);
    memset(&cli, 0, sizeof cli);
    error_clear(&error);
    return cli_parse(&cli, table, argc, argv, &error);
}

#define REFUSED(line, part)                                                                                            \
    do {                                                                                                               \
        CHECK_INT(parse(line), ERR_USAGE);                                                                             \
        if (!CHECK(strstr(error.message, part) || strstr(error.where, part)))                                          \
            printf("    %s: %s\n", error.where, error.message);                                                        \
    } while (0)

TEST(cli_parse_values_in_every_form)
{
    const char *const *list;
    REQUIRE_OK(parse("go a -f --out x --count=3 --scale 1.5 --shift -4 --chip v5e --chip=v6e --chip h100 b"), &error);
    CHECK(cli.command == &go);
    CHECK_INT(cli.n_operands, 2);
    CHECK_STR(cli.operands[0], "a");
    CHECK_STR(cli.operands[1], "b");
    CHECK(cli_flag(&cli, "flag"));
    CHECK_STR(cli_string(&cli, "out"), "x");
    CHECK_INT(cli_int(&cli, "count", 0), 3);
    CHECK_INT(cli_int(&cli, "shift", 0), -4);
    CHECK_NEAR(cli_double(&cli, "scale", 0), 1.5, 0);
    CHECK_INT(cli_strings(&cli, "chip", &list), 3);
    CHECK_STR(list[0], "v5e");
    CHECK_STR(list[2], "h100");

    REQUIRE_OK(parse("go -ox a"), &error);
    CHECK_STR(cli_string(&cli, "out"), "x");
    REQUIRE_OK(parse("go -o x a"), &error);
    CHECK_STR(cli_string(&cli, "out"), "x");
    REQUIRE_OK(parse("go --out= a"), &error);
    CHECK_STR(cli_string(&cli, "out"), "");
    REQUIRE_OK(parse("go --out=--flag a"), &error);
    CHECK_STR(cli_string(&cli, "out"), "--flag");
    CHECK(!cli_flag(&cli, "flag"));
    REQUIRE_OK(parse("go --out=a=b -"), &error); // a dash alone is an operand
    CHECK_STR(cli_string(&cli, "out"), "a=b");
    CHECK_STR(cli.operands[0], "-");
    REQUIRE_OK(parse("go -- --flag -x"), &error);
    CHECK_INT(cli.n_operands, 2);
    CHECK_STR(cli.operands[1], "-x");
    CHECK(!cli_flag(&cli, "flag"));
    arena_release(&cli.arena);
}

TEST(cli_parse_presets_and_absence)
{
    const char *const *list;
    REQUIRE_OK(parse("go a"), &error);
    CHECK_INT(cli_int(&cli, "count", 0), 7);
    CHECK(!cli_given(&cli, "count"));
    CHECK_INT(cli_int(&cli, "shift", 42), 42);
    CHECK_NEAR(cli_double(&cli, "scale", 9), 9, 0);
    CHECK(cli_string(&cli, "out") == NULL);
    CHECK_STR(cli_string(&cli, "kernels"), "on");
    CHECK_INT(cli_strings(&cli, "chip", &list), 0);
    CHECK_INT(cli_strings(&cli, "list", &list), 1); // the preset ...
    CHECK_STR(list[0], "one");
    REQUIRE_OK(parse("go a --list two"), &error);
    CHECK_INT(cli_strings(&cli, "list", &list), 1); // ... gives way
    CHECK_STR(list[0], "two");
    arena_release(&cli.arena);
}

TEST(cli_parse_many_values_keep_their_order)
{
    static char *argv[1 + 1 + 2 * 1000];
    static char text[1000][12], program[] = "assay", name[] = "go", option[] = "--chip", operand[] = "a";
    int argc = 0;
    argv[argc++] = program;
    argv[argc++] = name;
    for (int i = 0; i < 999; i++) {
        snprintf(text[i], sizeof text[i], "%d", i);
        argv[argc++] = option;
        argv[argc++] = text[i];
    }
    argv[argc++] = operand;
    memset(&cli, 0, sizeof cli);
    error_clear(&error);
    REQUIRE_OK(cli_parse(&cli, table, argc, argv, &error), &error);
    const char *const *list;
    CHECK_INT(cli_strings(&cli, "chip", &list), 999);
    for (int i = 0; i < 999; i++)
        CHECK(list[i] == text[i]);
    arena_release(&cli.arena);
}

TEST(cli_parse_global_options_anywhere)
{
    REQUIRE_OK(parse("--json bare"), &error);
    CHECK(cli.json && !cli.quiet && !cli.no_color);
    REQUIRE_OK(parse("--no-color go --quiet a --json"), &error);
    CHECK(cli.json && cli.quiet && cli.no_color);
    REQUIRE_OK(parse("-q bare"), &error);
    CHECK(cli.quiet);
    REQUIRE_OK(parse("--version"), &error);
    CHECK(cli.version && !cli.command);
    REQUIRE_OK(parse("go --help"), &error); // no complaint about the operand
    CHECK(cli.help && cli.command == &go);
    REQUIRE_OK(parse("trace ops -h"), &error);
    CHECK(cli.help && cli.command == &trace_ops);
    REQUIRE_OK(parse(""), &error);
    CHECK(!cli.command && !cli.help);
    REQUIRE_OK(parse("many -- --json"), &error);
    CHECK(!cli.json);
    CHECK_STR(cli.operands[0], "--json");
    arena_release(&cli.arena);
}

TEST(cli_parse_refuses)
{
    REFUSED("og", "did you mean \"go\"");
    REFUSED("entirely-else", "assay help");
    REFUSED("go a --chps v5e", "did you mean --chip");
    REFUSED("go a --cou 3", "did you mean --count"); // an abbreviation is not accepted, but understood
    REFUSED("go a --jsn", "did you mean --json");
    REFUSED("go a --zzzzzz", "assay help go");
    REFUSED("go a -x", "-x");
    REFUSED("--flag go a", "--flag"); // its own options follow the command
    REFUSED("go a --out", "needs a value (FILE)");
    REFUSED("go a --out --flag", "needs a value");
    REFUSED("go a --kernels", "on off");
    REFUSED("go a -o", "needs a value");
    REFUSED("go a --kernels maybe", "one of: on off");
    REFUSED("go a --kernels o", "one of: on off");
    REFUSED("go a --kernels=", "one of: on off");
    REFUSED("go a --count x", "not a whole number");
    REFUSED("go a --count 3x", "not a whole number");
    REFUSED("go a --count=", "not a whole number");
    REFUSED("go a --count -", "not a whole number");
    REFUSED("go a --count 99999999999999999999", "too large a number");
    REFUSED("go a --count -99999999999999999999", "too large a number");
    REFUSED("go a --count 0", "between 1 and 10");
    REFUSED("go a --count 11", "between 1 and 10");
    REFUSED("go a --scale nan", "not a number");
    REFUSED("go a --scale inf", "not a number");
    REFUSED("go a --scale 2.5", "between 0.5 and 2");
    REFUSED("go a --count 3 --count 3", "given twice");
    REFUSED("go a --flag=yes", "takes no value");
    REFUSED("go a --json=yes", "takes no value");
    REFUSED("go a -fx", "takes no value");
    REFUSED("go a --=x", "there is no option");
    REFUSED("go a b c", "\"c\" is one too many");
    REFUSED("go", "needs A [B]");
    REFUSED("bare x", "takes no operand");
    REFUSED("trace", "ops, steps");
    REFUSED("trace opps x", "did you mean \"ops\"");
    REFUSED("trace --json", "ops, steps");
    REFUSED("trace ops", "needs FILE");
    arena_release(&cli.arena);
}

TEST(cli_parse_hostile_words_do_not_overrun)
{
    char word[4096];
    memset(word, 'x', sizeof word);
    word[0] = word[1] = '-';
    word[sizeof word - 1] = '\0';
    for (int dashes = 0; dashes <= 2; dashes++) {
        char *argv[] = {(char[]){"assay"}, (char[]){"go"}, word + 2 - dashes, NULL};
        for (int without = 0; without < 2; without++) {
            if (without)
                argv[1] = argv[2];
            memset(&cli, 0, sizeof cli);
            error_clear(&error);
            int rc = cli_parse(&cli, table, without ? 2 : 3, argv, &error);
            CHECK_INT(rc, dashes || without ? ERR_USAGE : 0);
            arena_release(&cli.arena);
        }
    }
}

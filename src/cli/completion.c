// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <string.h>

#include "cli/parse.h"

// Inside single quotes of a shell.
static void quoted(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            str_add(out, "'\\''");
        else
            str_add_char(out, *text);
    }
}

// The words a value may have, parted by spaces.
static void value_words(struct str *out, const char *choices, complete_words *words)
{
    struct str list;
    str_init(&list);
    if (choices)
        str_add(&list, choices);
    else if (words)
        words(&list);
    while (list.length && list.text[list.length - 1] == '\n')
        list.text[--list.length] = '\0';
    for (size_t i = 0; i < list.length; i++) {
        if (list.text[i] == '\n')
            list.text[i] = ' ';
    }
    quoted(out, str_text(&list));
    str_release(&list);
}

static void option_names(struct str *out, const struct option *table)
{
    for (const struct option *o = table; o && o->name; o++) {
        str_addf(out, " --%s", o->name);
        if (o->letter)
            str_addf(out, " -%c", o->letter);
    }
}

// First words of all commands, each once, or the second words of a group.
static void command_names(struct str *out, const struct command *const *all, const char *group)
{
    size_t n = group ? strlen(group) : 0;
    for (size_t i = 0; all[i]; i++) {
        const char *name = all[i]->name;
        if (group) {
            if (strncmp(name, group, n) == 0 && name[n] == ' ')
                str_addf(out, " %s", name + n + 1);
            continue;
        }
        size_t first = strcspn(name, " ");
        bool again = i > 0 && strncmp(all[i - 1]->name, name, first) == 0 && all[i - 1]->name[first] == ' ';
        if (!again)
            str_addf(out, " %.*s", (int)first, name);
    }
}

// Calls `each` once for every group: members stand together in the table.
static void each_group(const struct command *const *all, struct str *out,
                       void (*each)(struct str *, const struct command *const *, const char *))
{
    for (size_t i = 0; all[i]; i++) {
        size_t first = strcspn(all[i]->name, " ");
        bool again = i > 0 && strncmp(all[i - 1]->name, all[i]->name, first + 1) == 0;
        char group[64];
        if (!all[i]->name[first] || again || first >= sizeof group)
            continue;
        memcpy(group, all[i]->name, first);
        group[first] = '\0';
        each(out, all, group);
    }
}

// --- bash
// ---------------------------------------------------------------------------------------------------------------

static void bash_action(struct str *out, enum complete complete, const char *choices, complete_words *words)
{
    if (choices || words) {
        str_add(out, "words='");
        value_words(out, choices, words);
        str_add(out, "'");
    } else if (complete == COMPLETE_DIR)
        str_add(out, "kind=dir");
    else if (complete == COMPLETE_FILE)
        str_add(out, "kind=file");
    else
        str_add(out, ":");
}

static void bash_command(struct str *out, const struct command *const *all, const struct command *c)
{
    str_addf(out, "    '%s')\n        options='", c->name);
    option_names(out, c->options);
    str_add(out, "'\n        case $previous in\n");
    for (const struct option *o = c->options; o && o->name; o++) {
        if (o->kind == OPTION_FLAG)
            continue;
        str_addf(out, "        --%s", o->name);
        if (o->letter)
            str_addf(out, " | -%c", o->letter);
        str_add(out, ") value=1; ");
        bash_action(out, o->complete, o->choices, o->words);
        str_add(out, " ;;\n");
    }
    str_add(out, "        *) ");
    if (c->operand_complete == COMPLETE_COMMAND) {
        str_add(out, "words='");
        command_names(out, all, NULL);
        str_add(out, "'");
    } else
        bash_action(out, c->operand_complete, NULL, c->operand_words);
    str_add(out, " ;;\n        esac\n        ;;\n");
}

static void bash_group(struct str *out, const struct command *const *all, const char *group)
{
    str_addf(out, "    '%s') words='", group);
    command_names(out, all, group);
    str_add(out, "' ;;\n");
}

static void bash_group_pattern(struct str *out, const struct command *const *all, const char *group)
{
    (void)all;
    str_addf(out, "|%s", group);
}

void completion_bash(const struct command *const *all, struct str *out)
{
    str_add(out, "# bash completion of assay; made by `assay completion bash`\n"
                 "_assay() {\n"
                 "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
                 "    local command='' options='' words='' kind='' value='' i word\n"
                 "    # bash cuts --option=value into three words\n"
                 "    if [[ $current == = ]]; then\n"
                 "        current=''\n"
                 "    elif [[ $previous == = ]]; then\n"
                 "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
                 "    fi\n"
                 "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                 "        word=${COMP_WORDS[i]}\n"
                 "        [[ $word == -* ]] && { [[ $command ]] && break || continue; }\n"
                 "        command+=${command:+ }$word\n"
                 "        case $command in ''");
    each_group(all, out, bash_group_pattern);
    str_add(out, ") ;; *) break ;; esac\n"
                 "    done\n"
                 "    case $command in\n"
                 "    '') words='");
    command_names(out, all, NULL);
    str_add(out, "' ;;\n");
    each_group(all, out, bash_group);
    for (size_t i = 0; all[i]; i++)
        bash_command(out, all, all[i]);
    str_add(out, "    esac\n"
                 "    if [[ ! $value ]]; then\n"
                 "        options+='");
    option_names(out, global_options);
    str_add(out, "'\n"
                 "        [[ $current == -* ]] && words=$options kind=''\n"
                 "    fi\n"
                 "    COMPREPLY=()\n"
                 "    if [[ $kind == dir ]]; then\n"
                 "        compopt -o filenames 2>/dev/null\n"
                 "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
                 "    elif [[ $kind == file ]]; then\n"
                 "        compopt -o filenames 2>/dev/null\n"
                 "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
                 "    else\n"
                 "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
                 "    fi\n"
                 "}\n"
                 "complete -F _assay assay\n");
}

// --- zsh
// ----------------------------------------------------------------------------------------------------------------

// Inside a specification of _arguments, which stands in single quotes: brackets and colons are its own.
static void spec_text(struct str *out, const char *text)
{
    for (; *text; text++) {
        const char one[2] = {*text, '\0'};
        if (strchr("[]:\\", *text))
            str_add_char(out, '\\');
        quoted(out, one);
    }
}

static void zsh_action(struct str *out, const char *message, enum complete complete, const char *choices,
                       complete_words *words)
{
    str_add(out, ":");
    spec_text(out, message);
    str_add(out, ":");
    if (choices || words) {
        str_add(out, "(");
        value_words(out, choices, words);
        str_add(out, ")");
    } else if (complete == COMPLETE_DIR)
        str_add(out, "_files -/");
    else if (complete == COMPLETE_FILE)
        str_add(out, "_files");
    else
        str_add(out, " ");
}

static void zsh_options(struct str *out, const struct option *table)
{
    for (const struct option *o = table; o && o->name; o++) {
        const char letter[3] = {'-', o->letter, '\0'};
        for (int form = o->letter ? 0 : 1; form < 2; form++) {
            str_add(out, " \\\n            '");
            if (o->kind == OPTION_STRINGS)
                str_add_char(out, '*');
            if (form)
                str_addf(out, "--%s%s", o->name, o->kind == OPTION_FLAG ? "" : "=");
            else
                str_add(out, letter);
            str_add(out, "[");
            spec_text(out, o->help);
            str_add(out, "]");
            if (o->kind != OPTION_FLAG)
                zsh_action(out, o->argument ? o->argument : o->name, o->complete, o->choices, o->words);
            str_add(out, "'");
        }
    }
}

static void zsh_command(struct str *out, const struct command *const *all, const struct command *c)
{
    str_addf(out, "    '%s')\n        _arguments", c->name);
    zsh_options(out, c->options);
    zsh_options(out, global_options);
    if (c->operands) {
        str_add(out, " \\\n            '*");
        if (c->operand_complete == COMPLETE_COMMAND) {
            str_add(out, ":command:(");
            command_names(out, all, NULL);
            str_add(out, ")");
        } else
            zsh_action(out, c->operands, c->operand_complete, NULL, c->operand_words);
        str_add(out, "'");
    }
    str_add(out, "\n        ;;\n");
}

static void zsh_group_name(struct str *out, const struct command *const *all, const char *group)
{
    str_addf(out, "        '%s:", group);
    struct str members;
    str_init(&members);
    command_names(&members, all, group);
    spec_text(out, str_text(&members) + 1);
    str_add(out, "'\n");
    str_release(&members);
}

static void zsh_group(struct str *out, const struct command *const *all, const char *group)
{
    str_addf(out, "    '%s') _values 'what to do'", group);
    command_names(out, all, group);
    str_add(out, " ;;\n");
}

static void zsh_group_shift(struct str *out, const struct command *const *all, const char *group)
{
    (void)all;
    str_addf(out,
             "    if [[ $words[1] == %s ]] && ((CURRENT > 2)); then\n"
             "        command=\"$words[1] $words[2]\"\n"
             "        shift words\n"
             "        ((CURRENT--))\n"
             "    fi\n",
             group);
}

void completion_zsh(const struct command *const *all, struct str *out)
{
    str_add(out, "#compdef assay\n"
                 "# zsh completion of assay; made by `assay completion zsh`\n"
                 "_assay() {\n"
                 "    local curcontext=$curcontext state line command\n"
                 "    local -a commands\n"
                 "    typeset -A opt_args\n"
                 "    commands=(\n");
    for (size_t i = 0; all[i]; i++) {
        if (strchr(all[i]->name, ' '))
            continue;
        str_addf(out, "        '%s:", all[i]->name);
        spec_text(out, all[i]->summary);
        str_add(out, "'\n");
    }
    each_group(all, out, zsh_group_name);
    str_add(out, "    )\n"
                 "    _arguments -C");
    zsh_options(out, global_options);
    str_add(out, " \\\n            '1:command:->command' '*::argument:->rest'\n"
                 "    case $state in\n"
                 "    command) _describe command commands; return ;;\n"
                 "    rest) ;;\n"
                 "    *) return ;;\n"
                 "    esac\n"
                 "    command=$words[1]\n");
    each_group(all, out, zsh_group_shift);
    str_add(out, "    case $command in\n");
    each_group(all, out, zsh_group);
    for (size_t i = 0; all[i]; i++)
        zsh_command(out, all, all[i]);
    str_add(out, "    esac\n"
                 "}\n"
                 "if [[ $funcstack[1] == _assay ]]; then\n"
                 "    _assay \"$@\"\n"
                 "else\n"
                 "    compdef _assay assay\n"
                 "fi\n");
}

// SPDX-License-Identifier: Apache-2.0
// make-tiny-model [OPTION]... DIR   writes a tiny model for command tests (tests/unit/tiny_model.h)
//   --seed N --hidden N --layers N --heads N --intermediate N --positions N --pieces N --shards N
//   --drop TENSOR   --shape TENSOR=16x8   --type TENSOR=BF16   --fill TENSOR=nan   --extra TENSOR   --config KEY=JSON
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/tiny_model.h"
#include "base/str.h"

static int usage(const char *what)
{
    fprintf(stderr, "make-tiny-model: %s: see the head of tests/tools/make_tiny_model.c\n", what);
    return 2;
}

static bool set_number(struct tiny_options *o, const char *name, const char *value)
{
    int64_t n;
    const struct {
        const char *name;
        int64_t *where;
    } sizes[] = {{"--hidden", &o->hidden},       {"--layers", &o->layers},
                 {"--heads", &o->heads},         {"--intermediate", &o->intermediate},
                 {"--positions", &o->positions}, {"--pieces", &o->pieces}};
    if (!parse_i64(value, &n))
        return false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(name, sizes[i].name) == 0) {
            *sizes[i].where = n;
            return true;
        }
    }
    if (strcmp(name, "--seed") == 0)
        o->seed = (uint64_t)n;
    else if (strcmp(name, "--shards") == 0)
        o->shards = (int)n;
    else
        return false;
    return true;
}

static bool add_edit(struct tiny_options *o, const char *name, char *value)
{
    static const struct {
        const char *name;
        enum tiny_edit_kind kind;
        bool has_value;
    } kinds[] = {{"--drop", TINY_DROP, false}, {"--shape", TINY_SHAPE, true},  {"--type", TINY_TYPE, true},
                 {"--fill", TINY_FILL, true},  {"--extra", TINY_EXTRA, false}, {"--config", TINY_CONFIG, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *equals = kinds[i].has_value ? strchr(value, '=') : NULL;
        if (strcmp(name, kinds[i].name) != 0)
            continue;
        if (o->n_edits == TINY_MAX_EDITS || (kinds[i].has_value && !equals))
            return false;
        if (equals)
            *equals++ = '\0';
        o->edits[o->n_edits++] = (struct tiny_edit){kinds[i].kind, value, equals};
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct tiny_options o = TINY_DEFAULTS;
    struct error err = {0};
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (!set_number(&o, argv[i], argv[i + 1]) && !add_edit(&o, argv[i], argv[i + 1]))
            return usage(argv[i]);
    }
    if (i + 1 != argc)
        return usage("one directory");
    if (tiny_model_write(argv[i], &o, &err) == 0)
        return 0;
    fprintf(stderr, "make-tiny-model: %s: %s\n", err.where, err.message);
    return 1;
}

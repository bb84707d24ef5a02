// SPDX-License-Identifier: Apache-2.0
#include "schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "test.h"

struct check {
    const json_t *root;
    bool silent;
    int depth;
    char path[512]; // of the value, as in $.result.policies[2]
};

static bool complain(const struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool complain(const struct check *c, const char *fmt, ...)
{
    if (!c->silent) {
        va_list ap;
        va_start(ap, fmt);
        printf("  %s ", c->path);
        vprintf(fmt, ap);
        printf("\n");
        va_end(ap);
    }
    return false;
}

static bool follows(struct check *c, const json_t *schema, const json_t *value);

static bool member_follows(struct check *c, const json_t *schema, const json_t *value, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static bool member_follows(struct check *c, const json_t *schema, const json_t *value, const char *fmt, ...)
{
    size_t n = strlen(c->path);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->path + n, sizeof c->path - n, fmt, ap);
    va_end(ap);
    bool ok = follows(c, schema, value);
    c->path[n] = '\0';
    return ok;
}

static bool is_type(const char *type, const json_t *v)
{
    uint64_t large;
    return (strcmp(type, "null") == 0 && json_is_null(v)) || (strcmp(type, "boolean") == 0 && json_is_boolean(v)) ||
           (strcmp(type, "string") == 0 && json_is_string(v)) || (strcmp(type, "number") == 0 && json_is_number(v)) ||
           (strcmp(type, "integer") == 0 && (json_is_integer(v) || json_is_uint64(v, &large))) ||
           (strcmp(type, "array") == 0 && json_is_array(v)) || (strcmp(type, "object") == 0 && json_is_object(v));
}

static bool check_type(struct check *c, const json_t *rule, const json_t *value)
{
    if (json_is_string(rule))
        return is_type(json_string_value(rule), value) || complain(c, "is not a %s", json_string_value(rule));
    size_t i;
    json_t *one;
    json_array_foreach(rule, i, one)
    {
        if (is_type(json_string_value(one), value))
            return true;
    }
    return complain(c, "is of none of the types allowed");
}

static bool check_ref(struct check *c, const json_t *rule, const json_t *value)
{
    static const char prefix[] = "#/$defs/";
    const char *to = json_string_value(rule);
    const json_t *target = NULL;
    if (to && strncmp(to, prefix, sizeof prefix - 1) == 0)
        target = json_object_get(json_object_get(c->root, "$defs"), to + sizeof prefix - 1);
    if (!target)
        return complain(c, "has a schema that refers to %s, which is not there", to ? to : "nothing");
    return follows(c, target, value);
}

static bool check_enum(struct check *c, const json_t *rule, const json_t *value)
{
    size_t i;
    json_t *one;
    json_array_foreach(rule, i, one)
    {
        if (json_equal(one, value))
            return true;
    }
    return complain(c, "is none of the values allowed%s%s", json_is_string(value) ? ": " : "",
                    json_is_string(value) ? json_string_value(value) : "");
}

static bool check_one_of(struct check *c, const json_t *rule, const json_t *value)
{
    size_t i, matches = 0;
    json_t *one;
    bool silent = c->silent;
    c->silent = true;
    json_array_foreach(rule, i, one) matches += follows(c, one, value);
    c->silent = silent;
    if (matches == 0 && !silent) { // say why each did not fit
        json_array_foreach(rule, i, one) follows(c, one, value);
    }
    return matches == 1 || complain(c, "fits %zu of the %zu alternatives", matches, json_array_size(rule));
}

static bool check_object(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"),
                 *others = json_object_get(schema, "additionalProperties");
    bool ok = true;
    size_t i;
    json_t *name, *member;
    const char *key;
    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (!json_object_get(value, json_string_value(name)))
            ok = complain(c, "lacks %s", json_string_value(name));
    }
    json_object_foreach((json_t *)(size_t)value, key, member)
    {
        const json_t *rule = json_object_get(properties, key);
        if (!rule)
            rule = others;
        if (json_is_false(rule))
            ok = complain(c, "has %s, which is not allowed", key);
        else if (json_is_object(rule))
            ok = member_follows(c, rule, member, ".%s", key) && ok;
    }
    return ok;
}

static bool check_array(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *rule = json_object_get(schema, "items");
    bool ok = true;
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item) ok = (!rule || member_follows(c, rule, item, "[%zu]", i)) && ok;
    return ok;
}

static bool follows(struct check *c, const json_t *schema, const json_t *value)
{
    static const char *const silent_words[] = {
        "$schema", "$id", "title", "description", "$defs", "required", "properties", "additionalProperties", "items"};
    bool ok = true;
    const char *key;
    json_t *rule;
    if (++c->depth > 100) {
        c->depth--;
        return complain(c, "has a schema that refers to itself");
    }
    json_object_foreach((json_t *)(size_t)schema, key, rule)
    {
        bool known = false;
        for (size_t i = 0; i < sizeof silent_words / sizeof *silent_words; i++)
            known |= strcmp(key, silent_words[i]) == 0;
        if (strcmp(key, "type") == 0)
            ok = check_type(c, rule, value) && ok;
        else if (strcmp(key, "$ref") == 0)
            ok = check_ref(c, rule, value) && ok;
        else if (strcmp(key, "enum") == 0)
            ok = check_enum(c, rule, value) && ok;
        else if (strcmp(key, "oneOf") == 0)
            ok = check_one_of(c, rule, value) && ok;
        else if (!known)
            ok = complain(c, "has a schema with the keyword %s, which is not checked here", key);
    }
    if (json_is_object(value))
        ok = check_object(c, schema, value) && ok;
    if (json_is_array(value))
        ok = check_array(c, schema, value) && ok;
    c->depth--;
    return ok;
}

bool schema_allows(const json_t *root, const json_t *schema, const json_t *value)
{
    struct check c = {.root = root, .silent = true, .path = "$"};
    return follows(&c, schema, value);
}

json_t *schema_load(const char *file)
{
    char path[1024];
    struct str text;
    struct error e = {0};
    json_t *root = NULL;
    snprintf(path, sizeof path, "%s/docs/schemas/%s", test_top(), file);
    str_init(&text);
    if (file_read(&text, path, 1 << 20, &e) == 0)
        root = json_parse(text.text, text.length, path, &e);
    if (!root)
        printf("  %s: %s\n", e.where, e.message);
    str_release(&text);
    return root;
}

bool schema_check_value(const char *file, const json_t *value)
{
    char name[128];
    snprintf(name, sizeof name, "%s", file);
    char *definition = strchr(name, '#');
    if (definition)
        *definition++ = '\0';
    json_t *root = schema_load(name);
    const json_t *schema = definition ? json_object_get(json_object_get(root, "$defs"), definition) : root;
    struct check c = {.root = root, .path = "$"};
    bool ok = schema ? follows(&c, schema, value) : complain(&c, "cannot be checked: no schema %s", file);
    json_decref(root);
    return ok;
}

bool schema_check(const char *file, const char *text, size_t n)
{
    struct error e = {0};
    json_t *value = json_parse(text, n, "document", &e);
    if (!value)
        printf("  %s: %s\n", e.where, e.message);
    bool ok = value && schema_check_value(file, value);
    json_decref(value);
    return ok;
}

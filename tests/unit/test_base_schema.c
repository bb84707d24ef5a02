// SPDX-License-Identifier: Apache-2.0
// The validator itself, and the schemas: each must be one that the validator checks whole.
#include <dirent.h>
#include <stdlib.h>

#include "schema.h"
#include "test.h"

static bool allows(const char *schema, const char *value)
{
    json_t *s = json_loads(schema, 0, NULL), *v = json_loads(value, JSON_DECODE_ANY, NULL);
    bool ok = CHECK(s != NULL && v != NULL) && schema_allows(s, s, v);
    json_decref(s);
    json_decref(v);
    return ok;
}

TEST(base_schema_validator_accepts_and_refuses)
{
    CHECK(allows("{\"type\": \"integer\"}", "3"));
    CHECK(!allows("{\"type\": \"integer\"}", "3.5"));
    CHECK(allows("{\"type\": \"number\"}", "3"));
    CHECK(!allows("{\"type\": \"number\"}", "\"3\""));
    CHECK(allows("{\"type\": [\"null\", \"string\"]}", "null"));
    CHECK(!allows("{\"type\": [\"null\", \"string\"]}", "true"));
    CHECK(allows("{\"enum\": [\"a\", 1]}", "1"));
    CHECK(!allows("{\"enum\": [\"a\", 1]}", "\"b\""));
    const char *object = "{\"required\": [\"a\"], \"properties\": {\"a\": {\"type\": \"string\"}}, "
                         "\"additionalProperties\": {\"type\": \"integer\"}}";
    CHECK(allows(object, "{\"a\": \"x\", \"b\": 1}"));
    CHECK(!allows(object, "{\"b\": 1}"));
    CHECK(!allows(object, "{\"a\": 1}"));
    CHECK(!allows(object, "{\"a\": \"x\", \"b\": \"y\"}"));
    CHECK(!allows("{\"properties\": {}, \"additionalProperties\": false}", "{\"a\": 1}"));
    CHECK(allows("{\"properties\": {}}", "{\"a\": 1}"));
    CHECK(allows("{\"items\": {\"type\": \"null\"}}", "[null, null]"));
    CHECK(!allows("{\"items\": {\"type\": \"null\"}}", "[null, 1]"));
    const char *one = "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}, {\"type\": \"null\"}]}";
    CHECK(allows(one, "1.5") && allows(one, "null"));
    CHECK(!allows(one, "1")); // fits two
    CHECK(!allows(one, "\"\""));
    const char *list =
        "{\"$ref\": \"#/$defs/list\", \"$defs\": {\"list\": {\"oneOf\": [{\"type\": \"null\"}, {\"type\": "
        "\"object\", \"required\": [\"next\"], \"properties\": {\"next\": {\"$ref\": "
        "\"#/$defs/list\"}}}]}}}";
    CHECK(allows(list, "{\"next\": {\"next\": null}}"));
    CHECK(!allows(list, "{\"next\": {\"next\": 1}}"));
    CHECK(!allows("{\"$ref\": \"#/$defs/x\"}", "1"));
    CHECK(!allows("{\"$ref\": \"#/$defs/x\", \"$defs\": {\"x\": {\"$ref\": \"#/$defs/x\"}}}", "1"));
    CHECK(!allows("{\"minimum\": 0}", "1")); // a keyword that would be passed over in silence
}

// Every schema inside a schema: known keywords, references that lead somewhere, required members that are described.
static void check_schema(const char *file, const json_t *root, const json_t *schema)
{
    static const char *const keywords[] = {"$schema", "title",    "description", "$defs",
                                           "type",    "required", "properties",  "additionalProperties",
                                           "items",   "enum",     "oneOf",       "$ref"};
    const char *key;
    json_t *rule, *one;
    size_t i;
    json_object_foreach((json_t *)(size_t)schema, key, rule)
    {
        bool known = false;
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            known |= strcmp(key, keywords[k]) == 0;
        if (!CHECK(known))
            printf("  %s: keyword %s\n", file, key);
    }
    const char *to = json_string_value(json_object_get(schema, "$ref"));
    if (to && !CHECK(strncmp(to, "#/$defs/", 8) == 0 && json_object_get(json_object_get(root, "$defs"), to + 8)))
        printf("  %s: %s\n", file, to);
    const json_t *properties = json_object_get(schema, "properties");
    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (!CHECK(json_object_get(properties, json_string_value(one)) != NULL))
            printf("  %s: %s is required, not described\n", file, json_string_value(one));
    }
    json_object_foreach((json_t *)(size_t)properties, key, rule) check_schema(file, root, rule);
    json_object_foreach(json_object_get(schema, "$defs"), key, rule) check_schema(file, root, rule);
    json_array_foreach(json_object_get(schema, "oneOf"), i, one) check_schema(file, root, one);
    if (json_object_get(schema, "items"))
        check_schema(file, root, json_object_get(schema, "items"));
    if (json_is_object(json_object_get(schema, "additionalProperties")))
        check_schema(file, root, json_object_get(schema, "additionalProperties"));
}

TEST(base_schema_files_are_whole)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/docs/schemas", test_top());
    DIR *d = opendir(path);
    REQUIRE(d);
    json_t *common = schema_load("common.json");
    REQUIRE(common);
    int seen = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        json_t *root = schema_load(e->d_name);
        if (!CHECK(root != NULL))
            continue;
        seen++;
        check_schema(e->d_name, root, root);
        // assay.NAME.VERSION.json is the schema assay.NAME/VERSION, and says so of its documents.
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(n - 5), e->d_name);
        char *dot = strrchr(name, '.');
        if (dot) {
            *dot = '/';
            CHECK_STR(json_string_value(json_object_get(root, "title")), name);
            const json_t *tag = json_object_get(json_object_get(root, "properties"), "schema");
            CHECK_STR(json_string_value(json_array_get(json_object_get(tag, "enum"), 0)), name);
        }
        // What several schemas define under one name is one thing.
        const char *key;
        json_t *definition;
        json_object_foreach(json_object_get(root, "$defs"), key, definition)
        {
            const json_t *same = json_object_get(json_object_get(common, "$defs"), key);
            if (same && !CHECK(json_equal(same, definition)))
                printf("  %s: $defs/%s differs from common.json\n", e->d_name, key);
        }
        json_decref(root);
    }
    closedir(d);
    json_decref(common);
    CHECK(seen >= 4);
}

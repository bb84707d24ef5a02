// SPDX-License-Identifier: Apache-2.0
// json-get FILE PATH...   prints what lies at each path of a JSON file, one a line: strings as they are, with control
// characters escaped, all else as compact JSON; "absent" where there is nothing.
// A path is members and indices: result.policies[1].errors.rel_l2.value. [*] stands for every element, each on a line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

static void show(const json_t *v)
{
    struct str s;
    str_init(&s);
    char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *shown = json_is_string(v) ? json_string_value(v) : text ? text : "absent";
    str_add_terminal(&s, shown, strlen(shown));
    printf("%s\n", str_text(&s));
    free(text);
    str_release(&s);
}

static void walk(const json_t *v, const char *path)
{
    if (!*path || !v) {
        show(v);
    } else if (strncmp(path, "[*]", 3) == 0) {
        for (size_t i = 0; i < json_array_size(v); i++)
            walk(json_array_get(v, i), path + 3);
    } else if (*path == '[') {
        char *end;
        size_t i = strtoul(path + 1, &end, 10);
        walk(json_array_get(v, i), end + (*end == ']'));
    } else {
        char key[128];
        path += *path == '.';
        size_t n = strcspn(path, ".[");
        snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 0, path);
        walk(json_object_get(v, key), path + n);
    }
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct str text;
    str_init(&text);
    int rc = argc < 2 ? ERR_USAGE : file_read(&text, argv[1], 1u << 28, &err);
    json_t *root = rc ? NULL : json_parse(str_text(&text), text.length, argv[1], &err);
    if (!root)
        fprintf(stderr, "json-get: %s\n", err.message);
    for (int i = 2; i < argc && root; i++)
        walk(root, argv[i]);
    json_decref(root);
    str_release(&text);
    return root ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include "base/file.h"
#include "test.h"

static struct path {
    struct path *next;
    char text[1024];
} * paths; // all that were asked for: a leak checker finds them held

const char *fixture_path(const char *name)
{
    struct path *p = malloc(sizeof *p);
    if (!p)
        abort();
    snprintf(p->text, sizeof p->text, "%s/tests/fixtures/%s", test_top(), name);
    p->next = paths;
    paths = p;
    return p->text;
}

static void give_up(const char *name, const struct error *e)
{
    printf("  fixture %s: %s\n", name, e->message);
    fflush(stdout);
    exit(1);
}

json_t *fixture_json(const char *name)
{
    struct error e = {0};
    struct str text;
    str_init(&text);
    if (file_read(&text, fixture_path(name), 1 << 26, &e))
        give_up(name, &e);
    json_t *root = json_parse(str_text(&text), text.length, name, &e);
    str_release(&text);
    if (!root)
        give_up(name, &e);
    return root;
}

const char *fixture_profile(const char *name)
{
    char file[256];
    snprintf(file, sizeof file, "traces/%s.xplane.pb", name);
    const char *path = fixture_path(file);
    if (file_exists(path))
        return path;
    snprintf(file, sizeof file, "traces/%s.xplane.pb.gz", name);
    return fixture_path(file);
}

bool fixture_cells(char **rest, char *cells[], int n)
{
    char *row;
    while ((row = strsep(rest, "\n"))) {
        int found = 0;
        bool comment = *row == '#';
        while (found < n && (cells[found] = strsep(&row, "\t")))
            found++;
        if (!comment && found == n)
            return true;
    }
    return false;
}

double fixture_number(const json_t *o, const char *key)
{
    struct error e = {0};
    double v = NAN;
    if (json_get_double(o, key, "fixture", &v, &e))
        give_up(key, &e);
    return v;
}

float *fixture_floats(const json_t *o, const char *key, size_t *n)
{
    const json_t *a = json_object_get(o, key);
    *n = json_array_size(a);
    float *out = malloc((*n + 1) * sizeof *out);
    for (size_t i = 0; out && i < *n; i++) {
        uint32_t bits = (uint32_t)json_integer_value(json_array_get(a, i));
        memcpy(&out[i], &bits, sizeof bits);
    }
    return out;
}

int8_t *fixture_bytes(const json_t *o, const char *key, size_t *n)
{
    const json_t *a = json_object_get(o, key);
    *n = json_array_size(a);
    int8_t *out = malloc(*n + 1);
    for (size_t i = 0; out && i < *n; i++)
        out[i] = (int8_t)json_integer_value(json_array_get(a, i));
    return out;
}

size_t fixture_unescape(char *text)
{
    char *out = text;
    for (const char *in = text; *in;) {
        if (in[0] == '\\' && in[1] == 'x') {
            char hex[3] = {in[2], in[3], 0};
            *out++ = (char)strtoul(hex, NULL, 16);
            in += 4;
        } else {
            *out++ = *in++;
        }
    }
    return (size_t)(out - text);
}

// SPDX-License-Identifier: Apache-2.0
#include "chips/local.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "record/record.h"

#define SCHEMA "assay.calibration/1"

enum { MOST_FILE_BYTES = 65536 };

#define NOT_CALIBRATED "this machine is not calibrated: run `assay bench --calibrate`"
#define MISSING(u)                                                                                                     \
    {                                                                                                                  \
        .value = NAN, .unit = (u), .origin = ORIGIN_MEASURED, .note = NOT_CALIBRATED                                   \
    }
#define NEVER(u, why)                                                                                                  \
    {                                                                                                                  \
        .value = NAN, .unit = (u), .origin = ORIGIN_MEASURED, .note = (why)                                            \
    }

const struct chip chips_local_row = {
    .name = "local",
    .aliases = (const char *const[]){NULL},
    .vendor = "this machine",
    .devices_per_chip = 1,
    .core_name = "core",
    .naming = {.text = "one chip, one device"},
    .rate =
        {
            [CHIP_F64] = MISSING("FLOP/s"),
            [CHIP_F32] = MISSING("FLOP/s"),
            [CHIP_F16] = MISSING("FLOP/s"),
            [CHIP_BF16] = MISSING("FLOP/s"),
            [CHIP_FP8] = MISSING("FLOP/s"),
            [CHIP_INT8] = MISSING("OP/s"),
            [CHIP_FP4] = MISSING("FLOP/s"),
            [CHIP_INT4] = MISSING("OP/s"),
        },
    .memory = MISSING("B"),
    .memory_usable = NEVER("B", "a CPU has no limit of its own: what other processes leave can be used"),
    .bandwidth = MISSING("B/s"),
    .vmem = NEVER("B", "no vector memory"),
    .interconnect = NEVER("B/s", "one machine has no interconnect"),
    .link = NEVER("B/s", "one machine has no interconnect"),
    .network = NEVER("B/s", "one machine has no network to itself"),
    .pcie = NEVER("B/s", "the device's memory is the host's"),
    .power = NEVER("W", "not measured"),
};

// --- places
// -------------------------------------------------------------------------------------------------------------

int chips_local_dir(struct str *out, struct error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') // a relative one is to be ignored, says its specification
        str_addf(out, "%s/assay", cache);
    else if (home && *home)
        str_addf(out, "%s/.cache/assay", home);
    else
        return error_set(err, ERR_IO, NULL,
                         "neither XDG_CACHE_HOME nor HOME is set: there is no place for a calibration");
    return str_check(out, err);
}

int chips_local_path(struct str *out, const char *cpu_model, const char *plugin_sha256, struct error *err)
{
    struct str key;
    char hex[65];
    str_init(&key);
    str_addf(&key, "%s\n%s", cpu_model, plugin_sha256);
    int rc = str_check(&key, err);
    if (!rc)
        rc = sha256_bytes(str_text(&key), key.length, hex, err);
    if (!rc)
        rc = chips_local_dir(out, err);
    if (!rc) {
        str_addf(out, "/local-%.16s.json", hex);
        rc = str_check(out, err);
    }
    str_release(&key);
    return rc;
}

// Makes the folders above `path`.
static int make_parents(const char *path, struct error *err)
{
    struct str p;
    str_init(&p);
    int rc = 0;
    for (const char *slash = strchr(path + 1, '/'); slash && !rc; slash = strchr(slash + 1, '/')) {
        str_clear(&p);
        str_add_n(&p, path, (size_t)(slash - path));
        rc = str_check(&p, err);
        if (!rc && mkdir(str_text(&p), 0777) != 0 && errno != EEXIST)
            rc = error_set(err, ERR_IO, str_text(&p), "cannot be made: %s", strerror(errno));
    }
    str_release(&p);
    return rc;
}

// --- the file
// -----------------------------------------------------------------------------------------------------------

static bool is_hex(const char *s)
{
    size_t n = strspn(s, "0123456789abcdef");
    return n == 64 && !s[n];
}

static bool is_date(const char *s)
{
    static const char form[] = "dddd-dd-ddTdd:dd:ddZ";
    for (size_t i = 0; i < sizeof form; i++) {
        if (form[i] == 'd' ? !isdigit((unsigned char)s[i]) : s[i] != form[i])
            return false;
    }
    return true;
}

static bool is_measured(const struct chip_measured *m)
{
    return m->value > 0 && m->value < 1e18 && m->spread >= 0 && isfinite(m->spread) && m->samples >= 1;
}

// Says in `why` what is wrong; NULL when all is well.
static const char *fault(const struct chip_local *l)
{
    if (!l->cpu_model[0] || !utf8_valid(l->cpu_model, strlen(l->cpu_model), NULL))
        return "\"cpu_model\" must be a text";
    if (!is_hex(l->plugin_sha256))
        return "\"plugin_sha256\" must be 64 hexadecimal digits";
    if (!is_date(l->date))
        return "\"date\" must look like 2026-11-29T12:00:00Z";
    if (l->threads < 1 || l->threads > 65536)
        return "\"threads\" is out of range";
    if (!(l->memory_bytes > 0) || l->memory_bytes > 1e18)
        return "\"memory_bytes\" is out of range";
    for (size_t t = 0; t < CHIP_TYPES; t++) {
        if (!isnan(l->rate[t].value) && !is_measured(&l->rate[t]))
            return "a rate has a value, spread or number of samples that cannot be";
    }
    if (!isnan(l->copy.value) && !is_measured(&l->copy))
        return "\"copy\" has a value, spread or number of samples that cannot be";
    return NULL;
}

static const char *rate_unit(enum chip_type type)
{
    return chips_local_row.rate[type].unit;
}

static void write_measured(struct jw *w, const char *key, const struct chip_measured *m, const char *unit)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_double(w, "value", m->value);
    jw_kv_string(w, "unit", unit);
    jw_kv_double(w, "spread", m->spread);
    jw_kv_int(w, "samples", m->samples);
    jw_object_end(w);
}

int chips_local_text(struct str *out, const struct chip_local *l, struct error *err)
{
    const char *wrong = fault(l);
    if (wrong)
        return error_set(err, ERR_INTERNAL, NULL, "a calibration is put together wrongly: %s", wrong);
    struct jw w;
    jw_init(&w, out, false);
    jw_object(&w);
    jw_kv_string(&w, "schema", SCHEMA);
    jw_kv_string(&w, "cpu_model", l->cpu_model);
    jw_kv_string(&w, "plugin_sha256", l->plugin_sha256);
    jw_kv_string(&w, "date", l->date);
    jw_kv_int(&w, "threads", l->threads);
    jw_kv_double(&w, "memory_bytes", l->memory_bytes);
    jw_key(&w, "rates");
    jw_object(&w);
    for (unsigned t = 0; t < CHIP_TYPES; t++) {
        if (!isnan(l->rate[t].value))
            write_measured(&w, chip_type_name((enum chip_type)t), &l->rate[t], rate_unit((enum chip_type)t));
    }
    jw_object_end(&w);
    if (!isnan(l->copy.value))
        write_measured(&w, "copy", &l->copy, "B/s");
    jw_object_end(&w);
    str_add_char(out, '\n');
    return jw_finish(&w, err);
}

int chips_local_save(const char *path, const struct chip_local *l, struct error *err)
{
    struct str text;
    str_init(&text);
    int rc = chips_local_text(&text, l, err);
    if (!rc)
        rc = make_parents(path, err);
    if (!rc)
        rc = file_write(path, str_text(&text), text.length, err);
    str_release(&text);
    return rc;
}

static int read_text(const json_t *o, const char *key, char *out, size_t capacity, const char *path, struct error *err)
{
    const char *s;
    int rc = json_get_string(o, key, path, &s, err);
    if (!rc && strlen(s) >= capacity)
        rc = error_set(err, ERR_INPUT, path, "\"%s\" is longer than %zu bytes", key, capacity - 1);
    if (!rc)
        memcpy(out, s, strlen(s) + 1);
    return rc;
}

static int read_measured(const json_t *o, const char *key, const char *unit, struct chip_measured *out,
                         const char *path, struct error *err)
{
    const char *given;
    int64_t samples;
    int rc = json_is_object(o) ? 0 : error_set(err, ERR_INPUT, path, "\"%s\" must be an object", key);
    if (!rc)
        rc = json_get_double(o, "value", path, &out->value, err);
    if (!rc)
        rc = json_get_string(o, "unit", path, &given, err);
    if (!rc && strcmp(given, unit) != 0)
        rc = error_set(err, ERR_INPUT, path, "\"%s\" must be in %s", key, unit);
    if (!rc)
        rc = json_get_double(o, "spread", path, &out->spread, err);
    if (!rc)
        rc = json_get_int(o, "samples", path, &samples, err);
    if (!rc)
        out->samples = samples > 0 && samples < 1000000000 ? (int)samples : 0;
    if (!rc && !is_measured(out))
        rc = error_set(err, ERR_INPUT, path, "\"%s\" has a value, spread or number of samples that cannot be", key);
    return rc;
}

static int read_members(const json_t *root, struct chip_local *out, const char *path, struct error *err)
{
    char schema[64];
    int64_t threads;
    int rc = read_text(root, "schema", schema, sizeof schema, path, err);
    if (!rc && strcmp(schema, SCHEMA) != 0)
        rc = error_set(err, ERR_INPUT, path, "is not a calibration (" SCHEMA ")");
    if (!rc)
        rc = read_text(root, "cpu_model", out->cpu_model, sizeof out->cpu_model, path, err);
    if (!rc)
        rc = read_text(root, "plugin_sha256", out->plugin_sha256, sizeof out->plugin_sha256, path, err);
    if (!rc)
        rc = read_text(root, "date", out->date, sizeof out->date, path, err);
    if (!rc)
        rc = json_get_int(root, "threads", path, &threads, err);
    if (!rc)
        out->threads = threads > 0 && threads <= 65536 ? (int)threads : 0;
    if (!rc)
        rc = json_get_double(root, "memory_bytes", path, &out->memory_bytes, err);
    json_t *rates = json_object_get(root, "rates");
    if (!rc && !json_is_object(rates))
        rc = error_set(err, ERR_INPUT, path, "\"rates\" must be an object");
    const char *key;
    json_t *value;
    if (!rc) {
        json_object_foreach(rates, key, value)
        {
            enum chip_type t = chip_type_from_name(key);
            if (t == CHIP_TYPES || strcmp(chip_type_name(t), key) != 0)
                return error_set(err, ERR_INPUT, path, "\"rates\" names a type that is not known");
            rc = read_measured(value, key, rate_unit(t), &out->rate[t], path, err);
            if (rc)
                return rc;
        }
    }
    const json_t *copy = json_object_get(root, "copy");
    if (!rc && copy)
        rc = read_measured(copy, "copy", "B/s", &out->copy, path, err);
    const char *wrong = rc ? NULL : fault(out);
    return wrong ? error_set(err, ERR_INPUT, path, "%s", wrong) : rc;
}

int chips_local_parse(const char *text, size_t n, const char *name, struct chip_local *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    for (size_t t = 0; t < CHIP_TYPES; t++)
        out->rate[t].value = NAN;
    out->copy.value = NAN;
    json_t *root = json_parse(text, n, name, err);
    int rc = root ? read_members(root, out, name, err) : ERR_INPUT;
    json_decref(root);
    return rc;
}

// The file of a record: only a whole one counts, and only one that has it.
static int file_of_record(struct str *file, const char *dir, struct error *err)
{
    struct record_contents contents;
    struct arena arena;
    arena_init(&arena);
    int rc = record_read(&contents, dir, &arena, err);
    arena_release(&arena);
    str_addf(file, "%s/" CHIPS_LOCAL_FILE, dir);
    rc = rc ? rc : str_check(file, err);
    if (!rc && access(str_text(file), F_OK) != 0)
        rc = error_set(err, ERR_INPUT, dir, "is the record of a run that calibrated nothing: it has no %s",
                       CHIPS_LOCAL_FILE);
    return rc;
}

int chips_local_load(const char *path, struct chip_local *out, struct error *err)
{
    struct str text, file;
    str_init(&text);
    str_init(&file);
    int rc = 0;
    if (dir_exists(path))
        rc = file_of_record(&file, path, err);
    else
        str_add(&file, path);
    if (!rc)
        rc = file_read(&text, str_text(&file), MOST_FILE_BYTES, err);
    if (!rc)
        rc = chips_local_parse(str_text(&text), text.length, str_text(&file), out, err);
    str_release(&text);
    str_release(&file);
    if (rc)
        error_context(err, "this calibration cannot be used (run `assay bench --calibrate` to make a new one)");
    return rc;
}

int chips_local_newest(const char *dir, const char *cpu_model, const char *plugin_sha256, struct chip_local *out,
                       bool *found, struct error *err)
{
    *found = false;
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    struct str path;
    str_init(&path);
    int rc = 0;
    for (const struct dirent *e; !rc && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (strncmp(e->d_name, "local-", 6) != 0 || n < 11 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        str_clear(&path);
        str_addf(&path, "%s/%s", dir, e->d_name);
        struct chip_local l;
        rc = str_check(&path, err);
        if (!rc)
            rc = chips_local_load(str_text(&path), &l, err);
        if (rc || strcmp(l.cpu_model, cpu_model) != 0 ||
            (plugin_sha256 && strcmp(l.plugin_sha256, plugin_sha256) != 0) ||
            (*found && strcmp(l.date, out->date) <= 0))
            continue;
        *out = l;
        *found = true;
    }
    closedir(d);
    str_release(&path);
    return rc;
}

// --- the chip
// -----------------------------------------------------------------------------------------------------------

static int put(struct arena *arena, struct chip_value *v, const struct chip_measured *m, const struct chip_local *l,
               const char *what, struct error *err)
{
    if (isnan(m->value))
        return 0;
    char *cite =
        arena_printf(arena, err, "%s on %s, %d thread%s, plugin %.8s: median of %d sample%s, spread %.2g %% (%s)", what,
                     l->cpu_model, l->threads, l->threads == 1 ? "" : "s", l->plugin_sha256, m->samples,
                     m->samples == 1 ? "" : "s", 100 * m->spread / m->value, l->date);
    if (!cite)
        return ERR_MEMORY;
    v->value = m->value;
    v->printed = v->from.cite = v->from.link = cite;
    v->from.date = l->date;
    v->note = NULL;
    return 0;
}

int chips_local_chip(struct arena *arena, const struct chip_local *local, const struct chip **out, struct error *err)
{
    struct chip *c = arena_new(arena, struct chip, 1, err);
    struct chip_local *l = arena_new(arena, struct chip_local, 1, err);
    if (!c || !l)
        return ERR_MEMORY;
    *l = *local;
    *c = chips_local_row;
    int rc = 0;
    for (unsigned t = 0; t < CHIP_TYPES && !rc; t++) {
        char what[32];
        snprintf(what, sizeof what, "products of %s", chip_type_name((enum chip_type)t));
        rc = put(arena, &c->rate[t], &l->rate[t], l, what, err);
        if (isnan(c->rate[t].value))
            c->rate[t].note = "not among the types that the calibration measures";
    }
    if (!rc)
        rc = put(arena, &c->bandwidth, &l->copy, l, "copy", err);
    c->memory.value = l->memory_bytes;
    c->memory.printed = c->memory.from.cite = c->memory.from.link = "memory of the host";
    c->memory.from.date = l->date;
    c->memory.note = NULL;
    *out = c;
    return rc;
}

int chips_local_calibrated(struct arena *arena, const char *path, const struct chip **out, struct error *err)
{
    struct chip_local local;
    const struct chip *measured;
    int rc = chips_local_load(path, &local, err);
    if (!rc)
        rc = chips_local_chip(arena, &local, &measured, err);
    struct chip *named = rc ? NULL : arena_new(arena, struct chip, 1, err);
    if (!named)
        return rc ? rc : ERR_MEMORY;
    *named = *measured;
    named->name = "calibrated";
    *out = named;
    return 0;
}

int chip_get(struct arena *arena, const char *name, const char *cpu_model, const char *plugin_sha256,
             const struct chip **out, struct error *err)
{
    int rc = chip_find(name, out, err);
    if (rc || *out != &chips_local_row)
        return rc;
    struct str dir;
    str_init(&dir);
    struct chip_local l;
    bool found = false;
    if (chips_local_dir(&dir, NULL) == 0) // no cache folder: no calibration, which is no error
        rc = chips_local_newest(str_text(&dir), cpu_model, plugin_sha256, &l, &found, err);
    if (!rc && found)
        rc = chips_local_chip(arena, &l, out, err);
    str_release(&dir);
    return rc;
}

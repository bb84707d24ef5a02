// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/host.h"
#include "base/sha256.h"
#include "record/record.h"

// mk/record.mk gives the flags; a tool that only parses this file does not.
#ifndef ASSAY_BUILD_FLAGS
#define ASSAY_BUILD_FLAGS ""
#endif

const char *record_time(char out[32], int64_t seconds)
{
    struct tm t;
    time_t at = (time_t)seconds;
    gmtime_r(&at, &t);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &t);
    return out;
}

void record_error_json(struct jw *w, const struct error *e)
{
    jw_object(w);
    jw_kv_string(w, "code", error_code_name(e->code));
    jw_kv_string(w, "message", e->message);
    jw_kv_string(w, "where", e->where);
    jw_object_end(w);
}

int record_envelope(struct str *out, const char *command, const char *record, const char *result,
                    const struct error *error, struct error *err)
{
    char schema[96];
    if (!result && !error)
        return error_set(err, ERR_INTERNAL, command, "a document with neither result nor error");
    snprintf(schema, sizeof schema, "assay.%s/1", command);
    for (char *c = schema; *c; c++)
        *c = *c == ' ' ? '.' : *c;
    struct jw w;
    jw_init(&w, out, false);
    jw_object(&w);
    jw_kv_string(&w, "schema", schema);
    jw_kv_string(&w, "assay", ASSAY_VERSION);
    if (!result) { // an error document has nothing else
        jw_key(&w, "error");
        record_error_json(&w, error);
    } else {
        jw_kv_string(&w, "record", record);
        jw_key(&w, "result");
        jw_raw(&w, result);
        if (error && error->code) {
            jw_key(&w, "error");
            record_error_json(&w, error);
        }
    }
    jw_object_end(&w);
    str_add_char(out, '\n');
    return jw_finish(&w, err);
}

int record_document(struct str *out, const char *command, const char *record, record_result *fill, void *of,
                    struct error *err)
{
    struct str result;
    struct jw w;
    str_init(&result);
    jw_init(&w, &result, false);
    int rc = fill(of, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = record_envelope(out, command, record, str_text(&result), NULL, err);
    str_release(&result);
    return rc;
}

int record_file_entry(struct jw *w, const char *path, struct error *err)
{
    struct file_map m;
    char hex[65];
    int rc = file_map_open(&m, path, err);
    if (rc)
        return rc;
    rc = sha256_map(&m, hex, err);
    if (!rc) {
        jw_object(w);
        jw_kv_string(w, "path", path);
        jw_kv_uint(w, "bytes", m.size);
        jw_kv_string(w, "sha256", hex);
        jw_object_end(w);
    }
    file_map_close(&m);
    return rc;
}

static void program_json(struct jw *w)
{
    struct file_map m;
    char hex[65];
    bool hashed = false;
    if (file_map_open(&m, "/proc/self/exe", NULL) == 0) {
        hashed = sha256_map(&m, hex, NULL) == 0;
        file_map_close(&m);
    }
    jw_key(w, "program");
    jw_object(w);
    jw_kv_string(w, "compiler", __VERSION__);
    jw_kv_string(w, "flags", ASSAY_BUILD_FLAGS);
    jw_kv_string(w, "sha256", hashed ? hex : NULL);
    jw_object_end(w);
}

// NAME=VALUE: does NAME change what is measured?
static bool is_listed(const char *entry)
{
    static const char *const listed[] = {"XLA_FLAGS=", "LIBTPU_INIT_ARGS=", "TPU_", "OMP_", "ASSAY_"};
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        if (strncmp(entry, listed[i], strlen(listed[i])) == 0)
            return strchr(entry, '=') != NULL;
    }
    return false;
}

// The listed entry that comes next after `last` (NULL: the first) in the order of strcmp. A name that stands twice is
// shown once, as getenv has it: the first.
static const char *next_entry(const char *last)
{
    const char *best = NULL;
    for (char **e = environ; e && *e; e++) {
        size_t name = strcspn(*e, "=") + 1;
        if (is_listed(*e) && (!last || strncmp(*e, last, name) > 0) && (!best || strncmp(*e, best, name) < 0))
            best = *e;
    }
    return best;
}

static void environment_json(struct jw *w)
{
    jw_key(w, "environment");
    jw_object(w);
    for (const char *e = next_entry(NULL); e; e = next_entry(e)) {
        struct str name;
        size_t n = strcspn(e, "=");
        str_init(&name);
        str_add_n(&name, e, n);
        jw_kv_string(w, str_text(&name), e + n + 1);
        str_release(&name);
    }
    jw_object_end(w);
}

void record_provenance(struct jw *w, const struct record *r)
{
    char started[32];
    jw_kv_string(w, "schema", "assay.record.config/1");
    jw_kv_string(w, "assay", ASSAY_VERSION);
    jw_kv_string(w, "command", r->command);
    jw_key(w, "argv");
    jw_array(w);
    for (int i = 0; i < r->argc; i++)
        jw_string(w, r->argv[i]);
    jw_array_end(w);
    jw_kv_string(w, "started", record_time(started, r->started));
    program_json(w);
    struct host_facts host;
    host_read(&host, "/");
    jw_key(w, "host");
    host_json(w, &host);
    environment_json(w);
}

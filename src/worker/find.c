// SPDX-License-Identifier: Apache-2.0
// Where the plugin and the worker program are looked for.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "worker/client.h"

#define MAX_NAMES 4

static const struct plugin_place {
    const char *kind;
    const char *names[MAX_NAMES]; // file names, the first is the usual one
    const char *folders[3];       // under third_party/, where the set-up or a wheel's unpacking puts it
    const char *env;              // a variable of others that names the file
    const char *cure;
} places[] = {
    {"cpu", {"pjrt_c_api_cpu_plugin.so"}, {"pjrt-cpu"}, NULL, "scripts/setup fetches it"},
    {"gpu",
     {"xla_cuda_plugin.so", "pjrt_c_api_gpu_plugin.so", "xla_rocm_plugin.so"},
     {"pjrt-gpu", "jax_plugins/xla_cuda13", "jax_plugins/xla_cuda12"},
     NULL,
     "it comes in the Python package jax-cuda13-pjrt"},
    {"tpu", {"libtpu.so"}, {"libtpu"}, "TPU_LIBRARY_PATH", "it comes in the Python package libtpu"},
};
#define N_PLACES (sizeof places / sizeof *places)

// Tries one path; true when a file is there. Otherwise it joins the list of places that were tried.
static bool try_path(struct str *path, struct str *tried, const char *folder, const char *name)
{
    str_clear(path);
    str_add(path, folder);
    if (name)
        str_addf(path, "/%s", name);
    if (!path->failed && file_exists(path->text) && !dir_exists(path->text))
        return true;
    str_addf(tried, "%s%s", tried->length ? ", " : "", str_text(path));
    return false;
}

static bool try_names(struct str *path, struct str *tried, const char *folder, const struct plugin_place *p)
{
    for (size_t i = 0; i < MAX_NAMES && p->names[i]; i++) {
        // The list names each folder once, with the usual name.
        struct str scratch;
        str_init(&scratch);
        bool found = try_path(path, i ? &scratch : tried, folder, p->names[i]);
        str_release(&scratch);
        if (found)
            return true;
    }
    return false;
}

// A file of another kind's name in ASSAY_PLUGIN_PATH is meant for that kind.
static bool is_for_another(const char *path, const struct plugin_place *p)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (size_t k = 0; k < N_PLACES; k++) {
        for (size_t i = 0; &places[k] != p && i < MAX_NAMES && places[k].names[i]; i++) {
            if (strcmp(base, places[k].names[i]) == 0)
                return true;
        }
    }
    return false;
}

static bool try_search_path(struct str *path, struct str *tried, const struct plugin_place *p)
{
    const char *list = getenv("ASSAY_PLUGIN_PATH");
    bool found = false;
    while (list && *list && !found) {
        size_t n = strcspn(list, ":");
        struct str entry;
        str_init(&entry);
        str_add_n(&entry, list, n);
        if (n && dir_exists(str_text(&entry)))
            found = try_names(path, tried, entry.text, p);
        else if (n && !is_for_another(str_text(&entry), p))
            found = try_path(path, tried, entry.text, NULL);
        str_release(&entry);
        list += n + (list[n] == ':');
    }
    return found;
}

// dir + suffix as a folder to look in.
static bool try_under(struct str *path, struct str *tried, const char *dir, const char *suffix,
                      const struct plugin_place *p)
{
    struct str folder;
    str_init(&folder);
    str_addf(&folder, "%s%s", dir, suffix);
    bool found = try_names(path, tried, str_text(&folder), p);
    str_release(&folder);
    return found;
}

// Beside the program, where the set-up puts things, and where `make install` does.
static bool find_beside(struct str *path, struct str *tried, const struct plugin_place *p)
{
    struct str own;
    str_init(&own);
    bool found = false;
    if (process_own_dir(&own)) {
        found = try_under(path, tried, own.text, "", p) || try_under(path, tried, own.text, "/../lib/assay", p);
        for (size_t i = 0; i < sizeof p->folders / sizeof *p->folders && p->folders[i] && !found; i++) {
            struct str suffix;
            str_init(&suffix);
            str_addf(&suffix, "/../third_party/%s", p->folders[i]);
            found = try_under(path, tried, own.text, str_text(&suffix), p);
            str_release(&suffix);
        }
    }
    str_release(&own);
    return found || try_names(path, tried, ASSAY_PREFIX "/lib/assay", p);
}

static bool find_plugin(struct str *path, struct str *tried, const struct plugin_place *p)
{
    const char *named = p->env ? getenv(p->env) : NULL;
    return try_search_path(path, tried, p) || (named && *named && try_path(path, tried, named, NULL)) ||
           find_beside(path, tried, p);
}

// The kinds of device whose plugin is here, as "cpu, tpu", or "none".
static void list_kinds(struct str *out)
{
    for (size_t i = 0; i < N_PLACES; i++) {
        struct str path, tried;
        str_init(&path);
        str_init(&tried);
        if (find_plugin(&path, &tried, &places[i]))
            str_addf(out, "%s%s", out->length ? ", " : "", places[i].kind);
        str_release(&path);
        str_release(&tried);
    }
    if (!out->length)
        str_add(out, "none");
}

int worker_find_plugin(const char *device, struct str *path, struct error *err)
{
    size_t n = strcspn(device, ":");
    const struct plugin_place *p = NULL;
    for (size_t i = 0; i < N_PLACES; i++) {
        if (strlen(places[i].kind) == n && strncmp(places[i].kind, device, n) == 0)
            p = &places[i];
    }
    struct str here;
    str_init(&here);
    if (!p) {
        list_kinds(&here);
        int unknown =
            error_set(err, ERR_DEVICE, *device ? device : "--device",
                      "is no kind of device known here: there is a plugin for: %s (cpu, gpu and tpu are found "
                      "by themselves, for others name the file with --plugin)",
                      str_text(&here));
        str_release(&here);
        return unknown;
    }
    struct str candidate, tried;
    str_init(&candidate);
    str_init(&tried);
    int rc = 0;
    if (find_plugin(&candidate, &tried, p)) {
        char *plain = realpath(candidate.text, NULL); // without the ../ of the search
        str_add(path, plain ? plain : candidate.text);
        free(plain);
    } else {
        list_kinds(&here);
        rc =
            error_set(err, ERR_DEVICE, device,
                      "there is no plugin for it (there is one for: %s); %s, and ASSAY_PLUGIN_PATH or --plugin name it "
                      "elsewhere; looked for: %s",
                      str_text(&here), p->cure, str_text(&tried));
    }
    str_release(&here);
    str_release(&candidate);
    str_release(&tried);
    return rc ? rc : str_check(path, err);
}

int worker_find_onednn(struct str *path, struct error *err)
{
    static const struct plugin_place place = {"onednn", {"libdnnl.so.3"}, {"onednn/lib"}, NULL, NULL};
    const char *named = getenv("ASSAY_ONEDNN_PATH");
    struct str tried;
    str_init(&tried);
    bool found = named && *named ? try_path(path, &tried, named, NULL) : find_beside(path, &tried, &place);
    int rc = found
                 ? str_check(path, err)
                 : error_set(err, ERR_DEVICE, "oneDNN",
                             "oneDNN is not here; scripts/setup fetches it, and ASSAY_ONEDNN_PATH names it elsewhere; "
                             "looked for: %s",
                             str_text(&tried));
    str_release(&tried);
    return rc;
}

int worker_find_program(const char *wanted, struct str *path, struct error *err)
{
    struct str tried, own;
    str_init(&tried);
    str_init(&own);
    const char *env = getenv("ASSAY_WORKER");
    bool found;
    if (wanted || (env && *env)) // named: nothing else will do
        found = try_path(path, &tried, wanted ? wanted : env, NULL);
    else {
        found = process_own_dir(&own) && try_path(path, &tried, own.text, "assay-worker");
        if (!found && own.length) {
            str_add(&own, "/../lib/assay");
            found = try_path(path, &tried, str_text(&own), "assay-worker");
        }
        found = found || try_path(path, &tried, ASSAY_PREFIX "/lib/assay", "assay-worker") ||
                try_path(path, &tried, ASSAY_PREFIX "/bin", "assay-worker"); // for programs that use the library
    }
    int rc = 0;
    if (!found)
        rc = error_set(err, ERR_DEVICE, "assay-worker",
                       "the program that loads plugins is missing; install it beside this one or name it with "
                       "ASSAY_WORKER; looked for: %s",
                       str_text(&tried));
    str_release(&tried);
    str_release(&own);
    return rc ? rc : str_check(path, err);
}

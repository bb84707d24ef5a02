// SPDX-License-Identifier: Apache-2.0
// What is looked at before a plugin is loaded: the file, and the flags in the environment that it would die of.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/sha256.h"
#include "worker/client.h"

#define FLAG_SPACE     " \t\r\n"
#define MAX_FLAG_BYTES (1u << 20)

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

int worker_check_flags(const char *text, const char *where, bool (*known)(void *context, const char *name, size_t n),
                       void *context, struct error *err)
{
    const char *at = text + strspn(text, FLAG_SPACE);
    while (*at) {
        size_t token = strcspn(at, FLAG_SPACE);
        if (strncmp(at, "--", 2) != 0 || !is_name_char(at[2]) || at[2] == '-')
            return error_set(err, ERR_USAGE, where, "'%.*s' is not a flag: flags are written --name=value", (int)token,
                             at);
        const char *name = at + 2;
        size_t n = 0;
        while (is_name_char(name[n]))
            n++;
        if (!known(context, name, n))
            return error_set(err, ERR_USAGE, where,
                             "the plugin does not know the flag --%.*s and would end the process: remove it", (int)n,
                             name);
        const char *end = name + n;
        if (end[0] == '=' && (end[1] == '"' || end[1] == '\'')) {
            char quote = end[1];
            for (end += 2; *end && *end != quote; end++) {
                if (quote == '"' && *end == '\\' && end[1])
                    end++;
            }
            if (!*end)
                return error_set(err, ERR_USAGE, where, "the value of --%.*s has no closing quote", (int)n, name);
            end++;
        } else
            end += strcspn(end, FLAG_SPACE);
        at = end + strspn(end, FLAG_SPACE);
    }
    return 0;
}

// A string of the program: the text and the zero that ends it. What comes before may be another string's beginning,
// since linkers let one that ends like another share its bytes.
static bool is_string_in(const struct file_map *m, const char *text, size_t n)
{
    const uint8_t *at = m->data, *end = at + m->size;
    while ((at = memmem(at, (size_t)(end - at), text, n))) {
        at += n;
        if (at < end && !*at)
            return true;
    }
    return false;
}

// A flag's name is a string in the plugin that parses it: one that is none of its strings is unknown. A plugin that
// hands the work to another library cannot be asked like that, though it may have a name or two, to set an option by:
// one that parses flags has all of these, which XLA has had for years.
static bool occurs(void *context, const char *name, size_t n)
{
    const struct file_map *m = context;
    static const char *const common[] = {"xla_dump_to", "xla_dump_hlo_as_text", "xla_backend_optimization_level",
                                         "xla_disable_hlo_passes", "xla_force_host_platform_device_count"};
    if (is_string_in(m, name, n))
        return true;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        if (!is_string_in(m, common[i], strlen(common[i])))
            return true;
    }
    return false;
}

static int check_environment(struct file_map *m, struct error *err)
{
    const char *flags = getenv("XLA_FLAGS");
    if (!flags || !*flags)
        return 0;
    if (flags[strspn(flags, FLAG_SPACE)] == '-')
        return worker_check_flags(flags, "XLA_FLAGS", occurs, m, err);
    // XLA takes anything else for the name of a file with flags.
    struct str text;
    str_init(&text);
    struct error file_err = {0};
    int rc = file_read(&text, flags, MAX_FLAG_BYTES, &file_err);
    if (rc)
        rc =
            error_set(err, ERR_USAGE, "XLA_FLAGS",
                      "does not begin with -- and so names a file of flags, which %s: the plugin would end the process",
                      file_err.message);
    else
        rc = worker_check_flags(str_text(&text), flags, occurs, m, err);
    str_release(&text);
    return rc;
}

// The last hashes, so that a worker for each of several policies reads the plugin once.
static pthread_mutex_t remembered_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct stat st;
    char sha256[65];
} remembered[4];
static size_t next_place;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool recall(const struct stat *st, char sha256[65])
{
    bool found = false;
    pthread_mutex_lock(&remembered_lock);
    for (size_t i = 0; i < sizeof remembered / sizeof *remembered && !found; i++) {
        found = remembered[i].sha256[0] && same_file(&remembered[i].st, st);
        if (found)
            memcpy(sha256, remembered[i].sha256, 65);
    }
    pthread_mutex_unlock(&remembered_lock);
    return found;
}

static void remember(const struct stat *st, const char sha256[65])
{
    pthread_mutex_lock(&remembered_lock);
    remembered[next_place].st = *st;
    memcpy(remembered[next_place].sha256, sha256, 65);
    next_place = (next_place + 1) % (sizeof remembered / sizeof *remembered);
    pthread_mutex_unlock(&remembered_lock);
}

int worker_check_plugin(const char *path, char sha256[65], struct error *err)
{
    struct file_map m;
    struct error file_err = {0};
    if (file_map_open(&m, path, &file_err) != 0)
        return error_set(err, ERR_DEVICE, path, "the plugin %s", file_err.message);
    struct stat st;
    int rc = 0;
    if (fstat(m.fd, &st) != 0)
        rc = error_set(err, ERR_DEVICE, path, "the plugin cannot be looked at: %s", strerror(errno));
    else if (sha256 && !recall(&st, sha256)) {
        rc = sha256_map(&m, sha256, err);
        if (!rc)
            remember(&st, sha256);
    }
    if (!rc)
        rc = check_environment(&m, err);
    file_map_close(&m);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
// One compilation in a worker of its own.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "chips/gpu.h"
#include "lab/compile_part.h"

// ---- Its folder

static int make_folder(const char *path, struct error *err)
{
    if (mkdir(path, 0700) == 0)
        return 0;
    return error_set(err, errno == EEXIST ? ERR_USAGE : ERR_IO, path, "cannot be made as a folder: %s",
                     strerror(errno));
}

// A folder of our own for one compilation, with "hlo", "llo" and "logs" in it.
static int folder_new(struct tree_temporary *f, const char *keep, size_t number, struct error *err)
{
    static const char *const parts[] = {"hlo", "llo", "logs"};
    f->fd = -1;
    if (keep && snprintf(f->path, sizeof f->path, "%s/%zu", keep, number) >= (int)sizeof f->path - 8)
        return error_set(err, ERR_USAGE, keep, "the path is too long");
    int rc = keep ? make_folder(f->path, err) : tree_temporary_new(f, "compile", err);
    if (keep && !rc)
        f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++) {
        if (f->fd < 0 || mkdirat(f->fd, parts[i], 0700) != 0)
            rc = error_set(err, ERR_IO, f->path, "a folder in it cannot be made: %s", strerror(errno));
    }
    return rc;
}

// Removes it with all that is in it, unless it is kept.
static void folder_release(struct tree_temporary *f, bool keep)
{
    if (keep && f->fd >= 0)
        close(f->fd);
    else
        tree_temporary_release(f);
    f->fd = -1;
}

// ---- The worker

enum { MAX_ENV = 12 };

struct environment {
    struct str text[MAX_ENV];
    const char *list[MAX_ENV + 1];
    size_t n;
};

static void set(struct environment *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set(struct environment *e, const char *fmt, ...)
{
    if (e->n == MAX_ENV)
        return;
    struct str *s = &e->text[e->n];
    str_init(s);
    va_list ap;
    va_start(ap, fmt);
    str_addv(s, fmt, ap);
    va_end(ap);
    e->list[e->n++] = str_text(s);
}

static void environment_release(struct environment *e)
{
    for (size_t i = 0; i < e->n; i++)
        str_release(&e->text[i]);
}

// libtpu asks the metadata server of Google's cloud for its surroundings, half a minute for each key, unless it is told
// not to; without the second variable one process keeps all others out. What it writes, it writes into our folder; of
// its log what ends it is enough.
static void tpu_environment(struct environment *e, const struct tree_temporary *f, bool dump)
{
    set(e, "TPU_SKIP_MDS_QUERY=1");
    set(e, "ALLOW_MULTIPLE_LIBTPU_LOAD=1");
    set(e, "TPU_LOG_DIR=%s/logs", f->path);
    set(e, "TPU_MIN_LOG_LEVEL=3");
    set(e, "TPU_WORKER_HOSTNAMES=localhost");
    set(e, "TPU_WORKER_ID=0");
    set(e, "TPU_ACCELERATOR_TYPE=v6e-1");
    const char *own = getenv("LIBTPU_INIT_ARGS");
    if (dump)
        set(e,
            "LIBTPU_INIT_ARGS=%s%s--xla_jf_dump_to=%s/llo --xla_jf_dump_llo_text=true "
            "--xla_jf_dump_llo_pass_label_regex=^(final_bundles|deduplication-map)$",
            own ? own : "", own && *own ? " " : "", f->path);
}

// The plugin's name for the target, and the options that say which devices are meant.
struct topology_names {
    struct str name, config, shape;
    struct worker_topology_option options[2];
    size_t n_options;
    char slices[16];
};

// A TPU alone is a slice of one.
static void tpu_topology(const struct chip_target *t, struct topology_names *out)
{
    str_addf(&out->name, "%s:", t->chip->name);
    int dims = t->dims ? t->dims : t->chip->torus_dims > 0 ? t->chip->torus_dims : 1;
    for (int i = 0; i < dims; i++)
        str_addf(&out->name, "%s%d", i ? "x" : "", t->dims ? t->shape[i] : 1);
    // The chip table counts a v4 chip as one device, which is its two cores together.
    if (strcmp(t->chip->name, "v4") == 0)
        out->options[out->n_options++] = (struct worker_topology_option){"chip_config_name", "megacore"};
    if (t->slices > 1) {
        snprintf(out->slices, sizeof out->slices, "%d", t->slices);
        out->options[out->n_options++] = (struct worker_topology_option){"num_slices", out->slices};
    }
}

// GPUs of one host: slices x hosts x devices.
static int gpu_topology(const struct chip_target *t, struct topology_names *out, struct error *err)
{
    str_add(&out->name, t->chip->name);
    str_addf(&out->shape, "1x1x%d", t->devices);
    if (!chip_gpu_config(t->chip, &out->config))
        return error_set(err, ERR_USAGE, "--target", "what the CUDA compiler has to know of %s is not known here",
                         t->chip->name);
    out->options[out->n_options++] = (struct worker_topology_option){"target_config", str_text(&out->config)};
    out->options[out->n_options++] = (struct worker_topology_option){"topology", str_text(&out->shape)};
    return 0;
}

static int name_topology(const struct chip_target *t, struct topology_names *out, struct error *err)
{
    *out = (struct topology_names){.n_options = 0};
    str_init(&out->name);
    str_init(&out->config);
    str_init(&out->shape);
    int rc = 0;
    if (t->chip->is_tpu)
        tpu_topology(t, out);
    else
        rc = gpu_topology(t, out, err);
    rc = rc ? rc : str_check(&out->name, err);
    return rc ? rc : str_check(&out->config, err);
}

static void topology_names_release(struct topology_names *n)
{
    str_release(&n->name);
    str_release(&n->config);
    str_release(&n->shape);
}

static int start(const struct compile *c, struct compile_case *k, const struct tree_temporary *f, bool dump,
                 struct worker **w, struct error *err)
{
    struct environment env = {.n = 0};
    if (k->target.chip->is_tpu)
        tpu_environment(&env, f, dump);
    char label[64];
    snprintf(label, sizeof label, "%s", k->target_name);
    struct worker_options o = {.plugin_path = c->options.plugin,
                               .device = k->target.chip->is_tpu ? "tpu" : "gpu",
                               .label = label,
                               .compile_only = true,
                               .skip_hash = !c->options.hash_plugin,
                               .env = env.list,
                               .compile_timeout_s = c->options.timeout_s};
    struct topology_names names;
    struct worker_topology_info info = {0};
    uint64_t begin = clock_ns();
    int rc = name_topology(&k->target, &names, err);
    if (!rc) {
        rc = worker_start(w, &o, err);
        // The check of libtpu's allocator that fails where it cannot count processors.
        if (rc && err && strstr(err->message, "NumCPUs"))
            error_context(err, "libtpu needs /sys/devices/system/cpu/possible (is /sys mounted?)");
    }
    if (!rc)
        rc = worker_topology(*w, names.name.text, names.options, names.n_options, &info, err);
    k->start_s = (double)(clock_ns() - begin) * 1e-9;
    if (!rc) {
        const struct worker_info *wi = worker_info(*w);
        k->plugin_path = arena_strdup(&k->arena, wi->plugin_path, err);
        k->plugin_version = arena_strdup(&k->arena, info.platform_version, err);
        k->device_kind = info.n_devices ? arena_strdup(&k->arena, info.devices[0].kind, err) : "";
        memcpy(k->plugin_sha256, wi->plugin_sha256, sizeof k->plugin_sha256);
        k->n_devices = info.n_devices;
        if (!k->plugin_path || !k->plugin_version || !k->device_kind)
            rc = ERR_MEMORY;
        else
            rc = compile_case_places(k, info.devices, info.n_devices, err);
    }
    topology_names_release(&names);
    environment_release(&env);
    return rc;
}

static int compile(const struct compile *c, struct compile_case *k, const struct tree_temporary *f, struct worker *w,
                   struct worker_ahead *out, struct error *err)
{
    struct worker_override all[COMPILE_MAX_FLAGS + 2];
    size_t n = 0;
    char folder[sizeof f->path + 8];
    snprintf(folder, sizeof folder, "%s/hlo", f->path);
    all[n++] = (struct worker_override){"xla_dump_to", folder};
    all[n++] = (struct worker_override){"xla_dump_hlo_as_text", "true"};
    for (size_t i = 0; i < k->n_flags; i++)
        all[n++] = k->flags[i];
    struct worker_program p = {.text = k->text,
                               .length = k->text_bytes,
                               .format = k->format,
                               .name = c->options.workload,
                               .num_partitions = k->partitions,
                               .shardy = k->shardy,
                               .want_optimized = true,
                               .overrides = all,
                               .n_overrides = n};
    return worker_compile_for(w, &p, out, err);
}

// ---- What came out

static int keep_result(struct compile_case *k, const struct worker_ahead *a, struct error *err)
{
    k->state = COMPILE_DONE;
    k->wall_s = (double)a->program.compile_ns * 1e-9;
    k->cpu_s = (double)a->cpu_ns * 1e-9;
    k->peak_rss_bytes = (double)a->peak_rss_bytes;
    k->memory = a->program.memory;
    k->serialized_bytes = a->serialized_bytes;
    double needed = (double)k->memory.allocated + (double)(k->memory.code > 0 ? k->memory.code : 0);
    // The CUDA compiler refuses nothing: what it plans is set against the memory that the chip has.
    if (!k->target.chip->is_tpu && k->memory.allocated >= 0 && needed > k->usable_bytes) {
        k->state = COMPILE_TOO_LARGE;
        k->has_figures = true;
        k->needed_bytes = needed;
        k->available_bytes = k->usable_bytes;
        k->needed = arena_printf(&k->arena, err, "%.2fG", needed / 0x1p30);
        k->available = arena_printf(&k->arena, err, "%.2fG", k->usable_bytes / 0x1p30);
        k->needed_in = "memory";
        if (!k->needed || !k->available)
            return ERR_MEMORY;
    }
    k->fingerprint = a->program.fingerprint ? arena_strdup(&k->arena, a->program.fingerprint, err) : NULL;
    return a->program.fingerprint && !k->fingerprint ? ERR_MEMORY : 0;
}

static int keep_figures(struct compile_case *k, struct error *err)
{
    struct out_of_memory m;
    const char *text = k->error.message;
    if (!out_of_memory_read(&m, (struct slice){(const uint8_t *)text, strlen(text)})) {
        if (strstr(text, "RESOURCE_EXHAUSTED"))
            k->state = COMPILE_TOO_LARGE;
        return 0;
    }
    k->state = COMPILE_TOO_LARGE;
    k->has_figures = true;
    k->needed = arena_strndup(&k->arena, (const char *)m.needed.data, m.needed.size, err);
    k->available = arena_strndup(&k->arena, (const char *)m.available.data, m.available.size, err);
    k->needed_in = arena_strndup(&k->arena, (const char *)m.memory.data, m.memory.size, err);
    k->needed_bytes = out_of_memory_bytes(m.needed);
    k->available_bytes = out_of_memory_bytes(m.available);
    return k->needed && k->available && k->needed_in ? 0 : ERR_MEMORY;
}

// A compiler that refuses or dies is a result. No plugin, no worker and no memory are not.
static int keep_failure(struct compile_case *k, struct worker *w, const struct error *failed, struct error *err)
{
    k->error = *failed;
    if (failed->code != ERR_DEVICE)
        return error_set(err, failed->code, failed->where, "%s", failed->message);
    const struct worker_failure *f = w ? worker_failure(w) : NULL;
    k->state = f ? COMPILE_DIED : COMPILE_REFUSED;
    if (!f)
        return keep_figures(k, err);
    k->has_failure = true;
    k->failure = *f;
    return 0;
}

// The same without the dump, in a fresh worker: the dump is switched on for a whole process.
static int time_plain(const struct compile *c, struct compile_case *k, size_t number, struct error *err)
{
    struct compile_case plain = *k;
    struct tree_temporary f;
    struct worker *w = NULL;
    struct worker_ahead a = {.program = {.id = -1}};
    int rc = folder_new(&f, NULL, number, err);
    arena_init(&plain.arena);
    if (!rc)
        rc = start(c, &plain, &f, false, &w, err);
    if (!rc)
        rc = compile(c, &plain, &f, w, &a, err);
    if (!rc) {
        k->plain_wall_s = (double)a.program.compile_ns * 1e-9;
        k->plain_cpu_s = (double)a.cpu_ns * 1e-9;
    }
    worker_ahead_release(&a);
    worker_stop(w);
    arena_release(&plain.arena);
    folder_release(&f, false);
    return rc;
}

int compile_case_run(const struct compile *c, struct compile_case *k, size_t number, struct error *err)
{
    struct tree_temporary f;
    struct worker *w = NULL;
    struct worker_ahead a = {.program = {.id = -1}};
    struct error failed = {0};
    bool dump = !c->options.no_evidence && k->target.chip->is_tpu;
    k->plain_wall_s = k->plain_cpu_s = k->floor_s = NAN;
    k->weight_bytes = -1;
    k->usable_bytes = chip_memory_usable(k->target.chip, CHIP_PER_DEVICE).value;
    if (isnan(k->usable_bytes))
        k->usable_bytes = chip_memory(k->target.chip, CHIP_PER_DEVICE).value;
    if (!k->text) // refused before the compiler was asked
        return 0;
    int rc = folder_new(&f, c->options.dump, number, err);
    if (rc) {
        folder_release(&f, false);
        return rc;
    }
    rc = start(c, k, &f, dump, &w, &failed);
    if (!rc)
        rc = compile(c, k, &f, w, &a, &failed);
    if (rc && !w) // no plugin, or nothing that is one
        rc = error_set(err, failed.code, failed.where, "%s", failed.message);
    else if (rc)
        rc = keep_failure(k, w, &failed, err);
    else
        rc = keep_result(k, &a, err);
    worker_stop(w); // the dump is whole when the process has ended
    if (!rc && k->state != COMPILE_REFUSED)
        rc = compile_case_buffers(k, f.path, err);
    if (!rc && k->state == COMPILE_DONE)
        rc = compile_case_schedule(k, &a.program, dump ? f.path : NULL, err);
    if (!rc && k->state == COMPILE_DONE && dump && c->options.dump_cost)
        rc = time_plain(c, k, number, err);
    if (!rc && k->state == COMPILE_DONE)
        rc = compile_case_floors(c, k, err);
    worker_ahead_release(&a);
    folder_release(&f, c->options.dump != NULL);
    return rc;
}

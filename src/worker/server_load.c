// SPDX-License-Identifier: Apache-2.0
// Requests that make something: hello (plugin, client, device) and compile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/kernels.h"
#include "worker/host_limits.h"
#include "worker/server_state.h"

#define MAX_LISTED 16 // devices named in a message

// "name=value name=value", in the arena.
const char *server_attributes_text(struct server *s, const struct attributes *a, struct error *err)
{
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < a->count; i++) {
        str_addf(&text, "%s%s=", i ? " " : "", a->items[i].name);
        attribute_print(&text, &a->items[i]);
    }
    const char *copy = arena_strdup(&s->arena, str_text(&text), err);
    str_release(&text);
    return copy;
}

static const char *extensions_text(struct server *s, const struct plugin_info *p, struct error *err)
{
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < p->extension_count; i++)
        str_addf(&text, "%s%d %s", i ? ", " : "", p->extensions[i].type, p->extensions[i].name);
    const char *copy = arena_strdup(&s->arena, str_text(&text), err);
    str_release(&text);
    return copy;
}

// Does the platform that a plugin names belong to the kind of device that was asked for?
static bool is_kind(const char *platform, const char *kind, size_t length)
{
    static const char *const gpu[] = {"cuda", "rocm", "sycl", "oneapi", "gpu"};
    if (length == 3 && strncmp(kind, "gpu", 3) == 0) {
        for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++) {
            if (strcmp(platform, gpu[i]) == 0)
                return true;
        }
        return false;
    }
    return strlen(platform) == length && strncmp(platform, kind, length) == 0;
}

// Selects the device and puts the others behind it.
static int select_device(struct server *s, const char *device, size_t *chosen, struct error *err)
{
    const struct client_info *c = client_info(s->client);
    size_t kind = strcspn(device, ":");
    uint64_t id = 0;
    bool by_id = device[kind] == ':';
    if (by_id && !parse_u64(device + kind + 1, &id))
        return error_set(err, ERR_DEVICE, device, "a device is written cpu, gpu, tpu or tpu:0");
    bool right_kind = is_kind(c->platform_name, device, kind);
    size_t found = c->addressable_count;
    for (size_t i = 0; i < c->addressable_count && right_kind && found == c->addressable_count; i++) {
        if (!by_id || (uint64_t)c->devices[c->addressable[i]].id == id)
            found = i;
    }
    if (found < c->addressable_count) {
        s->order = calloc(c->addressable_count, sizeof *s->order);
        if (!s->order)
            return error_set(err, ERR_MEMORY, device, "no memory");
        s->order[s->n_order++] = found;
        for (size_t i = 0; i < c->addressable_count; i++) {
            if (i != found)
                s->order[s->n_order++] = i;
        }
        *chosen = c->addressable[found];
        return 0;
    }
    struct str list;
    str_init(&list);
    for (size_t i = 0; i < c->addressable_count && i < MAX_LISTED; i++) {
        const struct device_info *d = &c->devices[c->addressable[i]];
        str_addf(&list, "%s%s:%d (%s)", i ? ", " : "", c->platform_name, d->id, d->kind);
    }
    if (c->addressable_count > MAX_LISTED)
        str_addf(&list, " and %zu more", c->addressable_count - MAX_LISTED);
    int rc = error_set(err, ERR_DEVICE, device, "there is no such device here; the plugin %s has: %s",
                       plugin_info(s->plugin)->path, list.length ? list.text : "none");
    str_release(&list);
    return rc;
}

static int use_threads(const struct msg_hello *m, struct error *err)
{
    int rc = m->threads > 0 ? host_limits_processors(m->threads, err) : 0;
    if (rc)
        return rc;
    // Collectives wait for each other inside the CPU client's pool: with fewer threads than devices they would wait for
    // ever, and the devices' own work needs as many again.
    int pool = m->cpu_device_count > 1 ? 2 * m->cpu_device_count : 0;
    if (pool < m->threads)
        pool = m->threads;
    if (pool > 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", pool);
        setenv("NPROC", text, 1);
    }
    return 0;
}

struct worker_device *server_devices(struct server *s, const struct device_info *devices, size_t n, struct error *err)
{
    if (n > WORKER_MAX_DEVICES) {
        error_set(err, ERR_DEVICE, NULL, "the plugin has %zu devices, more than %d", n, WORKER_MAX_DEVICES);
        return NULL;
    }
    struct worker_device *out = arena_new(&s->arena, struct worker_device, n, err);
    for (size_t i = 0; out && i < n; i++) {
        const struct device_info *d = &devices[i];
        const char *text = server_attributes_text(s, &d->attributes, err);
        if (!text)
            return NULL;
        out[i] = (struct worker_device){.id = d->id,
                                        .process_index = d->process_index,
                                        .local_hardware_id = d->local_hardware_id,
                                        .local = d->addressable,
                                        .kind = d->kind,
                                        .attributes = text};
    }
    return out;
}

// Makes the client and selects its device.
static int open_client(struct server *s, const struct msg_hello *m, struct msg_hello_reply *out, struct error *err)
{
    bool cpu = strcmp(m->device, "cpu") == 0 || strncmp(m->device, "cpu:", 4) == 0;
    struct client_options o = {.device_count = !cpu ? 0 : m->cpu_device_count > 0 ? m->cpu_device_count : 1};
    uint64_t start = clock_ns();
    int rc = client_new(&s->client, s->plugin, &o, err);
    out->client_create_ns = clock_ns() - start;
    if (!rc)
        rc = select_device(s, m->device, &out->device, err);
    if (rc)
        return rc;
    const struct client_info *c = client_info(s->client);
    out->devices = server_devices(s, c->devices, c->device_count, err);
    out->n_devices = c->device_count;
    out->platform_name = c->platform_name;
    out->platform_version = c->platform_version;
    return out->devices ? 0 : err->code;
}

int server_hello(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_hello m = {0};
    msg_hello(&r->in, &m);
    if (m.version && strcmp(m.version, ASSAY_VERSION) != 0)
        return error_set(err, ERR_DEVICE, NULL,
                         "the program is version %s and its worker %s: install both from one build", m.version,
                         ASSAY_VERSION);
    int rc = server_read_done(r, err);
    if (!rc && s->plugin)
        rc = error_set(err, ERR_INTERNAL, NULL, "hello came twice");
    if (!rc)
        rc = use_threads(&m, err);
    s->peak_resettable = host_limits_reset_peak();
    if (!rc)
        rc = plugin_load(&s->plugin, m.plugin_path, err);
    if (rc)
        return rc;
    struct msg_hello_reply out = {.version = ASSAY_VERSION};
    if (!m.compile_only)
        rc = open_client(s, &m, &out, err);
    if (rc)
        return rc;
    char kernels[KERNELS_TEXT];
    struct error none = {0};
    if (m.onednn && kernels_register(s->plugin, m.onednn, kernels, &none) == 0)
        out.kernels = kernels;
    else if (m.onednn) // it works without them, and the caller says so
        out.no_kernels = none.message;
    const struct plugin_info *p = plugin_info(s->plugin);
    out.api_major = p->api_major;
    out.api_minor = p->api_minor;
    out.extensions = extensions_text(s, p, err);
    out.attributes = server_attributes_text(s, &p->attributes, err);
    if (!out.extensions || !out.attributes)
        return err->code;
    msg_hello_reply(&r->out, &out);
    return 0;
}

static struct worker_shape shape_of(const struct array_type *t)
{
    struct worker_shape s = {.dtype = t->dtype, .rank = t->rank};
    memcpy(s.dims, t->dims, sizeof s.dims);
    return s;
}

int server_compile_options(struct server *s, const struct msg_compile *m, struct compile_options *o, struct error *err)
{
    struct compile_override *overrides = arena_new(&s->arena, struct compile_override, m->n_overrides, err);
    struct array_type *parameters = arena_new(&s->arena, struct array_type, m->n_args, err);
    if (!overrides || !parameters)
        return err->code;
    // Text is read by the plugin as the option's own type, but for booleans, which it wants as such.
    for (size_t i = 0; i < m->n_overrides; i++) {
        const char *value = m->overrides[i].value;
        bool yes = strcmp(value, "true") == 0, no = strcmp(value, "false") == 0;
        overrides[i] = (struct compile_override){.name = m->overrides[i].name,
                                                 .type = yes || no ? OVERRIDE_BOOL : OVERRIDE_STRING,
                                                 .string = value,
                                                 .boolean = yes};
    }
    for (size_t i = 0; i < m->n_args; i++) {
        parameters[i].dtype = m->args[i].dtype;
        parameters[i].rank = m->args[i].rank;
        memcpy(parameters[i].dims, m->args[i].dims, sizeof parameters[i].dims);
    }
    int partitions = m->num_partitions > 0 ? m->num_partitions : 1;
    *o = (struct compile_options){.num_replicas = m->num_replicas > 0 ? m->num_replicas : 1,
                                  .num_partitions = partitions,
                                  .use_spmd_partitioning = partitions > 1 || m->shardy,
                                  .use_shardy = m->shardy,
                                  .allow_excess_precision = m->allow_excess_precision,
                                  .overrides = overrides,
                                  .override_count = m->n_overrides,
                                  .parameters = parameters,
                                  .parameter_count = m->n_args,
                                  .check_parameters = true};
    return 0;
}

// The devices that a program will run on: the one used, then the others.
static int choose_devices(struct server *s, struct compile_options *o, struct error *err)
{
    size_t n;
    if (!size_mul((size_t)o->num_replicas, (size_t)o->num_partitions, &n) || n > s->n_order)
        return error_set(err, ERR_DEVICE, NULL, "the program is for %d x %d devices, there are %zu", o->num_replicas,
                         o->num_partitions, s->n_order);
    int *ids = arena_new(&s->arena, int, n, err);
    if (!ids)
        return err->code;
    const struct client_info *c = client_info(s->client);
    for (size_t i = 0; i < n; i++)
        ids[i] = c->devices[c->addressable[s->order[i]]].id;
    o->device_ids = ids;
    return 0;
}

int server_describe_program(struct server *s, struct program *p, bool want_optimized, struct msg_compile_reply *out,
                            struct str *optimized, char format[32], struct error *err)
{
    const struct program_info *info = program_info(p);
    if (info->output_count && !info->outputs)
        return error_set(err, ERR_DEVICE, NULL, "the plugin cannot tell the types of a program's outputs");
    if (info->output_count > WORKER_MAX_ARGS)
        return error_set(err, ERR_DEVICE, NULL, "the program has more than %d outputs", WORKER_MAX_ARGS);
    struct program_memory m;
    int rc = program_memory(p, &m, err);
    // It is evidence, not needed to run: a plugin that cannot give it is no failure.
    struct error ignored = {0};
    if (!rc && want_optimized && program_optimized(p, optimized, format, &ignored) != 0) {
        str_clear(optimized);
        want_optimized = false;
    }
    out->outputs = rc ? NULL : arena_new(&s->arena, struct worker_shape, info->output_count, err);
    if (!out->outputs)
        return err->code;
    out->memory = (struct worker_memory_plan){.code = m.code,
                                              .arguments = m.arguments,
                                              .outputs = m.outputs,
                                              .aliases = m.aliases,
                                              .temporaries = m.temps,
                                              .peak = m.peak,
                                              .total = m.total,
                                              .host_code = m.host_code,
                                              .host_arguments = m.host_arguments,
                                              .host_outputs = m.host_outputs,
                                              .host_aliases = m.host_aliases,
                                              .host_temporaries = m.host_temps,
                                              .allocated = m.allocated};
    out->fingerprint = info->fingerprint;
    out->optimized = optimized->text;
    out->optimized_length = optimized->length;
    out->optimized_format = want_optimized ? format : NULL;
    out->n_devices = info->device_count;
    out->n_outputs = info->output_count;
    for (size_t i = 0; i < info->output_count; i++)
        out->outputs[i] = shape_of(&info->outputs[i]);
    return 0;
}

int server_compile(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_compile m = {0};
    msg_compile(&r->in, &m);
    struct compile_options o = {0};
    int rc = server_read_done(r, err);
    if (!rc)
        rc = server_compile_options(s, &m, &o, err);
    if (!rc)
        rc = choose_devices(s, &o, err);
    if (rc)
        return rc;
    struct program *p = NULL;
    uint64_t start = clock_ns();
    rc = program_compile(&p, s->client, m.text, m.length, m.format, &o, err);
    struct msg_compile_reply out = {.compile_ns = clock_ns() - start};
    struct str optimized;
    str_init(&optimized);
    char format[32] = "";
    if (!rc)
        rc = server_describe_program(s, p, m.want_optimized, &out, &optimized, format, err);
    if (!rc)
        out.id = rc = server_add_program(s, p, err);
    if (rc < 0) {
        program_free(p);
    } else {
        rc = 0;
        msg_compile_reply(&r->out, &out);
    }
    str_release(&optimized);
    return rc;
}

int server_unload(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_id m = {0};
    msg_id(&r->in, &m);
    int rc = server_read_done(r, err);
    struct program *p = rc ? NULL : server_program(s, m.id, err);
    if (!p)
        return err->code;
    program_free(p);
    s->programs[m.id] = NULL;
    return 0;
}

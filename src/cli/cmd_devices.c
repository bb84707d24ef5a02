// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "base/json.h"
#include "base/process.h"
#include "chips/pci.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "report/format.h"
#include "report/table.h"
#include "worker/worker.h"

enum { MOST_PLUGINS = 3, MOST_KINDS = 16 };

// One plugin: loaded (worker), or what went wrong.
struct found {
    const char *device; // "cpu"
    struct str path;    // empty when none was found
    struct worker *worker;
    struct error error;
};

// Loads the plugin in a process of its own. Only an interruption is an error here; anything else is in f->error.
static int look_at(struct cli *cli, struct found *f, const char *plugin, struct error *err)
{
    if (plugin)
        str_add(&f->path, plugin);
    else if (worker_find_plugin(f->device, &f->path, &f->error) != 0)
        return 0;
    progress_report(&cli->progress, str_text(&f->path), 0, 0);
    struct worker_options options = {
        .device = f->device, .plugin_path = str_text(&f->path), .load_timeout_s = cli_double(cli, "timeout", 0)};
    int rc = worker_start(&f->worker, &options, &f->error);
    if (rc == ERR_INTERRUPTED)
        return error_set(err, rc, f->error.where, "%s", f->error.message);
    return 0;
}

static const struct worker_info *info_of(const struct found *f)
{
    return f->worker && !f->error.code ? worker_info(f->worker) : NULL;
}

// --- text
// ---------------------------------------------------------------------------------------------------------------

static void fact(struct table *t, const char *what, const char *text)
{
    if (!text || !*text)
        return;
    table_row(t);
    table_cell(t, what);
    table_cell(t, text);
}

static int print(struct cli *cli, struct table *t, struct error *err)
{
    int rc = table_print(t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(t);
    return rc;
}

static int plugin_text(struct cli *cli, const struct found *f, const struct worker_info *info, struct error *err)
{
    struct table t;
    char text[FORMAT_MAX];
    table_init(&t);
    table_column(&t, f->device, NULL, TABLE_LEFT, 0);
    table_column(&t, info->plugin_path, NULL, TABLE_LEFT, 0);
    fact(&t, "platform", info->platform_name);
    fact(&t, "version", info->platform_version);
    snprintf(text, sizeof text, "%d.%d", info->api_major, info->api_minor);
    fact(&t, "PJRT API", text);
    fact(&t, "attributes", info->attributes);
    fact(&t, "extensions", info->extensions);
    fact(&t, "SHA-256", info->plugin_sha256);
    format_time(text, (double)info->client_create_ns * 1e-9);
    fact(&t, "client made in", text);
    int rc = print(cli, &t, err);
    if (rc)
        return rc;
    str_add_char(&cli->out, '\n');

    table_init(&t);
    table_column(&t, "device", NULL, TABLE_LEFT, 0);
    table_column(&t, "kind", NULL, TABLE_LEFT, 0);
    table_column(&t, "chip", NULL, TABLE_LEFT, 1);
    table_column(&t, "process", NULL, TABLE_RIGHT, 2);
    table_column(&t, "usable here", NULL, TABLE_LEFT, 1);
    table_column(&t, "attributes", NULL, TABLE_LEFT, 3);
    for (size_t i = 0; i < info->n_devices; i++) {
        const struct worker_device *d = &info->devices[i];
        const struct chip *chip = chip_by_device_kind(d->kind);
        table_row(&t);
        table_cellf(&t, "%s:%d", f->device, d->id);
        table_cell(&t, d->kind);
        table_cell(&t, chip ? chip->name : "");
        table_count(&t, d->process_index);
        table_cell(&t, d->local ? "yes" : "no");
        table_cell(&t, d->attributes);
    }
    return print(cli, &t, err);
}

static int host_text(struct cli *cli, const struct host_facts *h, const struct chips_pci_entry *pci, size_t n_pci,
                     struct error *err)
{
    struct table t;
    struct str s;
    char text[FORMAT_MAX];
    str_init(&s);
    table_init(&t);
    table_column(&t, "host", NULL, TABLE_LEFT, 0);
    table_column(&t, h->model[0] ? h->model : h->architecture, NULL, TABLE_LEFT, 0);
    str_addf(&s, "%s, %lld core%s, %lld thread%s, %lld of them for this process", h->architecture, (long long)h->cores,
             h->cores == 1 ? "" : "s", (long long)h->threads, h->threads == 1 ? "" : "s", (long long)h->affinity);
    fact(&t, "processor", str_text(&s));
    str_clear(&s);
    const char *isa;
    for (size_t i = 0; (isa = host_isa_name(i)); i++) {
        if (host_isa_has(h, isa))
            str_addf(&s, "%s%s", s.length ? " " : "", isa);
    }
    fact(&t, "instructions", str_text(&s));
    str_clear(&s);
    for (size_t i = 0; i < h->n_caches; i++) {
        format_bytes_binary(text, (double)h->caches[i].size_bytes);
        str_addf(&s, "%sL%d %s %s x %lld", i ? ", " : "", h->caches[i].level, h->caches[i].type, text,
                 (long long)h->caches[i].instances);
    }
    fact(&t, "caches", str_text(&s));
    format_bytes_binary(text, (double)h->memory_bytes);
    str_clear(&s);
    str_add(&s, text);
    format_bytes_binary(text, (double)h->memory_available_bytes);
    str_addf(&s, ", %s available, %lld NUMA node%s", text, (long long)h->numa_nodes, h->numa_nodes == 1 ? "" : "s");
    fact(&t, "memory", str_text(&s));
    fact(&t, "kernel", h->kernel);
    for (size_t i = 0; i < n_pci; i++) {
        str_clear(&s);
        str_addf(&s, "%d x ", pci[i].count);
        for (size_t k = 0; pci[i].chips[k]; k++)
            str_addf(&s, "%s%s", k ? " or " : "", pci[i].chips[k]->name);
        fact(&t, "PCI bus", str_text(&s));
    }
    for (size_t i = 0; i < h->n_warnings; i++)
        fact(&t, i ? " " : "beware", h->warnings[i]);
    str_release(&s);
    return print(cli, &t, err);
}

// --- JSON
// ---------------------------------------------------------------------------------------------------------------

// "5 FFI, 4 Layouts" as an array.
static void parts_json(struct jw *w, const char *key, const char *list)
{
    jw_key(w, key);
    jw_array(w);
    while (*list) {
        size_t n = strcspn(list, ",");
        jw_string_n(w, list, n);
        list += n;
        list += strspn(list, ", ");
    }
    jw_array_end(w);
}

static void plugin_json(struct jw *w, const struct found *f)
{
    const struct worker_info *info = info_of(f);
    jw_object(w);
    jw_kv_string(w, "device", f->device);
    jw_kv_string(w, "path", f->path.length ? str_text(&f->path) : NULL);
    jw_key(w, "failure");
    if (f->error.code) {
        jw_object(w);
        jw_kv_string(w, "code", error_code_name(f->error.code));
        jw_kv_string(w, "message", f->error.message);
        jw_kv_string(w, "where", f->error.where);
        jw_object_end(w);
    } else
        jw_null(w);
    if (info) {
        jw_kv_string(w, "sha256", info->plugin_sha256);
        jw_key(w, "api");
        jw_object(w);
        jw_kv_int(w, "major", info->api_major);
        jw_kv_int(w, "minor", info->api_minor);
        jw_object_end(w);
        jw_kv_string(w, "platform", info->platform_name);
        jw_kv_string(w, "platform_version", info->platform_version);
        jw_kv_string(w, "attributes", info->attributes);
        parts_json(w, "extensions", info->extensions);
        quantity_json_kv(
            w, "client_create",
            quantity_make((double)info->client_create_ns * 1e-6, "ms", ORIGIN_MEASURED, "one call on this host"));
        jw_key(w, "devices");
        jw_array(w);
        for (size_t i = 0; i < info->n_devices; i++) {
            const struct worker_device *d = &info->devices[i];
            const struct chip *chip = chip_by_device_kind(d->kind);
            jw_object(w);
            jw_kv_int(w, "id", d->id);
            jw_kv_string(w, "kind", d->kind);
            jw_kv_string(w, "chip", chip ? chip->name : NULL);
            jw_kv_int(w, "process", d->process_index);
            jw_kv_int(w, "local_hardware_id", d->local_hardware_id);
            jw_kv_bool(w, "local", d->local);
            jw_kv_string(w, "attributes", d->attributes);
            jw_object_end(w);
        }
        jw_array_end(w);
    }
    jw_object_end(w);
}

static int result_json(struct cli *cli, const struct found *found, size_t n, const struct host_facts *host,
                       const struct chips_pci_entry *pci, size_t n_pci, struct error *err)
{
    struct str s;
    struct jw w;
    str_init(&s);
    jw_init(&w, &s, false);
    jw_object(&w);
    jw_key(&w, "plugins");
    jw_array(&w);
    for (size_t i = 0; i < n; i++)
        plugin_json(&w, &found[i]);
    jw_array_end(&w);
    jw_key(&w, "pci");
    jw_array(&w);
    for (size_t i = 0; i < n_pci; i++) {
        jw_object(&w);
        jw_kv_int(&w, "count", pci[i].count);
        jw_key(&w, "chips");
        jw_array(&w);
        for (size_t k = 0; pci[i].chips[k]; k++)
            jw_string(&w, pci[i].chips[k]->name);
        jw_array_end(&w);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_key(&w, "host");
    host_json(&w, host);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&s), NULL, err);
    str_release(&s);
    return rc;
}

// --- the command
// --------------------------------------------------------------------------------------------------------

static int show(struct cli *cli, const struct found *found, size_t n, struct error *err)
{
    struct host_facts host;
    struct chips_pci_entry pci[MOST_KINDS];
    host_read(&host, "/");
    size_t n_pci = chips_pci_scan("/sys/bus/pci/devices", pci, MOST_KINDS);
    if (cli->json)
        return result_json(cli, found, n, &host, pci, n_pci, err);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct worker_info *info = info_of(&found[i]);
        if (info)
            rc = plugin_text(cli, &found[i], info, err);
        else {
            struct str s;
            str_init(&s);
            str_addf(&s, "%s: ", found[i].device);
            str_add_terminal(&s, found[i].error.message, strlen(found[i].error.message));
            wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
            str_release(&s);
        }
        str_add_char(&cli->out, '\n');
    }
    return rc ? rc : host_text(cli, &host, pci, n_pci, err);
}

static int run(struct cli *cli, struct error *err)
{
    static const char *const kinds[MOST_PLUGINS] = {"cpu", "gpu", "tpu"};
    const char *device = cli_string(cli, "device"), *plugin = cli_string(cli, "plugin");
    bool asked = device || plugin;
    struct found found[MOST_PLUGINS] = {0};
    size_t n = asked ? 1 : MOST_PLUGINS;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        str_init(&found[i].path);
        found[i].device = !asked ? kinds[i] : device ? device : "cpu";
        rc = look_at(cli, &found[i], plugin, err);
    }
    cli_progress_clear(cli);
    bool any = false;
    for (size_t i = 0; i < n && !rc; i++)
        any |= info_of(&found[i]) != NULL;
    if (!rc && !any && asked)
        rc = error_set(err, found[0].error.code, found[0].error.where, "%s", found[0].error.message);
    if (!rc)
        rc = show(cli, found, n, err);
    for (size_t i = 0; i < n; i++) {
        worker_stop(found[i].worker);
        str_release(&found[i].path);
    }
    return rc;
}

const struct command command_devices = {
    .name = "devices",
    .summary = "plugins and devices that are there, and the host",
    .description =
        (const char *const[]){
            "Looks for PJRT plugins of cpu, gpu and tpu, loads each in a process of its own, and shows its version, "
            "its "
            "extensions and its devices; then the host: processor, caches, memory, instruction sets, and what may "
            "disturb a "
            "measurement on it. TPUs on the PCI bus are named without a plugin.",
            "Plugins are looked for in ASSAY_PLUGIN_PATH, beside the program, and where it was installed. One that is "
            "not "
            "there, or does not load, is shown with the reason. With --device or --plugin only that one is looked at, "
            "and it "
            "is an error when it cannot be used; what --plugin holds is said with --device, cpu when not given.",
            NULL},
    .options = (const struct option[]){{.name = "device",
                                        .kind = OPTION_STRING,
                                        .argument = "DEVICE",
                                        .help = "only this one: cpu, gpu, tpu, or one of several as in tpu:0"},
                                       OPTION_PLUGIN,
                                       {.name = "timeout",
                                        .kind = OPTION_DOUBLE,
                                        .argument = "S",
                                        .preset = "20",
                                        .min = 1e-3,
                                        .max = 1e6,
                                        .help = "seconds that loading a plugin may take"},
                                       {0}},
    .examples =
        (const struct example[]){{"assay devices", "everything that is there"},
                                 {"assay devices --device tpu --plugin libtpu.so", "a plugin that lies elsewhere"},
                                 {0}},
    .run = run,
};

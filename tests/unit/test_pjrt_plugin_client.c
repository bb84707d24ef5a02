// SPDX-License-Identifier: Apache-2.0
#include "pjrt_test.h"

static void check_client_refused(const char *path, const struct client_options *options, const char *text)
{
    struct error err = {0};
    struct plugin *p;
    struct client *c;
    REQUIRE_OK(plugin_load(&p, path, &err), &err);
    int rc = client_new(&c, p, options, &err);
    CHECK(!c);
    CHECK_ERROR(rc, options->device_count < 0 ? ERR_USAGE : ERR_DEVICE, text, &err);
    plugin_free(p);
    CHECK_INT(pjrt_live_objects(), 0);
}

PLUGIN_TEST(client_devices)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 3));
    const struct client_info *info = client_info(r.client);
    CHECK_STR(info->platform_name, "cpu");
    CHECK(strlen(info->platform_version) > 0);
    CHECK_INT(info->process_index, 0);
    CHECK_INT(info->device_count, 3);
    CHECK_INT(info->addressable_count, 3);
    CHECK(client_plugin(r.client) == r.plugin);
    for (size_t i = 0; i < 3; i++) {
        const struct device_info *d = &info->devices[info->addressable[i]];
        CHECK_INT(d->id, i);
        CHECK_INT(d->local_hardware_id, i);
        CHECK_INT(d->process_index, 0);
        CHECK(d->addressable);
        CHECK_STR(d->kind, "cpu");
        CHECK(strlen(d->debug_string) > 0);
    }
    struct device_memory memory;
    bool offered = true;
    REQUIRE_OK(client_device_memory(r.client, 2, &memory, &offered, &r.err), &r.err);
    CHECK(!offered);
    CHECK_INT(memory.bytes_in_use, -1);
    CHECK_INT(memory.peak_pool_bytes, -1);
    CHECK_ERROR(client_device_memory(r.client, 3, &memory, &offered, &r.err), ERR_USAGE, "no device 3", &r.err);
    rig_close(&r);
}

// The plugin's own number, when none is asked for.
PLUGIN_TEST(client_without_options)
{
    struct error err = {0};
    struct plugin *p;
    struct client *c;
    REQUIRE_OK(plugin_load(&p, path, &err), &err);
    REQUIRE_OK(client_new(&c, p, NULL, &err), &err);
    CHECK(client_info(c)->addressable_count >= 1);
    client_free(c);
    plugin_free(p);
    CHECK_INT(pjrt_live_objects(), 0);
}

TEST(pjrt_plugin_client_options)
{
    static const struct attribute good = {"asynchronous", ATTRIBUTE_BOOL, .boolean = false};
    static const struct attribute unknown = {"tea", ATTRIBUTE_STRING, .string = "green"};
    static const struct attribute wrong_type = {"asynchronous", ATTRIBUTE_INT, .integer = 1};
    const char *path = pjrt_test_plugin(false);
    struct error err = {0};
    struct plugin *p;
    struct client *c;
    REQUIRE_OK(plugin_load(&p, path, &err), &err);
    struct client_options options = {.device_count = 2, .options = &good, .option_count = 1};
    REQUIRE_OK(client_new(&c, p, &options, &err), &err);
    CHECK_INT(client_info(c)->addressable_count, 2);
    client_free(c);
    plugin_free(p);
    options.options = &unknown;
    check_client_refused(path, &options, "tea");
    options.options = &wrong_type;
    check_client_refused(path, &options, "asynchronous");
    options = (struct client_options){.device_count = -1};
    check_client_refused(path, &options, "-1");
}

// A plugin from before there were options works with the devices it makes by itself, and says so when they are too few.
TEST(pjrt_plugin_client_without_the_option)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "no-options", 1));
    size_t made = client_info(r.client)->addressable_count;
    rig_close(&r);
    struct client_options options = {.device_count = (int)made + 1};
    check_client_refused(pjrt_test_beside("faulty_plugin.so"), &options, "devices are wanted, but this plugin");
}

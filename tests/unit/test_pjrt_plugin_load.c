// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/file.h"
#include "pjrt_test.h"

PLUGIN_TEST(load_says_what_it_is)
{
    struct error err = {0};
    struct plugin *p;
    REQUIRE_OK(plugin_load(&p, path, &err), &err);
    const struct plugin_info *info = plugin_info(p);
    CHECK_STR(info->path, path);
    CHECK_INT(info->api_major, 0);
    CHECK(info->api_minor >= 81);
    CHECK_INT(info->known_minor, 114);
    bool ffi = false, layouts = false;
    for (size_t i = 0; i < info->extension_count; i++) {
        ffi |= strcmp(info->extensions[i].name, "FFI") == 0 && info->extensions[i].type == 5;
        layouts |= strcmp(info->extensions[i].name, "Layouts") == 0 && info->extensions[i].type == 4;
    }
    CHECK(ffi && layouts);
    const struct attribute *a = attributes_find(&info->attributes, "stablehlo_current_version");
    REQUIRE(a);
    CHECK(a->type == ATTRIBUTE_INT_LIST && a->list_count == 3 && a->list[0] >= 1);
    a = attributes_find(&info->attributes, "xla_version");
    CHECK(a && a->type == ATTRIBUTE_INT);
    CHECK_INT(info->missing_count, 0);
    CHECK(plugin_offers(p, "PJRT_Client_Compile"));
    CHECK(!plugin_offers(p, "PJRT_Client_Make_Tea"));
    plugin_free(p);
    CHECK_INT(pjrt_live_objects(), 0);
}

// The library stays loaded and is initialised once.
PLUGIN_TEST(load_again)
{
    struct error err = {0};
    for (int i = 0; i < 3; i++) {
        struct rig r;
        REQUIRE(rig_open(&r, path, 1));
        struct plugin *second;
        REQUIRE_OK(plugin_load(&second, path, &err), &err);
        plugin_free(second);
        rig_close(&r);
    }
}

TEST(pjrt_plugin_load_quietly)
{
    unsetenv("TF_CPP_MIN_LOG_LEVEL");
    struct error err = {0};
    struct plugin *p;
    REQUIRE_OK(plugin_load(&p, pjrt_test_plugin(false), &err), &err);
    CHECK_STR(getenv("TF_CPP_MIN_LOG_LEVEL"), "2");
    plugin_free(p);
    setenv("TF_CPP_MIN_LOG_LEVEL", "0", 1);
    REQUIRE_OK(plugin_load(&p, pjrt_test_plugin(false), &err), &err);
    CHECK_STR(getenv("TF_CPP_MIN_LOG_LEVEL"), "0");
    plugin_free(p);
}

static void check_refused(const char *path, const char *text)
{
    struct error err = {0};
    struct plugin *p;
    int rc = plugin_load(&p, path, &err);
    CHECK(!p);
    CHECK(strstr(err.where, path) != NULL);
    CHECK_ERROR(rc, ERR_DEVICE, text, &err);
}

TEST(pjrt_plugin_load_what_is_none)
{
    check_refused("/nowhere/plugin.so", "there is no plugin at this path");
    check_refused("no-such-plugin.so", "there is no plugin at this path");
    check_refused(pjrt_test_beside("faulty_empty.so"), "has no GetPjrtApi");
    char path[256];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/text.so", test_dir());
    REQUIRE_OK(file_write(path, "not a library", 13, &err), &err);
    check_refused(path, "cannot be loaded");
    check_refused(test_dir(), "cannot be loaded");
}

static void check_faulty_refused(const char *fault, const char *text)
{
    setenv("ASSAY_FAULT", fault, 1);
    check_refused(pjrt_test_beside("faulty_plugin.so"), text);
    CHECK_INT(pjrt_live_objects(), 0);
}

TEST(pjrt_plugin_load_wrong_major)
{
    check_faulty_refused("wrong-major", "the plugin's PJRT API is 1.115, this program speaks 0.x");
}

TEST(pjrt_plugin_load_small_table)
{
    check_faulty_refused("small-table", "function table has 16 bytes, too few to hold its version");
}

TEST(pjrt_plugin_load_no_error_functions)
{
    check_faulty_refused("no-errors", "lacks the functions of PJRT_Error");
}

TEST(pjrt_plugin_load_endless_extensions)
{
    check_faulty_refused("endless-list", "list of extensions does not end");
}

static const char identity[] = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "  return %a : tensor<4xf32>\n"
                               "}\n";

// A function that is not there is named, with both versions, when it is called and before.
TEST(pjrt_plugin_load_lacks_a_function)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "no-optimized", 1));
    CHECK_INT(plugin_info(r.plugin)->missing_count, 1);
    CHECK_STR(plugin_info(r.plugin)->missing[0], "PJRT_Executable_OptimizedProgram");
    CHECK(!plugin_offers(r.plugin, "PJRT_Executable_OptimizedProgram"));
    struct program *p = rig_compile(&r, identity, NULL);
    REQUIRE(p);
    struct str text;
    str_init(&text);
    char format[32];
    int rc = program_optimized(p, &text, format, &r.err);
    CHECK(strstr(r.err.message, "PJRT API is 0.115, this program was built with 0.114") != NULL);
    CHECK_ERROR(rc, ERR_DEVICE, "the plugin has no PJRT_Executable_OptimizedProgram", &r.err);
    str_release(&text);
    program_free(p);
    rig_close(&r);
}

static void run_identity(struct rig *r)
{
    struct program *p = rig_compile(r, identity, NULL);
    float x[4] = {1, 2, 3, 4}, y[4];
    struct buffer *in = rig_upload(r, 0, x, DT_F32, 1, DIMS(4)), *out;
    REQUIRE(p && in);
    REQUIRE_OK(program_execute(p, &in, 1, &out, &r->err), &r->err);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r->err), &r->err);
    CHECK(memcmp(x, y, sizeof x) == 0);
    buffer_free(out);
    buffer_free(in);
    program_free(p);
}

// A table that ends early: what it ends before is not read, and the rest works.
TEST(pjrt_plugin_load_older_table)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "older", 1));
    CHECK_INT(plugin_info(r.plugin)->api_minor, 30);
    CHECK_INT(plugin_info(r.plugin)->missing_count, 1);
    CHECK_STR(plugin_info(r.plugin)->missing[0], "PJRT_Executable_GetCompiledMemoryStats");
    struct program *p = rig_compile(&r, identity, NULL);
    REQUIRE(p);
    struct program_memory memory;
    REQUIRE_OK(program_memory(p, &memory, &r.err), &r.err);
    CHECK_INT(memory.arguments, -1);
    CHECK_INT(memory.peak, -1);
    program_free(p);
    run_identity(&r);
    rig_close(&r);
}

// A plugin newer than our headers refuses argument structs without the fields it added: ours are announced with room.
TEST(pjrt_plugin_load_newer_structs)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "newer", 1));
    CHECK_INT(plugin_info(r.plugin)->api_minor, 999);
    run_identity(&r);
    rig_close(&r);
}

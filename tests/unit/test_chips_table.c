// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/suggest.h"
#include "chips/local.h"
#include "chips/pci.h"
#include "test.h"

static bool is_date(const char *s)
{
    int y, m, d;
    char *end;
    if (!s || strlen(s) != 10 || s[4] != '-' || s[7] != '-')
        return false;
    y = (int)strtol(s, &end, 10);
    m = (int)strtol(s + 5, &end, 10);
    d = (int)strtol(s + 8, &end, 10);
    return *end == '\0' && y >= 2017 && y <= 2100 && m >= 1 && m <= 12 && d >= 1 && d <= 31;
}

static void check_source(const char *chip, const char *what, const struct chip_source *from, bool must_link)
{
    bool ok = from->link && *from->link && is_date(from->date) && from->cite && strstr(from->cite, from->link) &&
              strstr(from->cite, from->date) && (!must_link || strncmp(from->link, "https://", 8) == 0);
    if (!CHECK(ok))
        printf("    %s: %s has no source or no date\n", chip, what);
}

// A value stands with unit, source, date and the printed form; its absence with a reason.
static void check_value(const struct chip *c, const char *what, const struct chip_value *v, const char *unit)
{
    check_source(c->name, what, &v->from, strcmp(what, "memory_usable") != 0);
    if (!CHECK_STR(v->unit, unit))
        printf("    %s: %s\n", c->name, what);
    bool ok = isnan(v->value) ? v->note && *v->note && !v->printed : v->value > 0 && v->printed && *v->printed;
    if (!CHECK(ok))
        printf("    %s: %s is not complete\n", c->name, what);
    CHECK(v->origin == ORIGIN_SHEET || v->origin == ORIGIN_DERIVED);
    for (const struct chip_reading *r = v->others; r && r->printed; r++) {
        check_source(c->name, what, &r->from, true);
        CHECK(*r->printed && (isnan(r->value) || r->value > 0));
        // A figure that is twice another counts something else (a core, sparsity) and needs a second look. Links may
        // be: their sources count directions and bits.
        bool far = !isnan(r->value) && !isnan(v->value) && (r->value > 1.3 * v->value || r->value < v->value / 1.3);
        bool links = strcmp(what, "interconnect") == 0 || strcmp(what, "link") == 0;
        bool vector = strstr(r->printed, "vector") != NULL; // the f64 rate of a GPU without its matrix units
        if (!CHECK(!far || links || vector))
            printf("    %s: %s: %s is far from %s\n", c->name, what, r->printed, v->printed);
    }
}

TEST(chips_table_every_value_has_source_and_date)
{
    for (size_t i = 0; i + 1 < chip_count(); i++) {
        const struct chip *c = chip_at(i);
        CHECK(c->vendor && c->aliases && c->core_name && c->devices_per_chip >= 1 && c->cores_per_chip >= 1);
        check_source(c->name, "counted", &c->counted, true);
        check_source(c->name, "host", &c->host.from, true);
        check_source(c->name, "mxu", &c->mxu.from, true);
        check_source(c->name, "naming", &c->naming.from, true);
        for (unsigned t = 0; t < CHIP_TYPES; t++) {
            bool integers = t == CHIP_INT8 || t == CHIP_INT4;
            check_value(c, chip_type_name((enum chip_type)t), &c->rate[t], integers ? "OP/s" : "FLOP/s");
        }
        check_value(c, "memory", &c->memory, "B");
        check_value(c, "memory_usable", &c->memory_usable, "B");
        check_value(c, "bandwidth", &c->bandwidth, "B/s");
        check_value(c, "vmem", &c->vmem, "B");
        check_value(c, "interconnect", &c->interconnect, "B/s");
        check_value(c, "link", &c->link, "B/s");
        check_value(c, "network", &c->network, "B/s");
        check_value(c, "pcie", &c->pcie, "B/s");
        check_value(c, "power", &c->power, "W");
        // What is derived follows from what is printed.
        if (!isnan(c->link.value))
            CHECK_NEAR(c->interconnect.value, c->link.value * c->ports * 2, 1e-9 * c->interconnect.value);
        CHECK(c->ports == 0 || c->torus_dims == 0 || c->ports == 2 * c->torus_dims);
        CHECK(!isnan(c->rate[CHIP_BF16].value) && !isnan(c->memory.value) && !isnan(c->bandwidth.value));
        CHECK(!c->pci_vendor == !c->pci_device);
        CHECK(!c->pci_vendor || (c->is_tpu && c->pci_vendor == 0x1ae0));
    }
}

TEST(chips_table_names_are_unique_and_found_in_any_case)
{
    for (size_t i = 0; i < chip_count(); i++) {
        const struct chip *c = chip_at(i), *found = NULL;
        struct error e = {0};
        char upper[64], target[80];
        size_t n = strlen(c->name);
        for (size_t k = 0; k <= n; k++)
            upper[k] = (char)(c->name[k] >= 'a' && c->name[k] <= 'z' ? c->name[k] - 32 : c->name[k]);
        REQUIRE_OK(chip_find(upper, &found, &e), &e);
        CHECK(found == c);
        snprintf(target, sizeof target, "%s:whatever", c->name);
        REQUIRE_OK(chip_find(target, &found, &e), &e);
        CHECK(found == c);
        if (c->device_kind)
            CHECK(chip_by_device_kind(c->device_kind) == c);
        for (size_t k = 0; c->aliases[k]; k++) {
            REQUIRE_OK(chip_find(c->aliases[k], &found, &e), &e);
            if (!CHECK(found == c))
                printf("    %s is also %s\n", c->aliases[k], found->name);
        }
    }
    CHECK(chip_by_device_kind("TPU v99") == NULL);
    CHECK(chip_by_device_kind("cpu") == NULL); // the host is `local` only when it was measured
}

TEST(chips_table_unknown_name_lists_what_there_is)
{
    struct error e = {0};
    const struct chip *c = NULL;
    CHECK_INT(chip_find("v5x", &c, &e), ERR_USAGE);
    CHECK(strstr(e.message, "did you mean \"v5") != NULL);
    for (size_t i = 0; i < chip_count(); i++)
        CHECK(strstr(e.message, chip_at(i)->name) != NULL);
    error_clear(&e);
    CHECK_INT(chip_find("", &c, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(chip_find("v100\033[2J and something very long that no chip has in its name at all, really", &c, &e),
              ERR_USAGE);
    CHECK(strstr(e.message, "local") != NULL);
}

TEST(chips_known_answers)
{
    struct error e = {0};
    const struct chip *v5e, *tpu7x, *h100;
    REQUIRE_OK(chip_find("v5e", &v5e, &e), &e);
    REQUIRE_OK(chip_find("TPU7x", &tpu7x, &e), &e);
    REQUIRE_OK(chip_find("h100", &h100, &e), &e);
    // 197e12 / 819e9 = 240.537...
    struct quantity q = chip_ridge(v5e, CHIP_BF16);
    CHECK_NEAR(q.value, 197e12 / 819e9, 1e-9);
    CHECK_NEAR(q.value, 240.5, 0.05);
    CHECK_INT(q.origin, ORIGIN_DERIVED);
    CHECK_STR(q.unit, "FLOP/B");
    q = chip_ridge(v5e, CHIP_INT8);
    CHECK_NEAR(q.value, 393e12 / 819e9, 1e-9);
    CHECK_STR(q.unit, "OP/B");
    // No rate is no number, and says so; the ridge neither.
    q = chip_rate(tpu7x, CHIP_INT8, CHIP_PER_CHIP);
    CHECK(isnan(q.value));
    CHECK_STR(q.source, "no int8 rate is published for tpu7x");
    CHECK_STR(q.unit, "OP/s");
    CHECK(isnan(chip_rate(tpu7x, CHIP_INT8, CHIP_PER_DEVICE).value));
    q = chip_ridge(tpu7x, CHIP_INT8);
    CHECK(isnan(q.value));
    CHECK_STR(q.source, "no int8 rate is published for tpu7x");
    CHECK(isnan(chip_rate(v5e, CHIP_TYPES, CHIP_PER_CHIP).value));
    // Two devices: half a chip each. XLA's limit is known per device.
    q = chip_rate(tpu7x, CHIP_BF16, CHIP_PER_DEVICE);
    CHECK_NEAR(q.value, 1153.5e12, 1);
    CHECK_INT(q.origin, ORIGIN_DERIVED);
    CHECK_NEAR(chip_memory(tpu7x, CHIP_PER_CHIP).value, 192 * 0x1p30, 0);
    CHECK_NEAR(chip_memory(tpu7x, CHIP_PER_DEVICE).value, 96 * 0x1p30, 0);
    CHECK_NEAR(chip_memory_usable(tpu7x, CHIP_PER_DEVICE).value, 94.75 * 0x1p30, 0);
    CHECK_NEAR(chip_memory_usable(tpu7x, CHIP_PER_CHIP).value, 189.5 * 0x1p30, 0);
    CHECK_INT(chip_memory_usable(tpu7x, CHIP_PER_CHIP).origin, ORIGIN_DERIVED);
    CHECK_INT(chip_memory_usable(tpu7x, CHIP_PER_DEVICE).origin, ORIGIN_SHEET);
    // One device: the sheet's own figure.
    CHECK_INT(chip_rate(v5e, CHIP_BF16, CHIP_PER_DEVICE).origin, ORIGIN_SHEET);
    CHECK_NEAR(chip_bandwidth(h100, CHIP_PER_DEVICE).value, 3350e9, 0);
    CHECK_NEAR(chip_link(v5e).value, 50e9, 0);
    CHECK_NEAR(chip_interconnect(tpu7x).value, 1200e9, 0);
}

TEST(chips_type_names)
{
    for (unsigned t = 0; t < CHIP_TYPES; t++)
        CHECK_INT(chip_type_from_name(chip_type_name((enum chip_type)t)), t);
    CHECK_INT(chip_type_from_name("s8"), CHIP_INT8);
    CHECK_INT(chip_type_from_name("f8e4m3fn"), CHIP_FP8);
    CHECK_INT(chip_type_from_name("f4e2m1fn"), CHIP_FP4);
    CHECK_INT(chip_type_from_name("s4"), CHIP_INT4);
    CHECK_INT(chip_type_from_name("s32"), CHIP_TYPES);
    CHECK_INT(chip_type_from_name(""), CHIP_TYPES);
}

TEST(chips_targets)
{
    struct error e = {0};
    struct chip_target t;
    REQUIRE_OK(chip_target_parse("v6e:2x4", &t, &e), &e);
    CHECK_STR(t.chip->name, "v6e");
    CHECK(t.dims == 2 && t.shape[0] == 2 && t.shape[1] == 4 && t.chips == 8 && t.devices == 8);
    CHECK(!chip_target_wraps(&t, 0) && !chip_target_wraps(&t, 1) && !chip_target_wraps(&t, 2));
    REQUIRE_OK(chip_target_parse("v5e:8x16", &t, &e), &e);
    CHECK(!chip_target_wraps(&t, 0) && chip_target_wraps(&t, 1));
    REQUIRE_OK(chip_target_parse("v5:2x2x1", &t, &e), &e); // libtpu's name for v5p
    CHECK_STR(t.chip->name, "v5p");
    CHECK(t.chips == 4 && t.devices == 4 && !chip_target_wraps(&t, 0));
    REQUIRE_OK(chip_target_parse("v4:4x4x4", &t, &e), &e);
    CHECK(chip_target_wraps(&t, 0) && chip_target_wraps(&t, 2) && !chip_target_wraps(&t, 3) &&
          !chip_target_wraps(&t, -1));
    REQUIRE_OK(chip_target_parse("v4:2x4x4", &t, &e), &e);
    CHECK(!chip_target_wraps(&t, 1));
    REQUIRE_OK(chip_target_parse("TPU7x:2x2x2", &t, &e), &e);
    CHECK(t.chips == 8 && t.devices == 16);
    REQUIRE_OK(chip_target_parse("tpu7x", &t, &e), &e);
    CHECK(t.dims == 0 && t.chips == 1 && t.devices == 2);
    REQUIRE_OK(chip_target_parse("h100:8", &t, &e), &e);
    CHECK(t.dims == 1 && t.chips == 8 && t.devices == 8 && !chip_target_wraps(&t, 0));
    REQUIRE_OK(chip_target_parse("local", &t, &e), &e);
    REQUIRE_OK(chip_target_parse("local:1", &t, &e), &e);

    static const char *const bad[] = {"v6e:",
                                      "v6e:2",
                                      "v6e:2x",
                                      "v6e:2x4x",
                                      "v6e:2x4x1",
                                      "v6e:x2",
                                      "v6e:0x4",
                                      "v6e:-2x4",
                                      "v6e:2x4 ",
                                      "v6e:2 x4",
                                      "v6e:2x4:2",
                                      "v6e:32x16",
                                      "v6e:99999999999999999999x2",
                                      "h100:2x4",
                                      "h100:",
                                      "h100:0",
                                      "v5p:16x16x32",
                                      "local:2",
                                      "v4:4x4",
                                      "v7:2x2",
                                      "",
                                      "v6e:65536x65536",
                                      "v6e:2X4",
                                      "v6e:3x3",
                                      "v6e:4x2",
                                      "v4:4x4x2",
                                      "v5p:4x4x6",
                                      "v5p:8x4x4",
                                      "v6e:2x4*",
                                      "v6e:2x4*0",
                                      "v6e:2x4*2000",
                                      "v6e:16x16*1024*2",
                                      "v6e*2",
                                      "h100:8*2",
                                      "v5p-7",
                                      "v5p-6",
                                      "v5p-8:2x2x1",
                                      "v6e-3",
                                      "v6e-512",
                                      "v6e-",
                                      "v6e-0",
                                      "-8",
                                      "h100-8",
                                      "v6e-99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error_clear(&e);
        if (!CHECK_INT(chip_target_parse(bad[i], &t, &e), ERR_USAGE) || !CHECK(e.message[0] != '\0'))
            printf("    %s\n", bad[i]);
    }
}

TEST(chips_targets_by_a_clouds_name_count_cores_machines_and_slices)
{
    static const struct {
        const char *text, *spelled;
        int chips, devices, hosts;
    } rows[] = {
        {"v5p-8", "v5p:2x2x1", 4, 4, 1},
        {"tpu7x-8", "tpu7x:2x2x1", 4, 8, 1},
        {"v6e-8", "v6e:2x4", 8, 8, 1},
        {"v6e-4", "v6e:2x2", 4, 4, 1},
        {"v6e-1", "v6e:1x1", 1, 1, 1},
        {"v6e-16", "v6e:4x4", 16, 16, 4},
        {"v5litepod-256", "v5e:16x16", 256, 256, 64},
        {"v5p-16", "v5p:2x2x2", 8, 8, 2},
        {"v4-128", "v4:4x4x4", 64, 64, 16},
        {"v5p-2048", "v5p:8x8x16", 1024, 1024, 256},
        {"v3-8", "v3:2x2", 4, 8, 1},
        {"v2-32", "v2:4x4", 16, 32, 4},
        {"V5P-8", "v5p:2x2x1", 4, 4, 1},
        {"v5p:4x4x12", "v5p:4x4x12", 192, 192, 48},
        {"v4:1x1x1", "v4:1x1x1", 1, 1, 1},
        {"v6e", "v6e", 1, 1, 1},
        {"v5e:16x16*2", "v5e:16x16*2", 512, 512, 128},
        {"h100:16", "h100:16", 16, 16, 2},
        {"l4:4", "l4:4", 4, 4, 0},
    };
    struct error e = {0};
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chip_target t;
        REQUIRE_OK(chip_target_parse(rows[i].text, &t, &e), &e);
        str_clear(&s);
        chip_target_spell(&t, &s);
        if (!CHECK_STR(str_text(&s), rows[i].spelled) || !CHECK_INT(t.chips, rows[i].chips) ||
            !CHECK_INT(t.devices, rows[i].devices) || !CHECK_INT(t.hosts, rows[i].hosts))
            printf("    %s\n", rows[i].text);
        struct chip_target again;
        REQUIRE_OK(chip_target_parse(str_text(&s), &again, &e), &e);
        CHECK(memcmp(&t, &again, sizeof t) == 0);
    }
    str_release(&s);

    struct chip_target t;
    CHECK_INT(chip_target_parse("v6e:3x3", &t, &e), ERR_USAGE);
    CHECK(strstr(e.message, "1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16"));
    error_clear(&e);
    CHECK_INT(chip_target_parse("v5p-7", &t, &e), ERR_USAGE);
    CHECK(strstr(e.message, "TensorCores") && strstr(e.message, "v5p-8, v5p-16"));
}

TEST(base_suggest_nearest_name)
{
    CHECK_INT(suggest_distance("", ""), 0);
    CHECK_INT(suggest_distance("abc", ""), 3);
    CHECK_INT(suggest_distance("kitten", "sitting"), 3);
    CHECK_INT(suggest_distance("chpis", "chips"), 1); // two letters swapped
    CHECK_INT(suggest_distance("CHIPS", "chips"), 0);
    CHECK_INT(suggest_distance("ab", "ba"), 1);
    char longest[80];
    memset(longest, 'a', sizeof longest);
    longest[79] = '\0';
    CHECK(suggest_distance(longest, "a") == (size_t)-1);
    struct suggest s = {.wanted = "chps"};
    suggest_offer(&s, "help");
    CHECK(s.best == NULL);
    suggest_offer(&s, "chips");
    suggest_offer(&s, "check");
    CHECK_STR(s.best, "chips");
    s = (struct suggest){.wanted = "run"};
    suggest_offer(&s, "run-dir");
    CHECK_STR(s.best, "run-dir");
}

static void put_device(const char *folder, const char *slot, const char *vendor, const char *device)
{
    struct error e = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, slot);
    CHECK_INT(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/%s/vendor", folder, slot);
    CHECK_INT(file_write(path, vendor, strlen(vendor), &e), 0);
    snprintf(path, sizeof path, "%s/%s/device", folder, slot);
    CHECK_INT(file_write(path, device, strlen(device), &e), 0);
}

TEST(chips_pci_names_what_is_on_the_bus)
{
    struct chips_pci_entry found[16];
    CHECK_INT(chips_pci_scan("/nowhere/at/all", found, 16), 0);
    const char *bus = test_dir();
    put_device(bus, "0000:00:01.0", "0x8086\n", "0x1237\n");
    put_device(bus, "0000:00:04.0", "0x1ae0\n", "0x006f\n");
    put_device(bus, "0000:00:05.0", "0x1ae0\n", "0x006f\n");
    put_device(bus, "0000:00:06.0", "0x1ae0\n", "0x0027\n");
    put_device(bus, "0000:00:07.0", "0x1ae0\n", "0x001f\n"); // another device of that vendor
    put_device(bus, "0000:00:08.0", "0x1ae0\n", "garbage\n");
    put_device(bus, "0000:00:09.0", "", "");
    size_t n = chips_pci_scan(bus, found, 16);
    CHECK_INT(n, 2);
    REQUIRE(n == 2);
    CHECK_INT(found[0].count, 1);
    CHECK_STR(found[0].chips[0]->name, "v2"); // the number does not tell them apart
    CHECK_STR(found[0].chips[1]->name, "v3");
    CHECK(found[0].chips[2] == NULL);
    CHECK_INT(found[1].count, 2);
    CHECK_STR(found[1].chips[0]->name, "v6e");
    CHECK(found[1].chips[1] == NULL);
    CHECK_INT(chips_pci_scan(bus, found, 1), 1);
}

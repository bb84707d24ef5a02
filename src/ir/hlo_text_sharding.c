// SPDX-License-Identifier: Apache-2.0
// Shardings: by numbers of devices, and by the axes of a mesh.
#include <inttypes.h>
#include <string.h>

#include "ir/hlo_text_part.h"

// OpSharding.Type
enum { REPLICATED, MAXIMAL, TUPLE, OTHER, MANUAL, UNKNOWN, UNREDUCED };

static const char *type_name(int64_t type)
{
    return type == MAXIMAL     ? "maximal"
           : type == MANUAL    ? "manual"
           : type == UNKNOWN   ? "unknown"
           : type == UNREDUCED ? "unreduced"
                               : "replicated";
}

// Of the last dimensions of the tiles, which are no dimension of the shape.
static void put_last_dims(struct str *out, struct slice message)
{
    struct slice types = hlo_body_field(message, 8);
    int64_t v;
    if (hlo_number_field(message, 6, &v))
        str_add(out, " last_tile_dim_replicate");
    for (size_t i = 0; i < types.size; i++)
        str_addf(out, "%s%s", i ? ", " : " last_tile_dims={", type_name(types.data[i]));
    str_add(out, types.size ? "}" : "");
}

static void put_tiles(struct str *out, struct slice message)
{
    struct str text;
    str_add(out, "devices=[");
    hlo_put_field(out, message, 3);
    str_add_char(out, ']');
    str_init(&text);
    hlo_put_field(&text, message, 9);
    if (text.length) {
        str_addf(out, "<=[%s]", str_text(&text));
        bool several = strchr(str_text(&text), ',') != NULL;
        str_clear(&text);
        hlo_put_field(&text, message, 10);
        if (several)
            str_addf(out, "T(%s)", str_text(&text));
    } else {
        hlo_put_field(out, message, 4);
    }
    out->failed |= text.failed;
    str_release(&text);
    put_last_dims(out, message);
}

// ---- By the axes of a mesh

enum { MAX_AXES = 64 }; // looked at for a name

// "'a'=2,'b'=4" of a Mesh.
static void put_mesh(struct str *out, struct slice mesh)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(mesh.data, mesh.size);
    struct str devices;
    bool any = false;
    str_add(out, "mesh[");
    while (pb_next(&r, &f)) {
        int64_t size;
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        hlo_number_field(f.body, 2, &size);
        str_add(out, any ? ",'" : "'");
        hlo_put_name(out, hlo_body_field(f.body, 1));
        str_addf(out, "'=%" PRId64, size);
        any = true;
    }
    str_add_char(out, ']');
    str_init(&devices);
    hlo_put_field(&devices, mesh, 2);
    if (devices.length)
        str_addf(out, ", device_ids=(%s)", str_text(&devices));
    out->failed |= devices.failed;
    str_release(&devices);
}

// An AxisRef: "'b'", or a part of it, "'b':(1)2".
static void put_axis(struct str *out, struct slice mesh, struct slice ref)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(mesh.data, mesh.size);
    struct slice part = hlo_body_field(ref, 2), name = {NULL, 0};
    int64_t wanted, pre, size, n = 0;
    hlo_number_field(ref, 1, &wanted);
    while (n <= wanted && n < MAX_AXES && pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_BYTES) && n++ == wanted)
            name = hlo_body_field(f.body, 1);
    }
    str_add_char(out, '\'');
    hlo_put_name(out, name);
    str_add_char(out, '\'');
    if (!part.data)
        return;
    hlo_number_field(part, 1, &pre);
    hlo_number_field(part, 2, &size);
    str_addf(out, ":(%" PRId64 ")%" PRId64, pre, size);
}

static bool put_axes(struct str *out, const char *head, struct slice mesh, struct slice message, uint32_t number)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    bool any = false;
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, number, PB_BYTES))
            continue;
        str_add(out, any ? ", " : head);
        put_axis(out, mesh, f.body);
        any = true;
    }
    return any;
}

// A NamedSharding: "mesh['a'=2], [{'a'}, {?}], replicated={'b'}".
static void put_named(struct str *out, struct slice named)
{
    static const struct {
        uint32_t number;
        const char *head;
    } others[] = {{4, ", replicated={"}, {5, ", unreduced={"}, {6, ", manual={"}};
    struct pb_field f;
    struct pb_reader r = pb_reader(named.data, named.size);
    struct slice mesh = hlo_body_field(named, 2);
    bool any = false;
    put_mesh(out, mesh);
    while (pb_next(&r, &f)) {
        int64_t closed;
        if (!pb_is(&f, 3, PB_BYTES))
            continue;
        str_add(out, any ? ", {" : ", [{");
        bool axes = put_axes(out, "", mesh, f.body, 1);
        if (!hlo_number_field(f.body, 2, &closed))
            str_add(out, axes ? ", ?" : "?");
        str_add_char(out, '}');
        any = true;
    }
    str_add(out, any ? "]" : "");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        str_add(out, put_axes(out, others[i].head, mesh, named, others[i].number) ? "}" : "");
}

// ---- All

static void put_group_and_metadata(struct str *out, struct slice message)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    int64_t is_group, group, like;
    size_t n = 0, i = 0;
    hlo_number_field(message, 12, &group);
    hlo_number_field(message, 13, &like);
    if (hlo_number_field(message, 11, &is_group))
        str_addf(out, " %s %" PRId64, like ? "shard_like" : "shard_as", group);
    while (pb_next(&r, &f))
        n += pb_is(&f, 7, PB_BYTES);
    if (n == 1)
        hlo_put_metadata(out, " metadata=", hlo_body_field(message, 7));
    if (n < 2)
        return;
    r = pb_reader(message.data, message.size);
    str_add(out, " metadata={");
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 7, PB_BYTES))
            hlo_put_metadata(out, i++ ? ", " : "", f.body);
    }
    str_add_char(out, '}');
}

static void put_one(struct str *out, struct slice message, int depth)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    struct slice named = hlo_body_field(message, 14);
    int64_t type;
    size_t i = 0;
    hlo_number_field(message, 1, &type);
    str_add_char(out, '{');
    if (named.data) {
        put_named(out, named);
    } else if (type == MAXIMAL) {
        str_add(out, "maximal device=");
        hlo_put_field(out, message, 4);
    } else if (type == TUPLE && depth < 4) {
        while (pb_next(&r, &f)) {
            if (!pb_is(&f, 5, PB_BYTES))
                continue;
            hlo_put_comma(out, i++);
            put_one(out, f.body, depth + 1);
        }
    } else if (type == OTHER) {
        put_tiles(out, message);
    } else {
        str_add(out, type_name(type));
    }
    put_group_and_metadata(out, message);
    str_add_char(out, '}');
}

void hlo_put_sharding(struct str *out, struct slice sharding)
{
    put_one(out, sharding, 0);
}

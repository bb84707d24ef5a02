// SPDX-License-Identifier: Apache-2.0
// Shapes with their layouts, and shardings. Field numbers: openxla/xla, xla/xla_data.proto.
#include <string.h>

#include "ir/hlo_parse_part.h"

#define MAX_NESTING 64

enum { TUPLE = 13, OPAQUE = 14, TOKEN = 17, BUFFER = 34 }; // xla.PrimitiveType

static int find_primitive(struct slice name)
{
    static const struct {
        const char *name;
        int type;
    } others[] = {{"s1", 30}, {"u1", 31}, {"token", TOKEN}, {"opaque", OPAQUE}};
    char text[16] = "";
    if (!name.size || name.size >= sizeof text)
        return 0;
    memcpy(text, name.data, name.size);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(others[i].name, text) == 0)
            return others[i].type;
    }
    return dtype_info(dtype_from_name(text))->xla;
}

int hlo_primitive(struct hlo_parser *p, struct slice name)
{
    uint64_t key = 0;
    if (!name.size || name.size > sizeof key)
        return find_primitive(name);
    memcpy(&key, name.data, name.size);
    size_t at = (name.data[0] + 5U * name.data[name.size - 1] + name.size) % (sizeof p->types / sizeof *p->types);
    if (p->types[at].name != key) {
        p->types[at].name = key;
        p->types[at].type = find_primitive(name);
    }
    return p->types[at].type;
}

// ---- Layouts

// "(8,128)(2,1)", one Tile each.
static bool parse_tiles(struct hlo_parser *p)
{
    while (hlo_peek(p) == '(') {
        size_t tile = pb_begin(p->out, 6);
        if (!hlo_parse_list(p, 1, '(', ')'))
            return false;
        pb_end(p->out, tile);
    }
    return true;
}

static bool parse_number_in(struct hlo_parser *p, uint32_t field)
{
    int64_t v;
    if (!hlo_expect(p, '(') || !hlo_parse_integer(p, &v) || !hlo_expect(p, ')'))
        return false;
    hlo_put_number(p, field, v);
    return true;
}

static bool parse_type_in(struct hlo_parser *p, uint32_t field)
{
    if (!hlo_expect(p, '('))
        return false;
    int type = hlo_primitive(p, hlo_word(p));
    if (!type)
        return hlo_fail(p, "an element type that is not known");
    pb_put_int(p->out, field, type);
    return hlo_expect(p, ')');
}

// "SC(0:4,8)": along which dimension a value is split, and where.
static bool parse_split(struct hlo_parser *p)
{
    int64_t v;
    if (!hlo_expect(p, '('))
        return false;
    size_t split = pb_begin(p->out, 17);
    if (!hlo_parse_integer(p, &v) || !hlo_expect(p, ':'))
        return false;
    hlo_put_number(p, 1, v);
    do {
        if (!hlo_parse_integer(p, &v))
            return false;
        pb_put_int(p->out, 2, v);
    } while (hlo_take(p, ','));
    pb_end(p->out, split);
    return hlo_expect(p, ')');
}

// What stands behind the colon: "T(8,128)(2,1)L(512)E(4)S(1)".
static bool parse_layout_parts(struct hlo_parser *p)
{
    struct slice skipped;
    for (;;) {
        int c = hlo_peek(p);
        if (c == '}')
            return true;
        p->at += c != 0;
        bool split = c == 'S' && p->at < p->end && *p->at == 'C';
        p->at += split;
        bool ok = split      ? parse_split(p)
                  : c == 'T' ? parse_tiles(p)
                  : c == 'L' ? parse_number_in(p, 16)
                  : c == 'E' ? parse_number_in(p, 7)
                  : c == 'S' ? parse_number_in(p, 8)
                  : c == 'M' ? parse_number_in(p, 15)
                  : c == '#' ? parse_type_in(p, 11)
                  : c == '*' ? parse_type_in(p, 12)
                  : c == 'D' ? hlo_skip_value(p, &skipped) // of sparse arrays, which XLA no longer has
                             : hlo_fail(p, "a part of a layout that is not known");
        if (!ok)
            return false;
    }
}

static bool parse_layout(struct hlo_parser *p)
{
    int64_t v;
    size_t layout = pb_begin(p->out, 5);
    p->at++; // {
    int c = hlo_peek(p);
    if (c != '}' && c != ':') {
        size_t order = pb_begin(p->out, 1);
        do {
            if (!hlo_parse_integer(p, &v))
                return false;
            pb_put_varint(p->out, (uint64_t)v);
        } while (hlo_take(p, ','));
        pb_end(p->out, order);
    }
    if (hlo_take(p, ':') && !parse_layout_parts(p))
        return false;
    pb_end(p->out, layout);
    return hlo_expect(p, '}');
}

// A layout follows, not the brace of something else: it begins with a digit, a colon, or closes at once.
static bool layout_follows(const struct hlo_parser *p)
{
    const uint8_t *at = p->at;
    if (at >= p->end || *at != '{')
        return false;
    do
        at++;
    while (at < p->end && hlo_class[*at] & CLASS_BLANK);
    return at < p->end && (*at == ':' || *at == '}' || hlo_class[*at] & CLASS_DIGIT);
}

static void put_default_layout(struct hlo_parser *p, int rank)
{
    size_t layout = pb_begin(p->out, 5), order = rank ? pb_begin(p->out, 1) : 0;
    for (int d = rank; d-- > 0;)
        pb_put_varint(p->out, (uint64_t)d);
    if (rank)
        pb_end(p->out, order);
    pb_end(p->out, layout);
}

// ---- Shapes

// "[2,<=3]", and its dynamic dimensions.
static bool parse_dimensions(struct hlo_parser *p, int *rank)
{
    uint64_t dynamic[4] = {0}; // of 256 dimensions
    bool any = false;
    int64_t v;
    *rank = 0;
    if (!hlo_expect(p, '['))
        return false;
    if (hlo_take(p, ']'))
        return true;
    size_t dims = pb_begin(p->out, 3);
    do {
        if (*rank == 256)
            return hlo_fail(p, "a shape has more than 256 dimensions");
        if (hlo_take(p, '?'))
            return hlo_fail(p, "a dimension without a bound has no size");
        if (hlo_take(p, '<')) {
            if (!hlo_expect(p, '='))
                return false;
            dynamic[*rank / 64] |= UINT64_C(1) << *rank % 64;
            any = true;
        }
        if (!hlo_parse_integer(p, &v))
            return false;
        if (v < 0)
            return hlo_fail(p, "a dimension is negative");
        pb_put_varint(p->out, (uint64_t)v);
        ++*rank;
    } while (hlo_take(p, ','));
    pb_end(p->out, dims);
    size_t flags = any ? pb_begin(p->out, 6) : 0;
    for (int d = 0; d < *rank && any; d++)
        pb_put_varint(p->out, dynamic[d / 64] >> d % 64 & 1);
    if (any)
        pb_end(p->out, flags);
    return hlo_expect(p, ']');
}

static bool parse_array(struct hlo_parser *p, int type)
{
    int rank;
    pb_put_int(p->out, 2, type);
    if (!parse_dimensions(p, &rank))
        return false;
    if (layout_follows(p))
        return parse_layout(p);
    put_default_layout(p, rank); // of a scalar it is empty, and constants are refused without
    return true;
}

static bool parse_shape(struct hlo_parser *p, uint32_t field, int depth)
{
    if (depth > MAX_NESTING)
        return hlo_fail(p, "a shape is nested too deep");
    size_t shape = pb_begin(p->out, field);
    bool ok = true;
    if (hlo_take(p, '(')) {
        pb_put_int(p->out, 2, TUPLE);
        if (!hlo_take(p, ')')) {
            do
                ok = parse_shape(p, 4, depth + 1);
            while (ok && hlo_take(p, ','));
            ok = ok && hlo_expect(p, ')');
        }
    } else {
        struct slice name = hlo_word(p);
        int type = hlo_primitive(p, name);
        if (slice_is(name, "b") && hlo_take(p, '(')) {
            type = hlo_primitive(p, hlo_word(p));
            ok = type ? parse_array(p, BUFFER) && hlo_expect(p, ')') : hlo_fail(p, "an element type is not known");
        } else if (!type) {
            p->at = name.data;
            ok = hlo_fail(p, "'%.*s' is no element type that is known", (int)(name.size < 40 ? name.size : 40),
                          (const char *)name.data);
        } else {
            ok = parse_array(p, type);
        }
    }
    if (ok)
        pb_end(p->out, shape);
    return ok;
}

bool hlo_parse_shape(struct hlo_parser *p, uint32_t field)
{
    return parse_shape(p, field, 0);
}

// Operands of earlier years have their shapes before their names.
bool hlo_skip_shape(struct hlo_parser *p)
{
    struct slice skipped;
    if (hlo_peek(p) == '(') {
        size_t depth = 0;
        do {
            int c = *p->at++;
            depth += c == '(';
            depth -= c == ')';
        } while (depth && p->at < p->end);
        return !depth || hlo_fail(p, "a bracket is not closed");
    }
    skipped = hlo_word(p);
    if (!hlo_primitive(p, skipped) || !hlo_expect(p, '['))
        return hlo_fail(p, "expected a shape");
    const uint8_t *close = memchr(p->at, ']', (size_t)(p->end - p->at));
    if (!close)
        return hlo_fail(p, "a bracket is not closed");
    p->at = close + 1;
    return !layout_follows(p) || hlo_skip_value(p, &skipped);
}

// ---- Shardings

static int sharding_type(struct slice word)
{
    static const char *const names[] = {"replicated", "maximal", "", "", "manual", "unknown", "unreduced"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (slice_is(word, names[i]) && word.size)
            return i;
    }
    return -1;
}

// "last_tile_dims={manual, replicated}"
static bool parse_last_dims(struct hlo_parser *p)
{
    if (!hlo_expect(p, '='))
        return false;
    if (!hlo_expect(p, '{'))
        return false;
    size_t list = pb_begin(p->out, 8);
    do {
        int type = sharding_type(hlo_word(p));
        if (type < 0)
            return hlo_fail(p, "a kind of sharding that is not known");
        pb_put_varint(p->out, (uint64_t)type);
    } while (hlo_take(p, ','));
    pb_end(p->out, list);
    return hlo_expect(p, '}');
}

// "<=[4,2]T(1,0)" or "0,1,2,3" behind "devices=[2,2]".
static bool parse_devices(struct hlo_parser *p)
{
    int64_t v;
    if (!hlo_expect(p, '=') || !hlo_parse_list(p, 3, '[', ']'))
        return false;
    if (hlo_take(p, '<')) {
        size_t from = p->out->length;
        if (!hlo_expect(p, '=') || !hlo_parse_list(p, 9, '[', ']'))
            return false;
        if (hlo_take(p, 'T'))
            return hlo_parse_list(p, 10, '(', ')');
        if (p->out->length > from) // one dimension in its own order
            pb_put_bytes(p->out, 10, "", 1);
        return true;
    }
    size_t list = pb_begin(p->out, 4);
    do {
        if (!hlo_parse_integer(p, &v))
            return false;
        pb_put_varint(p->out, (uint64_t)v);
    } while (hlo_take(p, ','));
    pb_end(p->out, list);
    return true;
}

static bool parse_one_sharding(struct hlo_parser *p, uint32_t field, int depth)
{
    enum { MAXIMAL = 1, TUPLES = 2, OTHER = 3 };
    size_t sharding = pb_begin(p->out, field);
    struct slice skipped;
    int64_t v;
    if (!hlo_expect(p, '{'))
        return false;
    if (depth > 4)
        return hlo_fail(p, "a sharding is nested too deep");
    if (hlo_peek(p) == '{' || hlo_peek(p) == '}') {
        pb_put_int(p->out, 1, TUPLES);
        bool ok = true;
        if (hlo_peek(p) == '{') {
            do
                ok = parse_one_sharding(p, 5, depth + 1);
            while (ok && hlo_take(p, ','));
        }
        pb_end(p->out, sharding);
        return ok && hlo_expect(p, '}');
    }
    while (hlo_peek(p) != '}') {
        struct slice word = hlo_word(p);
        int type = sharding_type(word);
        bool ok = true;
        if (slice_is(word, "device")) {
            ok = hlo_expect(p, '=') && hlo_parse_integer(p, &v);
            if (ok) {
                pb_put_bytes(p->out, 3, "\1", 1);
                size_t list = pb_begin(p->out, 4);
                pb_put_varint(p->out, (uint64_t)v);
                pb_end(p->out, list);
            }
        } else if (type >= 0) {
            hlo_put_number(p, 1, type);
        } else if (slice_is(word, "devices")) {
            pb_put_int(p->out, 1, OTHER);
            ok = parse_devices(p);
        } else if (slice_is(word, "last_tile_dim_replicate")) {
            pb_put_bool(p->out, 6, true);
        } else if (slice_is(word, "last_tile_dims")) {
            ok = parse_last_dims(p);
        } else if (slice_is(word, "metadata")) {
            ok = hlo_expect(p, '=') && hlo_skip_value(p, &skipped);
        } else if (slice_is(word, "shard_as") || slice_is(word, "shard_like")) {
            ok = hlo_parse_integer(p, &v);
            if (ok) {
                pb_put_bool(p->out, 11, true);
                hlo_put_number(p, 12, v);
                pb_put_int(p->out, 13, slice_is(word, "shard_as") ? 1 : 2);
            }
        } else {
            return hlo_fail(p, "a kind of sharding that is not known");
        }
        if (!ok)
            return false;
    }
    pb_end(p->out, sharding);
    return hlo_expect(p, '}');
}

bool hlo_parse_sharding(struct hlo_parser *p, uint32_t field)
{
    const uint8_t *from = p->at;
    struct slice skipped;
    // By named axes: kept by nothing here, so it is only passed over.
    hlo_blanks(p);
    for (size_t i = 0; i < 3 && p->at < p->end && (*p->at == '{' || *p->at == ' '); i++)
        p->at++;
    bool named = p->end - p->at >= 5 && (memcmp(p->at, "mesh[", 5) == 0 || *p->at == '@');
    p->at = from;
    return named ? hlo_skip_value(p, &skipped) : parse_one_sharding(p, field, 0);
}

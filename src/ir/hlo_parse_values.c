// SPDX-License-Identifier: Apache-2.0
// Values of attributes that have a form of their own. Field numbers: openxla/xla, xla/service/hlo.proto and
// xla/xla_data.proto.
#include <string.h>

#include "ir/hlo_parse_part.h"

int hlo_one_of(struct slice word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (slice_is(word, names[i]))
            return (int)i;
    }
    return -1;
}
bool hlo_parse_number(struct hlo_parser *p, uint32_t field)
{
    int64_t v;
    if (!hlo_parse_integer(p, &v))
        return false;
    hlo_put_number(p, field, v);
    return true;
}

// ---- Values of their own

// "{size=3x3 stride=2x2 pad=1_1x0_0 lhs_dilate=1x1 rhs_dilate=2x1 rhs_reversal=0x1}"
bool hlo_parse_window(struct hlo_parser *p, uint32_t field)
{
    enum { MAX = 32, SIZE = 1, STRIDE, LOW, HIGH, RHS, LHS, REVERSED, NUMBERS };
    int64_t w[MAX][NUMBERS];
    size_t n = 0;
    for (size_t i = 0; i < MAX; i++)
        memcpy(w[i], (int64_t[NUMBERS]){0, 1, 1, 0, 0, 1, 1, 0}, sizeof w[i]);
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        static const char *const keys[] = {"size", "stride", "pad", "", "rhs_dilate", "lhs_dilate", "rhs_reversal"};
        int key = HLO_ONE_OF(hlo_word(p), keys) + 1;
        size_t i = 0;
        if (!key || !hlo_expect(p, '='))
            return hlo_fail(p, "a part of a window that is not known");
        do {
            if (i == MAX)
                return hlo_fail(p, "a window of more than %d dimensions", MAX);
            if (!hlo_parse_integer(p, &w[i][key]) ||
                (key == LOW && (!hlo_expect(p, '_') || !hlo_parse_integer(p, &w[i][HIGH]))))
                return false;
            i++;
        } while (hlo_take(p, 'x'));
        n = i > n ? i : n;
    }
    size_t window = pb_begin(p->out, field);
    for (size_t i = 0; i < n; i++) {
        size_t dimension = pb_begin(p->out, 1);
        for (uint32_t k = SIZE; k < NUMBERS; k++)
            hlo_put_number(p, k, w[i][k]);
        pb_end(p->out, dimension);
    }
    pb_end(p->out, window);
    return hlo_expect(p, '}');
}

// One operand of "b01f_01io->b01f": where its two named dimensions and the spatial ones are.
static bool parse_labels(struct hlo_parser *p, int first_name, int64_t *first, int second_name, int64_t *second,
                         int64_t *spatial, size_t *n)
{
    enum { MAX = 10 };
    size_t at = 0;
    bool ok = true;
    *n = 0;
    *first = *second = -1;
    for (; p->at < p->end && ok && at < MAX + 2; p->at++, at++) {
        int c = *p->at;
        if (c == first_name)
            *first = (int64_t)at;
        else if (c == second_name)
            *second = (int64_t)at;
        else if (c >= '0' && c <= '9') {
            spatial[c - '0'] = (int64_t)at;
            ++*n;
        } else if (c != '?') // a dimension that is nothing
            break;
    }
    for (size_t i = 0; i < *n && ok; i++)
        ok = i < MAX && spatial[i] >= 0;
    return (ok && *first >= 0 && *second >= 0) || hlo_fail(p, "dimension labels that do not name every dimension");
}

bool hlo_parse_dim_labels(struct hlo_parser *p, uint32_t field)
{
    static const struct {
        char names[3];
        uint32_t first, second, spatial;
    } sides[] = {{"bf", 7, 8, 11}, {"io", 3, 4, 6}, {"bf", 9, 10, 12}};
    size_t message = pb_begin(p->out, field);
    hlo_blanks(p);
    for (size_t i = 0; i < 3; i++) {
        int64_t first, second, spatial[10] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
        size_t n;
        if (!parse_labels(p, sides[i].names[0], &first, sides[i].names[1], &second, spatial, &n))
            return false;
        hlo_put_number(p, sides[i].first, first);
        hlo_put_number(p, sides[i].second, second);
        size_t list = n ? pb_begin(p->out, sides[i].spatial) : 0;
        for (size_t k = 0; k < n; k++)
            pb_put_varint(p->out, (uint64_t)spatial[k]);
        if (n)
            pb_end(p->out, list);
        if ((i == 0 && !hlo_expect(p, '_')) || (i == 1 && (!hlo_expect(p, '-') || !hlo_expect(p, '>'))))
            return false;
    }
    pb_end(p->out, message);
    return true;
}

// "{[0:3], [0:10:2]}"
bool hlo_parse_slices(struct hlo_parser *p, uint32_t field)
{
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    do {
        int64_t v[3] = {0, 0, 1};
        if (!hlo_expect(p, '[') || !hlo_parse_integer(p, &v[0]) || !hlo_expect(p, ':') ||
            !hlo_parse_integer(p, &v[1]) || (hlo_take(p, ':') && !hlo_parse_integer(p, &v[2])))
            return false;
        size_t slice = pb_begin(p->out, field);
        for (uint32_t i = 0; i < 3; i++)
            hlo_put_number(p, i + 1, v[i]);
        pb_end(p->out, slice);
        if (!hlo_expect(p, ']'))
            return false;
    } while (hlo_take(p, ','));
    return hlo_expect(p, '}');
}

// "1_2x0_0_1": low, high and what lies between.
bool hlo_parse_padding(struct hlo_parser *p, uint32_t field)
{
    size_t message = pb_begin(p->out, field);
    do {
        int64_t v[3] = {0};
        if (!hlo_parse_integer(p, &v[0]) || !hlo_expect(p, '_') || !hlo_parse_integer(p, &v[1]) ||
            (hlo_take(p, '_') && !hlo_parse_integer(p, &v[2])))
            return false;
        size_t dimension = pb_begin(p->out, 1);
        for (uint32_t i = 0; i < 3; i++)
            hlo_put_number(p, i + 1, v[i]);
        pb_end(p->out, dimension);
    } while (hlo_take(p, 'x'));
    pb_end(p->out, message);
    return true;
}

bool hlo_parse_pairs(struct hlo_parser *p, uint32_t field)
{
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    do {
        int64_t from, to;
        if (!hlo_expect(p, '{') || !hlo_parse_integer(p, &from) || !hlo_expect(p, ',') || !hlo_parse_integer(p, &to) ||
            !hlo_expect(p, '}'))
            return false;
        size_t pair = pb_begin(p->out, field);
        hlo_put_number(p, 1, from);
        hlo_put_number(p, 2, to);
        pb_end(p->out, pair);
    } while (hlo_take(p, ','));
    return hlo_expect(p, '}');
}

// "{{0}: (1, {}), {1}: (0, {}, must-alias)}": which operand a result shares its memory with.
bool hlo_parse_output_aliases(struct hlo_parser *p, uint32_t field)
{
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    do {
        size_t alias = pb_begin(p->out, field);
        if (!hlo_parse_list(p, 1, '{', '}') || !hlo_expect(p, ':') || !hlo_expect(p, '(') || !hlo_parse_number(p, 2) ||
            !hlo_expect(p, ',') || !hlo_parse_list(p, 3, '{', '}') || !hlo_expect(p, ')'))
            return false;
        pb_end(p->out, alias);
    } while (hlo_take(p, ','));
    return hlo_expect(p, '}');
}

// ---- Replica groups

static bool parse_group_lists(struct hlo_parser *p)
{
    size_t message = pb_begin(p->out, 87);
    p->at++; // {
    while (hlo_peek(p) == '{') {
        size_t group = pb_begin(p->out, 1);
        if (!hlo_parse_list(p, 1, '{', '}'))
            return false;
        pb_end(p->out, group);
        hlo_take(p, ',');
    }
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

// "[2,4]<=[8]", "[2,4]<=[4,2]T(1,0)"
static bool parse_group_iota(struct hlo_parser *p)
{
    int64_t groups, size;
    size_t message = pb_begin(p->out, 92);
    p->at++; // [
    if (!hlo_parse_integer(p, &groups) || !hlo_expect(p, ',') || !hlo_parse_integer(p, &size) || !hlo_expect(p, ']') ||
        !hlo_expect(p, '<') || !hlo_expect(p, '='))
        return false;
    hlo_put_number(p, 1, groups);
    hlo_put_number(p, 2, size);
    if (!hlo_parse_list(p, 3, '[', ']'))
        return false;
    if (hlo_take(p, 'T')) {
        if (!hlo_parse_list(p, 4, '(', ')'))
            return false;
    } else {
        pb_put_bytes(p->out, 4, "", 1);
    }
    pb_end(p->out, message);
    return true;
}

static bool parse_mesh_axis(struct hlo_parser *p, const struct slice *axes, size_t n)
{
    struct slice name;
    size_t axis = 0;
    int64_t pre, size;
    if (!hlo_parse_quoted(p, &name))
        return false;
    while (axis < n && !slice_equal(axes[axis], name))
        axis++;
    if (axis == n)
        return hlo_fail(p, "an axis that the mesh does not have");
    size_t message = pb_begin(p->out, 2);
    hlo_put_number(p, 1, (int64_t)axis);
    if (hlo_take(p, ':')) {
        size_t part = pb_begin(p->out, 2);
        if (!hlo_expect(p, '(') || !hlo_parse_integer(p, &pre) || !hlo_expect(p, ')') || !hlo_parse_integer(p, &size))
            return false;
        hlo_put_number(p, 1, pre);
        hlo_put_number(p, 2, size);
        pb_end(p->out, part);
    }
    pb_end(p->out, message);
    return true;
}

// "mesh['a'=2,'b'=4], device_ids=(0,2,...) {'a','b':(1)2}"
static bool parse_group_mesh(struct hlo_parser *p)
{
    enum { MAX = 64 };
    struct slice axes[MAX];
    size_t n = 0;
    if (!slice_is(hlo_word(p), "mesh") || !hlo_expect(p, '['))
        return hlo_fail(p, "replica groups of a form that is not known");
    size_t message = pb_begin(p->out, 93), mesh = pb_begin(p->out, 1);
    do {
        size_t axis = pb_begin(p->out, 1);
        if (n == MAX || !hlo_parse_quoted(p, &axes[n]))
            return hlo_fail(p, "a mesh of more than %d axes", MAX);
        hlo_put_text(p, 1, axes[n++]);
        if (!hlo_expect(p, '=') || !hlo_parse_number(p, 2))
            return false;
        pb_end(p->out, axis);
    } while (hlo_take(p, ','));
    if (!hlo_expect(p, ']'))
        return false;
    if (hlo_take(p, ',')) {
        if (!slice_is(hlo_word(p), "device_ids") || !hlo_expect(p, '='))
            return hlo_fail(p, "expected device_ids");
        bool square = hlo_peek(p) == '[';
        if (!hlo_parse_list(p, 2, square ? '[' : '(', square ? ']' : ')'))
            return false;
    }
    pb_end(p->out, mesh);
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        if (!parse_mesh_axis(p, axes, n))
            return false;
        hlo_take(p, ',');
    }
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

bool hlo_parse_groups(struct hlo_parser *p, uint32_t field)
{
    (void)field;
    int c = hlo_peek(p);
    return c == '{' ? parse_group_lists(p) : c == '[' ? parse_group_iota(p) : parse_group_mesh(p);
}

// ---- Of the module's head

bool hlo_parse_aliases(struct hlo_parser *p, uint32_t field)
{
    static const char *const kinds[] = {"undefined-alias", "may-alias", "must-alias"};
    size_t message = pb_begin(p->out, field);
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        size_t entry = pb_begin(p->out, 1);
        int kind = 1;
        if (!hlo_parse_list(p, 1, '{', '}') || !hlo_expect(p, ':') || !hlo_expect(p, '(') || !hlo_parse_number(p, 2) ||
            !hlo_expect(p, ',') || !hlo_parse_list(p, 3, '{', '}'))
            return false;
        if (hlo_take(p, ','))
            kind = HLO_ONE_OF(hlo_word(p), kinds);
        if (kind < 0)
            return hlo_fail(p, "a kind of alias that is not known");
        hlo_put_number(p, 4, kind);
        pb_end(p->out, entry);
        if (!hlo_expect(p, ')'))
            return false;
        hlo_take(p, ',');
    }
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

bool hlo_parse_donors(struct hlo_parser *p, uint32_t field)
{
    size_t message = pb_begin(p->out, field);
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        size_t entry = pb_begin(p->out, 1);
        if (!hlo_expect(p, '(') || !hlo_parse_number(p, 1) || !hlo_expect(p, ',') || !hlo_parse_list(p, 2, '{', '}') ||
            !hlo_expect(p, ')'))
            return false;
        pb_end(p->out, entry);
        hlo_take(p, ',');
    }
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

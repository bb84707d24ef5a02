// SPDX-License-Identifier: Apache-2.0
// Protocol buffer wire format, the reading half: fields of a message where they lie, without copies and without a
// schema. Inline, since traces are gigabytes of small fields. Encoding:
// https://protobuf.dev/programming-guides/encoding/
//
//     struct pb_reader r = pb_reader(bytes, size);
//     struct pb_field f;
//     while (pb_next(&r, &f)) {
//         if (pb_is(&f, 2, PB_BYTES)) ...
//     }
//     if (r.damage) ...       // what was read until then stands
#ifndef BASE_PBREAD_H
#define BASE_PBREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/pbwire.h"
#include "base/slice.h"

struct pb_reader {
    const uint8_t *at, *end;
    // The first thing that was wrong, a static text, and where the field begins that has it. Reading ends there.
    const char *damage;
    const uint8_t *damaged;
};

struct pb_field {
    uint32_t number; // 1 to 2^29-1
    enum pb_wire wire;
    uint64_t value;    // PB_VARINT, and the bits of PB_FIXED64 and PB_FIXED32
    struct slice body; // PB_BYTES. Where the length reaches past the end of the message: what there is (and damage)
};

static inline struct pb_reader pb_reader(const void *data, size_t size)
{
    const uint8_t *at = (const uint8_t *)data;
    return (struct pb_reader){.at = at, .end = size ? at + size : at};
}

// At most ten bytes; what exceeds 64 bits is dropped, as every parser does. NULL when it does not end in time.
static inline const uint8_t *pb_get_varint(const uint8_t *at, const uint8_t *end, uint64_t *out)
{
    if (at < end && *at < 0x80) {
        *out = *at;
        return at + 1;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    // Up to eight bytes at once: the seven bits of each are pushed together, in pairs, fours and eights.
    if (end - at >= 8) {
        uint64_t v, stop;
        memcpy(&v, at, 8);
        stop = ~v & 0x8080808080808080;
        if (stop) {
            v &= (stop ^ (stop - 1)) & 0x7f7f7f7f7f7f7f7f;
            v = (v & 0x007f007f007f007f) | (v & 0x7f007f007f007f00) >> 1;
            v = (v & 0x00003fff00003fff) | (v & 0x3fff00003fff0000) >> 2;
            *out = (v & 0x000000000fffffff) | (v & 0x0fffffff00000000) >> 4;
            return at + __builtin_ctzll(stop) / 8 + 1;
        }
    }
#endif
    uint64_t v = 0;
    for (unsigned shift = 0; at < end && shift < 70; shift += 7) {
        uint64_t byte = *at++;
        v |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return at;
        }
    }
    return NULL;
}

static inline bool pb_damaged(struct pb_reader *r, const uint8_t *field, const char *what)
{
    r->damage = what;
    r->damaged = field;
    r->at = r->end;
    return false;
}

// The next field; false at the end and at damage. Groups (wire types 3 and 4), which nothing has written for a decade,
// are damage.
static inline bool pb_next(struct pb_reader *r, struct pb_field *f)
{
    const uint8_t *begin = r->at, *at = begin;
    uint64_t tag, size;
    *f = (struct pb_field){0};
    if (at == r->end)
        return false;
    at = pb_get_varint(at, r->end, &tag);
    if (!at)
        return pb_damaged(r, begin, "a field's number does not end");
    if (tag >> 3 == 0 || tag >> 32 != 0)
        return pb_damaged(r, begin, "a field's number is out of range");
    f->number = (uint32_t)(tag >> 3);
    f->wire = (enum pb_wire)(tag & 7);
    switch (tag & 7) {
    case PB_VARINT:
        at = pb_get_varint(at, r->end, &f->value);
        if (!at)
            return pb_damaged(r, begin, "an integer does not end");
        break;
    case PB_FIXED64:
        if (r->end - at < 8)
            return pb_damaged(r, begin, "a number of 8 bytes is cut off");
        memcpy(&f->value, at, 8);
        at += 8;
        break;
    case PB_FIXED32: {
        uint32_t v;
        if (r->end - at < 4)
            return pb_damaged(r, begin, "a number of 4 bytes is cut off");
        memcpy(&v, at, 4);
        f->value = v;
        at += 4;
        break;
    }
    case PB_BYTES:
        at = pb_get_varint(at, r->end, &size);
        if (!at)
            return pb_damaged(r, begin, "a length does not end");
        f->body.data = at;
        if (size > (uint64_t)(r->end - at)) {
            f->body.size = (size_t)(r->end - at);
            (void)pb_damaged(r, begin, "a length reaches past the end");
            return true;
        }
        f->body.size = (size_t)size;
        at += size;
        break;
    default:
        return pb_damaged(r, begin, "a field's wire type is unknown");
    }
    r->at = at;
    return true;
}

static inline bool pb_is(const struct pb_field *f, uint32_t number, enum pb_wire wire)
{
    return f->number == number && f->wire == wire;
}

static inline double pb_double(const struct pb_field *f)
{
    double v;
    memcpy(&v, &f->value, sizeof v);
    return v;
}

#endif

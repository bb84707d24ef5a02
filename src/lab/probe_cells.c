// SPDX-License-Identifier: Apache-2.0
#include "lab/probe_cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "num/format.h"

enum kind { CELL_NARROW, CELL_INTEGER, CELL_THROUGH, CELL_CONTRACT, CELL_SUBNORMAL, CELL_EXTREME, CELL_ROUND_TRIP };

struct cell {
    const char *key, *question;
    enum kind kind;
    enum dtype in, out;
    const char *body; // StableHLO of %a, %b, %c (tensor<16xIN>), giving %r; IN, OUT are written @ and #
    bool excess;      // compiled as XLA does unasked: excess precision allowed, fast maximum
};

#define CONVERT    "%r = \"stablehlo.convert\"(%a) : (@) -> #\n"
#define BINARY(op) "%r = \"stablehlo." op "\"(%a, %b) : (@, @) -> #\n"

static const struct cell cells[] = {
    {"f32-to-bf16", "f32 to bf16", CELL_NARROW, DT_F32, DT_BF16, CONVERT, false},
    {"f32-to-f16", "f32 to f16", CELL_NARROW, DT_F32, DT_F16, CONVERT, false},
    {"f32-to-f8e4m3fn", "f32 to f8e4m3fn", CELL_NARROW, DT_F32, DT_F8E4M3FN, CONVERT, false},
    {"f32-to-f8e5m2", "f32 to f8e5m2", CELL_NARROW, DT_F32, DT_F8E5M2, CONVERT, false},
    {"f32-to-s8", "f32 to s8", CELL_INTEGER, DT_F32, DT_S8, CONVERT, false},
    {"f32-to-u8", "f32 to u8", CELL_INTEGER, DT_F32, DT_U8, CONVERT, false},
    {"f32-to-s32", "f32 to s32", CELL_INTEGER, DT_F32, DT_S32, CONVERT, false},
    {"f64-to-bf16", "f64 to bf16", CELL_THROUGH, DT_F64, DT_BF16, CONVERT, false},
    {"multiply-add", "a * b + c in f32", CELL_CONTRACT, DT_F32, DT_F32,
     "%p = \"stablehlo.multiply\"(%a, %b) : (@, @) -> @\n    %r = \"stablehlo.add\"(%p, %c) : (@, @) -> #\n", false},
    {"subnormal-add", "subnormals in f32 additions", CELL_SUBNORMAL, DT_F32, DT_F32, BINARY("add"), false},
    {"subnormal-multiply", "subnormals in f32 multiplications", CELL_SUBNORMAL, DT_F32, DT_F32, BINARY("multiply"),
     false},
    {"maximum", "maximum with a NaN, f32", CELL_EXTREME, DT_F32, DT_F32, BINARY("maximum"), false},
    {"minimum", "minimum with a NaN, f32", CELL_EXTREME, DT_F32, DT_F32, BINARY("minimum"), false},
    {"maximum-unasked", "maximum with a NaN as XLA compiles it unasked", CELL_EXTREME, DT_F32, DT_F32,
     BINARY("maximum"), true},
    {"round-trip", "f32 to bf16 and back", CELL_ROUND_TRIP, DT_F32, DT_F32,
     "%p = \"stablehlo.convert\"(%a) : (@) -> tensor<16xbf16>\n    %r = \"stablehlo.convert\"(%p) : "
     "(tensor<16xbf16>) -> #\n",
     false},
    {"round-trip-excess", "f32 to bf16 and back as XLA compiles it unasked", CELL_ROUND_TRIP, DT_F32, DT_F32,
     "%p = \"stablehlo.convert\"(%a) : (@) -> tensor<16xbf16>\n    %r = \"stablehlo.convert\"(%p) : "
     "(tensor<16xbf16>) -> #\n",
     true},
};

// ---- operands

static void fill(const struct cell *c, struct probe_cell *out)
{
    double *x = out->x[0], *y = out->x[1], *z = out->x[2];
    size_t n = 0;
    for (int i = 0; i < PROBE_CELL_ELEMENTS; i++)
        x[i] = y[i] = z[i] = 1;
    switch (c->kind) {
    case CELL_NARROW: {
        const struct dot_format *f = dot_format(dtype_name(c->out));
        double ulp = ldexp(1, 1 - f->bits), last = ldexp(1, f->emax - f->bits + 1),
               tiny = ldexp(1, f->emin - f->bits + 1);
        const double values[] = {1 + ulp / 2,
                                 1 + 3 * ulp / 2,
                                 1 + ulp / 2 + ulp / 8,
                                 -1 - 3 * ulp / 2,
                                 f->max,
                                 f->max + last / 4,
                                 f->max + last,
                                 2 * f->max,
                                 -2 * f->max,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 tiny,
                                 -tiny};
        for (n = 0; n < sizeof values / sizeof values[0]; n++)
            x[n] = fabs(values[n]) > 0x1.fffffep127 ? 0x1.fffffep127 : values[n];
        break;
    }
    case CELL_INTEGER: {
        double top = ldexp(1, dtype_bits(c->out) - (c->out != DT_U8)), low = c->out == DT_U8 ? 0 : -top;
        const double values[] = {1.5, 2.5, -1.5, 0.75, top + top / 4, low - top / 4, INFINITY, -INFINITY, NAN};
        for (n = 0; n < sizeof values / sizeof values[0]; n++)
            x[n] = values[n];
        break;
    }
    case CELL_THROUGH:
        x[n++] = 1 + 0x1p-8 + 0x1p-30;
        break;
    case CELL_CONTRACT:
        x[0] = y[0] = 1 + 0x1p-12;
        z[0] = -(1 + 0x1p-11);
        n = 1;
        break;
    case CELL_SUBNORMAL:
        x[0] = 0x1p-130; // an operand that is subnormal, and a result
        y[0] = strstr(c->body, "multiply") ? 0x1p20 : 0x1p-126;
        x[1] = strstr(c->body, "multiply") ? 0x1p-100 : 0x1.8p-126;
        y[1] = strstr(c->body, "multiply") ? 0x1p-30 : -0x1p-126;
        n = 2;
        break;
    case CELL_EXTREME:
        x[0] = y[1] = NAN;
        n = 2;
        break;
    case CELL_ROUND_TRIP:
        x[0] = 1 + 0x1p-20;
        n = 1;
        break;
    }
    out->n = n;
}

// ---- answers

static void add(struct str *s, const char *text)
{
    str_addf(s, "%s%s", s->length ? ", " : "", text);
}

static const char *becomes(double v, double max)
{
    return isinf(v) ? "infinity" : isnan(v) ? "NaN" : fabs(v) == max ? "the largest number" : "another number";
}

static void say_narrow(struct str *s, const struct probe_cell *c)
{
    const struct dot_format *f = dot_format(dtype_name(c->out));
    int found = -1;
    for (int r = 0; r < DOT_ROUNDINGS && found < 0; r++) {
        bool all = true;
        for (int i = 0; i < 4; i++)
            all &= c->y[i] == dot_round(c->x[0][i], f, (enum dot_rounding)r, false, false);
        found = all ? r : -1;
    }
    add(s, found < 0 ? "no single rounding" : dot_rounding_name((enum dot_rounding)found));
    str_addf(s, ", beyond the range %s, infinity is %s", becomes(c->y[7], f->max), becomes(c->y[9], f->max));
    add(s, c->y[12] == c->x[0][12] ? "subnormals are kept"
           : c->y[12] == 0         ? "subnormals are zero"
                                   : "subnormals change");
}

static void say_integer(struct str *s, const struct probe_cell *c)
{
    double top = ldexp(1, dtype_bits(c->out) - (c->out != DT_U8)), low = c->out == DT_U8 ? 0 : -top;
    bool cut = c->y[0] == 1 && c->y[1] == 2 && c->y[3] == 0, nearest = c->y[0] == 2 && c->y[1] == 2 && c->y[3] == 1;
    add(s, cut ? "toward zero" : nearest ? "nearest even" : "another rounding");
    bool saturates = c->y[4] == top - 1 && c->y[5] == low && c->y[6] == top - 1 && c->y[7] == low;
    bool finite = c->y[4] == top - 1 && c->y[5] == low;
    add(s, saturates ? "beyond the range the nearest code"
           : finite  ? "beyond the range the nearest code, but not for infinity"
                     : "beyond the range not the nearest code");
    str_addf(s, " (%.9g is %.9g, %.9g is %.9g), NaN is %.9g", c->x[0][4], c->y[4], c->x[0][5], c->y[5], c->y[8]);
}

static void say(struct str *s, const struct cell *cell, const struct probe_cell *c)
{
    switch (cell->kind) {
    case CELL_NARROW:
        say_narrow(s, c);
        break;
    case CELL_INTEGER:
        say_integer(s, c);
        break;
    case CELL_THROUGH:
        add(s, c->y[0] == 1 + 0x1p-7 ? "one rounding" : c->y[0] == 1 ? "rounded twice: through f32" : "another number");
        break;
    case CELL_CONTRACT:
        add(s, c->y[0] == 0x1p-24 ? "contracted into a fused multiply-add"
               : c->y[0] == 0     ? "two roundings"
                                  : "another number");
        break;
    case CELL_SUBNORMAL: {
        bool product = strstr(cell->body, "multiply") != NULL;
        double first = product ? 0x1p-110 : 0x1p-126 + 0x1p-130, second = product ? 0x1p-130 : 0x1p-127;
        add(s, c->y[0] == first ? "operands are kept" : "operands are zero");
        add(s, c->y[1] == second ? "results are kept" : c->y[1] == 0 ? "results are zero" : "results change");
        break;
    }
    case CELL_EXTREME:
        add(s, isnan(c->y[0]) && isnan(c->y[1])   ? "NaN is kept on either side"
               : isnan(c->y[0]) || isnan(c->y[1]) ? "NaN is lost on one side"
                                                  : "NaN is lost");
        break;
    case CELL_ROUND_TRIP:
        add(s, c->y[0] == 1 ? "rounded" : "deleted: the value comes back unrounded");
        break;
    }
}

// ---- running

static void write_body(struct str *out, const char *body, const char *in, const char *to)
{
    for (; *body; body++) {
        if (*body == '@')
            str_add(out, in);
        else if (*body == '#')
            str_add(out, to);
        else
            str_add_char(out, *body);
    }
}

int probe_cell_run(struct probe_cell *out, size_t i, bool *more, struct probe_device *d, struct arena *a,
                   struct error *err)
{
    *more = i < sizeof cells / sizeof cells[0];
    if (!*more)
        return 0;
    const struct cell *c = &cells[i];
    struct str text;
    char in[32], to[32];
    *out = (struct probe_cell){.key = c->key, .question = c->question, .in = c->in, .out = c->out};
    fill(c, out);
    snprintf(in, sizeof in, "tensor<16x%s>", dtype_info(c->in)->mlir);
    snprintf(to, sizeof to, "tensor<16x%s>", dtype_info(c->out)->mlir);
    str_init(&text);
    str_addf(&text, "func.func public @main(%%a: %s, %%b: %s, %%c: %s) -> %s {\n    ", in, in, in, to);
    write_body(&text, c->body, in, to);
    str_addf(&text, "    return %%r : %s\n}\n", to);
    int rc = str_check(&text, err);
    struct error refused = {0};
    if (!rc)
        rc = probe_device_elements(d, c->key, &text, c->in, out->x, c->out, out->y, c->excess, &refused);
    str_release(&text);
    if (rc && d->refused) {
        out->refused = arena_strdup(a, refused.message, err);
        return out->refused ? 0 : ERR_MEMORY;
    }
    if (rc)
        return error_set(err, rc, refused.where, "%s", refused.message);
    struct str words;
    str_init(&words);
    say(&words, c, out);
    out->answer = arena_strdup(a, str_text(&words), err);
    str_release(&words);
    return out->answer ? 0 : ERR_MEMORY;
}

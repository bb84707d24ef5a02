// SPDX-License-Identifier: Apache-2.0
// Arithmetic on as many f32 at once as the instruction set at hand has lanes, without naming its instructions. Included
// once for each set, with LANES and NAME(function) defined, where the set's instructions may be used.

typedef float NAME(floats) __attribute__((vector_size(4 * LANES)));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * LANES)));
typedef uint32_t NAME(words) __attribute__((vector_size(4 * LANES)));
typedef uint16_t NAME(halves) __attribute__((vector_size(2 * LANES)));

ISA_INLINE void NAME(load)(NAME(floats) * out, const float *from)
{
    memcpy(out, from, sizeof *out);
}

ISA_INLINE void NAME(store)(float *to, const NAME(floats) * v)
{
    memcpy(to, v, sizeof *v);
}

ISA_INLINE void NAME(load_bf16)(NAME(floats) * out, const uint16_t *from)
{
    NAME(halves) h;
    memcpy(&h, from, sizeof h);
    NAME(words) w = __builtin_convertvector(h, NAME(words)) << 16;
    memcpy(out, &w, sizeof w);
}

// To the nearest, even on ties; a NaN comes out quiet.
ISA_INLINE void NAME(store_bf16)(uint16_t *to, const NAME(floats) * v)
{
    NAME(words) w;
    memcpy(&w, v, sizeof w);
    NAME(words) rounded = (w + 0x7fff + ((w >> 16) & 1)) >> 16, quiet = (w >> 16) | 0x40;
    NAME(ints) nan = *v != *v; // NOLINT(misc-redundant-expression)
    NAME(words) mask;
    memcpy(&mask, &nan, sizeof mask);
    NAME(halves) h = __builtin_convertvector((rounded & ~mask) | (quiet & mask), NAME(halves));
    memcpy(to, &h, sizeof h);
}

// The next vector of values of type t, bf16 or f32, of which n are left; what does not fill one goes through one of its
// own, with zeros behind.
ISA_INLINE void NAME(read)(NAME(floats) * v, const void *x, enum dtype t, int64_t at, int64_t n)
{
    if (n >= LANES) {
        if (t == DT_BF16)
            NAME(load_bf16)(v, (const uint16_t *)x + at);
        else
            NAME(load)(v, (const float *)x + at);
        return;
    }
    float part[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i] = t == DT_BF16 ? f32_from_bf16(((const uint16_t *)x)[at + i]) : ((const float *)x)[at + i];
    NAME(load)(v, part);
}

// The same the other way.
ISA_INLINE void NAME(write)(void *y, enum dtype t, int64_t at, int64_t n, const NAME(floats) * v)
{
    if (n >= LANES) {
        if (t == DT_BF16)
            NAME(store_bf16)((uint16_t *)y + at, v);
        else
            NAME(store)((float *)y + at, v);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (t == DT_BF16)
            ((uint16_t *)y)[at + i] = bf16_from_f32((*v)[i]);
        else
            ((float *)y)[at + i] = (*v)[i];
    }
}

ISA_INLINE void NAME(choose)(NAME(floats) * out, NAME(ints) condition, const NAME(floats) * yes,
                             const NAME(floats) * no)
{
    NAME(ints) a, b;
    memcpy(&a, yes, sizeof a);
    memcpy(&b, no, sizeof b);
    a = (a & condition) | (b & ~condition);
    memcpy(out, &a, sizeof a);
}

// e^x within 2 units in the last place for x from -87.3 to 88.7; 0 below, that of 88.7 above. x = n ln 2 + r, and the
// series of e^r up to r^7 (|r| < 0.35: the rest is below 2^-28).
ISA_INLINE void NAME(exponential)(NAME(floats) * v)
{
    const NAME(floats) zero = {0}, low = zero - 87.33F, high = zero + 88.7F;
    NAME(floats) x = *v, y;
    NAME(ints) flushed = x < low;
    NAME(choose)(&x, x < low, &low, &x);
    NAME(choose)(&x, x > high, &high, &x);
    // Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits.
    NAME(floats) whole = x * 1.44269504F + 12582912.0F;
    NAME(words) bits;
    memcpy(&bits, &whole, sizeof bits);
    NAME(floats) n = whole - 12582912.0F, r = x - n * 0.693145752F - n * 1.42860677e-6F;
    y = zero + 1.98412698e-4F;
    y = y * r + 1.38888889e-3F;
    y = y * r + 8.33333333e-3F;
    y = y * r + 4.16666667e-2F;
    y = y * r + 1.66666667e-1F;
    y = y * r + 0.5F;
    y = y * r + 1.0F;
    y = y * r + 1.0F;
    NAME(words) scaled;
    memcpy(&scaled, &y, sizeof scaled);
    scaled += bits << 23; // 2^n
    memcpy(&y, &scaled, sizeof y);
    NAME(choose)(&y, x != x, &x, &y); // NOLINT(misc-redundant-expression)
    NAME(choose)(v, flushed, &zero, &y);
}

// 2^x within 2^-17 of itself, x from -126 to 126, beyond these that of the nearer: what is rounded to bf16 needs no
// more. x = n + f, and the interpolation of 2^f by a polynomial of degree 4 in Chebyshev's points. NaN gives some
// number.
ISA_INLINE void NAME(power_of_two)(NAME(floats) * v)
{
    const NAME(floats) zero = {0}, low = zero - 126.0F, high = zero + 128.0F;
    NAME(floats) x = *v, y;
    NAME(choose)(&x, x < low, &low, &x);
    NAME(choose)(&x, x > high, &high, &x);
    NAME(floats) whole = x + 12582912.0F, f = x - (whole - 12582912.0F);
    NAME(words) bits, scaled;
    memcpy(&bits, &whole, sizeof bits);
    y = zero + 0.00966636837F;
    y = y * f + 0.0559219755F;
    y = y * f + 0.240223497F;
    y = y * f + 0.693121016F;
    y = y * f + 1.0F;
    memcpy(&scaled, &y, sizeof scaled);
    scaled += bits << 23;
    memcpy(v, &scaled, sizeof scaled);
}

// x times the logistic function of x, as precise as a result of type `to` wants; of -infinity NaN, as 0 times it.
ISA_INLINE void NAME(silu)(NAME(floats) * v, enum dtype to)
{
    NAME(floats) e = -*v;
    if (to == DT_BF16) {
        e *= 1.44269504F;
        NAME(power_of_two)(&e);
    } else {
        const NAME(floats) high = (NAME(floats)){0} + 88.7F, endless = high + INFINITY;
        NAME(ints) beyond = e > high;
        NAME(exponential)(&e);
        NAME(choose)(&e, beyond, &endless, &e);
    }
    *v = *v / (1.0F + e);
}

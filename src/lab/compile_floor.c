// SPDX-License-Identifier: Apache-2.0
// How products are made, and the least time of everything.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compile_part.h"

// ---- Arithmetic

// The format that most multiply instructions of a body have; NULL where it has none.
static const struct llo_matrix *main_format(const struct llo_bundles *b)
{
    const struct llo_matrix *best = NULL;
    double most = 0;
    for (int i = 0; i < b->n_matrix; i++) {
        double rows = (double)b->matrix[i].multiplies * llo_rows(b->matrix[i].format);
        if (rows > most) {
            most = rows;
            best = &b->matrix[i];
        }
    }
    return best;
}

// How often the products' multiply-adds go through the matrix units: each instruction takes its rows through one unit.
static double passes(const struct compile_case *k, const struct compile_op *op)
{
    double rows = 0;
    for (int i = 0; i < op->code->n_matrix; i++)
        rows += (double)op->code->matrix[i].multiplies * llo_rows(op->code->matrix[i].format);
    double done = rows * k->core.size * k->core.size * op->iterations * k->core.cores;
    return op->flop > 0 ? done / (op->flop / 2) : NAN;
}

static bool is_byte(enum dtype t)
{
    return t == DT_S8 || t == DT_U8;
}

// Do products of this type run in this format, as they are?
static bool is_native(enum dtype type, const char *format)
{
    const char *name = dtype_name(type);
    if (strcmp(name, format) == 0 || (is_byte(type) && strcmp(format, "byte") == 0))
        return true;
    // Scales of 8-bit floats are all one size; the mnemonic has the variant without its suffix.
    return strncmp(name, "f8", 2) == 0 && strncmp(format, "f8", 2) == 0;
}

// The type of a product as our module asks for it.
static enum dtype asked(const struct compile_case *k, const struct compile_op *op)
{
    const struct module *m = k->module;
    for (int i = 0; m && i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        if ((in->op == OP_DOT || in->op == OP_CONVOLUTION) && strcmp(in->scope, op->scope) == 0)
            return m->instructions[in->operands[0]].shape.dtype;
    }
    return op->type;
}

// On a GPU a product is a kernel of Triton's or a call of a library, and the optimised program says of which type.
static int gpu_arithmetic(struct compile_case *k, struct compile_op *op, struct error *err)
{
    static const struct {
        const char *begins, *is;
    } kinds[] = {{"__triton", "a kernel of Triton's"},
                 {"__cublas$lt$matmul$f8", "cuBLASLt's call for 8-bit floats"},
                 {"__cublas$lt", "a call of cuBLASLt"},
                 {"__cublas$gemm", "a call of cuBLAS"},
                 {"__cudnn", "a call of cuDNN"}};
    const char *is = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !is; i++)
        is = strncmp(op->strategy, kinds[i].begins, strlen(kinds[i].begins)) == 0 ? kinds[i].is : NULL;
    op->asked = asked(k, op);
    op->emulated = dtype_bits(op->type) > dtype_bits(op->asked);
    const char *from = dtype_name(op->asked), *to = dtype_name(op->type);
    if (op->emulated)
        op->arithmetic =
            arena_printf(&k->arena, err, "%s widened to %s first%s%s", from, to, is ? ", in " : "", is ? is : "");
    else if (is)
        op->arithmetic = arena_printf(&k->arena, err, "%s in %s (%s)", to, is, op->strategy);
    else
        return 0;
    return op->arithmetic ? 0 : ERR_MEMORY;
}

int compile_case_arithmetic(struct compile_case *k, struct compile_op *op, struct error *err)
{
    op->asked = op->type;
    if (!k->target.chip->is_tpu)
        return gpu_arithmetic(k, op, err);
    const struct llo_matrix *m = op->code ? main_format(op->code) : NULL;
    if (!m || !k->has_core)
        return 0;
    op->passes = passes(k, op);
    const char *type = dtype_name(op->type), *format = m->format;
    int times = (int)lround(op->passes);
    bool narrow = strcmp(format, m->unit) != 0;
    if (op->type == DT_F32 && strcmp(format, "bf16") == 0)
        op->arithmetic = "f32 as one bf16 pass: operands are rounded to bf16";
    else if (op->type == DT_F32 && strcmp(format, "f32") == 0 && times <= 1)
        op->arithmetic = "f32 as one pass: operands are rounded as they enter the matrix unit";
    else if (op->type == DT_F32)
        op->arithmetic = arena_printf(&k->arena, err, "f32 as %d passes over its bf16 parts", times);
    else if (is_native(op->type, format) && narrow)
        op->arithmetic = arena_printf(&k->arena, err, "%s, widened to %s in the matrix unit: at the rate of %s", type,
                                      m->unit, m->unit);
    else if (is_native(op->type, format))
        op->arithmetic = arena_printf(&k->arena, err, "%s natively", type);
    else {
        // A register of 32-bit values holds half as many rows as one of bf16.
        bool slower = llo_rows(format) < 16;
        op->emulated = true;
        op->arithmetic = op->type == DT_BF16 ? "bf16 in 32-bit registers: at half the rate"
                                             : arena_printf(&k->arena, err, "%s emulated in %s%s", type,
                                                            strcmp(format, "f32") == 0 ? "32-bit registers" : format,
                                                            slower ? ": slower than bf16" : "");
    }
    return op->arithmetic ? 0 : ERR_MEMORY;
}

// ---- Floors

// The published rate of what a matrix unit multiplies, FLOP/s of a device; NAN where none is. Values of 32 bits are
// rounded to bf16 as they enter, so they pass at most as fast.
static double unit_rate(const struct chip *chip, const char *unit)
{
    enum chip_type t = CHIP_BF16;
    if (strncmp(unit, "f8", 2) == 0)
        t = CHIP_FP8;
    else if (strcmp(unit, "s8") == 0 || strcmp(unit, "u8") == 0 || strcmp(unit, "byte") == 0)
        t = CHIP_INT8;
    else if (strcmp(unit, "s4") == 0 || strcmp(unit, "u4") == 0)
        t = CHIP_INT4;
    return chip_rate(chip, t, CHIP_PER_DEVICE).value;
}

// What the matrix units need for the rows that the code sends through them. Instructions are queued before a unit and
// the processor waits when the queue is full, which no bundle shows: for v5e a register of 16 rows in bf16 is issued
// every 12 bundles, and its units take one row a cycle.
static double matrix_time(const struct compile_case *k, const struct compile_op *op)
{
    double s = 0;
    for (int i = 0; i < op->code->n_matrix; i++) {
        const struct llo_matrix *m = &op->code->matrix[i];
        double rows = (double)m->multiplies * llo_rows(m->format) * op->iterations * k->core.cores;
        double rate = unit_rate(k->target.chip, m->unit);
        s += rows > 0 && rate > 0 ? 2 * rows * k->core.size * k->core.size / rate : 0;
    }
    return s;
}

static void price_op(const struct compile_case *k, struct compile_op *op, double bytes_per_s)
{
    op->memory_s = op->kind == COMPILE_OP ? op->hbm_bytes / bytes_per_s : NAN;
    if (op->code && k->has_core) {
        op->compute_s = op->bundles * op->iterations / k->core.clock_hz;
        op->matrix_s = matrix_time(k, op);
    }
    if (op->kind == COMPILE_OP)
        op->floor_s = fmax(fmax(op->compute_s, op->matrix_s), fmax(op->memory_s, 0)); // fmax passes over NAN
}

static int by_floor(const void *a, const void *b)
{
    const struct compile_group *x = a, *y = b;
    if (x->floor_s != y->floor_s)
        return x->floor_s < y->floor_s ? 1 : -1;
    return strcmp(x->name, y->name);
}

static int add_groups(struct compile_case *k, struct error *err)
{
    k->groups = arena_new(&k->arena, struct compile_group, k->n_ops, err);
    if (!k->groups)
        return ERR_MEMORY;
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        if (op->kind == COMPILE_WAIT || op->kind == COMPILE_LOOP)
            continue;
        const char *name = op->group;
        size_t g = 0;
        while (g < k->n_groups && strcmp(k->groups[g].name, name) != 0)
            g++;
        struct compile_group *group = &k->groups[g];
        if (g == k->n_groups)
            k->groups[k->n_groups++] = (struct compile_group){.name = name, .type = DT_INVALID};
        if (op->flop * op->runs > group->flop && op->type != DT_INVALID)
            group->type = op->type;
        group->flop += op->flop * op->runs;
        group->hbm_bytes += op->hbm_bytes * op->runs;
        group->floor_s += op->floor_s * op->runs;
        group->ops++;
    }
    qsort(k->groups, k->n_groups, sizeof *k->groups, by_floor);
    return 0;
}

// What is known of how far chips stay from their floor. One chip has a published measurement that a floor can be set
// against: a product of 4096^3 in bf16 ran at 380.1 TFLOP/s on v6e, 361.6 us, and its floor is 154.6 us. The image
// model measured beside it stayed within a factor of 1.4 of that share.
static void choose_efficiency(const struct compile *c, struct compile_case *k)
{
    k->band = 1.4;
    if (c->options.efficiency > 0) {
        k->efficiency = c->options.efficiency;
        k->efficiency_source = "given by --efficiency; the band is a factor of 1.4 either way";
    } else if (strcmp(k->target.chip->name, "v6e") == 0) {
        k->efficiency = 154.6 / 361.6;
        k->efficiency_source = "v6e, bf16 4096^3: floor 154.6 us over 361.6 us measured; the band is a factor of 1.4 "
                               "either way, within which an image model stayed";
    } else {
        k->efficiency = NAN;
        k->efficiency_source = "nothing measured is known here for this chip: give --efficiency, the floor over a "
                               "measured time";
    }
}

// Share of peak at the floor: what each type's products would take at its rate, over the floor.
static double share_of_peak(const struct compile_case *k)
{
    double s = 0;
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        if (op->flop <= 0)
            continue;
        enum chip_type t = chip_type_from_name(dtype_name(op->type));
        double rate = t == CHIP_TYPES ? NAN : chip_rate(k->target.chip, t, CHIP_PER_DEVICE).value;
        if (isnan(rate)) // what runs in bf16 is set against bf16
            rate = chip_rate(k->target.chip, CHIP_BF16, CHIP_PER_DEVICE).value;
        s += op->flop * op->runs / rate;
    }
    return k->floor_s > 0 ? s / k->floor_s : NAN;
}

// A program that needs less than its products do at the published rate is not fast but wrongly counted: nothing is
// predicted from it. Rates are published in three digits, so half a percent is no contradiction.
static void check_peak(struct compile_case *k)
{
    k->above_peak = k->of_peak > 1.005;
    if (!k->above_peak)
        return;
    k->predicted_s = k->efficiency = NAN;
    k->efficiency_source =
        "the floor is below what the products take at the published rate, so bundles were missed, or "
        "the unit's rate is not the published one";
}

int compile_case_floors(const struct compile *c, struct compile_case *k, struct error *err)
{
    double bytes_per_s = chip_bandwidth(k->target.chip, CHIP_PER_DEVICE).value;
    bool coded = false, estimated = false;
    for (size_t i = 0; i < k->n_ops; i++) {
        struct compile_op *op = &k->ops[i];
        price_op(k, op, bytes_per_s);
        int rc = op->kind == COMPILE_COLLECTIVE ? compile_collective_price(k, op, err) : 0;
        if (rc)
            return rc;
        coded |= op->code != NULL;
        k->flop += op->flop * op->runs;
        k->hbm_bytes += op->hbm_bytes * op->runs;
        if (op->kind == COMPILE_PREFETCH)
            k->prefetch_bytes += op->hbm_bytes * op->runs;
        if (op->kind == COMPILE_OP)
            k->ops_floor_s += op->floor_s * op->runs;
        if (op->kind == COMPILE_COLLECTIVE)
            k->collectives_s += op->floor_s * op->runs;
        if (!isnan(op->estimated_cycles) && k->has_core) {
            k->estimated_s += op->estimated_cycles * op->runs / k->core.clock_hz;
            estimated = true;
        }
    }
    k->memory_floor_s = k->hbm_bytes / bytes_per_s;
    k->estimated_s = estimated ? k->estimated_s : NAN;
    choose_efficiency(c, k);
    if (!coded) // nothing is said of time without the final code
        k->floor_s = k->ops_floor_s = k->memory_floor_s = NAN;
    else
        k->floor_s = (k->ops_floor_s > k->memory_floor_s ? k->ops_floor_s : k->memory_floor_s) + k->collectives_s;
    // The efficiency was measured without collectives: they come on top, at their floor.
    k->predicted_s = (k->floor_s - k->collectives_s) / k->efficiency + k->collectives_s;
    k->of_peak = share_of_peak(k);
    check_peak(k);
    return add_groups(k, err);
}

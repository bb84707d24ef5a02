// SPDX-License-Identifier: Apache-2.0
// Slices: how many chips, in which shape, in how many machines, and which axes close into rings.
//
// Shapes are those of xpk's table of systems (src/xpk/core/system_characteristics.py): a 2D slice is one of those that
// the chip's row lists; a 3D slice is one of them or has multiples of 4 on all axes, the smallest extent first.
#include <string.h>

#include "chips/chips_data.h"
#include "chips/local.h"

enum { MOST_CHIPS = 1 << 20, MOST_SLICES = 1 << 10 };

static int shape_chips(const int *shape, int dims)
{
    int chips = 1;
    for (int i = 0; i < dims && i < 3; i++)
        chips *= shape[i];
    return chips;
}

static void add_shape(struct str *out, const int *shape, int dims)
{
    for (int i = 0; i < dims; i++)
        str_addf(out, "%s%d", i ? "x" : "", shape[i]);
}

static int bad_shape(const struct chip *chip, const char *text, bool right_extents, struct error *err)
{
    if (!chip->torus_dims)
        return error_set(err, ERR_USAGE, text, "the shape must be a number of chips, as in %s:8", chip->name);
    struct str list;
    str_init(&list);
    for (size_t i = 0; chip->slices && chip->slices[i]; i++)
        str_addf(&list, "%s%s", i ? ", " : "", chip->slices[i]);
    if (list.length && chip->torus_dims == 3)
        str_addf(&list, ", and larger ones of multiples of 4, smallest first");
    if (right_extents)
        error_set(err, ERR_USAGE, text, "there is no such slice of %s; there are %s", chip->name, str_text(&list));
    else
        error_set(err, ERR_USAGE, text, "a slice of %s has %d extents, as in %s:%s%s%s", chip->name, chip->torus_dims,
                  chip->name, chip->torus_dims == 2 ? "2x4" : "2x2x2", list.length ? "; there are " : "",
                  str_text(&list));
    str_release(&list);
    return ERR_USAGE;
}

// Whether a slice of this shape can be had. A chip whose shapes are not known has all of them.
static bool shape_exists(const struct chip *chip, const int *shape)
{
    if (!chip->slices || shape_chips(shape, chip->torus_dims) == 1)
        return true;
    struct str spelled;
    bool found = false;
    str_init(&spelled);
    add_shape(&spelled, shape, chip->torus_dims);
    for (size_t i = 0; !found && chip->slices[i]; i++)
        found = strcmp(chip->slices[i], str_text(&spelled)) == 0;
    str_release(&spelled);
    if (found || chip->torus_dims != 3)
        return found;
    bool cubes = shape[0] % 4 == 0 && shape[1] % 4 == 0 && shape[2] % 4 == 0;
    return cubes && shape[0] <= shape[1] && shape[1] <= shape[2];
}

// A number of digits only, at most `most`; 0 when it is none. *p stands behind the digits then.
static int number(const char **p, int most)
{
    int n = 0;
    for (; **p >= '0' && **p <= '9' && n <= most; (*p)++)
        n = 10 * n + (**p - '0');
    return n <= most && !(**p >= '0' && **p <= '9') ? n : 0;
}

static int parse_shape(const char *text, const char *p, struct chip_target *t, struct error *err)
{
    int extents = t->chip->torus_dims ? t->chip->torus_dims : 1;
    for (; *p && *p != '*';) {
        p++; // the ':' or the 'x'
        int extent = number(&p, MOST_CHIPS);
        if (extent < 1 || extent > MOST_CHIPS / t->chips || (*p && *p != 'x' && *p != '*') || t->dims == extents)
            return bad_shape(t->chip, text, false, err);
        t->shape[t->dims++] = extent;
        t->chips *= extent;
    }
    if (t->dims && t->dims != extents)
        return bad_shape(t->chip, text, false, err);
    if (!*p)
        return 0;
    p++; // the '*'
    t->slices = number(&p, MOST_SLICES);
    if (t->slices < 1 || *p || !t->dims || !t->chip->torus_dims)
        return error_set(err, ERR_USAGE, text, "after the '*' stands how many slices there are, 1 to %d, as in %s",
                         (int)MOST_SLICES, "v5e:16x16*2");
    return 0;
}

// The shape that a number of chips has when nobody asks for another: of those there are, the one nearest to a cube.
static bool usual_shape(const struct chip *chip, int chips, int *shape)
{
    int best = 0;
    if (!chip->slices && (chips & (chips - 1)))
        return false;
    for (int a = 1; a <= chips; a++) {
        if (chips % a)
            continue;
        for (int b = 1; b <= chips / a; b++) {
            if (chips / a % b || (chip->torus_dims == 2 && b * a != chips))
                continue;
            int c = chips / a / b;
            // 2x2x1 is the one shape that is not written with its smallest extent first.
            const int candidate[3] = {a, b, c};
            bool flat = a == 2 && b == 2 && c == 1;
            int longest = chip->torus_dims == 2 ? b : c;
            if ((!flat && (a > b || (chip->torus_dims == 3 && b > c))) || (best && longest > best) ||
                !shape_exists(chip, candidate))
                continue;
            best = longest;
            shape[0] = a;
            shape[1] = b;
            shape[2] = chip->torus_dims == 3 ? c : 0;
        }
    }
    return best;
}

// The number at the end of a cloud's name counts TensorCores.
static int parse_cloud_name(const char *text, struct chip_target *t, struct error *err)
{
    const char *p = strrchr(text, '-') + 1;
    int per_chip = t->chip->cores_per_chip, cores = number(&p, MOST_CHIPS);
    struct str list;
    if (cores >= 1 && !*p && cores % per_chip == 0 && usual_shape(t->chip, cores / per_chip, t->shape)) {
        t->chips = cores / per_chip;
        t->dims = t->chip->torus_dims;
        return 0;
    }
    str_init(&list);
    for (size_t i = 0; t->chip->slices && t->chip->slices[i]; i++) {
        int n = 1;
        for (const char *s = t->chip->slices[i]; *s; s += *s == 'x')
            n *= number(&s, MOST_CHIPS);
        str_addf(&list, "%s%s-%d", i ? ", " : "; there are ", t->chip->name, n * per_chip);
    }
    error_set(err, ERR_USAGE, text, "no slice of %s has this size; the number counts %s, %d in a chip%s", t->chip->name,
              per_chip == 1 ? "chips" : "TensorCores", per_chip, str_text(&list));
    str_release(&list);
    return ERR_USAGE;
}

// Machines of 4 chips, on v5e and v6e one of 1, 4 or 8 for slices that it holds whole; GPUs by the board of 8.
static int chips_per_host(const struct chip_target *t)
{
    int slice = t->chips / t->slices;
    if (t->chip == &chips_local_row || slice == 1)
        return 1;
    if (!t->chip->torus_dims)
        return t->chip->is_tpu || strcmp(t->chip->name, "l4") == 0 ? 0 : slice < 8 ? slice : 8;
    if (t->chip->wrap == CHIP_WRAP_FULL_16 && slice == 8)
        return 8;
    return slice < 4 ? slice : 4;
}

int chip_target_parse(const char *text, struct chip_target *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    int rc = chip_find(text, &out->chip, err);
    if (rc)
        return rc;
    const struct chip *chip = out->chip;
    out->chips = out->slices = 1;
    const char *colon = strchr(text, ':');
    // What is not the chip's own name is a cloud's: with a number at its end.
    bool counted = !chip_is_called(chip, text, strcspn(text, ":"));
    if (counted && colon)
        return error_set(err, ERR_USAGE, text, "is a name with a number and a shape; write %s:%s", chip->name,
                         colon + 1);
    if (colon)
        rc = parse_shape(text, colon, out, err);
    else if (counted)
        rc = parse_cloud_name(text, out, err);
    if (rc)
        return rc;
    if (chip->pod_chips && out->chips > chip->pod_chips)
        return error_set(err, ERR_USAGE, text, "is %d chips; the largest slice of %s has %d", out->chips, chip->name,
                         chip->pod_chips);
    if (chip == &chips_local_row && out->chips > 1)
        return error_set(err, ERR_USAGE, text, "`local` is this machine, one chip");
    if (out->dims && chip->torus_dims && !shape_exists(chip, out->shape))
        return bad_shape(chip, text, true, err);
    if (out->chips > MOST_CHIPS / out->slices)
        return error_set(err, ERR_USAGE, text, "is more than %d chips", (int)MOST_CHIPS);
    out->chips *= out->slices;
    out->devices = out->chips * chip->devices_per_chip;
    out->chips_per_host = chips_per_host(out);
    out->hosts = out->chips_per_host
                     ? out->slices * ((out->chips / out->slices + out->chips_per_host - 1) / out->chips_per_host)
                     : 0;
    return 0;
}

void chip_target_spell(const struct chip_target *target, struct str *out)
{
    str_addf(out, "%s%s", target->chip->name, target->dims ? ":" : "");
    add_shape(out, target->shape, target->dims);
    if (target->slices > 1)
        str_addf(out, "*%d", target->slices);
}

bool chip_target_wraps(const struct chip_target *target, int axis)
{
    if (axis < 0 || axis >= target->dims)
        return false;
    switch (target->chip->wrap) {
    case CHIP_WRAP_FULL_16:
        return target->shape[axis] == 16;
    case CHIP_WRAP_CUBES:
        for (int i = 0; i < target->dims; i++) {
            if (target->shape[i] % 4)
                return false;
        }
        return true;
    case CHIP_WRAP_NONE:
        break;
    }
    return false;
}

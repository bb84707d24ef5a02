// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"
#include "pjrt/api.h"

bool array_type_count(const struct array_type *t, size_t *out)
{
    return t->rank >= 0 && t->rank <= ARRAY_MAX_RANK && size_product(t->dims, t->rank, out);
}

bool array_type_bytes(const struct array_type *t, size_t *out)
{
    size_t n, element_bytes = ((size_t)dtype_bits(t->dtype) + 7) / 8;
    return element_bytes > 0 && array_type_count(t, &n) && size_mul(n, element_bytes, out);
}

bool array_type_equal(const struct array_type *a, const struct array_type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

void array_type_print(struct str *s, const struct array_type *t)
{
    str_addf(s, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        str_addf(s, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    str_add_char(s, ']');
}

const struct attribute *attributes_find(const struct attributes *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i].name, name) == 0)
            return &a->items[i];
    return NULL;
}

void attribute_print(struct str *s, const struct attribute *a)
{
    switch (a->type) {
    case ATTRIBUTE_STRING:
        str_add(s, a->string);
        break;
    case ATTRIBUTE_INT:
        str_addf(s, "%lld", (long long)a->integer);
        break;
    case ATTRIBUTE_INT_LIST:
        str_add_char(s, '[');
        for (size_t i = 0; i < a->list_count; i++)
            str_addf(s, i ? ",%lld" : "%lld", (long long)a->list[i]);
        str_add_char(s, ']');
        break;
    case ATTRIBUTE_FLOAT:
        str_addf(s, "%.9g", (double)a->number);
        break;
    case ATTRIBUTE_BOOL:
        str_add(s, a->boolean ? "true" : "false");
        break;
    }
}

static int attribute_copy(struct arena *a, struct attribute *out, const PJRT_NamedValue *v, struct error *err)
{
    out->name = arena_strndup(a, v->name, v->name_size, err);
    if (!out->name)
        return ERR_MEMORY;
    switch (v->type) {
    case PJRT_NamedValue_kString:
        out->type = ATTRIBUTE_STRING;
        out->string = arena_strndup(a, v->string_value, v->value_size, err);
        return out->string ? 0 : ERR_MEMORY;
    case PJRT_NamedValue_kInt64List: {
        out->type = ATTRIBUTE_INT_LIST;
        int64_t *list = arena_new(a, int64_t, v->value_size, err);
        if (!list)
            return ERR_MEMORY;
        for (size_t i = 0; i < v->value_size; i++)
            list[i] = v->int64_array_value[i];
        out->list = list;
        out->list_count = v->value_size;
        return 0;
    }
    case PJRT_NamedValue_kInt64:
        out->type = ATTRIBUTE_INT;
        out->integer = v->int64_value;
        return 0;
    case PJRT_NamedValue_kFloat:
        out->type = ATTRIBUTE_FLOAT;
        out->number = v->float_value;
        return 0;
    case PJRT_NamedValue_kBool:
        out->type = ATTRIBUTE_BOOL;
        out->boolean = v->bool_value;
        return 0;
    }
    return error_set(err, ERR_DEVICE, out->name, "the plugin gives a value of type %d, which is not known here",
                     (int)v->type);
}

int attributes_copy(struct arena *a, struct attributes *out, const PJRT_NamedValue *values, size_t count,
                    struct error *err)
{
    struct attribute *items = arena_new(a, struct attribute, count, err);
    if (!items)
        return ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        int rc = attribute_copy(a, &items[i], &values[i], err);
        if (rc)
            return rc;
    }
    out->items = items;
    out->count = count;
    return 0;
}

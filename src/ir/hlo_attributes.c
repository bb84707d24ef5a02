// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_attributes.h"

#include <string.h>

#include "base/json.h"

struct decoding {
    struct arena *arena;
    struct error *err;
    int rc;
};

#define PUSH(d, array, n, cap)                                                                                         \
    (((array) = arena_grow((d)->arena, (array), &(cap), (n) + 1, sizeof *(array), (d)->err)) ? &(array)[(n)++] : NULL)

static void *memory(struct decoding *d, void *p)
{
    if (!p)
        d->rc = ERR_MEMORY;
    return p;
}

static void add(struct decoding *d, struct hlo_numbers *to, int64_t v)
{
    int64_t *more = memory(d, arena_grow(d->arena, to->at, &to->cap, to->n + 1, sizeof *more, d->err));
    if (!more)
        return;
    to->at = more;
    to->at[to->n++] = v;
}

// A repeated integer field, packed or not.
static void add_field(struct decoding *d, struct hlo_numbers *to, const struct pb_field *f)
{
    if (f->wire == PB_VARINT) {
        add(d, to, (int64_t)f->value);
    } else if (f->wire == PB_BYTES) {
        const uint8_t *at = f->body.data, *end = at + f->body.size;
        uint64_t v;
        while (!d->rc && at < end && (at = pb_get_varint(at, end, &v)))
            add(d, to, (int64_t)v);
    }
}

// The integer fields 1 to n of a message into out[0..n), and what repeats into lists[]; either may be NULL there.
static void fields(struct decoding *d, struct slice body, size_t n, int64_t *const *numbers,
                   struct hlo_numbers *const *lists)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    while (!d->rc && pb_next(&p, &f)) {
        if (f.number > n)
            continue;
        if (numbers && numbers[f.number - 1] && f.wire == PB_VARINT)
            *numbers[f.number - 1] = (int64_t)f.value;
        if (lists && lists[f.number - 1])
            add_field(d, lists[f.number - 1], &f);
    }
}

static void read_dot(struct decoding *d, struct hlo_dot *dot, struct slice body)
{
    struct hlo_numbers *lists[] = {&dot->lhs_contracting, &dot->rhs_contracting, &dot->lhs_batch, &dot->rhs_batch};
    fields(d, body, 4, NULL, lists);
}

static void read_ragged_dot(struct decoding *d, struct hlo_dot *dot, struct slice body)
{
    struct hlo_numbers *lists[] = {NULL, &dot->lhs_ragged, &dot->rhs_group};
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    fields(d, body, 3, NULL, lists);
    while (!d->rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            read_dot(d, dot, f.body);
    }
}

static void read_convolution(struct decoding *d, struct hlo_convolution *c, struct slice body)
{
    int64_t *numbers[12] = {[2] = &c->kernel_input_feature, [3] = &c->kernel_output_feature, [6] = &c->input_batch,
                            [7] = &c->input_feature,        [8] = &c->output_batch,          [9] = &c->output_feature};
    struct hlo_numbers *lists[12] = {[5] = &c->kernel_spatial, [10] = &c->input_spatial, [11] = &c->output_spatial};
    fields(d, body, 12, numbers, lists);
}

static void read_gather(struct decoding *d, struct hlo_gather *g, struct slice body)
{
    int64_t *numbers[6] = {[3] = &g->index_vector};
    struct hlo_numbers *lists[6] = {&g->offset, &g->collapsed,        &g->start_map,
                                    NULL,       &g->operand_batching, &g->indices_batching};
    fields(d, body, 6, numbers, lists);
}

static void read_window(struct decoding *d, struct hlo_attributes *a, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t cap = 0;
    a->n_window = 0;
    while (!d->rc && pb_next(&p, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        struct hlo_window *w = memory(d, PUSH(d, a->window, a->n_window, cap));
        if (!w)
            return;
        int64_t reversed = 0;
        *w = (struct hlo_window){.window_dilation = 1, .base_dilation = 1};
        int64_t *numbers[] = {&w->size,          &w->stride, &w->pad_low, &w->pad_high, &w->window_dilation,
                              &w->base_dilation, &reversed};
        fields(d, f.body, 7, numbers, NULL);
        w->reversed = reversed != 0;
    }
}

static void read_padding(struct decoding *d, struct hlo_attributes *a, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t cap = 0;
    a->n_padding = 0;
    while (!d->rc && pb_next(&p, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        struct hlo_padding *x = memory(d, PUSH(d, a->padding, a->n_padding, cap));
        if (!x)
            return;
        *x = (struct hlo_padding){0};
        int64_t *numbers[] = {&x->low, &x->high, &x->interior};
        fields(d, f.body, 3, numbers, NULL);
    }
}

static void read_precision(struct decoding *d, struct hlo_attributes *a, struct slice body)
{
    int64_t *numbers[] = {NULL, &a->algorithm};
    struct hlo_numbers *lists[] = {&a->precision, NULL};
    fields(d, body, 2, numbers, lists);
}

static void read_frontend(struct decoding *d, struct hlo_attributes *a, struct slice body)
{
    struct pb_field f, e;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t cap = 0;
    a->n_frontend = 0;
    while (!d->rc && pb_next(&p, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        struct hlo_text_pair *x = memory(d, PUSH(d, a->frontend, a->n_frontend, cap));
        if (!x)
            return;
        *x = (struct hlo_text_pair){0};
        struct pb_reader entry = pb_reader(f.body.data, f.body.size);
        while (pb_next(&entry, &e)) {
            if (e.wire == PB_BYTES && e.number <= 2)
                *(e.number == 1 ? &x->key : &x->value) = e.body;
        }
    }
}

// ---- Replica groups

// repeated ReplicaGroup in field `number`.
static void add_group(struct decoding *d, struct hlo_groups *g, size_t *cap, struct slice body)
{
    struct hlo_numbers *lists[1] = {memory(d, PUSH(d, g->lists, g->n_lists, *cap))};
    if (!lists[0])
        return;
    *lists[0] = (struct hlo_numbers){0};
    fields(d, body, 1, NULL, lists);
    g->form = HLO_GROUPS_LIST;
    g->count = (int64_t)g->n_lists;
    g->size = (int64_t)g->lists[0].n;
}

static void read_iota_groups(struct decoding *d, struct hlo_groups *g, struct slice body)
{
    int64_t *numbers[4] = {&g->count, &g->size};
    struct hlo_numbers *lists[4] = {NULL, NULL, &g->reshape, &g->permutation};
    g->form = HLO_GROUPS_IOTA;
    fields(d, body, 4, numbers, lists);
}

static void read_device_list(struct decoding *d, struct hlo_groups *g, size_t *cap, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    while (!d->rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            add_group(d, g, cap, f.body);
        else if (pb_is(&f, 2, PB_BYTES))
            read_iota_groups(d, g, f.body);
    }
}

static void read_mesh(struct decoding *d, struct hlo_groups *g, struct slice body)
{
    struct pb_field f, e;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t cap = 0;
    while (!d->rc && pb_next(&p, &f)) {
        if (f.number == 2)
            add_field(d, &g->devices, &f);
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        struct hlo_axis *axis = memory(d, PUSH(d, g->axes, g->n_axes, cap));
        if (!axis)
            return;
        *axis = (struct hlo_axis){0};
        struct pb_reader r = pb_reader(f.body.data, f.body.size);
        while (pb_next(&r, &e)) {
            if (pb_is(&e, 1, PB_BYTES))
                axis->name = e.body;
            else if (pb_is(&e, 2, PB_VARINT))
                axis->size = (int64_t)e.value;
        }
    }
}

static void read_part(struct decoding *d, struct hlo_axis_part *part, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    int64_t *numbers[] = {&part->pre_size, &part->size};
    while (!d->rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            part->axis = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_BYTES))
            fields(d, f.body, 2, numbers, NULL);
    }
}

static int64_t multiply(int64_t a, int64_t b)
{
    int64_t r;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? 0 : r;
}

static void read_mesh_groups(struct decoding *d, struct hlo_groups *g, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t cap = 0;
    g->form = HLO_GROUPS_MESH;
    while (!d->rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES)) {
            read_mesh(d, g, f.body);
        } else if (pb_is(&f, 2, PB_BYTES)) {
            struct hlo_axis_part *part = memory(d, PUSH(d, g->parts, g->n_parts, cap));
            if (!part)
                return;
            *part = (struct hlo_axis_part){0};
            read_part(d, part, f.body);
        }
    }
    int64_t all = 1;
    g->size = 1;
    for (size_t i = 0; i < g->n_axes; i++)
        all = multiply(all, g->axes[i].size);
    for (size_t i = 0; i < g->n_parts; i++) {
        const struct hlo_axis_part *part = &g->parts[i];
        bool known = part->axis >= 0 && (uint64_t)part->axis < g->n_axes;
        g->size = multiply(g->size, part->size ? part->size : known ? g->axes[part->axis].size : 0);
    }
    g->count = g->size > 0 ? all / g->size : 0;
}

static int list_iota(const struct hlo_groups *g, struct hlo_numbers *all, struct decoding *d)
{
    size_t rank = g->reshape.n;
    int64_t total = multiply(g->count, g->size), product = 1;
    int64_t stride[16], extent[16], at[16] = {0};
    if (total < 1 || total > 1 << 16 || rank < 1 || rank > 16)
        return ERR_INPUT;
    for (size_t i = 0; i < rank; i++)
        product = multiply(product, g->reshape.at[i]);
    if (product != total || (g->permutation.n && g->permutation.n != rank))
        return ERR_INPUT;
    for (size_t i = 0; i < rank; i++) {
        int64_t from = g->permutation.n ? g->permutation.at[i] : (int64_t)i;
        if (from < 0 || (uint64_t)from >= rank)
            return ERR_INPUT;
        extent[i] = g->reshape.at[from];
        stride[i] = 1;
        for (size_t k = (size_t)from + 1; k < rank; k++)
            stride[i] *= g->reshape.at[k];
    }
    for (int64_t n = 0; n < total && !d->rc; n++) {
        int64_t v = 0;
        for (size_t i = 0; i < rank; i++)
            v += at[i] * stride[i];
        add(d, all, v);
        for (size_t i = rank; i-- > 0 && ++at[i] == extent[i];)
            at[i] = 0;
    }
    return d->rc;
}

// Axes, or parts of axes, as strides over the devices in mesh order: what one step along a part adds.
struct steps {
    int64_t extent[16], stride[16];
    size_t n;
    size_t part[16]; // of the groups' parts which one it is, n_parts: none
};

static int mesh_steps(const struct hlo_groups *g, struct steps *s)
{
    int64_t stride = 1;
    for (size_t i = g->n_axes; i-- > 0;)
        stride = multiply(stride, g->axes[i].size);
    int64_t total = stride;
    if (total < 1 || total > 1 << 16 || (g->devices.n && g->devices.n != (size_t)total) || g->n_axes > 16)
        return ERR_INPUT;
    for (size_t i = 0; i < g->n_axes; i++) {
        stride /= g->axes[i].size;
        int64_t left = g->axes[i].size, pre = 1;
        // The parts of this axis that group, from the outside in; between and behind them is what does not.
        while (left > 1) {
            const struct hlo_axis_part *next = NULL;
            int64_t from = left * pre;
            for (size_t k = 0; k < g->n_parts; k++) {
                const struct hlo_axis_part *p = &g->parts[k];
                int64_t begin = p->size ? p->pre_size : 1;
                if (p->axis == (int64_t)i && begin >= pre && begin < from) {
                    next = p;
                    from = begin;
                }
            }
            bool here = next && from == pre;
            int64_t extent = here ? (next->size ? next->size : g->axes[i].size) : next ? from / pre : left;
            if (extent < 1 || left % extent || s->n == 16)
                return ERR_INPUT;
            left /= extent;
            pre *= extent;
            s->extent[s->n] = extent;
            s->stride[s->n] = stride * left;
            s->part[s->n++] = here ? (size_t)(next - g->parts) : g->n_parts;
            if (extent == 1)
                return ERR_INPUT;
        }
    }
    return 0;
}

static int list_mesh(const struct hlo_groups *g, struct hlo_numbers *all, struct decoding *d)
{
    struct steps s = {.n = 0};
    int rc = mesh_steps(g, &s);
    int64_t total = multiply(g->count, g->size);
    size_t order[16], n = 0;
    int64_t at[16] = {0};
    for (size_t i = 0; i < s.n; i++) { // what does not group is outside
        if (s.part[i] == g->n_parts)
            order[n++] = i;
    }
    for (size_t k = 0; k < g->n_parts && n < s.n; k++) {
        for (size_t i = 0; i < s.n; i++) {
            if (s.part[i] == k)
                order[n++] = i;
        }
    }
    int64_t product = 1;
    for (size_t i = 0; i < s.n; i++)
        product = multiply(product, s.extent[i]);
    if (rc || product != total || total > 1 << 16)
        return ERR_INPUT;
    for (int64_t k = 0; k < total && !d->rc; k++) {
        int64_t v = 0;
        for (size_t i = 0; i < n; i++)
            v += at[i] * s.stride[order[i]];
        add(d, all, g->devices.n ? g->devices.at[v] : v);
        for (size_t i = n; i-- > 0 && ++at[i] == s.extent[order[i]];)
            at[i] = 0;
    }
    return d->rc;
}

int hlo_groups_list(const struct hlo_groups *g, struct arena *arena, struct hlo_numbers **lists, size_t *n,
                    struct error *err)
{
    struct decoding d = {.arena = arena, .err = err};
    struct hlo_numbers all = {0};
    *lists = g->lists;
    *n = g->n_lists;
    if (g->form == HLO_GROUPS_NONE || g->form == HLO_GROUPS_LIST)
        return 0;
    int rc = g->form == HLO_GROUPS_IOTA ? list_iota(g, &all, &d) : list_mesh(g, &all, &d);
    if (rc == ERR_INPUT)
        return error_set(err, rc, NULL, "replica groups whose sizes do not fit, or of more than 65536 devices");
    if (rc)
        return rc;
    *n = (size_t)g->count;
    *lists = arena_new(arena, struct hlo_numbers, *n, err);
    for (size_t i = 0; *lists && i < *n; i++)
        (*lists)[i] = (struct hlo_numbers){all.at + i * (size_t)g->size, (size_t)g->size, 0};
    return *lists ? 0 : ERR_MEMORY;
}

// ---- All of an instruction

// backend_config_payload{1 value | 2 id into the module's payloads}.
static struct slice payload(const struct hlo_module *m, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    struct slice s = {0};
    while (pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            s = f.body;
        else if (pb_is(&f, 2, PB_VARINT) && f.value < m->n_payloads)
            s = m->payloads[f.value];
    }
    return s;
}

static void text_field(struct hlo_attributes *a, const struct pb_field *f)
{
    const struct {
        uint32_t number;
        struct slice *text;
    } texts[] = {{8, &a->literal},
                 {11, &a->fusion_kind},
                 {22, &a->outfeed_config},
                 {27, &a->infeed_config},
                 {28, &a->custom_call_target},
                 {40, &a->sharding},
                 {43, &a->backend_config},
                 {59, &a->triangular},
                 {62, &a->cholesky},
                 {63, &a->comparison_direction},
                 {72, &a->comparison_type},
                 {79, &a->async_thread}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].number == f->number)
            *texts[i].text = f->body;
    }
}

static void number_field(struct hlo_attributes *a, const struct pb_field *f)
{
    const struct {
        uint32_t number;
        int64_t *value;
    } numbers[] = {{18, &a->exponent_bits},  {19, &a->mantissa_bits},
                   {23, &a->distribution},   {25, &a->feature_index},
                   {26, &a->channel},        {31, &a->fft_type},
                   {50, &a->feature_groups}, {58, &a->batch_groups},
                   {66, &a->delta},          {70, &a->rng_algorithm},
                   {76, &a->schedule},       {77, &a->api_version},
                   {80, &a->prefetch},       {81, &a->k}};
    const struct {
        uint32_t number;
        bool *value;
    } flags[] = {{47, &a->is_host_transfer},
                 {56, &a->constrain_layout},
                 {60, &a->is_stable},
                 {65, &a->has_side_effect},
                 {67, &a->indices_are_sorted},
                 {69, &a->unique_indices},
                 {71, &a->use_global_device_ids},
                 {85, &a->largest},
                 {89, &a->is_composite}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].number == f->number)
            *numbers[i].value = (int64_t)f->value;
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (flags[i].number == f->number)
            *flags[i].value = f->value != 0;
    }
    a->has_prefetch |= f->number == 80;
}

struct caps {
    size_t slices, source_target, groups, layouts, aliases;
};

static void add_slice(struct decoding *d, struct slice **to, size_t *n, size_t *cap, struct slice body)
{
    struct slice *s = memory(d, PUSH(d, *to, *n, *cap));
    if (s)
        *s = body;
}

static void message_field(struct decoding *d, struct hlo_attributes *a, struct caps *caps, const struct pb_field *f)
{
    struct slice body = f->body;
    switch (f->number) {
    case 15:
        read_window(d, a, body);
        break;
    case 16:
        a->has_convolution = true;
        read_convolution(d, &a->convolution, body);
        break;
    case 17: {
        struct hlo_range *x = memory(d, PUSH(d, a->slices, a->n_slices, caps->slices));
        if (!x)
            return;
        *x = (struct hlo_range){0};
        int64_t *numbers[] = {&x->start, &x->limit, &x->stride};
        fields(d, body, 3, numbers, NULL);
        break;
    }
    case 21:
        read_padding(d, a, body);
        break;
    case 30:
    case 90:
        a->has_dot = true;
        (f->number == 30 ? read_dot : read_ragged_dot)(d, &a->dot, body);
        break;
    case 33:
        a->has_gather = true;
        read_gather(d, &a->gather, body);
        break;
    case 48:
        a->has_scatter = true;
        read_gather(d, &a->scatter, body);
        break;
    case 49:
        add_group(d, &a->groups, &caps->groups, body);
        break;
    case 51:
        read_precision(d, a, body);
        break;
    case 52: {
        struct hlo_pair *x = memory(d, PUSH(d, a->source_target, a->n_source_target, caps->source_target));
        if (!x)
            return;
        *x = (struct hlo_pair){0};
        int64_t *numbers[] = {&x->source, &x->target};
        fields(d, body, 2, numbers, NULL);
        break;
    }
    case 57:
        add_slice(d, &a->layouts, &a->n_layouts, &caps->layouts, body);
        break;
    case 68:
        read_frontend(d, a, body);
        break;
    case 74:
        add_slice(d, &a->aliases, &a->n_aliases, &caps->aliases, body);
        break;
    case 87:
        read_device_list(d, &a->groups, &caps->groups, body);
        break;
    case 92:
        read_iota_groups(d, &a->groups, body);
        break;
    case 93:
        read_mesh_groups(d, &a->groups, body);
        break;
    default:
        text_field(a, f);
        break;
    }
}

int hlo_attributes_read(struct hlo_attributes *a, const struct hlo_module *m, const struct hlo_instruction *in,
                        struct arena *arena, struct error *err)
{
    struct decoding d = {.arena = arena, .err = err};
    struct caps caps = {0};
    struct pb_field f;
    struct pb_reader p = pb_reader(in->message.data, in->message.size);
    *a = (struct hlo_attributes){.feature_groups = 1, .batch_groups = 1};
    while (!d.rc && pb_next(&p, &f)) {
        if (f.number == 14)
            add_field(&d, &a->dimensions, &f);
        else if (f.number == 20)
            add_field(&d, &a->dynamic_slice_sizes, &f);
        else if (f.number == 32)
            add_field(&d, &a->fft_length, &f);
        else if (f.number == 34)
            add_field(&d, &a->gather_slice_sizes, &f);
        else if (f.number == 37)
            add_field(&d, &a->control, &f);
        else if (pb_is(&f, 99, PB_BYTES))
            a->backend_config = payload(m, f.body);
        else if (f.wire == PB_BYTES)
            message_field(&d, a, &caps, &f);
        else if (f.wire == PB_VARINT)
            number_field(a, &f);
        else if (pb_is(&f, 24, PB_FIXED32))
            memcpy(&a->epsilon, &f.value, sizeof a->epsilon);
    }
    // Zero is what proto3 leaves out, and means one here.
    a->feature_groups = a->feature_groups > 0 ? a->feature_groups : 1;
    a->batch_groups = a->batch_groups > 0 ? a->batch_groups : 1;
    return d.rc;
}

// ---- Single facts

// The first number of a packed or single field; little-endian bytes where the type is stored so.
static bool literal_value(const struct pb_field *f, int bytes, bool is_signed, int64_t *out)
{
    uint64_t v = 0;
    if (bytes) {
        if (f->wire != PB_BYTES || f->body.size != (size_t)bytes)
            return false;
        memcpy(&v, f->body.data, (size_t)bytes);
        unsigned shift = 64 - 8 * (unsigned)bytes;
        *out = is_signed ? (int64_t)(v << shift) >> shift : (int64_t)v;
        return true;
    }
    if (f->wire == PB_VARINT)
        v = f->value;
    else if (f->wire != PB_BYTES || !pb_get_varint(f->body.data, f->body.data + f->body.size, &v))
        return false;
    *out = (int64_t)v;
    return true;
}

bool hlo_literal_integer(const struct hlo_instruction *in, int64_t *out)
{
    // Fields of LiteralProto.
    static const struct {
        enum dtype type;
        uint32_t number;
        int bytes;
        bool is_signed;
    } places[] = {{DT_PRED, 2, 0, false}, {DT_U8, 3, 1, false},   {DT_S32, 4, 0, true},
                  {DT_S64, 5, 0, true},   {DT_U32, 6, 0, false},  {DT_U64, 7, 0, false},
                  {DT_S8, 15, 1, true},   {DT_U16, 16, 2, false}, {DT_S16, 17, 2, true}};
    if (in->shape.kind != HLO_ARRAY || in->shape.rank || !hlo_is(in, "constant"))
        return false;
    struct pb_field f, v;
    struct pb_reader p = pb_reader(in->message.data, in->message.size);
    bool found = false;
    while (pb_next(&p, &f)) {
        if (!pb_is(&f, 8, PB_BYTES))
            continue;
        struct pb_reader literal = pb_reader(f.body.data, f.body.size);
        while (pb_next(&literal, &v)) {
            for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
                if (places[i].type == in->shape.dtype && places[i].number == v.number)
                    found = literal_value(&v, places[i].bytes, places[i].is_signed, out);
            }
        }
    }
    return found;
}

void hlo_source(const struct hlo_module *m, const struct hlo_instruction *in, struct slice *file, int64_t *line)
{
    const struct hlo_metadata *d = &in->metadata;
    *file = d->source_file;
    *line = d->source_line;
    if (!file->size && d->frame >= 1 && (uint64_t)d->frame <= m->n_frames) {
        *file = m->frames[d->frame - 1].file;
        *line = m->frames[d->frame - 1].line;
    }
}

static json_t *member(json_t *o, const char *key, int depth)
{
    json_t *v = json_object_get(o, key);
    void *at = v || depth == 4 ? NULL : json_object_iter(o);
    for (; at && !v; at = json_object_iter_next(o, at))
        v = member(json_object_iter_value(at), key, depth + 1);
    return v;
}

bool hlo_known_trip_count(struct slice config, int64_t *out)
{
    if (!config.size || config.data[0] != '{')
        return false;
    json_t *o = json_parse((const char *)config.data, config.size, "backend_config", NULL);
    const json_t *n = json_object_get(member(o, "known_trip_count", 0), "n");
    bool known = true;
    if (json_is_integer(n)) // protos as JSON have 64-bit integers as texts
        *out = json_integer_value(n);
    else
        known = json_is_string(n) && parse_i64(json_string_value(n), out);
    json_decref(o);
    return known && *out >= 0;
}

// SPDX-License-Identifier: Apache-2.0
// Attributes of instructions, and where they stand in HloInstructionProto (openxla/xla, xla/service/hlo.proto).
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_literal.h"
#include "ir/hlo_parse_part.h"

// ---- Values of one field

// Zero says something, too.
static bool parse_given(struct hlo_parser *p, uint32_t field)
{
    int64_t v;
    if (!hlo_parse_integer(p, &v))
        return false;
    pb_put_int(p->out, field, v);
    return true;
}

static bool read_flag(struct hlo_parser *p, bool *out)
{
    struct slice word = hlo_word(p);
    *out = slice_is(word, "true") || slice_is(word, "1");
    return *out || slice_is(word, "false") || slice_is(word, "0") || hlo_fail(p, "expected true or false");
}

static bool parse_flag(struct hlo_parser *p, uint32_t field)
{
    bool v;
    if (!read_flag(p, &v))
        return false;
    hlo_put_number(p, field, v);
    return true;
}

static bool parse_list(struct hlo_parser *p, uint32_t field)
{
    return hlo_parse_list(p, field, '{', '}');
}

// One number where the message has a list: iota_dimension.
static bool parse_single(struct hlo_parser *p, uint32_t field)
{
    int64_t v;
    if (!hlo_parse_integer(p, &v))
        return false;
    size_t begin = pb_begin(p->out, field);
    pb_put_varint(p->out, (uint64_t)v);
    pb_end(p->out, begin);
    return true;
}

static bool parse_word(struct hlo_parser *p, uint32_t field)
{
    struct slice word = hlo_word(p);
    pb_put_bytes(p->out, field, word.data, word.size);
    return word.size || hlo_fail(p, "expected a word");
}

static bool parse_text(struct hlo_parser *p, uint32_t field)
{
    struct slice text;
    if (!hlo_parse_quoted(p, &text))
        return false;
    hlo_put_text(p, field, text);
    return true;
}

static bool parse_float(struct hlo_parser *p, uint32_t field)
{
    char text[40] = "";
    char *stop;
    struct slice value;
    if (!hlo_skip_value(p, &value) || value.size >= sizeof text)
        return hlo_fail(p, "expected a number");
    memcpy(text, value.data, value.size);
    float v = strtof(text, &stop);
    pb_put_float(p->out, field, v);
    return !*stop || hlo_fail(p, "expected a number");
}

static bool parse_enum(struct hlo_parser *p, uint32_t field, const char *const *names, size_t n)
{
    struct slice word = hlo_word(p);
    int at = hlo_one_of(word, names, n);
    if (at < 0)
        return hlo_fail(p, "'%.*s' is not known here", (int)(word.size < 40 ? word.size : 40), (const char *)word.data);
    hlo_put_number(p, field, at);
    return true;
}
#define ENUM(name, ...)                                                                                                \
    static bool name(struct hlo_parser *p, uint32_t field)                                                             \
    {                                                                                                                  \
        static const char *const names[] = {__VA_ARGS__};                                                              \
        return parse_enum(p, field, names, sizeof names / sizeof *names);                                              \
    }
ENUM(parse_distribution, "rng_invalid", "rng_uniform", "rng_normal")
ENUM(parse_fft_type, "FFT", "IFFT", "RFFT", "IRFFT")
ENUM(parse_schedule, "SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
ENUM(parse_version, "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
     "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI")

static bool parse_api_version(struct hlo_parser *p, uint32_t field)
{
    p->pending.has_version = true;
    return parse_version(p, field);
}

static bool parse_shapes(struct hlo_parser *p, uint32_t field)
{
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    do {
        if (!hlo_parse_shape(p, field))
            return false;
    } while (hlo_take(p, ','));
    return hlo_expect(p, '}');
}

static bool parse_constraints(struct hlo_parser *p, uint32_t field)
{
    pb_put_bool(p->out, 56, true);
    return parse_shapes(p, field);
}

static bool parse_parameter_replication(struct hlo_parser *p, uint32_t field)
{
    bool v;
    if (!hlo_expect(p, '{'))
        return false;
    size_t message = pb_begin(p->out, field), list = pb_begin(p->out, 1);
    while (hlo_peek(p) != '}') {
        if (!read_flag(p, &v))
            return false;
        pb_put_varint(p->out, v);
        hlo_take(p, ',');
    }
    pb_end(p->out, list);
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

static bool parse_control(struct hlo_parser *p, uint32_t field)
{
    struct slice name;
    uint32_t id;
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    size_t list = pb_begin(p->out, field);
    do {
        if (!hlo_parse_name(p, &name))
            return false;
        if (!hlo_instruction_id(p, name, &id))
            return hlo_fail(p, "'%.*s' is not there, or comes later", (int)(name.size < 80 ? name.size : 80),
                            (const char *)name.data);
        pb_put_varint(p->out, id);
    } while (hlo_take(p, ','));
    pb_end(p->out, list);
    return hlo_expect(p, '}');
}

// JSON as it stands, or a text in quotes.
static bool parse_config(struct hlo_parser *p, uint32_t field)
{
    struct slice text;
    if (hlo_peek(p) != '{')
        return parse_text(p, field);
    if (!hlo_skip_value(p, &text))
        return false;
    pb_put_bytes(p->out, field, text.data, text.size);
    return true;
}

bool hlo_parse_frontend(struct hlo_parser *p, uint32_t field)
{
    size_t map = pb_begin(p->out, field);
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        size_t entry = pb_begin(p->out, 1);
        struct slice key;
        if (hlo_peek(p) == '"') {
            if (!parse_text(p, 1))
                return false;
        } else {
            const uint8_t *equals = memchr(p->at, '=', (size_t)(p->end - p->at));
            key = (struct slice){p->at, equals ? (size_t)(equals - p->at) : 0};
            if (!key.size)
                return hlo_fail(p, "expected a key");
            pb_put_bytes(p->out, 1, key.data, key.size);
            p->at = equals;
        }
        if (!hlo_expect(p, '=') || !parse_config(p, 2))
            return false;
        pb_end(p->out, entry);
        hlo_take(p, ',');
    }
    pb_end(p->out, map);
    return hlo_expect(p, '}');
}

// ---- Called computations

static bool take_computation(struct hlo_parser *p, uint32_t *id)
{
    struct slice name;
    if (!hlo_parse_name(p, &name))
        return false;
    *id = hlo_computation_id(p, name);
    return *id != 0;
}

static bool call_one(struct hlo_parser *p, uint32_t field)
{
    uint32_t id, *more;
    (void)field;
    if (!take_computation(p, &id))
        return false;
    more = arena_grow(p->arena, p->called, &p->cap_called, p->n_called + 1, sizeof *more, p->err);
    if (!more) {
        p->rc = ERR_MEMORY;
        return false;
    }
    p->called = more;
    p->called[p->n_called++] = id;
    return true;
}

static bool call_several(struct hlo_parser *p, uint32_t field)
{
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    do {
        if (!call_one(p, field))
            return false;
    } while (hlo_take(p, ','));
    return hlo_expect(p, '}');
}

static bool call_any(struct hlo_parser *p, uint32_t field)
{
    return hlo_peek(p) == '{' ? call_several(p, field) : call_one(p, field);
}

static bool call_first(struct hlo_parser *p, uint32_t field)
{
    (void)field;
    return take_computation(p, &p->pending.first);
}

static bool call_second(struct hlo_parser *p, uint32_t field)
{
    (void)field;
    return take_computation(p, &p->pending.second);
}

// ---- What several attributes make together

static bool keep_list(struct hlo_parser *p, uint32_t which)
{
    if (hlo_peek(p) != '{')
        return hlo_fail(p, "expected '{'");
    p->pending.lists |= 1U << which;
    return hlo_skip_value(p, &p->pending.list[which]);
}

static bool keep_index_vector(struct hlo_parser *p, uint32_t field)
{
    (void)field;
    return hlo_parse_integer(p, &p->pending.index_vector);
}

static bool keep_algorithm(struct hlo_parser *p, uint32_t field)
{
    (void)field;
    return hlo_skip_value(p, &p->pending.algorithm);
}

static bool keep_transpose(struct hlo_parser *p, uint32_t field)
{
    (void)field;
    return hlo_skip_value(p, &p->pending.transpose);
}

static bool parse_or_keep_metadata(struct hlo_parser *p, uint32_t field)
{
    return p->pending.is_short ? hlo_skip_value(p, &p->pending.metadata) : hlo_parse_metadata(p, field);
}

static bool keep_flag(struct hlo_parser *p, uint32_t which)
{
    bool *const flags[] = {&p->pending.left_side, &p->pending.lower, &p->pending.unit_diagonal};
    return read_flag(p, flags[which]);
}

// Read and left out: what neither cost nor evidence needs, and compilers make again.
static bool pass_over(struct hlo_parser *p, uint32_t field)
{
    struct slice skipped;
    (void)field;
    return hlo_skip_value(p, &skipped);
}

// Lists of the pending ones from `first` on as the fields of one message; a hole in the numbers is 0.
static bool put_lists(struct hlo_parser *p, uint32_t first, size_t n, const uint32_t *numbers)
{
    for (size_t i = 0; i < n; i++) {
        if (p->pending.lists >> (first + i) & 1 &&
            !hlo_parse_within(p, p->pending.list[first + i], parse_list, numbers[i]))
            return false;
    }
    return true;
}

static bool has_any(const struct hlo_parser *p, unsigned first, unsigned last)
{
    return p->pending.lists >> first & ((1U << (last - first + 1)) - 1);
}

static bool put_dot(struct hlo_parser *p)
{
    static const uint32_t dims[] = {1, 2, 3, 4}, ragged[] = {2, 3};
    bool is_ragged = has_any(p, LIST_LHS_RAGGED, LIST_RHS_GROUP);
    size_t outer = is_ragged ? pb_begin(p->out, 90) : 0;
    size_t message = pb_begin(p->out, is_ragged ? 1 : 30);
    if (!put_lists(p, LIST_LHS_CONTRACTING, 4, dims))
        return false;
    pb_end(p->out, message);
    if (!is_ragged)
        return true;
    if (!put_lists(p, LIST_LHS_RAGGED, 2, ragged))
        return false;
    pb_end(p->out, outer);
    return true;
}

static bool put_gather(struct hlo_parser *p, uint32_t field, uint32_t first)
{
    static const uint32_t numbers[] = {1, 2, 3, 5, 6};
    size_t message = pb_begin(p->out, field);
    if (!put_lists(p, first, 5, numbers))
        return false;
    hlo_put_number(p, 4, p->pending.index_vector);
    pb_end(p->out, message);
    return true;
}

static bool parse_precisions(struct hlo_parser *p, uint32_t field)
{
    static const char *const names[] = {"default", "high", "highest", "packed_nibble"};
    if (!hlo_expect(p, '{') || hlo_take(p, '}'))
        return !p->what[0];
    size_t list = pb_begin(p->out, field);
    do {
        int v = HLO_ONE_OF(hlo_word(p), names);
        if (v < 0)
            return hlo_fail(p, "a precision that is not known");
        pb_put_varint(p->out, (uint64_t)v);
    } while (hlo_take(p, ','));
    pb_end(p->out, list);
    return hlo_expect(p, '}');
}

static bool put_precision(struct hlo_parser *p)
{
    int algorithm =
        p->pending.algorithm.size ? hlo_one_of(p->pending.algorithm, hlo_dot_algorithms, HLO_DOT_ALGORITHMS) : 0;
    if (algorithm < 0)
        return hlo_fail(p, "an algorithm of a product that is not known");
    size_t message = pb_begin(p->out, 51);
    if (has_any(p, LIST_PRECISION, LIST_PRECISION) &&
        !hlo_parse_within(p, p->pending.list[LIST_PRECISION], parse_precisions, 1))
        return false;
    hlo_put_number(p, 2, algorithm);
    pb_end(p->out, message);
    return true;
}

static bool put_solve(struct hlo_parser *p)
{
    static const char *const transposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    const struct hlo_pending *d = &p->pending;
    int transpose = d->transpose.size ? HLO_ONE_OF(d->transpose, transposes) : 0;
    if (transpose < 0)
        return hlo_fail(p, "a kind of transposition that is not known");
    size_t message = pb_begin(p->out, 59);
    hlo_put_number(p, 1, d->left_side);
    hlo_put_number(p, 2, d->lower);
    hlo_put_number(p, 3, d->unit_diagonal);
    hlo_put_number(p, 4, transpose);
    pb_end(p->out, message);
    return true;
}

static bool put_rng_algorithm(struct hlo_parser *p)
{
    static const char *const names[] = {"rng_default", "rng_three_fry", "rng_philox"};
    int v = HLO_ONE_OF(p->pending.algorithm, names);
    hlo_put_number(p, 70, v);
    return v >= 0 || hlo_fail(p, "an algorithm that is not known");
}

bool hlo_put_pending(struct hlo_parser *p)
{
    const struct hlo_pending *d = &p->pending;
    bool ok = true, rng = slice_is(d->opcode, "rng-bit-generator");
    if (has_any(p, LIST_LHS_CONTRACTING, LIST_RHS_GROUP))
        ok = put_dot(p);
    if (ok && has_any(p, LIST_OFFSET, LIST_INDICES_BATCHING))
        ok = put_gather(p, 33, LIST_OFFSET);
    if (ok && has_any(p, LIST_UPDATE_WINDOW, LIST_SCATTER_BATCHING))
        ok = put_gather(p, 48, LIST_UPDATE_WINDOW);
    if (ok && (has_any(p, LIST_PRECISION, LIST_PRECISION) || (d->algorithm.size && !rng)))
        ok = put_precision(p);
    if (ok && rng && d->algorithm.size)
        ok = put_rng_algorithm(p);
    if (ok && slice_is(d->opcode, "triangular-solve"))
        ok = put_solve(p);
    if (ok && slice_is(d->opcode, "cholesky") && d->lower)
        pb_put_bytes(p->out, 62, "\x08\x01", 2);
    if (ok && slice_is(d->opcode, "custom-call") && !d->has_version)
        pb_put_int(p->out, 77, 1); // what the text leaves out is the original version, not none
    return ok;
}

// ---- Metadata

#define KEY(text) (text), sizeof(text) - 1

static bool is_key(struct slice key, const char *text, size_t size)
{
    return key.size == size && memcmp(key.data, text, size) == 0;
}

bool hlo_parse_metadata(struct hlo_parser *p, uint32_t field)
{
    static const struct {
        const char *key;
        size_t size;
        uint32_t number;
        bool text;
    } known[] = {{KEY("op_name"), 2, true},
                 {KEY("source_file"), 3, true},
                 {KEY("source_line"), 4, false},
                 {KEY("stack_frame_id"), 15, false},
                 {KEY("op_type"), 1, true},
                 {KEY("source_end_line"), 17, false},
                 {KEY("source_column"), 18, false},
                 {KEY("source_end_column"), 19, false},
                 {KEY("deduplicated_name"), 12, true},
                 {KEY("scheduling_name"), 16, true},
                 {KEY("size_of_generated_code_in_bytes"), 8, false},
                 {KEY("size_of_memory_working_set_in_bytes"), 9, false}};
    size_t message = pb_begin(p->out, field);
    struct slice skipped;
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        struct slice key = hlo_word(p);
        size_t i = 0;
        if (!key.size || !hlo_expect(p, '='))
            return hlo_fail(p, "expected a part of the metadata");
        while (i < sizeof known / sizeof *known && !is_key(key, known[i].key, known[i].size))
            i++;
        bool ok = i == sizeof known / sizeof *known ? hlo_skip_value(p, &skipped)
                  : known[i].text                   ? parse_text(p, known[i].number)
                                                    : hlo_parse_number(p, known[i].number);
        if (!ok)
            return false;
        hlo_take(p, ',');
    }
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

// ---- All

static const struct attribute {
    const char *key;
    size_t size; // of the key
    bool (*parse)(struct hlo_parser *p, uint32_t field);
    uint32_t field; // or which of the pending ones
} attributes[] = {
    {KEY("metadata"), parse_or_keep_metadata, 7},
    {KEY("dimensions"), parse_list, 14},
    {KEY("calls"), call_any, 0},
    {KEY("kind"), parse_word, 11},
    {KEY("to_apply"), call_one, 0},
    {KEY("index"), hlo_parse_number, 13},
    {KEY("backend_config"), parse_config, 43},
    {KEY("sharding"), hlo_parse_sharding, 40},
    {KEY("lhs_contracting_dims"), keep_list, LIST_LHS_CONTRACTING},
    {KEY("rhs_contracting_dims"), keep_list, LIST_RHS_CONTRACTING},
    {KEY("lhs_batch_dims"), keep_list, LIST_LHS_BATCH},
    {KEY("rhs_batch_dims"), keep_list, LIST_RHS_BATCH},
    {KEY("frontend_attributes"), hlo_parse_frontend, 68},
    {KEY("control-predecessors"), parse_control, 37},
    {KEY("direction"), parse_word, 63},
    {KEY("slice"), hlo_parse_slices, 17},
    {KEY("dynamic_slice_sizes"), parse_list, 20},
    {KEY("channel_id"), hlo_parse_number, 26},
    {KEY("replica_groups"), hlo_parse_groups, 0},
    {KEY("use_global_device_ids"), parse_flag, 71},
    {KEY("custom_call_target"), parse_text, 28},
    {KEY("condition"), call_second, 0},
    {KEY("body"), call_first, 0},
    {KEY("window"), hlo_parse_window, 15},
    {KEY("dim_labels"), hlo_parse_dim_labels, 16},
    {KEY("operand_precision"), keep_list, LIST_PRECISION},
    {KEY("algorithm"), keep_algorithm, 0},
    {KEY("iota_dimension"), parse_single, 14},
    {KEY("padding"), hlo_parse_padding, 21},
    {KEY("type"), parse_word, 72},
    {KEY("output_to_operand_aliasing"), hlo_parse_output_aliases, 74},
    {KEY("custom_call_has_side_effect"), parse_flag, 65},
    {KEY("operand_layout_constraints"), parse_constraints, 57},
    {KEY("api_version"), parse_api_version, 77},
    {KEY("schedule"), parse_schedule, 76},
    {KEY("called_computations"), call_several, 0},
    {KEY("branch_computations"), call_several, 0},
    {KEY("true_computation"), call_first, 0},
    {KEY("false_computation"), call_second, 0},
    {KEY("select"), call_first, 0},
    {KEY("scatter"), call_second, 0},
    {KEY("source_target_pairs"), hlo_parse_pairs, 52},
    {KEY("feature_group_count"), hlo_parse_number, 50},
    {KEY("batch_group_count"), hlo_parse_number, 58},
    {KEY("offset_dims"), keep_list, LIST_OFFSET},
    {KEY("collapsed_slice_dims"), keep_list, LIST_COLLAPSED},
    {KEY("start_index_map"), keep_list, LIST_START_MAP},
    {KEY("operand_batching_dims"), keep_list, LIST_OPERAND_BATCHING},
    {KEY("start_indices_batching_dims"), keep_list, LIST_INDICES_BATCHING},
    {KEY("update_window_dims"), keep_list, LIST_UPDATE_WINDOW},
    {KEY("inserted_window_dims"), keep_list, LIST_INSERTED_WINDOW},
    {KEY("scatter_dims_to_operand_dims"), keep_list, LIST_SCATTER_DIMS},
    {KEY("input_batching_dims"), keep_list, LIST_INPUT_BATCHING},
    {KEY("scatter_indices_batching_dims"), keep_list, LIST_SCATTER_BATCHING},
    {KEY("index_vector_dim"), keep_index_vector, 0},
    {KEY("slice_sizes"), parse_list, 34},
    {KEY("indices_are_sorted"), parse_flag, 67},
    {KEY("unique_indices"), parse_flag, 69},
    {KEY("is_stable"), parse_flag, 60},
    {KEY("lhs_ragged_dims"), keep_list, LIST_LHS_RAGGED},
    {KEY("rhs_group_dims"), keep_list, LIST_RHS_GROUP},
    {KEY("async_execution_thread"), parse_text, 79},
    {KEY("is_host_transfer"), parse_flag, 47},
    {KEY("constrain_layout"), parse_flag, 56},
    {KEY("cross_program_prefetch_index"), parse_given, 80},
    {KEY("is_composite"), parse_flag, 89},
    {KEY("k"), hlo_parse_number, 81},
    {KEY("largest"), parse_flag, 85},
    {KEY("exponent_bits"), hlo_parse_number, 18},
    {KEY("mantissa_bits"), hlo_parse_number, 19},
    {KEY("distribution"), parse_distribution, 23},
    {KEY("epsilon"), parse_float, 24},
    {KEY("feature_index"), hlo_parse_number, 25},
    {KEY("delta"), hlo_parse_number, 66},
    {KEY("fft_type"), parse_fft_type, 31},
    {KEY("fft_length"), parse_list, 32},
    {KEY("left_side"), keep_flag, 0},
    {KEY("lower"), keep_flag, 1},
    {KEY("unit_diagonal"), keep_flag, 2},
    {KEY("transpose_a"), keep_transpose, 0},
    {KEY("infeed_config"), parse_text, 27},
    {KEY("outfeed_config"), parse_text, 22},
    {KEY("outfeed_shape"), hlo_parse_shape, 29},
    {KEY("parameter_replication"), parse_parameter_replication, 61},
    {KEY("origin"), pass_over, 0},
    {KEY("original_value"), pass_over, 0},
    {KEY("statistics"), pass_over, 0},
    {KEY("result_accuracy"), pass_over, 0},
    {KEY("domain"), pass_over, 0},
    {KEY("padding_type"), pass_over, 0},
    {KEY("is_cross_program_prefetch"), pass_over, 0},
    {KEY("async_group_id"), pass_over, 0},
};

static const struct attribute *find(struct slice key)
{
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (is_key(key, attributes[i].key, attributes[i].size))
            return &attributes[i];
    }
    return NULL;
}

// Forgets what the attribute at hand has written and goes on behind its value.
static bool leave_out(struct hlo_parser *p, struct slice key, const uint8_t *value, size_t length)
{
    struct slice skipped;
    int n = (int)(key.size < 60 ? key.size : 60);
    bool kept = p->what[0] ? hlo_leave_out(p, "attribute '%.*s': %.110s", n, (const char *)key.data, p->what)
                           : hlo_leave_out(p, "attribute '%.*s' is not known", n, (const char *)key.data);
    p->out->length = length;
    p->at = value;
    return kept && hlo_skip_value(p, &skipped);
}

bool hlo_parse_attributes(struct hlo_parser *p)
{
    while (hlo_take(p, ',')) {
        struct slice key = hlo_word(p);
        if (!key.size || !hlo_expect(p, '='))
            return hlo_fail(p, "expected an attribute");
        const uint8_t *value = p->at;
        size_t length = p->out->length;
        const struct attribute *a = find(key);
        if ((!a || !a->parse(p, a->field)) && !leave_out(p, key, value, length))
            return false;
    }
    return true;
}

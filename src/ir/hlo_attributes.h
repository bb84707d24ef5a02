// SPDX-License-Identifier: Apache-2.0
// What only some instructions of an HLO module have: dimension numbers, windows, replica groups, literals, the back
// end's configuration. Decoded from the instruction's message when somebody asks.
// Message and field numbers: openxla/xla, xla/service/hlo.proto and xla/xla_data.proto.
#ifndef IR_HLO_ATTRIBUTES_H
#define IR_HLO_ATTRIBUTES_H

#include "ir/hlo.h"

struct hlo_numbers {
    int64_t *at;
    size_t n, cap;
};

struct hlo_window {
    int64_t size, stride, pad_low, pad_high;
    int64_t window_dilation, base_dilation; // 1 where the message leaves them out
    bool reversed;
};

struct hlo_range {
    int64_t start, limit, stride;
};

struct hlo_padding {
    int64_t low, high, interior;
};

struct hlo_pair {
    int64_t source, target;
};

struct hlo_text_pair {
    struct slice key, value;
};

struct hlo_dot {
    struct hlo_numbers lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
    struct hlo_numbers lhs_ragged, rhs_group; // of a ragged-dot
};

struct hlo_convolution {
    int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
    struct hlo_numbers input_spatial, kernel_spatial, output_spatial;
};

// Of gather and scatter: the same fields under two names.
struct hlo_gather {
    struct hlo_numbers offset;           // gather: offset_dims; scatter: update_window_dims
    struct hlo_numbers collapsed;        // collapsed_slice_dims; inserted_window_dims
    struct hlo_numbers start_map;        // start_index_map; scatter_dims_to_operand_dims
    struct hlo_numbers operand_batching; // operand_batching_dims; input_batching_dims
    struct hlo_numbers indices_batching; // start_indices_batching_dims; scatter_indices_batching_dims
    int64_t index_vector;                // index_vector_dim
};

// Which devices take part in a collective, in the form it was written.
enum hlo_groups_form {
    HLO_GROUPS_NONE, // not said: all in one
    HLO_GROUPS_LIST, // {{0,1},{2,3}}
    HLO_GROUPS_IOTA, // [2,2]<=[4], [2,2]<=[2,2]T(1,0)
    HLO_GROUPS_MESH, // axes of a mesh: mesh['a'=2,'b'=2] {'a'}
};

struct hlo_axis {
    struct slice name;
    int64_t size;
};

struct hlo_axis_part {
    int64_t axis;           // of the mesh
    int64_t pre_size, size; // a part of the axis; size 0: all of it
};

struct hlo_groups {
    enum hlo_groups_form form;
    int64_t count, size; // groups, and devices in the first one; 0: not said
    struct hlo_numbers *lists;
    size_t n_lists;
    struct hlo_numbers reshape, permutation; // HLO_GROUPS_IOTA
    struct hlo_axis *axes;                   // HLO_GROUPS_MESH, to parts
    size_t n_axes;
    struct hlo_numbers devices; // empty: in order
    struct hlo_axis_part *parts;
    size_t n_parts;
};

struct hlo_attributes {
    struct hlo_numbers dimensions, dynamic_slice_sizes, fft_length, gather_slice_sizes, precision;
    struct hlo_window *window;
    struct hlo_range *slices;
    struct hlo_padding *padding;
    struct hlo_pair *source_target;
    struct hlo_text_pair *frontend;
    size_t n_window, n_slices, n_padding, n_source_target, n_frontend;
    bool has_dot, has_convolution, has_gather, has_scatter;
    struct hlo_dot dot;
    struct hlo_convolution convolution;
    struct hlo_gather gather, scatter;
    struct hlo_groups groups;
    int64_t feature_groups, batch_groups; // 1 where the message leaves them out
    int64_t channel;                      // 0: none
    bool use_global_device_ids, is_host_transfer, is_stable, indices_are_sorted, unique_indices, has_side_effect,
        constrain_layout, is_composite, largest;
    int64_t exponent_bits, mantissa_bits, fft_type, distribution, rng_algorithm, algorithm, api_version, schedule, k,
        delta, feature_index, prefetch; // as they stand
    bool has_prefetch;
    float epsilon;
    struct slice fusion_kind, custom_call_target, comparison_direction, comparison_type, async_thread, infeed_config,
        outfeed_config;
    struct slice backend_config;                          // wherever it lies: JSON, mostly
    struct slice sharding, literal, triangular, cholesky; // messages
    struct slice *layouts;      // ShapeProto messages: operand_layout_constraints of a custom call
    struct slice *aliases;      // OutputOperandAliasing messages
    struct hlo_numbers control; // ids of control predecessors
    size_t n_layouts, n_aliases;
};

// What a repeated number has in a packed field: from *at up to the result. Nothing for a field of another kind.
static inline const uint8_t *hlo_packed(const struct pb_field *f, const uint8_t **at)
{
    bool packed = f->wire == PB_BYTES && f->body.size;
    *at = packed ? f->body.data : NULL;
    return packed ? f->body.data + f->body.size : NULL;
}

// `m` is the instruction's module; texts are its bytes, lists come from the arena, a small multiple of the bytes. What
// is damaged is read as far as it goes. ERR_MEMORY.
int hlo_attributes_read(struct hlo_attributes *a, const struct hlo_module *m, const struct hlo_instruction *in,
                        struct arena *arena, struct error *err);
// The groups written out as lists of devices, in the arena; *n 0 where they are not said. ERR_INPUT: more than 2^16
// devices, sizes that do not fit each other.
int hlo_groups_list(const struct hlo_groups *g, struct arena *arena, struct hlo_numbers **lists, size_t *n,
                    struct error *err);
// The value of a "constant" of rank 0 of an integer type; false for all others.
bool hlo_literal_integer(const struct hlo_instruction *in, int64_t *out);
// Where the instruction comes from: its own file and line, or those of its stack frame; file empty where neither says.
void hlo_source(const struct hlo_module *m, const struct hlo_instruction *in, struct slice *file, int64_t *line);
// The trip count that the back end noted on a loop (known_trip_count); false where there is none.
bool hlo_known_trip_count(struct slice backend_config, int64_t *out);

#endif

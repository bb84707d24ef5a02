// SPDX-License-Identifier: Apache-2.0
// An HLO module as XLA writes it (xla.HloModuleProto, alone, in an xla.HloProto, or in a profile): computations of
// instructions, before or after optimisation. It is read for cost and evidence; module.h is what we build and rewrite.
// Message and field numbers: openxla/xla, xla/service/hlo.proto and xla/xla_data.proto.
//
// Everything points into the bytes that were read, which must stay; attributes that only some instructions have are
// decoded when somebody asks (hlo_attributes.h).
#ifndef IR_HLO_H
#define IR_HLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/pbread.h"
#include "num/dtype.h"

enum hlo_kind { HLO_ARRAY, HLO_TUPLE, HLO_TOKEN, HLO_OPAQUE, HLO_BUFFER };

struct hlo_shape {
    enum hlo_kind kind;
    enum dtype dtype; // HLO_ARRAY, and the contents of HLO_BUFFER; DT_INVALID for a type that is not known
    int primitive;    // xla.PrimitiveType, as it stands
    int rank;
    int64_t *dims;              // of a dynamic dimension its bound
    bool dynamic;               // some dimension is
    bool *dynamic_dims;         // which; NULL: none
    struct hlo_shape *elements; // HLO_TUPLE
    size_t n_elements;
    struct slice layout; // LayoutProto; empty: none
};

struct hlo_metadata {
    struct slice op_type, op_name, source_file;
    int64_t source_line;
    int64_t frame; // 1-based index into the module's stack frames; 0: none
};

struct hlo_instruction {
    int64_t id;
    struct slice name;
    struct slice opcode; // "dot", "fusion"
    struct hlo_shape shape;
    struct hlo_instruction **operands; // of the same computation
    size_t n_operands;
    struct hlo_computation **called; // body and condition of a while, branches, a fusion's or reduction's computation
    size_t n_called;
    struct hlo_instruction **control; // that must have run before, beside the operands
    size_t n_control;
    struct hlo_metadata metadata;
    struct slice message; // the whole HloInstructionProto
    int64_t parameter;    // of "parameter": its number
    int64_t tuple_index;  // of "get-tuple-element"
};

struct hlo_computation {
    int64_t id;
    struct slice name;
    struct hlo_instruction *instructions; // operands come before their users
    size_t n_instructions;
    struct hlo_instruction *root;
    struct hlo_instruction **schedule; // all of them in the order they run in; NULL: not said
    struct slice thread;               // empty: the main one
    bool is_fusion;
};

struct hlo_frame {
    struct slice file, function;
    int64_t line, column;
    int64_t parent; // 1-based; 0: none
};

struct hlo_module {
    struct slice name;
    int64_t id;
    struct hlo_computation *computations; // called ones come before their callers
    size_t n_computations;
    struct hlo_computation *entry;
    struct hlo_frame *frames; // number 1 is frames[0]
    size_t n_frames;
    struct slice *payloads; // that backend_config_payload refers to
    size_t n_payloads;
    bool is_scheduled;              // it has a schedule, and what that has of computations is right
    struct slice buffer_assignment; // BufferAssignmentProto of an HloProto; empty: none
    struct slice device_assignment; // DeviceAssignmentProto; empty: none
    struct slice message;           // HloModuleProto
};

// Reads an HloModuleProto, alone or in an HloProto or an HloModuleProtoWithConfig, as plugins hand it over (which it
// is, the fields tell). `name` is the file's, for messages; memory comes from the arena, a small multiple of the bytes.
// ERR_INPUT names computation and instruction: damage, an operand or a computation that is not there or not earlier,
// ids given twice, shapes nested deeper than 64.
int hlo_read(struct hlo_module *m, const void *bytes, size_t size, const char *name, struct arena *arena,
             struct error *err);
// Reads a ShapeProto, as an instruction's attributes and the module's signature have them. ERR_INPUT.
int hlo_read_shape(struct hlo_shape *s, struct slice message, struct arena *arena, struct error *err);
bool hlo_is(const struct hlo_instruction *in, const char *opcode);
// Elements of an array (1 for rank 0), all elements of a tuple's arrays; saturates. Tokens and opaque values have none.
int64_t hlo_shape_elements(const struct hlo_shape *s);
// Bytes without padding, leaves of a tuple added up; saturates at INT64_MAX. Sub-byte types are packed.
int64_t hlo_shape_bytes(const struct hlo_shape *s);

#endif

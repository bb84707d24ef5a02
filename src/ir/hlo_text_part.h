// SPDX-License-Identifier: Apache-2.0
// The parts of HLO text, for hlo_text.c.
#ifndef IR_HLO_TEXT_PART_H
#define IR_HLO_TEXT_PART_H

#include "base/str.h"
#include "ir/hlo_attributes.h"

// XLA counts what stands in long lists: "/*index=5*/" before every fifth.
#define HLO_INDEX_EVERY 5
// ", " but before the first, and the mark where one is due.
void hlo_put_comma(struct str *out, size_t i);
// Bytes that no name of XLA has become '_'.
void hlo_put_name(struct str *out, struct slice name);
// In quotes, with C's escapes.
void hlo_put_quoted(struct str *out, struct slice text);
// ", key={1,2}"; without a key the braces alone.
void hlo_put_numbers(struct str *out, const char *key, const struct hlo_numbers *n);
// "1,2" of field `number` of a message.
void hlo_put_field(struct str *out, struct slice message, uint32_t number);
// The last number of a field, 0 where it is not there; whether it is not 0.
bool hlo_number_field(struct slice message, uint32_t number, int64_t *value);
// The last body of a field; empty where it is not there.
struct slice hlo_body_field(struct slice message, uint32_t number);
// As few digits as read back as the same: 15, else 17.
void hlo_put_double(struct str *out, double v);
// What stands in the parentheses of a constant.
void hlo_put_literal(struct str *out, const struct hlo_shape *s, struct slice literal);
// A ShapeProto with its layout; nothing for one that is damaged.
void hlo_put_shape_message(struct str *out, struct slice message);
// `head` and "{op_name="x" ...}" of an OpMetadata; nothing where that says nothing.
void hlo_put_metadata(struct str *out, const char *head, struct slice metadata);
// ", frontend_attributes={a="b"}", by key; the pairs are sorted.
void hlo_put_frontend(struct str *out, struct hlo_text_pair *pairs, size_t n);
// ", dimensions={0}, to_apply=%add": what the opcode has, in XLA's order.
void hlo_put_attributes(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a);
// "a: f32[2], b: f32[]", or the shapes alone with their layouts: the parameters by number, a number that repeats once.
int hlo_put_parameters(struct str *out, const struct hlo_computation *c, bool names, struct error *err);
// Whether a computation is one operation on its parameters.
bool hlo_is_single(const struct hlo_computation *c);
// "{devices=[2,1]<=[2]}" of an OpSharding.
void hlo_put_sharding(struct str *out, struct slice sharding);

// hlo_text_rare.c: what few instructions have.
void hlo_put_replication(struct str *out, const struct hlo_instruction *in);
void hlo_put_layouts(struct str *out, const struct hlo_attributes *a);        // operand_layout_constraints
void hlo_put_output_aliases(struct str *out, const struct hlo_attributes *a); // output_to_operand_aliasing
void hlo_put_custom_literal(struct str *out, const struct hlo_attributes *a);
void hlo_put_domain(struct str *out, const struct hlo_instruction *in);
void hlo_put_statistics(struct str *out, const struct hlo_instruction *in);
void hlo_put_accuracy(struct str *out, const struct hlo_instruction *in);
void hlo_put_origin(struct str *out, const struct hlo_instruction *in);

#endif

// SPDX-License-Identifier: Apache-2.0
// The parts of HLO text, for hlo_text.c.
#ifndef IR_HLO_TEXT_PART_H
#define IR_HLO_TEXT_PART_H

#include "base/str.h"
#include "ir/hlo_attributes.h"

// Bytes that no name of XLA has become '_'.
void hlo_put_name(struct str *out, struct slice name);
// In quotes, with C's escapes.
void hlo_put_quoted(struct str *out, struct slice text);
// ", key={1,2}"; without a key the braces alone.
void hlo_put_numbers(struct str *out, const char *key, const struct hlo_numbers *n);
// What stands in the parentheses of a constant.
void hlo_put_literal(struct str *out, const struct hlo_shape *s, struct slice literal);
// ", dimensions={0}, to_apply=%add": what the opcode has, in XLA's order.
void hlo_put_attributes(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a);
// ", sharding={devices=[2,1]<=[2]}"; nothing for an empty message.
void hlo_put_sharding(struct str *out, struct slice sharding);

#endif

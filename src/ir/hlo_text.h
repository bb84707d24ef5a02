// SPDX-License-Identifier: Apache-2.0
// An HLO module as text, in XLA's own notation: for people, and for XLA's parser.
#ifndef IR_HLO_TEXT_H
#define IR_HLO_TEXT_H

#include "base/str.h"
#include "ir/hlo_attributes.h"

// Appends "f32[2,<=3]{1,0:T(8,128)}"; without the braces unless `layout`.
void hlo_text_shape(struct str *out, const struct hlo_shape *s, bool layout);
// Appends one line without its indent: "ROOT %x = f32[2]{0} add(%a, %b), metadata={...}". Constants of more than ten
// elements are "{...}", which XLA's parser takes for any values. An asynchronous operation that wraps a single one is
// written as that one: "add-start". Bytes that no name of XLA has become '_'. ERR_MEMORY.
int hlo_text_instruction(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                         const struct hlo_instruction *in, struct error *err);
// Appends "%f (a: f32[2]) -> f32[2] {\n ... }\n", the entry with ENTRY before it. Instructions stand in the order of
// the schedule, where the module has one, else of the message.
int hlo_text_computation(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                         struct error *err);
// The whole module as XLA prints it: its head, the tables of stack frames, all computations but those that stand in an
// asynchronous operation.
int hlo_text_module(struct str *out, const struct hlo_module *m, struct error *err);

#endif

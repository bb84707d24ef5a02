// SPDX-License-Identifier: Apache-2.0
// HLO as text, as XLA dumps it, of today and of earlier years, into the message that plugins read and hlo_read takes:
// so everything that works on a program in one form works on the other, and the message is a program that can be
// compiled.
#ifndef IR_HLO_PARSE_H
#define IR_HLO_PARSE_H

#include "ir/hlo.h"

enum { HLO_PARSE_NOTES = 20 };

struct hlo_parse_note {
    size_t line;      // of the text, from 1
    const char *what; // "instruction 'dot.3': attribute 'foo' is not known"
};

struct hlo_parsed {
    struct slice message;          // HloModuleProto, in the arena
    struct hlo_parse_note *notes;  // what was left out (only when lenient): the first HLO_PARSE_NOTES of them
    size_t n_notes, n_left_out;    // kept here; all of them
    size_t n_elided;               // constants whose values the text leaves out: "{...}"
    int64_t n_replicas, n_devices; // replica_count and num_partitions; 1 where the text does not say
};

// `name` is the file's, for messages. What is not understood is ERR_INPUT naming line and instruction; when `lenient`
// it becomes a note: an attribute is left out, an instruction becomes one of opcode "not-understood", which has its
// name and shape and whose cost is not known. Computations may come in any order; one that calls itself is ERR_INPUT.
// Time and memory are linear in the text; nothing of it is kept by reference.
int hlo_parse(struct hlo_parsed *out, const void *text, size_t size, const char *name, bool lenient,
              struct arena *arena, struct error *err);

// Whether bytes begin like HLO text, blanks and comments aside; a message never does.
bool hlo_is_text(const void *bytes, size_t size);

// A module in either form: text goes through hlo_parse first. `parsed` may be NULL; for a message its `message` is all
// of the bytes.
int hlo_read_any(struct hlo_module *m, const void *bytes, size_t size, const char *name, bool lenient,
                 struct hlo_parsed *parsed, struct arena *arena, struct error *err);

#endif

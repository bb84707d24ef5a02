// SPDX-License-Identifier: Apache-2.0
// What the files of the parser share: the text at hand, the message that is written, the fields of an instruction that
// several attributes make together.
#ifndef IR_HLO_PARSE_PART_H
#define IR_HLO_PARSE_PART_H

#include "base/pbwire.h"
#include "ir/hlo_parse.h"

// A table of names. One table serves one computation after the other: what an earlier one put in is out of date.
struct hlo_name {
    const uint8_t *data;
    uint32_t size, value;
    uint64_t hash;
};

enum { HLO_RECENT = 512 };

// Names in the order in which they came, and a table that leads to them: small, since nearly every name is met a few
// lines before it is asked for, and only the table is met at random.
struct hlo_names {
    struct hlo_name *items; // malloc'd
    uint32_t *slots;        // malloc'd; 1 + the place of an item; before `first` + 1: free
    size_t n, cap, n_slots;
    size_t first; // of this round
    uint64_t secret;
    uint32_t recent[HLO_RECENT]; // by hash: 1 + the place of an item; operands nearly always came a few lines before
};

// Attributes that make one field of the message together, as they stand in the text: "{0,1}".
enum hlo_list {
    LIST_LHS_CONTRACTING,
    LIST_RHS_CONTRACTING,
    LIST_LHS_BATCH,
    LIST_RHS_BATCH,
    LIST_LHS_RAGGED,
    LIST_RHS_GROUP,
    LIST_OFFSET,
    LIST_COLLAPSED,
    LIST_START_MAP,
    LIST_OPERAND_BATCHING,
    LIST_INDICES_BATCHING,
    LIST_UPDATE_WINDOW,
    LIST_INSERTED_WINDOW,
    LIST_SCATTER_DIMS,
    LIST_INPUT_BATCHING,
    LIST_SCATTER_BATCHING,
    LIST_PRECISION,
    LIST_COUNT
};

struct hlo_pending {
    unsigned lists; // bits: which were given
    int64_t index_vector;
    struct slice algorithm, transpose, metadata;
    bool left_side, lower, unit_diagonal, has_version;
    bool is_short;          // a short form: metadata is the outer operation's, other attributes are the inner one's
    uint32_t first, second; // ids of called computations that have their place: body and condition; 0: none
    struct slice opcode;    // of the instruction
    struct slice list[LIST_COUNT];
};

struct hlo_parser {
    const uint8_t *begin, *at, *end;
    bool lenient;
    struct arena *arena;
    struct error *err;
    int rc; // ERR_MEMORY
    // The first thing that was not understood since it was last cleared, and where.
    char what[200];
    const uint8_t *where;
    struct str *out; // what is written to
    struct hlo_pending pending;
    struct hlo_names instructions, computations;
    uint32_t *called; // of the instruction at hand, without those that have their place
    size_t n_called, cap_called;
    uint64_t *values; // of a constant
    size_t cap_values;
    struct hlo_parsed *parsed;
    size_t cap_notes;
    const char *name;        // of the file
    const char *opcodes[64]; // that were met, by what they look like
    struct {
        uint64_t name;
        int type;
    } types[16];              // the same of element types
    struct slice instruction; // the name of the one at hand; empty: none
    // How many lines there are up to a place; places that are asked for only go forward.
    const uint8_t *counted;
    size_t line;
};

// A computation, from the first time it is mentioned.
struct hlo_entry {
    struct slice name;
    const uint8_t *mentioned;
    bool defined, fused, wrapped; // wrapped: its fields are in the other text
    size_t at, size;              // its fields without those that are only known at the end
    uint32_t root, first, n;      // ids of instructions
    uint32_t place;               // in the order in which computations ended, from 1
    struct slice thread;
};

struct hlo_edge {
    uint32_t from, to;
};

struct hlo_entry_parameter {
    struct slice name, shape; // the shape only where the head does not say it
};

struct hlo_parsing {
    struct hlo_parser p;
    struct str bodies, wrapped, head; // fields of computations; of the module
    struct hlo_entry *entries;        // id 1 is entries[0]
    size_t n_entries, cap_entries;
    struct hlo_edge *edges; // who calls whom
    size_t n_edges, cap_edges;
    uint32_t current;            // id of the computation at hand
    uint32_t entry;              // 0: not seen
    size_t shape_at, shape_size; // of the instruction at hand, in what is written; size 0: not read yet
    // Ids of the instructions of a computation follow each other; those of wrapped ones have a range of their own.
    uint32_t next_id, next_wrapped_id;
    uint32_t n_ended;
    bool scheduled, has_layout;
    uint32_t *operands; // of the instruction at hand
    size_t n_operands, cap_operands;
    struct hlo_entry_parameter *parameters; // of the entry, by number
    size_t n_parameters, cap_parameters;
};

#define SHOWN(s) (int)((s).size < 80 ? (s).size : 80), (const char *)(s).data

static inline struct hlo_parsing *hlo_parsing_of(struct hlo_parser *p)
{
    return (struct hlo_parsing *)p; // its first member
}

#define PUSH(p, array, n, cap)                                                                                         \
    (((array) = arena_grow((p)->arena, (array), &(cap), (n) + 1, sizeof *(array), (p)->err))                           \
         ? &(array)[(n)++]                                                                                             \
         : ((p)->rc = ERR_MEMORY, NULL))

// Notes what was not understood at the place at hand; false, for returning.
bool hlo_fail(struct hlo_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

enum { CLASS_BLANK = 1, CLASS_NAME = 2, CLASS_DIGIT = 4, CLASS_MARKED = 8 };
extern const uint8_t hlo_class[256];

void hlo_skip_comment(struct hlo_parser *p); // and what is blank after it

static inline void hlo_blanks(struct hlo_parser *p)
{
    while (p->at < p->end && hlo_class[*p->at] & CLASS_BLANK)
        p->at++;
    if (p->at < p->end && *p->at == '/')
        hlo_skip_comment(p);
}

// The next byte that is not blank, which stays; 0 at the end.
static inline int hlo_peek(struct hlo_parser *p)
{
    hlo_blanks(p);
    return p->at < p->end ? *p->at : 0;
}

static inline bool hlo_take(struct hlo_parser *p, char c)
{
    bool is = hlo_peek(p) == c;
    p->at += is;
    return is;
}

static inline bool hlo_expect(struct hlo_parser *p, char c)
{
    return hlo_take(p, c) || hlo_fail(p, "expected '%c'", c);
}

// Letters, digits and "_.-", or empty.
static inline struct slice hlo_word(struct hlo_parser *p)
{
    hlo_blanks(p);
    const uint8_t *from = p->at;
    while (p->at < p->end && hlo_class[*p->at] & CLASS_NAME)
        p->at++;
    return (struct slice){from, (size_t)(p->at - from)};
}

// A name with or without its '%'; false when there is none.
bool hlo_parse_name(struct hlo_parser *p, struct slice *out);
bool hlo_parse_integer(struct hlo_parser *p, int64_t *out);
void hlo_skip_line(struct hlo_parser *p);
// Text in quotes as it stands, to be unescaped by hlo_put_text.
bool hlo_parse_quoted(struct hlo_parser *p, struct slice *out);
void hlo_put_text(struct hlo_parser *p, uint32_t field, struct slice quoted);
// Whatever the value of an attribute is: up to the comma, blank or bracket that ends it.
bool hlo_skip_value(struct hlo_parser *p, struct slice *out);
// "{0,1}" as a packed field, and "[0,1]" or "(0,1)" with other brackets; an empty list is no field.
bool hlo_parse_list(struct hlo_parser *p, uint32_t field, char open, char close);
// Calls `what` with the text of a slice in place of the text at hand.
bool hlo_parse_within(struct hlo_parser *p, struct slice text, bool (*what)(struct hlo_parser *, uint32_t),
                      uint32_t field);
// A packed or single number without its field is not written: zero is what a reader takes a missing one for.
static inline void hlo_put_number(struct hlo_parser *p, uint32_t field, int64_t v)
{
    if (v)
        pb_put_int(p->out, field, v);
}

// Shapes (hlo_parse_shape.c): "f32[2,<=3]{1,0:T(8,128)}", tuples, "token[]". Writes a ShapeProto as the field.
bool hlo_parse_shape(struct hlo_parser *p, uint32_t field);
bool hlo_skip_shape(struct hlo_parser *p);
// xla.PrimitiveType of a type's name; 0 for others.
int hlo_primitive(struct hlo_parser *p, struct slice name);
// Shardings: an OpSharding as the field; nothing for those by named axes.
bool hlo_parse_sharding(struct hlo_parser *p, uint32_t field);

// Constants (hlo_parse_literal.c): what stands in the parentheses, of a ShapeProto, as a LiteralProto in field 8.
bool hlo_parse_literal(struct hlo_parser *p, struct slice shape);

// Attributes (hlo_parse_attributes.c): ", key=value, key=value". Then the fields that several make.
bool hlo_parse_attributes(struct hlo_parser *p);
bool hlo_put_pending(struct hlo_parser *p);
bool hlo_parse_metadata(struct hlo_parser *p, uint32_t field);
bool hlo_parse_frontend(struct hlo_parser *p, uint32_t field);
// "{ {0}: (1, {}, may-alias) }" and "{ (0, {}) }" of the module's head.
bool hlo_parse_aliases(struct hlo_parser *p, uint32_t field);
bool hlo_parse_donors(struct hlo_parser *p, uint32_t field);

// The id of a computation, from 1, whether it has come already or not; 0 with p->rc set.
uint32_t hlo_computation_id(struct hlo_parser *p, struct slice name);
// The id of an instruction of the computation at hand; false when it has not come.
bool hlo_instruction_id(struct hlo_parser *p, struct slice name, uint32_t *id);

// Instructions (hlo_parse_instruction.c): one, with its ROOT.
bool hlo_parse_instruction(struct hlo_parsing *s);
// The beginning of an instruction's message: its name, opcode and id.
void hlo_put_begin(struct hlo_parser *p, struct slice name, const char *opcode, uint32_t id);
#define HLO_NOT_UNDERSTOOD "not-understood" // the opcode of what was left out

// Values of attributes (hlo_parse_values.c), as the fields of the message.
bool hlo_parse_window(struct hlo_parser *p, uint32_t field);
bool hlo_parse_dim_labels(struct hlo_parser *p, uint32_t field);
bool hlo_parse_slices(struct hlo_parser *p, uint32_t field);
bool hlo_parse_padding(struct hlo_parser *p, uint32_t field);
bool hlo_parse_pairs(struct hlo_parser *p, uint32_t field);
bool hlo_parse_output_aliases(struct hlo_parser *p, uint32_t field);
bool hlo_parse_groups(struct hlo_parser *p, uint32_t field);
bool hlo_parse_number(struct hlo_parser *p, uint32_t field);
// Which of the names a word is; -1: none.
int hlo_one_of(struct slice word, const char *const *names, size_t n);
#define HLO_ONE_OF(word, names) hlo_one_of((word), (names), sizeof(names) / sizeof *(names))

// Something left out: a note when lenient; else it is not understood.
bool hlo_leave_out(struct hlo_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t hlo_line_of(struct hlo_parser *p, const uint8_t *place);

// Tables of names. The value of a name, or 0; and the slot to put one in, NULL with p->rc set.
uint32_t hlo_names_get(const struct hlo_names *t, struct slice name);
// The hash is hlo_names_hash's, which also has the table's place fetched.
struct hlo_name *hlo_names_put(struct hlo_parser *p, struct hlo_names *t, struct slice name, uint64_t hash);
uint64_t hlo_names_hash(const struct hlo_names *t, struct slice name);
// Forgets all names, and releases the table.
void hlo_names_next_round(struct hlo_names *t);
void hlo_names_release(struct hlo_names *t);

#endif

// SPDX-License-Identifier: Apache-2.0
// What a compilation left behind: the buffers, the schedule, and the final code of its operations.
#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "ir/hlo_import.h"
#include "ir/hlo_layout.h"
#include "lab/compile_part.h"

enum { MAX_DUMP_BYTES = 1 << 30, MAX_BUFFERS = 64, MAX_DEPTH = 32 };

// ---- Buffers

// The file of a folder whose name ends so; false when there is none. Several: the last by name, the largest module of a
// compilation being compiled last.
static bool find_file(const char *folder, const char *ending, char path[1024])
{
    DIR *d = opendir(folder);
    struct dirent *e;
    bool found = false;
    while (d && (e = readdir(d))) {
        size_t n = strlen(e->d_name), k = strlen(ending);
        if (n < k || strcmp(e->d_name + n - k, ending) != 0)
            continue;
        char candidate[1024];
        if (snprintf(candidate, sizeof candidate, "%s/%s", folder, e->d_name) >= (int)sizeof candidate)
            continue;
        if (!found || strcmp(candidate, path) > 0)
            memcpy(path, candidate, sizeof candidate);
        found = true;
    }
    if (d)
        closedir(d);
    return found;
}

static int by_bytes(const void *a, const void *b)
{
    const struct compile_buffer *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->instruction, y->instruction);
}

// The operation's name of an instruction in the text of a module: op_name="..." in the line that defines it.
static const char *owner_in_text(struct arena *a, struct slice module, struct slice instruction, struct error *err)
{
    char key[256];
    int n = snprintf(key, sizeof key, "%%%.*s = ", (int)(instruction.size < 200 ? instruction.size : 200),
                     (const char *)instruction.data);
    const uint8_t *line = module.size ? memmem(module.data, module.size, key, (size_t)n) : NULL;
    if (!line)
        return "";
    size_t left = module.size - (size_t)(line - module.data);
    const uint8_t *end = memchr(line, '\n', left);
    size_t length = end ? (size_t)(end - line) : left;
    static const char mark[] = "op_name=\"";
    const uint8_t *at = memmem(line, length, mark, sizeof mark - 1);
    if (!at)
        return "";
    at += sizeof mark - 1;
    const uint8_t *quote = memchr(at, '"', length - (size_t)(at - line));
    char *name = arena_strndup(a, (const char *)at, quote ? (size_t)(quote - at) : 0, err), *to = name;
    if (!name)
        return NULL;
    for (const char *from = name; *from; from++) { // "params[\'w\']"
        from += *from == '\\' && from[1];
        *to++ = *from;
    }
    *to = '\0';
    return name;
}

static bool is_weight(const struct compile_case *k, int64_t parameter)
{
    if (k->module)
        return parameter >= 0 && parameter < k->module->n_parameters &&
               k->module->parameters[parameter].role == ROLE_WEIGHT;
    return parameter >= k->first_weight && parameter <= k->last_weight;
}

// Arguments are named by our module where it is ours, else by their names in the program, if they have any.
static const char *owner_of(struct compile_case *k, const struct buffers *b, const struct buffer_value *v,
                            struct slice module, struct error *err)
{
    const struct buffer_allocation *a = &b->allocations[v->allocation];
    if (a->kind != BUFFER_ARGUMENT)
        return owner_in_text(&k->arena, module, buffer_value_instruction(v), err);
    if (k->module && a->parameter >= 0 && a->parameter < k->module->n_parameters)
        return k->module->parameters[a->parameter].name;
    const char *name = owner_in_text(&k->arena, module, buffer_value_instruction(v), err);
    if (!name || *name)
        return name;
    return arena_printf(&k->arena, err, "argument %lld", (long long)a->parameter);
}

static int keep_buffers(struct compile_case *k, const struct buffers *b, struct slice module, struct error *err)
{
    struct compile_buffer *list = arena_new(&k->arena, struct compile_buffer, b->n_values, err);
    size_t n = 0;
    if (!list)
        return ERR_MEMORY;
    k->weight_bytes = k->module || k->last_weight >= k->first_weight ? 0 : -1;
    for (size_t i = 0; i < b->n_values; i++) {
        const struct buffer_value *v = &b->values[i];
        const struct buffer_allocation *a = &b->allocations[v->allocation];
        if (a->space != 0 || v->bytes == 0)
            continue;
        if (a->kind == BUFFER_ARGUMENT && is_weight(k, a->parameter))
            k->weight_bytes = add_saturated(k->weight_bytes, v->bytes);
        struct slice in = buffer_value_instruction(v);
        const uint8_t *brace = v->shape.size ? memchr(v->shape.data, '{', v->shape.size) : NULL;
        size_t shape = brace ? (size_t)(brace - v->shape.data) : v->shape.size;
        list[n] = (struct compile_buffer){
            .instruction = arena_strndup(&k->arena, (const char *)in.data, in.size, err),
            .shape = arena_strndup(&k->arena, (const char *)v->shape.data, shape, err),
            .owner = owner_of(k, b, v, module, err),
            .kind = a->kind,
            .bytes = v->bytes,
        };
        if (!list[n].instruction || !list[n].shape || !list[n].owner)
            return ERR_MEMORY;
        n++;
    }
    qsort(list, n, sizeof *list, by_bytes);
    k->buffers = list;
    k->n_buffers = n < MAX_BUFFERS ? n : MAX_BUFFERS;
    return 0;
}

int compile_case_buffers(struct compile_case *k, const char *folder, struct error *err)
{
    char hlo[640], path[1024];
    struct str text, module;
    str_init(&text);
    str_init(&module);
    snprintf(hlo, sizeof hlo, "%s/hlo", folder);
    int rc = 0;
    // A compiler that wrote none has none to show.
    if (find_file(hlo, "after_optimizations-buffer-assignment.txt", path) &&
        file_read(&text, path, MAX_DUMP_BYTES, NULL) == 0) {
        if (find_file(hlo, "after_optimizations.txt", path) && file_read(&module, path, MAX_DUMP_BYTES, NULL) != 0)
            str_clear(&module);
        struct arena scratch;
        struct buffers b;
        arena_init(&scratch);
        rc = buffers_read(&b, (struct slice){(const uint8_t *)text.text, text.length}, &scratch, err);
        if (!rc)
            rc = keep_buffers(k, &b, (struct slice){(const uint8_t *)module.text, module.length}, err);
        arena_release(&scratch);
    }
    str_release(&text);
    str_release(&module);
    return rc;
}

// ---- The final code

struct code {
    struct slice body; // its name, as in the file's
    struct llo_bundles bundles;
    bool used; // by an operation seen before
};

struct codes {
    struct code *list;
    size_t n;
    struct llo_body *bodies;
    size_t n_bodies;
};

// "1795986967377882578-fusion.1-01-final_bundles.txt": "fusion.1". Empty for other files.
static struct slice body_of_file(const char *name)
{
    static const char ending[] = "-final_bundles.txt";
    size_t n = strlen(name), k = sizeof ending - 1;
    struct slice none = {0};
    if (n < k || strcmp(name + n - k, ending) != 0)
        return none;
    size_t to = n - k, digits = to;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    const char *dash = strchr(name, '-');
    if (digits == to || digits == 0 || name[digits - 1] != '-' || !dash || (size_t)(dash - name) + 1 >= digits - 1)
        return none;
    return (struct slice){(const uint8_t *)dash + 1, digits - 1 - (size_t)(dash + 1 - name)};
}

static int by_body(const void *a, const void *b)
{
    return slice_compare(((const struct code *)a)->body, ((const struct code *)b)->body);
}

static int read_code(struct compile_case *k, const char *path, const char *name, struct codes *out, size_t *cap,
                     struct error *err)
{
    struct slice body = body_of_file(name);
    static const char map[] = "-deduplication-map.txt";
    size_t n = strlen(name);
    bool is_map = n >= sizeof map && strcmp(name + n - (sizeof map - 1), map) == 0;
    if (!body.size && !is_map)
        return 0;
    struct file_map m;
    if (file_map_open(&m, path, NULL) != 0) // a compiler that dumps something else has nothing to show
        return 0;
    struct slice text = {m.data, m.size};
    k->dump_bytes += (double)m.size;
    int rc = 0;
    if (is_map && !out->bodies) {
        rc = slice_copy(&k->arena, &text, err);
        if (!rc)
            rc = llo_bodies_read(&out->bodies, &out->n_bodies, text, &k->arena, err);
    } else if (body.size && out->n < *cap) {
        struct code *c = &out->list[out->n];
        c->body = body;
        rc = slice_copy(&k->arena, &c->body, err);
        llo_bundles_read(&c->bundles, text);
        out->n += rc == 0;
    }
    file_map_close(&m);
    return rc;
}

static int read_codes(struct compile_case *k, const char *folder, struct codes *out, struct error *err)
{
    char llo[640], path[1024];
    snprintf(llo, sizeof llo, "%s/llo", folder);
    DIR *d = opendir(llo);
    struct dirent *e;
    size_t cap = 0;
    while (d && readdir(d))
        cap++;
    out->list = arena_new(&k->arena, struct code, cap, err);
    int rc = out->list ? 0 : ERR_MEMORY;
    uint64_t start = clock_ns();
    if (d)
        rewinddir(d);
    while (d && !rc && (e = readdir(d))) {
        if (snprintf(path, sizeof path, "%s/%s", llo, e->d_name) < (int)sizeof path)
            rc = read_code(k, path, e->d_name, out, &cap, err);
    }
    k->parse_s = (double)(clock_ns() - start) * 1e-9;
    if (d)
        closedir(d);
    if (!rc && out->n)
        qsort(out->list, out->n, sizeof *out->list, by_body);
    return rc;
}

static struct code *find_code(const struct codes *c, struct slice operation)
{
    struct code key = {.body = llo_body_of(c->bodies, c->n_bodies, operation)};
    return c->n ? bsearch(&key, c->list, c->n, sizeof *c->list, by_body) : NULL;
}

// ---- The schedule

struct walk {
    struct compile_case *k;
    const struct codes *codes;
    struct arena *scratch;
    struct error *err;
};

static bool ends(const struct hlo_instruction *in, const char *text)
{
    return slice_ends_with(in->opcode, text);
}

// What only names values.
static bool is_name(const struct hlo_instruction *in)
{
    static const char *const names[] = {"parameter", "constant",   "tuple",        "get-tuple-element",
                                        "bitcast",   "after-all",  "partition-id", "replica-id",
                                        "iota",      "opt-barrier"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (hlo_is(in, names[i]))
            return true;
    }
    return false;
}

static const char *copied(struct arena *a, struct slice s, struct error *err)
{
    return s.size ? arena_strndup(a, (const char *)s.data, s.size, err) : "";
}

static double padded(const struct hlo_shape *s, double bytes)
{
    int64_t plain = hlo_shape_bytes(s);
    return plain > 0 ? bytes * ((double)hlo_padded_bytes(s) / (double)plain) : bytes;
}

// Bytes of the arrays of a shape that lie in the main memory.
static double main_memory_bytes(const struct hlo_shape *s)
{
    double v = 0;
    if (s->kind == HLO_TUPLE) {
        for (size_t i = 0; i < s->n_elements; i++)
            v += main_memory_bytes(&s->elements[i]);
        return v;
    }
    return s->kind == HLO_ARRAY && hlo_memory_space(s) == 0 ? (double)hlo_padded_bytes(s) : 0;
}

// What one run moves to and from the main memory: operands and results in other memories do not count.
static double moved(const struct compile_case *k, const struct hlo_instruction *in)
{
    double v = 0;
    for (size_t i = 0; i < in->n_operands; i++) {
        const struct hlo_shape *s = &in->operands[i]->shape;
        if (s->kind == HLO_ARRAY && hlo_memory_space(s) == 0)
            v += padded(s, hlo_cost_read_bytes(&k->costs, in, i));
    }
    const struct hlo_shape *result = &in->shape;
    if (result->kind == HLO_TUPLE) {
        double written = hlo_cost_written_bytes(in), all = main_memory_bytes(result);
        return v + (written < all ? written : all);
    }
    return v + (hlo_memory_space(result) == 0 ? padded(result, hlo_cost_written_bytes(in)) : 0);
}

static const struct hlo_shape *first_result(const struct hlo_shape *s)
{
    while (s->kind == HLO_TUPLE && s->n_elements)
        s = &s->elements[0];
    return s;
}

// What a start of something asynchronous makes: a copy names it first, others after their operands. A slice that is
// fetched ahead moves itself, not all that it is cut from.
static const struct hlo_shape *made_ahead(const struct hlo_instruction *in)
{
    const struct hlo_shape *s = &in->shape;
    bool general = hlo_is(in, "async-start") && s->kind == HLO_TUPLE && s->n_elements > 1;
    return first_result(general ? &s->elements[1] : s);
}

// The number behind a key of a JSON object that is written as a string, as the back end does; NAN.
static double config_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    double out;
    if (json_is_string(v) && parse_double(json_string_value(v), &out))
        return out;
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int read_config(struct walk *w, struct compile_op *op, const struct hlo_instruction *from, struct error *err)
{
    struct hlo_attributes a;
    int rc = hlo_attributes_read(&a, &w->k->hlo, from, w->scratch, err);
    if (rc)
        return rc;
    struct error ignored = {0};
    const char *text = (const char *)a.backend_config.data;
    json_t *config = a.backend_config.size ? json_parse(text, a.backend_config.size, "backend_config", &ignored) : NULL;
    const json_t *window = json_object_get(config, "window_config"),
                 *bounds = json_object_get(window, "iteration_bounds");
    double cycles = config_number(window, "estimated_cycles");
    if (cycles > 0 && cycles < 9e18) // 0 and the largest integer stand for "none"
        op->estimated_cycles = cycles;
    for (size_t i = 0; i < json_array_size(bounds); i++) {
        double n;
        const json_t *v = json_array_get(bounds, i);
        if (json_is_string(v) && parse_double(json_string_value(v), &n) && n >= 1)
            op->iterations *= n;
    }
    if (op->kind == COMPILE_COLLECTIVE) {
        struct str s;
        str_init(&s);
        const json_t *c = json_object_get(config, "collective_algorithm_config");
        const char *emitter = json_string_value(json_object_get(c, "emitter")),
                   *strategy = json_string_value(json_object_get(c, "strategy"));
        str_addf(&s, "%s%s%s", emitter ? emitter : "", emitter && strategy ? ", " : "", strategy ? strategy : "");
        op->strategy = arena_strdup(&w->k->arena, str_text(&s), err);
        str_release(&s);
    }
    // On a GPU a product is a kernel of Triton's, or a call of a library.
    const char *kind = json_string_value(json_object_get(json_object_get(config, "fusion_backend_config"), "kind"));
    if (kind && *kind)
        op->strategy = arena_strdup(&w->k->arena, kind, err);
    else if (op->kind == COMPILE_OP && a.custom_call_target.size)
        op->strategy = copied(&w->k->arena, a.custom_call_target, err);
    json_decref(config);
    return op->strategy ? 0 : ERR_MEMORY;
}

// Where in the model an operation is, and the row of the report: our own modules know, of others the name tells it.
static int take_scope(struct compile_case *k, struct compile_op *op, struct error *err)
{
    op->scope = copied(&k->arena, op->in->metadata.op_name, err);
    op->group = op->scope;
    if (!op->scope)
        return ERR_MEMORY;
    if (!*op->scope) {
        op->group = op->kind == COMPILE_PREFETCH ? "prefetches" : "without a name";
        return 0;
    }
    for (int i = 0; k->module && i < k->module->n_instructions; i++) {
        const struct instruction *in = &k->module->instructions[i];
        if (strcmp(in->scope, op->scope) == 0) {
            op->group = in->group;
            return 0;
        }
    }
    if (k->module)
        return 0;
    const char *scope;
    int rc = hlo_scope(op->in, &k->arena, &scope, err);
    return rc ? rc : hlo_scope_group(scope, &k->arena, &op->group, err);
}

static void take_code(struct walk *w, struct compile_op *op)
{
    struct code *c = find_code(w->codes, op->in->name);
    if (!c)
        return;
    op->code = &c->bundles;
    op->bundles = (double)c->bundles.bundles;
    op->shares_code = c->used;
    c->used = true;
}

static int transfer(struct walk *w, const struct hlo_instruction *in, struct compile_op *op)
{
    struct hlo_attributes a;
    int rc = hlo_attributes_read(&a, &w->k->hlo, in, w->scratch, w->err);
    op->collective = rc ? NULL : compile_between_slices(in, &a);
    op->between = op->collective != NULL;
    return rc;
}

static int add_op(struct walk *w, const struct hlo_instruction *in, double runs, bool unknown, int depth)
{
    struct compile_case *k = w->k;
    const struct hlo_instruction *of;
    if (k->n_ops == k->cap_ops) {
        size_t cap = k->cap_ops ? 2 * k->cap_ops : 256;
        struct compile_op *more = arena_new(&k->arena, struct compile_op, cap, w->err);
        if (!more)
            return ERR_MEMORY;
        if (k->n_ops)
            memcpy(more, k->ops, k->n_ops * sizeof *more);
        k->ops = more;
        k->cap_ops = cap;
    }
    struct compile_op *op = &k->ops[k->n_ops];
    *op = (struct compile_op){.in = in,
                              .depth = depth,
                              .runs = runs,
                              .runs_unknown = unknown,
                              .type = DT_INVALID,
                              .asked = DT_INVALID,
                              .bundles = NAN,
                              .iterations = 1,
                              .estimated_cycles = NAN,
                              .compute_s = NAN,
                              .memory_s = NAN,
                              .matrix_s = NAN,
                              .passes = NAN,
                              .strategy = ""};
    op->collective = compile_collective_of(in, &of);
    int rc = 0;
    if (hlo_is(in, "send") || hlo_is(in, "recv"))
        rc = transfer(w, in, op);
    bool start = ends(in, "-start"), done = ends(in, "-done") || ends(in, "-update");
    done |= op->between && hlo_is(in, "send"); // counted where it arrives
    if (hlo_is(in, "while"))
        op->kind = COMPILE_LOOP;
    else if (done)
        op->kind = COMPILE_WAIT;
    else if (op->collective)
        op->kind = COMPILE_COLLECTIVE;
    else if (start) // into the memory of vectors, while something else runs
        op->kind = hlo_memory_space(first_result(&in->shape)) == 1 || hlo_is(in, "async-start") ? COMPILE_PREFETCH
                                                                                                : COMPILE_TRANSFER;
    op->name = copied(&k->arena, in->name, w->err);
    op->what = copied(&k->arena, hlo_category(in), w->err);
    if (!op->name || !op->what)
        return ERR_MEMORY;
    if (!rc)
        rc = take_scope(k, op, w->err);
    if (!rc)
        rc = read_config(w, op, in, w->err);
    if (!rc && op->kind == COMPILE_COLLECTIVE)
        rc = compile_collective_describe(k, op, of, w->scratch, w->err);
    if (rc)
        return rc;
    struct hlo_cost cost = {0};
    if (op->kind == COMPILE_OP || op->kind == COMPILE_COLLECTIVE)
        rc = hlo_cost_instruction(&k->costs, in, &cost, w->err);
    if (rc)
        return rc;
    op->flop = hlo_cost_product_flop(&cost);
    for (int t = 0; t < DT_COUNT && op->flop > 0; t++) {
        if (cost.product_flop[t] > 0 && (op->type == DT_INVALID || cost.product_flop[t] > cost.product_flop[op->type]))
            op->type = (enum dtype)t;
    }
    if (op->kind == COMPILE_PREFETCH || op->kind == COMPILE_TRANSFER)
        op->hbm_bytes = in->n_operands ? (double)hlo_padded_bytes(made_ahead(in)) : 0;
    else if (op->kind == COMPILE_OP)
        op->hbm_bytes = moved(k, in);
    if (op->kind == COMPILE_OP || op->kind == COMPILE_COLLECTIVE)
        take_code(w, op);
    rc = op->flop > 0 ? compile_case_arithmetic(k, op, w->err) : 0;
    k->n_ops += rc == 0;
    return rc;
}

static int walk(struct walk *w, const struct hlo_computation *c, double runs, bool unknown, int depth)
{
    int rc = 0;
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = c->schedule ? c->schedule[i] : &c->instructions[i];
        if (is_name(in))
            continue;
        bool calls = hlo_is(in, "call") || hlo_is(in, "conditional");
        if (!calls)
            rc = add_op(w, in, runs, unknown, depth);
        if (depth == MAX_DEPTH)
            continue;
        if (!rc && hlo_is(in, "while") && in->n_called == 2) {
            int64_t trips;
            rc = hlo_trip_count(&w->k->hlo, in, w->scratch, &trips, w->err);
            w->k->loops_unknown |= trips < 0;
            size_t at = w->k->n_ops - 1;
            w->k->ops[at].runs = runs * (trips < 0 ? 1 : (double)trips);
            w->k->ops[at].runs_unknown = trips < 0;
            if (!rc)
                rc = walk(w, in->called[0], w->k->ops[at].runs, unknown || trips < 0, depth + 1);
        }
        for (size_t b = 0; calls && b < in->n_called && !rc; b++)
            rc = walk(w, in->called[b], runs, unknown || in->n_called > 1, depth + hlo_is(in, "conditional"));
    }
    return rc;
}

int compile_case_schedule(struct compile_case *k, const struct worker_executable *e, const char *folder,
                          struct error *err)
{
    struct codes codes = {.n = 0};
    struct arena scratch;
    arena_init(&scratch);
    k->has_core = chip_core(k->target.chip, &k->core);
    int rc = folder ? read_codes(k, folder, &codes, err) : 0;
    if (!rc && e->optimized_length) {
        char *copy = arena_alloc(&k->arena, e->optimized_length, 1, err);
        rc = copy ? 0 : ERR_MEMORY;
        if (!rc) {
            memcpy(copy, e->optimized, e->optimized_length);
            rc = hlo_read(&k->hlo, copy, e->optimized_length, "the optimised program", &k->arena, err);
        }
        if (!rc)
            rc = hlo_costs_init(&k->costs, &k->hlo, &k->arena, err);
        struct walk w = {k, &codes, &scratch, err};
        if (!rc)
            rc = walk(&w, k->hlo.entry, 1, false, 0);
    }
    arena_release(&scratch);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
// Policies as text, what they refuse, what they say about themselves, and which types the pass puts where.
#include "ir/policy.h"

#include <stdlib.h>

#include "ir/retype.h"
#include "models/bert.h"
#include "test.h"

static const char *const accepted[] = {
    "f32",
    "bf16",
    "f16",
    "w8a16",
    "w8a8",
    "w4a16",
    "w=f32",
    "w=int8",
    "w=int4",
    "w=int8/group:64",
    "w=s8/row,a=f16",
    "w=bf16,a=f32,op=f16,acc=f16,red=bf16,norm=f16,out=bf16",
    "w=int4/group:2,a=f32,op=f32,out=f16",
    "w=int8/channel,a=int8/row,op=int8,acc=int32,red=bf16",
    "op=bf16,w=f32,kv=int8,grad=bf16,master=f32,opt=f32",
    "w8a8-static",
    "fp8",
    "w8a16,kv=int8",
    "bf16,opt=int8,grad=bf16",
    "w=int8/tensor",
    "w=int4/tensor,a=f16",
    "w=int8,a=int8/tensor",
    "w=int8/tensor,a=int8/tensor:static:p99.99",
    "w=int8,a=int8/tensor:static:p100",
    "w=int8,a=uint8",
    "w=int8,a=uint8/tensor:static",
    "w=s8,a=u8/tensor:static:p99",
    "w=int8,a=int16/row,red=bf16",
    "w=int8,a=int16/tensor:static",
    "w=fp8,a=fp8",
    "w=f8e4m3fn/channel,a=f8e4m3fn/row",
    "w=f8e5m2,a=f8e5m2/tensor:static:p99.9,acc=bf16",
    "w=f8e4m3fn,a=bf16",
    "w=f8e5m2/group:8,a=f16,op=f16",
};
#define N_ACCEPTED (sizeof accepted / sizeof *accepted)

static bool same_fields(const struct policy *a, const struct policy *b)
{
    return a->a_grain == b->a_grain && a->a_static == b->a_static && a->a_percentile == b->a_percentile &&
           a->w == b->w && a->vectors == b->vectors && a->w_grain == b->w_grain && a->w_group == b->w_group &&
           a->a == b->a && a->between == b->between && a->op == b->op && a->op_inner == b->op_inner &&
           a->acc == b->acc && a->red == b->red && a->norm == b->norm && a->out == b->out && a->kv == b->kv &&
           a->grad == b->grad && a->master == b->master && a->opt == b->opt;
}

TEST(ir_policy_spells_what_it_parses)
{
    struct error err = {0};
    for (size_t i = 0; i < N_ACCEPTED; i++) {
        struct policy p, q;
        struct str text, again;
        str_init(&text);
        str_init(&again);
        REQUIRE_OK(policy_parse(&p, accepted[i], &err), &err);
        CHECK_STR(p.name, accepted[i]);
        policy_spell(&p, &text);
        REQUIRE_OK(policy_parse(&q, str_text(&text), &err), &err);
        policy_spell(&q, &again);
        CHECK_STR(str_text(&again), str_text(&text));
        CHECK(same_fields(&p, &q));
        str_release(&text);
        str_release(&again);
    }
}

// The presets are what their names say; each is in the list that error messages show.
TEST(ir_policy_presets)
{
    static const struct {
        const char *name;
        enum dtype w, a, op, acc;
        enum granularity grain;
        int64_t group;
        enum granularity a_grain;
        bool a_static;
    } want[] = {
        {"f32", DT_F32, DT_F32, DT_F32, DT_F32, GRAIN_CHANNEL, 0, GRAIN_CHANNEL, false},
        {"bf16", DT_BF16, DT_BF16, DT_BF16, DT_F32, GRAIN_CHANNEL, 0, GRAIN_CHANNEL, false},
        {"f16", DT_F16, DT_F16, DT_F16, DT_F32, GRAIN_CHANNEL, 0, GRAIN_CHANNEL, false},
        {"w8a16", DT_S8, DT_BF16, DT_BF16, DT_F32, GRAIN_CHANNEL, 0, GRAIN_CHANNEL, false},
        {"w8a8", DT_S8, DT_S8, DT_S8, DT_S32, GRAIN_CHANNEL, 0, GRAIN_CHANNEL, false},
        {"w8a8-static", DT_S8, DT_S8, DT_S8, DT_S32, GRAIN_CHANNEL, 0, GRAIN_TENSOR, true},
        {"w4a16", DT_S4, DT_BF16, DT_BF16, DT_F32, GRAIN_GROUP, 32, GRAIN_CHANNEL, false},
        {"fp8", DT_F8E4M3FN, DT_F8E4M3FN, DT_F8E4M3FN, DT_F32, GRAIN_TENSOR, 0, GRAIN_TENSOR, false},
    };
    struct error err = {0};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct policy p;
        REQUIRE_OK(policy_parse(&p, want[i].name, &err), &err);
        CHECK(strstr(policy_presets(), want[i].name));
        CHECK(p.w == want[i].w && p.a == want[i].a && p.op == want[i].op && p.acc == want[i].acc);
        CHECK(p.w_grain == want[i].grain && p.w_group == want[i].group);
        CHECK(p.a_grain == want[i].a_grain && p.a_static == want[i].a_static);
        CHECK(p.red == DT_F32 && p.norm == DT_F32 && p.out == DT_F32);
        CHECK(p.vectors == (dtype_bits(p.w) >= 16 ? p.w : DT_F32));
        CHECK(p.between == (dtype_bits(p.a) == 8 ? DT_F32 : p.a));
        CHECK(p.op_inner == (dtype_bits(p.op) == 8 ? DT_BF16 : p.op));
        CHECK(p.kv == DT_INVALID && p.grad == DT_INVALID && p.master == DT_INVALID && p.opt == DT_INVALID);
    }
}

TEST(ir_policy_refuses)
{
    static char long_text[600];
    memset(long_text, 'w', sizeof long_text - 1);
    static const struct {
        const char *text, *reason;
    } refused[] = {
        {"", "neither a preset (f32, bf16"},
        {"int8", "'int8' is neither a preset"},
        {"w=f32,", "'' is neither a preset"},
        {"W8A8", "neither a preset"},
        {"a=f32", "does not say how weights are stored (w=)"},
        {"w=f99", "w=f99: no such type"},
        {"w=", "no such type"},
        {"w=f32,x=f32", "no field 'x' (w, a, op"},
        {"w=f32,w=f32", "w= is given twice"},
        {"w=f32,a=f32,a=bf16", "a= is given twice"},
        {"w=f32,op=f32/row", "op= takes no granularity"},
        {"w=f32/channel", "w=f32 takes no granularity"},
        {"w=f32,a=bf16/row", "a=bf16 takes no granularity"},
        {"w=int8/block", "w=.../block: expected tensor, channel, row or group:N"},
        {"w=int8/group:0", "expected tensor"},
        {"w=int8/group:-32", "expected tensor"},
        {"w=int8/group:65537", "expected tensor"},
        {"w=int8/group:99999999999999999999", "expected tensor"},
        {"w=int8/group:32x", "expected tensor"},
        {"w=int8/group: 32", "expected tensor"},
        {"w=int8/group:", "expected tensor"},
        {"w=int8,a=int8/group:4,op=int8", "quantised per row (a=s8/row) or per tensor"},
        {"w=int8,a=int8/row:static", "a static scale is one per tensor (a=s8/tensor:static)"},
        {"w=int8,a=int8/tensor:dynamic", "a=.../tensor:dynamic: expected static"},
        {"w=int8,a=int8/tensor:", "expected static"},
        {"w=int8,a=int8/tensor:static:99", "expected p and a percentage above 50"},
        {"w=int8,a=int8/tensor:static:p50", "above 50 and at most 100"},
        {"w=int8,a=int8/tensor:static:p100.5", "above 50 and at most 100"},
        {"w=int8,a=int8/tensor:static:pnan", "above 50 and at most 100"},
        {"w=int8,a=int8/tensor:static:p99:p98", "above 50 and at most 100"},
        {"w=int8/tensor:static", "w=.../tensor:static: expected tensor, channel"},
        {"w=int8,a=f32/tensor:static", "a=f32 takes no granularity"},
        {"w=bf16,a=fp8", "f8e4m3fn products need w=f8e4m3fn/tensor or w=f8e4m3fn/channel"},
        {"w=f8e5m2,a=fp8", "f8e4m3fn products need"},
        {"w=fp8/group:32,a=fp8", "f8e4m3fn products need"},
        {"w=fp8,a=fp8,op=bf16", "f8e4m3fn activations need op=f8e4m3fn"},
        {"w=fp8,a=bf16,op=fp8", "f8e4m3fn products need"},
        {"w=fp8,a=fp8,acc=int32", "acc, red, norm and out are"},
        {"w=f8e4m3", "weights cannot be stored as f8e4m3 "},
        {"w=int8,a=f8e3m4", "activations cannot be f8e3m4"},
        {"w=int16", "weights cannot be stored as s16"},
        {"w=uint8", "weights cannot be stored as u8"},
        {"w=int8,a=uint8,op=int8", "s8 products need"},
        {"w=int8/group:32,a=uint8", "u8 products need w=int8/channel, a=u8/row or a=u8/tensor"},
        {"w=int4,a=int16", "s16 products need"},
        {"w=s16", "weights cannot be stored as s16"},
        {"w=f64", "weights cannot be stored as f64"},
        {"w=int8/group:32,a=int8,op=int8", "s8 products need w=int8/channel"},
        {"w=int4,a=int8,op=int8", "s8 products need"},
        {"w=int8,a=bf16,op=int8", "s8 products need"},
        {"w=int8,a=int8,op=int8,acc=f32", "s8 products need"},
        {"w=f32,op=f64", "products cannot take f64 operands"},
        {"w=int8,a=int8,op=bf16", "s8 activations need op=s8"},
        {"w=f32,a=s32,op=f32", "activations cannot be s32"},
        {"w=f32,acc=f64", "acc, red, norm and out are f32, bf16 or f16, not f64"},
        {"w=f32,acc=int32", "not s32"},
        {"w=f32,red=int8", "not s8"},
        {"w=f32,norm=f64", "not f64"},
        {"w=f32,out=pred", "not pred"},
        {long_text, "is longer than 511 characters"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct policy p;
        struct error err = {0};
        if (!CHECK_INT(policy_parse(&p, refused[i].text, &err), ERR_USAGE) ||
            !CHECK(strstr(err.message, refused[i].reason)))
            printf("  %.60s: \"%s\", not \"%s\"\n", refused[i].text, err.message, refused[i].reason);
    }
    struct policy p;
    struct error err = {0};
    REQUIRE_OK(policy_parse(&p, "f16", &err), &err);
    CHECK_INT(policy_check(&p, "cpu", &err), 0);
    CHECK_INT(policy_check(&p, "tpu", &err), ERR_DEVICE);
    CHECK(strstr(err.message, "use bf16"));
    error_clear(&err);
    REQUIRE_OK(policy_parse(&p, "w8a8", &err), &err);
    CHECK_INT(policy_check(&p, "tpu", &err), 0);
}

TEST(ir_policy_parts_say_everything)
{
    static const char *const parts[] = {"weights",        "biases and norm parameters",
                                        "activations",    "operands",
                                        "accumulation",   "reductions",
                                        "softmax",        "normalisation",
                                        "output",         "KV cache",
                                        "gradients",      "master weights",
                                        "optimizer state"};
    struct error err = {0};
    for (size_t i = 0; i < N_ACCEPTED; i++) {
        struct policy p;
        struct str text;
        struct jw w;
        str_init(&text);
        jw_init(&w, &text, true);
        REQUIRE_OK(policy_parse(&p, accepted[i], &err), &err);
        policy_parts_json(&p, false, &w);
        REQUIRE_OK(jw_finish(&w, &err), &err);
        json_t *all = json_parse(str_text(&text), text.length, "parts", &err);
        REQUIRE(all && json_array_size(all) == sizeof parts / sizeof *parts);
        const enum dtype types[] = {p.w, p.vectors, p.a, p.op, p.acc, p.red, p.red, p.norm, p.out};
        for (size_t k = 0; k < json_array_size(all); k++) {
            const json_t *part = json_array_get(all, k);
            CHECK_STR(json_string_value(json_object_get(part, "part")), parts[k]);
            CHECK_STR(json_string_value(json_object_get(part, "type")),
                      k < sizeof types / sizeof *types ? dtype_name(types[k]) : "not applicable");
            CHECK(json_string_length(json_object_get(part, "detail")) > 10);
        }
        const char *weights = json_string_value(json_object_get(json_array_get(all, 0), "detail"));
        CHECK(policy_has_scales(p.w) == (strstr(weights, "scale = amax") != NULL));
        const char *activations = json_string_value(json_object_get(json_array_get(all, 2), "detail"));
        CHECK(policy_has_scales(p.a) == (strstr(activations, "scale = ") != NULL));
        CHECK(p.a_static == (strstr(activations, "static: from") != NULL));
        CHECK((p.w_grain == GRAIN_GROUP) == (strstr(weights, "groups of") != NULL));
        CHECK((p.kv != DT_INVALID) ==
              (strstr(json_string_value(json_object_get(json_array_get(all, 9), "detail")), "asked for") != NULL));
        json_decref(all);
        str_release(&text);
    }
}

// ---- the pass

static void small_bert(struct bert *b)
{
    bert_minilm(b);
    b->config.hidden_size = 16;
    b->config.num_hidden_layers = 1;
    b->config.num_attention_heads = 4;
    b->config.intermediate_size = 24;
    b->config.vocab_size = 40;
    b->config.max_position_embeddings = 12;
}

static bool is_weight_linear(const struct instruction *in)
{
    return in->op == OP_DOT && !strstr(in->scope, "scores");
}

// Every product, every arithmetic operation and every value that is handed on has the type that the policy gives it.
static void check_types(const struct policy *p, const struct module *m)
{
    int linears = 0, inners = 0, norms = 0, stores = 0, codes = 0;
    bool has_codes = policy_has_scales(p->w);
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        enum op_class class = op_info(in->op)->class;
        enum dtype t = in->shape.dtype;
        if (is_weight_linear(in)) {
            linears++;
            CHECK_INT(m->instructions[in->operands[0]].shape.dtype, p->op);
            CHECK_INT(m->instructions[in->operands[1]].shape.dtype, dtype_is_integer(p->op) ? DT_S8 : p->op);
            CHECK_INT(t, p->acc);
        } else if (in->op == OP_DOT) {
            inners++;
            CHECK_INT(m->instructions[in->operands[0]].shape.dtype, p->op_inner);
            CHECK_INT(t, p->acc == DT_S32 ? DT_F32 : p->acc);
        }
        if (in->flags & FLAG_STORE) {
            stores++;
            CHECK_INT(t, p->between);
        }
        bool arithmetic = class == OPC_UNARY || class == OPC_BINARY || class == OPC_REDUCE || class == OPC_SELECT;
        if (arithmetic && dtype_is_float(t) && !has_codes) {
            norms += in->domain == DOMAIN_NORM;
            CHECK_INT(t, in->domain == DOMAIN_NORM ? p->norm : p->red);
        }
    }
    CHECK_INT(linears, 4);
    CHECK_INT(inners, 2);
    CHECK(norms > 20 || has_codes);
    CHECK(stores >= 10);
    for (int i = 0; i < m->n_parameters; i++) {
        const struct parameter *q = &m->parameters[i];
        const struct shape *s = &m->instructions[q->instruction].shape;
        if (q->role != ROLE_WEIGHT)
            continue;
        codes += q->binding.part == BIND_CODES;
        enum dtype want = q->binding.part == BIND_CODES    ? p->w == DT_S4 ? DT_U8 : p->w
                          : q->binding.part == BIND_SCALES ? DT_F32
                          : s->rank == 2                   ? p->w
                                                           : p->vectors;
        CHECK_INT(s->dtype, want);
    }
    CHECK_INT(codes, has_codes ? 7 : 0);
    for (int i = 0; i < m->n_results && i < 1; i++)
        CHECK_INT(m->instructions[m->results[i]].shape.dtype, p->out);
}

TEST(ir_policy_pass_puts_types_where_they_belong)
{
    struct error err = {0};
    struct bert bert;
    struct arena arena;
    struct module f32;
    small_bert(&bert);
    arena_init(&arena);
    module_init(&f32, &arena, "f32");
    REQUIRE_OK(bert_module(&bert, &(struct bert_build){.batch = 2, .seq = 5, .first_layer = -1}, &f32, &err), &err);
    for (size_t i = 0; i < N_ACCEPTED; i++) {
        for (int instrument = 0; instrument < 2; instrument++) {
            struct policy p;
            struct module m;
            REQUIRE_OK(policy_parse(&p, accepted[i], &err), &err);
            if (p.w_grain == GRAIN_GROUP)
                p.w_group = 8; // divides 16 and 24
            module_init(&m, &arena, accepted[i]);
            REQUIRE_OK(module_apply_policy(&f32, &p, instrument, &m, &err), &err);
            if (!instrument)
                check_types(&p, &m);
            CHECK_INT(m.n_results, instrument ? 3 + policy_has_scales(p.a) : 1);
            // A policy is put into a module once, and the reference is made before.
            struct module twice;
            module_init(&twice, &arena, "twice");
            if (policy_has_scales(p.w)) {
                CHECK_INT(module_apply_policy(&m, &p, false, &twice, &err), ERR_INTERNAL);
                CHECK(strstr(err.message, "has a policy already"));
                error_clear(&err);
                CHECK_INT(module_retype_f64(&m, &twice, &err), ERR_INTERNAL);
                CHECK(strstr(err.message, "is quantised"));
                error_clear(&err);
            }
        }
    }
    arena_release(&arena);
}

TEST(ir_policy_pass_refuses_groups_that_do_not_fit)
{
    struct error err = {0};
    struct arena arena;
    struct module f32, m;
    struct builder b;
    struct policy p;
    arena_init(&arena);
    module_init(&f32, &arena, "f32");
    builder_init(&b, &f32);
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, 15), NULL);
    build_result(&b, "y", build_linear(&b, x, build_weight(&b, "odd.weight", SHAPE(DT_F32, 4, 15)), DT_F32));
    REQUIRE_OK(builder_finish(&b, &err), &err);
    REQUIRE_OK(policy_parse(&p, "w4a16", &err), &err);
    module_init(&m, &arena, "m");
    CHECK_INT(module_apply_policy(&f32, &p, false, &m, &err), ERR_USAGE);
    CHECK_STR(err.where, "odd.weight");
    CHECK(strstr(err.message, "its 15 contracted elements are not a multiple of the group of 32"));
    error_clear(&err);
    REQUIRE_OK(policy_parse(&p, "w=int4/channel", &err), &err);
    module_init(&m, &arena, "m");
    CHECK_INT(module_apply_policy(&f32, &p, false, &m, &err), ERR_USAGE);
    CHECK(strstr(err.message, "its 15 contracted elements cannot be packed two to a byte"));
    arena_release(&arena);
}

// What the passes make does not lean on what it was made from.
TEST(ir_policy_pass_keeps_nothing_of_its_source)
{
    struct error err = {0};
    struct bert bert;
    struct arena source, arena;
    struct module f32, f64, m;
    struct policy p;
    struct str before[2], after[2];
    struct module *made[2] = {&f64, &m};
    small_bert(&bert);
    arena_init(&source);
    arena_init(&arena);
    module_init(&f32, &source, "f32");
    module_init(&f64, &arena, "f64");
    module_init(&m, &arena, "m");
    REQUIRE_OK(bert_module(&bert, &(struct bert_build){.batch = 2, .seq = 5, .first_layer = -1}, &f32, &err), &err);
    REQUIRE_OK(module_retype_f64(&f32, &f64, &err), &err);
    REQUIRE_OK(policy_parse(&p, "w8a8", &err), &err);
    REQUIRE_OK(module_apply_policy(&f32, &p, true, &m, &err), &err);
    for (int i = 0; i < 2; i++) {
        str_init(&before[i]);
        str_init(&after[i]);
        REQUIRE_OK(module_print(made[i], &before[i], &err), &err);
    }
    // What is released may still read as it was: spoil it first. (Before the first scope the names are literals.)
    for (int i = 0; i < f32.n_instructions; i++) {
        const struct instruction *in = &f32.instructions[i];
        if (in->op == OP_PARAMETER)
            continue;
        memset((char *)(uintptr_t)in->scope, '?', strlen(in->scope));
        memset((char *)(uintptr_t)in->group, '?', strlen(in->group));
    }
    for (int i = 0; i < f32.n_parameters; i++) {
        for (int k = 0; k < f32.parameters[i].binding.n_sources; k++)
            memset((char *)(uintptr_t)f32.parameters[i].binding.sources[k], '?', 4);
    }
    arena_release(&source);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(module_print(made[i], &after[i], &err), &err);
        CHECK(strcmp(str_text(&after[i]), str_text(&before[i])) == 0);
        CHECK(strncmp(made[i]->parameters[made[i]->n_parameters - 1].binding.sources[0], "encoder.", 8) == 0);
        str_release(&before[i]);
        str_release(&after[i]);
    }
    arena_release(&arena);
}

TEST(ir_policy_unit_of_contracted_elements)
{
    struct arena arena;
    struct module m;
    struct builder b;
    struct error err = {0};
    arena_init(&arena);
    module_init(&m, &arena, "m");
    builder_init(&b, &m);
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, 96), NULL);
    build_result(&b, "x", x);
    REQUIRE_OK(builder_finish(&b, &err), &err);
    CHECK_INT(module_contracted_unit(&m), 0); // no weight
    module_init(&m, &arena, "m");
    builder_init(&b, &m);
    x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, 96), NULL);
    int y = build_parameter(&b, ROLE_INPUT, "y", SHAPE(DT_F32, 2, 80), NULL);
    build_result(&b, "x", build_linear(&b, x, build_weight(&b, "w", SHAPE(DT_F32, 7, 96)), DT_F32));
    build_result(&b, "y", build_linear(&b, y, build_weight(&b, "v", SHAPE(DT_F32, 5, 80)), DT_F32));
    REQUIRE_OK(builder_finish(&b, &err), &err);
    CHECK_INT(module_contracted_unit(&m), 16);
    arena_release(&arena);
}

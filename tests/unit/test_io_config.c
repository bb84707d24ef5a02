// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "io/hf_config.h"
#include "test.h"

#define BASE                                                                                                           \
    "\"hidden_size\":384,\"num_hidden_layers\":6,\"num_attention_heads\":12,\"intermediate_size\":1536,"               \
    "\"vocab_size\":30522,\"max_position_embeddings\":512"

TEST(io_config_of_the_demo_model)
{
    struct error e = {0};
    struct hf_config c;
    struct bert_config b;
    struct sentence_config s;
    char path[1024];
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    REQUIRE_OK(hf_config_open(&c, path, &e), &e);
    CHECK_STR(c.model_type, "bert");
    CHECK_STR(c.architecture, "BertModel");
    REQUIRE_OK(hf_config_bert(&c, &b, &e), &e);
    CHECK_INT(b.hidden_size, 384);
    CHECK_INT(b.num_hidden_layers, 6);
    CHECK_INT(b.num_attention_heads, 12);
    CHECK_INT(b.intermediate_size, 1536);
    CHECK_INT(b.vocab_size, 30522);
    CHECK_INT(b.max_position_embeddings, 512);
    CHECK_INT(b.type_vocab_size, 2);
    CHECK_NEAR(b.layer_norm_eps, 1e-12, 0);
    CHECK_INT(b.hidden_act, HF_GELU);
    int64_t pad = -1;
    REQUIRE_OK(json_get_int(c.root, "pad_token_id", c.path, &pad, &e), &e);
    CHECK_INT(pad, 0);
    hf_config_release(&c);
    REQUIRE_OK(sentence_config_open(&s, path, &e), &e);
    CHECK(s.found && s.normalize);
    CHECK_INT(s.pooling, POOLING_MEAN);
    CHECK_INT(s.max_seq_length, 256);
}

static int parse_bert(const char *text, struct bert_config *b, struct error *e)
{
    struct hf_config c;
    int rc = hf_config_parse(&c, text, strlen(text), "config.json", e);
    if (rc)
        return rc;
    rc = hf_config_bert(&c, b, e);
    hf_config_release(&c);
    return rc;
}

TEST(io_config_defaults)
{
    struct error e = {0};
    struct bert_config b;
    REQUIRE_OK(parse_bert("{\"model_type\":\"bert\"," BASE "}", &b, &e), &e);
    CHECK_INT(b.type_vocab_size, 2);
    CHECK_NEAR(b.layer_norm_eps, 1e-12, 0);
    CHECK_INT(b.hidden_act, HF_GELU);
    REQUIRE_OK(parse_bert("{\"model_type\":\"bert\",\"hidden_act\":\"gelu_new\"," BASE "}", &b, &e), &e);
    CHECK_INT(b.hidden_act, HF_GELU_TANH);
}

TEST(io_config_refuses)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "not valid JSON: it is empty"},
        {" \n\t", "not valid JSON: it is empty"},
        {"{", "not valid JSON at line 1"},
        {"{\"model_type\":\"b\\u0000\"}", "\\u0000 is not allowed in a text"},
        {"[]", "\"model_type\" is missing"},
        {"{}", "\"model_type\" is missing"},
        {"{\"model_type\":5}", "\"model_type\" must be a string"},
        {"{\"model_type\":\"t5\"}", "model_type \"t5\" is not supported (supported: bert)"},
        {"{\"model_type\":\"bert\",\"architectures\":[3]}", "\"architectures\" must be a string"},
        {"{\"model_type\":\"bert\"}", "\"hidden_size\" is missing"},
        {"{\"model_type\":\"bert\",\"hidden_size\":-384}", "\"hidden_size\" is -384: it must be between 1 and 1048576"},
        {"{\"model_type\":\"bert\",\"hidden_size\":384.0}", "\"hidden_size\" must be an integer"},
        {"{\"model_type\":\"bert\",\"hidden_size\":9000000000}", "\"hidden_size\" is 9000000000"},
        {"{\"model_type\":\"bert\",\"hidden_size\":384,\"num_hidden_layers\":0}", "\"num_hidden_layers\" is 0"},
        {"{\"model_type\":\"bert\",\"layer_norm_eps\":0," BASE "}", "\"layer_norm_eps\" is 0"},
        {"{\"model_type\":\"bert\",\"layer_norm_eps\":\"x\"," BASE "}", "\"layer_norm_eps\" must be a number"},
        {"{\"model_type\":\"bert\",\"hidden_act\":\"mish\"," BASE "}", "activation \"mish\" is not supported"},
        {"{\"model_type\":\"bert\",\"position_embedding_type\":\"relative_key\"," BASE "}",
         "only \"absolute\" is supported"},
        {"{\"model_type\":\"bert\",\"position_embedding_type\":1," BASE "}", "only \"absolute\" is supported"},
        {"{\"model_type\":\"bert\",\"type_vocab_size\":0," BASE "}", "\"type_vocab_size\" is 0"},
        {"{\"model_type\":\"bert\",\"model_type\":\"bert\"," BASE "}", "duplicate"},
        {"{\"model_type\":\"bert\",\"hidden_size\":385,\"num_hidden_layers\":6,\"num_attention_heads\":12,"
         "\"intermediate_size\":1536,\"vocab_size\":30522,\"max_position_embeddings\":512}",
         "\"hidden_size\" 385 is not a multiple of 12 attention heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        struct bert_config b;
        CHECK_INT(parse_bert(cases[i].text, &b, &e), ERR_INPUT);
        CHECK_STR(e.where, "config.json");
        if (!CHECK(strstr(e.message, cases[i].message) != NULL))
            printf("  %s: %s\n", cases[i].text, e.message);
    }
    struct error e = {0};
    struct hf_config c;
    CHECK_INT(hf_config_open(&c, test_dir(), &e), ERR_INPUT);
    CHECK(strstr(e.where, "/config.json") != NULL);
}

// modules.json and the pooling module's config.json, as text; NULL leaves the file out.
static int open_sentence(struct sentence_config *s, const char *modules, const char *pooling, const char *length,
                         struct error *e)
{
    char path[512];
    snprintf(path, sizeof path, "%s/pool", test_dir());
    mkdir(path, 0777);
    const char *const names[3] = {"modules.json", "pool/config.json", "sentence_bert_config.json"};
    const char *const texts[3] = {modules, pooling, length};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", test_dir(), names[i]);
        unlink(path);
        if (texts[i] && file_write(path, texts[i], strlen(texts[i]), e))
            return ERR_IO;
    }
    return sentence_config_open(s, test_dir(), e);
}

#define MODULE(type, path) "{\"type\":\"sentence_transformers.models." type "\",\"path\":\"" path "\"}"

TEST(io_config_sentence_files)
{
    struct error e = {0};
    struct sentence_config s;
    REQUIRE_OK(open_sentence(&s, NULL, NULL, NULL, &e), &e);
    CHECK(!s.found && s.normalize && s.pooling == POOLING_MEAN && s.max_seq_length == 0);
    const char *two = "[" MODULE("Transformer", "") "," MODULE("Pooling", "pool") "]";
    REQUIRE_OK(open_sentence(&s, two, "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}",
                             "{\"max_seq_length\":null}", &e),
               &e);
    CHECK(s.found && !s.normalize && s.pooling == POOLING_CLS && s.max_seq_length == 0);
    REQUIRE_OK(open_sentence(&s, two, "{\"pooling_mode\":\"max\"}", "{\"max_seq_length\":64}", &e), &e);
    CHECK(s.pooling == POOLING_MAX && s.max_seq_length == 64);
    static const struct {
        const char *modules, *pooling, *length, *message;
    } bad[] = {
        {"{}", NULL, NULL, "must be an array of modules"},
        {"[1]", NULL, NULL, "\"type\" is missing"},
        {"[" MODULE("Transformer", "") "]", NULL, NULL, "lists no Pooling module"},
        {"[" MODULE("Dense", "2_Dense") "]", NULL, NULL,
         "module \"sentence_transformers.models.Dense\" is not supported"},
        {"[" MODULE("Pooling", "../pool") "]", "{}", NULL, "leads out of the directory"},
        {"[" MODULE("Pooling", "pool/..") "]", "{}", NULL, "leads out of the directory"},
        {"[" MODULE("Pooling", "/etc") "]", "{}", NULL, "leads out of the directory"},
        {"[" MODULE("Pooling", "pool") "]", NULL, NULL, "cannot be opened"},
        {"[" MODULE("Pooling", "pool") "]", "{}", NULL, "0 pooling modes are switched on"},
        {"[" MODULE("Pooling", "pool") "]", "{\"pooling_mode_lasttoken\":true}", NULL,
         "\"pooling_mode_lasttoken\" is not supported"},
        {"[" MODULE("Pooling", "pool") "]", "{\"pooling_mode\":\"lasttoken\"}", NULL,
         "pooling \"lasttoken\" is not supported"},
        {"[" MODULE("Pooling", "pool") "]", "{\"pooling_mode_cls_token\":true,\"pooling_mode_max_tokens\":true}", NULL,
         "2 pooling modes are switched on"},
        {NULL, NULL, "{\"max_seq_length\":-1}", "\"max_seq_length\" is -1"},
        {NULL, NULL, "{\"max_seq_length\":\"a\"}", "\"max_seq_length\" must be an integer"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error_clear(&e);
        CHECK_INT(open_sentence(&s, bad[i].modules, bad[i].pooling, bad[i].length, &e), ERR_INPUT);
        if (!CHECK(strstr(e.message, bad[i].message) != NULL))
            printf("  case %zu: %s: %s\n", i, e.where, e.message);
    }
}

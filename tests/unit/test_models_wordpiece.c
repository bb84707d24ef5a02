// SPDX-License-Identifier: Apache-2.0
// The tokenizer against fixtures made by tests/oracle/tokenizer.py with the reference tokenizer.
#include "models/wordpiece.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/str.h"
#include "fixture.h"
#include "test.h"

enum { MAX_IDS = 2048 };

static const char *at_top(const char *path)
{
    static char full[1024];
    snprintf(full, sizeof full, "%s/%s", test_top(), path);
    return full;
}

// Cuts the next field off a line that ends in a zero.
static char *field(char **line)
{
    char *begin = *line, *tab = strchr(begin, '\t');
    if (tab)
        *tab++ = 0;
    *line = tab ? tab : begin + strlen(begin);
    return begin;
}

// Encodes one line of strings.txt; prints what differs and returns false.
static bool check_case(const struct wordpiece *base, char *line, int number)
{
    const char *how = field(&line);
    unsigned long real = strtoul(field(&line), NULL, 10), invalid = strtoul(field(&line), NULL, 10);
    char *want = field(&line), *text = line;
    size_t n = fixture_unescape(text);

    struct wordpiece w = *base;
    bool lower = strchr(how, 'l'), strip = strchr(how, 's'), apart = strchr(how, 'c');
    size_t limit = strtoul(how + strspn(how, "lsc"), NULL, 10);
    struct error err = {0};
    struct wordpiece other;
    bool plain = lower && strip && apart;
    if (!plain) {
        w.config.do_lower_case = lower;
        w.config.strip_accents = strip;
        w.config.tokenize_chinese_chars = apart;
        if (wordpiece_open(&other, at_top("third_party/models/minilm/vocab.txt"), &w.config, &err))
            return test_check(false, __FILE__, number, err.message);
    }
    static int32_t ids[MAX_IDS], mask[MAX_IDS], types[MAX_IDS];
    struct wordpiece_info info;
    size_t seq = limit ? limit : MAX_IDS;
    memset(types, 0xFF, sizeof types);
    const char *texts[1] = {text};
    int rc = wordpiece_encode_batch(plain ? base : &other, texts, &n, 1, seq, ids, mask, types, &info, &err);
    if (!plain)
        wordpiece_release(&other);
    bool ok = rc == 0 && info.n_ids == real && info.invalid_utf8 == invalid;
    size_t n_want = 0;
    for (char *id = want; *id; n_want++) {
        ok &= n_want < seq && ids[n_want] == (int32_t)strtol(id, &id, 10);
        id += *id == ' ';
    }
    ok &= n_want == (strchr(how, 'p') ? seq : info.n_ids) && info.truncated == (info.n_full > info.n_ids);
    for (size_t i = 0; i < seq; i++)
        ok &= types[i] == 0 && mask[i] == (i < real) && (i < real || ids[i] == 0);
    if (!ok) {
        printf("  strings.txt:%d: %s: %zu ids (%lu), %zu ill-formed (%lu):", number, how, info.n_ids, real,
               info.invalid_utf8, invalid);
        for (size_t i = 0; i < info.n_ids; i++)
            printf(" %d", ids[i]);
        printf("\n");
    }
    return ok;
}

TEST(models_wordpiece_equals_reference)
{
    struct error err = {0};
    struct wordpiece_config config;
    REQUIRE_OK(wordpiece_config_read(&config, at_top("third_party/models/minilm/tokenizer_config.json"), &err), &err);
    CHECK_INT(config.model_max_length, 512);
    struct wordpiece w;
    REQUIRE_OK(wordpiece_open(&w, at_top("third_party/models/minilm/vocab.txt"), &config, &err), &err);
    struct str file;
    str_init(&file);
    REQUIRE_OK(file_read(&file, at_top("tests/fixtures/tokenizer/strings.txt"), 1u << 20, &err), &err);
    int number = 0, bad = 0;
    for (char *line = file.text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        if (number++)
            bad += !check_case(&w, line, number);
    }
    CHECK(number > 2000);
    CHECK_INT(bad, 0);
    str_release(&file);
    wordpiece_release(&w);
}

// The sentences the embedding fixtures are made from: they have not changed since, and give the same ids.
TEST(models_wordpiece_sentences)
{
    struct error err = {0};
    struct wordpiece_config config;
    struct wordpiece w;
    wordpiece_config_default(&config);
    REQUIRE_OK(wordpiece_open(&w, at_top("third_party/models/minilm/vocab.txt"), &config, &err), &err);
    struct str file, index;
    str_init(&file), str_init(&index);
    REQUIRE_OK(file_read(&file, at_top("data/sentences.txt"), 1u << 20, &err), &err);
    REQUIRE_OK(file_read(&index, at_top("tests/fixtures/minilm/index.json"), 1u << 20, &err), &err);
    json_t *o = json_parse(index.text, index.length, "index.json", &err);
    REQUIRE(o);
    const json_t *want = json_object_get(o, "ids");
    CHECK_INT(json_array_size(want), 200);
    const char *line = file.text;
    for (size_t i = 0; i < json_array_size(want); i++) {
        static int32_t ids[256];
        struct wordpiece_info info;
        const json_t *row = json_array_get(want, i);
        size_t n = strcspn(line, "\n"), bad = 0;
        REQUIRE_OK(wordpiece_encode(&w, line, n, ids, 256, &info, &err), &err);
        CHECK_INT(info.n_ids, json_array_size(row));
        for (size_t k = 0; k < info.n_ids; k++)
            bad += json_integer_value(json_array_get(row, k)) != ids[k];
        CHECK_INT(bad, 0);
        line += n + 1;
    }
    char hex[65];
    REQUIRE_OK(sha256_bytes(file.text, (size_t)(line - file.text), hex, &err), &err);
    CHECK_STR(hex, json_string_value(json_object_get(o, "sentences_sha256")));
    json_decref(o);
    str_release(&file), str_release(&index);
    wordpiece_release(&w);
}

// One range of unicode.txt.
struct range {
    uint32_t low, high;
    char *words;
};

static void add_piece(struct str *vocab, uint8_t *seen, uint32_t c)
{
    char utf8[4];
    if (seen[c])
        return;
    seen[c] = 1;
    size_t n = utf8_encode(c, utf8);
    str_addf(vocab, "%.*s\n##%.*s\n", (int)n, utf8, (int)n, utf8);
}

// The words of "a", a code point, "b", separated by spaces. An unknown word is written as "?".
static void words_of(const struct wordpiece *w, uint32_t c, struct str *out)
{
    char text[6] = "a";
    size_t n = 1 + utf8_encode(c, text + 1);
    text[n++] = 'b';
    int32_t ids[16];
    struct wordpiece_info info;
    str_clear(out);
    CHECK_INT(wordpiece_encode(w, text, n, ids, 16, &info, NULL), 0);
    for (size_t i = 1; i + 1 < info.n_ids; i++) {
        size_t length;
        const char *piece = wordpiece_piece(w, ids[i], &length);
        bool following = length > 2 && piece[0] == '#' && piece[1] == '#';
        if (i > 1 && !following)
            str_add_char(out, ' ');
        if (ids[i] == w->special_id[WORDPIECE_UNK])
            str_add_char(out, '?');
        else
            str_add_n(out, piece + (following ? 2 : 0), length - (following ? 2 : 0));
    }
}

// Every code point: the vocabulary is made of the characters that the reference turns others into, so that what a
// character becomes can be read off the pieces.
TEST(models_wordpiece_every_code_point)
{
    struct error err = {0};
    struct str file, vocab, got, hangul;
    str_init(&file), str_init(&vocab), str_init(&got), str_init(&hangul);
    REQUIRE_OK(file_read(&file, at_top("tests/fixtures/tokenizer/unicode.txt"), 1u << 20, &err), &err);
    static struct range ranges[8192];
    static uint8_t seen[0x110000];
    size_t n_ranges = 0;
    char hangul_want[80] = "";
    str_add(&vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (uint32_t c = 0x1100; c < 0x1200; c++)
        add_piece(&vocab, seen, c);
    for (char *line = strchr(file.text, '\n') + 1, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        struct range *r = &ranges[n_ranges++];
        REQUIRE(n_ranges < 8192);
        r->low = r->high = (uint32_t)strtoul(line, &line, 16);
        if (*line == '-')
            r->high = (uint32_t)strtoul(line + 1, &line, 16);
        r->words = ++line;
        if (strncmp(line, "sha256 ", 7) == 0) {
            snprintf(hangul_want, sizeof hangul_want, "%s", line + 7);
            continue;
        }
        for (size_t n; *line; line += n) {
            uint32_t c;
            n = utf8_decode(line, strlen(line), &c);
            REQUIRE(n > 0);
            if (c != ' ')
                add_piece(&vocab, seen, c);
        }
    }
    // Characters that stand for themselves have to be known to be seen as words of their own.
    for (size_t i = 0; i < n_ranges; i++) {
        for (uint32_t c = ranges[i].low; c <= ranges[i].high && strcmp(ranges[i].words, "a @ b") == 0; c++)
            add_piece(&vocab, seen, c);
    }
    struct wordpiece_config config;
    wordpiece_config_default(&config);
    struct wordpiece w;
    REQUIRE_OK(str_check(&vocab, &err), &err);
    REQUIRE_OK(wordpiece_load(&w, vocab.text, vocab.length, "memory", &config, &err), &err);
    size_t bad = 0, r = 0;
    for (uint32_t c = 0; c < 0x110000 && bad < 20; c++) {
        char want[64], utf8[4];
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        words_of(&w, c, &got);
        int n = (int)utf8_encode(c, utf8);
        while (r < n_ranges && ranges[r].high < c)
            r++;
        bool listed = r < n_ranges && ranges[r].low <= c;
        if (listed && c >= 0xAC00 && c <= 0xD7A3) {
            str_addf(&hangul, "%s\n", str_text(&got));
            continue;
        }
        if (listed && strcmp(ranges[r].words, "a @ b") == 0)
            snprintf(want, sizeof want, "a %.*s b", n, utf8);
        else if (listed)
            snprintf(want, sizeof want, "%s", ranges[r].words);
        else if (seen[c])
            snprintf(want, sizeof want, "a%.*sb", n, utf8);
        else
            snprintf(want, sizeof want, "?");
        if (strcmp(str_text(&got), want) != 0) {
            printf("  U+%04X gives \"%s\", the reference \"%s\"\n", c, str_text(&got), want);
            bad++;
        }
    }
    CHECK_INT(bad, 0);
    char hex[65];
    REQUIRE_OK(sha256_bytes(hangul.text, hangul.length, hex, &err), &err);
    CHECK_STR(hex, hangul_want);
    wordpiece_release(&w);
    str_release(&file), str_release(&vocab), str_release(&got), str_release(&hangul);
}

static int load(const char *vocab, size_t n, struct error *err)
{
    struct wordpiece_config config;
    struct wordpiece w;
    wordpiece_config_default(&config);
    error_clear(err);
    int rc = wordpiece_load(&w, vocab, n, "vocab.txt", &config, err);
    if (!rc)
        wordpiece_release(&w);
    return rc;
}

#define LOAD(text, err) load((text), sizeof(text) - 1, (err))
#define SPECIALS        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

TEST(models_wordpiece_refuses_bad_vocabularies)
{
    struct error err;
    CHECK_INT(LOAD(SPECIALS "a\n##a\nb", &err), 0);
    CHECK_INT(LOAD("", &err), ERR_INPUT);
    CHECK_STR(err.message, "the vocabulary is empty");
    CHECK_STR(err.where, "vocab.txt");
    CHECK_INT(LOAD("[PAD]\r\n[UNK]\r\n", &err), ERR_INPUT);
    CHECK(strstr(err.message, "line 1 ") && strstr(err.message, "CR LF"));
    CHECK_INT(LOAD(SPECIALS "a\n\nb\n", &err), ERR_INPUT);
    CHECK_STR(err.message, "line 7 of the vocabulary is empty");
    CHECK_INT(LOAD(SPECIALS "a\nb\n##a\na\n", &err), ERR_INPUT);
    CHECK_STR(err.message, "line 9 of the vocabulary repeats line 6");
    CHECK_INT(LOAD(SPECIALS "a\nb\xC3\n", &err), ERR_INPUT);
    CHECK_STR(err.message, "line 7 of the vocabulary is not UTF-8 at its byte 2");
    CHECK_INT(LOAD("[PAD]\n[UNK]\n[CLS]\n[MASK]\n", &err), ERR_INPUT);
    CHECK(strstr(err.message, "separator token \"[SEP]\""));
    CHECK_INT(LOAD("\xEF\xBB\xBF" SPECIALS, &err), ERR_INPUT);
    CHECK(strstr(err.message, "byte order mark"));

    struct wordpiece_config config;
    struct wordpiece w;
    wordpiece_config_default(&config);
    error_clear(&err);
    CHECK_INT(wordpiece_open(&w, "/nowhere/vocab.txt", &config, &err), ERR_INPUT);
    CHECK_STR(err.where, "/nowhere/vocab.txt");
    wordpiece_release(&w);
    config.max_chars_per_word = 0;
    error_clear(&err);
    CHECK_INT(wordpiece_load(&w, SPECIALS, strlen(SPECIALS), "vocab.txt", &config, &err), ERR_USAGE);
    wordpiece_config_default(&config);
    config.special[WORDPIECE_MASK][0] = 0; // a model without a mask token
    error_clear(&err);
    const char *vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[\n]\nmask";
    REQUIRE_OK(wordpiece_load(&w, vocab, strlen(vocab), "vocab.txt", &config, &err), &err);
    int32_t ids[8];
    struct wordpiece_info info;
    REQUIRE_OK(wordpiece_encode(&w, "[MASK]", 6, ids, 8, &info, &err), &err);
    CHECK_INT(info.n_ids, 5);
    CHECK_INT(w.special_id[WORDPIECE_MASK], -1);
    wordpiece_release(&w);
}

TEST(models_wordpiece_says_what_it_did)
{
    struct error err = {0};
    struct wordpiece_config config;
    struct wordpiece w;
    wordpiece_config_default(&config);
    const char *vocab = SPECIALS "un\n##aff\n##able\nno\n!\n";
    REQUIRE_OK(wordpiece_load(&w, vocab, strlen(vocab), "vocab.txt", &config, &err), &err);
    int32_t ids[8];
    struct wordpiece_info info;
    const char *text = "Unaffable xyz no! [MASK]";
    REQUIRE_OK(wordpiece_encode(&w, text, strlen(text), ids, 6, &info, &err), &err);
    // [CLS] un ##aff ##able [UNK] (no ! [MASK]) [SEP]
    const int32_t want[6] = {2, 5, 6, 7, 1, 3};
    for (int i = 0; i < 6; i++)
        CHECK_INT(ids[i], want[i]);
    CHECK_INT(info.n_ids, 6);
    CHECK_INT(info.n_full, 9);
    CHECK(info.truncated);
    CHECK_INT(info.n_words, 5);
    CHECK_INT(info.n_unknown, 1);
    CHECK_INT(info.most_pieces, 3);
    CHECK_INT(wordpiece_encode(&w, text, strlen(text), ids, 1, &info, &err), ERR_USAGE);
    size_t length;
    CHECK_STR(wordpiece_piece(&w, 6, &length), "##aff");
    CHECK_INT(length, 5);
    CHECK(!wordpiece_piece(&w, -1, &length) && !wordpiece_piece(&w, (int32_t)w.n_vocab, &length));
    wordpiece_release(&w);
}

// Without clean-up, what would be removed stays in the words, and white space of any kind still parts them.
TEST(models_wordpiece_without_clean_up)
{
    struct error err = {0};
    struct wordpiece_config config;
    struct wordpiece w;
    wordpiece_config_default(&config);
    config.clean_text = false;
    const char *vocab = SPECIALS "a\n##\xEF\xBF\xBD\n##\x01\nb\n";
    REQUIRE_OK(wordpiece_load(&w, vocab, strlen(vocab), "vocab.txt", &config, &err), &err);
    int32_t ids[8];
    struct wordpiece_info info;
    REQUIRE_OK(wordpiece_encode(&w,
                                "a\xFF\x01\x0B"
                                "b\xC2\x85"
                                "b",
                                8, ids, 8, &info, &err),
               &err);
    const int32_t want[7] = {2, 5, 6, 7, 8, 8, 3};
    CHECK_INT(info.n_ids, 7);
    for (int i = 0; i < 7; i++)
        CHECK_INT(ids[i], want[i]);
    CHECK_INT(info.invalid_utf8, 1);
    wordpiece_release(&w);
}

static int read_config(const char *json, struct wordpiece_config *c, struct error *err)
{
    char path[256];
    snprintf(path, sizeof path, "%s/tokenizer_config.json", test_dir());
    error_clear(err);
    int rc = file_write(path, json, strlen(json), err);
    return rc ? rc : wordpiece_config_read(c, path, err);
}

TEST(models_wordpiece_reads_configurations)
{
    struct error err;
    struct wordpiece_config c;
    CHECK_INT(read_config("{}", &c, &err), 0);
    CHECK(c.clean_text && c.do_lower_case && c.strip_accents && c.tokenize_chinese_chars);
    CHECK_INT(c.model_max_length, 0);
    CHECK_INT(read_config("{\"do_lower_case\": false, \"model_max_length\": 1e30, \"mask_token\": null}", &c, &err), 0);
    CHECK(!c.do_lower_case && !c.strip_accents && c.tokenize_chinese_chars);
    CHECK_INT(c.model_max_length, 0);
    CHECK_STR(c.special[WORDPIECE_MASK], "");
    CHECK_INT(read_config("{\"do_lower_case\": false, \"strip_accents\": true, \"tokenize_chinese_chars\": false,"
                          "\"pad_token\": {\"content\": \"<pad>\", \"lstrip\": false}, \"model_max_length\": 512}",
                          &c, &err),
              0);
    CHECK(!c.do_lower_case && c.strip_accents && !c.tokenize_chinese_chars);
    CHECK_INT(c.model_max_length, 512);
    CHECK_STR(c.special[WORDPIECE_PAD], "<pad>");

    static const char *const refused[][2] = {
        {"[]", "object"},
        {"{\"do_lower_case\": 1}", "do_lower_case"},
        {"{\"tokenizer_class\": \"XLMRobertaTokenizer\"}", "XLMRobertaTokenizer"},
        {"{\"mask_token\": {\"content\": \"<m>\", \"lstrip\": true}}", "lstrip"},
        {"{\"cls_token\": 3}", "cls_token"},
        {"{\"unk_token\": null}", "unk_token"},
        {"{\"model_max_length\": 1}", "model_max_length"},
        {"{\"added_tokens_decoder\": {\"7\": {\"content\": \"<extra>\"}}}", "<extra>"},
        {"{\"sep_token\": \"0123456789012345678901234567890123456789012345678901234567890123456789\"}", "sep_token"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_INT(read_config(refused[i][0], &c, &err), ERR_INPUT);
        if (!CHECK(strstr(err.message, refused[i][1])))
            printf("  %s: %s\n", refused[i][0], err.message);
    }
}

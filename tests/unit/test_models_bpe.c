// SPDX-License-Identifier: Apache-2.0
// The byte-level BPE tokenizer against fixtures made by tests/oracle/bpe.py with the reference tokenizer.
#include "models/bpe.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "fixture.h"
#include "models/prompt.h"
#include "models/unicode_tables.h"
#include "test.h"

enum { MAX_IDS = 4096, SEQ = 512 };

static const char *at_model(const char *name)
{
    static char full[1024];
    snprintf(full, sizeof full, "%s/third_party/models/qwen/%s", test_top(), name);
    return full;
}

static void read_text(struct str *out, const char *path)
{
    struct error err = {0};
    str_init(out);
    REQUIRE_OK(file_read(out, path, 1u << 24, &err), &err);
}

// The first 12 digits of the SHA-256.
static void digest(const void *bytes, size_t n, char hex[65])
{
    struct error err = {0};
    REQUIRE_OK(sha256_bytes(bytes, n, hex, &err), &err);
    hex[12] = 0;
}

// Ids as the fixture has them: all of them, or a digest.
static bool same_ids(const char *want, const int32_t *ids, size_t n)
{
    if (strlen(want) == 12 && !strchr(want, ' ')) {
        char hex[65];
        digest(ids, n * sizeof *ids, hex);
        if (strcmp(hex, want) == 0)
            return true;
    }
    size_t i = 0;
    for (char *end; *want; want = end, i++) {
        long id = strtol(want, &end, 10);
        if (end == want || i == n || ids[i] != id)
            return false;
    }
    return i == n;
}

static bool check_text(const struct bpe *b, char *cells[5], int number)
{
    struct error err = {0};
    int32_t ids[MAX_IDS];
    struct bpe_info info;
    struct str decoded;
    char hex[65];
    char *words;
    size_t n = fixture_unescape(cells[4]), n_ids = strtoul(cells[0], &words, 10);
    if (bpe_encode(b, cells[4], n, ids, MAX_IDS, &info, &err))
        return CHECK(false);
    str_init(&decoded);
    bool good = bpe_decode(b, ids, info.n_ids, number % 2 == 1, &decoded, &err) == 0;
    digest(str_text(&decoded), decoded.length, hex);
    good = good && same_ids(cells[2], ids, info.n_ids) && strcmp(hex, cells[3]) == 0 && info.n_ids == n_ids &&
           info.n_words == strtoul(words, NULL, 10) && info.n_full == info.n_ids && !info.truncated &&
           info.invalid_utf8 == strtoul(cells[1], NULL, 10);
    if (!good)
        printf("  text %d: \"%.*s\" gives %zu ids, decoded \"%s\"\n", number, (int)n, cells[4], info.n_ids,
               str_text(&decoded));
    str_release(&decoded);
    return good;
}

static void check_texts(const char *path)
{
    struct error err = {0};
    struct bpe b;
    struct str file;
    REQUIRE_OK(bpe_open(&b, path, &err), &err);
    CHECK_INT(b.n_ids, 151669);
    CHECK_INT(b.n_tokens, 151669);
    CHECK_INT(b.n_merges, 151387);
    CHECK_INT(b.n_added, 26);
    read_text(&file, fixture_path("tokenizer/bpe.txt"));
    char *rest = file.text, *cells[5];
    int n = 0, bad = 0;
    for (; fixture_cells(&rest, cells, 5); n++)
        bad += !check_text(&b, cells, n);
    CHECK(n > 5000);
    CHECK_INT(bad, 0);
    str_release(&file);
    bpe_release(&b);
}

TEST(models_bpe_equals_reference)
{
    check_texts(at_model(""));
}

// The same from vocab.json, merges.txt and tokenizer_config.json.
TEST(models_bpe_equals_reference_from_files)
{
    static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};
    char full[PATH_MAX]; // a link's target counts from the link
    for (int i = 0; i < 3; i++)
        CHECK(realpath(at_model(names[i]), full) && symlink(full, test_below(names[i])) == 0);
    check_texts(test_dir());
}

TEST(models_bpe_prompts)
{
    struct error err = {0};
    struct bpe b;
    struct str file, cut;
    REQUIRE_OK(bpe_open(&b, at_model("tokenizer.json"), &err), &err);
    read_text(&file, fixture_path("tokenizer/bpe_prompts.txt"));
    str_init(&cut);
    char *rest = file.text, *cells[5], hex[65];
    int32_t ids[SEQ], mask[SEQ];
    int checked = 0, cut_at_all = 0;
    while (fixture_cells(&rest, cells, 5)) {
        struct prompt_info info;
        size_t n = fixture_unescape(cells[4]), full = strtoul(cells[1], NULL, 10), real = strtoul(cells[0], NULL, 10);
        size_t lost = full > SEQ ? full - SEQ : 0;
        str_clear(&cut);
        REQUIRE_OK(prompt_encode(&b, cells[4], n, SEQ, ids, mask, &info, &cut, &err), &err);
        digest(ids, sizeof ids, hex);
        CHECK_STR(hex, cells[2]);
        CHECK_INT(info.n_tokens, real);
        CHECK_INT(info.n_full, full);
        CHECK_INT(info.cut_template, lost < 9 ? lost : 9);
        CHECK_INT(info.cut_prompt, lost < 9 ? 0 : lost - 9);
        fixture_unescape(cells[3]);
        CHECK_STR(str_text(&cut), cells[3]);
        for (size_t i = 0; i < SEQ; i++)
            CHECK(mask[i] == (i < real) && (i < real || ids[i] == 151643));
        cut_at_all += info.cut_prompt > 0;
        checked++;
    }
    CHECK(checked > 30 && cut_at_all > 3);
    struct prompt_info info;
    CHECK_INT(prompt_encode(&b, "a", 1, 11, ids, mask, &info, NULL, &err), ERR_USAGE);
    str_release(&file);
    str_release(&cut);
    bpe_release(&b);
}

// Words that would take long if neighbours were searched or marks sorted one by one.
TEST(models_bpe_hostile_texts)
{
    static const char *const units[] = {"a", "=", "e\xCC\x81",  "\xCC\x81\xCC\xA3", "\xE4\xB8\xAD",
                                        " ", "<", "<|im_start|"};
    const size_t n = 1u << 20;
    struct error err = {0};
    struct bpe b;
    REQUIRE_OK(bpe_open(&b, at_model("tokenizer.json"), &err), &err);
    char *text = malloc(n);
    int32_t *ids = malloc(n * sizeof *ids);
    REQUIRE(text && ids);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t unit = strlen(units[u]), whole = n / unit * unit, invalid = 0;
        for (size_t i = 0; i < whole; i++)
            text[i] = units[u][i % unit];
        struct bpe_info info;
        struct str decoded, normal;
        str_init(&decoded);
        str_init(&normal);
        REQUIRE_OK(bpe_encode(&b, text, whole, ids, n, &info, &err), &err);
        REQUIRE_OK(bpe_decode(&b, ids, info.n_ids, false, &decoded, &err), &err);
        unicode_nfc(text, whole, &normal, &invalid);
        CHECK(decoded.length == normal.length && memcmp(decoded.text, normal.text, normal.length) == 0);
        CHECK_INT(invalid, 0);
        str_release(&decoded);
        str_release(&normal);
    }
    free(text);
    free(ids);
    bpe_release(&b);
}

// ---- characters

// Whether the ranges "41-5A 61-7A AA" have the code point next; *at moves on with it.
static bool in_ranges(char **at, uint32_t c)
{
    for (;;) {
        char *end;
        uint32_t low = (uint32_t)strtoul(*at, &end, 16), high = low;
        if (end == *at)
            return false;
        if (*end == '-')
            high = (uint32_t)strtoul(end + 1, &end, 16);
        if (c < low)
            return false;
        if (c <= high)
            return true;
        *at = end;
    }
}

static void check_class(char *ranges, unsigned flag)
{
    int bad = 0;
    for (uint32_t c = 0; c < UNICODE_CODE_POINTS; c++) {
        bool want = in_ranges(&ranges, c), got = (unicode_lookup(c)->flags & flag) != 0;
        if (want != got && !(c >= 0xD800 && c <= 0xDFFF) && bad++ < 5)
            printf("  U+%04X: %d\n", c, got);
    }
    CHECK_INT(bad, 0);
}

static void add_code(struct str *s, uint32_t c)
{
    char utf8[4];
    str_add_n(s, utf8, utf8_encode(c, utf8));
}

static void check_normal(const char *how, const char *want)
{
    struct error err = {0};
    struct str all, text;
    char hex[65];
    size_t invalid = 0;
    str_init(&all);
    str_init(&text);
    for (uint32_t c = 0; c < UNICODE_CODE_POINTS; c++) {
        uint32_t part[4] = {c};
        size_t n = strcmp(how, "again") == 0 ? unicode_decompose(c, part) : 1;
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        str_clear(&text);
        bool after = strcmp(how, "after") == 0;
        str_add(&text, after ? "a" : "");
        for (size_t i = 0; i < n; i++)
            add_code(&text, part[i]);
        if (after) {
            str_add(&text, "\xCC\xA3"
                           "e\xCC\x81");
            add_code(&text, c);
        }
        size_t before = all.length;
        unicode_nfc(text.text, text.length, &all, &invalid);
        // What is called plain does not change.
        if (unicode_is_plain(text.text, text.length))
            CHECK(all.length - before == text.length && memcmp(all.text + before, text.text, text.length) == 0);
        str_add_char(&all, '\n');
    }
    REQUIRE_OK(sha256_bytes(all.text, all.length, hex, &err), &err);
    CHECK_STR(hex, want);
    CHECK_INT(invalid, 0);
    str_release(&all);
    str_release(&text);
}

TEST(models_bpe_every_code_point)
{
    struct str file;
    read_text(&file, fixture_path("tokenizer/bpe_unicode.txt"));
    char *rest = file.text, *cells[2];
    int checked = 0;
    for (; fixture_cells(&rest, cells, 2); checked++) {
        if (strcmp(cells[0], "letter") == 0)
            check_class(cells[1], UNICODE_LETTER);
        else if (strcmp(cells[0], "number") == 0)
            check_class(cells[1], UNICODE_NUMBER);
        else if (strcmp(cells[0], "space") == 0)
            check_class(cells[1], UNICODE_SPACE);
        else
            check_normal(cells[0], cells[1]);
    }
    CHECK_INT(checked, 6);
    str_release(&file);
}

// ---- small vocabularies, whole and damaged

static struct str small;

// The small vocabulary with a text in it exchanged for another; NULL for as it is.
static int load_changed(struct bpe *b, const char *from, const char *to, struct error *err)
{
    struct str text;
    str_init(&text);
    const char *at = from ? strstr(small.text, from) : small.text;
    if (!CHECK(at != NULL))
        printf("  there is no \"%s\" in the small vocabulary\n", from);
    str_add_n(&text, small.text, (size_t)(at - small.text));
    if (from) {
        str_add(&text, to);
        str_add(&text, at + strlen(from));
    } else {
        str_add(&text, at);
    }
    error_clear(err);
    int rc = bpe_load(b, text.text, text.length, "tokenizer.json", err);
    str_release(&text);
    return rc;
}

static void check_refused(const char *from, const char *to, const char *message)
{
    struct bpe b;
    struct error err = {0};
    int rc = load_changed(&b, from, to, &err);
    CHECK_INT(rc, ERR_INPUT);
    CHECK_STR(err.where, "tokenizer.json");
    if (!CHECK(strstr(err.message, message) != NULL))
        printf("  \"%s\" said: %s\n", to, err.message);
    if (!rc)
        bpe_release(&b);
}

TEST(models_bpe_refuses_other_tokenizers)
{
    read_text(&small, fixture_path("tokenizer/bpe_small.json"));
    check_refused("\"NFC\"", "\"NFKC\"", "the \"type\" of the normalizer is \"NFKC\"");
    check_refused("\"normalizer\":{\"type\":\"NFC\"}", "\"normalizer\":null", "normalizer");
    check_refused("\\\\p{N}|", "\\\\p{N}{1,3}|", "that of Qwen2");
    check_refused("\"Isolated\"", "\"Removed\"", "behavior");
    check_refused("\"invert\":false", "\"invert\":true", "\"invert\" is set");
    check_refused("\"add_prefix_space\":false", "\"add_prefix_space\":true", "\"add_prefix_space\" is set");
    check_refused("\"use_regex\":false", "\"use_regex\":true", "more than Qwen2's");
    check_refused("\"post_processor\":{\"type\":\"ByteLevel\"", "\"post_processor\":{\"type\":\"TemplateProcessing\"",
                  "post_processor");
    check_refused("\"type\":\"BPE\"", "\"type\":\"Unigram\"", "\"type\" is \"Unigram\"");
    check_refused("\"ignore_merges\":false", "\"ignore_merges\":true", "\"ignore_merges\" is set");
    check_refused("\"unk_token\":null", "\"unk_token\":\"<unk>\"", "\"unk_token\" is \"<unk>\"");
    check_refused("\"normalized\":false", "\"normalized\":true", "matched with normalized");
    check_refused("\"lstrip\":false", "\"lstrip\":1", "not true or false");
    str_release(&small);
}

TEST(models_bpe_refuses_damage)
{
    read_text(&small, fixture_path("tokenizer/bpe_small.json"));
    struct bpe b;
    struct error err = {0};
    REQUIRE_OK(load_changed(&b, NULL, NULL, &err), &err);
    CHECK_INT(b.n_merges, 120);
    CHECK_INT(b.n_added, 3);
    bpe_release(&b);
    check_refused("\"!\":0", "\"!\":1", "the number of a token was that of another one");
    check_refused("\"!\":0", "\"!\":-1", "the number of a token is expected");
    check_refused("\"!\":0", "\"!\":1e3", "the number of a token is expected");
    check_refused("\"!\":0", "\"!\":2000000000", "has one of number 2000000000");
    check_refused("\"!\":0", "\"!\":99999999999", "beyond 32 bits");
    check_refused("\"!\":0", "\"\":0", "a token is empty");
    check_refused("\"!\":0", "\"\\u4e2d\":0", "stands for no byte");
    check_refused("\"!\":0", "\"!!\":0", "none for the byte 0x21");
    check_refused("\"!\":0", "\"\\\"\":0", "a token is there twice");
    check_refused("[\"i\",\"n\"]", "[\"i\",\"\xC4\xA0\"]", "what it makes is no token");
    check_refused("[\"i\",\"n\"]", "[\"i\",\"xyz\"]", "its parts are no tokens");
    check_refused("[\"i\",\"n\"]", "[\"i\"]", "merge 3 is not two tokens");
    check_refused("[\"i\",\"n\"]", "[\"i\",\"n\",\"\"]", "merge 3 is not two tokens");
    check_refused("[\"i\",\"n\"]", "7", "merge 3 is not two tokens");
    check_refused("[\"i\",\"n\"]", "\"in\"", "a space between");
    check_refused("[\"i\",\"n\"]", "[\"i\",\"n\"],[\"i\",\"n\"]", "merge 4 is there twice");
    check_refused("\"<|im_start|>\"", "\"\"", "an added token is empty");
    check_refused("\"<|im_start|>\"", "\"<|endoftext|>\"", "there twice");
    check_refused("\"content\":\"<|im_start|>\"", "\"text\":\"\"", "has no \"content\"");
    check_refused("\"merges\"", "\"other\"", "it has no \"model\"");
    check_refused("\"model\"", "\"other\"", "model");
    check_refused("\"vocab\"", "\"merges\"", "there twice");
    check_refused("\"version\"", "\"version", "");
    check_refused("\"merges\":[", "\"merges\":[[", "");
    // Cut anywhere, it is refused.
    for (size_t n = 0; n + 2 < small.length; n += 97) {
        error_clear(&err);
        CHECK_INT(bpe_load(&b, small.text, n, "tokenizer.json", &err), ERR_INPUT);
    }
    error_clear(&err);
    CHECK_INT(bpe_open(&b, "/nowhere/tokenizer.json", &err), ERR_INPUT);
    error_clear(&err);
    CHECK_INT(bpe_open(&b, test_dir(), &err), ERR_INPUT);
    CHECK(strstr(err.where, "vocab.json") != NULL);
    str_release(&small);
}

TEST(models_bpe_says_what_it_did)
{
    read_text(&small, fixture_path("tokenizer/bpe_small.json"));
    struct bpe b;
    struct error err = {0};
    REQUIRE_OK(load_changed(&b, NULL, NULL, &err), &err);
    const char *text = "in the<|im_end|>\xFF!";
    int32_t ids[4];
    struct bpe_info info;
    REQUIRE_OK(bpe_encode(&b, text, strlen(text), ids, 3, &info, &err), &err);
    CHECK_INT(info.n_ids, 3);
    CHECK(info.truncated && info.n_full > 3);
    CHECK_INT(info.n_words, 4); // "in", " the", the added token, U+FFFD and "!"
    CHECK_INT(info.invalid_utf8, 1);
    REQUIRE_OK(bpe_encode(&b, "", 0, NULL, 0, &info, &err), &err);
    CHECK_INT(info.n_full, 0);

    int32_t end = bpe_added_id(&b, "<|im_end|>");
    CHECK(end >= 0 && bpe_added_id(&b, "<|im_end|") < 0 && bpe_added_id(&b, "in") < 0 && bpe_added_id(&b, "") < 0);
    bool special;
    struct slice bytes = bpe_bytes(&b, end, &special);
    CHECK(slice_is(bytes, "<|im_end|>") && special);
    CHECK(slice_is(bpe_bytes(&b, ids[0], &special), "in") && !special);
    CHECK(bpe_bytes(&b, -1, &special).size == 0 && bpe_bytes(&b, (int32_t)b.n_ids, &special).size == 0);
    int32_t some[] = {ids[0], -5, end, INT32_MAX, ids[0]};
    struct str out;
    str_init(&out);
    REQUIRE_OK(bpe_decode(&b, some, 5, false, &out, &err), &err);
    CHECK_STR(str_text(&out), "in<|im_end|>in");
    str_clear(&out);
    REQUIRE_OK(bpe_decode(&b, some, 5, true, &out, &err), &err);
    CHECK_STR(str_text(&out), "inin");

    struct prompt_info prompt;
    int32_t seq[16], mask[16];
    CHECK_INT(prompt_encode(&b, "a", 1, 16, seq, mask, &prompt, NULL, &err), ERR_INPUT);
    CHECK(strstr(err.message, "<think>") != NULL);
    str_release(&out);
    bpe_release(&b);
    str_release(&small);
}

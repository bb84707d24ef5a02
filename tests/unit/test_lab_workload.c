// SPDX-License-Identifier: Apache-2.0
#include "lab/workload.h"

#include "base/file.h"
#include "test.h"
#include "tiny_model.h"

// In the tiny model's vocabulary.
enum { PAD = 0, UNK = 1, CLS = 2, SEP = 3, DOT = 5, THE = 7, LETTER = 8, MORE = 34 };

static const char *model(void)
{
    static char dir[512];
    struct error e = {0};
    struct tiny_options o = TINY_DEFAULTS;
    snprintf(dir, sizeof dir, "%s/model", test_dir());
    o.layers = 1;
    if (!dir_exists(dir) && tiny_model_write(dir, &o, &e) != 0)
        test_fail_error(__FILE__, __LINE__, "tiny_model_write", e.where, e.message);
    return dir;
}

static const char *text_file(const char *bytes, size_t n)
{
    static char path[512];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/texts", test_dir());
    if (file_write(path, bytes, n, &e) != 0)
        test_fail_error(__FILE__, __LINE__, "file_write", e.where, e.message);
    return path;
}

#define TEXTS(s) text_file((s), sizeof(s) - 1)

static bool row_is(const int32_t *got, const int32_t *want, size_t n)
{
    bool same = memcmp(got, want, n * sizeof *got) == 0;
    for (size_t i = 0; i < n && !same; i++)
        printf("  [%zu] %d, not %d\n", i, got[i], want[i]);
    return same;
}

TEST(lab_workload_lines)
{
    struct error e = {0};
    struct workload w;
    struct workload_options o = {.directory = model(), .batch = 2, .seq = 8};
    o.text_path = TEXTS("ab the.\r\n\n \t\r\n\r\n b\0c\nlast");
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.n_texts, 3);
    CHECK_INT(w.n_blank, 3);
    CHECK(w.text_lengths[0] == 7 && memcmp(w.texts[0], "ab the.", 7) == 0); // without its CR
    CHECK(w.text_lengths[1] == 4 && memcmp(w.texts[1], " b\0c", 4) == 0);
    CHECK(w.text_lengths[2] == 4 && memcmp(w.texts[2], "last", 4) == 0); // without a newline at the end
    CHECK_STR(w.name, "model");
    workload_close(&w);
    o.keep_blank = true;
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.n_texts, 6);
    CHECK_INT(w.n_blank, 0);
    CHECK_INT(w.facts[1].tokens, 2);
    workload_close(&w);
    static const char *const nothing[] = {"", "\n", "\r\n\r\n", " \t \n"};
    o.keep_blank = false;
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        o.text_path = text_file(nothing[i], strlen(nothing[i]));
        CHECK_INT(workload_open(&w, &o, &e), ERR_INPUT);
        CHECK(strstr(e.message, "holds no text") != NULL);
        error_clear(&e);
    }
}

// Three texts in two batches of two: the fourth row repeats the first text, and padding follows every text.
TEST(lab_workload_rows)
{
    struct error e = {0};
    struct workload w;
    struct workload_options o = {.directory = model(), .batch = 2, .seq = 7};
    o.text_path = TEXTS("ab the.\n\xe6\x97\xa5\nabcdefghi\n"); // the second is no letter that it knows
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.n_batches, 2);
    const int32_t first[7] = {CLS, LETTER, MORE + 1, THE, DOT, SEP, PAD}, first_mask[7] = {1, 1, 1, 1, 1, 1, 0};
    const int32_t second[7] = {CLS, UNK, SEP, PAD, PAD, PAD, PAD}, second_mask[7] = {1, 1, 1, 0, 0, 0, 0};
    const int32_t third[7] = {CLS, LETTER, MORE + 1, MORE + 2, MORE + 3, MORE + 4, SEP},
                  third_mask[7] = {1, 1, 1, 1, 1, 1, 1};
    CHECK(row_is(w.ids, first, 7) && row_is(w.mask, first_mask, 7));
    CHECK(row_is(w.ids + 7, second, 7) && row_is(w.mask + 7, second_mask, 7));
    CHECK(row_is(w.ids + 14, third, 7) && row_is(w.mask + 14, third_mask, 7)); // cut, its end kept
    CHECK(row_is(w.ids + 21, first, 7) && row_is(w.mask + 21, first_mask, 7));
    CHECK_INT(w.n_truncated, 1);
    CHECK_INT(w.n_tokens, 6 + 3 + 7);
    CHECK_INT(w.facts[0].most_pieces, 2);
    CHECK_INT(w.facts[2].tokens, 11);
    CHECK_INT(w.facts[2].most_pieces, 9);
    CHECK(w.facts[2].truncated && !w.facts[0].truncated);
    int32_t ids[14], mask[14];
    REQUIRE_OK(workload_encode(&w, 1, ids, mask, &e), &e);
    CHECK(row_is(ids, w.ids + 14, 14) && row_is(mask, w.mask + 14, 14));
    workload_close(&w);
}

TEST(lab_workload_sizes_that_are_not_given)
{
    struct error e = {0};
    struct workload w;
    struct workload_options o = {.directory = model()};
    o.text_path = TEXTS("a b\nc d e\nthe\n");
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.seq, 5); // the longest text
    CHECK_INT(w.batch, 3);
    CHECK_INT(w.n_batches, 1);
    workload_close(&w);
    // Longer than the 64 positions: cut there; and where the directory allows less, there.
    char letters[401];
    for (int i = 0; i < 200; i++)
        memcpy(letters + 2 * i, "a ", 2);
    o.text_path = text_file(letters, 400);
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.seq, 64);
    CHECK_INT(w.n_truncated, 1);
    CHECK_INT(w.n_tokens, 64);
    CHECK_INT(w.facts[0].tokens, 202);
    workload_close(&w);
    char path[600];
    snprintf(path, sizeof path, "%s/sentence_bert_config.json", model());
    REQUIRE_OK(file_write(path, "{\"max_seq_length\": 9}", 21, &e), &e);
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.seq, 9);
    workload_close(&w);
    o.seq = 20; // what is asked for goes, up to the positions
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.seq, 20);
    workload_close(&w);
    static const int64_t wrong[] = {1, 65, -1};
    for (size_t i = 0; i < 3; i++) {
        o.seq = wrong[i];
        CHECK_INT(workload_open(&w, &o, &e), ERR_USAGE);
        CHECK_STR(e.where, "--seq");
        error_clear(&e);
    }
    o.seq = 64;
    o.batch = 65536;
    REQUIRE_OK(workload_open(&w, &o, &e), &e); // 2^22 tokens in a run
    workload_close(&w);
    o.batch = 65537;
    CHECK_INT(workload_open(&w, &o, &e), ERR_USAGE);
    CHECK_STR(e.where, "--batch");
    error_clear(&e);
    REQUIRE_OK(file_write(path, "{\"max_seq_length\": 1}", 21, &e), &e);
    o = (struct workload_options){.directory = model(), .text_path = o.text_path};
    CHECK_INT(workload_open(&w, &o, &e), ERR_INPUT);
}

TEST(lab_workload_texts_in_memory)
{
    static const char *const texts[] = {"the a", "", "b."};
    struct error e = {0};
    struct workload w;
    struct workload_options o = {.directory = model(), .texts = texts, .n_texts = 3};
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.n_texts, 3);
    CHECK_INT(w.seq, 4);
    const int32_t rows[12] = {CLS, THE, LETTER, SEP, CLS, SEP, PAD, PAD, CLS, LETTER + 1, DOT, SEP};
    CHECK(row_is(w.ids, rows, 12));
    workload_close(&w);
    o.text_path = TEXTS("a\n");
    CHECK_INT(workload_open(&w, &o, &e), ERR_USAGE);
    // A directory without texts: the model alone.
    error_clear(&e);
    o = (struct workload_options){.directory = model()};
    REQUIRE_OK(workload_open(&w, &o, &e), &e);
    CHECK_INT(w.n_texts, 0);
    workload_close(&w);
}

// SPDX-License-Identifier: Apache-2.0
// A byte says what: 0 a tokenizer.json, then an empty line and a text; 1 vocab.json, an empty line, merges.txt, an
// empty line, added tokens, an empty line and a text; else a text alone, for a vocabulary of bytes with some merges.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/bpe.h"
#include "models/prompt.h"
#include "models/unicode_tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_IDS = 1 << 16 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

// The next part, up to an empty line or the end.
static struct slice part(struct slice *rest)
{
    const uint8_t *end = rest->size ? memmem(rest->data, rest->size, "\n\n", 2) : NULL;
    struct slice s = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
    size_t taken = end ? s.size + 2 : s.size;
    *rest = (struct slice){rest->data + taken, rest->size - taken};
    return s;
}

// What was encoded is decoded to the normal form of the text, except where added tokens stand.
static void encode(const struct bpe *b, struct slice text)
{
    static int32_t ids[MAX_IDS], some[MAX_IDS];
    struct bpe_info info, first;
    struct error err = {0};
    struct str out, normal;
    size_t invalid = 0;
    // A copy of its own, so that a read past the end is seen.
    char *copy = malloc(text.size ? text.size : 1);
    must(copy != NULL);
    memcpy(copy, text.data ? text.data : (const uint8_t *)"", text.size);
    must(bpe_encode(b, copy, text.size, ids, MAX_IDS, &info, &err) == 0);
    must(bpe_encode(b, copy, text.size, some, 3, &first, &err) == 0);
    must(first.n_full == info.n_full && first.n_ids == (info.n_full < 3 ? info.n_full : 3));
    must(memcmp(ids, some, first.n_ids * sizeof *ids) == 0);
    str_init(&out);
    str_init(&normal);
    must(bpe_decode(b, ids, info.n_ids, false, &out, &err) == 0);
    unicode_nfc(copy, text.size, &normal, &invalid);
    if (b->n_added == 0 && !info.truncated) {
        must(out.length == normal.length && memcmp(str_text(&out), str_text(&normal), out.length) == 0);
        must(invalid == info.invalid_utf8);
    }
    struct prompt_info prompt;
    static int32_t mask[16];
    struct str cut;
    str_init(&cut);
    if (prompt_encode(b, copy, text.size, 16, some, mask, &prompt, &cut, &err) == 0)
        must(prompt.n_tokens <= 16 && prompt.n_full - prompt.n_tokens == prompt.cut_template + prompt.cut_prompt);
    str_release(&cut);
    str_release(&out);
    str_release(&normal);
    free(copy);
}

// {"!": 0, ...}: all bytes, and what the merges make.
static const struct bpe *plain(void)
{
    static struct bpe b;
    static bool made;
    if (made)
        return &b;
    struct str vocab;
    struct error err = {0};
    static const char merges[] = "a a\naa aa\na b\nb c\nab c\naa ab\n\xC4\xA0 a\n\xC3\x8C \xC4\xA3\n";
    str_init(&vocab);
    for (uint32_t byte = 0, other = 256; byte < 256; byte++) {
        bool same = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        str_addf(&vocab, "%c\"\\u%04X\":%u", byte ? ',' : '{', same ? byte : other++, byte);
    }
    str_add(&vocab, ",\"aa\":256,\"aaaa\":257,\"ab\":258,\"bc\":259,\"abc\":260,\"aaab\":261,\"\xC4\xA0"
                    "a\":262,\"\xC3\x8C\xC4\xA3\":263}");
    struct bpe_files files = {
        {(const uint8_t *)vocab.text, vocab.length}, {(const uint8_t *)merges, sizeof merges - 1}, {0}, "v", "m", "a"};
    must(bpe_load_files(&b, &files, &err) == 0);
    str_release(&vocab);
    made = true;
    return &b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice rest = {data + 1, size - 1};
    struct bpe b;
    struct error err = {0};
    int rc = 0;
    if (data[0] % 4 > 1) {
        encode(plain(), rest);
        return 0;
    }
    if (data[0] % 4 == 0) {
        struct slice json = part(&rest);
        rc = bpe_load(&b, json.data, json.size, "fuzz", &err);
    } else {
        struct slice vocab = part(&rest), merges = part(&rest), added = part(&rest);
        struct bpe_files files = {vocab, merges, added, "vocab", "merges", "added"};
        rc = bpe_load_files(&b, &files, &err);
    }
    if (rc == 0) {
        encode(&b, rest);
        bpe_release(&b);
    } else {
        must(err.code == rc && err.message[0]);
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// bpe-encode TOKENIZER TEXTS   for tests/oracle/bpe.py check: TEXTS has the length of each text (u32) and its bytes. To
// stdout go, for each, the number of its ids (u32), the ids, the length of what they are decoded to, and that.
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/file.h"
#include "models/bpe.h"

static void put(struct str *out, uint32_t n, const void *bytes, size_t size)
{
    str_add_n(out, &n, sizeof n);
    str_add_n(out, bytes, n * size);
}

static int encode(const struct bpe *b, const char *text, uint32_t n, struct str *out, struct error *err)
{
    struct bpe_info info;
    struct str decoded;
    int32_t *ids = calloc(4 * (size_t)n + 1, sizeof *ids); // a byte that is no UTF-8 becomes three
    str_init(&decoded);
    int rc = ids ? bpe_encode(b, text, n, ids, 4 * (size_t)n, &info, err) : ERR_MEMORY;
    rc = rc ? rc : bpe_decode(b, ids, info.n_ids, false, &decoded, err);
    if (!rc) {
        put(out, (uint32_t)info.n_ids, ids, sizeof *ids);
        put(out, (uint32_t)decoded.length, str_text(&decoded), 1);
    }
    free(ids);
    str_release(&decoded);
    return rc;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct bpe b;
    struct str texts, out;
    struct cursor c;
    str_init(&texts);
    str_init(&out);
    if (argc != 3) {
        fprintf(stderr, "usage: bpe-encode TOKENIZER TEXTS\n");
        return 2;
    }
    int rc = bpe_open(&b, argv[1], &err);
    rc = rc ? rc : file_read(&texts, argv[2], (size_t)1 << 30, &err);
    cursor_init(&c, str_text(&texts), texts.length);
    while (!rc && cursor_left(&c)) {
        uint32_t n = cursor_u32(&c);
        const uint8_t *text = cursor_take(&c, n);
        rc = text ? encode(&b, (const char *)text, n, &out, &err) : ERR_INPUT;
    }
    rc = rc ? rc : str_check(&out, &err);
    if (!rc && fwrite(str_text(&out), 1, out.length, stdout) != out.length)
        rc = ERR_IO;
    if (rc)
        fprintf(stderr, "bpe-encode: %s: %s\n", err.where, err.message);
    str_release(&texts);
    str_release(&out);
    bpe_release(&b);
    return rc ? 1 : 0;
}

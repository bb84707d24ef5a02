// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/interrupt.h"

// What is hashed between two looks at the interrupt flag: some ten milliseconds.
#define CHUNK ((size_t)16 << 20)

static const char digits[] = "0123456789abcdef";

static void to_hex(const unsigned char digest[32], char hex[65])
{
    for (unsigned i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}

int sha256_bytes(const void *bytes, size_t n, char hex[65], struct error *err)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_Digest(bytes, n, out, &length, EVP_sha256(), NULL) != 1 || length != 32)
        return error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
    to_hex(out, hex);
    return 0;
}

int sha256_map(const struct file_map *m, char hex[65], struct error *err)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    // Made before the guard: a file that shrinks jumps out of libcrypto, and the context is ours to free.
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
    }
    struct file_guard g;
    if (FILE_GUARD(&g, m)) {
        EVP_MD_CTX_free(context);
        return file_guard_error(&g, err);
    }
    bool ok = true;
    size_t at = 0;
    for (; ok && at < m->size && (at == 0 || !interrupt_pending()); at += CHUNK)
        ok = EVP_DigestUpdate(context, m->data + at, m->size - at < CHUNK ? m->size - at : CHUNK) == 1;
    file_guard_end(&g);
    if (ok && at < m->size) {
        EVP_MD_CTX_free(context);
        return interrupt_check("hashing a file", err);
    }
    ok = ok && EVP_DigestFinal_ex(context, out, &length) == 1 && length == 32;
    EVP_MD_CTX_free(context);
    if (!ok)
        return error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
    to_hex(out, hex);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/evp.h>

static const char digits[] = "0123456789abcdef";

int sha256_bytes(const void *bytes, size_t n, char hex[65], struct error *err)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_Digest(bytes, n, out, &length, EVP_sha256(), NULL) != 1 || length != 32)
        return error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
    for (unsigned i = 0; i < 32; i++) {
        hex[2 * i] = digits[out[i] >> 4];
        hex[2 * i + 1] = digits[out[i] & 15];
    }
    hex[64] = '\0';
    return 0;
}

int sha256_map(const struct file_map *m, char hex[65], struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, m))
        return file_guard_error(&g, err);
    int rc = sha256_bytes(m->data, m->size, hex, err);
    file_guard_end(&g);
    return rc;
}

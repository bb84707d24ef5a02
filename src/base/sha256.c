// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

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

static int update_from(EVP_MD_CTX *context, int fd, size_t bytes, const char *where, const int *stop, struct error *err)
{
    unsigned char part[65536];
    for (size_t at = 0; at < bytes;) {
        ssize_t k = pread(fd, part, bytes - at < sizeof part ? bytes - at : sizeof part, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_set(err, ERR_INPUT, where, "cannot be read: %s", strerror(errno));
        if (k == 0)
            return error_set(err, ERR_INPUT, where, "became shorter than %zu bytes while it was being read", bytes);
        if (EVP_DigestUpdate(context, part, (size_t)k) != 1)
            return error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
        at += (size_t)k;
        if (stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE))
            return error_set(err, ERR_INTERRUPTED, where, "stopped while hashing a file");
        if (interrupt_check("hashing a file", err))
            return ERR_INTERRUPTED;
    }
    return 0;
}

int sha256_fd(int fd, size_t bytes, const char *where, const int *stop, char hex[65], struct error *err)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int rc = 0;
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
        rc = error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
    if (!rc)
        rc = update_from(context, fd, bytes, where, stop, err);
    if (!rc && (EVP_DigestFinal_ex(context, out, &length) != 1 || length != 32))
        rc = error_set(err, ERR_INTERNAL, NULL, "libcrypto refused SHA-256");
    EVP_MD_CTX_free(context);
    if (!rc)
        to_hex(out, hex);
    return rc;
}

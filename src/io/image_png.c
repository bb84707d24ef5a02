// SPDX-License-Identifier: Apache-2.0
// PNG through libpng.
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/image_part.h"

// What a callback of libpng finds by png_get_error_ptr and the like. In the heap: it outlives a longjmp.
struct job {
    png_structp png;
    png_infop info;
    const char *name;
    struct error *err;
    int rc;
    const uint8_t *at; // reading
    size_t left;
    struct str *out; // writing
    uint8_t **rows;
};

static struct job *job_new(const char *name, struct error *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        error_set(err, ERR_MEMORY, name, "no memory for a PNG");
    else
        *j = (struct job){.name = name, .err = err};
    return j;
}

static int job_end(struct job *j)
{
    int rc = j->rc;
    free(j->rows);
    free(j);
    return rc;
}

static void on_error(png_structp png, png_const_charp text)
{
    struct job *j = png_get_error_ptr(png);
    if (!j->rc)
        j->rc = error_set(j->err, ERR_INPUT, j->name, "the PNG is damaged: %s", text);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void take(png_structp png, png_bytep to, size_t n)
{
    struct job *j = png_get_io_ptr(png);
    if (n > j->left)
        png_error(png, "the file ends early");
    memcpy(to, j->at, n);
    j->at += n;
    j->left -= n;
}

static void refuse(struct job *j, int rc)
{
    j->rc = rc;
    longjmp(png_jmpbuf(j->png), 1);
}

// Deflate makes a byte into at most 1032: an image that cannot be in the file is refused before memory is asked for.
static void check_plausible(struct job *j, size_t file_bytes)
{
    uint64_t raw = (uint64_t)png_get_rowbytes(j->png, j->info) * png_get_image_height(j->png, j->info);
    if (raw / 1032 > file_bytes)
        refuse(j, error_set(j->err, ERR_INPUT, j->name, "the PNG is damaged: %zu bytes cannot hold its %u by %u pixels",
                            file_bytes, png_get_image_width(j->png, j->info), png_get_image_height(j->png, j->info)));
}

static void describe(struct job *j, struct image_source *source)
{
    int color = png_get_color_type(j->png, j->info);
    bool transparent = png_get_valid(j->png, j->info, PNG_INFO_tRNS) != 0;
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    source->format = "PNG";
    source->bits = png_get_bit_depth(j->png, j->info);
    source->channels = png_get_channels(j->png, j->info);
    source->palette = color == PNG_COLOR_TYPE_PALETTE;
    source->alpha = (color & PNG_COLOR_MASK_ALPHA) != 0 || transparent;
    if (png_get_eXIf_1(j->png, j->info, &n, &exif))
        source->orientation = (uint8_t)image_exif_orientation(exif, n);
}

static void ask_for_rgb(png_structp png)
{
    png_set_strip_16(png);
    png_set_packing(png);
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    (void)png_set_interlace_handling(png);
}

static void read_all(struct job *j, struct image *m, struct image_source *source, size_t file_bytes)
{
    png_set_user_limits(j->png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
    png_set_chunk_malloc_max(j->png, 8u << 20);
    png_set_chunk_cache_max(j->png, 128);
    png_set_read_fn(j->png, j, take);
    png_read_info(j->png, j->info);
    describe(j, source);
    uint32_t width = png_get_image_width(j->png, j->info), height = png_get_image_height(j->png, j->info);
    int rc = image_check_size(width, height, j->name, ERR_INPUT, j->err);
    if (rc)
        refuse(j, rc);
    check_plausible(j, file_bytes);
    ask_for_rgb(j->png);
    png_read_update_info(j->png, j->info);
    rc = image_new(m, width, height, j->err);
    j->rows = rc ? NULL : calloc(height, sizeof *j->rows);
    if (!rc && !j->rows)
        rc = error_set(j->err, ERR_MEMORY, j->name, "no memory for an image of %u rows", height);
    if (rc)
        refuse(j, rc);
    if (png_get_rowbytes(j->png, j->info) != (size_t)width * 3)
        refuse(j, error_set(j->err, ERR_INTERNAL, j->name, "a row of the image is not of 8-bit RGB"));
    for (uint32_t y = 0; y < height; y++)
        j->rows[y] = m->rgb + (size_t)y * width * 3;
    png_read_image(j->png, j->rows);
    // What comes after the pixels may be an eXIf chunk; it is read for that, and the end of the file is seen.
    png_read_end(j->png, j->info);
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    if (png_get_eXIf_1(j->png, j->info, &n, &exif))
        source->orientation = (uint8_t)image_exif_orientation(exif, n);
}

int image_decode_png(struct image *m, const uint8_t *bytes, size_t n, const char *name, struct image_source *source,
                     struct error *err)
{
    struct job *j = job_new(name, err);
    if (!j)
        return ERR_MEMORY;
    j->at = bytes;
    j->left = n;
    j->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    j->info = j->png ? png_create_info_struct(j->png) : NULL;
    if (!j->info)
        j->rc = error_set(err, ERR_MEMORY, name, "no memory to read a PNG");
    else if (!setjmp(png_jmpbuf(j->png)))
        read_all(j, m, source, n);
    png_destroy_read_struct(&j->png, &j->info, NULL);
    return job_end(j);
}

// ---- writing

static void give(png_structp png, png_bytep bytes, size_t n)
{
    struct job *j = png_get_io_ptr(png);
    str_add_n(j->out, bytes, n);
}

static void flush(png_structp png)
{
    (void)png;
}

static bool is_ascii(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s >= 0x80)
            return false;
    }
    return true;
}

static int check_text(const struct image_text *t, struct error *err)
{
    size_t n = strlen(t->key), bad;
    bool good = n >= 1 && n <= 79 && t->key[0] != ' ' && t->key[n - 1] != ' ' && !strstr(t->key, "  ");
    for (size_t i = 0; i < n; i++)
        good = good && t->key[i] >= 32 && t->key[i] <= 126;
    if (!good)
        return error_set(err, ERR_USAGE, NULL,
                         "\"%s\" cannot name a text in a PNG: 1 to 79 characters of ASCII, single spaces within",
                         t->key);
    if (!utf8_valid(t->value, strlen(t->value), &bad))
        return error_set(err, ERR_USAGE, NULL, "the text \"%s\" for a PNG is not UTF-8 at its byte %zu", t->key,
                         bad + 1);
    return 0;
}

static void write_text(struct job *j, const struct image_text *t)
{
    // libpng takes pointers to what it does not change.
    png_text entry = {.compression = is_ascii(t->value) ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
                      .key = (char *)t->key,
                      .text = (char *)t->value,
                      .lang = (char *)"",
                      .lang_key = (char *)""};
    png_set_text(j->png, j->info, &entry, 1);
}

static void write_all(struct job *j, const struct image *m, const struct image_text *texts, size_t n_texts)
{
    png_set_write_fn(j->png, j, give, flush);
    png_set_IHDR(j->png, j->info, m->width, m->height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (size_t i = 0; i < n_texts; i++)
        write_text(j, &texts[i]);
    png_write_info(j->png, j->info);
    for (uint32_t y = 0; y < m->height; y++)
        png_write_row(j->png, m->rgb + (size_t)y * m->width * 3);
    png_write_end(j->png, j->info);
}

int image_encode_png(const struct image *m, const struct image_text *texts, size_t n_texts, struct str *out,
                     struct error *err)
{
    int rc = image_check_size(m->width, m->height, NULL, ERR_USAGE, err);
    for (size_t i = 0; !rc && i < n_texts; i++)
        rc = check_text(&texts[i], err);
    if (rc)
        return rc;
    struct job *j = job_new(NULL, err);
    if (!j)
        return ERR_MEMORY;
    j->out = out;
    j->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    j->info = j->png ? png_create_info_struct(j->png) : NULL;
    if (!j->info)
        j->rc = error_set(err, ERR_MEMORY, NULL, "no memory to write a PNG");
    else if (!setjmp(png_jmpbuf(j->png)))
        write_all(j, m, texts, n_texts);
    png_destroy_write_struct(&j->png, &j->info);
    rc = job_end(j);
    return rc ? rc : str_check(out, err);
}

int image_write_png(const struct image *m, const char *path, const struct image_text *texts, size_t n_texts,
                    struct error *err)
{
    struct str out;
    str_init(&out);
    int rc = image_encode_png(m, texts, n_texts, &out, err);
    rc = rc ? rc : file_write(path, out.text, out.length, err);
    str_release(&out);
    return rc;
}

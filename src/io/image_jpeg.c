// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
// After jpeglib.h: the numbers of its messages.
#include <jerror.h>

#include "io/image_part.h"

#define MAX_SCANS 500

struct job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    const char *name;
    struct error *err;
    int rc;
    uint8_t *row; // of a CMYK image
};

static struct job *job_of(j_common_ptr jpeg)
{
    return (struct job *)jpeg->client_data;
}

static void on_error(j_common_ptr jpeg)
{
    struct job *j = job_of(jpeg);
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    if (!j->rc)
        j->rc = error_set(j->err, ERR_INPUT, j->name, "the JPEG is damaged: %s", text);
    longjmp(j->leave, 1);
}

// Warnings are about data that was made up for what is missing: an image is refused for these, and not for bytes too
// many.
static void on_message(j_common_ptr jpeg, int level)
{
    int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE))
        on_error(jpeg);
}

static void refuse(struct job *j, int rc)
{
    j->rc = rc;
    longjmp(j->leave, 1);
}

static void on_progress(j_common_ptr jpeg)
{
    struct job *j = job_of(jpeg);
    if (j->jpeg.input_scan_number > MAX_SCANS)
        refuse(j, error_set(j->err, ERR_INPUT, j->name, "the JPEG has more than %d scans", MAX_SCANS));
}

static void describe(struct job *j, struct image_source *source)
{
    static const char exif[] = "Exif\0";
    source->format = "JPEG";
    source->bits = j->jpeg.data_precision;
    source->channels = j->jpeg.num_components;
    for (jpeg_saved_marker_ptr m = j->jpeg.marker_list; m; m = m->next) {
        if (m->data_length < sizeof exif || memcmp(m->data, exif, sizeof exif) != 0)
            continue;
        source->orientation = (uint8_t)image_exif_orientation(m->data + sizeof exif, m->data_length - sizeof exif);
        break;
    }
}

// x y / 255, rounded, x and y up to 255.
static uint32_t part_of(uint32_t x, uint32_t y)
{
    uint32_t v = x * y + 128;
    return ((v >> 8) + v) >> 8;
}

// Four inks, inverted (as Adobe writes them, and nobody else writes any), to light.
static void rgb_of_cmyk(uint8_t *rgb, const uint8_t *cmyk, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, rgb += 3, cmyk += 4) {
        for (int i = 0; i < 3; i++)
            rgb[i] = (uint8_t)(cmyk[3] - part_of(255u - cmyk[i], cmyk[3]));
    }
}

static void read_all(struct job *j, struct image *m, const uint8_t *bytes, size_t n, struct image_source *source)
{
    struct jpeg_decompress_struct *jpeg = &j->jpeg;
    jpeg_mem_src(jpeg, bytes, n);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xFFFF);
    (void)jpeg_read_header(jpeg, TRUE);
    describe(j, source);
    uint32_t width = jpeg->image_width, height = jpeg->image_height;
    int rc = image_check_size(width, height, j->name, ERR_INPUT, j->err);
    // Every block of 64 pixels takes a bit: an image that cannot be in the file is refused before memory is asked for.
    // That does not hold for arithmetic coding, which hardly anybody writes.
    if (!rc && jpeg->arith_code)
        rc = error_set(j->err, ERR_INPUT, j->name, "the JPEG is coded arithmetically, which is not supported");
    if (!rc && (uint64_t)width * height / 512 > n)
        rc = error_set(j->err, ERR_INPUT, j->name, "the JPEG is damaged: %zu bytes cannot hold its %u by %u pixels", n,
                       width, height);
    rc = rc ? rc : image_new(m, width, height, j->err);
    if (rc)
        refuse(j, rc);
    source->cmyk = jpeg->num_components == 4;
    jpeg->out_color_space = source->cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(jpeg);
    j->row = source->cmyk ? malloc((size_t)width * 4) : NULL;
    if (source->cmyk && !j->row)
        refuse(j, error_set(j->err, ERR_MEMORY, j->name, "no memory for a row of an image"));
    while (jpeg->output_scanline < height) {
        uint8_t *to = m->rgb + (size_t)jpeg->output_scanline * width * 3, *row = source->cmyk ? j->row : to;
        if (jpeg_read_scanlines(jpeg, &row, 1) == 1 && source->cmyk)
            rgb_of_cmyk(to, row, width);
    }
    jpeg_finish_decompress(jpeg);
}

int image_decode_jpeg(struct image *m, const uint8_t *bytes, size_t n, const char *name, struct image_source *source,
                      struct error *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return error_set(err, ERR_MEMORY, name, "no memory to read a JPEG");
    j->name = name;
    j->err = err;
    j->jpeg.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->jpeg.client_data = j;
    if (!setjmp(j->leave)) {
        jpeg_create_decompress(&j->jpeg);
        j->progress.progress_monitor = on_progress;
        j->jpeg.progress = &j->progress;
        read_all(j, m, bytes, n, source);
    }
    int rc = j->rc;
    jpeg_destroy_decompress(&j->jpeg);
    free(j->row);
    free(j);
    return rc;
}

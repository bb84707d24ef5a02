// SPDX-License-Identifier: Apache-2.0
#include "report/timeline_html.h"

#include <string.h>

#include "report/html.h"

// RFC 4648, with padding.
static void add_base64(struct str *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[4096];
    while (n) {
        size_t some = n < 3072 ? n : 3072, length = 0;
        for (size_t i = 0; i < some; i += 3) {
            uint32_t v = (uint32_t)(uint8_t)bytes[i] << 16;
            v |= i + 1 < some ? (uint32_t)(uint8_t)bytes[i + 1] << 8 : 0;
            v |= i + 2 < some ? (uint32_t)(uint8_t)bytes[i + 2] : 0;
            text[length++] = digits[v >> 18];
            text[length++] = digits[v >> 12 & 63];
            text[length++] = i + 1 < some ? digits[v >> 6 & 63] : '=';
            text[length++] = i + 2 < some ? digits[v & 63] : '=';
        }
        str_add_n(out, text, length);
        bytes += some;
        n -= some;
    }
}

int timeline_html(struct str *out, const struct timeline_encoded *e, const char *title, struct error *err)
{
    str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                 "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    html_text(out, title);
    str_add(out, "</title>\n<style>\n");
    str_add(out, timeline_style);
    str_add(out, "</style>\n</head>\n<body>\n<noscript>This page is drawn by a script of its own.</noscript>\n"
                 "<script type=\"application/json\" id=\"profile\">");
    str_add_n(out, str_text(&e->json), e->json.length);
    str_add(out, "</script>\n<script type=\"text/plain\" id=\"records\">");
    add_base64(out, str_text(&e->records), e->records.length);
    str_add(out, "</script>\n<script>\n");
    str_add(out, timeline_script);
    str_add(out, "</script>\n</body>\n</html>\n");
    return str_check(out, err);
}

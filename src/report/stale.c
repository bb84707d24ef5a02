// SPDX-License-Identifier: Apache-2.0
#include "report/stale.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { MAX_BYTES = 64 << 20 };

// A page without a mark belongs to a report that draws none.
static int look(struct str *out, size_t *n, const char *dir, const char *name, bool must, const char *sha256,
                struct error *err)
{
    struct str path, text;
    str_init(&path);
    str_init(&text);
    str_addf(&path, "%s/%s", dir, name);
    int rc = str_check(&path, err);
    if (!rc)
        rc = file_read(&text, str_text(&path), MAX_BYTES, err);
    if (!rc) {
        const char *mark = strstr(str_text(&text), REPORT_STALE_MARK);
        bool fresh = mark ? strncmp(mark + strlen(REPORT_STALE_MARK), sha256, 64) == 0 : !must;
        if (!fresh) {
            str_addf(out, "%s\n", name);
            ++*n;
        }
    }
    str_release(&path);
    str_release(&text);
    return rc;
}

static int is_picture(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 4 && strcmp(entry->d_name + n - 4, ".svg") == 0;
}

int report_stale(struct str *out, size_t *n, const char *dir, const char *sha256, struct error *err)
{
    struct str path;
    struct dirent **list = NULL;
    int rc = 0;
    *n = 0;
    str_init(&path);
    str_addf(&path, "%s/report.html", dir);
    if (file_exists(str_text(&path)))
        rc = look(out, n, dir, "report.html", false, sha256, err);
    str_clear(&path);
    str_addf(&path, "%s/figures", dir);
    int count = scandir(str_text(&path), &list, is_picture, alphasort);
    for (int i = 0; i < count; i++) {
        str_clear(&path);
        str_addf(&path, "figures/%s", list[i]->d_name);
        if (!rc)
            rc = look(out, n, dir, str_text(&path), true, sha256, err);
        free(list[i]);
    }
    free(list);
    str_release(&path);
    return rc ? rc : str_check(out, err);
}

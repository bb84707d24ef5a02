// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Optimal string alignment distance, three rows of the table at a time.
size_t suggest_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        int x = tolower((unsigned char)a[i - 1]);
        for (size_t j = 1; j <= m; j++) {
            int y = tolower((unsigned char)b[j - 1]);
            now[j] = least(least(above[j], now[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

void suggest_offer(struct suggest *s, const char *name)
{
    size_t d = suggest_distance(s->wanted, name), wanted = strlen(s->wanted);
    size_t length = strlen(name) > wanted ? strlen(name) : wanted;
    // What continues as the name does is near, too: "--run" for "--run-dir".
    if (wanted >= 2 && strncasecmp(name, s->wanted, wanted) == 0)
        d = least(d, 1);
    if (d > (length + 2) / 3 || (s->best && d >= s->distance))
        return;
    s->best = name;
    s->distance = d;
}

// SPDX-License-Identifier: Apache-2.0
// Three predictions and the measurement, a row for each target and policy.
#include <math.h>

#include "report/format.h"
#include "report/qualify_tables.h"

bool qualify_has_targets(const json_t *result)
{
    for (size_t p = 0; p < qualify_policies(result); p++) {
        if (doc_count(qualify_policy(result, p), "predictions"))
            return true;
    }
    return false;
}

void qualify_table_targets(struct table *t, const json_t *result)
{
    static const struct {
        const char *title, *path;
        int rank;
        char origin;
    } columns[] = {
        {"sheet floor", "sheet", 2, 'D'},
        {"compiler floor", "compiler.floor", 1, 'D'},
        {"compiler predicts", "compiler.predicted", 1, 'D'},
        {"at least", "compiler.low", 3, 'D'},
        {"at most", "compiler.high", 3, 'D'},
        {"calibrated", "calibrated", 1, 'D'},
        {"measured p50", "measured", 0, 'M'},
    };
    size_t n = sizeof columns / sizeof *columns, most = 0;
    table_column(t, "target", NULL, TABLE_LEFT, 0);
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (size_t c = 0; c < n; c++) {
        table_column(t, columns[c].title, NULL, TABLE_RIGHT, columns[c].rank);
        table_origin(t, columns[c].origin);
    }
    for (size_t p = 0; p < qualify_policies(result); p++) {
        size_t k = doc_count(qualify_policy(result, p), "predictions");
        most = k > most ? k : most;
    }
    for (size_t i = 0; i < most; i++) {
        bool named = false;
        for (size_t p = 0; p < qualify_policies(result); p++) {
            const json_t *policy = qualify_policy(result, p), *one = doc_item(policy, "predictions", i);
            if (!one)
                continue;
            table_row(t);
            const char *layout = doc_text(one, "layout", NULL);
            table_cellf(t, "%s%s%s", named ? "" : doc_text(one, "target", "?"), named || !layout ? "" : ", ",
                        named || !layout ? "" : layout);
            table_cell(t, qualify_policy_name(policy));
            named = true;
            for (size_t c = 0; c < n; c++)
                table_quantity(t, doc_quantity(one, columns[c].path));
        }
    }
}

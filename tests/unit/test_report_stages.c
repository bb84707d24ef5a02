// SPDX-License-Identifier: Apache-2.0
// What is said of a pipeline above its tables.
#include <string.h>

#include "base/json.h"
#include "report/stages.h"
#include "test.h"

static const char format[] = "{\"schema\": \"assay.bench.stages/1\", \"result\": {\"serving\": [], \"modules\": ["
                             "{\"module\": \"text encoder\", \"loops\": {\"count\": %d, \"layers\": %d}},"
                             "{\"module\": \"preparation\", \"loops\": {\"count\": 0, \"layers\": 0}},"
                             "{\"module\": \"transformer step\", \"loops\": {\"count\": 2, \"layers\": 25}},"
                             "{\"module\": \"all steps, one by one\", \"loops\": {\"count\": 2, \"layers\": 25}}]}}";

static bool says(int loops, int layers, const char *line)
{
    char text[1024];
    struct str out;
    struct error err = {0};
    snprintf(text, sizeof text, format, loops, layers);
    json_t *doc = json_parse(text, strlen(text), "a test", &err);
    str_init(&out);
    bool said = doc && report_stages_text(&out, doc, 200, false, &err) == 0 && strstr(str_text(&out), line);
    if (!said)
        printf("  %s: %s\n%s\n", err.where, err.message, str_text(&out));
    str_release(&out);
    json_decref(doc);
    return said;
}

TEST(report_stages_name_loops)
{
    CHECK(says(3, 27, "\nlayers as loops: 27 of the text encoder, 25 of the transformer step\n"));
    CHECK(says(0, 0, "\nlayers as loops: 25 of the transformer step\n"));
}

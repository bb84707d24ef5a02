// SPDX-License-Identifier: Apache-2.0
// A precision policy. What is accepted must be the same policy when it is spelled out and read again.
#include "ir/policy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool same(const struct policy *p, const struct policy *q)
{
    return p->a_grain == q->a_grain && p->a_static == q->a_static && p->a_percentile == q->a_percentile &&
           p->w == q->w && p->vectors == q->vectors && p->w_grain == q->w_grain && p->w_group == q->w_group &&
           p->a == q->a && p->between == q->between && p->op == q->op && p->op_inner == q->op_inner &&
           p->acc == q->acc && p->red == q->red && p->norm == q->norm && p->out == q->out && p->kv == q->kv &&
           p->grad == q->grad && p->master == q->master && p->opt == q->opt;
}

static void check(const struct policy *p)
{
    struct str spelled, json;
    str_init(&spelled);
    str_init(&json);
    policy_spell(p, &spelled);
    struct policy again;
    struct error err = {0};
    must(policy_parse(&again, str_text(&spelled), &err) == 0 && same(p, &again));
    must(policy_check(p, "cpu", &err) == 0);
    struct jw w;
    jw_init(&w, &json, true);
    policy_parts_json(p, false, &w);
    must(jw_finish(&w, &err) == 0);
    json_t *parts = json_parse(str_text(&json), json.length, "parts", &err);
    must(json_array_size(parts) > 0);
    json_decref(parts);
    str_release(&json);
    str_release(&spelled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    must(text != NULL);
    struct policy p;
    struct error err = {0};
    if (policy_parse(&p, text, &err) == 0)
        check(&p);
    else
        must(err.code && err.message[0]);
    free(text);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A ladder as the document's result, and two such documents compared.
#ifndef LAB_LADDER_JSON_H
#define LAB_LADDER_JSON_H

#include "base/json.h"
#include "lab/ladder.h"

// Members of an open object: what is asked (config.json), and the result.
void ladder_config(const struct ladder_options *o, struct jw *w);
void ladder_json(const struct ladder *l, struct jw *w);

// The result of comparing two ladders' documents (envelopes included): how far every key that both have moved in
// signal to noise, B minus A; the median of these, the share within 2 dB, and what is warned of in B alone. `names` say
// which is which. ERR_INPUT for what is no ladder's document.
int ladder_compare_json(const json_t *a, const json_t *b, const char *const names[2], struct jw *w, struct error *err);

#endif

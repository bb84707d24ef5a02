// SPDX-License-Identifier: Apache-2.0
// The tables of a qualify document, the same for terminal, Markdown and HTML, and what they share with its charts.
#ifndef REPORT_QUALIFY_TABLES_H
#define REPORT_QUALIFY_TABLES_H

#include "report/doc.h"
#include "report/table.h"

enum { QUALIFY_MAX_CHIPS = 16 };

// result, or NULL with ERR_INPUT when doc is not a qualify document.
const json_t *qualify_result(const json_t *doc, struct error *err);

size_t qualify_policies(const json_t *result);
const json_t *qualify_policy(const json_t *result, size_t i);
const char *qualify_policy_name(const json_t *policy);
// The policy that result.modules is about: the chosen one, else the first.
const json_t *qualify_modules_policy(const json_t *result);
bool qualify_failed(const json_t *policy);
bool qualify_chosen(const json_t *result, const json_t *policy);
// "signal 6 while compiling: ..." of a failed policy, into out.
void qualify_failure(struct str *out, const json_t *policy);
// Codes and scales together, in bytes.
struct quantity qualify_stored(const json_t *policy);
// Names of the chips that the modules have floors for, at most QUALIFY_MAX_CHIPS; borrowed.
size_t qualify_chips(const json_t *result, const char *names[QUALIFY_MAX_CHIPS]);
// Member of an object whose keys may hold dots.
const json_t *qualify_member(const json_t *o, const char *path, const char *key);
// What a reader of one policy's numbers has to know of how it ran; nothing for most.
void qualify_policy_notes(struct str *out, const json_t *result, const json_t *policy);
// One line of words: "no requirement was set", ...
void qualify_headline(struct str *out, const json_t *result);
// The number that `require` compares `name` with ("cosine_min>=0.999"), or NAN.
double qualify_required(const json_t *result, const char *name);

// Each fills an initialised table. One that has no row to show stays without rows.
void qualify_table_policies(struct table *t, const json_t *result);
void qualify_table_errors(struct table *t, const json_t *result);
void qualify_table_time(struct table *t, const json_t *result);
void qualify_table_request(struct table *t, const json_t *result);
void qualify_table_memory(struct table *t, const json_t *result);
void qualify_table_specs(struct table *t, const json_t *result);
void qualify_table_parts(struct table *t, const json_t *result);
void qualify_table_subsets(struct table *t, const json_t *result);
void qualify_table_diagnostics(struct table *t, const json_t *result);
void qualify_table_modules(struct table *t, const json_t *result);
bool qualify_has_targets(const json_t *result);
void qualify_table_targets(struct table *t, const json_t *result);
void qualify_table_predictions(struct table *t, const json_t *result);
void qualify_table_chips(struct table *t, const json_t *result);
void qualify_table_files(struct table *t, const json_t *result);
// What of each quantised activation was clipped, and with which scales; which products the optimised program has.
void qualify_table_activations(struct table *t, const json_t *result);
void qualify_table_products(struct table *t, const json_t *result);
// Of programs: every output under every policy, and what each argument is.
void qualify_table_outputs(struct table *t, const json_t *result);
void qualify_table_arguments(struct table *t, const json_t *result);
// Whether a table has anything to say of this workload: texts have subsets, programs have outputs and arguments.
bool qualify_table_applies(void (*fill)(struct table *, const json_t *), const json_t *result);
void qualify_table_facts(struct table *t, const json_t *doc);

#endif

// SPDX-License-Identifier: Apache-2.0
// What every public function does at its beginning and its end.
#ifndef API_API_H
#define API_API_H

#include <locale.h>

#include "assay/assay.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/str.h"
#include "record/record.h"
#include "worker/worker.h"

// One call of a public function. Numbers are written and read with a decimal point, so the calling thread is in the C
// locale from api_begin to api_end.
struct api_call {
    struct error err;
    locale_t c, before;
};
void api_begin(struct api_call *call);
// Returns rc, and tells `error` (which may be NULL) what happened.
int api_end(struct api_call *call, int rc, struct assay_error *error);

// ERR_USAGE when a pointer that is needed is NULL; `name` is the argument's.
int api_need(struct api_call *call, const void *pointer, const char *name);
// The same of a list of strings and every one of them; a list of none may be NULL.
int api_need_list(struct api_call *call, const char *const *list, size_t count, const char *name);
// The device's options for the worker; ERR_USAGE for numbers out of range.
int api_device(struct api_call *call, const struct assay_device *device, struct worker_options *out);
// Hands the text out; ERR_MEMORY when some append to it had failed. `text` is empty afterwards.
int api_take(struct api_call *call, struct str *text, char **out);

// Hands out the document of a command whose result `fill` writes.
int api_document(struct api_call *call, const char *command, record_result *fill, void *of, char **json);

// A record that a call makes: opened before, filled by the experiment, and handed out as text and path.
struct api_record {
    struct record record;
    struct str document;
};
int api_record_open(struct api_call *call, struct api_record *r, const char *run_dir, const char *command);
// `rc` is what filling it came to. On success *json and *path are the caller's; on failure neither is set.
int api_record_take(struct api_call *call, struct api_record *r, int rc, char **json, char **path);

static inline struct progress api_progress(const struct assay_progress *p)
{
    return (struct progress){.report = p->report, .context = p->context};
}

#endif

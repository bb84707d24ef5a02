// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(ASSAY_ERROR_USAGE == (int)ERR_USAGE && ASSAY_ERROR_INPUT == (int)ERR_INPUT &&
                   ASSAY_ERROR_DEVICE == (int)ERR_DEVICE && ASSAY_ERROR_INTERNAL == (int)ERR_INTERNAL &&
                   ASSAY_ERROR_MEMORY == (int)ERR_MEMORY && ASSAY_ERROR_IO == (int)ERR_IO &&
                   ASSAY_ERROR_INTERRUPTED == (int)ERR_INTERRUPTED,
               "public codes are the codes used inside");
_Static_assert(sizeof(struct assay_error) == sizeof(struct error), "errors are copied whole");

const char *assay_version(void)
{
    return ASSAY_VERSION;
}

const char *assay_error_name(int code)
{
    return error_code_name(code);
}

int assay_error_exit_code(int code)
{
    return error_exit_code(code);
}

void assay_free(void *memory)
{
    free(memory);
}

void api_begin(struct api_call *call)
{
    memset(call, 0, sizeof *call);
    call->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    call->before = call->c ? uselocale(call->c) : (locale_t)0;
}

int api_end(struct api_call *call, int rc, struct assay_error *error)
{
    if (call->c) {
        uselocale(call->before);
        freelocale(call->c);
    }
    if (rc && !call->err.code)
        error_set(&call->err, rc, NULL, "failed without saying why");
    if (error)
        memcpy(error, &call->err, sizeof *error);
    return rc;
}

int api_need(struct api_call *call, const void *pointer, const char *name)
{
    return pointer ? 0 : error_set(&call->err, ERR_USAGE, name, "is needed, not a null pointer");
}

int api_need_list(struct api_call *call, const char *const *list, size_t count, const char *name)
{
    int rc = count ? api_need(call, list, name) : 0;
    for (size_t i = 0; i < count && !rc; i++)
        rc = api_need(call, list[i], name);
    return rc;
}

int api_device(struct api_call *call, const struct assay_device *device, struct worker_options *out)
{
    if (device->threads < 0 || device->threads > 4096)
        return error_set(&call->err, ERR_USAGE, "threads", "must be from 1 to 4096, or 0 for all, not %d",
                         device->threads);
    if (!(device->timeout_s >= 0 && device->timeout_s <= 1e6))
        return error_set(&call->err, ERR_USAGE, "timeout_s", "must be from 0 to 1e6 s, not %g", device->timeout_s);
    *out = (struct worker_options){
        .device = device->name,
        .plugin_path = device->plugin,
        .worker_path = device->worker,
        .threads = device->threads,
        .kernels = !device->no_kernels,
        .load_timeout_s = device->timeout_s,
        .compile_timeout_s = device->timeout_s,
        .run_timeout_s = device->timeout_s,
    };
    return 0;
}

int api_take(struct api_call *call, struct str *text, char **out)
{
    int rc = str_check(text, &call->err);
    if (!rc) {
        *out = text->text ? text->text : strdup("");
        text->text = NULL;
        rc = *out ? 0 : error_set(&call->err, ERR_MEMORY, NULL, "no memory for the result");
    }
    str_release(text);
    return rc;
}

int api_document(struct api_call *call, const char *command, record_result *fill, void *of, char **json)
{
    struct str document;
    str_init(&document);
    int rc = record_document(&document, command, NULL, fill, of, &call->err);
    if (!rc)
        rc = api_take(call, &document, json);
    str_release(&document);
    return rc;
}

int api_record_open(struct api_call *call, struct api_record *r, const char *run_dir, const char *command)
{
    static char name[] = "libassay", *argv[] = {name, NULL}; // there was no command line
    str_init(&r->document);
    return record_open(&r->record, run_dir, command, 1, argv, &call->err);
}

int api_record_take(struct api_call *call, struct api_record *r, int rc, char **json, char **path)
{
    char *copy = rc ? NULL : strdup(record_path(&r->record));
    if (!rc && !copy)
        rc = error_set(&call->err, ERR_MEMORY, NULL, "no memory for the result");
    if (!rc)
        rc = api_take(call, &r->document, json);
    str_release(&r->document);
    if (rc)
        free(copy);
    else
        *path = copy;
    return rc;
}

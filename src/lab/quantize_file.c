// SPDX-License-Identifier: Apache-2.0
#include "lab/quantize_file.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/interrupt.h"
#include "base/sha256.h"
#include "io/ggml.h"
#include "io/gguf.h"
#include "lab/quantize_work.h"
#include "num/convert.h"

double quantize_rel_l2(const struct quantize_stats *s)
{
    return s->reference2 > 0 ? sqrt(s->error2 / s->reference2) : NAN;
}

double quantize_snr_db(const struct quantize_stats *s)
{
    return s->reference2 > 0 ? 10 * log10(s->reference2 / s->error2) : NAN;
}

double quantize_outlier_ratio(const struct quantize_stats *s)
{
    size_t n = s->elements - s->nonfinite;
    return s->reference2 > 0 ? s->amax / sqrt(s->reference2 / (double)n) : NAN;
}

const char *quantize_action_name(enum quantize_action a)
{
    return a == QUANTIZE_DONE ? "quantised" : a == QUANTIZE_KEPT ? "kept" : "decoded";
}

const char *quantize_nonfinite_name(enum quant_nonfinite n)
{
    return n == QUANT_REFUSE ? "error" : n == QUANT_SATURATE ? "saturate" : "keep";
}

bool quantize_nonfinite_from_name(const char *name, enum quant_nonfinite *out)
{
    static const enum quant_nonfinite all[] = {QUANT_REFUSE, QUANT_SATURATE, QUANT_KEEP};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(quantize_nonfinite_name(all[i]), name) == 0) {
            *out = all[i];
            return true;
        }
    }
    return false;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// --- What becomes of each tensor

// A last axis that is shorter than this belongs to the kernel of a convolution.
#define CONTRACTED_AXIS 32

void quantize_as_matrix(const struct tensor_view *v, size_t *rows, size_t *columns)
{
    int first = v->rank <= 1 ? 0 : v->rank == 2 || v->dims[v->rank - 1] < CONTRACTED_AXIS ? 1 : v->rank - 1;
    *rows = *columns = 1;
    for (int d = 0; d < v->rank; d++)
        *(d < first ? rows : columns) *= (size_t)v->dims[d];
}

static bool is_vector(const struct tensor_view *v)
{
    int longer = 0;
    for (int d = 0; d < v->rank; d++)
        longer += v->dims[d] > 1;
    return longer < 2;
}

// NULL: it is quantised.
static const char *reason_to_keep(struct quantize_file *q, const struct quantize_options *o,
                                  const struct tensor_view *v, struct error *err)
{
    const char *reason = NULL;
    bool is_float = v->blocks || dtype_is_float(v->dtype);
    for (size_t i = 0; i < o->n_skip; i++) {
        if (fnmatch(o->skip[i], v->name, 0) != 0)
            continue;
        q->skip_matches[i]++;
        if (!reason)
            reason = arena_printf(&q->arena, err, "--skip '%s'", o->skip[i]);
    }
    if (reason)
        return reason;
    if (v->elements == 0)
        return "empty";
    if (!is_float)
        return v->dtype == DT_PRED ? "truth values" : dtype_is_integer(v->dtype) ? "integers" : "complex numbers";
    if (!v->blocks && !convert_possible(DT_F32, v->dtype))
        return "packed codes";
    if (q->policy.form == QUANTIZE_NARROW)
        return v->dtype == q->policy.to ? "of this type already" : NULL;
    return v->rank == 0 ? "scalar" : is_vector(v) ? "vector" : NULL;
}

static const char *with_suffix(struct quantize_file *q, const char *name, const char *suffix, struct error *err)
{
    return arena_printf(&q->arena, err, "%s%s", name, suffix);
}

static int plan_tensor(struct quantize_file *q, const struct quantize_options *o, struct quantize_tensor *t,
                       struct error *err)
{
    const struct tensor_view *v = t->view;
    const struct quantize_policy *p = &q->policy;
    if (v->blocks && !v->blocks->decode)
        return error_set(err, ERR_INPUT, v->name, "is stored in blocks of type %s, which this version cannot decode",
                         v->blocks->name);
    quantize_stats_init(&t->stats);
    quantize_as_matrix(t->view, &t->rows, &t->columns);
    t->from = t->to = tensor_type_name(v);
    t->codes = v->name;
    t->bytes_before = v->bytes;
    t->reason = reason_to_keep(q, o, v, err);
    if (err->code)
        return err->code;
    if (t->reason) {
        t->action = v->blocks ? QUANTIZE_DECODED : QUANTIZE_KEPT;
        t->to = v->blocks ? dtype_name(DT_F32) : t->from;
        return 0;
    }
    t->action = QUANTIZE_DONE;
    t->to = p->form == QUANTIZE_NARROW  ? dtype_name(p->to)
            : p->form == QUANTIZE_CODES ? dtype_name(p->spec.type)
                                        : p->block->name;
    if (quantize_code_bits(p) < 8)
        t->codes = with_suffix(q, v->name, "_packed", err);
    if (p->form != QUANTIZE_NARROW)
        t->scales = with_suffix(q, v->name, "_scale", err);
    if (quantize_has_zeros(p))
        t->zeros = with_suffix(q, v->name, "_zero_point", err);
    if (p->form == QUANTIZE_BLOCKS && p->block->tensor_scale)
        t->tensor_scale = with_suffix(q, v->name, "_global_scale", err);
    return err->code;
}

static int plan(struct quantize_file *q, const struct quantize_options *o, struct error *err)
{
    q->count = q->checkpoint.count;
    q->tensors = arena_new(&q->arena, struct quantize_tensor, q->count, err);
    q->skip_matches = arena_new(&q->arena, size_t, o->n_skip, err);
    if (!q->tensors || !q->skip_matches)
        return ERR_MEMORY;
    for (size_t i = 0; i < q->count; i++) {
        struct quantize_tensor *t = &q->tensors[i];
        t->view = &q->checkpoint.tensors[i];
        int rc = plan_tensor(q, o, t, err);
        if (rc)
            return rc;
        q->quantised += t->action == QUANTIZE_DONE;
    }
    return 0;
}

// --- The file

struct output {
    struct safetensors_entry *entries;
    size_t count;
    struct quantize_entries *of; // by tensor
    struct checkpoint_metadata *metadata;
    size_t metadata_count;
    struct str description; // the value of QUANTIZE_METADATA_KEY
    int64_t *dims;          // of entries whose shape is not the source's, three each
    size_t dims_used;
};

static long add_entry(struct output *out, const char *name, enum dtype dtype, int rank, const int64_t *dims)
{
    out->entries[out->count] = (struct safetensors_entry){name, dtype, rank, dims};
    return (long)out->count++;
}

static long add_matrix(struct output *out, const char *name, enum dtype dtype, int rank, size_t rows, size_t columns)
{
    int64_t *dims = out->dims + out->dims_used;
    out->dims_used += 2;
    dims[0] = (int64_t)rows;
    dims[1] = (int64_t)columns;
    return add_entry(out, name, dtype, rank, dims);
}

static size_t entry_bytes(const struct safetensors_entry *e)
{
    size_t n = (size_t)dtype_bits(e->dtype) / 8;
    for (int d = 0; d < e->rank; d++)
        n *= (size_t)e->dims[d];
    return n;
}

static void add_tensor(const struct quantize_file *q, const struct quantize_tensor *t, struct output *out,
                       struct quantize_entries *of)
{
    const struct tensor_view *v = t->view;
    const struct quantize_policy *p = &q->policy;
    *of = (struct quantize_entries){-1, -1, -1, -1};
    if (t->action != QUANTIZE_DONE) {
        of->codes = add_entry(out, t->codes, t->action == QUANTIZE_KEPT ? v->dtype : DT_F32, v->rank, v->dims);
        return;
    }
    int bits = quantize_code_bits(p);
    if (bits < 8)
        of->codes = add_matrix(out, t->codes, DT_U8, 2, t->rows, (t->columns * (size_t)bits + 7) / 8);
    else
        of->codes = add_entry(out, t->codes, quantize_code_dtype(p), v->rank, v->dims);
    if (!t->scales)
        return;
    int rank = p->form == QUANTIZE_CODES && p->spec.granularity == QUANT_PER_TENSOR ? 0 : 2;
    size_t down = quantize_scales_down(p, t->rows), across = quantize_scales_across(p, t->columns);
    of->scales = add_matrix(out, t->scales, quantize_scale_dtype(p), rank, down, across);
    if (t->zeros) {
        bool is_signed = dtype_info(p->spec.type)->kind == DTK_SIGNED;
        enum dtype type = bits > 8 ? (is_signed ? DT_S16 : DT_U16) : is_signed ? DT_S8 : DT_U8;
        of->zeros = add_matrix(out, t->zeros, type, rank, down, across);
    }
    if (t->tensor_scale)
        of->tensor_scale = add_matrix(out, t->tensor_scale, DT_F32, 0, 1, 1);
}

// A text of 64 characters that stands for the hash of source i until that is known.
static void placeholder(char out[65], size_t i)
{
    memset(out, '-', 64);
    snprintf(out, 65, "hash-of-source-%zu", i);
    out[strlen(out)] = '-';
    out[64] = '\0';
}

static const char *calibration_name(enum quant_range_from from)
{
    return from == QUANT_FROM_ABSMAX ? "absmax" : from == QUANT_FROM_PERCENTILE ? "percentile" : "least error";
}

static void describe_spec(const struct quant_spec *s, struct jw *w)
{
    static const char *const grains[] = {"tensor", "channel", "group", "block"};
    double low, high;
    quant_code_limits(s, &low, &high);
    jw_kv_string(w, "granularity", grains[s->granularity]);
    if (s->granularity == QUANT_PER_CHANNEL)
        jw_kv_int(w, "axis", s->channel_axis);
    if (s->granularity == QUANT_PER_GROUP) {
        jw_kv_int(w, "axis", s->group_axis);
        jw_kv_int(w, "group", s->group);
    }
    if (s->granularity == QUANT_PER_BLOCK) {
        jw_key(w, "block");
        jw_array(w);
        jw_int(w, s->block[0]);
        jw_int(w, s->block[1]);
        jw_array_end(w);
    }
    jw_kv_string(w, "mapping", s->mapping == QUANT_AFFINE ? "affine" : "symmetric");
    jw_key(w, "code_range");
    jw_array(w);
    jw_double(w, low);
    jw_double(w, high);
    jw_array_end(w);
    jw_kv_string(w, "rounding", s->rounding == QUANT_HALF_AWAY ? "half away" : "half even");
    jw_kv_string(w, "zero_point_added",
                 s->zero_order == QUANT_ZERO_BEFORE_ROUNDING ? "before rounding" : "after rounding");
    jw_kv_string(w, "calibration", calibration_name(s->from));
}

static void describe_policy(const struct quantize_file *q, struct jw *w)
{
    const struct quantize_policy *p = &q->policy;
    static const char *const forms[] = {"narrow", "codes", "blocks"};
    struct str text;
    str_init(&text);
    quantize_policy_spell(p, &text);
    jw_kv_string(w, "policy", p->text);
    jw_kv_string(w, "fields", str_text(&text));
    str_clear(&text);
    quantize_policy_describe(p, &text);
    jw_kv_string(w, "rule", str_text(&text));
    str_release(&text);
    int bits = quantize_code_bits(p);
    jw_kv_string(w, "form", forms[p->form]);
    jw_kv_string(w, "type",
                 p->form == QUANTIZE_BLOCKS  ? p->block->name
                 : p->form == QUANTIZE_CODES ? dtype_name(p->spec.type)
                                             : dtype_name(p->to));
    jw_kv_int(w, "bits", bits);
    if (p->form == QUANTIZE_CODES)
        describe_spec(&p->spec, w);
    if (p->form == QUANTIZE_BLOCKS) {
        jw_kv_string(w, "element_type", dtype_name(p->block->element));
        jw_kv_int(w, "axis", 1);
        jw_kv_uint(w, "group", p->block->block);
        jw_kv_string(w, "scale_rule", p->block->tensor_scale ? "amax" : block_scale_rule_name(p->cast.scale_rule));
    }
    if (p->form != QUANTIZE_NARROW)
        jw_kv_string(w, "scale_type", dtype_name(quantize_scale_dtype(p)));
    if (bits < 8)
        jw_kv_string(w, "packing",
                     "row by row; element i of a row begins at bit i*bits, bits of a byte from the lowest");
    jw_kv_string(w, "not_finite", quantize_nonfinite_name(q->nonfinite));
}

static void describe_tensor(const struct quantize_tensor *t, struct jw *w)
{
    jw_key(w, t->view->name);
    jw_object(w);
    jw_key(w, "shape");
    jw_array(w);
    for (int d = 0; d < t->view->rank; d++)
        jw_int(w, t->view->dims[d]);
    jw_array_end(w);
    jw_kv_uint(w, "rows", t->rows);
    jw_kv_uint(w, "columns", t->columns);
    jw_kv_string(w, "from", t->from);
    jw_kv_string(w, "codes", t->codes);
    if (t->scales)
        jw_kv_string(w, "scales", t->scales);
    if (t->zeros)
        jw_kv_string(w, "zero_points", t->zeros);
    if (t->tensor_scale)
        jw_kv_string(w, "global_scale", t->tensor_scale);
    jw_object_end(w);
}

static int describe(const struct quantize_file *q, struct str *out, struct error *err)
{
    struct jw w;
    jw_init(&w, out, true);
    jw_object(&w);
    jw_kv_string(&w, "schema", "assay.quantized/1");
    jw_kv_string(&w, "assay", ASSAY_VERSION);
    describe_policy(q, &w);
    jw_key(&w, "source");
    jw_array(&w);
    for (size_t i = 0; i < q->source_count; i++) {
        char hash[65];
        placeholder(hash, i);
        jw_object(&w);
        jw_kv_string(&w, "name", q->sources[i].name);
        jw_kv_uint(&w, "bytes", q->sources[i].bytes);
        jw_kv_string(&w, "sha256", hash);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_key(&w, "tensors");
    jw_object(&w);
    for (size_t i = 0; i < q->count; i++) {
        if (q->tensors[i].action == QUANTIZE_DONE)
            describe_tensor(&q->tensors[i], &w);
    }
    jw_object_end(&w);
    if (q->calibration) {
        jw_key(&w, "activations");
        quantize_calibration_json(q->calibration, &w);
    }
    jw_object_end(&w);
    return jw_finish(&w, err);
}

static int by_key(const void *a, const void *b)
{
    const struct checkpoint_metadata *x = *(const struct checkpoint_metadata *const *)a;
    const struct checkpoint_metadata *y = *(const struct checkpoint_metadata *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : x < y ? -1 : x > y;
}

// What the source says of itself goes with it. Shards repeat it: the first one counts.
static int carry_metadata(struct quantize_file *q, struct output *out, struct error *err)
{
    const struct checkpoint *c = &q->checkpoint;
    const struct checkpoint_metadata **sorted =
        arena_new(&q->arena, const struct checkpoint_metadata *, c->metadata_count, err);
    out->metadata = arena_new(&q->arena, struct checkpoint_metadata, c->metadata_count + 1, err);
    if (!sorted || !out->metadata)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->metadata_count; i++)
        sorted[i] = &c->metadata[i];
    qsort(sorted, c->metadata_count, sizeof(const struct checkpoint_metadata *), by_key);
    for (size_t i = 0; i < c->metadata_count; i++) {
        const char *key = sorted[i]->key;
        if (strcmp(key, QUANTIZE_METADATA_KEY) == 0)
            return error_set(err, ERR_INPUT, q->in, "is quantised already; begin with the model it was made from");
        if (i && strcmp(key, sorted[i - 1]->key) == 0)
            continue;
        if (c->gguf)
            key = arena_printf(&q->arena, err, "gguf.%s", key);
        if (!key)
            return ERR_MEMORY;
        out->metadata[out->metadata_count++] = (struct checkpoint_metadata){key, sorted[i]->value};
    }
    out->metadata[out->metadata_count++] = (struct checkpoint_metadata){QUANTIZE_METADATA_KEY, NULL};
    return 0;
}

static int lay_out(struct quantize_file *q, struct output *out, struct error *err)
{
    out->entries = arena_new(&q->arena, struct safetensors_entry, q->count * 4, err);
    out->of = arena_new(&q->arena, struct quantize_entries, q->count, err);
    out->dims = arena_new(&q->arena, int64_t, q->count * 8, err);
    if (!out->entries || !out->of || !out->dims)
        return ERR_MEMORY;
    for (size_t i = 0; i < q->count; i++) {
        struct quantize_tensor *t = &q->tensors[i];
        size_t first = out->count;
        add_tensor(q, t, out, &out->of[i]);
        for (size_t k = first; k < out->count; k++)
            t->bytes_after += entry_bytes(&out->entries[k]);
        if (t->action == QUANTIZE_KEPT)
            t->bytes_after = t->bytes_before; // of packed types, too
        q->bytes_before += t->bytes_before;
        q->bytes_after += t->bytes_after;
    }
    int rc = carry_metadata(q, out, err);
    if (!rc)
        rc = describe(q, &out->description, err);
    if (!rc)
        out->metadata[out->metadata_count - 1].value = str_text(&out->description);
    return rc;
}

// --- Running

struct hashing {
    struct quantize_file *file;
    struct quantize_run *run;
};

static void *hash_sources(void *context)
{
    const struct hashing *h = context;
    const struct checkpoint *c = &h->file->checkpoint;
    struct error e = {0};
    for (size_t i = 0; i < c->file_count && !e.code; i++)
        sha256_fd(c->files[i].fd, c->files[i].size, c->files[i].path, &h->run->failed, h->file->sources[i].sha256, &e);
    if (e.code)
        quantize_run_fail(h->run, &e);
    return NULL;
}

static int run_tensor(struct quantize_file *q, struct quantize_run *r, struct quantize_tensor *t,
                      const struct quantize_entries *of, struct error *err)
{
    if (t->action == QUANTIZE_KEPT)
        return quantize_tensor_copy(r, t->view, of->codes, err);
    if (t->action == QUANTIZE_DECODED)
        return quantize_tensor_narrow(r, t->view, t->rows, t->columns, of->codes, DT_F32, NULL, err);
    if (q->policy.form == QUANTIZE_NARROW)
        return quantize_tensor_narrow(r, t->view, t->rows, t->columns, of->codes, q->policy.to, &t->stats, err);
    return quantize_tensor_codes(r, t->view, t->rows, t->columns, of, &t->stats, err);
}

static int run_tensors(struct quantize_file *q, struct quantize_run *r, const struct output *out, struct error *err)
{
    quantize_stats_init(&q->total);
    q->worst = q->count;
    for (size_t i = 0; i < q->count; i++) {
        struct quantize_tensor *t = &q->tensors[i];
        int rc = run_tensor(q, r, t, &out->of[i], err);
        if (rc)
            return rc;
        if (t->action != QUANTIZE_DONE)
            continue;
        quantize_stats_add(&q->total, &t->stats);
        double rel = quantize_rel_l2(&t->stats);
        if (!isnan(rel) && (q->worst == q->count || rel > quantize_rel_l2(&q->tensors[q->worst].stats)))
            q->worst = i;
    }
    q->total.worst_row_rel_l2 = NAN;
    return 0;
}

static int patch_hashes(struct quantize_file *q, struct safetensors_writer *w, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < q->source_count && !rc; i++) {
        char hash[65];
        placeholder(hash, i);
        rc = file_map_unchanged(&q->checkpoint.files[i], err);
        if (!rc)
            rc = safetensors_writer_patch(w, hash, q->sources[i].sha256, err);
    }
    return rc;
}

// Hashes beside the work, which it reads ahead for.
static int run_all(struct quantize_file *q, struct quantize_run *r, const struct output *out, struct error *err)
{
    struct hashing h = {q, r};
    pthread_t hasher;
    if (pthread_create(&hasher, NULL, hash_sources, &h) != 0)
        return error_set(err, ERR_MEMORY, NULL, "no thread can be started");
    struct error own = {0};
    if (run_tensors(q, r, out, &own))
        quantize_run_fail(r, &own);
    pthread_join(hasher, NULL);
    int rc = quantize_run_error(r, err);
    if (!rc)
        rc = patch_hashes(q, r->writer, err);
    return rc ? rc : interrupt_check("quantising", err);
}

static int write_file(struct quantize_file *q, const struct quantize_options *o, const struct output *out,
                      const struct progress *progress, struct error *err)
{
    struct safetensors_writer writer;
    struct quantize_run run = {.checkpoint = &q->checkpoint,
                               .policy = &q->policy,
                               .nonfinite = q->nonfinite,
                               .writer = &writer,
                               .progress = progress,
                               .total_bytes = q->bytes_before};
    int rc = quantize_run_init(&run, err);
    if (rc)
        return rc;
    rc = threads_new(&run.threads, o->threads, err);
    if (!rc)
        rc = safetensors_writer_begin(&writer, o->out, out->entries, out->count, out->metadata, out->metadata_count,
                                      err);
    if (!rc) {
        rc = run_all(q, &run, out, err);
        q->file_bytes = 8 + writer.header.length + writer.data_bytes;
        if (!rc) {
            progress_report(progress, "write to disk", 0, 0);
            rc = safetensors_writer_commit_new(&writer, err);
        } else {
            safetensors_writer_abort(&writer);
        }
    }
    threads_free(run.threads);
    quantize_run_release(&run);
    return rc;
}

static int find_sources(struct quantize_file *q, struct error *err)
{
    const struct checkpoint *c = &q->checkpoint;
    q->source_count = c->file_count;
    q->sources = arena_new(&q->arena, struct quantize_source, c->file_count, err);
    if (!q->sources)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->file_count; i++) {
        q->sources[i].name = base_name(c->files[i].path);
        q->sources[i].bytes = c->files[i].size;
    }
    return 0;
}

static int calibrate(struct quantize_file *q, const struct quantize_options *o, const struct progress *progress,
                     struct error *err)
{
    struct quantize_calibration *c;
    if (!o->calibrate.texts)
        return 0;
    if (!dir_exists(o->in))
        return error_set(err, ERR_USAGE, "--calibrate",
                         "needs a model that can be run: a directory with config.json, vocabulary and weights, not %s",
                         o->in);
    c = arena_new(&q->arena, struct quantize_calibration, 1, err);
    q->calibration = c;
    return c ? quantize_calibrate(c, o->in, &q->policy, &o->calibrate, progress, &q->arena, err) : ERR_MEMORY;
}

static int check_out(const char *path, struct error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        return error_set(err, ERR_USAGE, path, "exists, and nothing is replaced; give a new name");
    if (errno != ENOENT)
        return error_set(err, ERR_IO, path, "cannot be made: %s", strerror(errno));
    return 0;
}

int quantize_file(struct quantize_file *q, const struct quantize_options *o, const struct progress *progress,
                  struct error *err)
{
    memset(q, 0, sizeof *q);
    arena_init(&q->arena);
    q->in = o->in;
    q->out = o->out;
    q->nonfinite = o->nonfinite;
    struct output out = {0};
    str_init(&out.description);
    int rc = quantize_policy_parse(&q->policy, o->policy, err);
    if (!rc && o->nonfinite == QUANT_KEEP && q->policy.form == QUANTIZE_CODES && !dtype_is_float(q->policy.spec.type))
        rc = error_set(err, ERR_USAGE, "--nan", "keep: codes of %s hold no NaN and no infinity; use error or saturate",
                       dtype_name(q->policy.spec.type));
    if (!rc)
        rc = check_out(o->out, err);
    if (!rc)
        rc = checkpoint_open(&q->checkpoint, o->in, err);
    q->opened = !rc;
    if (!rc)
        rc = find_sources(q, err);
    if (!rc)
        rc = plan(q, o, err);
    if (!rc)
        rc = calibrate(q, o, progress, err);
    if (!rc)
        rc = lay_out(q, &out, err);
    if (!rc)
        rc = write_file(q, o, &out, progress, err);
    str_release(&out.description);
    return rc;
}

void quantize_file_release(struct quantize_file *q)
{
    if (q->opened)
        checkpoint_close(&q->checkpoint);
    arena_release(&q->arena);
    q->opened = false;
}

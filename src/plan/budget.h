// SPDX-License-Identifier: Apache-2.0
// Whether a model fits: weights, cache, training state, activations and workspace, divided by layout, against what a
// device can really use; how many sequences, tokens or images fit; and what would make it fit. docs/budget.md has the
// formulas.
#ifndef PLAN_BUDGET_H
#define PLAN_BUDGET_H

#include "chips/chips.h"
#include "plan/cache.h"
#include "plan/training.h"

enum { BUDGET_MAX_TARGETS = 32, BUDGET_MAX_LAYOUTS = 32, BUDGET_MAX_ROWS = 24, BUDGET_MAX_FIXES = 24 };

struct budget_options {
    // A directory with config.json, a config.json, a .safetensors or .gguf file or an index; or builtin:NAME.
    const char *workload;
    const char *params; // in place of a workload: "300M"
    const char *cache;  // with params: "24x8x64", layers, heads of keys and values, head_dim
    const char *policy; // NULL: as stored
    const char *const *targets;
    size_t n_targets;
    const char *const *layouts; // NULL: every preset that can be
    size_t n_layouts;
    int64_t batch, seq;    // 0: one sequence for each way that divides the batch; 4096 or what the model was made for
    const char *train;     // a recipe; NULL: serving
    const char *remat;     // "none", "selective", "full"; NULL: none
    bool naive_attention;  // scores are whole
    int64_t page, prefill; // 0: 16 and 2048 tokens
    double reserve_bytes;  // of each device, for what is not counted here
    double utilization;    // 0: 1, all that is usable
    bool unpacked;         // codes below 8 bits take a byte each
    bool weights_only;     // what the file holds, whatever it is
    int64_t height, width; // of images; 0: 1024
};

enum budget_group { BUDGET_WEIGHTS, BUDGET_CACHE, BUDGET_STATE, BUDGET_ACTIVATIONS, BUDGET_WORKSPACE };
const char *budget_group_name(enum budget_group group);

struct budget_row {
    const char *name;
    enum budget_group group;
    double once;   // B, of the whole job without copies; NAN where that says nothing
    double device; // B, on the fullest device
    const char *how;
};

struct budget_fix {
    const char *change;
    double device; // B
    bool fits;
};

// What is asked of one layout on one target.
struct budget_job {
    const struct arch *arch;
    const struct weights *weights;
    enum dtype kv;
    double item_bytes; // of activations
    bool train, flash;
    struct recipe recipe;
    enum remat remat;
    int64_t batch, seq, page, prefill, height, width;
    double reserve_bytes;
};

struct budget_case {
    bool has_target;
    struct chip_target target;
    struct layout layout;
    const char *target_text, *layout_text;
    int64_t batch; // of the whole job
    struct budget_row rows[BUDGET_MAX_ROWS];
    int n_rows;
    double device;                   // B, all rows
    struct quantity nominal, usable; // B, of a device
    double limit;                    // B: usable (nominal where that is not known) times utilization; NAN: no target
    bool fits;
    // NAN: not asked, or not known. Sequences (images) at once of the given length, for the whole job; tokens of each
    // of the given sequences.
    double most_sequences, most_tokens;
    struct budget_fix fixes[BUDGET_MAX_FIXES];
    int n_fixes;
};

struct budget {
    struct arena arena;
    struct checkpoint checkpoint;
    bool has_checkpoint;
    struct arch arch;
    struct weights stored, weights; // as the files or the configuration say; as asked for
    struct policy policy;
    bool has_policy;
    struct budget_job job;
    double utilization;
    struct budget_case *cases;
    size_t n_cases;
    const char *workload;
    const char *skipped;  // presets that cannot be, with the reason; NULL: none
    const char *mismatch; // config and files disagree; NULL: they do not
};

// ERR_USAGE for options, ERR_INPUT for files. Call budget_close in any case.
int budget_open(struct budget *b, const struct budget_options *o, struct error *err);
void budget_close(struct budget *b);
// The `result` object of assay.budget/1.
int budget_json(struct budget *b, struct jw *w, struct error *err);

// One case without its fixes: rows, verdict and what fits. `local` is weights_on_device of the job's weights.
int budget_evaluate(const struct budget_job *job, const struct weights_local *local, struct budget_case *c,
                    struct arena *arena, struct error *err);
// Bytes on the device for another batch and length, without rows.
double budget_bytes(const struct budget_job *job, const struct weights_local *local, const struct budget_case *c,
                    int64_t batch, int64_t seq);
// Fills most_sequences and most_tokens.
void budget_capacity(const struct budget_job *job, const struct weights_local *local, struct budget_case *c);
// What would make a case fit that does not: one change at a time, then other slices of the chip.
int budget_fixes(struct budget *b, struct budget_case *c, struct error *err);
// The limits that layouts of the job's model have.
struct layout_limits budget_limits(const struct budget_job *job);
// Sets target, layout, memory and limit of a case. `layout` NULL: single.
int budget_case_begin(const struct budget *b, struct budget_case *c, const struct chip_target *target,
                      const struct layout *layout, struct arena *arena, struct error *err);

#endif

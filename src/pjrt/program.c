// SPDX-License-Identifier: Apache-2.0
// What a compiled program tells about itself.
#include <stdio.h>
#include <stdlib.h>

#include "pjrt/api.h"

static int describe_outputs(struct program *p, struct error *err)
{
    const struct plugin *plugin = p->plugin;
    PJRT_ARGS(plugin, PJRT_Executable_NumOutputs_Args, count);
    count->executable = p->executable;
    int rc = PJRT_CALL(plugin, PJRT_Executable_NumOutputs, count, err);
    if (rc)
        return rc;
    p->info.output_count = count->num_outputs;

    PJRT_ARGS(plugin, PJRT_Executable_OutputElementTypes_Args, types);
    types->executable = p->executable;
    PJRT_ARGS(plugin, PJRT_Executable_OutputDimensions_Args, dims);
    dims->executable = p->executable;
    bool offered;
    rc = PJRT_TRY(plugin, PJRT_Executable_OutputElementTypes, types, &offered, err);
    if (!rc && offered)
        rc = PJRT_TRY(plugin, PJRT_Executable_OutputDimensions, dims, &offered, err);
    if (rc || !offered)
        return rc;
    if (types->num_output_types != p->info.output_count || dims->num_outputs != p->info.output_count)
        return error_set(err, ERR_DEVICE, plugin->info.path,
                         "the plugin counts %zu outputs, %zu types and %zu shapes for one program",
                         p->info.output_count, types->num_output_types, dims->num_outputs);
    struct array_type *outputs = arena_new(&p->arena, struct array_type, p->info.output_count, err);
    if (!outputs)
        return ERR_MEMORY;
    const int64_t *next = dims->dims;
    for (size_t i = 0; i < p->info.output_count; i++) {
        size_t rank = dims->dim_sizes[i];
        if (rank > ARRAY_MAX_RANK)
            return error_set(err, ERR_DEVICE, "output", "output %zu has %zu dimensions; at most %d are handled", i,
                             rank, ARRAY_MAX_RANK);
        outputs[i].dtype = dtype_from_pjrt((int)types->output_types[i]);
        outputs[i].rank = (int)rank;
        for (size_t k = 0; k < rank; k++)
            outputs[i].dims[k] = *next++;
    }
    p->info.outputs = outputs;
    return 0;
}

// Some plugins give text, some bytes, which are then shown in hexadecimal.
static const char *readable(struct program *p, const char *bytes, size_t n, struct error *err)
{
    bool text = true;
    for (size_t i = 0; i < n; i++)
        text &= bytes[i] > ' ' && bytes[i] < 0x7f;
    if (text)
        return arena_strndup(&p->arena, bytes, n, err);
    char *out = n < SIZE_MAX / 2 ? arena_alloc(&p->arena, 2 * n + 1, 1, err) : NULL;
    for (size_t i = 0; out && i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
    return out;
}

int program_describe(struct program *p, struct error *err)
{
    const struct plugin *plugin = p->plugin;
    PJRT_ARGS(plugin, PJRT_Executable_Name_Args, name);
    name->executable = p->executable;
    int rc = PJRT_CALL(plugin, PJRT_Executable_Name, name, err);
    PJRT_ARGS(plugin, PJRT_Executable_NumReplicas_Args, replicas);
    replicas->executable = p->executable;
    if (!rc)
        rc = PJRT_CALL(plugin, PJRT_Executable_NumReplicas, replicas, err);
    PJRT_ARGS(plugin, PJRT_Executable_NumPartitions_Args, partitions);
    partitions->executable = p->executable;
    if (!rc)
        rc = PJRT_CALL(plugin, PJRT_Executable_NumPartitions, partitions, err);
    PJRT_ARGS(plugin, PJRT_Executable_Fingerprint_Args, fingerprint);
    fingerprint->executable = p->executable;
    bool offered = false;
    if (!rc)
        rc = PJRT_TRY(plugin, PJRT_Executable_Fingerprint, fingerprint, &offered, err);
    if (rc)
        return rc;
    p->info.num_replicas = replicas->num_replicas;
    p->info.num_partitions = partitions->num_partitions;
    p->info.name = arena_strndup(&p->arena, name->executable_name, name->executable_name_size, err);
    if (!p->info.name)
        return ERR_MEMORY;
    if (offered && fingerprint->executable_fingerprint_size) {
        p->info.fingerprint =
            readable(p, fingerprint->executable_fingerprint, fingerprint->executable_fingerprint_size, err);
        if (!p->info.fingerprint)
            return ERR_MEMORY;
    }
    return describe_outputs(p, err);
}

const struct program_info *program_info(const struct program *p)
{
    return &p->info;
}

// An older plugin knows fewer fields and leaves the rest as they were.
static int64_t or_unknown(int64_t bytes)
{
    return bytes < 0 ? -1 : bytes;
}

int program_memory(struct program *p, struct program_memory *out, struct error *err)
{
    PJRT_ARGS(p->plugin, PJRT_Executable_GetCompiledMemoryStats_Args, args);
    args->executable = p->executable;
    args->generated_code_size_in_bytes = args->argument_size_in_bytes = args->output_size_in_bytes = -1;
    args->alias_size_in_bytes = args->temp_size_in_bytes = -1;
    args->host_generated_code_size_in_bytes = args->host_argument_size_in_bytes = args->host_output_size_in_bytes = -1;
    args->host_alias_size_in_bytes = args->host_temp_size_in_bytes = -1;
    args->peak_memory_in_bytes = args->total_size_in_bytes = args->total_allocation_bytes = -1;
    bool offered;
    int rc = PJRT_TRY(p->plugin, PJRT_Executable_GetCompiledMemoryStats, args, &offered, err);
    if (rc)
        return rc;
    *out = (struct program_memory){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (!offered)
        return 0;
    out->code = or_unknown(args->generated_code_size_in_bytes);
    out->arguments = or_unknown(args->argument_size_in_bytes);
    out->outputs = or_unknown(args->output_size_in_bytes);
    out->aliases = or_unknown(args->alias_size_in_bytes);
    out->temps = or_unknown(args->temp_size_in_bytes);
    out->host_code = or_unknown(args->host_generated_code_size_in_bytes);
    out->host_arguments = or_unknown(args->host_argument_size_in_bytes);
    out->host_outputs = or_unknown(args->host_output_size_in_bytes);
    out->host_aliases = or_unknown(args->host_alias_size_in_bytes);
    out->host_temps = or_unknown(args->host_temp_size_in_bytes);
    out->peak = or_unknown(args->peak_memory_in_bytes);
    out->total = or_unknown(args->total_size_in_bytes);
    out->allocated = or_unknown(args->total_allocation_bytes);
    return 0;
}

int program_optimized(struct program *p, struct str *out, char format[32], struct error *err)
{
    const struct plugin *plugin = p->plugin;
    PJRT_ARGS(plugin, PJRT_Program, text);
    PJRT_ARGS(plugin, PJRT_Executable_OptimizedProgram_Args, args);
    args->executable = p->executable;
    args->program = text;
    int rc = PJRT_CALL(plugin, PJRT_Executable_OptimizedProgram, args, err); // gives the size
    if (rc)
        return rc;
    size_t size = text->code_size;
    text->code = malloc(size ? size : 1);
    if (!text->code)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the optimised program (%zu bytes)", size);
    rc = PJRT_CALL(plugin, PJRT_Executable_OptimizedProgram, args, err);
    if (!rc && text->code_size > size)
        rc = error_set(err, ERR_DEVICE, plugin->info.path, "the optimised program grew while it was copied");
    if (!rc) {
        str_add_n(out, text->code, text->code_size);
        snprintf(format, 32, "%.*s", text->format_size > 31 ? 31 : (int)text->format_size, text->format);
        rc = str_check(out, err);
    }
    free(text->code);
    return rc;
}

int program_cost(struct program *p, const struct attributes **out, bool *offered, struct error *err)
{
    *out = &p->cost;
    *offered = true;
    if (p->cost_copied)
        return 0;
    PJRT_ARGS(p->plugin, PJRT_Executable_GetCostAnalysis_Args, args);
    args->executable = p->executable;
    int rc = PJRT_TRY(p->plugin, PJRT_Executable_GetCostAnalysis, args, offered, err);
    if (rc || !*offered)
        return rc;
    rc = attributes_copy(&p->arena, &p->cost, args->properties, args->num_properties, err);
    p->cost_copied = rc == 0;
    return rc;
}

int program_serialized_bytes(struct program *p, int64_t *out, struct error *err)
{
    *out = -1;
    PJRT_ARGS(p->plugin, PJRT_Executable_Serialize_Args, args);
    args->executable = p->executable;
    bool offered;
    int rc = PJRT_TRY(p->plugin, PJRT_Executable_Serialize, args, &offered, err);
    if (rc || !offered)
        return rc;
    *out = args->serialized_bytes_size < INT64_MAX ? (int64_t)args->serialized_bytes_size : -1;
    if (args->serialized_executable_deleter)
        args->serialized_executable_deleter(args->serialized_executable);
    return 0;
}

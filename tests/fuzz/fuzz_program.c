// SPDX-License-Identifier: Apache-2.0
// The form of a program's file, and what is told of it without a parser: all of it must lie inside the file.
#include <stdlib.h>

#include "models/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct slice s, struct slice whole)
{
    if (s.size && (s.data < whole.data || s.size > whole.size || (size_t)(s.data - whole.data) > whole.size - s.size))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {data, size};
    struct program_file f;
    program_file_recognise(&f, bytes, size % 2 ? "program.mlir" : "program");
    inside(f.program, bytes);
    inside(f.producer, f.program);
    if (f.n_devices < 0 || program_mesh_devices(bytes) < 1 || !program_form_name(f.form))
        abort();
    if (f.form == PROGRAM_STABLEHLO && (f.program.size < 4 || f.program.data[0] != 'M'))
        abort();
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Running one suite of the precision lab in a test, and looking at what it filled in.
#ifndef TESTS_UNIT_PRECISION_RUN_H
#define TESTS_UNIT_PRECISION_RUN_H

#include "lab/precision.h"

// Opens and runs the suite without a record; what comes out lives until precision_close. `o` gets the suite's name.
int precision_run_suite(struct precision *p, const char *suite, struct precision_options *o, struct error *e);
// NULL, with a line on stdout, when there is none.
const struct precision_case *precision_find_case(const struct precision_document *d, const char *name);
// All checks of the document hold, and there are at least so many.
void precision_check_checks(const struct precision_document *d, size_t at_least);

#endif

// SPDX-License-Identifier: Apache-2.0
// Runs a command in the test's process, for tests of what it prints under --json.
#ifndef TESTS_UNIT_CLI_TEST_H
#define TESTS_UNIT_CLI_TEST_H

#include "cli/command.h"

// `assay --json WORDS`: returns what the command returns; its document is in cli->out. Release it in any case.
int cli_test_run(struct cli *cli, const char *const *words, struct error *err);
void cli_test_release(struct cli *cli);

#define CLI_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif

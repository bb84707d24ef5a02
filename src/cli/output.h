// SPDX-License-Identifier: Apache-2.0
// Where answers and talk go.
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/command.h"

// Looks at the terminal and the environment (NO_COLOR, TERM, COLUMNS) and sets color, width and the progress sink.
// Called after parsing.
void cli_output_init(struct cli *cli);
// "assay: WHERE: MESSAGE" on stderr, or the error document appended to cli->out when the answer is JSON and there is no
// document yet.
void cli_show_error(struct cli *cli, const struct error *e);
// Writes cli->out to stdout and closes it. ERR_IO when it could not all be written (a full disk); when the reader went
// away (a closed pipe) the process ends as SIGPIPE would end it.
int cli_write_out(struct cli *cli, struct error *err);
// Gives the three standard streams a file where the caller has closed them, so that no file of ours takes their number:
// what is then written to stdout fails, as it should.
void cli_guard_streams(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// Style and script of the timeline page, taken in by the assembler; mk/timeline.mk says what this file depends on.
#include "report/timeline_html.h"

#define ASSET(name, path)                                                                                              \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".globl " #name "\n" #name ":\n"                                                                           \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n")

ASSET(timeline_style, "src/report/timeline.css");
ASSET(timeline_script, "src/report/timeline.js");

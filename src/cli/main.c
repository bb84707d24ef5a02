// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

int main(void)
{
    printf("assay %s\n", ASSAY_VERSION);
    return 0;
}

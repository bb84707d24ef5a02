// SPDX-License-Identifier: Apache-2.0
// A shared library that is no plugin.
int faulty_nothing(void);

int faulty_nothing(void)
{
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.h"

#include <stddef.h>

static volatile sig_atomic_t came;

static void on_signal(int sig)
{
    came = sig;
}

void interrupt_install(void)
{
    // SA_RESETHAND: the second signal finds the default action and ends the process.
    struct sigaction sa = {.sa_handler = on_signal};
    sa.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

bool interrupt_pending(void)
{
    return came != 0;
}

const volatile sig_atomic_t *interrupt_flag(void)
{
    return &came;
}

const char *interrupt_signal(void)
{
    return came == SIGINT ? "SIGINT" : came == SIGTERM ? "SIGTERM" : NULL;
}

int interrupt_check(const char *doing, struct error *err)
{
    if (!came)
        return 0;
    return error_set(err, ERR_INTERRUPTED, NULL, "%s while %s", interrupt_signal(), doing);
}

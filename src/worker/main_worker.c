// SPDX-License-Identifier: Apache-2.0
// assay-worker: the only program that loads a plugin. It is started by assay, with the channel as descriptor 3.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/host_limits.h"
#include "worker/server.h"

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("assay-worker %s\n", ASSAY_VERSION);
        return 0;
    }
    int kind = 0;
    socklen_t size = sizeof kind;
    bool started_by_us = argc == 2 && strcmp(argv[1], "--channel=3") == 0 &&
                         getsockopt(3, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET;
    if (!started_by_us) {
        fprintf(stderr, "assay-worker is started by assay; by itself it only answers --version\n");
        return 2;
    }
    fcntl(3, F_SETFD, FD_CLOEXEC); // a plugin starts programs of its own
    host_limits_give_way();
    struct error err = {0};
    if (server_run(3, &err) != 0) {
        fprintf(stderr, "assay-worker: %s\n", err.message);
        return 70;
    }
    // Not by return: destructors of a plugin that stays loaded race with its threads.
    _exit(0);
}

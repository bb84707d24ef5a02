// SPDX-License-Identifier: Apache-2.0
// The worker's side: one request after the other, from the channel to the plugin and back.
#ifndef WORKER_SERVER_H
#define WORKER_SERVER_H

#include "base/error.h"

// Serves until the program asks it to leave or closes the channel: 0. Else the channel is broken, and `err` says how.
int server_run(int socket, struct error *err);

#endif

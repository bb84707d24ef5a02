// SPDX-License-Identifier: Apache-2.0
// Calls about profiles.
#include "worker/client.h"

int worker_profile_start(struct worker *w, bool *offered, struct error *err)
{
    struct wire request;
    struct call c;
    call_init(&c, FRAME_PROFILE_START, w->run_timeout_s, &request, "starting the profiler");
    struct msg_profile_start_reply reply = {0};
    int rc = call_run(w, &c, err);
    if (!rc) {
        msg_profile_start_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
    }
    *offered = !rc && reply.offered;
    call_release(&c);
    return rc;
}

int worker_profile_collect(struct worker *w, struct str *space, struct error *err)
{
    struct wire request;
    struct call c;
    call_init(&c, FRAME_PROFILE_COLLECT, w->run_timeout_s, &request, "collecting the profile");
    struct msg_profile reply = {0};
    int rc = call_run(w, &c, err);
    if (!rc) {
        msg_profile(&c.reply, &reply);
        rc = call_done(w, &c, err);
    }
    if (!rc) {
        str_add_n(space, reply.space, reply.bytes);
        rc = str_check(space, err);
    }
    call_release(&c);
    return rc;
}

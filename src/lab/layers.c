// SPDX-License-Identifier: Apache-2.0
#include "lab/layers.h"

#include <string.h>

enum { LEAST = 2, LEAST_OF_AUTO = 4 };

static const char *const names[] = {"auto", "loop", "written"};

const char *layers_name(enum layers_form form)
{
    return names[form];
}

bool layers_parse(enum layers_form *out, const char *name)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum layers_form)i;
            return true;
        }
    }
    return false;
}

int layers_apply(enum layers_form form, const char *platform, struct module *m, struct rolled *out, struct error *err)
{
    struct module to;
    *out = (struct rolled){0};
    if (form == LAYERS_WRITTEN || (form == LAYERS_AUTO && strcmp(platform, "tpu") != 0))
        return 0;
    module_init(&to, m->arena, m->name);
    int rc = module_roll(m, form == LAYERS_LOOP ? LEAST : LEAST_OF_AUTO, &to, out, err);
    if (!rc && out->loops)
        *m = to;
    return rc;
}

void layers_json(struct jw *w, const struct rolled *r)
{
    jw_key(w, "loops");
    jw_object(w);
    jw_kv_int(w, "count", r->loops);
    jw_kv_int(w, "layers", r->layers);
    jw_object_end(w);
}

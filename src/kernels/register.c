// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/kernels.h"
#include "kernels/onednn.h"
#include "kernels/team.h"
#include "pjrt/api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

static const struct {
    const char *name, *target;
    XLA_FFI_Handler *handler;
} kernels[KERNEL_KINDS] = {
    [KERNEL_PRODUCT] = {"product", "assay.product", kernel_product},
    [KERNEL_CONVOLUTION] = {"convolution", "assay.convolution", kernel_convolution},
    [KERNEL_ATTENTION] = {"attention", "assay.attention", kernel_attention},
    [KERNEL_GROUP_NORM] = {"group norm", "assay.group_norm", kernel_group_norm},
    [KERNEL_SWIGLU] = {"swiglu", "assay.swiglu", kernel_swiglu},
    [KERNEL_ROTARY] = {"rotary", "assay.rotary", kernel_rotary},
    [KERNEL_LAYER_NORM] = {"layer norm", "assay.layer_norm", kernel_layer_norm},
};

const char *kernel_name(enum kernel_kind k)
{
    return (unsigned)k < KERNEL_KINDS ? kernels[k].name : "unknown";
}

const char *kernel_target(enum kernel_kind k)
{
    return (unsigned)k < KERNEL_KINDS ? kernels[k].target : "unknown";
}

static int register_one(const struct plugin *p, const PJRT_FFI *ffi, int k, struct error *err)
{
    static const char platform[] = "Host";
    void *handler;
    memcpy(&handler, &kernels[k].handler, sizeof handler);
    PJRT_ARGS(p, PJRT_FFI_Register_Handler_Args, args);
    args->target_name = kernels[k].target;
    args->target_name_size = strlen(kernels[k].target);
    args->handler = handler;
    args->platform_name = platform;
    args->platform_name_size = sizeof platform - 1;
    return plugin_check(p, ffi->register_handler(args), "PJRT_FFI_Register_Handler", NULL, err);
}

int kernels_register(const struct plugin *p, const char *onednn, char text[KERNELS_TEXT], struct error *err)
{
    static const struct plugin *registered;
    const PJRT_FFI *ffi = (const PJRT_FFI *)(const void *)plugin_extension(p, PJRT_Extension_Type_FFI);
    if (!ffi || ffi->base.struct_size < PJRT_FFI_Extension_STRUCT_SIZE || !ffi->register_handler)
        return error_set(err, ERR_DEVICE, plugin_info(p)->path, "the plugin takes no custom calls");
    int rc = onednn_open(onednn, err);
    if (!rc)
        rc = team_start(err);
    for (int k = 0; k < KERNEL_KINDS && !rc && registered != p; k++)
        rc = register_one(p, ffi, k, err);
    if (rc)
        return rc;
    registered = p;
    snprintf(text, KERNELS_TEXT, "oneDNN %s (%s), %zu thread%s", onednn_version(), onednn_isa(), team_threads(),
             team_threads() == 1 ? "" : "s");
    return 0;
}

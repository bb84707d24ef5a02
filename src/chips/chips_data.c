// SPDX-License-Identifier: Apache-2.0
// The specification table. To add a chip: add a row to `table`, name a source for every value, and give the reason
// where no value is published (never a guess, never zero). A second figure for the same thing goes into ALSO. `make
// test` checks that every row is complete.
//
// Rates are dense and count a multiply-add as two. 1 GB is 10^9 B, 1 GiB is 2^30 B.
#include "chips/chips_data.h"

#include <math.h>

// --- how a value is written
// ---------------------------------------------------------------------------------------------

#define SHEET(v, u, text)  .value = (v), .unit = (u), .origin = ORIGIN_SHEET, .printed = (text)
#define DERIVED(v, u, how) .value = (v), .unit = (u), .origin = ORIGIN_DERIVED, .printed = (how)
#define NONE(u, reason)    .value = NAN, .unit = (u), .origin = ORIGIN_SHEET, .note = (reason)
#define FLOPS(v, text)     SHEET((v)*1e12, "FLOP/s", text)
#define OPS(v, text)       SHEET((v)*1e12, "OP/s", text)
#define BYTES(v, text)     SHEET(v, "B", text)
#define RATE(v, text)      SHEET((v)*1e9, "B/s", text)
#define FROM               .from =
#define ALSO(...)                                                                                                      \
    .others = (const struct chip_reading[])                                                                            \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            .printed = NULL                                                                                            \
        }                                                                                                              \
    }
#define NAMES(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }
#define NO_FLOPS(name, chip) NONE("FLOP/s", "no " name " rate is published for " chip)
#define NO_OPS(name, chip)   NONE("OP/s", "no " name " rate is published for " chip)
#define GIB(n)               ((n)*1073741824.0)
#define MIB(n)               ((n)*1048576.0)

// --- sources
// ------------------------------------------------------------------------------------------------------------

#define SOURCE(link, day)                                                                                              \
    {                                                                                                                  \
        link, day, link " (" day ")"                                                                                   \
    }
#define GOOGLE(page)      SOURCE("https://cloud.google.com/tpu/docs/" page, "2026-11-29")
#define GITHUB(path, day) SOURCE("https://github.com/" path, day)
// Its numbers are per TensorCore; they stand here multiplied to the chip.
#define JAX     GITHUB("jax-ml/jax/blob/cec06d1/jax/_src/tpu_info.py", "2026-08-08")
#define JAX_PCI GITHUB("jax-ml/jax/blob/cec06d1/jax/_src/hardware_utils.py", "2026-08-08")
#define MAXTEXT                                                                                                        \
    GITHUB("AI-Hypercomputer/maxtext/blob/e591f30/src/maxtext/utils/accelerator_to_spec_map.py", "2026-08-22")
#define SCALING_BOOK     GITHUB("jax-ml/scaling-book/blob/0819a7d/tpus.md", "2025-02-18")
#define SCALING_BOOK_NEW GITHUB("jax-ml/scaling-book/blob/04d8de5/tpus.md", "2026-11-29")
#define TPU_INFO                                                                                                       \
    GITHUB("AI-Hypercomputer/cloud-accelerator-diagnostics/blob/fe85c12/tpu_info/tpu_info/device.py", "2026-08-14")
#define MICROBENCHMARKS GITHUB("AI-Hypercomputer/accelerator-microbenchmarks/tree/6a306a8", "2026-08-21")
#define AICONFIGURATOR(n)                                                                                              \
    GITHUB("ai-dynamo/aiconfigurator/blob/095f58a/aic-core/src/aiconfigurator_core/systems/" n ".yaml", "2026-08-21")
#define XPROF_CUDA           GITHUB("openxla/xprof/blob/a27d00a/xprof/utils/cuda_type_utils.cc", "2026-08-21")
#define XPROF_ROCM           GITHUB("openxla/xprof/blob/a27d00a/xprof/utils/rocm_type_utils.cc", "2026-08-21")
#define TORCHTITAN           GITHUB("pytorch/torchtitan/blob/b5bcd76/torchtitan/tools/utils.py", "2026-11-29")
#define GENZ                 GITHUB("abhibambhaniya/GenZ-LLM-Analyzer/blob/091bdd0/Systems/system_configs.py", "2026-11-29")
#define SKYPILOT             GITHUB("skypilot-org/skypilot-catalog", "2026-11-29")
#define KLOCKWOOD(gpu)       SOURCE("https://glennklockwood.com/garden/processors/" gpu, "2026-11-29")
#define OOM_SOMEWHERE        SOURCE("an out-of-memory message of XLA in a public file, repository not known", "2026-11-29")
#define OOM(repo_and_number) GITHUB(repo_and_number, "2026-11-29")

// --- what rows share
// ----------------------------------------------------------------------------------------------------

#define SLICES_2D      .slices = NAMES("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
#define SLICES_3D      .slices = NAMES("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
#define GOOGLE_PCI(id) .pci_vendor = 0x1ae0, .pci_device = (id)

// clang-format off
const struct chip chips_data[] = {
// --- TPU ----------------------------------------------------------------------------------------------------------------
{
    .name = "v2", .aliases = NAMES("TPU v2", "tpu-v2"), .vendor = "Google", .device_kind = "TPU v2", .is_tpu = true,
    .devices_per_chip = 2, .cores_per_chip = 2, .core_name = "TensorCore",
    .torus_dims = 2, .ports = 4, .wrap = CHIP_WRAP_NONE, .counted = JAX,
    .naming = {"v2-8 is 8 TensorCores: 4 chips, 8 devices", MAXTEXT},
    .mxu = {"1 of 128x128", JAX}, .host = {NULL, JAX}, GOOGLE_PCI(0x0027),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v2"), FROM JAX},
        [CHIP_F32]  = {NO_FLOPS("f32", "v2"), FROM JAX},
        [CHIP_F16]  = {NO_FLOPS("f16", "v2"), FROM JAX},
        [CHIP_BF16] = {FLOPS(46, "4.6e13 a chip, half of it per core"), FROM JAX},
        [CHIP_FP8]  = {NO_FLOPS("fp8", "v2"), FROM JAX},
        [CHIP_INT8] = {NO_OPS("int8", "v2"), FROM JAX},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v2"), FROM JAX},
        [CHIP_INT4] = {NO_OPS("int4", "v2"), FROM JAX},
    },
    .memory = {BYTES(GIB(16), "8 GiB per core, 2 cores"), FROM TPU_INFO, ALSO({16e9, "16_000_000_000 B a chip", JAX})},
    .memory_usable = {BYTES(GIB(7.48), "7.48G"), FROM OOM("sokrypton/ColabFold/issues/62")},
    .bandwidth = {RATE(716, "7.16e11 B/s a chip"), FROM JAX},
    .vmem = {BYTES(MIB(16), "16 MiB per core"), FROM JAX},
    .interconnect = {NONE("B/s", "no interconnect rate was found for v2"), FROM JAX},
    .link = {NONE("B/s", "no interconnect rate was found for v2"), FROM JAX},
    .network = {NONE("B/s", "no rate of the network was found for v2"), FROM JAX},
    .pcie = {NONE("B/s", "no PCIe rate was found for v2"), FROM JAX},
    .power = {NONE("W", "no power was found for v2"), FROM JAX},
},
{
    .name = "v3", .aliases = NAMES("TPU v3", "tpu-v3"), .vendor = "Google", .device_kind = "TPU v3", .is_tpu = true,
    .devices_per_chip = 2, .cores_per_chip = 2, .core_name = "TensorCore",
    .torus_dims = 2, .ports = 4, .wrap = CHIP_WRAP_NONE, .pod_chips = 1024, .counted = GOOGLE("v3"),
    .naming = {"v3-8 is 8 TensorCores: 4 chips, 8 devices", GOOGLE("v3")},
    .mxu = {"2 of 128x128", JAX}, .host = {NULL, GOOGLE("v3")}, GOOGLE_PCI(0x0027),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v3"), FROM GOOGLE("v3")},
        [CHIP_F32]  = {NO_FLOPS("f32", "v3"), FROM GOOGLE("v3")},
        [CHIP_F16]  = {NO_FLOPS("f16", "v3"), FROM GOOGLE("v3")},
        [CHIP_BF16] = {FLOPS(123, "123 teraflops (bf16)"), FROM GOOGLE("v3"), ALSO({140e12, "1.40e14 a chip", JAX})},
        [CHIP_FP8]  = {NO_FLOPS("fp8", "v3"), FROM GOOGLE("v3")},
        [CHIP_INT8] = {NO_OPS("int8", "v3"), FROM GOOGLE("v3")},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v3"), FROM GOOGLE("v3")},
        [CHIP_INT4] = {NO_OPS("int4", "v3"), FROM GOOGLE("v3")},
    },
    .memory = {BYTES(GIB(32), "32 GiB"), FROM GOOGLE("v3"), ALSO({34.4e9, "34_400_000_000 B a chip", JAX})},
    .memory_usable = {BYTES(GIB(15.48), "15.48G"), FROM OOM("erfanzar/EasyDeL/issues/142")},
    .bandwidth = {RATE(900, "900 GBps"), FROM GOOGLE("v3"), ALSO({825e9, "8.25e11 B/s a chip", JAX})},
    .vmem = {BYTES(MIB(16), "16 MiB per core"), FROM JAX},
    .interconnect = {DERIVED(800e9, "B/s", "4 links x 2 directions x 100 GB/s"), FROM GOOGLE("v3")},
    .link = {DERIVED(100e9, "B/s", "6.4 TB/s bisection / 64 links cut in a 32x32 torus"), FROM GOOGLE("v3")},
    .network = {NONE("B/s", "no rate of the network was found for v3"), FROM GOOGLE("v3")},
    .pcie = {NONE("B/s", "no PCIe rate was found for v3"), FROM GOOGLE("v3")},
    .power = {SHEET(262, "W", "measured min/mean/max 123/220/262 W"), FROM GOOGLE("v3"), .note = "the maximum"},
},
{
    .name = "v4", .aliases = NAMES("TPU v4", "tpu-v4"), .vendor = "Google", .device_kind = "TPU v4", .is_tpu = true,
    .devices_per_chip = 1, .cores_per_chip = 2, .core_name = "TensorCore",
    .torus_dims = 3, .ports = 6, .wrap = CHIP_WRAP_CUBES, .pod_chips = 4096, .counted = GOOGLE("v4"),
    SLICES_3D,
    .naming = {"v4-8 is 8 TensorCores: 4 chips, 4 devices (megacore)", MAXTEXT},
    .mxu = {"4 of 128x128", JAX}, .host = {NULL, GOOGLE("v4")}, GOOGLE_PCI(0x005e),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v4"), FROM GOOGLE("v4")},
        [CHIP_F32]  = {NO_FLOPS("f32", "v4"), FROM GOOGLE("v4")},
        [CHIP_F16]  = {NO_FLOPS("f16", "v4"), FROM GOOGLE("v4")},
        [CHIP_BF16] = {FLOPS(275, "275 teraflops (bf16 or int8)"), FROM GOOGLE("v4")},
        [CHIP_FP8]  = {NO_FLOPS("fp8", "v4"), FROM GOOGLE("v4")},
        [CHIP_INT8] = {OPS(275, "275 teraflops (bf16 or int8)"), FROM GOOGLE("v4"), ALSO({NAN, "not available", JAX})},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v4"), FROM GOOGLE("v4")},
        [CHIP_INT4] = {NO_OPS("int4", "v4"), FROM GOOGLE("v4")},
    },
    .memory = {BYTES(GIB(32), "32 GiB"), FROM GOOGLE("v4"), ALSO({34.4e9, "34_400_000_000 B a chip", JAX})},
    .memory_usable = {BYTES(GIB(30.75), "30.75G"), FROM OOM("erfanzar/EasyDeL/issues/166")},
    .bandwidth = {RATE(1200, "1200 GBps"), FROM GOOGLE("v4"), ALSO({1230e9, "1.23e12 B/s a chip", JAX})},
    .vmem = {BYTES(MIB(16), "16 MiB per core"), FROM JAX, .note = "and 128 MiB of CMEM per chip"},
    .interconnect = {DERIVED(562.5e9, "B/s", "6 links x 2 directions x 46.9 GB/s"), FROM GOOGLE("v4")},
    .link = {DERIVED(46.875e9, "B/s", "24 TB/s bisection / 512 links cut in a 16x16x16 torus"), FROM GOOGLE("v4"),
             ALSO({45e9, "4.5e10", SCALING_BOOK}, {50e9, "5e10", SCALING_BOOK_NEW})},
    .network = {NONE("B/s", "no rate of the network was found for v4"), FROM GOOGLE("v4")},
    .pcie = {RATE(15, "1.5e10 B/s per chip"), FROM SCALING_BOOK},
    .power = {SHEET(192, "W", "measured min/mean/max 90/170/192 W"), FROM GOOGLE("v4"), .note = "the maximum"},
},
{
    .name = "v4i", .aliases = NAMES("TPU v4 lite", "v4 lite"), .vendor = "Google", .device_kind = "TPU v4 lite",
    .is_tpu = true,
    .devices_per_chip = 1, .cores_per_chip = 1, .core_name = "TensorCore", .wrap = CHIP_WRAP_NONE, .counted = JAX,
    .naming = {NULL, JAX}, .mxu = {"4 of 128x128", JAX}, .host = {NULL, JAX},
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v4i"), FROM JAX},
        [CHIP_F32]  = {NO_FLOPS("f32", "v4i"), FROM JAX},
        [CHIP_F16]  = {NO_FLOPS("f16", "v4i"), FROM JAX},
        [CHIP_BF16] = {FLOPS(137, "1.37e14"), FROM JAX},
        [CHIP_FP8]  = {NO_FLOPS("fp8", "v4i"), FROM JAX},
        [CHIP_INT8] = {NO_OPS("int8", "v4i"), FROM JAX},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v4i"), FROM JAX},
        [CHIP_INT4] = {NO_OPS("int4", "v4i"), FROM JAX},
    },
    .memory = {BYTES(8.59e9, "8_590_000_000 B"), FROM JAX},
    .memory_usable = {NONE("B", "no usable limit was found for v4i"), FROM JAX},
    .bandwidth = {RATE(614, "6.14e11 B/s"), FROM JAX},
    .vmem = {BYTES(MIB(16), "16 MiB per core"), FROM JAX},
    .interconnect = {NONE("B/s", "no interconnect rate was found for v4i"), FROM JAX},
    .link = {NONE("B/s", "no interconnect rate was found for v4i"), FROM JAX},
    .network = {NONE("B/s", "no rate of the network was found for v4i"), FROM JAX},
    .pcie = {NONE("B/s", "no PCIe rate was found for v4i"), FROM JAX},
    .power = {NONE("W", "no power was found for v4i"), FROM JAX},
},
{
    .name = "v5e", .aliases = NAMES("v5 lite", "v5lite", "v5litepod", "TPU v5 lite", "TPU v5e", "tpu-v5e"),
    .vendor = "Google", .device_kind = "TPU v5 lite", .is_tpu = true,
    .devices_per_chip = 1, .cores_per_chip = 1, .core_name = "TensorCore",
    .torus_dims = 2, .ports = 4, .wrap = CHIP_WRAP_FULL_16, .pod_chips = 256, .counted = GOOGLE("v5e"),
    SLICES_2D,
    .naming = {"v5litepod-8 is 8 chips, 8 devices", MAXTEXT},
    .mxu = {"4 of 128x128", JAX},
    .host = {"8 chips, 512 GiB, 2 x 100 Gbit/s; VMs of 1 chip: 24 vCPU, 48 GB; 4: 112 vCPU, 192 GB; 8: 224 vCPU, 384 GB",
             GOOGLE("v5e")},
    GOOGLE_PCI(0x0063),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v5e"), FROM GOOGLE("v5e")},
        [CHIP_F32]  = {NO_FLOPS("f32", "v5e"), FROM GOOGLE("v5e")},
        [CHIP_F16]  = {NO_FLOPS("f16", "v5e"), FROM GOOGLE("v5e")},
        [CHIP_BF16] = {FLOPS(197, "197 TFLOPs"), FROM GOOGLE("v5e")},
        [CHIP_FP8]  = {NO_FLOPS("fp8", "v5e"), FROM JAX},
        [CHIP_INT8] = {OPS(393, "393 TOPs"), FROM GOOGLE("v5e"), ALSO({394e12, "3.94e14", JAX})},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v5e"), FROM JAX},
        [CHIP_INT4] = {OPS(788, "7.88e14"), FROM JAX},
    },
    .memory = {BYTES(GIB(16), "16 GB"), FROM GOOGLE("v5e"),
               .note = "read as GiB: XLA fills 15.75 GiB, which is more than 16e9 B",
               ALSO({16e9, "16 GB, taken as 10^9 B", GOOGLE("v5e")}, {17.2e9, "17_200_000_000 B", JAX})},
    .memory_usable = {BYTES(GIB(15.75), "16.08G of 15.75G"), FROM OOM("apple/axlearn/pull/201")},
    .bandwidth = {RATE(819, "819 GBps"), FROM GOOGLE("v5e"),
                  ALSO({800e9, "800 GBps, another revision", GOOGLE("v6e")},
                       {858.993459200e9, "800 GiBps, another revision", GOOGLE("v5e")}, {820e9, "8.20e11", JAX})},
    .vmem = {BYTES(MIB(128), "128 MiB per core"), FROM JAX},
    .interconnect = {RATE(400, "400 GBps, bidirectional"), FROM GOOGLE("v5e"),
                     ALSO({200e9, "1600 Gbps, an older revision", GOOGLE("v5e")})},
    .link = {DERIVED(50e9, "B/s", "400 GB/s / 4 links / 2 directions; 1.6 TB/s bisection / 32 links gives the same"),
             FROM GOOGLE("v5e"), ALSO({45e9, "4.5e10", SCALING_BOOK})},
    .network = {DERIVED(3.125e9, "B/s", "2 x 100 Gbit/s per host of 8 chips"), FROM GOOGLE("v5e")},
    .pcie = {RATE(15, "1.5e10 B/s per chip"), FROM SCALING_BOOK},
    .power = {NONE("W", "no power is published for v5e"), FROM GOOGLE("v5e")},
},
{
    .name = "v5p", .aliases = NAMES("v5", "TPU v5", "TPU v5p", "tpu-v5p"), .vendor = "Google", .device_kind = "TPU v5",
    .is_tpu = true,
    .devices_per_chip = 1, .cores_per_chip = 2, .core_name = "TensorCore",
    .torus_dims = 3, .ports = 6, .wrap = CHIP_WRAP_CUBES, .pod_chips = 6144, .counted = GOOGLE("v5p"),
    SLICES_3D,
    .naming = {"v5p-8 is 8 TensorCores: 4 chips, 4 devices (megacore)", MAXTEXT},
    .mxu = {"4 of 128x128", JAX},
    .host = {"VMs of 4 chips: 208 vCPU, 448 GB; 50 Gbit/s of data-centre network per chip", GOOGLE("tpu7x")},
    GOOGLE_PCI(0x0062),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v5p"), FROM GOOGLE("v5p")},
        [CHIP_F32]  = {NO_FLOPS("f32", "v5p"), FROM GOOGLE("v5p")},
        [CHIP_F16]  = {NO_FLOPS("f16", "v5p"), FROM GOOGLE("v5p")},
        [CHIP_BF16] = {FLOPS(459, "459 TFLOPs"), FROM GOOGLE("v5p")},
        [CHIP_FP8]  = {FLOPS(459, "459 TFLOPs"), FROM GOOGLE("tpu7x"), ALSO({NAN, "not available", JAX})},
        [CHIP_INT8] = {OPS(918, "918 TOPs"), FROM GOOGLE("v5p")},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v5p"), FROM JAX},
        [CHIP_INT4] = {OPS(1840, "1.84e15 a chip"), FROM JAX},
    },
    .memory = {BYTES(GIB(95), "95 GiB"), FROM GOOGLE("tpu7x"),
               .note = "less than the 95.74 GiB that XLA fills; jax prints 95.9 GiB",
               ALSO({95e9, "95 GB", GOOGLE("v5p")}, {103e9, "103_000_000_000 B a chip", JAX})},
    .memory_usable = {BYTES(GIB(95.74), "95.74G"), FROM OOM_SOMEWHERE,
                      .note = "a weaker source than the others have"},
    .bandwidth = {RATE(2765, "2765 GBps"), FROM GOOGLE("v5p"),
                  ALSO({2460e9, "2.46e12 B/s a chip", JAX},
                       {2764.885196800e9, "2575 GiBps, another revision", GOOGLE("v5p")})},
    .vmem = {BYTES(MIB(64), "64 MiB per core"), FROM JAX},
    .interconnect = {RATE(1200, "1200 GBps, bidirectional"), FROM GOOGLE("tpu7x"),
                     ALSO({600e9, "4800 Gbps, an older revision", GOOGLE("v5p")})},
    .link = {DERIVED(100e9, "B/s", "1200 GB/s / 6 links / 2 directions"), FROM GOOGLE("tpu7x"),
             ALSO({90e9, "9e10", SCALING_BOOK})},
    .network = {RATE(6.25, "50 Gbit/s per chip"), FROM GOOGLE("tpu7x"),
                ALSO({6.25e9, "2.5e10 B/s per host of 4 chips", SCALING_BOOK})},
    .pcie = {RATE(15, "1.5e10 B/s per chip"), FROM SCALING_BOOK},
    .power = {NONE("W", "no power is published for v5p"), FROM GOOGLE("v5p")},
},
{
    .name = "v6e", .aliases = NAMES("v6 lite", "v6lite", "trillium", "TPU v6 lite", "TPU v6e", "tpu-v6e"),
    .vendor = "Google", .device_kind = "TPU v6 lite", .is_tpu = true,
    .devices_per_chip = 1, .cores_per_chip = 1, .core_name = "TensorCore",
    .torus_dims = 2, .ports = 4, .wrap = CHIP_WRAP_FULL_16, .pod_chips = 256, .counted = GOOGLE("v6e"),
    SLICES_2D,
    .naming = {"v6e-8 is 8 chips, 8 devices", GOOGLE("v6e")},
    .mxu = {"2 of 256x256", JAX},
    .host = {"8 chips, 1536 GiB, 4 x 200 Gbit/s, PCIe 5; VMs of 1 chip: 176 GB; 4: 180 vCPU, 720 GB; 8: 1440 GB",
             GOOGLE("v6e")},
    GOOGLE_PCI(0x006f),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "v6e"), FROM GOOGLE("v6e")},
        [CHIP_F32]  = {NO_FLOPS("f32", "v6e"), FROM GOOGLE("v6e")},
        [CHIP_F16]  = {NO_FLOPS("f16", "v6e"), FROM GOOGLE("v6e")},
        [CHIP_BF16] = {FLOPS(918, "918 TFLOPs"), FROM GOOGLE("v6e"), ALSO({920e12, "9.20e14", JAX})},
        [CHIP_FP8]  = {FLOPS(918, "918 TFLOPs"), FROM GOOGLE("tpu7x"), .note = "the bf16 rate: fp8 saves bytes only",
                       ALSO({920e12, "9.20e14", JAX})},
        [CHIP_INT8] = {OPS(1836, "1836 TOPs"), FROM GOOGLE("v6e"), ALSO({1840e12, "1.84e15", JAX})},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "v6e"), FROM JAX},
        [CHIP_INT4] = {OPS(3680, "3.68e15"), FROM JAX},
    },
    .memory = {BYTES(GIB(32), "32 GB"), FROM GOOGLE("v6e"), .note = "GiB in the table of the tpu7x page",
               ALSO({32e9, "32 GB, taken as 10^9 B", GOOGLE("v6e")}, {GIB(32), "32 GiB", GOOGLE("tpu7x")},
                    {34.4e9, "34_400_000_000 B", JAX})},
    .memory_usable = {BYTES(GIB(31.25), "31.25G"), FROM OOM("EnzymeAD/Reactant.jl/issues/2815")},
    .bandwidth = {RATE(1638, "1638 GB/s"), FROM GOOGLE("tpu7x"),
                  ALSO({1600e9, "1600 GBps", GOOGLE("v6e")}, {1640e9, "1640 GBps, another revision", GOOGLE("v6e")},
                       {1640e9, "1.64e12", JAX})},
    .vmem = {BYTES(MIB(128), "128 MiB per core"), FROM JAX},
    .interconnect = {RATE(800, "800 GBps, bidirectional"), FROM GOOGLE("v6e"),
                     ALSO({400e9, "3200 Gbps, an older revision", GOOGLE("v6e")},
                          {448e9, "3584 Gbps, an older revision", GOOGLE("v6e")})},
    .link = {DERIVED(100e9, "B/s", "800 GB/s / 4 links / 2 directions; 3.2 TB/s bisection / 32 links gives the same"),
             FROM GOOGLE("v6e"), ALSO({90e9, "9e10", SCALING_BOOK})},
    .network = {DERIVED(12.5e9, "B/s", "4 x 200 Gbit/s per host of 8 chips"), FROM GOOGLE("v6e")},
    .pcie = {RATE(32, "3.2e10 B/s per chip"), FROM SCALING_BOOK},
    .power = {NONE("W", "no power is published for v6e"), FROM GOOGLE("v6e")},
},
{
    .name = "tpu7x", .aliases = NAMES("7x", "v7x", "ironwood", "TPU7x", "TPU v7x"), .vendor = "Google",
    .device_kind = "TPU7x", .is_tpu = true,
    .devices_per_chip = 2, .cores_per_chip = 2, .core_name = "TensorCore",
    .torus_dims = 3, .ports = 6, .wrap = CHIP_WRAP_CUBES, .pod_chips = 9216, .counted = GOOGLE("tpu7x"),
    .slices = NAMES("1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8"),
    .naming = {"tpu7x-8 is 8 TensorCores: 4 chips, 8 devices", MAXTEXT},
    .mxu = {"2 of 256x256", JAX},
    .host = {"VMs of 4 chips: 224 vCPU, 960 GB, 2 NUMA nodes; 100 Gbit/s of data-centre network per chip",
             GOOGLE("tpu7x")},
    GOOGLE_PCI(0x0076),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "tpu7x"), FROM GOOGLE("tpu7x")},
        [CHIP_F32]  = {NO_FLOPS("f32", "tpu7x"), FROM GOOGLE("tpu7x"),
                       ALSO({1153.5e12, "1153.5, \"estimated\"", MICROBENCHMARKS})},
        [CHIP_F16]  = {NO_FLOPS("f16", "tpu7x"), FROM GOOGLE("tpu7x")},
        [CHIP_BF16] = {FLOPS(2307, "2307 TFLOPs"), FROM GOOGLE("tpu7x"), ALSO({2310e12, "2.31e15 a chip", JAX})},
        [CHIP_FP8]  = {FLOPS(4614, "4614 TFLOPs"), FROM GOOGLE("tpu7x"), ALSO({4600e12, "4.60e15 a chip", JAX})},
        [CHIP_INT8] = {NO_OPS("int8", "tpu7x"), FROM GOOGLE("tpu7x"),
                       ALSO({NAN, "not available", JAX}, {4614e12, "4614, against jax", MICROBENCHMARKS})},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "tpu7x"), FROM GOOGLE("tpu7x")},
        [CHIP_INT4] = {NO_OPS("int4", "tpu7x"), FROM GOOGLE("tpu7x"), ALSO({NAN, "not available", JAX})},
    },
    .memory = {BYTES(GIB(192), "192 GiB"), FROM GOOGLE("tpu7x"), ALSO({206e9, "206_000_000_000 B a chip", JAX})},
    .memory_usable = {BYTES(GIB(94.75), "94.75G"), FROM OOM_SOMEWHERE,
                      .note = "a weaker source than the others have"},
    .bandwidth = {RATE(7380, "7380 GB/s"), FROM GOOGLE("tpu7x"), ALSO({7400e9, "7.40e12 B/s a chip", JAX})},
    .vmem = {BYTES(MIB(64), "64 MiB per core"), FROM JAX},
    .interconnect = {RATE(1200, "1200 GB/s, bidirectional"), FROM GOOGLE("tpu7x")},
    .link = {DERIVED(100e9, "B/s", "1200 GB/s / 6 links / 2 directions"), FROM GOOGLE("tpu7x"),
             ALSO({90e9, "9e10", GITHUB("jax-ml/scaling-book/pull/115", "2026-11-29")})},
    .network = {RATE(12.5, "100 Gbit/s per chip"), FROM GOOGLE("tpu7x")},
    .pcie = {NONE("B/s", "no PCIe rate is published for tpu7x"), FROM GOOGLE("tpu7x")},
    .power = {NONE("W", "no power is published for tpu7x"), FROM GOOGLE("tpu7x")},
},
{
    .name = "tpu8t", .aliases = NAMES("TPU8t", "8t", "v8t"), .vendor = "Google", .device_kind = "TPU8t", .is_tpu = true,
    .devices_per_chip = 1, .cores_per_chip = 1, .core_name = "TensorCore", .wrap = CHIP_WRAP_NONE, .counted = JAX,
    .naming = {NULL, JAX}, .mxu = {"2 of 256x256", JAX}, .host = {NULL, JAX}, GOOGLE_PCI(0x007c),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "tpu8t"), FROM JAX},
        [CHIP_F32]  = {NO_FLOPS("f32", "tpu8t"), FROM JAX},
        [CHIP_F16]  = {NO_FLOPS("f16", "tpu8t"), FROM JAX},
        [CHIP_BF16] = {FLOPS(996.1, "9.9610e14"), FROM JAX},
        [CHIP_FP8]  = {FLOPS(5976.9, "5.9769e15"), FROM JAX},
        [CHIP_INT8] = {OPS(996.1, "9.9610e14"), FROM JAX},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "tpu8t"), FROM JAX},
        [CHIP_INT4] = {OPS(11953.8, "1.1954e16"), FROM JAX},
    },
    .memory = {BYTES(231e9, "231_000_000_000 B a chip"), FROM JAX},
    .memory_usable = {NONE("B", "no usable limit was found for tpu8t"), FROM JAX},
    .bandwidth = {RATE(6400, "6.40e12 B/s a chip"), FROM JAX},
    .vmem = {BYTES(MIB(128), "128 MiB per core"), FROM JAX},
    .interconnect = {NONE("B/s", "no interconnect rate is published for tpu8t"), FROM JAX},
    .link = {NONE("B/s", "no interconnect rate is published for tpu8t"), FROM JAX},
    .network = {NONE("B/s", "no rate of the network is published for tpu8t"), FROM JAX},
    .pcie = {NONE("B/s", "no PCIe rate is published for tpu8t"), FROM JAX},
    .power = {NONE("W", "no power is published for tpu8t"), FROM JAX},
},
{
    .name = "tpu8i", .aliases = NAMES("TPU8i", "8i", "v8i"), .vendor = "Google", .device_kind = "TPU8i", .is_tpu = true,
    .devices_per_chip = 2, .cores_per_chip = 2, .core_name = "TensorCore", .wrap = CHIP_WRAP_NONE, .counted = JAX,
    .naming = {NULL, JAX}, .mxu = {"2 of 256x256", JAX}, .host = {NULL, JAX}, GOOGLE_PCI(0x0083),
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "tpu8i"), FROM JAX},
        [CHIP_F32]  = {NO_FLOPS("f32", "tpu8i"), FROM JAX},
        [CHIP_F16]  = {NO_FLOPS("f16", "tpu8i"), FROM JAX},
        [CHIP_BF16] = {FLOPS(1101, "1.1010e15"), FROM JAX},
        [CHIP_FP8]  = {FLOPS(8808, "8.8080e15"), FROM JAX},
        [CHIP_INT8] = {NO_OPS("int8", "tpu8i"), FROM JAX},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "tpu8i"), FROM JAX},
        [CHIP_INT4] = {NO_OPS("int4", "tpu8i"), FROM JAX},
    },
    .memory = {BYTES(309e9, "309_000_000_000 B a chip"), FROM JAX},
    .memory_usable = {NONE("B", "no usable limit was found for tpu8i"), FROM JAX},
    .bandwidth = {RATE(8600, "8.60e12 B/s a chip"), FROM JAX},
    .vmem = {BYTES(MIB(192), "192 MiB per core"), FROM JAX},
    .interconnect = {NONE("B/s", "no interconnect rate is published for tpu8i"), FROM JAX},
    .link = {NONE("B/s", "no interconnect rate is published for tpu8i"), FROM JAX},
    .network = {NONE("B/s", "no rate of the network is published for tpu8i"), FROM JAX},
    .pcie = {NONE("B/s", "no PCIe rate is published for tpu8i"), FROM JAX},
    .power = {NONE("W", "no power is published for tpu8i"), FROM JAX},
},
// --- GPU: per board, dense (sparse rates are twice as high) ---------------------------------------------------------------
{
    .name = "a100", .aliases = NAMES("A100 SXM", "a100-80g", "NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM"),
    .vendor = "NVIDIA", .device_kind = "NVIDIA A100-SXM4-80GB",
    .devices_per_chip = 1, .cores_per_chip = 108, .core_name = "SM", .ports = 1, .counted = KLOCKWOOD("A100"),
    .naming = {"a100:8 is 8 GPUs, 8 devices", AICONFIGURATOR("a100_sxm")}, .mxu = {"4 tensor cores", KLOCKWOOD("A100")},
    .host = {"a2-highgpu-8g (GPUs of 40 GB): 8 GPUs, 96 vCPU, 680 GB", SKYPILOT},
    .rate = {
        [CHIP_F64]  = {FLOPS(19.5, "19.5 (matrix)"), FROM KLOCKWOOD("A100"), ALSO({9.7e12, "9.7 (vector)", KLOCKWOOD("A100")})},
        [CHIP_F32]  = {FLOPS(19.5, "19.5 (vector)"), FROM KLOCKWOOD("A100"), .note = "products in TF32 are 156 TFLOP/s, and rounded to 10 bits"},
        [CHIP_F16]  = {FLOPS(312, "312 (matrix)"), FROM KLOCKWOOD("A100")},
        [CHIP_BF16] = {FLOPS(312, "312TFLOPS"), FROM AICONFIGURATOR("a100_sxm"),
                       ALSO({311.87e12, "2048 a clock x 108 SMs x 1.41 GHz", XPROF_CUDA})},
        [CHIP_FP8]  = {NO_FLOPS("fp8", "the A100"), FROM KLOCKWOOD("A100")},
        [CHIP_INT8] = {OPS(624, "624"), FROM AICONFIGURATOR("a100_sxm")},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "the A100"), FROM KLOCKWOOD("A100")},
        [CHIP_INT4] = {OPS(1248, "1248 (matrix)"), FROM KLOCKWOOD("A100")},
    },
    .memory = {BYTES(GIB(80), "80GiB"), FROM AICONFIGURATOR("a100_sxm")},
    .memory_usable = {NONE("B", "no usable limit was found for the A100"), FROM AICONFIGURATOR("a100_sxm")},
    .bandwidth = {RATE(2039, "2.039TB/s"), FROM AICONFIGURATOR("a100_sxm")},
    .vmem = {NONE("B", "no vector memory"), FROM KLOCKWOOD("A100")},
    .interconnect = {DERIVED(600e9, "B/s", "2 directions x 300 GB/s"), FROM AICONFIGURATOR("a100_sxm")},
    .link = {RATE(300, "300e9 B/s per GPU, single direction"), FROM AICONFIGURATOR("a100_sxm"),
             ALSO({150e9, "150", GENZ})},
    .network = {NONE("B/s", "the network belongs to the machine, not to the A100"), FROM AICONFIGURATOR("a100_sxm")},
    .pcie = {NONE("B/s", "this table has no PCIe rate for the A100"), FROM AICONFIGURATOR("a100_sxm")},
    .power = {SHEET(400, "W", "400 W"), FROM AICONFIGURATOR("a100_sxm")},
},
{
    .name = "h100", .aliases = NAMES("H100 SXM", "NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"), .vendor = "NVIDIA",
    .device_kind = "NVIDIA H100 80GB HBM3",
    .devices_per_chip = 1, .cores_per_chip = 132, .core_name = "SM", .ports = 1, .counted = KLOCKWOOD("h100"),
    .naming = {"h100:8 is 8 GPUs, 8 devices", AICONFIGURATOR("h100_sxm")}, .mxu = {"4 tensor cores", KLOCKWOOD("h100")},
    .host = {"a3-highgpu-8g: 8 GPUs, 208 vCPU, 1872 GB", SKYPILOT},
    .rate = {
        [CHIP_F64]  = {FLOPS(66.9, "66.9 (matrix)"), FROM KLOCKWOOD("h100"), ALSO({33.5e12, "33.5 (vector)", KLOCKWOOD("h100")})},
        [CHIP_F32]  = {FLOPS(66.9, "66.9 (vector)"), FROM KLOCKWOOD("h100"), .note = "products in TF32 are 494.7 TFLOP/s, and rounded to 10 bits",
                       ALSO({61.84e12, "256 a clock x 132 SMs x 1.83 GHz", XPROF_CUDA})},
        [CHIP_F16]  = {FLOPS(989.4, "989.4 (matrix)"), FROM KLOCKWOOD("h100")},
        [CHIP_BF16] = {FLOPS(989, "989TFLOPS"), FROM AICONFIGURATOR("h100_sxm"),
                       ALSO({989.4e12, "989.4 (matrix)", KLOCKWOOD("h100")},
                            {989.4e12, "4096 a clock x 132 SMs x 1.83 GHz", XPROF_CUDA})},
        [CHIP_FP8]  = {FLOPS(1978.9, "1978.9 (matrix)"), FROM KLOCKWOOD("h100"), ALSO({1978e12, "1978TFLOPS", AICONFIGURATOR("h100_sxm")})},
        [CHIP_INT8] = {OPS(1978.9, "1978.9 (matrix)"), FROM KLOCKWOOD("h100"), ALSO({1978e12, "1978TFLOPS", AICONFIGURATOR("h100_sxm")})},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "the H100"), FROM KLOCKWOOD("h100")},
        [CHIP_INT4] = {NO_OPS("int4", "the H100"), FROM KLOCKWOOD("h100")},
    },
    .memory = {BYTES(GIB(80), "80GiB"), FROM AICONFIGURATOR("h100_sxm")},
    .memory_usable = {NONE("B", "no usable limit was found for the H100"), FROM AICONFIGURATOR("h100_sxm")},
    .bandwidth = {RATE(3350, "3350GB/s"), FROM AICONFIGURATOR("h100_sxm"), ALSO({3400e9, "3400", GENZ})},
    .vmem = {NONE("B", "no vector memory"), FROM KLOCKWOOD("h100")},
    .interconnect = {DERIVED(900e9, "B/s", "2 directions x 450 GB/s"), FROM AICONFIGURATOR("h100_sxm")},
    .link = {RATE(450, "450e9 B/s per GPU, single direction"), FROM AICONFIGURATOR("h100_sxm")},
    .network = {NONE("B/s", "the network belongs to the machine, not to the H100"), FROM AICONFIGURATOR("h100_sxm")},
    .pcie = {NONE("B/s", "this table has no PCIe rate for the H100"), FROM AICONFIGURATOR("h100_sxm")},
    .power = {SHEET(700, "W", "700 W"), FROM AICONFIGURATOR("h100_sxm")},
},
{
    .name = "h200", .aliases = NAMES("H200 SXM", "NVIDIA H200", "NVIDIA H200 SXM"), .vendor = "NVIDIA",
    .device_kind = "NVIDIA H200",
    .devices_per_chip = 1, .cores_per_chip = 132, .core_name = "SM", .ports = 1, .counted = KLOCKWOOD("h100"),
    .naming = {"h200:8 is 8 GPUs, 8 devices", AICONFIGURATOR("h200_sxm")}, .mxu = {"4 tensor cores", KLOCKWOOD("h100")},
    .host = {NULL, AICONFIGURATOR("h200_sxm")},
    .rate = {
        [CHIP_F64]  = {FLOPS(66.9, "66.9 (matrix), as the H100"), FROM KLOCKWOOD("h100"),
                       ALSO({33.5e12, "33.5 (vector)", KLOCKWOOD("h100")})},
        [CHIP_F32]  = {FLOPS(66.9, "66.9 (vector), as the H100"), FROM KLOCKWOOD("h100"), .note = "products in TF32 are 494.7 TFLOP/s, and rounded to 10 bits"},
        [CHIP_F16]  = {FLOPS(989.4, "989.4 (matrix), as the H100"), FROM KLOCKWOOD("h100")},
        [CHIP_BF16] = {FLOPS(989, "989TFLOPS"), FROM AICONFIGURATOR("h200_sxm")},
        [CHIP_FP8]  = {FLOPS(1978.9, "1978.9 (matrix), as the H100"), FROM KLOCKWOOD("h100"),
                       ALSO({1978e12, "1978TFLOPS", AICONFIGURATOR("h200_sxm")})},
        [CHIP_INT8] = {OPS(1978.9, "1978.9 (matrix), as the H100"), FROM KLOCKWOOD("h100"),
                       ALSO({1978e12, "1978TFLOPS", AICONFIGURATOR("h200_sxm")})},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "the H200"), FROM KLOCKWOOD("h100")},
        [CHIP_INT4] = {NO_OPS("int4", "the H200"), FROM KLOCKWOOD("h100")},
    },
    .memory = {BYTES(GIB(141), "141GiB"), FROM AICONFIGURATOR("h200_sxm"), .note = "sold as 141 GB",
               ALSO({141e9, "141 GB", SOURCE("https://aiwiki.ai/wiki/nvidia_h200", "2026-06-21")})},
    .memory_usable = {NONE("B", "no usable limit was found for the H200"), FROM AICONFIGURATOR("h200_sxm")},
    .bandwidth = {RATE(4800, "4800GB/s"), FROM AICONFIGURATOR("h200_sxm")},
    .vmem = {NONE("B", "no vector memory"), FROM KLOCKWOOD("h100")},
    .interconnect = {DERIVED(900e9, "B/s", "2 directions x 450 GB/s"), FROM AICONFIGURATOR("h200_sxm")},
    .link = {RATE(450, "450e9 B/s per GPU, single direction"), FROM AICONFIGURATOR("h200_sxm")},
    .network = {NONE("B/s", "the network belongs to the machine, not to the H200"), FROM AICONFIGURATOR("h200_sxm")},
    .pcie = {NONE("B/s", "this table has no PCIe rate for the H200"), FROM AICONFIGURATOR("h200_sxm")},
    .power = {SHEET(700, "W", "700 W"), FROM AICONFIGURATOR("h200_sxm")},
},
{
    .name = "b200", .aliases = NAMES("B200 SXM", "NVIDIA B200", "NVIDIA B200 SXM"), .vendor = "NVIDIA",
    .device_kind = "NVIDIA B200",
    .devices_per_chip = 1, .cores_per_chip = 148, .core_name = "SM", .ports = 1, .counted = XPROF_CUDA,
    .naming = {"b200:8 is 8 GPUs, 8 devices", AICONFIGURATOR("b200_sxm")}, .mxu = {"4 tensor cores", KLOCKWOOD("B200")},
    .host = {NULL, AICONFIGURATOR("b200_sxm")},
    .rate = {
        [CHIP_F64]  = {FLOPS(40, "40 (HGX, 1000 W)"), FROM KLOCKWOOD("B200")},
        [CHIP_F32]  = {FLOPS(80, "80 (HGX, vector)"), FROM KLOCKWOOD("B200"), .note = "products in TF32 are 1100 TFLOP/s, and rounded to 10 bits"},
        [CHIP_F16]  = {FLOPS(2250, "2250 (HGX)"), FROM KLOCKWOOD("B200")},
        [CHIP_BF16] = {FLOPS(2250, "2250TFLOPS"), FROM AICONFIGURATOR("b200_sxm"),
                       ALSO({2249e12, "8192 a clock x 148 SMs x 1.855 GHz", XPROF_CUDA},
                            {2500e12, "2500 (GB200, 1200 W)", KLOCKWOOD("B200")})},
        [CHIP_FP8]  = {FLOPS(4500, "4500TFLOPS"), FROM AICONFIGURATOR("b200_sxm")},
        [CHIP_INT8] = {OPS(4500, "4500TFLOPS"), FROM AICONFIGURATOR("b200_sxm")},
        [CHIP_FP4]  = {FLOPS(9000, "9000TFLOPS"), FROM AICONFIGURATOR("b200_sxm")},
        [CHIP_INT4] = {NO_OPS("int4", "the B200"), FROM AICONFIGURATOR("b200_sxm")},
    },
    .memory = {BYTES(GIB(180), "180GiB"), FROM AICONFIGURATOR("b200_sxm"), ALSO({192e9, "192 GB", KLOCKWOOD("B200")})},
    .memory_usable = {NONE("B", "no usable limit was found for the B200"), FROM AICONFIGURATOR("b200_sxm")},
    .bandwidth = {RATE(7700, "7.7TB/s"), FROM AICONFIGURATOR("b200_sxm"), ALSO({8000e9, "8 TB/s (max)", KLOCKWOOD("B200")})},
    .vmem = {NONE("B", "no vector memory"), FROM KLOCKWOOD("B200")},
    .interconnect = {DERIVED(1800e9, "B/s", "2 directions x 900 GB/s"), FROM AICONFIGURATOR("b200_sxm")},
    .link = {RATE(900, "900e9 B/s per GPU, single direction"), FROM AICONFIGURATOR("b200_sxm")},
    .network = {NONE("B/s", "the network belongs to the machine, not to the B200"), FROM AICONFIGURATOR("b200_sxm")},
    .pcie = {NONE("B/s", "this table has no PCIe rate for the B200"), FROM AICONFIGURATOR("b200_sxm")},
    .power = {SHEET(1000, "W", "1000 W"), FROM AICONFIGURATOR("b200_sxm")},
},
{
    .name = "l4", .aliases = NAMES("NVIDIA L4"), .vendor = "NVIDIA", .device_kind = "NVIDIA L4",
    .devices_per_chip = 1, .cores_per_chip = 58, .core_name = "SM", .ports = 1, .counted = XPROF_CUDA,
    .naming = {"l4:4 is 4 GPUs, 4 devices", AICONFIGURATOR("l4")}, .mxu = {"4 tensor cores", XPROF_CUDA},
    .host = {NULL, AICONFIGURATOR("l4")},
    .rate = {
        [CHIP_F64]  = {NO_FLOPS("f64", "the L4"), FROM AICONFIGURATOR("l4")},
        [CHIP_F32]  = {DERIVED(256 * 58 * 2.04e9, "FLOP/s", "256 a clock x 58 SMs x 2.04 GHz"), FROM XPROF_CUDA},
        [CHIP_F16]  = {DERIVED(1024 * 58 * 2.04e9, "FLOP/s", "1024 a clock x 58 SMs x 2.04 GHz"), FROM XPROF_CUDA},
        [CHIP_BF16] = {FLOPS(121, "121TFLOPS (dense)"), FROM AICONFIGURATOR("l4"), .note = "data sheets print 242, with sparsity",
                       ALSO({121.2e12, "1024 a clock x 58 SMs x 2.04 GHz", XPROF_CUDA})},
        [CHIP_FP8]  = {FLOPS(242, "242TFLOPS (dense)"), FROM AICONFIGURATOR("l4"), .note = "data sheets print 485, with sparsity"},
        [CHIP_INT8] = {OPS(242, "242TOPS (dense)"), FROM AICONFIGURATOR("l4"), .note = "data sheets print 485, with sparsity"},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "the L4"), FROM AICONFIGURATOR("l4")},
        [CHIP_INT4] = {DERIVED(4096 * 58 * 2.04e9, "OP/s", "4096 a clock x 58 SMs x 2.04 GHz"), FROM XPROF_CUDA},
    },
    .memory = {BYTES(GIB(24), "24GiB"), FROM AICONFIGURATOR("l4")},
    .memory_usable = {NONE("B", "no usable limit was found for the L4"), FROM AICONFIGURATOR("l4")},
    .bandwidth = {RATE(300, "300GB/s"), FROM AICONFIGURATOR("l4")},
    .vmem = {NONE("B", "no vector memory"), FROM AICONFIGURATOR("l4")},
    .interconnect = {DERIVED(64e9, "B/s", "2 directions x 32 GB/s"), FROM AICONFIGURATOR("l4")},
    .link = {RATE(32, "32e9 B/s per GPU, single direction, PCIe Gen4 x16"), FROM AICONFIGURATOR("l4")},
    .network = {NONE("B/s", "the network belongs to the machine, not to the L4"), FROM AICONFIGURATOR("l4")},
    .pcie = {NONE("B/s", "this table has no PCIe rate for the L4"), FROM AICONFIGURATOR("l4")},
    .power = {SHEET(72, "W", "72 W"), FROM AICONFIGURATOR("l4")},
},
{
    .name = "mi300x", .aliases = NAMES("Instinct MI300X", "AMD Instinct MI300X"), .vendor = "AMD",
    .device_kind = "AMD Instinct MI300X",
    .devices_per_chip = 1, .cores_per_chip = 304, .core_name = "CU", .ports = 1,
    .counted = SOURCE("https://rocm.docs.amd.com/en/docs-6.2.2/conceptual/gpu-arch/mi300.html", "2024-09-11"),
    .naming = {"mi300x:8 is 8 GPUs, 8 devices", GENZ}, .mxu = {"1 matrix core", XPROF_ROCM}, .host = {NULL, GENZ},
    .rate = {
        [CHIP_F64]  = {DERIVED(256 * 304 * 2.1e9, "FLOP/s", "256 a clock x 304 CUs x 2.1 GHz"), FROM XPROF_ROCM},
        [CHIP_F32]  = {DERIVED(256 * 304 * 2.1e9, "FLOP/s", "256 a clock x 304 CUs x 2.1 GHz"), FROM XPROF_ROCM},
        [CHIP_F16]  = {DERIVED(2048 * 304 * 2.1e9, "FLOP/s", "2048 a clock x 304 CUs x 2.1 GHz"), FROM XPROF_ROCM},
        [CHIP_BF16] = {FLOPS(1307, "1307"), FROM GENZ,
                       ALSO({1300e12, "1300e12", TORCHTITAN}, {1307.4e12, "2048 a clock x 304 CUs x 2.1 GHz", XPROF_ROCM})},
        [CHIP_FP8]  = {DERIVED(4096 * 304 * 2.1e9, "FLOP/s", "4096 a clock x 304 CUs x 2.1 GHz"), FROM XPROF_ROCM},
        [CHIP_INT8] = {DERIVED(4096 * 304 * 2.1e9, "OP/s", "4096 a clock x 304 CUs x 2.1 GHz"), FROM XPROF_ROCM},
        [CHIP_FP4]  = {NO_FLOPS("fp4", "the MI300X"), FROM XPROF_ROCM},
        [CHIP_INT4] = {NO_OPS("int4", "the MI300X"), FROM XPROF_ROCM},
    },
    .memory = {BYTES(192e9, "192 GB"), FROM GENZ, .note = "taken as printed; 192 GiB would be 206e9 B"},
    .memory_usable = {NONE("B", "no usable limit was found for the MI300X"), FROM GENZ},
    .bandwidth = {RATE(5300, "5300 GB/s"), FROM GENZ},
    .vmem = {NONE("B", "no vector memory"), FROM XPROF_ROCM},
    .interconnect = {DERIVED(800e9, "B/s", "2 directions x 400 GB/s"), FROM GENZ},
    .link = {RATE(400, "400 GB/s per GPU, single direction"), FROM GENZ},
    .network = {NONE("B/s", "the network belongs to the machine, not to the MI300X"), FROM GENZ},
    .pcie = {NONE("B/s", "this table has no PCIe rate for the MI300X"), FROM GENZ},
    .power = {SHEET(750, "W", "750 W"), FROM SOURCE("https://www.codesota.com/hardware/mi300x", "2026-04-22")},
},
};
// clang-format on

const size_t chips_data_count = sizeof chips_data / sizeof *chips_data;

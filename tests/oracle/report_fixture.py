# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/report/qualify-synthetic.json: a qualify document that no run produced.

It has the shape of a real one, names that try to break out of every format, a policy that failed, and values that are
null. Only the standard library is used, so any Python 3 gives the same bytes:

    python3 tests/oracle/report_fixture.py > tests/fixtures/report/qualify-synthetic.json

--plain leaves the hostile names out, for looking at the page.
"""
import json
import math
import random
import sys

PLAIN = "--plain" in sys.argv
rng = random.Random(20)
HOSTILE = '\x1b[31m</script><b onload="x">\'|`\u202e&'
SOURCE_D = "synthetic: counted"
SOURCE_M = "synthetic cpu, 30 samples"


def hostile(name):
    return name if PLAIN else name + HOSTILE


def q(value, unit, origin, source):
    return {"value": value, "unit": unit, "origin": origin, "source": source}


def null(unit, origin, why):
    return q(None, unit, origin, hostile(why))


CHIPS = {  # bandwidth in B/s, rates per operand type
    "v5e": (8.19e11, {"bf16": 1.97e14, "int8": 3.94e14}),
    "tpu7x": (7.38e12, {"bf16": 2.307e15, "int8": None}),
    "local": (4.3e10, {"f32": 1.6e11, "bf16": 4.69e11, "int8": 9.39e11}),
}
# name, FLOP per batch, activation bytes, parameters
MODULES = [
    ("embedding", 2.4e7, 2.6e7, 11_720_448),
    ("attention projections", 2.9e10, 1.5e8, 3_548_160),
    ("attention scores and values", 4.8e9, 2.1e8, 0),
    ("mlp", 5.8e10, 2.9e8, 7_086_336),
    (hostile("norms"), 2.4e8, 1.9e8, 9_984),
    ("pooling", 3.2e6, 6.4e6, 0),
]


def modules(weight_bits, rate):
    out = []
    for name, flop, act, params in MODULES:
        weights = params * weight_bits / 8
        total = act + weights
        floors = {}
        for chip, (bandwidth, peaks) in CHIPS.items():
            peak = peaks.get(rate) or peaks.get("bf16")
            t = max(flop / peak, total / bandwidth)
            if peaks.get(rate, 0) is None:
                floors[chip] = {"time": null("s", "D", f"no {rate} rate is published for {chip}"), "bound": None}
                continue
            floors[chip] = {
                "time": q(t, "s", "D", f"max(FLOP / {rate} peak, bytes / bandwidth)"),
                "bound": "compute" if flop / peak > total / bandwidth else "memory",
            }
        out.append({
            "name": name,
            "flop": q(flop, "FLOP", "D", SOURCE_D),
            "bytes": q(total, "B", "D", SOURCE_D),
            "bytes_merged": q(total * 0.9, "B", "D", SOURCE_D),
            "bytes_unfused": q(total * 1.8, "B", "D", SOURCE_D),
            "weight_bytes": q(weights, "B", "D", SOURCE_D),
            "intensity": q(flop / total, "FLOP/B", "D", "FLOP / bytes"),
            "floors": floors,
        })
    return out


PARTS = ["weights", "activations", "operands", "accumulation", "reductions", "softmax", "normalisation", "output"]
ABSENT = ["kv cache", "gradients", "master weights", "optimizer state"]


def parts(weight, weight_detail, act, op, acc):
    types = [weight, act, op, acc, "f32", "f32", "f32", "f32"]
    details = [weight_detail, "per row, dynamic" if act == "s8" else "", "", "", "", "", "", "normalised embedding"]
    rows = [{"part": p, "type": t, "detail": d} for p, t, d in zip(PARTS, types, details)]
    return rows + [{"part": p, "type": "not applicable", "detail": "the workload has none"} for p in ABSENT]


POLICIES = [  # name, weight bits, stored weights, scales, rel_l2, p50 ms, rate, parts
    ("f32", 32, 90_867_712, 0, 4.1e-7, 620.0, "f32", parts("f32", "as stored", "f32", "f32", "f32")),
    ("bf16", 16, 45_433_856, 0, 2.9e-3, 402.0, "bf16", parts("bf16", "nearest even", "bf16", "bf16", "f32")),
    ("f16", 16, 45_433_856, 0, 3.7e-4, None, "f16", parts("f16", "nearest even", "f16", "f16", "f32")),
    ("w8a16", 8, 22_738_944, 41_472, 7.4e-3, 411.0, "bf16",
     parts("s8", "per output channel, symmetric, nearest even, scales from the weights", "bf16", "bf16", "f32")),
    ("w8a8", 8, 22_738_944, 41_472, 1.9e-2, 298.0, "int8",
     parts("s8", "per output channel, symmetric, nearest even, scales from the weights", "s8", "s8", "s32")),
    ("w4a16", 4, 11_372_544, 1_327_104, 8.8e-2, 468.0, "bf16",
     parts("s4", "groups of 32 along the input, symmetric, nearest even", "bf16", "bf16", "f32")),
]


def policy(name, bits, weights, scales, err, p50, rate, part_rows):
    mods = modules(bits, rate)
    p = {
        "policy": name, "spec": f"w={part_rows[0]['type']},a={part_rows[1]['type']},op={part_rows[2]['type']}",
        "status": "ok", "failure": None, "parts": part_rows,
        "weight_bytes": q(weights, "B", "D", SOURCE_D), "scale_bytes": q(scales, "B", "D", SOURCE_D),
    }
    if p50 is None:
        p.update(status="failed", meets=None, unmet=[], failure={
            "kind": "signal", "value": 6, "doing": "compiling", "message": "the worker was killed by signal 6 (SIGABRT) while compiling",
            "stderr_tail": hostile("synthetic.cc:42] Check failed: ok\n*** aborted")})
        return p
    samples = []
    for i in range(30):
        x = p50 * (1 + 0.012 * rng.gauss(0, 1)) + (p50 * 0.09 if rng.random() < 0.1 else 0)
        samples.append(round(x, 4))
    s = sorted(samples)
    mid = (s[14] + s[15]) / 2
    cosine = 1 - err * err / 2 * 3.1
    top1 = max(0.0, 1 - 0.6 * err)
    per_s = 32e3 / mid
    ms = lambda v: q(round(v, 4), "ms", "M", SOURCE_M)
    task = lambda v, why="compared with f64": q(v, "1", "M", why)
    meets = cosine >= 0.999 and top1 >= 0.99
    unmet = []
    if cosine < 0.999:
        unmet.append(f"cosine_min {cosine:.4f} < 0.999")
    if top1 < 0.99:
        unmet.append(f"top1 {top1:.4f} < 0.99")
    p.update({
        "device_weight_bytes": q(weights + scales, "B", "M", SOURCE_M),
        "memory": {
            "arguments": q(weights + scales + 32768, "B", "M", "compiler's account"),
            "outputs": q(49152, "B", "M", "compiler's account"),
            "temporaries": q(151_000_000 * (1 if bits == 32 else 0.6), "B", "M", "compiler's account"),
            "aliases": q(0, "B", "M", "compiler's account"),
            "code": null("B", "M", "the plugin does not say"),
            "device_peak": null("B", "M", "a CPU device has no memory statistics"),
        },
        "errors": {
            "rel_l2": task(err), "max_abs": task(err * 0.05), "snr_db": q(-20 * math.log10(err), "dB", "M", "compared with f64"),
            "cosine_min": q(cosine, "1", "M", "compared with f64"),
        },
        "task": {"top1": task(top1), "top10": task(1 - 0.4 * err), "spearman": task(1 - 0.05 * err)},
        "subsets": [
            {"name": n, "rule": r, "texts": k, "top1": task(1 - f * err), "top10": task(1 - f * 0.7 * err),
             "spearman": task(1 - 0.1 * err), "cosine_min": task(1 - err * err * f)}
            for n, r, k, f in [("low margin", "first and second neighbour within 0.02", 41, 3.5),
                               (hostile("rare words"), "a word of four pieces or more", 28, 1.9),
                               ("long texts", "more than 64 tokens", 0 if name == "f32" else 33, 1.4)]
        ],
        "diagnostics": [
            {"module": m[0], "clipped": 0 if bits > 8 else int(err * 5000), "non_finite": 0, "flushed_to_zero": int(err * 90),
             "scale_min": None if bits > 8 else 1.3e-4, "scale_max": None if bits > 8 else 9.1e-3,
             "worst_channel": None if bits > 8 else {"tensor": hostile(f"encoder.layer.{i}.output.dense.weight"), "channel": 17 * i + 3,
                                                     "rel_l2": err * (1 + i / 3)}}
            for i, m in enumerate(MODULES[:4])
        ],
        "modules": mods,
        "predicted": {},
        "measured": {
            "compile_ms": ms(900 + p50), "first_ms": ms(p50 * 1.3), "upload_ms": ms(weights / 4e6), "p50_ms": ms(mid),
            "p90_ms": ms(s[26]), "min_ms": ms(s[0]), "mad_ms": ms(mid * 0.008), "ci_low_ms": ms(s[9]), "ci_high_ms": ms(s[20]),
            "samples_ms": q(samples, "ms", "M", SOURCE_M), "warmup_runs": 16,
            "items_per_s": q(round(per_s, 3), "items/s", "M", SOURCE_M),
            "peak_rss_bytes": q(412_000_000 + weights, "B", "M", SOURCE_M),
            "kernels": {"with": None, "absent": hostile("none was asked for"), "calls": {}},
            "request": {"tokenize_ms": ms(1.9), "upload_ms": ms(0.11), "run_ms": ms(mid), "download_ms": ms(0.04), "total_ms": ms(mid + 2.05)},
        },
        "paired": None, "meets": meets, "unmet": unmet,
    })
    for chip in CHIPS:
        times = [m["floors"][chip]["time"] for m in mods]
        if any(t["value"] is None for t in times):
            p["predicted"][chip] = {"time": null("s", "D", f"no {rate} rate is published for {chip}"), "bound": None,
                                    "over_measured": null("1", "D", "no prediction")}
            continue
        total = sum(t["value"] for t in times)
        p["predicted"][chip] = {
            "time": q(total, "s", "D", "sum of the modules' floors"), "bound": "memory" if chip == "v5e" else "compute",
            "over_measured": q(total / (mid / 1e3), "1", "D", "predicted / p50") if chip == "local" else null("1", "D", "not the device that ran"),
        }
    if name != "f32":
        ratio = p50 / 620.0
        p["paired"] = {"against": "f32", "ratio": q(ratio, "1", "M", "median of 30 pairs"), "low": q(ratio * 0.99, "1", "M", "exact binomial interval"),
                       "high": q(ratio * 1.012, "1", "M", "exact binomial interval"), "verdict": "faster"}
    return p


def why(p):
    """A narrower policy that is no faster: one reason with places and figures, one without."""
    share = q(0.55, "1", "D", "(read + 2 written) / bytes of the program")
    p["why_not_faster"] = {
        "against": "f32", "ratio": q(1.19, "1", "M", "median of 30 pairs"), "low": q(1.1, "1", "M", "exact binomial interval"),
        "high": q(1.3, "1", "M", "exact binomial interval"), "stored": q(14.2e6, "B", "D", "weights and scales together"),
        "stored_against": q(90.9e6, "B", "D", "weights and scales together"), "moved": q(97.3e6, "B", "D", "synthetic"),
        "moved_against": q(65.4e6, "B", "D", "synthetic"), "unread": None, "loops_unknown": True,
        "reasons": [
            {"kind": "weights widened", "text": hostile("24 whole weights are made bf16 again in every call"),
             "figures": {"weights": q(24, "count", "D", "synthetic"), "share_of_bytes": share},
             "where": [{"instruction": hostile("wrapped_convert.5"), "scope": hostile("layer.0.mlp.up"), "shape": "bf16[1536,384]",
                        "written": q(1.18e6, "B", "D", "synthetic"), "runs": q(12, "count", "D", "synthetic")}],
             "changes": "the type that weights are stored in: the products stay as they are",
             "command": hostile("assay qualify model --text texts --policy bf16 --policy w4a16")},
            {"kind": "batch", "text": "batch 32 is bound by arithmetic", "figures": {"intensity": q(21.1, "FLOP/B", "D", "synthetic")},
             "where": [], "changes": "the batch", "command": "assay qualify model --text texts --policy f32 --policy w4a16 --batch 8"},
        ],
    }
    return p


def predictions(p):
    """One target that was compiled for, one whose compiler is not there."""
    us = lambda v: q(v, "us", "D", "synthetic")
    gone = null("us", "D", hostile("no compiler"))
    p["predictions"] = [
        {"target": hostile("v6e"), "sheet": us(22.7), "calibrated": us(54.8), "measured": null("us", "M", "nothing ran on such a device"),
         "compiler": {"state": "compiled", "floor": us(28.0), "predicted": us(65.4), "low": us(46.7), "high": us(91.6),
                      "compile": q(5.72, "s", "M", "wall clock, here"),
                      "compile_cpu": q(5.4, "s", "M", "processor time, here"), "memory": None}},
        {"target": "tpu7x", "sheet": us(11.0), "calibrated": gone, "measured": q(1200.0, "us", "M", "synthetic"),
         "compiler": {"state": None, "floor": gone, "predicted": gone, "low": gone, "high": gone,
                      "compile": null("s", "M", "the compiler was not asked"),
                      "compile_cpu": null("s", "M", "the compiler was not asked"), "memory": None}},
    ]


policies = [policy(*p) for p in POLICIES]
for p in policies:
    predictions(p)
for p in policies:
    if p["status"] == "ok" and p["policy"] not in ("f32", "bf16"):
        why(p)
        break
sha = "00" * 31 + "%02x"
document = {
    "schema": "assay.qualify/1", "assay": "0.0.0-synthetic", "record": hostile("runs/synthetic"),
    "result": {
        "workload": {
            "name": hostile("synthetic-embedder"), "kind": "bert", "parameters": 22_713_216,
            "weight_bytes": q(90_867_712, "B", "S", "safetensors header"), "sha256": sha % 1, "batch": 32, "seq": 128, "texts": 320, "tokens": 7411,
            "truncated_texts": 2, "text_file": {"path": hostile("data/synthetic.txt"), "bytes": 21000, "sha256": sha % 2},
            "files": [{"path": hostile("model/config.json"), "bytes": 612, "sha256": sha % 3},
                      {"path": "model/model.safetensors", "bytes": 90_868_376, "sha256": sha % 4}],
            "load": {"zero_copy_bytes": 0, "copied_bytes": 90_867_712},
        },
        "device": {
            "requested": "cpu", "platform": "cpu", "platform_version": None, "kind": hostile("synthetic-cpu"), "id": 0,
            "plugin": {"path": "/synthetic/plugin.so", "sha256": sha % 5, "api_version": "0.115", "extensions": ["FFI", hostile("Layouts")]},
            "devices": [{"id": 0, "kind": "synthetic-cpu", "process_index": 0, "local": True}], "process_count": 1,
        },
        "host": {
            "cpu": {"model": hostile("Synthetic CPU"), "architecture": "x86_64", "sockets": 1, "cores": 2, "threads": 2,
                    "isa": ["avx2", "avx512_bf16"], "governor": None,
                    "caches": [{"level": 1, "type": "Data", "size_bytes": 32768, "instances": 2},
                               {"level": 3, "type": "Unified", "size_bytes": 33554432, "instances": 1}]},
            "memory": {"total_bytes": 16_000_000_000, "numa_nodes": 1}, "kernel": {"release": "0.0.0-synthetic"},
            "load": [0.1, 0.25, 0.5], "clock": {"overhead": q(22.2, "ns", "M", "synthetic")},
            "warnings": ["governor is not known: the clock may change", hostile("2 threads share the machine")],
        },
        "chips": {
            chip: {"bandwidth": q(bw, "B/s", "M" if chip == "local" else "S", "synthetic"),
                   "peaks": {t: q(r, "OP/s" if t == "int8" else "FLOP/s", "M" if chip == "local" else "S", "synthetic") if r
                             else null("OP/s", "S", f"no {t} rate is published for {chip}") for t, r in peaks.items()}}
            for chip, (bw, peaks) in CHIPS.items()
        },
        "modules": policies[0]["modules"],
        "policies": policies,
        "decision": {
            "require": "cosine_min>=0.999 and top1>=0.99", "met_by": [p["policy"] for p in policies if p["meets"]], "chosen": "w8a16",
            "reason": "w8a16 stores the fewest bytes of the policies that meet the requirement: 22.8 MB, against 90.9 MB in f32",
            "advice": ["w8a8: keep the attention projections in bf16, they hold the worst channels",
                       hostile("w4a16: try groups of 16")],
        },
        "decision_report": [
            {"part": part, "items": [
                {"item": hostile("what it needs"), "says": hostile("what is known of " + part), "find_out": None},
                {"item": "latency target", "says": None, "find_out": hostile("assay qualify model --require 'p50_ms<=20'")},
            ]} for part in ("Workload", "Hardware", "Precision policy", "Evidence", "Interpretation", "Scope")
        ],
        "wall_s": q(96.4, "s", "M", "whole command"),
    },
}
json.dump(document, sys.stdout, indent=1, ensure_ascii=True)
print()

# SPDX-License-Identifier: Apache-2.0
"""Layers of FLUX.2 klein as loops over stacked weights against the same written out: docs/image.md."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

from pairs import interleave, interval

WORKLOAD = "builtin:flux2-klein-4b"
FORMS = ("loop", "written")


def run(assay, *arguments):
    with tempfile.TemporaryDirectory() as folder:  # a bench leaves a record
        done = subprocess.run([assay, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    if done.returncode:
        sys.exit("%s: exit %d\n%s" % (" ".join(arguments), done.returncode, done.stderr.decode(errors="replace")))
    return json.loads(done.stdout)["result"]


def tpu(assay, policy):
    for form in FORMS:
        cases = run(assay, "compile", WORKLOAD, "--target", "v6e", "--program", "text", "--program", "dit", "--policy",
                    policy or "bf16", "--layers", form, "--jobs", "1")["cases"]  # fmt: skip
        for case in cases:
            value = lambda part, name: case[part][name]["value"] or 0
            print("%-4s %-8s %2d of its layers in loops   compile %6.1f s of processor time   code %5.1f MB   temporaries %6.1f MB   floor %8.0f us"
                  % (case["part"]["name"], form, case["loops"]["layers"], value("time", "compile_cpu"), value("memory", "code") / 1e6, value("memory", "temporaries") / 1e6, value("floor", "time")),
                  flush=True)  # fmt: skip


def cpu(assay, pairs):
    seen = {form: [] for form in FORMS}

    def once(form):
        modules = run(assay, "bench", WORKLOAD, "--weights", "random:1", "--stages", "text,dit", "--height", "256", "--width", "256",
                      "--steps", "1", "--samples", "2", "--warmup", "0", "--layers", form)["modules"]  # fmt: skip
        seen[form].append({m["module"]: m for m in modules})
        return seen[form][-1]

    interleave(lambda: once("loop"), lambda: once("written"), int(pairs or 3))
    for name in ("text encoder", "transformer step"):
        times = {form: [s[name]["time"]["p50"]["value"] for s in seen[form]] for form in FORMS}
        for form in FORMS:
            value = lambda key: statistics.median(s[name][key]["value"] for s in seen[form])
            print("%-16s %-8s compile %7.0f ms   load %7.0f ms   run %7.0f ms"
                  % (name, form, value("compile"), value("load"), statistics.median(times[form])))  # fmt: skip
        ratios = [x / y for x, y in zip(times["loop"], times["written"])]
        print("  a loop's run takes %.2f of the other's (%.2f to %.2f)" % (statistics.median(ratios), *interval(ratios)))


(tpu if sys.argv[2] == "tpu" else cpu)(os.path.abspath(sys.argv[1]), sys.argv[3])

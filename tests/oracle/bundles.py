# SPDX-License-Identifier: Apache-2.0
"""What libtpu's final code of one matrix product has in it, counted here line by line and not by the program.

    make && make tpu && python3 tests/oracle/bundles.py build/assay [DUMPS]      writes tests/fixtures/ir/bundles.json

"made_with": the compiler. "products": chip, type of the operands, m = k = n, "bundles" of the body that has the matrix
instructions, "iterations" of its loop, and how often each matrix mnemonic (without the unit's number) occurs in it. The
iterations are read off the loop's own exit test, which counts two more: the loop is a pipeline that fetches one
iteration ahead and stores one behind. DUMPS keeps the dumps, and those that are there are taken as they are.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/bundles.json")
PRODUCTS = [("v6e", "bf16", 2048), ("v6e", "f32", 2048), ("v6e", "int8", 2048), ("v6e", "f8e5m2", 4096),
            ("tpu7x", "bf16", 2048), ("tpu7x", "int8", 2048), ("tpu7x", "f8e4m3fn", 2048), ("tpu7x", "f8e5m2", 4096),
            ("v5e", "bf16", 2048), ("v5e", "f32", 2048), ("v5e", "int8", 2048), ("v5e", "f8e4m3fn", 2048),
            ("v5e", "f8e5m2", 4096), ("v5p", "bf16", 2048), ("v5p", "int8", 2048), ("v5p", "f8e5m2", 2048)]
BUNDLE = re.compile(r" *(0x)?[0-9a-f]+ +(LB|LH|LE|PB|PF|CT)?[ >]*: +[> ]*\{| *(0x)?[0-9a-f]+ +(LB|LH|LE|PB|PF|CT): +[> ]*\{")


def dump(assay, chip, kind, size, folder):
    path = os.path.join(folder, f"{chip}-{kind}-{size}")
    if not os.path.isdir(path):
        subprocess.run([assay, "compile", f"gemm:{size}x{size}x{size}:{kind}", "--target", chip, "--precision", "default",
                        "--timeout", "1800", "--dump", path], check=True, stdout=subprocess.DEVNULL)
    return path


def body(path):
    best = None
    for name in glob.glob(os.path.join(path, "0/llo/*-final_bundles.txt")):
        if "schedule-analysis" in name:
            continue
        lines = open(name, encoding="utf-8", errors="replace").read().splitlines()
        counts, bundles, trips = collections.Counter(), 0, 1
        for line in lines:
            bundles += bool(BUNDLE.match(line))
            for op in re.findall(r"= (vmat(?:mul|push)[a-z0-9.]*)", re.sub(r"/\*.*?\*/", "", line)):
                counts[re.sub(r"\.mxu\d", "", op)] += 1
            test = re.search(r"scmp\.ge\.s32\.totalorder %\w+, (\d+) /\* loop exit test \*/", line)
            trips = int(test.group(1)) - 2 if test else trips
        if best is None or sum(counts.values()) > sum(best["instructions"].values()):
            best = {"bundles": bundles, "iterations": trips, "instructions": dict(sorted(counts.items()))}
    return best


def main():
    assay = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else scratch
        products = []
        for chip, kind, size in PRODUCTS:
            products.append({"chip": chip, "type": kind, "size": size, **body(dump(assay, chip, kind, size, folder))})
    with open(OUT, "w", encoding="utf-8") as f:
        f.write(json.dumps({"made_with": "libtpu 0.0.52", "products": products}, indent=1) + "\n")


main()

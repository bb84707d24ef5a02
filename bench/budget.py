# SPDX-License-Identifier: Apache-2.0
"""Interleaved pairs of `assay budget` and of transformers' model without memory, and `assay price`: budget.py PROGRAM

Ours is the whole command: a process that reads config.json and prints eight layouts of a slice. Theirs runs inside this
process, imports done: it builds the model on the device "meta" and counts its parameters, which is where memory estimators
begin. Both must say 70,553,706,496. `price` makes and counts every operation of a prompt and of a token, on its own.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

from pairs import interleave, interval

PAIRS = 21
CONFIG = {"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "num_hidden_layers": 80,
          "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "dtype": "bfloat16",
          "max_position_embeddings": 131072}  # fmt: skip
PARAMETERS = 70553706496


def price(program, folder):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter_ns()
    text = subprocess.run([program, "--json", "price", folder, "--chip", "v6e:4x8"], check=True, stdout=subprocess.PIPE).stdout
    ns, after = time.perf_counter_ns() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(text)["result"]["weight_bytes"]["value"] == 2 * PARAMETERS
    return ns, 1e9 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(CONFIG, f)
        command = [program, "--json", "budget", folder, "--chip", "v6e:4x8"]

        def run_ours():
            begin = time.perf_counter_ns()
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            ns = time.perf_counter_ns() - begin
            assert json.loads(text)["result"]["model"]["parameters"]["value"] == PARAMETERS
            return ns

        def run_theirs():
            begin = time.perf_counter_ns()
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config)
            count = sum(p.numel() for p in model.parameters())
            ns = time.perf_counter_ns() - begin
            assert count == PARAMETERS
            return ns

        for run in (run_ours, run_theirs):
            run()
        a, b = interleave(run_ours, run_theirs, PAIRS)
        low, high = interval([y / x for x, y in zip(a, b)])
        print("70B configuration: assay budget %.1f ms, transformers %s on meta %.0f ms; %.0f times as fast "
              "[%.0f, %.0f], %d pairs" % (statistics.median(a) / 1e6, transformers.__version__,
                                          statistics.median(b) / 1e6,
                                          statistics.median([y / x for x, y in zip(a, b)]), low, high, PAIRS))  # fmt: skip
        priced = [price(program, folder) for _ in range(PAIRS + 1)][1:]
        wall, cpu = ([x[i] / 1e6 for x in priced] for i in (0, 1))
        print("70B configuration: assay price %.1f ms [%.1f, %.1f] from start to end, %.1f ms of processor time [%.1f, %.1f], "
              "%d runs" % (statistics.median(wall), *interval(wall), statistics.median(cpu), *interval(cpu), PAIRS))  # fmt: skip


main()

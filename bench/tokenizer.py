# SPDX-License-Identifier: Apache-2.0
"""Interleaved pairs of our tokenizer and the fast tokenizer of transformers: tokenizer.py PROGRAM VOCAB TEXTS MODEL"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
import tokenizers
import transformers

from pairs import interleave, interval

PAIRS, REPEAT, SEQ = 21, 10, 128


def main():
    program, vocab, path, model = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        texts = f.read().splitlines() * REPEAT
    tokenizer = transformers.BertTokenizer.from_pretrained(model, local_files_only=True)
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(SEQ)
    backend.enable_padding(length=SEQ)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n") as f:
        f.write("".join(t + "\n" for t in texts))
        f.flush()
        ours = subprocess.Popen([program, vocab, f.name, str(SEQ)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def run_ours():
            ours.stdin.write("\n")
            ours.stdin.flush()
            ns, tokens = map(int, ours.stdout.readline().split())
            return ns, tokens

        def run_backend():
            begin = time.perf_counter_ns()
            encodings = backend.encode_batch_fast(texts)
            ns = time.perf_counter_ns() - begin
            return ns, sum(sum(e.attention_mask) for e in encodings)

        def run_call():
            begin = time.perf_counter_ns()
            out = tokenizer(texts, padding="max_length", truncation=True, max_length=SEQ, return_tensors="np")
            ns = time.perf_counter_ns() - begin
            return ns, int(out["attention_mask"].sum())

        print("%d texts, %d tokens each at most, one thread; transformers %s, tokenizers %s"
              % (len(texts), SEQ, transformers.__version__, tokenizers.__version__))  # fmt: skip
        for name, theirs in (("tokenizers encode_batch_fast", run_backend), ("transformers call to numpy", run_call)):
            counts = {run()[1] for run in (run_ours, theirs) for _ in range(2)}  # warm, and the work is the same
            assert len(counts) == 1, counts
            tokens = counts.pop()
            a, b = interleave(lambda: run_ours()[0], lambda: theirs()[0], PAIRS)
            ratios = [y / x for x, y in zip(a, b)]
            low, high = interval(ratios)
            print("%-29s %6.2f M tokens/s, ours %6.2f; ours is %.1f times as fast [%.1f, %.1f], %d pairs"
                  % (name, tokens / statistics.median(b) * 1e3, tokens / statistics.median(a) * 1e3,
                     statistics.median(ratios), low, high, PAIRS))  # fmt: skip
        ours.stdin.close()
        return ours.wait()


sys.exit(main())

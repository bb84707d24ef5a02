# SPDX-License-Identifier: Apache-2.0
"""Interleaved pairs of our tokenizers and the fast ones of transformers: tokenizer.py PROGRAM VOCAB TEXTS MODEL

VOCAB is the vocab.txt of a WordPiece model or the tokenizer.json of a byte-level BPE one."""
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


class Ours:
    def __init__(self, program, vocab, texts):
        self.process = subprocess.Popen([program, vocab, texts, str(SEQ)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return tuple(map(int, self.process.stdout.readline().split()))


def timed(work, count):
    begin = time.perf_counter_ns()
    out = work()
    return time.perf_counter_ns() - begin, count(out)


def rivals(vocab, model, texts):
    """(name, a run of it as (nanoseconds, tokens))"""
    count = lambda encodings: sum(sum(e.attention_mask) for e in encodings)
    if vocab.endswith(".json"):
        backend = tokenizers.Tokenizer.from_file(vocab)
        backend.enable_truncation(SEQ)
        yield "tokenizers encode_batch_fast", lambda: timed(lambda: backend.encode_batch_fast(texts), count)
        yield "the same, text by text", lambda: timed(lambda: [backend.encode(t) for t in texts], count)
        return
    tokenizer = transformers.BertTokenizer.from_pretrained(model, local_files_only=True)
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(SEQ)
    backend.enable_padding(length=SEQ)
    call = lambda: tokenizer(texts, padding="max_length", truncation=True, max_length=SEQ, return_tensors="np")
    yield "tokenizers encode_batch_fast", lambda: timed(lambda: backend.encode_batch_fast(texts), count)
    yield "transformers call to numpy", lambda: timed(call, lambda out: int(out["attention_mask"].sum()))


def say(name, a, b, of):
    ratios = [y / x for x, y in zip(a, b)]
    low, high = interval(ratios)
    print("%-29s %s; ours is %.1f times as fast [%.1f, %.1f], %d pairs" % (name, of(statistics.median(b), statistics.median(a)), statistics.median(ratios), low, high, len(a)))


def main():
    program, vocab, path, model = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        texts = f.read().splitlines() * REPEAT
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n") as f:
        f.write("".join(t + "\n" for t in texts))
        f.flush()
        ours = Ours(program, vocab, f.name)
        print("%s: %d texts, %d tokens each at most, one thread; transformers %s, tokenizers %s"
              % (os.path.basename(vocab), len(texts), SEQ, transformers.__version__, tokenizers.__version__))  # fmt: skip
        for name, theirs in rivals(vocab, model, texts):
            counts = {run()[1] for run in (ours.ask, theirs) for _ in range(2)}  # warm, and the work is the same
            assert len(counts) == 1, counts
            tokens = counts.pop()
            a, b = interleave(lambda: ours.ask()[0], lambda: theirs()[0], PAIRS)
            say(name, a, b, lambda t, u: "%6.2f M tokens/s, ours %6.2f" % (tokens / t * 1e3, tokens / u * 1e3))
        if vocab.endswith(".json"):
            a, b = interleave(lambda: ours.ask("open")[0], lambda: timed(lambda: tokenizers.Tokenizer.from_file(vocab), id)[0], 7)
            say("reading the vocabulary", a, b, lambda t, u: "%6.0f ms, ours %6.0f" % (t / 1e6, u / 1e6))
        ours.process.stdin.close()
        return ours.process.wait()


sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""One peer, kept alive: minilm_peer.py KIND MODEL TEXTS CACHE. A line N on stdin makes it run N times and answer with the
seconds of each and its peak memory; the first answer is the embeddings, for comparison."""
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="2")
import numpy as np
import torch
import transformers

BATCH, SEQ, THREADS = 32, 128, 2


class Embedder(torch.nn.Module):
    """What sentence-transformers does for this model: mean of the token vectors, normalised."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, ids, mask):
        x = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        m = mask.unsqueeze(-1).to(x.dtype)
        x = (x * m).sum(1) / m.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(x.float(), dim=1)


def batch(model, path):
    with open(path, encoding="utf-8") as f:
        texts = [line for line in f.read().splitlines() if line.strip()][:BATCH]
    tokenizer = transformers.BertTokenizer.from_pretrained(model, local_files_only=True)
    out = tokenizer(texts, padding="max_length", truncation=True, max_length=SEQ, return_tensors="pt")
    return out["input_ids"], out["attention_mask"]


def load(model, attention):
    return Embedder(transformers.BertModel.from_pretrained(model, attn_implementation=attention, local_files_only=True,
                                                           dtype=torch.float32)).eval()  # fmt: skip


def best_of(candidates, ids, mask):
    """The fastest of several ways to run the same thing."""
    timed = []
    for name, run in candidates:
        run(ids, mask)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            run(ids, mask)
            times.append(time.perf_counter() - begin)
        timed.append((min(times), name, run))
    return min(timed, key=lambda t: t[0])[1:]


def torch_runner(kind, model, ids, mask):
    ways = []
    for attention in ("sdpa", "eager"):
        m = load(model, attention)
        if kind == "torch-bf16":
            m = m.bfloat16()
        elif kind == "torch-int8":
            m = torch.ao.quantization.quantize_dynamic(m, {torch.nn.Linear}, dtype=torch.qint8)
        ways.append((attention, m))
    name, m = best_of(ways, ids, mask)
    return name, lambda: m(ids, mask).numpy()


def onnx_runner(kind, model, ids, mask, cache):
    import onnx
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model

    names = ("", "-fused", "-int8", "-fused-int8")
    plain, fused, small, fused_small = (os.path.join(cache, "minilm%s.onnx" % s) for s in names)
    if not os.path.exists(plain):
        torch.onnx.export(load(model, "eager"), (ids, mask), plain, input_names=["ids", "mask"], output_names=["y"],
                          opset_version=17, dynamo=False)  # fmt: skip
    if not os.path.exists(fused):
        optimize_model(plain, model_type="bert", num_heads=12, hidden_size=384, opt_level=1).save_model_to_file(fused)
    for path, to in ((plain, small), (fused, fused_small)):
        if kind == "onnx-int8" and not os.path.exists(to):
            quantize_dynamic(path, to, weight_type=QuantType.QInt8, per_channel=True,
                             extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    paths = [small, fused_small] if kind == "onnx-int8" else [plain, fused]
    feed = {"ids": ids.numpy(), "mask": mask.numpy()}
    ways = []
    for path in paths:
        s = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        ways.append((os.path.basename(path), lambda _ids, _mask, s=s: s.run(None, feed)[0]))
    name, run = best_of(ways, ids, mask)
    return name, lambda: run(ids, mask)


def main():
    kind, model, texts, cache = sys.argv[1:]
    torch.set_num_threads(THREADS)
    ids, mask = batch(model, texts)
    with torch.inference_mode():
        name, run = torch_runner(kind, model, ids, mask) if kind.startswith("torch") else onnx_runner(kind, model, ids, mask, cache)
        for _ in range(3):
            y = run()
        np.save(os.path.join(cache, "minilm-%s.npy" % kind), y)
        print(name, flush=True)
        for line in sys.stdin:
            times = []
            for _ in range(int(line)):
                begin = time.perf_counter()
                run()
                times.append(time.perf_counter() - begin)
            with open("/proc/self/status", encoding="ascii") as f:
                peak = next(int(row.split()[1]) * 1024 for row in f if row.startswith("VmHWM:"))
            print(*times, peak, flush=True)


main()

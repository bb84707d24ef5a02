# SPDX-License-Identifier: Apache-2.0
"""The library safetensors, kept alive: for each line "cached PATH" or "cold PATH" it maps the file, then copies every
tensor, and prints the seconds of the first, of both, and its peak memory."""
import os
import sys
import time

os.environ.update(OMP_NUM_THREADS="2")
import safetensors.torch
import torch

from pairs import peak_bytes


def main():
    torch.set_num_threads(2)
    for line in sys.stdin:
        word, path = line.split(maxsplit=1)
        path = path.strip()
        if word == "cold":
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        begin = time.perf_counter()
        tensors = safetensors.torch.load_file(path)
        mapped = time.perf_counter()
        copies = [t.clone() for t in tensors.values()]
        end = time.perf_counter()
        print(mapped - begin, end - begin, peak_bytes("self"), flush=True)
        del tensors, copies


main()

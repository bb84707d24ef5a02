# SPDX-License-Identifier: Apache-2.0
"""lock.py REPORT: prints pip's installation report as pinned requirements, one hash each, without what only CUDA needs."""

import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    python = report["environment"]["python_version"]
    print("# SPDX-License-Identifier: Apache-2.0")
    print(f"# Made by `tests/oracle/venv lock` for CPython {python} on Linux x86-64; do not edit.")
    print("# The CUDA packages that torch names are left out; cuda_stubs.py stands in for them.")
    lines = []
    for item in report["install"]:
        name = item["metadata"]["name"].lower().replace("_", "-")
        if name.startswith(("nvidia-", "cuda-")) or name == "triton":
            continue
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={item['metadata']['version']} --hash=sha256:{digest}")
    print("\n".join(sorted(lines)))


if __name__ == "__main__":
    main()

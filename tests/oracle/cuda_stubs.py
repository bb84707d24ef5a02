# SPDX-License-Identifier: Apache-2.0
"""Makes the torch wheel of this interpreter importable without the CUDA packages it names.

The wheel for Linux is linked against CUDA libraries of several gigabytes that a CPU oracle never calls. This writes,
beside torch's own libraries, one small shared object per missing library; every function in it returns 100, which is
cudaErrorNoDevice, so torch finds no GPU and computes on the CPU. It needs gcc and readelf, and it replaces nothing.
"""

import collections
import pathlib
import re
import subprocess
import sysconfig
import tempfile

NO_DEVICE = 100

# What torch calls even when it found no device, and cannot bear 100 from.
SPECIAL = {
    "cudaStreamIsCapturing": "int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }\n",
    "cudaGetErrorString": 'const char *cudaGetErrorString(int code) { return "no CUDA device (stub)"; }\n',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int code) { return "cudaErrorNoDevice"; }\n',
}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def is_cuda(name):
    return re.match(r"lib(cu|nv|nccl)", name) is not None


def main():
    folder = pathlib.Path(sysconfig.get_paths()["purelib"]) / "torch" / "lib"
    present = sorted(folder.glob("*.so*"))
    own = {path.name for path in present}
    needed, defined, undefined = set(), set(), {}
    versions = collections.defaultdict(set)  # library -> versions asked of it
    for path in present:
        needed |= set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", path)))
        library = None
        for line in readelf("-V", path).splitlines():
            if found := re.search(r"Version: 1 +File: (\S+)", line):
                library = found.group(1)
            elif library and (found := re.search(r"Name: (\S+) +Flags:", line)):
                versions[library].add(found.group(1))
        for line in readelf("--dyn-syms", path).splitlines():
            fields = line.split()
            if len(fields) < 8 or not fields[0].endswith(":") or fields[4] not in ("GLOBAL", "WEAK"):
                continue
            name, _, version = fields[7].partition("@")
            if fields[6] != "UND":
                defined.add(name)
            elif fields[4] == "GLOBAL":
                undefined[name] = version.lstrip("@")
    missing = sorted(name for name in needed - own if is_cuda(name))
    if not missing:
        print("cuda_stubs: nothing is missing")
        return
    owner = {version: library for library in versions for version in versions[library]}
    symbols = collections.defaultdict(list)  # library -> (symbol, version)
    for name, version in sorted(undefined.items()):
        if name in defined or name.startswith("_Z"):
            continue
        library = owner.get(version, missing[0] if not version else None)
        if library in missing:
            symbols[library].append((name, version))
    with tempfile.TemporaryDirectory() as scratch:
        for library in missing:
            source = pathlib.Path(scratch) / "stub.c"
            script = pathlib.Path(scratch) / "stub.map"
            source.write_text("".join(
                SPECIAL.get(name, f"int {name}(void) {{ return {NO_DEVICE}; }}\n") for name, _ in symbols[library]))
            by_version = collections.defaultdict(list)
            for name, version in symbols[library]:
                by_version[version].append(name)
            for version in versions[library]:
                by_version.setdefault(version, [])
            named = [v for v in by_version if v]
            script.write_text("".join(
                f"{version} {{ global: {''.join(name + '; ' for name in by_version[version])}}};\n" for version in named))
            command = ["gcc", "-w", "-O1", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{library}",
                       "-o", folder / library, source]
            if named:
                command.append(f"-Wl,--version-script={script}")
            subprocess.run(command, check=True)
            print(f"cuda_stubs: {library}: {len(symbols[library])} functions")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What XProf says of the recorded profiles: xprof_ops.py FOLDER. FOLDER holds XProf's own JSON of its tool hlo_stats, one
file for each profile (NAME.hlo_stats.json, XProf 2.24: `xprof` serves it as /data/plugin/profile/data?tag=hlo_stats).
Writes tests/fixtures/traces/xprof_ops.tsv: profile, program, operation, occurrences, self and total time in microseconds."""
import json
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRACES = os.path.join(TOP, "tests", "fixtures", "traces")
COLUMNS = ("program_id", "hlo_op_name", "category", "occurrences", "total_self_time", "total_time")


def rows(path):
    with open(path, encoding="utf-8") as f:
        table = json.load(f)
    at = {c["id"]: i for i, c in enumerate(table["cols"])}
    for row in table["rows"]:
        yield [row["c"][at[c]]["v"] for c in COLUMNS]


def main():
    out = ["# XProf 2.24, hlo_stats: profile, program, operation, category, occurrences, self us, total us"]
    for name in sorted(f.split(".")[0] for f in os.listdir(TRACES) if ".xplane.pb" in f):
        for program, op, category, occurrences, own, total in rows(os.path.join(sys.argv[1], name + ".hlo_stats.json")):
            if op != "IDLE":
                out.append("%s\t%s\t%s\t%s\t%d\t%r\t%r" % (name, program, op, category, occurrences, own, total))
    with open(os.path.join(TRACES, "xprof_ops.tsv"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


main()

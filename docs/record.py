#!/usr/bin/env python3
"""Run the commands whose numbers README.md shows, and record the output in docs/numbers (see docs/numbers/README.md).

    python3 docs/record.py                     list the recordings
    python3 docs/record.py NAME... [--program target/release/conifer]

All other files of a recording go to a temporary folder.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import render

ROOT = render.DOCS.parent


def quickstart(run):
    """conifer quickstart"""
    started = time.monotonic()
    records, peak = run("--json", "quickstart", "--out", "runs/quickstart")
    seconds = time.monotonic() - started
    records = json.loads(records)
    rows = [["benchmark", "split", "metric", "trained", "95 %", "before", "trivial"]]
    for after, before in zip(records["trained"], records["untrained"]):
        interval, trivial = after.get("interval"), after.get("baseline")
        rows.append([
            after["benchmark"], after["split"], after["metric"], f"{after['value']:.3f}",
            f"{interval[0]:.3f} .. {interval[1]:.3f}" if interval else "",
            f"{before['value']:.3f}",
            f"{trivial['value']:.3f} {trivial['name']}" if trivial else "",
        ])
    return table(rows), {"seconds": f"{seconds:.0f}", "peak_mib": f"{peak:.0f}", "rows": len(rows) - 1}


def compare(run):
    """conifer train configs/toy_clip.toml; conifer train configs/toy_phyclip.toml;
    conifer eval of both on 200 test scenes; conifer eval compare"""
    for name in ("clip", "phyclip"):
        run("train", str(ROOT / f"configs/toy_{name}.toml"), "--out", f"runs/toy_{name}")
        run("eval", "run", f"runs/toy_{name}", "--data", "toy", "--split", "test", "--data-option", "size=200",
            "--benchmark", "cross_modal_retrieval", "--out", f"{name}.jsonl", "--no-cache")
    compared, _ = run("eval", "compare", "clip.jsonl", "phyclip.jsonl")
    # The first paragraph names the two models; the table follows it.
    return compared.split("\n\n", 1)[1], {}


RECORDINGS = {"quickstart": quickstart, "compare": compare}


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def runner(program, folder):
    """Return a function that runs the program in the folder and returns its stdout and peak memory in MiB."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}

    def run(*args):
        print("$ conifer", *args, flush=True)
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen([program, *args], cwd=folder, stdout=out, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise SystemExit(f"conifer {' '.join(args)}: exit code {process.returncode}; nothing was recorded")
            out.seek(0)
            return out.read(), usage.ru_maxrss / 1024

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *RECORDINGS], metavar="NAME")
    parser.add_argument("--program", default=ROOT / "target/release/conifer", type=Path)
    args = parser.parse_args()
    if not args.names:
        print("\n".join(f"{name}: {' '.join((it.__doc__ or '').split())}" for name, it in RECORDINGS.items()))
        return
    program = str(args.program.resolve(strict=True))
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    for name in args.names:
        with tempfile.TemporaryDirectory() as folder:
            output, values = RECORDINGS[name](runner(program, folder))
        head = {
            "commands": " ".join((RECORDINGS[name].__doc__ or "").split()),
            "date": datetime.date.today().isoformat(),
            "program": version,
            "machine": f"{platform.system()} {platform.machine()}, {len(os.sched_getaffinity(0))} cores",
            **values,
        }
        lines = "".join(f"# {key}: {value}\n" for key, value in head.items())
        (render.DOCS / "numbers" / f"{name}.txt").write_text(lines + output)
        print(f"recorded docs/numbers/{name}.txt")
    render.main()


if __name__ == "__main__":
    main()

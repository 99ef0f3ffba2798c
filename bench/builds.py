#!/usr/bin/env python3
"""Compares two builds of conifer-bench, such as those before and after a change, in interleaved rounds.

    python3 bench/builds.py OLD NEW                         cases of bench/run.py that need no shards, and search
    python3 bench/builds.py OLD NEW head_phyclip search_plain15/distance/1/flat

OLD and NEW are paths of the program conifer-bench. Each case starts new processes; both builds measure in turns. The
table shows the medians over rounds, their ratio and the range of the ratio over the rounds. A case that a build does
not know ends the script. Raw rounds are stored in `bench/results/` (or `--out FILE`).
"""

import argparse
import json
import os

import harness
import run
import search
from harness import Side, median

NEEDED = ("step_hycoclip", "loader_large", "loader_large_scaled")


def default_cases():
    """Pairs of a case and its steps per round."""
    fast = [(case, steps) for case, (_, steps) in run.CASES.items() if case not in NEEDED and not case.startswith("eval_")]
    jobs = [job for group in ("flat", "cells_tree5") for job in search.jobs(group)]
    return fast + [(f"search_{case}", steps) for side, case, steps in jobs if side == "ours"]


def process_groups(cases):
    """Cases that share processes: those of one set of points of search, since making it takes longer than the search."""
    groups = {}
    for case, steps in cases:
        key = case.split("/")[0] if case.startswith("search_") else case
        groups.setdefault(key, []).append((case, steps))
    return groups.values()


def measure(programs, cases, rounds, keep):
    threads = os.cpu_count()
    for group in process_groups(cases):
        sides = {name: Side([path], threads) for name, path in programs.items()}
        for number in range(1, rounds + 1):
            # The build that measures first changes from round to round.
            order = list(sides) if number % 2 else list(reversed(sides))
            for case, steps in group:
                for name in order:
                    one = sides[name].measure(case, steps)
                    keep({"kind": "round", "build": name, "case": case, "round": number, **one})
        for side in sides.values():
            side.close()


def table(records):
    rows = ["| case | old, ms | new, ms | new / old | range over rounds | old, extra MB | new, extra MB |", "|---|---|---|---|---|---|---|"]
    for case in dict.fromkeys(it["case"] for it in records):
        ms, memory = {}, {}
        for build in ("old", "new"):
            rounds = [it for it in records if it["case"] == case and it["build"] == build]
            ms[build] = [median(it["ms"]) for it in sorted(rounds, key=lambda it: it["round"])]
            memory[build] = max(it["extra_mb"] for it in rounds)
        ratios = [new / old for old, new in zip(ms["old"], ms["new"])]
        old, new = median(ms["old"]), median(ms["new"])
        rows.append(f"| `{case}` | {old:.1f} | {new:.1f} | {new / old:.2f} | {min(ratios):.2f} to {max(ratios):.2f} | {memory['old']:.0f} | {memory['new']:.0f} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="file for the raw rounds (default: bench/results/DATE-CPU-builds.jsonl)")
    args = parser.parse_args()
    known = dict(default_cases())
    cases = [(case, known.get(case, 1)) for case in args.cases] or list(known.items())
    records = []
    with harness.results("builds", args.out) as out:

        def keep(record):
            records.append(record)
            out.write(json.dumps(record) + "\n")

        out.write(json.dumps({"kind": "machine", "cpu": harness.cpu_generation(), "cores": os.cpu_count()}) + "\n")
        measure({"old": args.old, "new": args.new}, cases, args.rounds, keep)
    print(table(records))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares search with other libraries in interleaved rounds. Raw rounds are stored, and tables are printed as
Markdown.

    python3 bench/search.py flat                      one million rows: rankings, batches, half precision, faiss, bandwidth
    python3 bench/search.py product                   a product of 64 factors, PyTorch
    python3 bench/search.py cells_tree5 ...           the cell index against a scan of all rows, on one set of points
    python3 bench/search.py graph_tree5 graph_plain06 the cell index against usearch, 20,000 rows
    python3 bench/search.py --table --into docs/search.md   writes the tables of all stored groups into that file

A group is stored in `bench/results/search-GROUP.jsonl`; a new measurement replaces it. `BENCH_SEARCH_PYTHON` names a
Python with numpy, faiss-cpu, torch, usearch and numba; without it a virtual environment is created next to this file.
`BENCH_SEARCH_SET` names the folder of embeddings for `cells_set`. If a package of a peer is absent, its rows are left
out with a message.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import harness
from harness import HERE, Side, median

VENV = HERE / ".venv-search"
PACKAGES = ["numpy", "faiss-cpu", "torch", "usearch", "numba"]
RESULTS = HERE / "results"
DATA = {
    "tree5": "a tree, radius 5, 1,000,000 x 512",
    "tree06": "the same tree, radius 0.6",
    "plain06": "no order at all, radius 0.6, 1,000,000 x 512",
    "set": "embeddings of a model",
}
ANGLES = {"distance": "distance", "down": "angle, rows below", "up": "angle, rows above", "gated": "gated angle", "depth": "general first"}


def jobs(group):
    """The jobs of a group: (side, case, steps per round)."""
    if group == "flat":
        ours = [("ours", f"plain15/{ranking}/256/flat", 1) for ranking in ANGLES]
        ones = [("ours", f"plain15/{ranking}/1/flat", 9) for ranking in ("distance", "down", "gated", "depth")]
        halves = [("ours", "plain15/distance/1/half", 9), ("ours", "plain15/distance/256/half", 1)]
        return ours + ones + halves + [("ours", "plain15/bandwidth", 9), ("peer", "faiss/256", 1), ("peer", "faiss/1", 5)]
    if group == "product":
        return [("ours", "product/distance/1/flat", 5), ("ours", "product/distance/64/flat", 1), ("peer", "torch_product/1", 2), ("peer", "torch_product_best/1", 3)]
    kind, _, data = group.partition("_")
    if kind == "cells" and data in DATA:
        rankings = ("distance", "down", "up")
        return [("ours", f"{data}/{ranking}/{batch}/{index}", (1 if index == "flat" else 3) if batch > 1 else 24 if index != "flat" else 5)
                for ranking in rankings for batch in (256, 1) for index in ("flat", "exact", "approximate")]
    if kind == "graph" and data in DATA:
        ours = [("ours", f"{data}@20000/distance/256/{index}", 5) for index in ("flat", "exact", "approximate")]
        return ours + [("peer", f"usearch/{expansion}", 3) for expansion in (64, 512)]
    sys.exit(f"unknown group `{group}`: flat, product, cells_DATA or graph_DATA; DATA is one of {', '.join(DATA)}")


def python():
    return harness.python("BENCH_SEARCH_PYTHON", VENV, PACKAGES)


def measure(group, rounds, program):
    threads = os.cpu_count()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_SEARCH_OUT")) as folder:
        ours = Side([program], threads, BENCH_SEARCH_OUT=folder)
        if group.startswith("graph_"):
            ours.measure(f"search_{group.removeprefix('graph_')}@20000/write", 1)
        sides = {"ours": ours}
        found = [{"kind": "group", "group": group, "cpu": harness.cpu_generation(), "cores": threads, "date": harness.datetime.date.today().isoformat(), "commit": commit()}]
        todo = jobs(group)
        if any(side == "peer" for side, *_ in todo):
            sides["peer"] = Side([python(), str(HERE / "search_peers.py")], threads, BENCH_SEARCH_OUT=folder)
        absent = False
        for number in range(1, rounds + 1):
            for side, case, steps in todo:
                if absent and side == "peer":
                    continue
                try:
                    one = sides[side].measure(f"search_{case}" if side == "ours" else case, steps)
                except (harness.Ended, BrokenPipeError) as error:
                    if side == "ours":
                        raise
                    print(f"{case}: left out, {error}", file=sys.stderr)
                    absent = True
                    continue
                found.append({"kind": "round", "side": side, "case": case, "round": number, **{k: one[k] for k in ("ms", "check", "foreign")}})
                print(f"round {number} {case}: {median(one['ms']):.2f} ms", file=sys.stderr)
        for side in sides.values():
            side.close()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"search-{group}.jsonl").write_text("".join(json.dumps(it) + "\n" for it in found))


def commit():
    asked = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return asked.stdout.strip()


class Group:
    """The stored rounds of a group of cases."""

    def __init__(self, name):
        lines = [json.loads(line) for line in (RESULTS / f"search-{name}.jsonl").read_text().splitlines()]
        self.about, self.rounds = lines[0], lines[1:]

    def ms(self, case):
        """Median over rounds of the median of a round, ms; None if it was not measured."""
        times = [median(it["ms"]) for it in self.rounds if it["case"] == case]
        return median(times) if times else None

    def check(self, case):
        return next((it["check"] for it in self.rounds if it["case"] == case), None)


def verdict(ratio, aim):
    return "" if aim is None else f"{aim:g}: {'met' if ratio >= aim else '**not met**'}"


def row(work, ms, peer, peer_ms, aim):
    ratio = peer_ms / ms
    return f"| {work} | {ms:.1f} | {peer} | {peer_ms:.1f} | {ratio:.2f} | {verdict(ratio, aim)} |"


def flat_table(group):
    rows = ["| work | ms | beside | ms | ratio | aim |", "|---|---|---|---|---|---|"]
    at = lambda ranking, batch, index="flat": group.ms(f"plain15/{ranking}/{batch}/{index}")
    distance, one = at("distance", 256), at("distance", 1)
    if group.ms("faiss/256"):
        rows.append(row("distance, batch 256", distance, "faiss IndexFlatIP", group.ms("faiss/256"), 1.5))
        rows.append(row("distance, one query", one, "faiss IndexFlatIP", group.ms("faiss/1"), 1.8))
    rows.append(row("distance, one query", one, "reading the rows, two threads", group.ms("plain15/bandwidth"), 0.85))
    rows.append(row("distance, one query, f16 rows", at("distance", 1, "half"), "f32 rows", one, 2.0))
    rows.append(row("distance, batch 256, f16 rows", at("distance", 256, "half"), "f32 rows", distance, None))
    for batch, own in ((256, distance), (1, one)):
        for ranking, words in list(ANGLES.items())[1:]:
            if ms := at(ranking, batch):
                rows.append(row(f"{words}, {f'batch {batch}' if batch > 1 else 'one query'}", ms, "distance", own, 0.8))
    return "\n".join(rows)


def product_table(group):
    rows = ["| work | ms | beside | ms | ratio | aim |", "|---|---|---|---|---|---|"]
    one, many = group.ms("product/distance/1/flat"), group.ms("product/distance/64/flat") / 64
    for case, words in (("torch_product/1", "PyTorch, one expression"), ("torch_product_best/1", "PyTorch at its fastest")):
        if torch := group.ms(case):
            rows.append(row("product l1 of 64 x 8, one query", one, words, torch, 10))
            rows.append(row("the same, a query of a batch of 64", many, words, torch, 10))
    return "\n".join(rows)


def cells_table(group, data):
    rows = ["| ranking | queries | all rows, ms | exact, ms | ratio | visited | recall 0.99 wanted, ms | ratio | visited | recall | cells |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for ranking in ("distance", "down", "up"):
        for batch in (256, 1):
            flat, exact, some = (group.ms(f"{data}/{ranking}/{batch}/{index}") for index in ("flat", "exact", "approximate"))
            if flat is None:
                continue
            seen, (part, recall, cells) = (group.check(f"{data}/{ranking}/{batch}/{index}") for index in ("exact", "approximate"))
            rows.append(f"| {ANGLES[ranking]} | {batch} | {flat:.1f} | {exact:.2f} | {flat / exact:.1f} | {seen[0]:.2f} % | {some:.2f} | {flat / some:.1f} | {part:.2f} % | {recall:.4f} | {cells:.0f} of {seen[2]:.0f} |")
    return "\n".join(rows)


def graph_table(group, data):
    rows = ["| 20,000 rows, 256 queries, distance | ms | recall@10 |", "|---|---|---|"]
    for index, words in (("flat", "all rows"), ("exact", "cells, exact"), ("approximate", "cells, recall 0.99 wanted")):
        case = f"{data}@20000/distance/256/{index}"
        rows.append(f"| {words} | {group.ms(case):.1f} | {group.check(case)[1]:.4f} |")
    for expansion in (64, 512):
        if ms := group.ms(f"usearch/{expansion}"):
            rows.append(f"| usearch, compiled metric, expansion {expansion} | {ms:.1f} | {group.check(f'usearch/{expansion}')[1]:.4f} |")
    return "\n".join(rows)


def tables():
    parts = []
    for name in ["flat", "product", *(f"cells_{data}" for data in DATA), *(f"graph_{data}" for data in DATA)]:
        if not (RESULTS / f"search-{name}.jsonl").exists():
            continue
        group = Group(name)
        kind, _, data = name.partition("_")
        about = f"{group.about['date']}, {group.about['cores']} cores of {group.about['cpu']}, commit {group.about['commit']}"
        title = {"flat": "All rows, 1,000,000 x 512", "product": "Products, 1,000,000 rows", "cells": f"Cells: {DATA.get(data)}", "graph": f"A graph index: {DATA.get(data)}, of these 20,000 rows"}[kind]
        table = {"flat": flat_table, "product": product_table}.get(kind)
        table = table(group) if table else (cells_table if kind == "cells" else graph_table)(group, data)
        parts.append(f"### {title}\n\n{about}; median of {max(it['round'] for it in group.rounds)} rounds.\n\n{table}")
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print the tables of the stored groups")
    parser.add_argument("--into", metavar="FILE", help="write them between the `search` markers of this file")
    parser.add_argument("--no-build", action="store_true", help="use the existing programs in target/release")
    args = parser.parse_args()
    if args.groups:
        programs = harness.target() if args.no_build else harness.build()
        for group in args.groups:
            jobs(group)  # rejects an unknown name before anything is measured
        for group in args.groups:
            measure(group, args.rounds, programs / "conifer-bench")
    if args.table or args.into:
        print(tables())
    if args.into:
        harness.write_into(pathlib.Path(args.into), "search", tables())


if __name__ == "__main__":
    main()

"""Renders a stored run as Markdown tables: medians of rounds, ratios, aims, memory."""

import harness

# Aims of the project for the ratio PyTorch's time / ours. First with PyTorch's default settings, then with freed pages
# kept, which is PyTorch's fastest setting here.
AIMS = {
    "vit_b16_forward": (1.35, 1.25),
    "vit_s16_train": (1.3, 1.2),
    "text_forward": (1.35, None),
    "text_bucketed": (3.0, None),
    "step_hycoclip": (1.3, None),
    "head_hycoclip": (3.0, 2.0),
    "head_phyclip": (15.0, 5.0),
    "head_phyclip_pair": (15.0, 5.0),
    "head_angle": (5.0, None),
    "loader": (1.5, None),
    "loader_large_scaled": (2.0, None),
}
# Maximum extra memory of conifer, MB.
MEMORY_AIMS = {"head_phyclip_pair": 40}
# Time with one thread / time with two.
SCALING_AIMS = {"vit_s16_train": 1.8}
# Rounds in which other processes used more than this fraction of the CPU time are listed below the table.
FOREIGN = 0.06


def render(header, records, words):
    """Renders the report as Markdown. `words` maps each case to its description."""
    rounds = [it for it in records if it["kind"] == "round"]
    parts = [about(header)]
    most = max((it["threads"] for it in rounds), default=0)
    for threads in sorted({it["threads"] for it in rounds}, reverse=True):
        runs = [it for it in rounds if it["threads"] == threads]
        if any(it["side"] == "torch" for it in runs):
            parts.append(f"{threads} thread{'s' * (threads > 1)}, median of {max(it['round'] for it in runs)} rounds:\n\n{table(runs, words, AIMS if threads == most else {})}")
    parts += [it for it in (scaling(rounds, words), memory(rounds, words), checks(rounds), noise(rounds), skipped(records)) if it]
    return "\n\n".join(parts)


def about(header):
    versions = ", ".join(f"{name} {version}" for name, version in header["pytorch"].get("versions", {}).items())
    build = "; ".join(header["pytorch"].get("build", []))
    commit = (header["commit"] or "unknown")[:12] + (" with uncommitted changes" if header["dirty"] else "")
    lines = [
        f"Measured {header['date'][:10]} on {header['cores']} cores of {header['cpu']} ({', '.join(header['simd'])}), {header['memory_gb']} GB, "
        f"Linux {header['kernel']}, {header['libc']}, {header['rustc']}, commit {commit}.",
        f"PyTorch's side: Python {header['python']}, {versions}. {build}.",
    ]
    if header["environment"]:
        lines.append("Environment: " + ", ".join(f"`{name}={value}`" for name, value in header["environment"].items()) + ".")
    return "\n".join(lines)


def time_of(rounds, case, side):
    """Median over rounds of the median of a round, ms; None if it was not measured."""
    found = [harness.median(it["ms"]) for it in rounds if it["case"] == case and it["side"] == side]
    return harness.median(found) if found else None


def cases_of(rounds):
    return list(dict.fromkeys(it["case"] for it in rounds))


def verdict(value, aim, at_least=True):
    if aim is None or value is None:
        return ""
    met = value >= aim if at_least else value <= aim
    return f"{'>=' if at_least else '<='} {aim:g}: {'met' if met else '**not met**'}"


def table(rounds, words, aims):
    rows = ["| work | ours, ms | PyTorch, ms | ratio | aim | PyTorch, pages kept, ms | ratio | aim |", "|---|---|---|---|---|---|---|---|"]
    for case in cases_of(rounds):
        ours, torch, kept = (time_of(rounds, case, side) for side in ("ours", "torch", "kept"))
        if ours is None or torch is None:
            continue
        aim, best = aims.get(case, (None, None))
        cells = [words.get(case, case), f"{ours:.1f}", f"{torch:.1f}", f"{torch / ours:.2f}", verdict(torch / ours, aim)]
        cells += ["", "", ""] if kept is None else [f"{kept:.1f}", f"{kept / ours:.2f}", verdict(kept / ours, best)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def scaling(rounds, words):
    """Table of the speedup from one thread to two, for conifer and PyTorch."""
    rows = []
    few, many = ([it for it in rounds if it["threads"] == threads] for threads in (1, 2))
    for case in cases_of(few):
        cells = [words.get(case, case)]
        for side in ("ours", "torch"):
            one, two = time_of(few, case, side), time_of(many, case, side)
            gain = one / two if one and two else None
            cells += [f"{one:.1f}" if one else "", f"{two:.1f}" if two else "", f"{gain:.2f}" if gain else ""]
            if side == "ours":
                cells.append(verdict(gain, SCALING_AIMS.get(case)))
        if cells[3]:
            rows.append("| " + " | ".join(cells) + " |")
    if not rows:
        return ""
    head = "| one thread against two | ours, 1, ms | ours, 2, ms | gain | aim | PyTorch, 1, ms | PyTorch, 2, ms | gain |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *rows])


def memory(rounds, words):
    """Table of the peak memory of each process, and of the extra memory of the work itself."""
    most = max(it["threads"] for it in rounds)
    rows = []
    for case in cases_of(rounds):
        cells = [words.get(case, case)]
        extras = {}
        for side in ("ours", "torch", "kept"):
            runs = [it for it in rounds if (it["case"], it["side"], it["threads"]) == (case, side, most)]
            peak = max((it["peak_mb"] for it in runs if it.get("peak_mb") is not None), default=None)
            extras[side] = max((it["extra_mb"] for it in runs if it.get("extra_mb") is not None), default=None)
            cells += ["" if it is None else f"{it:.0f}" for it in (extras[side], peak)]
            if side == "ours":
                cells.insert(2, verdict(extras["ours"], MEMORY_AIMS.get(case), at_least=False))
        if any(cells[1:]):
            rows.append("| " + " | ".join(cells) + " |")
    if not rows:
        return ""
    head = "| memory, MB | ours: extra | aim | ours: peak | PyTorch: extra | peak | pages kept: extra | peak |"
    told = (
        "Extra: the peak of the resident memory minus its value before the first step, without program code loaded since then. Peak: peak of the "
        "whole process, including weights, inputs and PyTorch's libraries, but not PyTorch's loader processes."
    )
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *rows, "", told])


def checks(rounds):
    """Lists the numbers on which both sides must agree."""
    lines = []
    for case in cases_of(rounds):
        if not case.startswith(("head_", "eval_", "text_bucketed", "step_")):
            continue
        found = {it["side"]: it["check"] for it in rounds if it["case"] == case}
        ours, torch = (", ".join(f"{value:.6f}".rstrip("0").rstrip(".") for value in found.get(side, [])) for side in ("ours", "torch"))
        lines.append(f"* `{case}`: {ours}; PyTorch {torch}")
    return "Results of both sides (losses; numbers of tokens; accuracies):\n\n" + "\n".join(lines) if lines else ""


def noise(rounds):
    loud = [it for it in rounds if it.get("foreign", 0) > FOREIGN]
    named = ", ".join(f"{it['case']} {it['side']} round {it['round']} ({100 * it['foreign']:.0f} %)" for it in loud)
    return f"Other processes used the machine in: {named}." if loud else ""


def skipped(records):
    return "\n".join(f"`{it['case']}` {it['kind']}: {it['why']}." for it in records if it["kind"] in ("skipped", "failed"))

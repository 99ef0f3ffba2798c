"""Measure the boxes of `conifer build grounding` against human boxes: the share of phrases whose box has an IoU of at least .5 with
the union of their human boxes, beside the whole photo, a centred box and random boxes of the same proposals.

    conifer data import flickr_joined --input records=joined_grounded.jsonl --out flickr8k.jsonl
    conifer train configs/flickr8k_pretrained_clip.toml --set data.path=flickr8k.jsonl --out runs/clip
    python3 bench/grounding.py --data flickr8k.jsonl --model runs/clip --out grounding_flickr8k
    python3 bench/grounding.py --data flickr8k.jsonl --model runs/clip --out grounding_detector --detector model.onnx [--detector-size 640]

The phrases are the human ones (`--chunks`), so that only the boxes are measured. The proposals are windows, or the boxes of a detector.
Phrases of photos without a box are not in the table; the first line says how many phrases are. The area weight and the size of the
centred box are chosen on the dev photos. Intervals: 10,000 resamples of the test photos, both boxes of a phrase at a time.
"""

import argparse
import json
import math
import random
import subprocess
from pathlib import Path

WEIGHTS = [0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3]
CENTRES = [1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5]
RESAMPLES = 10_000


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def union(boxes):
    return [min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes)]


def iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = lambda it: (it[2] - it[0]) * (it[3] - it[1])
    return width * height / (area(a) + area(b) - width * height)


def prepare(data, split, out):
    """Writes the photos of a split without their boxes, and the places of the human phrases. Returns the human box of each phrase."""
    rows, chunks, truth = [], [], {}
    for sample in lines(data):
        if sample.get("split") != split:
            continue
        scale = [sample.get("width", 1), sample.get("height", 1)] * 2
        spans = {number: set() for number in range(len(sample["captions"]))}
        for phrase in sample["phrases"]:
            for caption, start, end in phrase.get("spans", [])[:1]:
                spans[caption].add((start, end))
            if phrase.get("spans"):
                box = [value / side for value, side in zip(union(phrase["boxes"]), scale)]
                truth.setdefault((sample["id"], phrase["text"].lower()), box)
        image = str((Path(data).resolve().parent / sample["image"]).resolve())
        rows.append({"id": sample["id"], "image": image, "captions": sample["captions"], "split": split})
        # Equal captions of different photos would share their phrases: there are none with phrases at other places.
        chunks += [{"caption": sample["captions"][number], "chunks": sorted(found)} for number, found in spans.items() if found]
    write(out / f"{split}.jsonl", rows)
    return truth, chunks


def build(args, split, more):
    photos = Path(json.loads((args.out / f"{split}.jsonl").open().readline())["image"]).parent
    roots = sorted({str(Path(row["image"]).parent) for row in lines(args.out / f"{split}.jsonl")} | {str(photos)})
    command = [args.program, "build", "grounding", "--data", str(args.out / f"{split}.jsonl"), "--checkpoint", args.model]
    command += [it for root in roots for it in ("--root", root)]
    command += ["--chunks", str(args.out / "chunks.jsonl"), "--abstract-nouns", str(args.out / "none.txt")]
    command += ["--min-similarity", "-1000", "--out", str(args.out / f"{split}_grounded.jsonl"), "--overwrite", *more]
    for option, value in (("--crop", args.crop), ("--detector", args.detector), ("--detector-size", args.detector_size)):
        command += [option, value] if value else []
    subprocess.run(command, check=True)


def scored(args, split, truth):
    """Phrases as (photo, human box, boxes, similarities)."""
    rows = []
    for photo in lines(args.out / f"{split}_grounded.jsonl.work/rescore.jsonl"):
        for phrase, similarities in zip(photo["phrases"], photo["similarities"]):
            human = truth.get((photo["id"], phrase["text"].lower()))
            if human:
                rows.append((photo["id"], human, photo["boxes"], similarities))
    return rows


def share(hits):
    return sum(hits) / max(len(hits), 1)


def weighted(row, weight):
    _, human, boxes, similarities = row
    score = lambda n: similarities[n] + weight * math.log((boxes[n][2] - boxes[n][0]) * (boxes[n][3] - boxes[n][1]))
    return iou(human, boxes[max(range(len(boxes)), key=score)]) >= 0.5


def centred(row, side):
    return iou(row[1], [(1 - side) / 2, (1 - side) / 2, (1 + side) / 2, (1 + side) / 2]) >= 0.5


def expected_at_random(row):
    return share([iou(row[1], box) >= 0.5 for box in row[2]])


def interval(photos, values, generator):
    """95 % interval of the mean of the values, by resampling photos."""
    sums = {}
    for photo, value in zip(photos, values):
        total, count = sums.get(photo, (0.0, 0))
        sums[photo] = (total + value, count + 1)
    sums = list(sums.values())
    means = []
    for _ in range(RESAMPLES):
        drawn = generator.choices(sums, k=len(sums))
        means.append(sum(it[0] for it in drawn) / sum(it[1] for it in drawn))
    means.sort()
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--program", default="conifer")
    parser.add_argument("--crop", choices=["center", "squeeze"])
    parser.add_argument("--detector", help="ONNX file whose boxes replace the windows")
    parser.add_argument("--detector-size", help="input size of a detector that accepts any")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "none.txt").write_text("")
    dev_truth, dev_chunks = prepare(args.data, "dev", args.out)
    test_truth, test_chunks = prepare(args.data, "test", args.out)
    write(args.out / "chunks.jsonl", dev_chunks + test_chunks)

    build(args, "dev", [])
    dev = scored(args, "dev", dev_truth)
    if not dev:
        raise SystemExit("no phrase of the dev photos has boxes; expected photos of at least 32 x 32 pixels")
    by_weight = {weight: share([weighted(row, weight) for row in dev]) for weight in WEIGHTS}
    weight = max(WEIGHTS, key=by_weight.get)
    by_side = {side: share([centred(row, side) for row in dev]) for side in CENTRES}
    side = max(CENTRES, key=by_side.get)
    print("dev, share of phrases with IoU >= .5 by area weight:", {k: round(100 * v, 1) for k, v in by_weight.items()})
    print("dev, by side of the centred box:", {k: round(100 * v, 1) for k, v in by_side.items()})

    build(args, "test", ["--area-weight", str(weight)])
    test = scored(args, "test", test_truth)
    # The boxes of the written file, not those of this script.
    written = {(row["id"], it["text"].lower()): it["boxes"][0]
               for row in lines(args.out / "test_grounded.jsonl") for it in row["phrases"]}
    human = {key: box for key, box in test_truth.items() if key in written}
    photos = [key[0] for key in human]
    found = [float(iou(box, written[key]) >= 0.5) for key, box in human.items()]
    if not found:
        raise SystemExit("no phrase kept a box; expected at least one (boxes under 32 x 32 pixels are left out)")
    assert len(found) == len(test), (len(found), len(test))
    order = {(row[0], tuple(row[1])): row for row in test}
    rows = [order[key[0], tuple(box)] for key, box in human.items()]
    answers = {
        "whole photo": [float(centred(row, 1)) for row in rows],
        f"centred box, side {side}": [float(centred(row, side)) for row in rows],
        "random box (expected)": [expected_at_random(row) for row in rows],
        "best box (upper bound)": [float(any(iou(row[1], box) >= 0.5 for box in row[2])) for row in rows],
    }
    low, high = interval(photos, found, random.Random(0))
    print(f"test: {len(found)} of {len(test_truth)} phrases in {len(set(photos))} photos, area weight {weight}")
    print(f"  {'grounded':<28} {100 * share(found):.1f} % [{100 * low:.1f}, {100 * high:.1f}]")
    for name, values in answers.items():
        low, high = interval(photos, [a - b for a, b in zip(found, values)], random.Random(0))
        difference = share(found) - share(values)
        print(f"  {name:<28} {100 * share(values):.1f} %; grounded minus this {100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]")


if __name__ == "__main__":
    main()

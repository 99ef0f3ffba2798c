#!/usr/bin/env python3
"""Writes two data files of `conifer reproduce`, coco.jsonl and coco_labels.jsonl, from photos of COCO with boxes.

    conifer data import hierarcaps_joined --input records=joined_coco_val2017.jsonl --out coco.jsonl
    python3 bench/claim_data.py coco.jsonl --categories panoptic_coco_categories.json

coco.jsonl is replaced: each sample gets a split by a hash of its id (six tenths train, one tenth dev, three tenths test), and boxes get
COCO's names of classes, since some files have the names of YOLO. coco_labels.jsonl
has the photos with a box of at least a tenth of their area. The label is the class of the largest box, and the taxon is its
supercategory and the class.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

SPLITS = ["train"] * 6 + ["dev"] + ["test"] * 3
MIN_AREA = 0.1
COCO_NAMES = {"aeroplane": "airplane", "motorbike": "motorcycle", "sofa": "couch", "tvmonitor": "tv"}


def split_of(sample: dict) -> str:
    digest = hashlib.sha256(str(sample["id"]).encode()).digest()
    return SPLITS[int.from_bytes(digest[:8], "big") % len(SPLITS)]


def largest_box(sample: dict) -> tuple[float, str]:
    """Area and class of the largest box; area 0 without boxes."""
    boxes = [(phrase["text"], box) for phrase in sample.get("phrases", []) for box in phrase["boxes"]]
    return max((((x1 - x0) * (y1 - y0), text) for text, (x0, y0, x1, y1) in boxes), default=(0.0, ""))


def write(path: Path, samples: list[dict]) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    os.replace(new, path)
    print(f"{path}: {len(samples)} samples")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="coco.jsonl; it is replaced")
    parser.add_argument("--categories", type=Path, required=True, help="COCO's table of categories with their supercategories")
    args = parser.parse_args()
    above = {it["name"]: it["supercategory"] for it in json.loads(args.categories.read_text())}
    samples = [json.loads(line) for line in args.file.read_text().splitlines()]
    labelled = []
    for sample in samples:
        sample["split"] = split_of(sample)
        for phrase in sample.get("phrases", []):
            phrase["text"] = COCO_NAMES.get(phrase["text"], phrase["text"])
        area, name = largest_box(sample)
        if area < MIN_AREA:
            continue
        if name not in above:
            parser.error(f"sample {sample['id']} has the class {name}, which {args.categories} lacks; expected all classes")
        kept = {key: sample[key] for key in ("id", "image", "captions", "split") if key in sample}
        labelled.append({**kept, "label": name, "taxon": [above[name], name]})
    write(args.file, samples)
    write(args.file.with_name(args.file.stem + "_labels.jsonl"), labelled)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Large photos for the cases `loader_large*`: the first twenty JPEG files of a folder, enlarged to 2,000 pixels on the longer side, with
grain (luma, standard deviation 3, as a camera adds; an enlarged photo alone would have next to no fine coefficients), quality 90.

    large_photos.py FROM TO
"""

import pathlib
import sys

import numpy
from PIL import Image

source, target = map(pathlib.Path, sys.argv[1:])
target.mkdir(parents=True, exist_ok=True)
grain = numpy.random.default_rng(0)
for path in sorted(source.glob("*.jpg"))[:20]:
    with Image.open(path) as photo:
        scale = 2000 / max(photo.size)
        large = photo.convert("RGB").resize([round(side * scale) for side in photo.size], Image.BICUBIC)
    pixels = numpy.asarray(large) + grain.normal(0, 3, (large.height, large.width, 1))
    Image.fromarray(pixels.round().clip(0, 255).astype("uint8")).save(target / path.name, quality=90)

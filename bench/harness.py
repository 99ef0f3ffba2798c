"""Common code of `run.py`, `growth.py` and `search.py`: measuring processes, description of the machine, result files."""

import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Created on first use and ignored by git: PyTorch's virtual environment, and generated data such as shards.
VENV, MADE = HERE / ".venv", HERE / ".data"
PACKAGES = ["torch", "torchvision", "numpy", "pillow", "timm", "open_clip_torch", "webdataset", "transformers"]
KEEP_PAGES = "glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"
# Public data sets with the layout of the paths below. A case whose data are absent is skipped with a message.
DATA = pathlib.Path(os.environ.get("BENCH_DATA", ROOT.parent / "shared/data"))
PHOTOS = pathlib.Path(os.environ.get("BENCH_PHOTOS", DATA / "coco_mini/val2017"))
CAPTIONS = DATA / "flickr8k_grounded/captions.csv"
MERGES = DATA / "clip_bpe/bpe_simple_vocab_16e6.txt.gz"
GROUNDED = DATA / "flickr8k_grounded/joined_grounded.jsonl"


class Ended(Exception):
    """A measured process ended before it returned a result."""


class Side:
    """A measuring process. It reads lines `CASE ITERATIONS` and answers each with a line of JSON."""

    def __init__(self, command, threads, **environment):
        count = str(threads)
        fixed = {"THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "RAYON_NUM_THREADS": count}
        paths = {"BENCH_PHOTOS": PHOTOS, "BENCH_CAPTIONS": CAPTIONS, "BENCH_MERGES": MERGES, "BENCH_SHARDS": MADE / "shards", "BENCH_LARGE_PHOTOS": MADE / "large"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **fixed, **{name: str(path) for name, path in paths.items()}, **environment},
            start_new_session=True,
        )

    def measure(self, case, iterations):
        """{"ms", "check", "peak_mb", "extra_mb"}, and `foreign`: the fraction of the machine's CPU time that other
        processes used meanwhile.
        """
        start, ours, all_of_it = time.monotonic(), self.cpu(), busy()
        self.process.stdin.write(f"{case} {iterations}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Ended(f"`{' '.join(map(str, self.process.args))}` ended while measuring {case}")
        wall = time.monotonic() - start
        foreign = max(0.0, (busy() - all_of_it) - (self.cpu() - ours)) / wall / os.cpu_count()
        return {**json.loads(line), "foreign": round(foreign, 3)}

    def cpu(self):
        """Seconds of CPU time of the process and those it started (its session)."""
        ticks = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def busy():
    """Seconds of non-idle CPU time of the whole machine."""
    fields = [int(it) for it in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def python(named="BENCH_PYTHON", venv=VENV, packages=PACKAGES):
    """The Python with these packages: the value of the environment variable `named`, else a virtual environment next to
    this file, created on first use.
    """
    if named in os.environ:
        return os.environ[named]
    if not (venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", *packages], check=True)
    return str(venv / "bin/python")


def build():
    """Builds both programs and returns their folder.

    Builds the whole workspace, because another selection of crates would rebuild the tensor engine.
    """
    subprocess.run(["cargo", "build", "--release", "--workspace", "--bin", "conifer-bench", "--bin", "conifer"], cwd=ROOT, check=True)
    return target()


def target():
    """The folder of the release programs."""
    found = subprocess.run(["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=ROOT, check=True, capture_output=True)
    return pathlib.Path(json.loads(found.stdout)["target_directory"]) / "release"


def shards(programs):
    """Makes shards in the format in which HyCoCLIP prepares GRIT, once, from the grounded photos of Flickr8k that keep
    their aspect ratio.
    """
    if (MADE / "shards").is_dir():
        return
    MADE.mkdir(exist_ok=True)
    records = [line for line in GROUNDED.read_text().splitlines() if json.loads(line)["file"].startswith("images_1000/")]
    (MADE / "records.jsonl").write_text("\n".join(records) + "\n")
    photos = MADE / "images_1000"
    photos.unlink(missing_ok=True)
    photos.symlink_to((GROUNDED.parent / "images_1000").resolve())
    command = [programs / "conifer", "data", "import", "flickr_joined", "--input", f"records={MADE / 'records.jsonl'}"]
    command += ["--to", "boxes", "--shard-samples", "250", "--out", MADE / "shards.part"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    (MADE / "shards.part").rename(MADE / "shards")


def large_photos():
    """Makes the photos of 2,000 pixels, once."""
    if not (MADE / "large").is_dir():
        MADE.mkdir(exist_ok=True)
        subprocess.run([python(), str(HERE / "large_photos.py"), str(PHOTOS), str(MADE / "large.part")], check=True)
        (MADE / "large.part").rename(MADE / "large")


def machine():
    """Describes the machine and software that the numbers depend on."""

    def told(*command):
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        return found.stdout.strip() if found.returncode == 0 else None

    asked = (
        "import importlib.metadata as m, json, torch\n"
        "names = {'torch', 'torchvision', 'pillow', 'numpy', 'timm', 'webdataset', 'open_clip_torch'}\n"
        "found = {d.metadata['Name'].lower().replace('-', '_'): d.version for d in m.distributions()}\n"
        "there = {n: found[n] for n in sorted(names & found.keys())}\n"
        "wanted = ('Math Kernel', 'MKL-DNN', 'oneDNN', 'CPU capability', 'OpenMP')\n"
        "lines = [l.strip(' -') for l in torch.__config__.show().splitlines() if any(w in l for w in wanted) and 'Build settings' not in l]\n"
        "print(json.dumps({'versions': there, 'build': lines}))"
    )
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags\t\t: ")[-1].splitlines()[0].split()
    return {
        "kind": "machine",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "simd": [it for it in ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile") if it in flags],
        "memory_gb": round(int(memory[1]) * 1024 / 1e9, 1),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "rustc": told("rustc", "--version"),
        "commit": told("git", "rev-parse", "HEAD"),
        "dirty": bool(told("git", "status", "--porcelain", "--untracked-files=no")),
        "python": told(python(), "-c", "import platform; print(platform.python_version())"),
        "pytorch": json.loads(told(python(), "-c", asked) or "{}"),
        "environment": {k: v for k, v in os.environ.items() if re.match("MKL|OMP|KMP|ONEDNN|DNNL|GLIBC|MALLOC|TORCH|RUSTFLAGS|BENCH_(ACOSH|WORKERS)", k)},
        "pages_kept": KEEP_PAGES,
    }


def cpu_generation():
    """CPU name with family and model.

    Processors with the same name can have vector units that differ by a factor of two.
    """
    text = pathlib.Path("/proc/cpuinfo").read_text()
    parts = [re.search(rf"{it}\s*:\s*(\d+)", text) for it in ("cpu family", "model")]
    return cpu_name() + (" (family {}, model {})".format(*(it[1] for it in parts)) if all(parts) else "")


def cpu_name():
    found = re.search(r"model name\s*:\s*(.+)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def results(name, out):
    """Opens the file for the raw records: `out`, or `bench/results/DATE-CPU-NAME.jsonl` if that is None."""
    if out is None:
        slug = re.sub("[^a-z0-9]+", "-", f"{cpu_name()} {os.cpu_count()} cores".lower()).strip("-")
        stem = f"{datetime.date.today().isoformat()}-{slug}-{name}"
        taken = [HERE / "results" / f"{stem}{suffix}.jsonl" for suffix in ["", *(f"-{i}" for i in range(2, 100))]]
        out = next(path for path in taken if not path.exists())
    out = pathlib.Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.open("w", buffering=1)


def read(path):
    """Reads the header and the records of a result file."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line.strip()]
    return next(it for it in lines if it["kind"] == "machine"), [it for it in lines if it["kind"] != "machine"]


def write_into(path, name, text):
    """Replaces the text between the markers `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a file."""
    path = pathlib.Path(path)
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = path.read_text().split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def median(values):
    return statistics.median(values)

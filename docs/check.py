#!/usr/bin/env python3
"""Run the commands of README.md, docs/guide.md and docs/gallery.md in order and as written on a fresh clone. Stop at the first failure.

    python3 docs/check.py                                   clone, build, run everything
    python3 docs/check.py --target target                   use the build folder of this checkout
    python3 docs/check.py --program target/release/conifer  use a built program and skip cargo
    python3 docs/check.py --list                            only list the commands

Commands are all lines of a ```sh block and the lines of a ```console block that begin with `$ `. For a server command (serve, front,
explore), the script starts the server, waits until it prints its address and requests its page. It then stops the server, or stops it at
the end of the block if the line ends with `&`. Before a block, a document may list what the block needs:

    <!-- needs: PATH, PATH | what it is and where to get it -->

If a path is missing, the block is skipped and this reason is printed. Paths that are not in the clone are taken from the data folder
(`--data`, default ../shared/data beside this checkout) by the table INPUTS, or created by a command of the table MADE. The path
`network` means that the block downloads something; such a block is skipped without `--network`.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:^<!-- needs: ([^|>]*?)(?:\|([^>]*?))?-->\n+)?^```(sh|console)\n(.*?)^```", re.M | re.S)
SERVES = re.compile(r"(?:^|/)conifer (?:--json )?(serve|front|explore)\b")
ADDRESS = re.compile(r"http://[\w.\[\]:-]+")

DOCUMENTS = ["README.md", "docs/guide.md", "docs/gallery.md"]

# Inputs of the commands, with their paths in the data folder.
INPUTS = {
    "val2017": "coco_mini/val2017",
    "instances_val2017.json": "coco_mini/annotations/instances_val2017.json",
    "captions_val2017.json": "coco_mini/annotations/captions_val2017.json",
    "bpe_simple_vocab_16e6.txt.gz": "clip_bpe/bpe_simple_vocab_16e6.txt.gz",
}
# Inputs that the program creates.
MADE = {
    "photos": "conifer data toy --out toy-for-photos --size 20 && cp -r toy-for-photos/classes photos",
    "tree.txt": "cp toy-for-photos/tree.txt tree.txt",
}


def blocks(text):
    """(needed paths, reason, commands) of each block."""
    for needs, reason, kind, body in BLOCK.findall(text):
        lines = body.replace("\\\n", " ").splitlines()
        if kind == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        commands = [line for line in lines if line.strip() and not line.startswith("#")]
        yield [it.strip() for it in needs.split(",") if it.strip()], " ".join(reason.split()), commands


class Failed(Exception):
    pass


class Server:
    """A running server command and the address that it printed."""

    def __init__(self, command, folder, environment, patience):
        self.command = command.rstrip(" &")
        self.process = subprocess.Popen(
            ["bash", "-c", "exec " + self.command], cwd=folder, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.lines, self.address, self.found = [], None, threading.Event()
        threading.Thread(target=self.read, daemon=True).start()
        if not self.found.wait(patience) or self.address is None:
            self.stop()
            raise Failed(f"it printed no address within {patience} s:\n" + "".join(self.lines[-20:]))
        with urllib.request.urlopen(self.address + "/api/info", timeout=60) as answer:
            if answer.status != 200:
                raise Failed(f"{self.address}/api/info answered {answer.status}")

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if self.address is None and (address := ADDRESS.search(line)):
                self.address = address[0]
                self.found.set()
        self.found.set()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise Failed("it did not stop within 20 s of Ctrl-C") from None


class Check:
    def __init__(self, args, folder, environment):
        self.args, self.folder, self.environment = args, folder, environment
        self.ran = self.skipped = 0

    def missing(self, path):
        """Return True if a needed path is missing and cannot be linked or created."""
        if path == "network":
            return not self.args.network
        place = self.folder / path
        if place.exists():
            return False
        source = self.args.data / INPUTS[path] if path in INPUTS else None
        if source is not None and source.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source.resolve())
            return False
        if path in MADE:
            subprocess.run(["bash", "-ec", MADE[path]], cwd=self.folder, env=self.environment, check=True, stdout=subprocess.DEVNULL)
            return False
        return True

    def shell(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Failed(f"exit code {done.returncode}:\n{done.stdout[-4000:]}")

    def run(self, command, servers):
        started = time.monotonic()
        plain = command.split(" #")[0].rstrip()
        try:
            if SERVES.search(plain.split(" -")[0]):
                server = Server(plain, self.folder, self.environment, self.args.patience)
                servers.append(server) if plain.endswith("&") else server.stop()
            else:
                self.shell(command)
        except (Failed, OSError) as error:
            raise SystemExit(f"FAILED   {command}\n{error}") from None
        self.ran += 1
        print(f"{time.monotonic() - started:7.1f} s  {command}", flush=True)

    def block(self, needs, reason, commands):
        absent = [path for path in needs if self.missing(path)]
        if absent:
            self.skip(commands, f"needs {', '.join(absent)}: {reason}")
            return
        servers = []
        try:
            for command in commands:
                if self.args.program and command.startswith("cargo "):
                    self.skip([command], "--program is given")
                elif self.args.no_tests and command.startswith("cargo test"):
                    self.skip([command], "--no-tests is given")
                else:
                    self.run(command, servers)
        finally:
            for server in servers:
                server.stop()

    def skip(self, commands, reason):
        self.skipped += len(commands)
        for command in commands:
            print(f"  skipped  {command}  ({reason})", flush=True)


def clone(args, folder):
    """Clone the last commit; add uncommitted files, the build folder and the program if requested."""
    repository = folder / "conifer"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(repository)], check=True)
    if args.working_tree:
        changed = subprocess.run(["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"], cwd=ROOT,
                                 capture_output=True, text=True, check=True).stdout.split("\0")
        for name in filter(None, changed):
            if (ROOT / name).exists():
                (repository / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, repository / name)
    if args.target:
        (repository / "target").symlink_to(args.target.resolve(strict=True))
    if args.program:
        release = repository / "target/release"
        release.mkdir(parents=True, exist_ok=True)
        (release / "conifer").symlink_to(args.program.resolve(strict=True))
    return repository


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, help="built program to use; cargo is not run")
    parser.add_argument("--target", type=Path, help="existing build folder to reuse")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with the inputs that the commands need")
    parser.add_argument("--working-tree", action="store_true", help="include uncommitted files of this checkout")
    parser.add_argument("--no-tests", action="store_true", help="skip cargo test")
    parser.add_argument("--network", action="store_true", help="also run blocks that download")
    parser.add_argument("--keep", action="store_true", help="keep the clone")
    parser.add_argument("--list", action="store_true", help="list the commands and run none")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for a server to print its address")
    args = parser.parse_args()
    if args.list:
        for document in DOCUMENTS:
            for needs, reason, commands in blocks((ROOT / document).read_text()):
                print(f"# {document}: needs {', '.join(needs)}: {reason}" if needs else f"# {document}")
                print("\n".join(commands))
        return
    folder = Path(tempfile.mkdtemp(prefix="conifer-readme-"))
    started = time.monotonic()
    try:
        repository = clone(args, folder)
        (folder / "home").mkdir()
        environment = {
            **os.environ,
            # Use an install root and a cache inside the temporary folder, so that nothing of the user's environment is
            # used.
            "CARGO_INSTALL_ROOT": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "home/cache"),
            "PATH": os.pathsep.join([str(folder / "home/bin"), str(repository / "target/release"), os.environ["PATH"]]),
        }
        check = Check(args, repository, environment)
        for document in DOCUMENTS:
            for block in blocks((repository / document).read_text()):
                check.block(*block)
    finally:
        if args.keep:
            print(f"the clone is {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{check.ran} commands succeeded, {check.skipped} skipped, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()

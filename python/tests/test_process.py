"""The package in a process: threads, forks, signals, memory, the command line."""

import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import TOWERS

import conifer

SPACE = conifer.Lorentz(64)


def large(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 64)).astype(np.float32)


def test_python_threads_share_the_objects(model):
    x = large(2000)
    index = conifer.Index(x, SPACE)
    expected = (SPACE.pairwise_distance(x[:50], x), index.search(x[:50]).rows, model.encode_text(["a shape"] * 3))

    def work(_):
        found = (SPACE.pairwise_distance(x[:50], x), index.search(x[:50]).rows, model.encode_text(["a shape"] * 3))
        return all(np.array_equal(a, b) for a, b in zip(found, expected))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(40)))


def test_the_interpreter_lock_is_released():
    x = large(1200)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    SPACE.pairwise_distance(x.astype(np.float64), x.astype(np.float64))
    end = time.perf_counter()
    done.set()
    ticker.join()
    # The other thread ran while the distances were computed.
    assert sum(start < it < end for it in ticks) >= 3, end - start


def in_child(queue):
    x = large(2000)
    conifer.Index(x, SPACE)
    found = conifer.load(TOWERS).encode_image([np.zeros((40, 40, 3), np.uint8)])
    queue.put((SPACE.distance(x, x[::-1].copy()).sum(), found))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_processes_have_their_own_threads(method, model):
    x = large(2000)
    expected = SPACE.distance(x, x[::-1].copy()).sum(), model.encode_image([np.zeros((40, 40, 3), np.uint8)])
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=in_child, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    for _ in children:
        found = queue.get(timeout=120)
        assert found[0] == expected[0] and np.allclose(found[1], expected[1])
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    # The parent's threads still work.
    assert SPACE.distance(x, x[::-1].copy()).sum() == expected[0]


def test_no_memory_is_leaked(model):
    x = large(200)
    rows = conifer.EmbeddingSet(x, SPACE)
    index = conifer.Index(rows)

    def calls(count):
        for _ in range(count):
            SPACE.distance(x, x)
            SPACE.exp0(x)
            index.search(x[0], k=3, where={}).ids
            rows.points.sum()
            with pytest.raises(ValueError):
                SPACE.distance(x, x[:3])
        gc.collect()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("the resident memory is read from /proc")
    calls(1000)
    before = resident()
    calls(10_000)
    # One lost array of 51 kB per call would be 512 MB; one lost array in a hundred calls 5 MB.
    assert resident() - before < 4_000_000


def test_ctrl_c_between_batches(model):
    picture = np.zeros((40, 40, 3), np.uint8)
    seen = []

    def progress(done, total):
        seen.append(done)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        model.encode_image([picture] * 50, batch_size=1, progress=progress)
    assert len(seen) < 10


def test_objects_die_with_their_last_reference():
    import weakref

    rows = conifer.EmbeddingSet(large(5), SPACE)
    points, gone = rows.points, weakref.ref(rows)
    del rows
    gc.collect()
    assert gone() is None and points.shape == (5, 64)


def program(*words, code="from conifer._program import main; main()"):
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "conifer", "methods"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "hycoclip" in done.stdout


def test_the_command_is_the_program():
    done = program("--version")
    assert done.returncode == 0 and done.stdout.startswith("conifer") or done.returncode == 2, done
    methods = program("methods")
    assert methods.returncode == 0 and "hycoclip" in methods.stdout
    wrong = program("search", "absent", "--text", "x")
    assert wrong.returncode == 1 and wrong.stderr.startswith("error: ") and "absent" in wrong.stderr
    assert program("nonsense").returncode == 2


def test_import_is_quick_and_brings_no_large_packages():
    code = (
        "import sys, time, numpy; start = time.perf_counter(); import conifer; took = time.perf_counter() - start;"
        "print(took, [it for it in ('torch', 'pandas', 'pyarrow', 'matplotlib', 'ray', 'datasets', 'lancedb') if it in sys.modules])"
    )
    took, modules = program(code=code).stdout.split(maxsplit=1)
    assert modules.strip() == "[]" and float(took) < 1, took

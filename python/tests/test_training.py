import math
import os
import signal

import pytest

import conifer

CONFIG = {
    "data": {"kind": "toy", "options": {"size": 60, "resolution": 32}},
    "tokenizer": {"kind": "train", "vocab_size": 600},
    "model": {
        "embed_dim": 16,
        "visual": {"preset": "vit_nano", "depth": 1},
        "textual": {"preset": "text_nano", "depth": 1},
    },
    "method": {"kind": "meru"},
    "train": {"batch_size": 8, "steps": 6},
    "optim": {"warmup_steps": 2},
}


def test_a_run_of_a_dict(tmp_path):
    events = []
    done = conifer.train(CONFIG, out=tmp_path / "run", callbacks=events.append)
    assert (done.step, done.stopped, done.out) == (6, False, str(tmp_path / "run"))
    kinds = [it["event"] for it in events]
    assert kinds[0] == "started" and kinds[-1] == "finished" and kinds.count("step") == 6
    steps = [it for it in events if it["event"] == "step"]
    assert [it["step"] for it in steps] == [1, 2, 3, 4, 5, 6] and steps[-1]["loss"] == pytest.approx(done.loss)
    assert all(math.isfinite(it["loss"]) for it in steps)
    model = done.load()
    assert model.method == "meru" and model.encode_text(["a shape"]).shape == (1, 16)


def test_a_callback_stops_and_a_run_resumes(tmp_path):
    out = tmp_path / "run"
    stopped = conifer.train(CONFIG, out=out, callbacks=lambda event: event.get("step") != 2)
    assert stopped.stopped and 2 <= stopped.step < 6
    with pytest.raises(ValueError, match="expected none of them"):
        conifer.train(resume=out, smoke=True)
    assert conifer.train(resume=out).step == 6


def test_a_file_with_overrides(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        "data = { kind = 'toy', options = { size = 60, resolution = 32 } }\nmethod = { kind = 'clip' }\n"
        "tokenizer = { kind = 'train', vocab_size = 600 }\ntrain = { batch_size = 8, steps = 50 }\n"
        "model = { embed_dim = 16, visual = { preset = 'vit_nano', depth = 1 },"
        " textual = { preset = 'text_nano', depth = 1 } }\n"
    )
    overrides = ["train.steps=2", "optim.warmup_steps=1"]
    assert conifer.train(path, out=tmp_path / "run", overrides=overrides).step == 2


def test_exceptions_of_callbacks_and_ctrl_c_end_the_run(tmp_path):
    def fail(event):
        if event["event"] == "step":
            raise RuntimeError("a callback failed")

    with pytest.raises(RuntimeError, match="a callback failed"):
        conifer.train(CONFIG, out=tmp_path / "a", callbacks=[fail])

    def interrupt(event):
        if event["event"] == "step" and event["step"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    long = {**CONFIG, "train": {"batch_size": 8, "steps": 100_000}}
    with pytest.raises(KeyboardInterrupt):
        conifer.train(long, out=tmp_path / "b", callbacks=interrupt)
    assert (tmp_path / "b/checkpoints").exists()

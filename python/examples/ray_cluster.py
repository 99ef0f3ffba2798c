# %% [markdown]
# # Ray
# Embed Parquet files on a cluster, join them to one set, and search its shards with one actor each. Here the cluster is
# this machine; on another one, `ray.init()` finds it. Uses the model of `quickstart.py`.

# %%
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import ray

import conifer
import conifer.ray
from conifer import viz

folder = Path(os.environ.get("CONIFER_EXAMPLES", "runs/python_examples"))
if not (folder / "quickstart").exists():
    sys.exit(f"{folder / 'quickstart'} does not exist; run quickstart.py first")
os.environ.setdefault("RAY_agent_register_timeout_ms", "120000")
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
ray.data.DataContext.get_current().enable_progress_bars = False

# %% [markdown]
# Four input shards: Parquet files with a column `image` (the bytes of a file, or a path) and others to keep.

# %%
drawings = folder / "ray_drawings"
subprocess.run([sys.executable, "-m", "conifer", "data", "toy", "--out", str(drawings), "--size", "2"], check=True)
files = sorted((drawings / "classes").glob("*/000[0-3].png"))
shards = folder / "ray_input"
shards.mkdir(exist_ok=True)
for number in range(4):
    chosen = files[number::4]
    table = {
        "id": [f"{file.parent.name}/{file.stem}" for file in chosen],
        "image": [file.read_bytes() for file in chosen],
        "label": [file.parent.name for file in chosen],
    }
    pyarrow.parquet.write_table(pyarrow.table(table), shards / f"part{number}.parquet")

# %% [markdown]
# Two actors embed them. A second call finds that everything is finished.

# %%
done = conifer.ray.embed(shards, folder / "quickstart", folder / "ray_output", columns=["label"])
print(f"{done.rows} rows in {len(done.shards)} shards, {done.embedded} embedded now: {done.set}")
again = conifer.ray.embed(shards, folder / "quickstart", folder / "ray_output", columns=["label"])
print(f"second call: {again.embedded} embedded")

# %% [markdown]
# The result of a sharded search is that of one index over all rows.

# %%
rows = conifer.EmbeddingSet.open(done.set)
query = conifer.load(folder / "quickstart").encode_text(["a bird", "a bus"])
with conifer.ray.build_index(rows, 3, folder / "ray_index", num_cpus=0.5) as index:
    found = conifer.ray.search(index, query, k=5, by="distance")
    print(found.to_pandas())
whole = conifer.Index(rows).search(query, k=5)
print("equal to one index:", bool((found.rows == whole.rows).all() and (found.scores == whole.scores).all()))
viz.plot_disc(rows, color="depth").savefig(folder / "ray.png", dpi=100, bbox_inches="tight")
ray.shutdown()

"""Embedding sets: points with their space, ids, modality and columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _conifer
from ._html import table
from .spaces import Space, space_of

if TYPE_CHECKING:
    import datasets
    import pandas
    import pyarrow

# Rows of a table in a notebook.
SHOWN = 10


class EmbeddingSet:
    """Ordered points of one space, each with an id, a modality and columns of text. It cannot be changed.

    points: (N, dim), float32 or float64; stored as float32.
    space: the space of the points.
    ids: one name per row; default: the row numbers.
    modality: ``"image"``, ``"text"``, ``"box_image"`` or ``"box_text"``, one for all rows or one per row.
    columns: metadata by name, one value per row; values become text.
    root: the point (dim,) from which the cones are seen; default: the origin.
    model, data: names of what produced the points.

    A pickled copy keeps these names, but not the hashes of :attr:`source`.
    """

    def __init__(
        self,
        points: Any,
        space: Space,
        ids: Iterable[Any] | None = None,
        modality: str | Iterable[str] = "image",
        columns: Mapping[str, Iterable[Any]] | None = None,
        root: Any = None,
        model: str = "",
        data: str = "",
    ) -> None:
        count = len(points)
        names = [str(it) for it in (range(count) if ids is None else ids)]
        modalities = [modality] * count if isinstance(modality, str) else list(modality)
        texts = {str(name): ["" if it is None else str(it) for it in all_] for name, all_ in (columns or {}).items()}
        self._inner = _conifer.EmbeddingSet(points, space, names, modalities, texts, root, model, data)

    @classmethod
    def _of(cls, inner: _conifer.EmbeddingSet) -> EmbeddingSet:
        found = cls.__new__(cls)
        found._inner = inner
        return found

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> EmbeddingSet:
        """Read a set that ``conifer embed`` or :meth:`save` wrote, or the newest version of a store."""
        return cls._of(_conifer.EmbeddingSet.open(path))

    @classmethod
    def concat(cls, sets: Sequence[EmbeddingSet]) -> EmbeddingSet:
        """The rows of several sets of one space, one set after the other."""
        return cls._of(_conifer.EmbeddingSet.concat([it._inner for it in sets]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the folder of the set. An existing set in this folder is replaced atomically."""
        self._inner.save(path)

    @property
    def points(self) -> npt.NDArray[np.float32]:
        """The points (N, dim), float32, read-only and without a copy."""
        return self._inner.points

    @cached_property
    def space(self) -> Space:
        """The space of the points."""
        return space_of(*self._inner.space_spec)

    @cached_property
    def ids(self) -> list[str]:
        """One name per row."""
        return self._inner.ids

    @cached_property
    def modality(self) -> list[str]:
        """The kind of input of each row."""
        return self._inner.modality

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Metadata by name, one text per row."""
        return self._inner.columns

    @property
    def root(self) -> npt.NDArray[np.float64] | None:
        """The point (dim,) from which the cones are seen; None: the origin."""
        return self._inner.root

    @property
    def source(self) -> dict[str, str]:
        """Provenance: model, data, hash, version of conifer, hash of the weights; empty texts if unknown."""
        return self._inner.source

    def depth(self) -> npt.NDArray[np.float32]:
        """Distance of every row to the root, (N,): how specific it is."""
        found: npt.NDArray[np.float32] = self.space.depth(self.points, self.root)
        return found

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, rows: int | slice | Sequence[int] | npt.NDArray[Any]) -> EmbeddingSet:
        """The set of some rows: a row number, a slice, row numbers, or a mask of booleans."""
        if isinstance(rows, (int, np.integer)):
            return self._of(self._inner.select([int(rows)]))
        if isinstance(rows, slice):
            return self._of(self._inner.select(list(range(*rows.indices(len(self))))))
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise ValueError(f"the mask has shape {chosen.shape}; expected ({len(self)},), one value per row")
            chosen = np.flatnonzero(chosen)
        return self._of(self._inner.select([int(row) for row in chosen]))

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with the columns id, modality, depth and the columns of the set, without the points."""
        import pandas

        return pandas.DataFrame({"id": self.ids, "modality": self.modality, "depth": self.depth(), **self.columns})

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table: id, modality, point (a fixed-size list of float32), and a column ``column_NAME`` for each
        column. Space and root are in the metadata of the schema."""
        import pyarrow

        flat = pyarrow.array(self.points.reshape(-1))
        points = pyarrow.FixedSizeListArray.from_arrays(flat, self.space.dim)
        texts = {"id": self.ids, "modality": self.modality}
        texts |= {f"column_{name}": values for name, values in self.columns.items()}
        arrays = {name: pyarrow.array(values, pyarrow.string()) for name, values in texts.items()}
        id, modality, *columns = arrays.items()
        found = pyarrow.table(dict([id, modality, ("point", points), *columns]))
        root = None if self.root is None else self.root.tolist()
        metadata = {"space": self.space.spec, "root": root, "model": self.source["model"], "data": self.source["data"]}
        return found.replace_schema_metadata({"conifer": json.dumps(metadata)})

    @classmethod
    def from_arrow(cls, rows: pyarrow.Table, space: Space | None = None, root: Any = None) -> EmbeddingSet:
        """The inverse of :meth:`to_arrow`. For a table of another program give ``space`` (and ``root``): it needs a
        column ``point`` of lists of numbers; ``id`` and ``modality`` are optional."""
        stored = json.loads((rows.schema.metadata or {}).get(b"conifer", b"{}"))
        if space is None:
            if "space" not in stored:
                raise ValueError("the table has no metadata of conifer; expected `space`, the space of the points")
            space = space_of(*stored["space"])
            root = None if stored["root"] is None else np.asarray(stored["root"], np.float64)
        if "point" not in rows.column_names:
            raise ValueError(f"the table has the columns {rows.column_names}; expected a column `point`")
        lists = rows["point"].combine_chunks()
        if lists.null_count:
            raise ValueError(f"the column `point` has {lists.null_count} nulls; expected none")
        flat = np.ascontiguousarray(lists.flatten().to_numpy(zero_copy_only=False), np.float32)
        if len(flat) != len(rows) * space.dim:
            found = f"{len(flat)} numbers in {len(rows)} rows"
            raise ValueError(f"the column `point` has {found}; expected {space.dim} numbers per row")
        texts = {name: rows[name].to_pylist() for name in rows.column_names}
        return cls(
            flat.reshape(len(rows), space.dim),
            space,
            ids=texts.get("id"),
            modality=texts.get("modality", "image"),
            columns={name[7:]: values for name, values in texts.items() if name.startswith("column_")},
            root=root,
            model=stored.get("model", ""),
            data=stored.get("data", ""),
        )

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_arrow` to a Parquet file. For other search engines see :mod:`conifer.export`."""
        import pyarrow.parquet

        pyarrow.parquet.write_table(self.to_arrow(), path)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str], space: Space | None = None, root: Any = None) -> EmbeddingSet:
        """Read :meth:`to_parquet`, or a Parquet file as :meth:`from_arrow` describes it."""
        import pyarrow.parquet

        return cls.from_arrow(pyarrow.parquet.read_table(path), space, root)

    def to_lance(self, uri: str | os.PathLike[str]) -> None:
        """Write :meth:`to_arrow` as a new Lance data set. Needs the package pylance."""
        import lance

        lance.write_dataset(self.to_arrow(), os.fspath(uri))

    @classmethod
    def from_lance(cls, uri: str | os.PathLike[str], space: Space | None = None, root: Any = None) -> EmbeddingSet:
        """Read :meth:`to_lance`, or a Lance data set with the columns that :meth:`from_arrow` describes."""
        import lance

        return cls.from_arrow(lance.dataset(os.fspath(uri)).to_table(), space, root)

    def to_dataset(self) -> datasets.Dataset:
        """A Hugging Face ``Dataset`` with the columns of :meth:`to_arrow`. Space and root are in the description of its
        ``info``, so they are kept by ``save_to_disk``, ``select``, ``shuffle`` and ``filter``."""
        import datasets

        rows = self.to_arrow()
        info = datasets.DatasetInfo(description=rows.schema.metadata[b"conifer"].decode())
        return datasets.Dataset(rows.replace_schema_metadata(None), info=info)

    @classmethod
    def from_dataset(cls, rows: datasets.Dataset, space: Space | None = None, root: Any = None) -> EmbeddingSet:
        """The inverse of :meth:`to_dataset`. Give ``space`` (and ``root``) for a data set of another program, as for
        :meth:`from_arrow`."""
        table = rows.with_format("arrow")[:]
        if space is None:
            try:
                metadata = json.loads(rows.info.description)
            except ValueError:
                metadata = {}
            if isinstance(metadata, dict) and "space" in metadata:
                table = table.replace_schema_metadata({"conifer": rows.info.description})
        return cls.from_arrow(table, space, root)

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.source
        state = (
            np.array(self.points),
            self.space,
            self.ids,
            self.modality,
            self.columns,
            self.root,
            source["model"],
            source["data"],
        )
        return (EmbeddingSet, state)

    def __repr__(self) -> str:
        return f"conifer.EmbeddingSet({len(self)} rows, {self.space})"

    def _repr_html_(self) -> str:
        shown = self[:SHOWN]
        names = list(shown.columns)
        columns = list(shown.columns.values())
        rows = zip(shown.ids, shown.modality, shown.depth().tolist(), *columns)
        return table(repr(self), ["id", "modality", "depth", *names], rows, len(self))

"""Recorded frames as tables of Arrow, in files of Parquet: a row for each frame.

The columns of ``FrameFormat`` are lists: of structs of features for entities, of values where each
item is one value, else of lists of values. Further columns hold the places and outcomes of
``Outcomes``; frames without a decision have no ``reward``. The metadata hold, under ``ragged_rl``,
a JSON text with the spaces and the CRC-32 of the first part.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import EntityEnvError, MissingPackageError
from entity_env.recording.columns import Column, ColumnType, FrameFormat
from entity_env.recording.records import Outcomes, RecordedBatch
from entity_env.storage.bounded_json import parse_json
from entity_env.storage.space_json import spaces_from_json, spaces_to_json

__all__ = [
    "MOST_BYTES",
    "OUTCOMES",
    "TableFormat",
    "import_arrow",
    "open_parquet",
    "read_outcomes",
    "table_size",
]

MOST_BYTES = 1 << 30
"""The largest memory of a table, which limits the memory that a malicious file can request."""
_MOST_TEXT, _MOST_ITEMS = 1 << 24, 1 << 20  # bytes of the metadata and values of the JSON text
_WRONG_TYPES = TypeError, AttributeError  # of values in the metadata
_KEY = b"ragged_rl"
_VERSION = 2
_NUMBERS = "INT64", "FLOAT", "DOUBLE"  # types of Parquet
_PLACES = ("step", "row", "episode")
_FLAGS = ("is_first", "done", "truncated")
OUTCOMES = [*_PLACES, *_FLAGS, "reward", "metrics"]
"""The names of the columns of ``Outcomes``."""


def import_arrow() -> Any:
    """Import and return ``pyarrow``.

    Raises:
        MissingPackageError: It is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError(
            f"recordings need the package pyarrow: {error}", hint='pip install "ragged-rl[data]"'
        ) from error
    return pyarrow


class TableFormat:
    """The tables of frames with given spaces.

    Args:
        frames: The columns of the frames.

    Attributes:
        frames: The columns of the frames.
        schema: The schema of the tables.
    """

    def __init__(self, frames: FrameFormat) -> None:
        pa = self._arrow = import_arrow()
        self.frames = frames
        types = {name: pa.int64() for name in _PLACES} | {name: pa.bool_() for name in _FLAGS}
        names = pa.dictionary(pa.int32(), pa.string())
        types |= {"reward": pa.float32(), "metrics": pa.map_(names, pa.float64())}
        self._fields = {
            name: field
            for name, field in frames.fields.items()
            if name != "global_features" or field.width
        }
        types |= {name: _type(pa, name, field) for name, field in self._fields.items()}
        self.schema = pa.schema(list(types.items()))
        empty = pa.BufferReader(_written(pa, self.schema.empty_table(), {}))
        leaves = pa.parquet.ParquetFile(empty).schema
        columns = {leaves.column(i).path: leaves.column(i) for i in range(len(leaves))}
        numbers = [path for path, column in columns.items() if column.physical_type in _NUMBERS]
        self._options = {
            "column_encoding": dict.fromkeys(numbers, "BYTE_STREAM_SPLIT")
            | dict.fromkeys(_PLACES, "DELTA_BINARY_PACKED"),
            "use_dictionary": [path for path in columns if path not in numbers],
            "write_statistics": False,
        }

    def table(self, batch: RecordedBatch, outcomes: Outcomes) -> Any:
        """Return frames as a table, episode by episode, which compresses better than by steps."""
        pa = self._arrow
        arrays = {name: pa.array(getattr(outcomes, name)) for name in (*_PLACES, *_FLAGS)}
        arrays["reward"] = pa.array(outcomes.reward, mask=~outcomes.is_decision)
        ends = np.cumsum([0, *map(len, outcomes.metrics)]).astype(np.int32)
        items = [item for metrics in outcomes.metrics for item in metrics.items()]
        keys = pa.array([name for name, _ in items], pa.string()).dictionary_encode()
        values = pa.array([value for _, value in items], pa.float64())
        arrays["metrics"] = pa.MapArray.from_arrays(pa.array(ends), keys, values)
        columns = self.frames.split(batch, outcomes.is_decision)
        arrays |= {
            name: _list_array(pa, name, columns[name], field)
            for name, field in self._fields.items()
        }
        table = pa.Table.from_arrays(list(arrays.values()), schema=self.schema)
        return table.take(pa.array(np.argsort(outcomes.episode, kind="stable")))

    def parquet(self, table: Any, first_crc: int) -> bytes:
        """Return the bytes of a file with a table, the spaces, and the CRC-32 of the first part."""
        frames = self.frames
        text = {
            "version": _VERSION,
            "first_crc": first_crc,
            "log_probs": frames.has_log_probs,
            "logits": frames.has_logits,
            "spaces": spaces_to_json(frames.obs_space, frames.action_space),
        }
        return _written(self._arrow, table, {_KEY: json.dumps(text)}, **self._options)

    def frames_of(self, table: Any) -> tuple[RecordedBatch, Outcomes]:
        """Return the frames of a table, after checking them.

        Raises:
            ValueError: The columns contradict each other.
            EntityEnvError: A choice does not exist, or is not allowed.
        """
        outcomes = read_outcomes(table)
        columns = {
            name: _read_lists(table.column(name).combine_chunks(), field)
            for name, field in self._fields.items()
        }
        nothing = Column(np.zeros((len(table), 0), np.float32), np.ones(len(table), np.int64))
        columns.setdefault("global_features", nothing)
        return self.frames.join(columns, outcomes), outcomes


def open_parquet(data: bytes) -> tuple[Any, TableFormat, int]:
    """Return a file of Parquet, the format of its table, and the CRC-32 of the first part.

    Raises:
        ValueError: The file is damaged, too large, or not a part of a recording.
    """
    pa = import_arrow()
    try:
        file = pa.parquet.ParquetFile(
            pa.BufferReader(data),
            thrift_string_size_limit=_MOST_TEXT,
            thrift_container_size_limit=_MOST_ITEMS,
            read_dictionary=["metrics.key_value.key"],  # else a long name could be repeated
        )
        size = table_size(file)
        if size > MOST_BYTES:
            raise ValueError(f"it needs {size:,} bytes, but at most {MOST_BYTES:,} are allowed")
        facts = parse_json((file.metadata.metadata or {}).get(_KEY, b"{}"), _MOST_ITEMS)
        if facts.get("version") != _VERSION:
            raise ValueError(f"its format has the version {facts.get('version')}, not {_VERSION}")
        first_crc = facts["first_crc"]
        if type(first_crc) is not int:
            raise ValueError("its metadata are damaged")
        form = _format_of(json.dumps(facts["spaces"]), facts["log_probs"], facts["logits"])
        if file.schema_arrow.remove_metadata() != form.schema:
            raise ValueError("its columns are not those of its spaces")
    except ValueError:
        raise
    except (pa.ArrowException, EntityEnvError, OSError, LookupError, *_WRONG_TYPES) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return file, form, first_crc


def table_size(file: Any) -> int:
    """Return the largest number of bytes that the table of a file needs in memory."""
    about = file.metadata
    columns = [
        group.column(place)
        for group in map(about.row_group, range(about.num_row_groups))
        for place in range(about.num_columns)
    ]
    sizes = (max(column.total_uncompressed_size, 8 * column.num_values) for column in columns)
    return int(sum(sizes, 8 * about.num_rows))


@functools.lru_cache(maxsize=8)
def _format_of(spaces: str, log_probs: bool, logits: bool) -> TableFormat:
    obs_space, action_space = spaces_from_json(json.loads(spaces))
    noted = {"has_log_probs": log_probs, "has_logits": logits}
    return TableFormat(FrameFormat(obs_space, action_space, **noted))


def read_outcomes(table: Any) -> Outcomes:
    """Return the outcomes in a table; it needs their columns only, and may have no ``metrics``.

    Raises:
        ValueError: A value is missing.
    """
    columns = {name: table.column(name).combine_chunks() for name in (*_PLACES, *_FLAGS, "reward")}
    reward = columns.pop("reward")
    metrics: list[Mapping[str, float]] = [{}] * len(table)
    if "metrics" in table.column_names:
        found = table.column("metrics").combine_chunks()
        names = found.keys.dictionary.to_pylist()
        keys = [names[place] for place in _array(found.keys.indices).tolist()]
        values, ends = _array(found.items).tolist(), found.offsets.to_numpy()
        for row in np.flatnonzero(np.diff(ends)).tolist():
            part = slice(ends[row], ends[row + 1])
            metrics[row] = dict(zip(keys[part], values[part], strict=True))
    return Outcomes(
        **{name: _array(column) for name, column in columns.items()},
        reward=_array(reward.fill_null(0.0)),
        is_decision=_array(reward.is_valid()),
        metrics=metrics,
    )


def _written(pa: Any, table: Any, metadata: Mapping[Any, str], **options: Any) -> bytes:
    """Return the bytes of a file with one row group."""
    file = io.BytesIO()
    how = {"compression": "zstd", "store_schema": False, **options}
    with pa.parquet.ParquetWriter(file, table.schema, **how) as writer:
        writer.write_table(table, row_group_size=max(len(table), 1))
        writer.add_key_value_metadata(metadata)
    return file.getvalue()


def _type(pa: Any, name: str, field: ColumnType) -> Any:
    """Return the type of a column."""
    value = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_()}[field.dtype]
    if field.names is not None:
        struct = pa.struct([(feature, value) for feature in field.names])
        if name == "global_features":
            return struct
        return pa.list_(struct) if field.names else pa.int64()
    return pa.list_(value) if field.width == 1 else pa.list_(pa.list_(value))


def _list_array(pa: Any, name: str, column: Column, field: ColumnType) -> Any:
    """Return a column as an array; types without features are numbers of entities."""
    values, counts = column.values, column.counts
    if field.names is not None and not field.names:
        return pa.array(counts)
    if field.names is not None:
        parts = [pa.array(np.ascontiguousarray(values[:, i])) for i in range(field.width)]
        items = pa.StructArray.from_arrays(parts, list(field.names))
        if name == "global_features":
            return items
    else:
        items = pa.array(values.ravel())
        if field.width != 1:
            starts = np.arange(len(values) + 1, dtype=np.int32) * field.width
            items = pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), items)
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(np.maximum(counts, 0), out=ends[1:])
    return pa.ListArray.from_arrays(pa.array(ends), items, mask=pa.array(counts < 0))


def _read_lists(array: Any, field: ColumnType) -> Column:
    """Return the lists in an array of ``_list_array``.

    Raises:
        ValueError: A value is missing, or a list has another length than the others.
    """
    if field.names is not None and not field.names:
        counts = _array(array)
        if (counts < 0).any():
            raise ValueError("a number of entities is negative")
        return Column(np.zeros((int(counts.sum()), 0), field.dtype), counts)
    counts = np.ones(len(array), np.int64)
    if hasattr(array, "value_lengths"):
        counts = array.value_lengths().fill_null(-1).to_numpy().astype(np.int64)
        array = array.flatten()
    if field.names is not None:
        values = [_array(part) for part in array.flatten()]
        return Column(np.stack(values, axis=1), counts)
    if field.width != 1:
        if (_array(array.value_lengths()) != field.width).any():
            raise ValueError("a list of values has another length than the others")
        array = array.flatten()
    return Column(_array(array).reshape(-1, field.width), counts)


def _array(array: Any) -> npt.NDArray[Any]:
    """Return the values of an array, none of which may be missing."""
    if array.null_count:
        raise ValueError("a list has an empty value")
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values

"""The fields and units of queries, which find operations of a graph document.

``maxlab/lab/query`` reads queries in Python, ``extension/src/core/query`` in the page; both take
what can be asked for from here. The grammar stands in ``docs/how-to/find-operations.md``.
"""

from __future__ import annotations

from typing import Literal, TypedDict

FieldKind = Literal["text", "number", "shape"]

QueryUnits = Literal["", "time", "share", "bytes", "flops"]


class QueryField(TypedDict):
    """One thing that a query compares."""

    name: str
    kind: FieldKind
    units: QueryUnits
    says: str
    """Its meaning, and an example: completion shows it."""


QUERY_FIELDS: list[QueryField] = [
    {"name": "op", "kind": "text", "units": "", "says": "kind of operation: op=matmul"},
    {"name": "id", "kind": "text", "units": "", "says": "id of the operation: id=n12"},
    {"name": "name", "kind": "text", "units": "", "says": "name of the operation: name=*.out"},
    {"name": "scope", "kind": "text", "units": "", "says": "path of its scope: scope:layers.3"},
    {"name": "family", "kind": "text", "units": "", "says": "family: family=contract"},
    {"name": "dtype", "kind": "text", "units": "", "says": "element type: dtype=bfloat16 or bf16"},
    {"name": "shape", "kind": "shape", "units": "", "says": "shape of a result: shape=[*,64]"},
    {"name": "rank", "kind": "number", "units": "", "says": "number of axes of a result: rank=2"},
    {"name": "time", "kind": "number", "units": "time", "says": "time of its kernel: time>1ms"},
    {
        "name": "share",
        "kind": "number",
        "units": "share",
        "says": "share of all kernels: share>5%",
    },
    {"name": "bytes", "kind": "number", "units": "bytes", "says": "bytes in and out: bytes>1MB"},
    {"name": "flops", "kind": "number", "units": "flops", "says": "its own work: flops>1GFLOP"},
    {"name": "file", "kind": "text", "units": "", "says": "file it was written in: file=*model.py"},
    {"name": "line", "kind": "number", "units": "", "says": "line it was written at: line=42"},
    {"name": "weight", "kind": "text", "units": "", "says": "a weight it reads: weight=*query*"},
    {"name": "kernel", "kind": "text", "units": "", "says": "kernel that computes it: kernel=k3"},
    {"name": "changed", "kind": "text", "units": "", "says": "since the last run: changed=added"},
    {"name": "error", "kind": "text", "units": "", "says": "its error: error=* for any"},
    {"name": "source", "kind": "text", "units": "", "says": 'the line of code: source:"x @ w"'},
]

QUERY_UNITS: dict[QueryUnits, dict[str, float]] = {
    "": {},
    "time": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "share": {"%": 0.01},
    "bytes": {
        "B": 1,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "KiB": 1024,
        "MiB": 1048576,
        "GiB": 1073741824,
    },
    "flops": {
        "FLOP": 1,
        "kFLOP": 1e3,
        "MFLOP": 1e6,
        "GFLOP": 1e9,
        "TFLOP": 1e12,
        "k": 1e3,
        "M": 1e6,
        "G": 1e9,
        "T": 1e12,
    },
}
"""How much of the field's own unit (nanoseconds, fractions, bytes) one of each unit is."""

QUERY_DTYPES: dict[str, str] = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
}
"""Short names of element types that a query may use."""

QUERY_ITEM_BYTES: dict[str, int] = {
    "float64": 8,
    "int64": 8,
    "uint64": 8,
    "float32": 4,
    "int32": 4,
    "uint32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "uint16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Bytes of an element where a value does not say its size."""

"""Values that nobody should pass, and one good call of each operation to pass them to.

`BAD` and `CALLS` are tables: `swept` puts each value of the first into each argument of the second.
What an operation may answer is a result or a typed error.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import (
    BufferType,
    DeviceRef,
    Dim,
    Graph,
    Shape,
    TensorType,
    TensorValue,
    Weight,
    ops,
)
from maxlab.graph.quantization import QuantizationEncoding

F32, I64, BOOL = DType.float32, DType.int64, DType.bool
FLOAT8 = DType.float8_e4m3fn.ml_numpy
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
DEPTH = 100_000


class Raises:
    """An object whose every special method raises ``error``."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def _raise(self, *given: Any, **named: Any) -> NoReturn:
        raise self._error("from the object itself")

    __array__ = __index__ = __int__ = __float__ = __len__ = __iter__ = __getitem__ = _raise
    __bool__ = __str__ = __repr__ = __eq__ = __lt__ = __format__ = _raise
    __hash__ = object.__hash__


class Capsule:
    """An array of another library whose ``__dlpack__`` gives or raises what it was made with."""

    def __init__(self, given: Any, device: Any = (1, 0)) -> None:
        self.given, self.device = given, device

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given

    def __dlpack_device__(self) -> Any:
        if isinstance(self.device, BaseException):
            raise self.device
        return self.device


class Only:
    """An object with one special method, which raises or returns what it was made with."""


def only(method: str, given: Any) -> Any:
    """An object that has ``method`` and nothing else."""

    def answer(*_: Any, **__: Any) -> Any:
        if isinstance(given, BaseException):
            raise given
        return given

    return type("Only", (Only,), {method: answer})()


class FloatDim(int):
    """An int that multiplies into floats."""

    def __mul__(self, other: Any) -> Any:
        return float(self)


@functools.cache
def deep(depth: int = DEPTH) -> list[Any]:
    """A list in a list in a list, always the same one."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def itself() -> list[Any]:
    """A list that is its own element."""
    found: list[Any] = [1]
    found.append(found)
    return found


BAD: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "float": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "huge": lambda: 2**62,
    "past-int64": lambda: 2**63,
    "past-all": lambda: 10**5000,
    "negative": lambda: -(2**63) - 1,
    "minus-one": lambda: -1,
    "zero": lambda: 0,
    "complex": lambda: 1j,
    "text": lambda: "x",
    "empty-text": lambda: "",
    "nul-text": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"\xff",
    "object": object,
    "class": lambda: int,
    "function": lambda: len,
    "empty": list,
    "nones": lambda: [None, None],
    "texts": lambda: ["x", "y z"],
    "mixed": lambda: [1, "x", None],
    "floats": lambda: [1.5, float("nan")],
    "huges": lambda: [2**62, 2**62],
    "past": lambda: (2**63, 10**5000),
    "negatives": lambda: (-1, -5),
    "ragged": lambda: [[1, 2], [3]],
    "deep": deep,
    "deep-tuple": lambda: (deep(),),
    "itself": itself,
    "long": lambda: list(range(100)),
    "mapping": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "generator": lambda: (i for i in (1, 2)),
    "raises": lambda: Raises(RuntimeError),
    "raises-key": lambda: Raises(KeyError),
    "array-raises": lambda: only("__array__", RuntimeError("from the object itself")),
    "array-none": lambda: only("__array__", None),
    "index-raises": lambda: only("__index__", ArithmeticError("from the object itself")),
    "index-text": lambda: only("__index__", "1"),
    "iter-raises": lambda: only("__iter__", RuntimeError("from the object itself")),
    "len-raises": lambda: only("__len__", OverflowError("from the object itself")),
    "value-raises": lambda: only("__tensorvalue__", RuntimeError("from the object itself")),
    "value-none": lambda: only("__tensorvalue__", None),
    "value-self": lambda: only("__buffervalue__", None),
    "capsule-raises": lambda: Capsule(RuntimeError("from the object itself")),
    "capsule-int": lambda: Capsule(42),
    "capsule-device": lambda: Capsule(42, device="cpu"),
    "objects": lambda: np.array([object()], object),
    "strings": lambda: np.array(["x"]),
    "dates": lambda: np.array(["2020-01-01"], "datetime64[s]"),
    "record": lambda: np.zeros(2, [("a", "f4")]),
    "masked": lambda: np.ma.masked_array(np.ones(4, np.float32), [False, True, False, True]),
    "complex-array": lambda: np.ones(2, np.complex64),
    "no-elements": lambda: np.zeros((0, 3), np.float32),
    "float-array": lambda: np.ones((2, 2), np.float32),
    "rank-40": lambda: np.ones((1,) * 40, np.float32),
    "numpy-huge": lambda: np.uint64(2**64 - 1),
    "numpy-nan": lambda: np.float16("nan"),
    "numpy-text": lambda: np.str_("x"),
    "dim": lambda: Dim("q"),
    "dim-huge": lambda: Dim(2**63 - 1),
    "dim-expression": lambda: Dim("q") * 3 - 7,
    "shape": lambda: Shape(["q", 2]),
    "dtype": lambda: F32,
    "device": lambda: DeviceRef.GPU(3),
    "type": lambda: TensorType(F32, [2]),
    "odd-int": lambda: FloatDim(2),
    "lock": threading.Lock,
    "slice": lambda: slice(None, "x"),
    "ellipsis": lambda: ...,
    "partial": lambda: partial(int),
}
"""Bad values by name, each made anew for each call."""


class Setting:
    """A graph that is being built, with values to work on."""

    def __init__(self) -> None:
        self.graph = Graph(
            "g",
            input_types=[
                TensorType(F32, ["n", 4]),
                TensorType(I64, [3]),
                TensorType(BOOL, ["n", 4]),
                TensorType(F32, [1, 8, 8, 4]),
                BufferType(F32, [4]),
                TensorType(F32, [1, 4, 4]),
                TensorType(BOOL, []),
                TensorType(F32, [1, 4, 8, 8, 4]),
                TensorType(F32, ["n", 4], GPU),
                BufferType(DType.uint8, [1 << 20], CPU),
                BufferType(DType.uint8, [1 << 20], GPU),
            ],
        )
        inputs: Any = self.graph.inputs
        self.x, self.i, self.b, self.image, self.buffer, self.cube, self.p, self.solid = inputs[:8]
        self.there, self.signals = inputs[8], inputs[9:]
        with self.graph:
            ops.random.set_seed(0)
        self.sub = self.graph.add_subgraph("sub", lambda v: v + 1, [TensorType(F32, ["n", 4])])


Good = Callable[[Setting], dict[str, Any]]
"""The arguments of a good call, by name; ``*`` is what comes by position."""


def _one(name: str = "x") -> Good:
    return lambda s: {name: s.x}


def _two(s: Setting) -> dict[str, Any]:
    return {"lhs": s.x, "rhs": s.x}


def _logical(s: Setting) -> dict[str, Any]:
    return {"lhs": s.b, "rhs": s.b}


def _axis(name: str = "x") -> Good:
    return lambda s: {name: s.x, "axis": -1}


def _window(s: Setting) -> dict[str, Any]:
    return {
        "input": s.image, "kernel_size": (2, 2), "stride": 1, "dilation": 1, "padding": 0,
        "ceil_mode": False,
    }  # fmt: skip


def _range(s: Setting) -> dict[str, Any]:
    return {"start": 0, "stop": 4, "step": 1, "out_dim": None, "dtype": I64, "device": CPU}


def _conv(s: Setting) -> dict[str, Any]:
    return {
        "x": s.image, "filter": np.ones((2, 2, 4, 2), np.float32), "stride": (1, 1),
        "dilation": (1, 1), "padding": (0, 0, 0, 0), "bias": None,
    }  # fmt: skip


def _solid(s: Setting) -> dict[str, Any]:
    return {
        "x": s.solid, "filter": np.ones((1, 2, 2, 4, 2), np.float32), "stride": (1, 1, 1),
        "dilation": (1, 1, 1), "padding": (0,) * 6, "groups": 1, "bias": None,
    }  # fmt: skip


PAGES = BufferType(F32, [5, 2, 1, 4, 2, 2], CPU)


def _numbers() -> dict[str, Any]:
    """The numbers of a cache of two sequences."""
    return {
        "row_offsets": np.array([0, 1, 3], np.uint32), "cache_lengths": np.ones(2, np.uint32),
        "lookup_table": np.array([[1], [3]], np.uint32), "layer": np.array(0, np.uint32),
    }  # fmt: skip


def _adapters() -> dict[str, Any]:
    """The rows of two groups, the second of which is the base, and the matrices of two adapters."""
    return {
        "x": np.ones((3, 2), np.float32), "matrices": np.ones((2, 8, 2), np.float32),
        "ids": np.array([1, -1], np.int32), "ranks": np.array([2, 0], np.uint32),
        "bounds": np.array([0, 1, 3], np.uint32), "bias": np.ones((2, 8), np.float32),
    }  # fmt: skip


COUNTS, LOGITS = BufferType(DType.int32, [3, 2], CPU), BufferType(F32, [2, 7], CPU)


def _rules() -> dict[str, Any]:
    """How the tokens of two rows are drawn."""
    one = np.ones(2)
    return {"top_k": np.array([2, 3]), "temperature": one, "top_p": one, "min_p": 0 * one}


LATENTS = BufferType(F32, [5, 1, 1, 4, 1, 6], CPU)


def _latents(chunk: bool = False) -> dict[str, Any]:
    """A cache of latent vectors and its numbers, or those of a chunk."""
    given = _numbers()
    if chunk:
        given["cache_offsets"] = given.pop("cache_lengths")
        given["count"] = np.array(3, np.int64)
    return {"blocks": ops.buffer_create(LATENTS), **given}


MAPS = (
    "abs acos atanh cos erf exp floor is_inf is_nan log log1p negate relu round rsqrt sigmoid silu "
    "sin sqrt tanh trunc as_interleaved_complex"
)
PAIRS = "add sub mul div mod pow equal not_equal greater greater_equal"

CALLS: dict[str, Good] = {
    **{name: _one() for name in MAPS.split(" ")},
    **dict.fromkeys(PAIRS.split(" "), _two),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], _logical),
    **{name: _axis() for name in ["argmax", "argmin", "mean", "sum", "cumsum"]},
    **{name: _axis("value") for name in ["softmax", "logsoftmax"]},
    "logical_not": lambda s: {"x": s.b},
    "gelu": lambda s: {"x": s.x, "approximate": "none"},
    "max": lambda s: {"*": (s.x,), "axis": -1},
    "min": lambda s: {"*": (s.x, s.x)},
    "matmul": lambda s: {"lhs": s.x, "rhs": np.ones((4, 2), np.float32)},
    "outer": lambda s: {"lhs": s.i, "rhs": s.i},
    "allgather": lambda s: {"inputs": [s.x, s.there], "signal_buffers": s.signals, "axis": 0},
    "argsort": lambda s: {"x": s.i, "ascending": True},
    "assert_same_device": lambda s: {"*": (s.x, s.i)},
    "avg_pool2d": lambda s: {**_window(s), "count_boundary": True},
    "max_pool2d": _window,
    "band_part": lambda s: {"x": s.x, "num_lower": 1, "num_upper": 1, "exclude": False},
    "bitcast": lambda s: {"x": s.x, "dtype": DType.int32},
    "broadcast_to": lambda s: {"x": s.x, "shape": (2, "n", 4), "out_dims": None},
    "buffer_create": lambda s: {"type": s.buffer.type},
    "buffer_load": lambda s: {"x": s.buffer},
    "buffer_load_slice": lambda s: {"x": s.buffer, "indices": [slice(0, 2)]},
    "buffer_store": lambda s: {"destination": s.buffer, "source": np.ones(4, np.float32)},
    "buffer_store_slice": lambda s: {
        "destination": s.buffer, "source": np.ones(2, np.float32), "indices": [slice(0, 2)],
    },
    "cache_attention": lambda s: {
        "blocks": ops.buffer_create(PAGES), **_numbers(), "q": np.ones((3, 4, 2), np.float32),
        "key_offsets": None, "sinks": None, "mask": "causal", "window": 0, "scale": 1.0,
    },
    "cache_load": lambda s: {
        "blocks": ops.buffer_create(PAGES), **_numbers(), "rows": 3, "part": 0,
    },
    "cache_store": lambda s: {
        "blocks": ops.buffer_create(PAGES), **_numbers(), "x": np.ones((3, 8), np.float32),
        "part": 0, "parts": 2, "column": 0,
    },
    "call": lambda s: {"graph": s.sub, "*": (s.x,), "prefix": ""},
    "cast": lambda s: {"x": s.x, "dtype": I64},
    "chunk": lambda s: {"x": s.x, "chunks": 2, "axis": 1},
    "concat": lambda s: {"original_vals": [s.x, s.x], "axis": 0},
    "cond": lambda s: {
        "pred": s.p, "out_types": [s.x.type], "then_fn": lambda: s.x, "else_fn": lambda: s.x * 2,
    },
    "constant": lambda s: {"value": [1.0, 2.0], "dtype": F32, "device": CPU},
    "constant_external": lambda s: {"name": "w", "type": TensorType(F32, [2])},
    "conv2d": lambda s: {**_conv(s), "groups": 1},
    "conv2d_transpose": lambda s: {**_conv(s), "filter": np.ones((2, 2, 2, 4), np.float32)},
    "conv3d": _solid,
    "custom": lambda s: {"name": "none", "device": CPU, "values": [s.x], "out_types": [s.x.type]},
    "inplace_custom": lambda s: {"name": "none", "device": CPU, "values": [s.buffer]},
    "dequantize": lambda s: {
        "encoding": QuantizationEncoding.Q4_0, "quantized": np.zeros((2, 36), np.uint8),
    },
    "qmatmul": lambda s: {
        "encoding": QuantizationEncoding.Q4_0, "config": None,
        "lhs": ops.broadcast_to(s.x[0:1, 0:1], [1, 64]), "*rhs": (np.zeros((2, 36), np.uint8),),
    },
    "matmul_blocks": lambda s: {
        "encoding": QuantizationEncoding.Q5_K, "lhs": ops.broadcast_to(s.x[0:1, 0:1], [1, 256]),
        "rhs": np.zeros((2, 176), np.uint8),
    },
    "matmul_float8": lambda s: {
        "lhs": np.ones((2, 8), np.float32), "rhs": np.ones((3, 8), FLOAT8),
        "scales": np.ones((1, 2), np.float32), "rows": 0, "columns": 4,
    },
    "matmul_float8_ragged": lambda s: {
        "lhs": np.ones((2, 8), np.float32), "rhs": np.ones((1, 3, 8), FLOAT8),
        "scales": np.ones((1, 3, 1), np.float32), "starts": np.array([0, 2], np.uint32),
        "ids": np.array([0], np.int32), "count": np.array(1, np.uint32), "rows": 1, "columns": 0,
    },
    "matmul_groups": lambda s: {
        "lhs": ops.broadcast_to(s.x[0:1, 0:1], [1, 64]), "words": np.zeros((8, 2), np.int32),
        "scales": np.zeros((2, 2), np.float16), "bits": 4,
    },
    "matmul_int8": lambda s: {
        "lhs": np.ones((2, 8), np.float32), "rhs": np.ones((3, 8), np.int8),
        "scales": np.ones(3, np.float32), "bias": np.ones(3, np.float32),
        "given": np.ones(2, np.float32), "activation": "relu",
    },
    "flatten": lambda s: {"x": s.x, "start_dim": 0, "end_dim": -1},
    "fold": lambda s: {
        "input": s.cube, "output_size": (3, 3), "kernel_size": (2, 2), "stride": 1,
        "dilation": 1, "padding": 0,
    },
    "expert_indices": lambda s: {"ids": np.array([1, 0], np.int32), "experts": 2},
    "gather": lambda s: {"input": s.x, "indices": s.i, "axis": 0},
    "gather_nd": lambda s: {"input": s.x, "indices": [[0, 1]], "batch_dims": 0},
    "hann_window": lambda s: {"window_length": 4, "device": CPU, "periodic": True, "dtype": F32},
    "irfft": lambda s: {
        "input_tensor": s.x, "n": 4, "axis": -1, "normalization": "backward",
        "input_is_complex": False, "buffer_size_mb": 512,
    },
    "grouped_matmul": lambda s: {
        "x": np.ones((2, 4), np.float32), "weight": np.ones((2, 3, 4), np.float32),
        "starts": np.array([0, 1, 2], np.uint32), "ids": np.array([0, 1], np.int32),
        "usage": np.array([1, 2], np.uint32),
    },
    "latent_attention": lambda s: {
        **_latents(), "q": np.ones((3, 4, 6), np.float32), "size": 4, "mask": "causal",
        "scale": 1.0,
    },
    "latent_chunk": lambda s: {
        **_latents(), "q": np.ones((3, 4, 5), np.float32), "k": np.ones((8, 4, 3), np.float32),
        "v": np.ones((8, 4, 3), np.float32), "chunk_offsets": np.array([0, 2, 5], np.uint32),
        "cache_offsets": np.zeros(2, np.uint32), "previous": None, "previous_state": None,
        "rope": 2, "size": 3, "column": 0, "mask": "causal", "scale": 1.0,
    },
    "latent_expand": lambda s: {
        **_latents(chunk=True), "weight": np.ones((8, 4), np.float32), "rows": 4,
    },
    "latent_load": lambda s: {**_latents(chunk=True), "rows": 4, "width": 4},
    "layer_norm": lambda s: {
        "input": s.x, "gamma": np.ones(4), "beta": np.ones(4), "epsilon": 1e-5,
    },
    "cache_add_lora": lambda s: {
        "blocks": ops.buffer_create(PAGES), **_numbers(), **_adapters(), "part": 0, "parts": 1,
        "column": 0, "row": 4,
    },
    "lora_product": lambda s: {
        **_adapters(), "cut": "columns", "parts": 1, "column": 0, "row": 2, "rows": 5,
    },
    "masked_scatter": lambda s: {"input": s.x, "mask": s.b, "updates": s.x, "out_dim": "k"},
    "nonzero": lambda s: {"x": s.x, "out_dim": "k"},
    "pad": lambda s: {"input": s.x, "paddings": [0, 0, 1, 1], "mode": "constant", "value": 0},
    "permute": lambda s: {"x": s.x, "dims": [1, 0]},
    "print": lambda s: {"value": s.x, "label": "x"},
    "watch": lambda s: {"value": s.x, "fn": len, "label": "x"},
    "range": _range,
    "ragged_attention": lambda s: {
        **{name: np.ones((3, 2, 4), np.float32) for name in "qkv"},
        "row_offsets": np.array([0, 1, 3], np.uint32), "lengths": np.array([1, 1], np.uint32),
        "mask": "causal", "window": 0, "scale": 1.0,
    },
    "ragged_sequences": lambda s: {"row_offsets": np.array([0, 1, 3], np.uint32), "rows": 3},
    "rebind": lambda s: {"x": s.x, "shape": ("m", 4), "message": "as many", "layout": None},
    "repeat_interleave": lambda s: {"x": s.x, "repeats": 2, "axis": 0, "out_dim": None},
    "reshape": lambda s: {"x": s.x, "shape": (-1,)},
    "resize": lambda s: {"input": s.image, "shape": (1, 8, 4, 4)},
    "sample_count": lambda s: {
        "counts": ops.buffer_create(COUNTS), "offsets": np.array([0, 2, 3], np.uint32),
        "tokens": np.array([4, 5]),
    },
    "sample_penalise": lambda s: {
        "logits": ops.buffer_create(LOGITS), "counts": np.ones((3, 2), np.int32),
        "offsets": np.array([0, 2, 3], np.uint32),
        "frequency": np.ones(2), "presence": np.ones(2), "repetition": np.ones(2),
    },
    "sample_scores": lambda s: {
        "logits": np.ones((2, 5)), **_rules(), "allowed": np.ones((2, 5), np.bool_),
    },
    "sample_token": lambda s: {
        "logits": np.ones((2, 5)), **_rules(), "uniform": np.ones(2) / 2,
        "allowed": np.ones((2, 5), np.bool_),
    },
    "sample_uniform": lambda s: {"seeds": np.ones(2, np.uint64), "count": 3},
    "scatter": lambda s: {
        "input": s.x, "updates": [[1.0]], "indices": [[0]], "axis": -1,
    },
    "scatter_nd": lambda s: {"input": s.x, "updates": [1.0], "indices": [[0, 0]]},
    "shape_to_tensor": lambda s: {"shape": s.x.shape},
    "slice_tensor": lambda s: {"x": s.x, "indices": [slice(None), 1]},
    "split": lambda s: {"x": s.x, "split_sizes": [1, 3], "axis": 1},
    "squeeze": lambda s: {"x": s.cube, "axis": 0},
    "stack": lambda s: {"values": [s.x, s.x], "axis": 0},
    "tile": lambda s: {"x": s.x, "repeats": [1, 2]},
    "top_k": lambda s: {"input": s.x, "k": 2, "axis": -1},
    "transfer_to": lambda s: {"x": s.x, "device": CPU},
    "transpose": lambda s: {"x": s.x, "axis_1": 0, "axis_2": 1},
    "unsqueeze": lambda s: {"x": s.x, "axis": 0},
    "where": lambda s: {"condition": s.b, "x": s.x, "y": s.x},
    "while_loop": lambda s: {
        "initial_values": s.x, "body": lambda *given: given,
        "predicate": lambda x, *_: ops.greater(ops.sum(ops.sum(x, 0))[0, 0], 0),
    },
    "random.uniform": lambda s: {"like": s.x.type, "range": (0, 1)},
    "random.normal": lambda s: {"like": s.x.type, "mean": 0.0, "std": 1.0},
    "random.gaussian": lambda s: {"like": s.x.type, "mean": 0.0, "std": 1.0},
    "random.set_seed": lambda s: {"seed": 1},
    "allreduce.sum": lambda s: {"inputs": [s.x, s.there], "signal_buffers": s.signals},
}  # fmt: skip
"""A good call of every operation."""

CALLED = frozenset({"then_fn", "else_fn", "predicate", "body"})
"""The arguments that are functions of the user."""

METHODS: dict[str, Callable[[Setting, Any], Any]] = {
    "x[_]": lambda s, v: s.x[v],
    "x[_:]": lambda s, v: s.x[v:],
    "x[::_]": lambda s, v: s.x[::v],
    "x[0, _]": lambda s, v: s.x[0, v],
    "buffer[_]": lambda s, v: s.buffer[v],
    "buffer[_] = x": lambda s, v: s.buffer.__setitem__(v, 1.0),
    "buffer[...] = _": lambda s, v: s.buffer.__setitem__(..., v),
    "x + _": lambda s, v: s.x + v,
    "_ // x": lambda s, v: s.x.__rfloordiv__(v),
    "x ** _": lambda s, v: s.x**v,
    "x @ _": lambda s, v: s.x @ v,
    "x == _": lambda s, v: s.x == v,
    "divmod": lambda s, v: divmod(s.x, v),
    "round": lambda s, v: round(s.x, v),
    "var": lambda s, v: s.x.var(v),
    "stdev": lambda s, v: s.x.stdev(v),
    "argmax": lambda s, v: s.x.argmax(v),
    "permute": lambda s, v: s.x.permute(v),
    "to": lambda s, v: s.x.to(v),
    "cast": lambda s, v: s.x.cast(v),
    "print": lambda s, v: s.x.print(v),
    "TensorValue": lambda s, v: TensorValue(v),
    "output": lambda s, v: s.graph.output(v),
    "add_weight": lambda s, v: s.graph.add_weight(v),
    "subgraph name": lambda s, v: s.graph.add_subgraph(v, lambda: None),
    "subgraph types": lambda s, v: s.graph.add_subgraph("t", None, v),
    "Graph name": lambda s, v: Graph(v),
    "Graph types": lambda s, v: Graph("t", input_types=v),
    "Graph extensions": lambda s, v: Graph("t", custom_extensions=v),
    "Graph module": lambda s, v: Graph("t", module=v),
    "TensorType dtype": lambda s, v: TensorType(v, [2]),
    "TensorType shape": lambda s, v: TensorType(F32, v),
    "TensorType dim": lambda s, v: TensorType(F32, [v]),
    "TensorType device": lambda s, v: TensorType(F32, [2], v),
    "BufferType shape": lambda s, v: BufferType(F32, v),
    "Dim": lambda s, v: Dim(v),
    "Shape": lambda s, v: Shape(v),
    "DeviceRef": lambda s, v: DeviceRef(v),
    "DeviceRef id": lambda s, v: DeviceRef("cpu", v),
    "Weight name": lambda s, v: Weight(v, F32, [2]),
    "Weight dtype": lambda s, v: Weight("w", v, [2]),
    "Weight shape": lambda s, v: Weight("w", F32, v),
    "Weight device": lambda s, v: Weight("w", F32, [2], v),
    "Weight align": lambda s, v: Weight("w", F32, [2], align=v),
}
"""What takes a value and is no function of ``ops``, by what it looks like."""


@dataclass(frozen=True)
class Finding:
    """A bad value for which something else than a typed error came out."""

    where: str
    value: str
    error: BaseException

    def __str__(self) -> str:
        text = type(self.error).__name__
        try:
            text += f": {str(self.error)[:100]}"
        except Exception:  # the error shows the value, whose text raises
            text += ": (its text raises)"
        return f"{self.where} <- {self.value}: {text}"


def function_of(name: str) -> Callable[..., Any]:
    """The operation ``name``, such as ``random.normal``."""
    found: Any = ops
    for part in name.split("."):
        found = getattr(found, part)
    called: Callable[..., Any] = found
    return called


def called(name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of the operation ``name`` for ``arguments``, as tables have them."""
    named = {key: value for key, value in arguments.items() if not key.startswith("*")}
    if "*rhs" in arguments:  # what stands before a star
        return function_of(name)(*named.values(), *arguments["*rhs"])
    if name == "call":
        return ops.call(named.pop("graph"), *arguments["*"], **named)
    return function_of(name)(*arguments.get("*", ()), **named)


def answer(where: str, value: str, act: Callable[[], Any]) -> Finding | None:
    """What ``act`` raises that is no typed error, or whose text raises; None for all else."""
    try:
        act()
    except MaxlabError as error:
        try:
            str(error).encode("utf-8")
            repr(error)
        except Exception as broken:
            return Finding(where, value, broken)
    except (Exception, RecursionError) as error:
        return Finding(where, value, error)
    return None


class Undone(Exception):  # noqa: N818 - no mistake: what was built is taken back
    """Takes back what a transaction has built."""


def swept(name: str, values: Mapping[str, Callable[[], Any]] = BAD) -> Iterator[Finding]:
    """What goes wrong when each argument of the operation ``name`` is each of ``values``."""
    setting = Setting()
    graph = setting.graph
    with graph:
        good = CALLS[name](setting)
        for key, old in good.items():
            for label, make in values.items():
                bad = make()
                if key in CALLED and callable(bad):
                    continue  # what it raises is the user's own error
                arguments = {**good, key: (bad, *old[1:]) if key.startswith("*") else bad}
                with suppress(Undone), graph.transaction():
                    found = answer(f"{name}({key})", label, partial(called, name, arguments))
                    raise Undone
                if found is not None:
                    yield found


def swept_method(name: str, values: Mapping[str, Callable[[], Any]] = BAD) -> Iterator[Finding]:
    """What goes wrong when each of ``values`` is given to the entry ``name`` of `METHODS`."""
    for label, make in values.items():
        setting = Setting()
        with setting.graph:
            found = answer(name, label, partial(METHODS[name], setting, make()))
        if found is not None:
            yield found

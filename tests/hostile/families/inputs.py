"""What callers give a model and a tensor: arrays of every kind, shape and layout, and no arrays."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError, deep

_models: dict[str, engine.Model] = {}

DTYPES: tuple[Any, ...] = (
    np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8,
    np.uint64, np.int64, np.bool_, np.complex64, object, "U3", "S2", "datetime64[s]", ">f4",
    "timedelta64[D]", [("a", "f4")],
)  # fmt: skip


def _ready() -> None:
    """One model, whose answer is known: ``x * 2 + sum(y)``."""
    kinds = [TensorType(DType.float32, ["n", 4]), TensorType(DType.int64, ["m"])]
    kinds = [TensorType(k.dtype, k.shape, DeviceRef.CPU()) for k in kinds]
    with Graph("known", input_types=kinds) as graph:
        x, y = (value.tensor for value in graph.inputs)
        graph.output(x * 2 + ops.cast(ops.sum(y), DType.float32))
    _models["known"] = engine.InferenceSession(num_threads=1).load(graph)
    _models["known"](np.ones((2, 4), np.float32), np.arange(3))


def _call(words: str, x: Any, y: Any = None) -> Case:
    def run(folder: Path) -> None:
        given = np.arange(3) if y is None else y
        (made,) = _models["known"](x, given)
        want = np.asarray(x, np.float32) * 2 + np.float32(np.asarray(given).sum())
        if not np.array_equal(made.to_numpy(), want, equal_nan=True):
            raise WrongResultError(f"{made.to_numpy()} instead of {want}")

    return Case(words, run)


def _tensor(words: str, value: Any) -> Case:
    def run(folder: Path) -> None:
        made = driver.Tensor.from_numpy(value)
        repr(made)
        if not np.array_equal(made.to_numpy(), value):
            raise WrongResultError(f"{made.to_numpy()!r} instead of {value!r}")

    return Case(words, run)


def _array(random: Random) -> Any:
    """An array that is one thing or another off what is wanted."""
    shape = random.choice([(2, 4), (0, 4), (2, 5), (4,), (), (1, 2, 4), (2, 4, 1), (1,) * 33])
    dtype = random.choice(DTYPES)
    array = np.zeros(shape, dtype)
    turn = random.randrange(10)
    if turn == 0:
        array = array[..., ::-1] if array.ndim else array
    elif turn == 1:
        array = np.zeros((8, 4), dtype)[::2]
    elif turn == 2:
        array = np.asfortranarray(array)
    elif turn == 3:
        array.flags.writeable = False
    elif turn == 4:
        array = np.broadcast_to(np.zeros((), dtype), shape)
    elif turn == 5 and not array.dtype.hasobject:
        raw = bytearray(array.nbytes + 1)
        array = np.frombuffer(raw, array.dtype, array.size, 1).reshape(shape)
    elif turn == 6:
        array = np.ma.masked_array(array, mask=random.random() < 0.5)
    elif turn == 7 and array.dtype != object and array.ndim:
        array = np.lib.stride_tricks.as_strided(array, shape, (0,) * array.ndim)
    elif turn == 8:
        array = array.view(type("Sub", (np.ndarray,), {}))
    return array


def _draw(random: Random) -> Case:
    if random.random() < 0.2:
        x = random.choice(WEIRD)
        return _call(f"called with {x!r:.80}", x)
    array = _array(random)
    words = f"{array.dtype} {array.shape} strides {array.strides} of {type(array).__name__}"
    if random.random() < 0.3:
        return _tensor(f"a tensor of {words}", array)
    return _call(f"called with {words}", array)


SEEDS = [
    _call(f"called with {value!r:.60}", value) for value in (*WEIRD, np.ma.masked_array([1.0]))
]
SEEDS += [
    _call("called with a list that is deep", deep()),
    _call("called with a masked array", np.ma.masked_array(np.ones((2, 4), np.float32), mask=True)),
    _tensor("a tensor of rank 33", np.zeros((1,) * 33, np.float32)),
]

FAMILIES = (Family("inputs", SEEDS, _draw, 4000, _ready),)

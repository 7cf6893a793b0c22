"""DLPack: producers that break the protocol, capsules with any numbers in their fields, and tensors
that go to NumPy and torch and come back. Where torch is missing they go to NumPy alone.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import MaxlabError, shown
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.driver.test_dlpack_hostile import Producer, capsule
from tests.graph.bad_values import BAD
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError

F32 = DType.float32
_models: list[engine.Model] = []
ROOM = 256
"""Bytes that the capsules of `capsule` have."""


def _ready() -> None:
    kind = TensorType(F32, ["n"], DeviceRef.CPU())
    graph = Graph("double", lambda x: x * 2, [kind])
    _models[:] = [engine.InferenceSession(num_threads=1).load(graph)]
    _models[0](np.ones(3, np.float32))
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "from_dlpack": Tensor.from_dlpack,
    "from_dlpack with a copy": lambda x: Tensor.from_dlpack(x, copy=True),
    "from_dlpack without a copy": lambda x: Tensor.from_dlpack(x, copy=False),
    "an input": lambda x: _models[0](x)[0],
    "a constant": lambda x: Graph("g", lambda: ops.constant(x)),
    "an operand": lambda x: Graph("g", lambda y: y + x, [TensorType(F32, [3])]),
    "what is stored": lambda x: Tensor.zeros([3], F32).__setitem__(slice(None), x),
}
"""Where a producer can be passed."""


def _taken(entry: str, producer: Any, *, readable: bool = True) -> None:
    try:
        made = ENTRIES[entry](producer)
    except MaxlabError as error:
        if not error.fix:
            raise WrongResultError(f"no fix: {error}") from error
        raise
    shown(made)
    if readable:
        repr(made)
    if readable and isinstance(made, Tensor):
        made.to_ml_numpy().tolist()


# ---------------------------------------------------------------- producers
def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


GIVEN: dict[str, Callable[[], Any]] = {
    **{f"{value!r:.40} #{n}": _always(value) for n, value in enumerate(WEIRD)
       if type(value) is not object},
    **BAD,
    **{f"a {kind.__name__}": partial(kind, "from the producer") for kind in (
        RuntimeError, BufferError, TypeError, ValueError, OSError, MemoryError, AttributeError,
        KeyError, StopIteration, RecursionError, AssertionError, OverflowError)},
    "an error whose text raises": type("Silent", (Exception,), {
        "__str__": lambda self: 1 // 0, "__repr__": lambda self: 1 // 0}),
    "a capsule": capsule,
    "a capsule that was used": lambda: _used(),  # noqa: PLW0108 - it is defined below
    "another capsule": lambda: capsule(name=b"x"),
    "a class": lambda: Producer,
}  # fmt: skip
"""What ``__dlpack__`` and ``__dlpack_device__`` give, or raise where it is an exception."""


def _used() -> Any:
    made = capsule()
    Tensor.from_dlpack(Producer(made))
    return made


def _producer(entry: str, given: str, device: str | None = None) -> Case:
    def run(folder: Path) -> None:
        where = (1, 0) if device is None else GIVEN[device]()
        _taken(entry, Producer(GIVEN[given](), where))

    return Case(f"{entry}, __dlpack__ gives {given}, its device is {device}", run)


class Odd:
    """A producer whose methods are no functions, or take other arguments."""


def _odd(entry: str, method: Any, device: Any, words: str) -> Case:
    def run(folder: Path) -> None:
        made = type("Odd", (Odd,), {"__dlpack__": method, "__dlpack_device__": device})()
        _taken(entry, made)

    return Case(f"{entry} of {words}", run)


def _host(self: Any = None) -> Any:
    return 1, 0


ODD: dict[str, tuple[Any, Any]] = {
    "no methods": (None, None),
    "a method without self": (capsule, _host),
    "a method without options": (lambda self: capsule(), _host),
    "a method that wants more": (lambda self, a, b: capsule(), _host),
    "itself": (lambda self, **_: self, _host),
    "a generator": (lambda self, **_: (yield), _host),
    "a device that grows": (lambda self, **_: capsule(), lambda self: iter(int, 1)),
    "a device of three": (lambda self, **_: capsule(), lambda self: (1, 0, 0)),
    "a device of floats": (lambda self, **_: capsule(), lambda self: (1.0, 0.0)),
    "a device of texts": (lambda self, **_: capsule(), lambda self: ("1", "0")),
    "no device": (lambda self, **_: capsule(), None),
    "endless calls": (lambda self, **_: self.__dlpack__(), _host),
}
"""Producers with odd methods: ``__dlpack__`` and ``__dlpack_device__``."""


# ---------------------------------------------------------------- fields
NUMBERS = (0, 1, -1, 2, 3, 63, 64, 65, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**61)


def _fields(random: Random) -> dict[str, Any]:
    """Fields of a capsule, a few of which are wrong."""
    wrong: dict[str, Callable[[], Any]] = {
        "ndim": lambda: random.choice((-1, 0, 1, 2, 64, 65, 100, 2**31 - 1, -(2**31))),
        "shape": lambda: [random.choice(NUMBERS) for _ in range(random.randrange(4))],
        "strides": lambda: [random.choice(NUMBERS) for _ in range(4)],
        "data": lambda: random.choice((0, None)),
        "dtype": lambda: tuple(
            random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 32, 64, 128, 255)) for _ in range(3)
        ),
        "device": lambda: (random.choice((0, 1, 2, 3, 4, 7, 13, 2**31 - 1)), random.choice((0, 9))),
        "offset": lambda: random.choice((0, 1, 4, 8, 2**32, 2**63, 2**64 - 1)),
        "name": lambda: random.choice(
            (b"dltensor", b"dltensor_versioned", b"used_dltensor", b"", b"DLTENSOR")
        ),
        "version": lambda: (random.choice((0, 1, 2, 2**32 - 1)), random.choice((0, 1, 99))),
    }
    chosen = random.sample(sorted(wrong), random.choice((1, 1, 2, 3)))
    fields = {name: wrong[name]() for name in chosen}
    if "ndim" in fields and "shape" not in fields:
        fields["shape"] = [1] * min(max(fields["ndim"], 0), 100)
        fields["strides"] = None
    if fields.get("strides") is not None:  # as many as axes, and a few more
        fields["strides"] = fields["strides"] * (1 + len(fields.get("shape", ())) // 4)
    if "ndim" in fields and fields["ndim"] > len(fields.get("shape", (3,))) and fields["ndim"] < 65:
        fields["ndim"] = len(fields.get("shape", (3,)))  # sizes that nobody wrote are any numbers
    return fields


def _inside(fields: dict[str, Any]) -> bool:
    """Whether what the fields describe lies in the memory that the capsule has."""
    shape = tuple(fields.get("shape", (3,)) or ())[: max(fields.get("ndim", 99), 0)]
    bits = fields.get("dtype", (2, 32, 1))[1]
    strides = fields.get("strides")
    if strides is None:
        strides = [int(np.prod(shape[i + 1 :], dtype=object)) for i in range(len(shape))]
    if 0 in shape:
        return True
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=False)]
    low = fields.get("offset", 0) + sum(r for r in reach if r < 0) * bits // 8
    high = fields.get("offset", 0) + (sum(r for r in reach if r > 0) + 1) * bits // 8
    return bool(low >= 0 and high <= ROOM)


def _capsule(entry: str, fields: dict[str, Any]) -> Case:
    def run(folder: Path) -> None:
        inside = _inside(fields)
        device = fields.get("device", (1, 0))
        # Memory that a capsule claims and does not have cannot be read by anybody.
        reached = entry if inside else "from_dlpack"
        _taken(reached, Producer(capsule(**fields), device), readable=inside)

    return Case(f"{entry} of a capsule with {fields}", run)


# ---------------------------------------------------------------- there and back
TURNS: dict[str, Callable[[Any, Any], Any]] = {
    "numpy": lambda x, t: np.from_dlpack(x),
    "numpy with a copy": lambda x, t: np.array(np.from_dlpack(x)),
    "maxlab": lambda x, t: Tensor.from_dlpack(x),
    "maxlab with a copy": lambda x, t: Tensor.from_dlpack(x, copy=True),
    "from_numpy": lambda x, t: Tensor.from_numpy(np.asarray(x)),
    "torch": lambda x, t: t.from_dlpack(x) if t else x,
    "torch of numpy": lambda x, t: t.from_numpy(np.array(x)) if t else x,
    "a view": lambda x, t: x[:],
    "every second row": lambda x, t: x[::2],
    "a row more": lambda x, t: x[None],
    "collected": lambda x, t: (gc.collect(), x)[1],
    "an unused capsule": lambda x, t: (x.__dlpack__(), x)[1],
    "an old capsule": lambda x, t: Producer(x.__dlpack__()),
    "a capsule that is used twice": lambda x, t: _twice(x),
}
"""Where memory goes: what makes another array of an array and the module ``torch``, or None."""


def _twice(x: Any) -> Any:
    made = x.__dlpack__()
    first = Tensor.from_dlpack(Producer(made))
    try:
        Tensor.from_dlpack(Producer(made))
    except MaxlabError:
        return first
    raise WrongResultError("a capsule was taken twice")


DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")


def _round(dtype: str, shape: tuple[int, ...], turns: list[str], read_only: bool) -> Case:
    def run(folder: Path) -> None:
        torch = sys.modules.get("torch")
        first = (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype).reshape(shape)
        first.flags.writeable = not read_only
        kept = first.copy()
        want = first
        made: Any = Tensor.from_numpy(first)
        for turn in turns:
            try:
                made = TURNS[turn](made, torch)
            except (BufferError, TypeError, AttributeError, IndexError) as error:
                if isinstance(error, MaxlabError) or isinstance(made, Tensor):
                    raise
                return  # what another library refuses to another one is its own affair
            want = {"every second row": want[::2], "a row more": want[None]}.get(turn, want)
        if isinstance(made, Producer):
            made = Tensor.from_dlpack(made)
        gc.collect()
        got = made.to_numpy() if isinstance(made, Tensor) else np.asarray(made)
        if got.dtype != want.dtype or not np.array_equal(got, want):
            raise WrongResultError(f"{got!r} instead of {want!r}")
        if not np.array_equal(first, kept):
            raise WrongResultError("the first array was changed")

    return Case(f"{dtype} {shape} {'read-only ' * read_only}to {' to '.join(turns)}", run)


SHAPES = ((3,), (4, 3), (2, 0, 5), (1, 1, 1), (1,) * 40, (64, 65))


def _draw(random: Random) -> Case:
    turn = random.random()
    entry = random.choice(sorted(ENTRIES))
    if turn < 0.25:
        device = random.choice(sorted(GIVEN)) if random.random() < 0.5 else None
        return _producer(entry, random.choice(sorted(GIVEN)), device)
    if turn < 0.3:
        name = random.choice(sorted(ODD))
        return _odd(entry, *ODD[name], name)
    if turn < 0.65:
        return _capsule(entry, _fields(random))
    turns = [random.choice(sorted(TURNS)) for _ in range(random.randrange(1, 6))]
    return _round(random.choice(DTYPES), random.choice(SHAPES), turns, random.random() < 0.3)


SEEDS = [
    *(_odd("from_dlpack", *ODD[name], name) for name in ODD),
    *(
        _capsule("from_dlpack", fields)
        for fields in (
            {"ndim": -1}, {"shape": [1] * 100}, {"ndim": 2**31 - 1}, {"data": 0},
            {"shape": None, "ndim": 2}, {"shape": [-3]}, {"shape": [2**62, 2**62]},
            {"strides": [2**62]}, {"offset": 2**64 - 1}, {"dtype": (99, 32, 1)},
            {"dtype": (2, 24, 1)}, {"dtype": (2, 32, 4)}, {"device": (77, 0)}, {"device": (2, 9)},
            {"version": (2, 0)}, {"name": b""},
        )
    ),
    *(_producer(entry, "capsule-int") for entry in ENTRIES),
    *(_producer("from_dlpack", "a capsule", given) for given in ("none", "text", "past-all")),
]  # fmt: skip

FAMILIES = (Family("dlpack", SEEDS, _draw, 3000, _ready, block=100),)

"""Random tensors: numbers that depend on a seed, an op and a place, and on nothing else.

The seed becomes a part of the graph. A model gives the same numbers at every call, in every
process, on the CPU and on a GPU, however many threads share the work; the random ops of one graph
give different ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.dtype import DType, check_unmasked
from maxlab.errors import ArgumentError, ArgumentTypeError, SeedError, missing
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, builder, cast, is_number, literal, staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike, Value
from maxlab.ir import DeviceRef, TensorType
from maxlab.opset.random import limits

SeedType = TensorType(DType.int64, [], DeviceRef.CPU())
"""The type of an input that ``set_seed`` takes: an int64 number on the CPU."""


_STREAM = "random stream"


@dataclass(frozen=True, slots=True)
class _Stream:
    """The state that the next random op of a graph is made with."""

    seed: int | TensorValue
    number: int = 0


@staged
def set_seed(seed: TensorValue | int = 0) -> None:
    """Starts the random ops that follow in this graph from ``seed``.

    The n-th random op after ``set_seed(seed)`` always makes the same numbers; another op, and
    another seed, make others.

    Args:
        seed: An int of up to 64 bits, which becomes a part of the graph, or a tensor of the graph
            of the type ``SeedType``, with which each call of the model chooses its numbers.

    Raises:
        NoGraphError: ML313, no graph is being built.
        ArgumentTypeError: ML302, ``seed`` is neither an int nor a tensor.
        ArgumentError: ML378, the int has more than 64 bits, or the tensor is not an int64 number.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> like = TensorType(DType.float32, [3], DeviceRef.CPU())
        >>> with Graph("g", input_types=[ops.random.SeedType]) as graph:
        ...     ops.random.set_seed(graph.inputs[0])
        ...     graph.output(ops.random.uniform(like))
        >>> model = engine.InferenceSession().load(graph)
        >>> one, other, again = (model(np.array(s))[0].to_numpy() for s in (1, 2, 1))
        >>> (one == again).all(), (one == other).any()
        (np.True_, np.False_)
    """
    b = builder(what="ops.random.set_seed")
    if isinstance(seed, Value) or hasattr(seed, "__tensorvalue__"):
        value = tensor(seed, "random.set_seed: the seed")
        if value.dtype is not DType.int64 or value.rank:
            shape = ", ".join(map(str, value.shape))
            raise ArgumentError(
                "ML378",
                f"random.set_seed: the seed is {value.dtype.name} [{shape}], and must be one int64",
                fix="give the graph an input of the type ops.random.SeedType",
            )
        b.state[_STREAM] = _Stream(value)
        return
    number = as_int("random.set_seed", seed, "the seed")
    if not -(2**63) <= number < 2**64:
        raise ArgumentError(
            "ML378",
            f"random.set_seed: the seed {number} has more than 64 bits",
            fix="use seed % 2**64",
        )
    b.state[_STREAM] = _Stream(number % 2**64)


def _draw(
    what: str, like: TensorType, dtype: DType, parameters: tuple[float, float]
) -> TensorValue:
    """A new random op, of the next stream of the current graph."""
    b = builder(what=f"ops.random.{what}")
    stream: _Stream | None = b.state.get(_STREAM)
    if stream is None:
        raise SeedError(
            "ML377",
            f"random.{what}: the graph {b.name!r} has no seed",
            fix="choose one first: ops.random.set_seed(0)",
        )
    operands, seed = [], 0
    if isinstance(stream.seed, int):
        seed = stream.seed
    else:
        value, place = stream.seed, like.device
        operands = [value if value.device == place else add_op("transfer", [value], device=place)]
    made = add_op(
        "random",
        operands,
        distribution=what,
        dtype=dtype,
        shape=tuple(like.shape),
        device=like.device,
        seed=seed,
        stream=stream.number,
        parameters=parameters,
    )
    b.state[_STREAM] = replace(stream, number=stream.number + 1)
    return made


def _like(what: str, like: Any) -> TensorType:
    if not isinstance(like, TensorType):
        raise ArgumentTypeError(
            "ML379",
            f"random.{what}: expected a TensorType, got {type(like).__name__}",
            fix="give dtype, shape and device: TensorType(DType.float32, [4], DeviceRef.CPU())",
        )
    return like


def _scalar(what: str, name: str, value: TensorValueLike) -> float | TensorValue:
    """``value`` as a float, when it is known now, or as a tensor of rank 0."""
    given: Any = value
    array = isinstance(given, (np.generic, np.ndarray))
    if is_number(given) or (array and np.ndim(given) == 0):
        if not (array and np.iscomplexobj(given)):  # of which float() would keep the real part
            check_unmasked(given, name)
            return float(given)
    found = tensor(value, f"random.{what}: {name}")
    if found.rank:
        raise ArgumentError(
            "ML378",
            f"random.{what}: {name} is one number, got a tensor of rank {found.rank}",
            fix="draw from the standard distribution, then multiply and add",
        )
    return found


def _bad(what: str, why: str, fix: str) -> ArgumentError:
    return ArgumentError("ML378", f"random.{what}: {why}", fix=fix)


def _affine(
    like: TensorType, drawn: TensorValue, scale: TensorValue, shift: TensorValue
) -> TensorValue:
    """``drawn * scale + shift`` in the dtype of ``like``."""
    made = add_op("add", [add_op("mul", [drawn, scale]), shift])
    return cast(made, like.dtype)


def _working(like: TensorType) -> DType:
    """The dtype that numbers of ``like`` are computed in before they are rounded."""
    return like.dtype if like.dtype is DType.float64 or not like.dtype.is_float() else DType.float32


def _operand(value: float | TensorValue, like: TensorType, dtype: DType) -> TensorValue:
    if isinstance(value, float):
        return literal(value, dtype, like.device)
    if value.device != like.device:
        value = add_op("transfer", [value], device=like.device)
    return cast(value, dtype)


@staged
def uniform(
    like: TensorType, range: tuple[TensorValueLike, TensorValueLike] = (0, 1)
) -> TensorValue:
    """Numbers spread evenly over ``range``, in the shape and dtype and on the device of ``like``.

    A number is the low bound plus 24 random bits of the distance (53 in float64), rounded; it is
    never below the low bound, and never the high one. Where a bound is a tensor, rounding may reach
    the high one.

    Args:
        like: What to make: float16, bfloat16, float32 or float64, of any shape.
        range: The low bound and the high one, which is left out: numbers, or tensors of rank 0.

    Raises:
        SeedError: ML377, ``set_seed`` was not called in this graph; it is a ``RuntimeError``.
        ArgumentError: ML378, ``range`` has not two bounds, the low one is not below the high one,
            they are not finite, or ``like.dtype`` has no number between them.
        ArgumentTypeError: ML379, ``like`` is not a ``TensorType``.
        DTypeError: ML107, ``like.dtype`` is not one of those.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> with Graph("g") as graph:
        ...     ops.random.set_seed(7)
        ...     like = TensorType(DType.float32, [3], DeviceRef.CPU())
        ...     graph.output(ops.random.uniform(like, (10, 20)))
        >>> engine.InferenceSession().load(graph)()[0].to_numpy()
        array([19.54597 , 14.069604, 10.060751], dtype=float32)
    """
    like = _like("uniform", like)
    try:
        bounds = tuple(range)
    except TypeError:
        bounds = ()
    if len(bounds) != 2:
        raise _bad("uniform", f"a range is two bounds, got {range!r}", "range=(0, 1)")
    low, high = (_scalar("uniform", f"bound {i}", x) for i, x in enumerate(bounds))
    if isinstance(low, float) and isinstance(high, float):
        if not low < high:
            raise _bad("uniform", f"the range [{low}, {high}) is empty", "put the lower first")
        if like.dtype.is_float():
            _check_range(low, high, like.dtype)
        return _draw("uniform", like, like.dtype, (low, high))
    dtype = _working(like)
    start, stop = _operand(low, like, dtype), _operand(high, like, dtype)
    width = add_op("sub", [stop, start])
    return _affine(like, _draw("uniform", like, dtype, (0.0, 1.0)), width, start)


def _check_range(low: float, high: float, dtype: DType) -> None:
    width, start, least, most = limits(low, high, dtype)
    if not (math.isfinite(width) and math.isfinite(start)):
        raise _bad(
            "uniform",
            f"the range [{low}, {high}) is too wide for {dtype.name}",
            "use finite bounds whose difference is finite",
        )
    if not (low <= least <= most < high):
        raise _bad(
            "uniform",
            f"{dtype.name} has no number in [{low}, {high})",
            "use a wider range, or float64",
        )


@staged
def gaussian(
    like: TensorType, mean: TensorValueLike = 0.0, std: TensorValueLike = 1.0
) -> TensorValue:
    """Normally distributed numbers, in the shape and dtype and on the device of ``like``.

    Two words become two numbers (Box and Muller), which reach 6.7 times ``std`` from ``mean``, 8.6
    times in float64. They are computed in float32 for the halves.

    Args:
        like: What to make: float16, bfloat16, float32 or float64, of any shape.
        mean: The mean: a number, or a tensor of rank 0.
        std: The standard deviation, above 0: a number, or a tensor of rank 0.

    Raises:
        SeedError: ML377, ``set_seed`` was not called in this graph; it is a ``RuntimeError``.
        ArgumentError: ML378, ``std`` is not above 0, a number is not finite, or a tensor has a
            rank.
        ArgumentTypeError: ML379, ``like`` is not a ``TensorType``.
        DTypeError: ML107, ``like.dtype`` is not one of those.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> with Graph("g") as graph:
        ...     ops.random.set_seed(7)
        ...     like = TensorType(DType.float64, [3], DeviceRef.CPU())
        ...     graph.output(ops.random.gaussian(like, mean=100, std=3))
        >>> engine.InferenceSession().load(graph)()[0].to_numpy()
        array([100.6891245 , 101.89802368, 103.39664052])
    """
    like = _like("gaussian", like)
    centre, spread = _scalar("gaussian", "mean", mean), _scalar("gaussian", "std", std)
    largest = float(np.finfo(np.float64 if like.dtype is DType.float64 else np.float32).max)
    if isinstance(centre, float) and not abs(centre) <= largest:
        raise _bad("gaussian", f"mean must be finite, got {centre}", "mean=0.0")
    if isinstance(spread, float) and not 0 < spread <= largest:
        raise _bad("gaussian", f"std must be above 0 and finite, got {spread}", "std=1.0")
    if isinstance(centre, float) and isinstance(spread, float):
        return _draw("gaussian", like, like.dtype, (centre, spread))
    dtype = _working(like)
    scale, shift = _operand(spread, like, dtype), _operand(centre, like, dtype)
    return _affine(like, _draw("gaussian", like, dtype, (0.0, 1.0)), scale, shift)


normal = gaussian

__all__ = ["SeedType", "gaussian", "normal", "set_seed", "uniform"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises the error for a name that is not there, with the name to use instead."""
        from maxlab.graph.elsewhere import RANDOM

        raise missing("ops.random", name, __all__, RANDOM)

"""Tensors of random numbers.

Each call draws other numbers: it takes the next key of the process, which the seed and the number
of calls decide. The numbers themselves depend on the key and the place in the tensor alone, so they
are the same on the CPU and on a GPU, and whenever they are computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from maxlab.driver import Device
from maxlab.driver import Tensor as Memory
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, shown
from maxlab.experimental import functional, recording
from maxlab.experimental.defaults import defaults
from maxlab.experimental.shapes import static_sizes
from maxlab.experimental.tracing import frozen
from maxlab.graph import DeviceRef, TensorType, TensorValue, ops
from maxlab.graph.operands import as_int
from maxlab.ir import user_location
from maxlab.opset.builder import current

_BITS = 2**64 - 1


class _Keys:
    """The keys of draws: a function of the seed and of how many there were."""

    def __init__(self) -> None:
        self.seed = 0
        self.drawn = 0
        self.lock = threading.Lock()

    def begin(self, seed: int) -> None:
        """Begins anew with ``seed``."""
        with self.lock:
            self.seed, self.drawn = seed & _BITS, 0

    def next(self) -> int:
        """The key of the next draw: 64 bits, as a number with a sign."""
        with self.lock:
            self.drawn += 1
            key = (self.seed + self.drawn * 0x9E3779B97F4A7C15) & _BITS
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            key = ((key ^ (key >> shift)) * factor) & _BITS
        key ^= key >> 31
        return key - 2**64 if key >= 2**63 else key


_keys = _Keys()


def set_seed(seed: int) -> None:
    """Restarts the draws of this process from ``seed``.

    A process begins with the seed 0.

    Raises:
        ArgumentTypeError: ML302, ``seed`` is no int.

    Example:
        >>> from maxlab.experimental import random
        >>> random.set_seed(7)
        >>> one = random.uniform((3,))
        >>> random.set_seed(7)
        >>> bool((random.uniform((3,)) == one).all()), bool((random.uniform((3,)) == one).any())
        (True, False)
    """
    _keys.begin(as_int("random.set_seed", seed, "the seed"))


def _drawn(function: Callable[..., TensorValue], like: Any, parameters: Any) -> Any:
    """Draws of the type ``like`` by ``function`` of ``ops.random``; a value of the graph that is
    being built, if there is one.
    """
    if isinstance(like, recording.kind):
        like = like.type
    if current() is not None:
        return function(like, *parameters)
    if isinstance(like, TensorType):
        static_sizes(f"random.{function.__name__}", like.shape)

    def draw(key: Any, *parameters: Any) -> TensorValue:
        ops.random.set_seed(key)
        return function(like, *parameters)

    key = recording.made_of(Memory.scalar(_keys.next(), DType.int64))
    return functional.applied(draw, (function, frozen(like)), (key, *parameters))


def _type(what: str, shape: Any, dtype: DType | None, device: Device | None) -> TensorType:
    sizes = static_sizes(f"random.{what}", shape)
    chosen, place = defaults(dtype, device)
    return TensorType(chosen, sizes, DeviceRef.from_device(place))


def uniform_like(like: TensorType | recording.Recorded, range: tuple[Any, Any] = (0, 1)) -> Any:
    """A tensor of ``like``, a type or a tensor, of numbers spread evenly over ``range``; see
    ``ops.random.uniform``.

    While a graph is being built it is a value of that graph, whose seed ``ops.random.set_seed``
    chooses.

    Args:
        like: What to make: float16, bfloat16, float32 or float64.
        range: The low bound and the high one, which is left out.

    Raises:
        ArgumentError: ML378 (a ValueError), ``range`` has not two bounds, or the low one is not
            below the high one.
        ArgumentTypeError: ML379, ``like`` is no type.
        DTypeError: ML107, ``like.dtype`` is not one of those.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.experimental import random
        >>> from maxlab.graph import TensorType
        >>> random.uniform_like(TensorType(DType.float32, [2, 3]), (-1, 1)).shape
        [Dim(2), Dim(3)]
    """
    return _drawn(ops.random.uniform, like, (range,))


def gaussian_like(like: TensorType | recording.Recorded, mean: Any = 0, std: Any = 1) -> Any:
    """A tensor of ``like``, a type or a tensor, of normally distributed numbers; see
    ``ops.random.gaussian``.

    While a graph is being built it is a value of that graph, whose seed ``ops.random.set_seed``
    chooses.

    Args:
        like: What to make: float16, bfloat16, float32 or float64.
        mean: The mean.
        std: The standard deviation, above 0.

    Raises:
        ArgumentError: ML378 (a ValueError), ``std`` is not above 0.
        ArgumentTypeError: ML379, ``like`` is no type.
        DTypeError: ML107, ``like.dtype`` is not one of those.

    Example:
        >>> from maxlab.experimental import random
        >>> from maxlab.experimental.tensor import Tensor
        >>> random.gaussian_like(Tensor.zeros((2, 3)), mean=100, std=2).shape
        [Dim(2), Dim(3)]
    """
    return _drawn(ops.random.gaussian, like, (mean, std))


def uniform(
    shape: Iterable[Any] = (),
    range: tuple[float, float] = (0, 1),
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Any:
    """A tensor of ``shape`` of numbers spread evenly over ``range``.

    Args:
        shape: The sizes of the axes.
        range: The low bound and the high one, which is left out.
        dtype: The dtype; where it is left out, that of ``tensor.defaults``.
        device: The device; where it is left out, that of ``tensor.defaults``.

    Raises:
        ArgumentError: ML378 (a ValueError), ``range`` has not two bounds, or the low one is not
            below the high one; ML813, ``shape`` has the name of a size.
        DTypeError: ML107, ``dtype`` is none of float16, bfloat16, float32 and float64.

    Example:
        >>> from maxlab.experimental import random
        >>> x = random.uniform((100,), range=(5, 6))
        >>> bool((x >= 5).all()), bool((x < 6).all())
        (True, True)
    """
    _pair(range)
    return uniform_like(_type("uniform", shape, dtype, device), range)


def _pair(range: Any) -> None:
    if not isinstance(range, (tuple, list)):
        raise ArgumentTypeError(
            "ML379",
            f"random.uniform: range is two bounds, got {shown(range)}",
            at=user_location(),
            fix="range=(0, 1)",
        )


def gaussian(
    shape: Iterable[Any] = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Any:
    """A tensor of ``shape`` of normally distributed numbers.

    Args:
        shape: The sizes of the axes.
        mean: The mean.
        std: The standard deviation, above 0.
        dtype: The dtype; where it is left out, that of ``tensor.defaults``.
        device: The device; where it is left out, that of ``tensor.defaults``.

    Raises:
        ArgumentError: ML378 (a ValueError), ``std`` is not above 0; ML813, ``shape`` has the name
            of a size.
        DTypeError: ML107, ``dtype`` is none of float16, bfloat16, float32 and float64.

    Example:
        >>> from maxlab.experimental import random
        >>> random.gaussian((2, 3), mean=3.0, std=0.5).shape
        [Dim(2), Dim(3)]
    """
    return gaussian_like(_type("gaussian", shape, dtype, device), mean, std)


normal = gaussian
normal_like = gaussian_like

__all__ = [
    "gaussian",
    "gaussian_like",
    "normal",
    "normal_like",
    "set_seed",
    "uniform",
    "uniform_like",
]

"""New tensors: of numbers, of one number, of numbers that go up, of the memory of an array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from maxlab.driver import CPU, Device
from maxlab.driver import Tensor as Memory
from maxlab.dtype import DType, check_array, check_scalar
from maxlab.errors import ArgumentError, ArgumentTypeError, shown
from maxlab.experimental.defaults import defaults
from maxlab.experimental.recording import Recorded, made_of, type_in
from maxlab.experimental.shapes import static_sizes
from maxlab.graph import TensorType, TensorValue
from maxlab.graph.operands import is_number, to_numpy
from maxlab.ir import user_location


class Factories(Recorded):
    """The methods of tensors that make new ones."""

    __slots__ = ()

    @classmethod
    def constant(
        cls, value: Any, *, dtype: DType | None = None, device: Device | None = None
    ) -> Self:
        """A tensor of the numbers ``value``, which are copied.

        Args:
            value: A number, a nested list of numbers, or an array.
            dtype: The dtype; where it is left out, that of `defaults`.
            device: The device; where it is left out, that of `defaults`.

        Raises:
            DTypeError: ML102, a number that ``dtype`` cannot hold.
            ArgumentError: ML316, rows of several lengths.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.constant([[1, 2], [3, 4]], dtype=DType.int32)
            Tensor([[1, 2],
                    [3, 4]], dtype=int32, shape=(2, 2), device=cpu:0)
        """
        chosen, place = defaults(dtype, device)
        if is_number(value):
            return _on(Memory.scalar(value, chosen), place)  # type: ignore[no-any-return]
        array = check_array(to_numpy(value), chosen)
        memory = Memory(chosen, array.shape)
        memory.to_ml_numpy()[...] = array
        return _on(memory, place)  # type: ignore[no-any-return]

    @classmethod
    def full(
        cls,
        shape: Iterable[Any],
        value: Any,
        *,
        dtype: DType | None = None,
        device: Device | None = None,
    ) -> Self:
        """A tensor of ``shape`` whose elements all are ``value``.

        Args:
            shape: The sizes of the axes.
            value: A number.
            dtype: The dtype; where it is left out, that of `defaults`.
            device: The device; where it is left out, that of `defaults`.

        Raises:
            DTypeError: ML102, ``dtype`` cannot hold ``value``.
            ArgumentError: ML813, ``shape`` has the name of a size.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.full((3,), 7)
            Tensor([7., 7., 7.], dtype=float32, shape=(3,), device=cpu:0)
        """
        sizes = static_sizes("full", shape)
        chosen, place = defaults(dtype, device)
        number = check_scalar(value, chosen)
        memory = Memory(chosen, sizes)
        memory.to_ml_numpy()[...] = number
        return _on(memory, place)  # type: ignore[no-any-return]

    @classmethod
    def zeros(
        cls, shape: Iterable[Any], *, dtype: DType | None = None, device: Device | None = None
    ) -> Self:
        """A tensor of ``shape`` of zeros; see `full`.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.zeros((2,))
            Tensor([0., 0.], dtype=float32, shape=(2,), device=cpu:0)
        """
        return cls.full(shape, 0, dtype=dtype, device=device)

    @classmethod
    def ones(
        cls, shape: Iterable[Any], *, dtype: DType | None = None, device: Device | None = None
    ) -> Self:
        """A tensor of ``shape`` of ones; see `full`.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.ones((2,))
            Tensor([1., 1.], dtype=float32, shape=(2,), device=cpu:0)
        """
        return cls.full(shape, 1, dtype=dtype, device=device)

    @classmethod
    def full_like(cls, type: TensorType | Recorded, value: Any) -> Self:
        """A tensor of ``type``, or of the type of a tensor, whose elements all are ``value``.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.experimental.tensor import Tensor
            >>> from maxlab.graph import TensorType
            >>> Tensor.full_like(TensorType(DType.int32, [2]), 5)
            Tensor([5, 5], dtype=int32, shape=(2,), device=cpu:0)
        """
        like = _like("full_like", type)
        return cls.full(like.shape, value, dtype=like.dtype, device=like.device.to_device())

    @classmethod
    def zeros_like(cls, type: TensorType | Recorded) -> Self:
        """A tensor of ``type``, or of the type of a tensor, of zeros.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.zeros_like(Tensor.ones((2,)))
            Tensor([0., 0.], dtype=float32, shape=(2,), device=cpu:0)
        """
        return cls.full_like(type, 0)

    @classmethod
    def ones_like(cls, type: TensorType | Recorded) -> Self:
        """A tensor of ``type``, or of the type of a tensor, of ones.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.ones_like(Tensor.zeros((2,)))
            Tensor([1., 1.], dtype=float32, shape=(2,), device=cpu:0)
        """
        return cls.full_like(type, 1)

    @classmethod
    def arange(
        cls,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        *,
        dtype: DType | None = None,
        device: Device | None = None,
    ) -> Self:
        """A tensor of the numbers from ``start`` to ``stop``, which is left out.

        Args:
            start: The first number; where there is no ``stop``, that, and the first one is 0.
            stop: Where the numbers end.
            step: The distance of two neighbours, not 0.
            dtype: The dtype; where it is left out, that of `defaults`, float32 on the CPU.
            device: The device; where it is left out, that of `defaults`.

        Raises:
            ArgumentError: ML816, ``step`` is 0, or it leads away from ``stop``.
            DTypeError: ML102, ``dtype`` cannot hold a number.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.arange(5, 15, 4)
            Tensor([ 5.,  9., 13.], dtype=float32, shape=(3,), device=cpu:0)
        """
        first, end = (0, start) if stop is None else (start, stop)
        for name, number in (("start", first), ("stop", end), ("step", step)):
            if not is_number(number):
                raise ArgumentTypeError(
                    "ML816",
                    f"arange: {name} must be a number, got {shown(number)}",
                    at=user_location(),
                    fix="write Tensor.arange(0, 10, 2)",
                )
        if step == 0 or (end - first) * step < 0:
            raise ArgumentError(
                "ML816",
                f"arange from {first} to {end}: the step {step} does not lead there",
                at=user_location(),
                fix="give the step the sign of stop - start",
            )
        chosen, place = defaults(dtype, device)
        made = np.arange(first, end, step)
        return cls.constant(check_array(made, chosen), dtype=chosen, device=place)

    @classmethod
    def range_like(cls, type: TensorType | Recorded) -> Self:
        """A tensor of ``type``, or of the type of a tensor, whose rows along the last axis are
        0, 1, 2 …

        Raises:
            ArgumentError: ML816, a type of rank 0 has no axis.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.experimental.tensor import Tensor
            >>> from maxlab.graph import TensorType
            >>> Tensor.range_like(TensorType(DType.int32, (2, 4)))
            Tensor([[0, 1, 2, 3],
                    [0, 1, 2, 3]], dtype=int32, shape=(2, 4), device=cpu:0)
        """
        like = _like("range_like", type)
        sizes = static_sizes("range_like", like.shape)
        if not sizes:
            raise ArgumentError(
                "ML816",
                "range_like: a type of rank 0 has no axis to count along",
                at=user_location(),
                fix="give a type with at least one dim",
            )
        made = np.broadcast_to(np.arange(sizes[-1]), sizes)
        return cls.constant(
            check_array(made, like.dtype), dtype=like.dtype, device=like.device.to_device()
        )

    @classmethod
    def from_dlpack(cls, array: Any) -> Self:
        """A tensor of the memory of ``array``, an array of NumPy, PyTorch, JAX, CuPy, or of another
        library with DLPack. What writes into that memory later changes the tensor.

        Raises:
            ArgumentTypeError: ML421, the object does not speak DLPack.
            DTypeError: ML103, a dtype that tensors do not have.

        Example:
            >>> import numpy as np
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.from_dlpack(np.array([1.0, 2.0], np.float32)) * 2
            Tensor([2., 4.], dtype=float32, shape=(2,), device=cpu:0)
        """
        if isinstance(array, cls):
            return array
        if isinstance(array, np.ndarray):
            return made_of(Memory.from_numpy(array))  # type: ignore[no-any-return]
        return made_of(Memory.from_dlpack(array))  # type: ignore[no-any-return]


def _on(memory: Memory, device: Device) -> Any:
    return made_of(memory if device is CPU() else memory.to(device))


def _like(what: str, given: Any) -> TensorType:
    found = given
    if isinstance(given, Recorded):
        found = type_in(given)
    elif isinstance(given, TensorValue):
        found = given.type
    if not isinstance(found, TensorType):
        raise ArgumentTypeError(
            "ML379",
            f"{what}: expected a TensorType, got {shown(given)}",
            at=user_location(),
            fix="give dtype, shape and device: TensorType(DType.float32, [4], DeviceRef.CPU())",
        )
    return found


__all__ = ["Factories"]

"""The elements of a tensor: what reads them, and so has them computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Generator, Iterator
from typing import Any, ClassVar

import numpy as np

from maxlab import trace
from maxlab.driver import Tensor as Memory
from maxlab.driver import printing
from maxlab.errors import ArgumentTypeError
from maxlab.experimental.reading import lock, read
from maxlab.experimental.recording import Recorded, made_of, type_in
from maxlab.ir import user_location


class Elements(Recorded):
    """The methods of tensors that read elements."""

    __slots__ = ()

    has_elements: ClassVar[bool] = True
    """Whether it has elements: a tensor that stands for a value of a graph has none."""

    def _read(self) -> Memory:
        """The memory of the elements, which are computed now if they were not."""
        memory = self._memory
        if memory is None:
            with lock:
                if self._memory is None:  # no other thread was quicker
                    read(self._trace, (self._slot,))  # type: ignore[arg-type]  # it is recorded
            memory = self._memory
            assert memory is not None
        return memory

    @property
    def realize(self) -> Realized:
        """The tensor, whose value is in memory now; ``await x.realize`` gives it too.

        The value is computed when ``realize`` is read, with or without ``await``, in a running
        event loop or without one.

        Example:
            >>> import asyncio
            >>> from maxlab.experimental.tensor import Tensor
            >>> async def main():
            ...     x = Tensor.ones((2,)) * 3
            ...     await x.realize
            ...     return x.real
            >>> asyncio.run(main())
            True
        """
        self._read()
        return Realized(self)

    def __await__(self) -> Generator[Any, None, Any]:
        return self.realize.__await__()

    def item(self) -> Any:
        """The element of a tensor that has one element, of any rank, as a bool, int or float.

        Raises:
            ArgumentTypeError: ML827 (a TypeError), the tensor has more elements, or none.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> (Tensor.ones((1, 1)) * 3).item()
            3.0
        """
        self._require_one("item()")
        memory = self._read()
        value = memory.on_host().to_ml_numpy().reshape(())[()]
        return float(value) if memory.dtype.is_float() else value.item()

    def _require_one(self, what: str) -> None:
        sizes = tuple(type_in(self).shape.static_dims)
        if math.prod(sizes) != 1:
            raise ArgumentTypeError(
                "ML827",
                f"{what} needs a tensor of one element, got shape {sizes}",
                at=user_location(),
                fix="choose one, x[0, 0].item(), or ask of all: F.sum(x).item(), x.any(), x.all()",
            )

    def tolist(self) -> Any:
        """The elements in nested lists."""
        return self.numpy().tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as an array of NumPy, which shares their memory on the CPU. Types that NumPy
        does not have are those of ``ml_dtypes``."""
        return self._read().on_host().to_ml_numpy()

    to_numpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._read().on_host().__array__(dtype, copy)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._contiguous().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._read().__dlpack_device__()

    def _contiguous(self) -> Memory:
        return self._read()

    def __bool__(self) -> bool:
        self._require_one("the truth of a tensor")
        return bool(self.item())

    def __float__(self) -> float:
        self._require_one("float()")
        return float(self.item())

    def __int__(self) -> int:
        self._require_one("int()")
        return int(self.item())

    def __index__(self) -> int:
        self._require_one("an index")
        return operator.index(self.item())

    def __len__(self) -> int:
        self._require_axis("len()")
        return int(type_in(self).shape[0])

    def __iter__(self) -> Iterator[Any]:
        self._require_axis("a loop")
        memory = self._read()
        return iter([made_of(memory[i]) for i in range(memory.shape[0])])

    def _require_axis(self, what: str) -> None:
        if not type_in(self).shape:
            raise ArgumentTypeError(
                "ML828",
                f"{what} over a tensor of rank 0, which has no axis",
                at=user_location(),
                fix="x.item() is its element",
            )

    def __contains__(self, item: object) -> bool:
        equal: Any = self == item
        return bool(equal.any(None).item())

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        self._require_one(f"the format {spec!r}")
        return format(self.item(), spec)

    def __str__(self) -> str:
        return printing.plain(self._read())

    def __repr__(self) -> str:
        return printing.text(self._read())

    def __shown__(self) -> str:
        """The text of messages about it; no element is computed for them."""
        type = type_in(self)
        return f"Tensor(dtype={type.dtype.name}, shape={tuple(type.shape)}, device={type.device})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)


class Realized:
    """The result of ``x.realize``: the tensor, to be awaited or used at once."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __await__(self) -> Generator[Any, None, Any]:
        yield from ()  # it never waits
        return self.tensor

    def __call__(self) -> Realized:
        """Itself: ``await x.realize()`` is ``await x.realize``."""
        return self


__all__ = ["Elements", "Realized"]

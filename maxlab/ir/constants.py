"""Attributes that hold data: arrays, and functions that are called while a graph runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.digests import blake2b


class Constant:
    """An array kept in the IR, compared and hashed by its contents.

    ``array`` is never written; arrays of one element know their ``item``.
    """

    __slots__ = ("_digest", "array")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        view = array.view()
        view.flags.writeable = False
        self.array = view
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """A hash of dtype, shape and contents."""
        if self._digest is None:
            contents = np.ascontiguousarray(self.array)
            state = blake2b(f"{self.array.dtype}{self.array.shape}".encode(), digest_size=16)
            state.update(contents.view(np.uint8).data if contents.size else b"")
            self._digest = state.hexdigest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constant({self.array.dtype}{list(self.array.shape)})"


class HostCall:
    """A function that a compiled graph calls between its kernels, on the thread that runs it.

    It is equal to itself only: two calls are never taken for one, so a function may draw random
    numbers. It cannot be written to a file.

    Attributes:
        kind: Who does the work, ``"torch"``; the kind of the step.
        name: What is done, ``"torch.convolution"``.
        text: What to show where a kernel has its source.
        run: Called with the addresses and with the shapes of the results, then of the operands,
            all of them contiguous; fills the results. What it raises ends the run of the graph.
    """

    __slots__ = ("kind", "name", "run", "text")

    def __init__(
        self,
        kind: str,
        name: str,
        text: str,
        run: Callable[[Sequence[int], Sequence[tuple[int, ...]]], None],
    ) -> None:
        self.kind = kind
        self.name = name
        self.text = text
        self.run = run

    def __repr__(self) -> str:
        return f"HostCall({self.name!r})"


__all__ = ["Constant", "HostCall"]

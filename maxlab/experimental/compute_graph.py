"""The recorded operations of tensors as one graph, under the names of MAX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from maxlab.errors import GraphError
from maxlab.experimental import recording
from maxlab.experimental.mirror import Mirror
from maxlab.experimental.reading import lock, read
from maxlab.experimental.tracing import Trace
from maxlab.graph import Graph
from maxlab.ir import Value as IrValue
from maxlab.ir import user_location


class ComputeGraph:
    """Recorded operations that are not computed yet, as a graph.

    Tensors need none: each thread records by itself, and a read computes. A `ComputeGraph` is a
    graph of one's own: tensors become inputs of it, or bring what is recorded of them into it.

    Args:
        context: Kept for compatibility; must be None.
        sources: Tensors that become inputs; of a mapping, its values.
        seed: What the draws of ``experimental.random`` follow, which this begins anew; None, or 0,
            leaves them as they are.

    Raises:
        GraphError: ML319, a context.

    Example:
        >>> import asyncio
        >>> from maxlab.experimental.tensor import ComputeGraph, Tensor
        >>> x = Tensor.ones((2,))
        >>> y = x * 3
        >>> graph = ComputeGraph()
        >>> graph.add_unrealized(y)
        >>> [op.name for op in graph.graph.function.ops]
        ['mo.constant', 'mo.mul']
        >>> asyncio.run(graph.evaluate(y))
        >>> y.real
        True
    """

    def __init__(
        self,
        context: Any = None,
        sources: Mapping[Any, Any] | Iterable[Any] = (),
        seed: int = 0,
    ) -> None:
        if context is not None:
            raise GraphError(
                "ML319",
                "a compute graph takes no MLIR context",
                at=user_location(),
                fix="leave context= out",
            )
        if seed:
            from maxlab.experimental import random

            random.set_seed(seed)
        self._trace = Trace()
        for tensor in sources.values() if isinstance(sources, Mapping) else sources:
            self.add_source(tensor)

    def add_source(self, tensor: Any) -> None:
        """Makes ``tensor``, which is computed if it is not yet, an input."""
        memory = tensor._read()
        with lock:
            self._trace.enter(memory, tensor.type)

    def add_unrealized(self, tensor: Any) -> None:
        """Records the operations of ``tensor`` here. A tensor with a value is an input."""
        if tensor.real:
            self.add_source(tensor)
        else:
            recording.bring(tensor, self._trace)

    async def evaluate(self, tensor: Any) -> None:
        """Computes ``tensor``, with all that it needs and that is still in use."""
        if not tensor.real:
            read(tensor._trace, (tensor._slot,))

    @property
    def graph(self) -> Graph:
        """The recorded operations as a graph without outputs."""
        mirror = self._trace.mirror
        if mirror is None:
            mirror = self._trace.mirror = Mirror(self._trace)
        mirror.follow()
        return mirror  # type: ignore[no-any-return]

    @property
    def sources(self) -> dict[IrValue, Any]:
        """The tensors that are inputs, by the values of the IR that stand for them in ``graph``:
        those that ``to_mlir`` of its inputs gives, since the inputs themselves are no keys."""
        values = self.graph.values  # type: ignore[attr-defined]  # of a mirror
        memory = self._trace.memory
        return {
            values[slot].to_mlir(): recording.made_of(memory[slot])
            for slot in memory
            if slot in values
        }

    @property
    def unrealized(self) -> WeakValueDictionary[int, Any]:
        """The tensors that are recorded here and have no value, by their number."""
        found: WeakValueDictionary[int, Any] = WeakValueDictionary()
        for slot, handle in list(self._trace.handles.items()):
            tensor = handle()
            if tensor is not None:
                found[slot] = tensor
        return found


__all__ = ["ComputeGraph"]

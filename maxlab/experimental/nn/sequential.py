"""``Sequential``: modules one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from maxlab.experimental.nn import states
from maxlab.experimental.nn.module import Module
from maxlab.experimental.tensor import Tensor
from maxlab.graph import TensorType


class Sequential(Module[[Tensor], Tensor]):
    """Modules, each of which takes what the one before it gives; its children ``0``, ``1`` …

    Args:
        *modules: The modules in the order in which they are applied.

    Raises:
        ArgumentTypeError: ML748, one is no module.

    Example:
        >>> from maxlab.experimental.nn import LayerNorm, Linear, Sequential
        >>> from maxlab.experimental.tensor import Tensor
        >>> model = Sequential(Linear(5, 10), LayerNorm(10), Linear(10, 5))
        >>> model(Tensor.ones([5])).shape
        [Dim(5)]
    """

    def __init__(self, *modules: Module[[Tensor], Tensor]) -> None:
        for number, module in enumerate(modules):
            states.check_module(f"Sequential: module {number}", module, Module)
        self.modules = list(modules)
        """The modules in the order in which they are applied."""

    @property
    def children(self) -> Iterable[tuple[str, Module[..., Any]]]:
        """The modules under their numbers: pairs ``(name, module)``."""
        return [(str(number), module) for number, module in enumerate(self.modules)]

    def forward(self, x: Tensor) -> Tensor:
        """The result of the last module; ``x`` where there is none."""
        for module in self.modules:
            x = module(x)
        return x

    def input_types(self) -> Sequence[TensorType]:
        """Those of the first module."""
        return self.modules[0].input_types() if self.modules else super().input_types()

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[Module[[Tensor], Tensor]]:
        return iter(self.modules)

    def __getitem__(self, index: int) -> Module[[Tensor], Tensor]:
        return self.modules[index]

    def __bool__(self) -> bool:
        return True  # a module, whether or not it holds any

    def __rich_repr__(self) -> Iterator[Any]:
        yield from self.modules


__all__ = ["Sequential"]

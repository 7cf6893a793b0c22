"""``LayerList`` and ``Sequential``: layers in an order, named by their positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence
from typing import Any, SupportsIndex, overload

from maxlab.errors import ArgumentTypeError
from maxlab.nn.calls import Layer
from maxlab.nn.module import Module, changed


class LayerList(Module, MutableSequence[Layer]):
    """A list of layers. The modules in it belong to the model, with the names ``0``, ``1``…

    Everything that a Python list does works. Slices are plain lists.

    Args:
        layers: The layers.

    Raises:
        ArgumentTypeError: ML715, something that is not a layer.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> layers = nn.LayerList([nn.Linear(2, 2, DType.float32, DeviceRef.CPU())])
        >>> layers.append(nn.Linear(2, 1, DType.float32, DeviceRef.CPU()))
        >>> list(layers.state_dict())
        ['0.weight', '1.weight']
    """

    def __init__(self, layers: Iterable[Layer] | Layer = (), *more: Layer) -> None:
        if more or not isinstance(layers, Iterable):
            layers = [layers, *more]  # type: ignore[list-item]  # each is checked below
        self._layers: list[Layer] = [_layer(layer) for layer in layers]

    @property
    def sublayers(self) -> dict[str, Module]:
        """The modules of the list by position, then those that are attributes of a subclass."""
        found = {str(i): item for i, item in enumerate(self._layers) if isinstance(item, Module)}
        return {**found, **super().sublayers}

    # ------------------------------------------------------------ reading
    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        return self._layers[index]

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._layers)

    def __contains__(self, item: object) -> bool:
        return any(layer is item for layer in self._layers)

    def __add__(self, other: Iterable[Layer]) -> LayerList:
        return LayerList([*self._layers, *other])

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{', '.join(type(item).__name__ for item in self._layers)}])"

    # ------------------------------------------------------------ changing
    @overload
    def __setitem__(self, index: SupportsIndex, value: Layer) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Layer]) -> None: ...
    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._layers[index] = [_layer(item) for item in value]
        else:
            self._layers[index] = _layer(value)
        changed()

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        del self._layers[index]
        changed()

    def append(self, layer: Layer) -> None:
        """Add ``layer`` at the end."""
        self._layers.append(_layer(layer))
        changed()

    def insert(self, i: SupportsIndex, layer: Layer) -> None:
        """Add ``layer`` before position ``i``; the layers from there on get new names."""
        self._layers.insert(i, _layer(layer))
        changed()

    def extend(self, layer: Iterable[Layer]) -> None:
        """Add several layers at the end, each as one element."""
        self._layers.extend([_layer(item) for item in layer])
        changed()

    def sort(self, *, key: Any, reverse: bool = False) -> None:
        """Order the layers by ``key``."""
        self._layers.sort(key=key, reverse=reverse)
        changed()

    def copy(self) -> list[Any]:
        """The layers as a plain list."""
        return list(self._layers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: a list only holds layers.

        Raises:
            NotImplementedError: Always; call the layers one by one, or use ``Sequential``.
        """
        raise NotImplementedError(
            "a LayerList is not called: call its layers one by one, or use Sequential"
        )


class Sequential(LayerList):
    """Layers of which each is called with the output of the one before.

    A layer that returns a tuple passes its elements as the arguments of the next.

    Args:
        layers: The layers, at least one when it is called.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> cpu = DeviceRef.CPU()
        >>> sizes = [(4, 8), (8, 2)]
        >>> model = nn.Sequential([nn.Linear(i, o, DType.float32, cpu) for i, o in sizes])
        >>> graph = Graph("two", model, [TensorType(DType.float32, ["n", 4])])
        >>> graph.output_types[0].shape
        [Dim('n'), Dim(2)]
    """

    @property
    def layers(self) -> list[Any]:
        """The layers as a plain list."""
        return self.copy()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the last layer; the first gets the arguments."""
        first, *rest = self._layers or (_Same(),)
        made = first(*args, **kwargs)
        for layer in rest:
            made = layer(*made) if isinstance(made, tuple) else layer(made)
        return made


class _Same(Layer):
    """Returns its argument: the layer of a ``Sequential`` without layers."""

    def __call__(self, x: Any) -> Any:
        return x


def _is_of_tensors(value: object) -> bool:
    """Whether ``value`` is a module of eager tensors."""
    return any(base.__module__ == "maxlab.experimental.nn.module" for base in type(value).__mro__)


def _layer(value: Any) -> Layer:
    if not isinstance(value, Layer):
        raise ArgumentTypeError(
            "ML715",
            f"a list of layers holds layers, got {type(value).__name__}"
            + (" of maxlab.experimental.nn" if _is_of_tensors(value) else ""),
            fix="use modules of tensors in all of the model, or in none of it"
            if _is_of_tensors(value)
            else "derive the class from nn.Module",
        )
    return value

"""``PrintHook``: what goes into each layer of a model and comes out of it, when the model runs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maxlab import files
from maxlab.errors import ArgumentTypeError, shown
from maxlab.graph import BufferValue, TensorValue, ops
from maxlab.nn.calls import Layer, add_layer_hook, remove_layer_hook, running_path
from maxlab.nn.comm import Signals
from maxlab.nn.module import Module, recursive_named_layers
from maxlab.opset.builder import current
from maxlab.tabular import aligned

_COUNTS = "calls of layers"


class PrintHook:
    """Prints the tensors that go into each layer and come out of it, each time a model runs.

    Make it before the graph is built: it is a layer hook, which puts operations that print behind
    each layer. Made inside of ``with Graph(...):`` it belongs to that graph, otherwise to all
    graphs until it is removed.

    A tensor's label is the name of its layer, which ``name_layers`` gives or else its path in the
    graph, then ``-input_0``, ``-input_1`` and so on, or the name of a keyword argument, or
    ``-output``. A layer that is called again in one graph has ``@2`` behind its name.

    Args:
        export_path: A folder where the tensors are written too, a file ``<label>.npy`` for each,
            which each run replaces; it is made when needed. None for no files. Numbers of fewer
            than 32 bits that NumPy does not know, such as bfloat16, are written as float32.

    Attributes:
        calls: How often each layer was called while graphs were built, by its name.

    Raises:
        ArgumentTypeError: ML701, ``export_path`` is not a path.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine, nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> model = nn.Sequential([nn.Linear(2, 1, DType.float32, DeviceRef.CPU())])
        >>> model.load_state_dict({"0.weight": np.ones((1, 2), np.float32)})
        >>> hook = nn.PrintHook()
        >>> hook.name_layers(model)
        >>> graph = Graph("sum", model, [TensorType(DType.float32, [1, 2])])
        >>> hook.remove()
        >>> loaded = engine.InferenceSession().load(graph, weights_registry=model.state_dict())
        >>> _ = loaded(np.array([[1, 2]], np.float32))
        model.0-input_0 = tensor([[1., 2.]], dtype=float32, shape=[1, 2])
        model.0-output = tensor([[3.]], dtype=float32, shape=[1, 1])
        model-input_0 = tensor([[1., 2.]], dtype=float32, shape=[1, 2])
        model-output = tensor([[3.]], dtype=float32, shape=[1, 1])
    """

    def __init__(self, export_path: str | os.PathLike[str] | None = None) -> None:
        if not isinstance(export_path, str | os.PathLike | None):
            raise ArgumentTypeError(
                "ML701",
                f"PrintHook: export_path must be a path or None, got {shown(export_path)}",
                fix="pass the name of a folder",
            )
        self._export_path = None if export_path is None else os.fspath(export_path)
        self._names: dict[int, tuple[Layer, str]] = {}  # the layer too, as ids are used again
        self._steps = 0
        self._active = True
        self.calls: Counter[str] = Counter()
        add_layer_hook(self)

    @property
    def export_path(self) -> str | None:
        """The folder where tensors are written; None where they are not."""
        return self._export_path

    def name_layers(self, model: Layer) -> None:
        """Give ``model`` and the layers below it names: ``model``, then the path of attributes.

        Args:
            model: The model.
        """
        named: Any = [("model", model)]
        if isinstance(model, Module):
            named = recursive_named_layers(model, "model")
        for name, layer in named:
            self._names[id(layer)] = (layer, name)

    def __call__(
        self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any
    ) -> None:
        """Add to the graph that is being built what prints the tensors of a call of ``layer``."""
        if not self._active:
            return
        _, name = self._names.get(id(layer), (layer, ""))
        name = name or running_path() or type(layer).__name__
        self.calls[name] += 1
        graph = current()
        counts: Counter[str] = Counter()
        if graph is not None:
            counts = graph.state.setdefault(_COUNTS, {}).setdefault(self, counts)
        counts[name] += 1
        if counts[name] > 1:
            name = f"{name}@{counts[name]}"
        for place, value in enumerate(args):
            self.print_value(f"{name}-input_{place}", value)
        for keyword, value in kwargs.items():
            self.print_value(f"{name}-input_{keyword}", value)
        self.print_value(f"{name}-output", outputs)

    def print_value(self, name: str, value: Any) -> bool:
        """Add to the graph that is being built what prints ``value``, and tell whether it can.

        Args:
            name: The label.
            value: A tensor or a buffer; or a list, tuple or dict of them, whose places or keys
                follow the label. Signal buffers, and values that are no part of the graph, are not
                printed.

        Returns:
            Whether anything was printed.
        """
        if isinstance(value, (list, tuple)):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            printed = [self.print_value(f"{name}_{key}", item) for key, item in value.items()]
            return any(printed)
        if isinstance(value, BufferValue):
            if list(value.shape) == [Signals.NUM_BYTES]:
                return False
            value = ops.buffer_load(value)
        if not isinstance(value, TensorValue):
            return False
        ops.print(value, name)
        if self._export_path is not None:
            folder, file = Path(self._export_path), re.sub(r"[^\w.@-]", "_", name)
            ops.watch(value, lambda array: self._write(folder, file, array), name)
        return True

    def _write(self, folder: Path, file: str, array: np.ndarray[Any, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        more = f"-step_{self._steps}" if self._steps else ""
        if array.dtype.kind == "V" or array.dtype.isbuiltin != 1:
            array = array.astype(np.float32)  # exact, and NumPy's format lacks these types
        with files.replacing(folder / f"{file}{more}.npy", "the values of a layer") as out:
            np.lib.format.write_array(out, array, allow_pickle=False)

    def step(self) -> None:
        """Keep the files that were written: runs from now on write others, ``<label>-step_1.npy``
        and so on."""
        self._steps += 1

    def summary(self) -> str:
        """The layers with the number of calls while graphs were built, as a table."""
        rows = [("layer", "calls"), *((name, str(count)) for name, count in self.calls.items())]
        return "\n".join(aligned(rows, right=(1,)))

    def remove(self) -> None:
        """Remove the hook: graphs that are built from now on do not print. Those that were built
        still do."""
        self._active = False
        remove_layer_hook(self)


__all__ = ["PrintHook"]

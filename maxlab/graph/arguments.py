"""The arguments that a graph is made from, checked."""

from __future__ import annotations

from typing import Any

from maxlab.errors import ArgumentTypeError, GraphError, shown
from maxlab.graph.kernel_library import KernelLibrary, gathered
from maxlab.graph.operands import is_array
from maxlab.graph.parameters import MADE
from maxlab.graph.shelf import Shelf
from maxlab.ir import Function, Type, user_location


def refuse_mlir(context: Any, module: Any) -> None:
    """Raises if a graph is given objects of MLIR."""
    if context is not None or not (module is None or isinstance(module, Shelf)):
        what = "a context" if context is not None else f"module={module!r}"
        raise GraphError(
            "ML319",
            f"a graph takes no MLIR objects, got {what}",
            fix="leave context= out: types and places are equal wherever they are made"
            if context is not None
            else "pass a maxlab.graph.Module",
        )


def libraries(custom_extensions: Any, kernel_library: Any) -> KernelLibrary:
    """One library of all kernels that a graph is given."""
    found = gathered(custom_extensions)
    if kernel_library is None:
        return found
    return gathered([kernel_library, found] if len(found) > 0 else kernel_library)


def add_inputs(function: Function, input_types: Any) -> None:
    """Adds an input of each type to ``function``."""
    if isinstance(input_types, Type):
        raise ArgumentTypeError(
            "ML320",
            f"input_types is {input_types}, expected a list of types",
            at=user_location(),
            fix=f"write a list: {MADE}",
        )
    for type in input_types:
        if not isinstance(type, Type):
            like = "array.dtype, array.shape" if is_array(type) else "dtype, shape"
            raise ArgumentTypeError(
                "ML320",
                f"an input type is {shown(type)}, expected a TensorType or BufferType",
                fix=f"write TensorType({like})",
            )
        function.add_input(type)

"""Prepares a graph for its compilation: the kernels of its custom ops, and its devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.driver import Device
from maxlab.engine.placing import placed_of
from maxlab.graph import Graph
from maxlab.graph.kernel_library import gathered
from maxlab.ir import DeviceRef, Function, Op, Value
from maxlab.ir.types import Typed
from maxlab.opset.custom import DECLARED, complete, require_declared
from maxlab.opset.custom import OPS as CUSTOM


def with_kernels(graph: Graph, given: Sequence[Any]) -> Function:
    """The function of ``graph``, or a copy whose custom ops are those of libraries.

    Args:
        graph: The graph.
        given: What libraries are named by, the first that declares an op counts.

    Raises:
        ArgumentError: ML760, nobody has declared a custom op of a graph that was read.
        MaxlabError: A library cannot be read, or declares an op otherwise than the graph calls it.
    """
    libraries = [gathered(one) for one in given]
    function = graph.function
    if not any(op.name in CUSTOM for op in function.walk()):
        return function
    work = function.clone()
    for op in work.walk():
        if op.name in CUSTOM:
            name = op.attrs["name"]
            library = next((found for found in libraries if name in found), None)
            own = graph._kernel_library
            if library is None and op.attrs["source"] not in DECLARED and name in own:
                library = own  # the graph was read from a file, with a library beside it
            if library is None:
                require_declared(op.attrs, op.loc)
            else:
                library.verify_custom_op(op)
                declared = library[name]
                values = complete(declared, dict(op.attrs["parameters"]))
                op.set_attr("parameters", tuple(values.items()))
                op.set_attr("file", declared.file)
                op.set_attr("line", declared.line)
                op.set_attr("source", declared.source)
    return work


def devices_of(function: Function, devices: Sequence[Device]) -> dict[DeviceRef, Device]:
    """Those of ``devices`` that ``function`` names, each by its name. Where there are no virtual
    CPUs, every CPU is the host, and is not among them.

    Raises:
        DeviceError: ML617, the function names a device that is not among ``devices``.
    """
    values: list[tuple[Value, Op | None]] = [(v, None) for v in function.inputs]
    values += [(v, op) for op in function.walk() for v in op.results]
    places = (
        (
            value.type.device,
            f"the input {value.name}" if op is None else op.name.removeprefix("mo."),
            op.loc if op is not None else None,
        )
        for value, op in values
        if isinstance(value.type, Typed)
    )
    return placed_of(places, function.name, devices)


__all__ = ["devices_of", "with_kernels"]

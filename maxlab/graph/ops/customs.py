"""Ops of users, with kernels of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, MaxlabError, ShapeError
from maxlab.graph.build import explain, require_graph, staged, tensor
from maxlab.ir import DeviceRef, TensorType, Type
from maxlab.opset.custom import OP, bind, complete

if TYPE_CHECKING:
    from maxlab.graph.graph import Graph
    from maxlab.graph.value import Value


@staged
def custom(
    name: str,
    device: Any,
    values: Sequence[Value],
    out_types: Sequence[Type],
    parameters: Mapping[str, bool | int | str | DType] | None = None,
) -> list[Value]:
    """The results of the custom op ``name``, one for each of ``out_types``.

    The op is declared in a kernel library of the graph: ``Graph(..., custom_extensions=[path])``.

    Args:
        name: The name in the declaration.
        device: The ``DeviceRef`` or ``driver.Device`` where it runs, and all its tensors live.
        values: The operands, as declared.
        out_types: The tensor types of the results; they must agree with the declaration.
        parameters: Values that are compiled into the kernel; those left out have their defaults.

    Raises:
        ArgumentError: ML760, no library declares ``name``; ML764, another number of operands or
            results; ML767, an unknown or missing parameter, or one that is none of its choices.
        ArgumentTypeError: ML768, a parameter of another type, or types that are no tensor types;
            ML317, an operand that is no tensor; ML397, ``device`` is no device.
        DTypeError: ML765, an element type that is not the declared one.
        ShapeError: ML766, a rank or a dim that is not the declared one.
        DeviceError: ML769, the op has no body for ``device``, or a tensor is elsewhere.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> kernels = '''
        ... // @op scale(x: T[*shape]) -> (y: T[*shape])
        ... // @types T: float32 | float16
        ... // @params BY: int = 2
        ... // @both
        ... store(y, i, BY * load(x, i));
        ... '''
        >>> vector = TensorType(DType.float32, ["n"])
        >>> with Graph("g", input_types=[vector], custom_extensions=[kernels]) as graph:
        ...     x = graph.inputs[0]
        ...     graph.output(*ops.custom("scale", DeviceRef.CPU(), [x], [vector], {"BY": 3}))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([1, 2], np.float32))[0].to_numpy()
        array([3., 6.], dtype=float32)
    """
    graph = require_graph("ops.custom")
    if not isinstance(name, str):
        raise ArgumentTypeError(
            "ML768", f"custom: the name must be a string, got {name!r}", fix="pass the op's name"
        )
    declared = graph._kernel_library[name]
    place = DeviceRef.from_device(device)
    operands = [tensor(x, f"{name}: operand {n}") for n, x in enumerate(_listed(name, values))]
    types = [_tensor_type(name, type) for type in _listed(name, out_types)]
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: the parameters must be a dict, got {parameters!r}",
            fix="pass parameters={'NAME': value}",
        )
    chosen = complete(declared, parameters or {})
    owned = [graph._own(x) for x in operands]
    try:
        bind(declared, [x.type for x in operands], types, chosen, place)
    except MaxlabError as error:
        if not error.why:
            explain(error, owned)
        raise
    _require_known_dims(graph, name, types)
    attrs = {
        "name": name,
        "parameters": tuple(chosen.items()),
        "types": tuple(types),
        "device": place,
        "file": declared.file,
        "line": declared.line,
        "source": declared.source,
    }
    made: Any = graph._append(OP, owned, types, attrs)
    return list(made) if isinstance(made, list) else [made]


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: values and out_types are lists, got {given!r}",
            fix="put it into a list: [x]",
        )
    from maxlab.graph.value import Value

    if isinstance(given, Value):
        raise ArgumentTypeError(
            "ML768", f"{name}: values is a list of tensors, got one", fix="put it into a list: [x]"
        )
    return list(given)


def _tensor_type(name: str, type: Any) -> TensorType:
    if not isinstance(type, TensorType):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: an out_type must be a TensorType, got {type!r}",
            fix="write TensorType(DType.float32, [4], device=device)",
        )
    return type


def _require_known_dims(graph: Graph, name: str, types: Sequence[TensorType]) -> None:
    """Refuse results with dims whose sizes nothing in the graph tells."""
    wanted = {p.name for type in types for p in type.shape.parameters}
    if wanted <= set(graph._function.parameters):
        return
    known = set(graph._function.parameters)
    for op in graph._function.ops:
        for result in op.results:
            if isinstance(result.type, TensorType):
                known.update(p.name for p in result.type.shape.parameters)
    for missing in sorted(wanted - known):
        raise ShapeError(
            "ML766",
            f"{name}: the dim {missing!r} of out_types is the size of nothing in the graph",
            fix=f"use a dim of an input, or a number; the dims are {', '.join(sorted(known))}",
        )


__all__ = ["custom"]

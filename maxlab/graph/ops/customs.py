"""Ops of users, with kernels of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, MaxlabError, ShapeError
from maxlab.graph.build import explain, require_graph, staged, tensor
from maxlab.graph.chains import effect
from maxlab.ir import DeviceRef, OpaqueType, TensorType, Type
from maxlab.opset.custom import INPLACE, OP, bind, complete, is_effect, require_unchanging
from maxlab.opset.declared import Declaration
from maxlab.opset.inplace import as_tensors, require_apart, require_buffers

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
    One that makes or takes opaque handles has a place in the order of effects, as one that changes
    buffers: it is neither dropped nor merged with another call.

    Args:
        name: The name in the declaration.
        device: The ``DeviceRef`` or ``driver.Device`` where it runs, and all its tensors live.
        values: The operands, as declared: tensors, and handles.
        out_types: The types of the results, ``TensorType`` or ``OpaqueType``; they must agree with
            the declaration.
        parameters: Values that are compiled into the kernel; those left out have their defaults.

    Raises:
        ArgumentError: ML760, no library declares ``name``; ML764, another number of operands or
            results; ML767, an unknown or missing parameter, or one that is none of its choices.
        ArgumentTypeError: ML768, a parameter of another type, or types that are none of results;
            ML317, an operand that is no tensor; ML397, ``device`` is no device; ML784, a handle of
            another type, or in the place of a tensor; ML790, the op changes operands in place.
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
    declared = _declaration(graph, "custom", name)
    require_unchanging(declared)
    place = DeviceRef.from_device(device)
    operands = [_value(name, n, x) for n, x in enumerate(_listed(name, values))]
    types, attrs = _bound(graph, declared, place, operands, out_types, parameters)
    if is_effect(declared):
        return effect(INPLACE.removeprefix("mo."), operands, place, **attrs)
    made: Any = graph._append(OP, [graph._own(x) for x in operands], types, attrs)
    return list(made) if isinstance(made, list) else [made]


@staged
def inplace_custom(
    name: str,
    device: Any,
    values: Sequence[Value],
    out_types: Sequence[Type] | None = None,
    parameters: Mapping[str, bool | int | str | DType] | None = None,
) -> list[Value]:
    """The results of the custom op ``name``, which changes buffers, or what opaque handles hold, in
    place.

    The kernel runs behind all loads, stores, prints and custom ops with buffers or handles that
    were written before it, and in front of those that come later. A buffer or a handle that the
    declaration does not call ``inout`` is only read, as it is then.

    Args:
        name: The name in the declaration, whose ``inout`` operands are what it changes.
        device: The ``DeviceRef`` or ``driver.Device`` where it runs, and all its operands live.
        values: The operands, as declared: buffers for those that are ``inout``, buffers or tensors
            for the others, and handles; at least one is a buffer or a handle.
        out_types: The types of results besides, as declared; none when left out.
        parameters: Values that are compiled into the kernel; those left out have their defaults.

    Raises:
        ArgumentTypeError: ML787, no value is a buffer or a handle; ML788, a tensor for an ``inout``
            operand; ML768, ML784, ML317 and ML397, as ``ops.custom``.
        ArgumentError: ML789, what is changed is given twice; ML760, ML764 and ML767, as
            ``ops.custom``.
        DTypeError: ML765, an element type that is not the declared one.
        ShapeError: ML766, a rank or a dim that is not the declared one.
        DeviceError: ML769, the op has no body for ``device``, or an operand is elsewhere.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, ops
        >>> kernels = '''
        ... // @op increment(inout x: T[*shape])
        ... // @types T: float32 | int32
        ... // @both
        ... store(x, i, load(x, i) + 1);
        ... '''
        >>> counters = BufferType(DType.int32, ["n"], DeviceRef.CPU())
        >>> with Graph("count", input_types=[counters], custom_extensions=[kernels]) as graph:
        ...     x = graph.inputs[0].buffer
        ...     _ = ops.inplace_custom("increment", device=x.device, values=[x])
        ...     graph.output()
        >>> given = np.array([0, 5], np.int32)
        >>> engine.InferenceSession().load(graph)(given), given
        ([], array([1, 6], dtype=int32))
    """
    graph = require_graph("ops.inplace_custom")
    declared = _declaration(graph, "inplace_custom", name)
    place = DeviceRef.from_device(device)
    operands = [_operand(name, n, x) for n, x in enumerate(_listed(name, values))]
    require_buffers(declared, [x.type for x in operands])
    _, attrs = _bound(graph, declared, place, operands, out_types or (), parameters)
    require_apart(declared, [graph._own(x) for x in operands])
    return effect(INPLACE.removeprefix("mo."), operands, place, **attrs)


def _declaration(graph: Graph, what: str, name: Any) -> Declaration:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            "ML768", f"{what}: the name must be a string, got {name!r}", fix="pass the op's name"
        )
    return graph._kernel_library[name]


def _value(name: str, number: int, given: Any) -> Any:
    """A handle as it is, anything else as a tensor."""
    from maxlab.graph.value import _OpaqueValue

    return given if isinstance(given, _OpaqueValue) else tensor(given, f"{name}: operand {number}")


def _operand(name: str, number: int, given: Any) -> Any:
    """A buffer or a handle as it is, anything else as a tensor."""
    from maxlab.graph.value import BufferValue, HasBufferValue, TensorValue

    if isinstance(given, HasBufferValue) and not isinstance(given, TensorValue):
        given = given.__buffervalue__()
    if isinstance(given, BufferValue):
        return given
    return _value(name, number, given)


def _bound(
    graph: Graph,
    declared: Declaration,
    place: DeviceRef,
    operands: Sequence[Any],
    out_types: Sequence[Type],
    parameters: Any,
) -> tuple[list[Type], dict[str, Any]]:
    """The types of the results and the attributes of a call of ``declared``."""
    name = declared.name
    types = [_result_type(name, type) for type in _listed(name, out_types)]
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: the parameters must be a dict, got {parameters!r}",
            fix="pass parameters={'NAME': value}",
        )
    chosen = complete(declared, parameters or {})
    owned = [graph._own(x) for x in operands]
    try:
        bind(declared, as_tensors([x.type for x in operands]), types, chosen, place)
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
    return types, attrs


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


def _result_type(name: str, type: Any) -> Type:
    if not isinstance(type, (TensorType, OpaqueType)):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: an out_type must be a TensorType or an OpaqueType, got {type!r}",
            fix="write TensorType(DType.float32, [4], device=device)",
        )
    made: Type = type
    return made


def _require_known_dims(graph: Graph, name: str, types: Sequence[Type]) -> None:
    """Refuse results with dims whose sizes nothing in the graph tells."""
    tensors = [type for type in types if isinstance(type, TensorType)]
    wanted = {p.name for type in tensors for p in type.shape.parameters}
    if wanted <= set(graph._function.parameters):
        return
    known = set(graph._function.parameters)
    for op in graph._function.walk():
        for result in op.results:
            if isinstance(result.type, TensorType):
                known.update(p.name for p in result.type.shape.parameters)
    for missing in sorted(wanted - known):
        raise ShapeError(
            "ML766",
            f"{name}: the dim {missing!r} of out_types is the size of nothing in the graph",
            fix=f"use a dim of an input, or a number; the dims are {', '.join(sorted(known))}",
        )


__all__ = ["custom", "inplace_custom"]

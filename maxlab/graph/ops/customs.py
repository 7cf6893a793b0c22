"""Ops of users, with kernels of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, MaxlabError, ShapeError
from maxlab.graph.build import builder, explain, staged, tensor
from maxlab.graph.value import BufferValue, HasBufferValue, TensorValue, Value, _OpaqueValue
from maxlab.ir import DeviceRef, OpaqueType, TensorType, Type
from maxlab.opset.builder import Builder
from maxlab.opset.custom import INPLACE, OP, complete, is_effect, require_unchanging
from maxlab.opset.inplace import as_tensors, require_apart, require_buffers

if TYPE_CHECKING:
    from maxlab.opset.declarations import Declaration


@staged
def custom(
    name: str,
    device: Any,
    values: Sequence[Value],
    out_types: Sequence[Type],
    parameters: Mapping[str, bool | int | float | str | DType | Sequence[int]] | None = None,
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
    b = builder(what="ops.custom")
    declared = _declaration(b, "custom", name)
    require_unchanging(declared)
    place = DeviceRef.from_device(device)
    operands = [_value(name, n, x) for n, x in enumerate(_listed(name, values))]
    attrs = _bound(b, declared, place, operands, out_types, parameters)
    op = INPLACE if is_effect(declared) else OP
    return list(b.op(op.removeprefix("mo."), operands, **attrs))


@staged
def inplace_custom(
    name: str,
    device: Any,
    values: Sequence[Value],
    out_types: Sequence[Type] | None = None,
    parameters: Mapping[str, bool | int | float | str | DType | Sequence[int]] | None = None,
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
    b = builder(what="ops.inplace_custom")
    declared = _declaration(b, "inplace_custom", name)
    place = DeviceRef.from_device(device)
    operands = [_operand(name, n, x) for n, x in enumerate(_listed(name, values))]
    require_buffers(declared, [x.type for x in operands])
    attrs = _bound(b, declared, place, operands, out_types or (), parameters)
    require_apart(declared, [x._ir() for x in operands])
    return list(b.op(INPLACE.removeprefix("mo."), operands, **attrs))


def _declaration(b: Builder[Any], what: str, name: Any) -> Declaration:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            "ML768", f"{what}: the name must be a string, got {name!r}", fix="pass the op's name"
        )
    declared: Declaration = b.kernels[name]
    return declared


def _value(name: str, number: int, given: Any) -> Any:
    """A handle as it is, anything else as a tensor."""

    return given if isinstance(given, _OpaqueValue) else tensor(given, f"{name}: operand {number}")


def _operand(name: str, number: int, given: Any) -> Any:
    """A buffer or a handle as it is, anything else as a tensor."""

    if isinstance(given, HasBufferValue) and not isinstance(given, TensorValue):
        given = given.__buffervalue__()
    if isinstance(given, BufferValue):
        return given
    return _value(name, number, given)


def _bound(
    b: Builder[Any],
    declared: Declaration,
    place: DeviceRef,
    operands: Sequence[Any],
    out_types: Sequence[Type],
    parameters: Any,
) -> dict[str, Any]:
    """The attributes of a call of ``declared``."""
    from maxlab.opset.custom_binding import bind

    name = declared.name
    types = [_result_type(name, type) for type in _listed(name, out_types)]
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: the parameters must be a dict, got {parameters!r}",
            fix="pass parameters={'NAME': value}",
        )
    chosen = complete(declared, parameters or {})
    try:
        bind(declared, as_tensors([x.type for x in operands]), types, chosen, place)
    except MaxlabError as error:
        if not error.why:
            explain(error, [x._ir() for x in operands])
        raise
    _require_known_dims(b, name, types)
    return {
        "name": name,
        "parameters": tuple(chosen.items()),
        "types": tuple(types),
        "device": place,
        "file": declared.file,
        "line": declared.line,
        "source": declared.source,
    }


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ArgumentTypeError(
            "ML768",
            f"{name}: values and out_types are lists, got {given!r}",
            fix="put it into a list: [x]",
        )

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


def _require_known_dims(b: Builder[Any], name: str, types: Sequence[Type]) -> None:
    """Refuse results with dims whose sizes nothing in the graph tells."""
    tensors = [type for type in types if isinstance(type, TensorType)]
    wanted = {p.name for type in tensors for p in type.shape.parameters}
    if not wanted:
        return
    known = set(b.dim_names())
    for missing in sorted(wanted - known):
        raise ShapeError(
            "ML766",
            f"{name}: the dim {missing!r} of out_types is the size of nothing in the graph",
            fix=f"use a dim of an input, or a number; the dims are {', '.join(sorted(known))}",
        )


__all__ = ["custom", "inplace_custom"]

"""Branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ResultsError, UnsupportedError
from maxlab.graph.build import builder, is_array, is_weak, literal, staged, tensor
from maxlab.graph.foreign import users_own
from maxlab.graph.ops.devices import transfer_to
from maxlab.graph.value import BufferValue, TensorValue, Value, _OpaqueValue
from maxlab.ir import BufferType, DeviceRef, TensorType, Type
from maxlab.opset.builder import Builder
from maxlab.opset.control import is_flag


@staged
def cond(
    pred: Any,
    out_types: Iterable[Type] | None,
    then_fn: Callable[[], Any],
    else_fn: Callable[[], Any],
) -> list[TensorValue]:
    """The values that ``then_fn`` returns where ``pred`` is true, and those of ``else_fn`` where it
    is not, as a list.

    Both functions are called once, while the graph is built. Of the ops that they add only those of
    one branch run: what the other one would store, print or look up does not happen. They may use
    any value of the graph.

    Args:
        pred: One bool. On a GPU it is copied to the host, which decides.
        out_types: The types of what both return; None when they return nothing.
        then_fn: Returns a value for each of ``out_types``; one alone needs no list.
        else_fn: As ``then_fn``.

    Raises:
        ResultsError: ML752, a function returns another number of values, or values of other types,
            than ``out_types``; sizes with names must have the same names.
        ArgumentError: ML754, ``pred`` is not one bool.
        UnsupportedError: ML755, a result is a buffer; ML756, a branch computes a dim.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> row = TensorType(DType.float32, ["n"])
        >>> with Graph("clip", input_types=[row, TensorType(DType.bool, [])]) as graph:
        ...     x, flag = (v.tensor for v in graph.inputs)
        ...     graph.output(*ops.cond(flag, [row], lambda: ops.relu(x), lambda: x))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([-1, 2], np.float32), True)[0].to_numpy()
        array([0., 2.], dtype=float32)
    """
    b = builder(what="ops.cond")
    types = [] if out_types is None else list(out_types)
    for type in types:
        if not isinstance(type, Type):
            raise ArgumentTypeError(
                "ML320",
                f"cond: an output type is {type!r}, expected a TensorType",
                fix="write TensorType(dtype, shape)",
            )
        _require_tensor("cond", "a result", type)
    flag = _flag(b, pred, "cond: pred")
    regions = []
    for name, function in (("then_fn", then_fn), ("else_fn", else_fn)):
        what = f"cond: {name}"
        _require_callable(what, function)
        regions.append(b.region(what, [], _giving(b, what, function, types)))
    return list(b.control("cond", [flag], regions, types=tuple(types)))


@staged
def while_loop(
    initial_values: Any,
    predicate: Callable[..., Any],
    body: Callable[..., Any],
) -> list[TensorValue]:
    """The values of the last turn, as a list: ``body`` makes new ones of the old for as long as
    ``predicate`` gives true for them.

    Both functions are called once, while the graph is built, with a value for each of
    ``initial_values``. How many turns there are is seen when the model runs; no turn costs Python
    anything on the CPU. When the predicate is false at once, the results are the initial values.
    They may use any value of the graph, and load and store buffers of it.

    Args:
        initial_values: A value, or several. Numbers do not have a dtype: pass tensors.
        predicate: Returns one bool. On a GPU it is copied to the host, once a turn.
        body: Returns a value for each initial one, of the same type; one alone needs no list.

    Raises:
        ArgumentError: ML753, there are no initial values; ML754, ``predicate`` does not return one
            bool.
        ResultsError: ML752, ``body`` returns another number of values, or values of other types.
        UnsupportedError: ML755, an initial value is a buffer; ML756, a function computes a dim.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> number = TensorType(DType.int64, [])
        >>> with Graph("collatz", input_types=[number]) as graph:
        ...     zero = ops.constant(0, DType.int64, DeviceRef.CPU())
        ...     half = lambda n: ops.where(n % 2 == 0, n // 2, n * 3 + 1)
        ...     n, steps = ops.while_loop(
        ...         (graph.inputs[0].tensor, zero),
        ...         lambda n, steps: n > 1,
        ...         lambda n, steps: (half(n), steps + 1),
        ...     )
        ...     graph.output(steps)
        >>> engine.InferenceSession().load(graph)(27)[0].item()
        111
    """

    b = builder(what="ops.while_loop")
    single = isinstance(initial_values, Value) or hasattr(initial_values, "__tensorvalue__")
    given = [initial_values] if single or is_array(initial_values) else list(initial_values)
    if not given:
        raise ArgumentError(
            "ML753",
            "while_loop needs one initial value or more, got none",
            fix="pass what changes from turn to turn, such as a counter",
        )
    for value in given:
        if isinstance(value, BufferValue):
            raise UnsupportedError(
                "ML755",
                f"while_loop: an initial value is a buffer, {value.type}",
                fix="leave it out: the body can load and store any buffer of the graph",
            )
    starts = [_carried(value, "while_loop: an initial value") for value in given]
    types = [b.type_of(start) for start in starts]
    _require_callable("while_loop: predicate", predicate)
    _require_callable("while_loop: body", body)

    def test(*values: Any) -> list[Any]:
        with users_own():
            made = predicate(*values)
        return [_flag(b, made, "while_loop: what predicate returns")]

    regions = [
        b.region("while_loop: predicate", starts, test),
        b.region("while_loop: body", starts, _giving(b, "while_loop: body", body, types)),
    ]
    return list(b.control("while", starts, regions, carried=len(types)))


def _carried(value: Any, what: str) -> Any:
    """A handle as it is, anything else as a tensor."""

    return value if isinstance(value, _OpaqueValue) else tensor(value, what)


def _require_callable(what: str, function: object) -> None:
    if not callable(function):
        raise ArgumentTypeError(
            "ML758",
            f"{what} must be a function, got {type(function).__name__}",
            fix="write a def or a lambda that returns values of the graph",
        )


def _require_tensor(what: str, which: str, type: Type) -> None:
    if isinstance(type, BufferType):
        raise UnsupportedError(
            "ML755",
            f"{what}: {which} is a buffer, {type}",
            fix="store into a buffer of the graph instead, and return nothing for it",
        )


def _flag(b: Builder[Any], value: Any, what: str) -> Any:
    """``value`` as one bool on the host."""
    if isinstance(value, bool):
        value = literal(value, DType.bool, DeviceRef.CPU())
    if isinstance(value, Value) or is_array(value) or hasattr(value, "__tensorvalue__"):
        flag = tensor(value, what)
        if flag.device.is_gpu():
            flag = transfer_to(flag, DeviceRef.CPU())
        found = b.type_of(flag)
        if is_flag(found):
            return flag
        text = str(found)
    else:
        text = type(value).__name__
    raise ArgumentError(
        "ML754",
        f"{what} must be one bool, a tensor of bool of rank 0, got {text}",
        fix="compare something of rank 0: x < 10; a tensor of shape [1] is x[0]",
    )


def _giving(
    b: Builder[Any], what: str, function: Callable[..., Any], types: Sequence[Type]
) -> Callable[..., list[Any]]:
    """``function`` of the user as the body of a region that gives values of ``types``.

    Raises:
        ResultsError: ML752, from a call: it returned something else.
        ArgumentTypeError: ML758, from a call: it cannot be called with the values.
    """

    def body(*values: Any) -> list[Any]:
        with users_own():
            made = _called(what, function, values)
        if made is None:
            listed: list[Any] = []
        elif isinstance(made, Value) or is_array(made) or not isinstance(made, Iterable):
            listed = [made]
        else:
            listed = list(made)
        if len(listed) != len(types):
            raise _mismatch(f"{what} returns {len(listed)} values, expected {len(types)}")
        given = []
        for number, (value, wanted) in enumerate(zip(listed, types, strict=True)):
            if is_weak(value) and isinstance(wanted, TensorType):
                value = literal(value, wanted.dtype, wanted.device)
            found = _carried(value, f"{what}: result {number}")
            if b.type_of(found) != wanted:
                raise _mismatch(
                    f"{what} returns {b.type_of(found)} as value {number}, expected {wanted}"
                )
            given.append(found)
        return given

    return body


def _called(what: str, function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The result of ``function`` of the user on ``values``.

    Raises:
        ArgumentTypeError: ML758, it cannot be called with them. What is raised in it comes out.
    """
    try:
        return function(*values)
    except TypeError as error:
        trace = error.__traceback__
        # A call that does not fit, or that C refuses, fails here, before any line of the function.
        if type(error) is not TypeError or trace is None or trace.tb_next is not None:
            raise
        count = f"{len(values)} value{'s' * (len(values) != 1)}"
        raise ArgumentTypeError(
            "ML758",
            f"{what} is called with {count} of the graph, and fails: {error}",
            fix="write a def or a lambda that takes as many values and returns values of the graph",
        ) from None


def _mismatch(what: str) -> ResultsError:
    return ResultsError(
        "ML752",
        what,
        fix="return values of exactly these types; ops.cast changes a dtype, ops.rebind names "
        "sizes that are always equal",
    )


__all__ = ["cond", "while_loop"]

"""The ways to write an operation: with operators and methods, as a function of ``ops``, and last as
a primitive, which any operation of the table can be.

What a function of ``ops`` takes is read from its signature, and what an operation has from the
table; what is written by hand here are operators, methods and functions that take the attributes
of their operation in another form. `Probe` says which of the ways is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Final

from maxlab.dtype import DType
from maxlab.graph import ops
from maxlab.graph.code import literals
from maxlab.graph.code.literals import dim, dims, literal
from maxlab.graph.code.text import (
    Atom,
    Attribute,
    Binary,
    Call,
    Node,
    Slice,
    Subscript,
    Unary,
    call,
    items,
    method,
    name,
    number,
    string,
    together,
)
from maxlab.ir import DeviceRef, Dim, FilterLayout, Op, Shape, StaticDim
from maxlab.opset import is_weight

Way = Callable[[Op, Sequence[Node]], Iterator[Node]]
OPERATORS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "logical_and": "&",
    "logical_or": "|",
    "logical_xor": "^",
}
TURNED: Final = {"greater": "<", "greater_equal": "<="}
"""Comparisons by the operator that has their operands the other way round."""
OTHERWISE: Final = {
    "floordiv": "floor_divide",
    "recip": "reciprocal",
    "transfer": "transfer_to",
}
"""Functions that are not called as their operation is."""
SIGNS: Final = {"negate": "-", "logical_not": "~"}
_WAYS: dict[str, Way] = {}


def ways(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    """The ways to write ``op`` on ``operands``, the best first. The last one is always right."""
    short = short_name(op)
    found = _WAYS.get(short)
    if found is not None:
        yield from found(op, operands)
    if short in OPERATORS and len(operands) == 2:
        left, right = operands
        if short in TURNED and is_number(left) and not is_number(right):
            yield Binary(TURNED[short], right, left)
        elif not (OPERATORS[short] in ("==", "!=") and (is_number(left) or _is_weight(op, 1))):
            yield Binary(OPERATORS[short], left, right)
    if short in SIGNS and len(operands) == 1:
        yield Unary(SIGNS[short], operands[0])
    yield from _generic(op, operands)
    yield primitive(op, operands)


def _is_weight(op: Op, number: int) -> bool:
    """Whether the operand is a weight, of a class below that of tensors: Python asks it first what
    a comparison is, and then turns the operands round."""
    return is_weight(op.operands[number].op)


def short_name(op: Op) -> str:
    """The name of ``op`` as the builder takes it."""
    return op.name.removeprefix("mo.")


def is_number(node: Node) -> bool:
    """Whether ``node`` is a literal."""
    return isinstance(node, Atom) and node.text.lstrip("-")[:1].isdigit()


def primitive(op: Op, operands: Sequence[Node]) -> Node:
    """``op`` as the builder makes it, whatever it is."""
    attrs = {
        key: literal_dim(value) if isinstance(value, Dim) else literal(value)
        for key, value in op.attrs.items()
    }
    made = Call(
        name("Graph.current.op"), [string(short_name(op)), items(operands)], list(attrs.items())
    )
    results = sum(not str(r.type).startswith("!mo.chain") for r in op.results)
    return Subscript(made, [number("0")]) if results == 1 else made


# ---------------------------------------------------------------- by signature
@cache
def _functions(short: str) -> tuple[str, ...]:
    """The functions of ``ops`` that may make the operation ``short``."""
    last, first = short.rpartition(".")[2], short.partition(".")[0]
    tried = (short.replace(".", "_"), last, first, OTHERWISE.get(short, ""))
    return tuple(dict.fromkeys(t for t in tried if callable(getattr(ops, t, None))))


@cache
def _takes(function: str) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(getattr(ops, function)).parameters.values())


_OPEN: Final = inspect.Parameter.VAR_POSITIONAL


def _generic(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    for function in _functions(short_name(op)):
        parameters = [p for p in _takes(function) if p.kind is not p.VAR_KEYWORD]
        named = {p.name for p in parameters}
        kwargs = [(k, literal(v)) for k, v in op.attrs.items() if k in named]
        left = [p for p in parameters if p.name not in op.attrs]
        open_ = bool(left) and left[-1].kind is _OPEN
        if open_ or len(operands) <= len(left):
            if len(kwargs) == 1 and not open_ and _is_next(parameters, len(operands), kwargs[0][0]):
                yield Call(name(f"ops.{function}"), [*operands, kwargs[0][1]])
            yield Call(name(f"ops.{function}"), operands, kwargs)
        yield Call(name(f"ops.{function}"), [items(operands)], kwargs)


def _is_next(parameters: Sequence[inspect.Parameter], count: int, named: str) -> bool:
    """Whether the argument ``named``, which must be given, stands behind ``count`` operands."""
    found = parameters[count] if count < len(parameters) else None
    if found is None or found.name != named or named in ("axis", "epsilon"):
        return False
    return found.default is found.empty


# ---------------------------------------------------------------- by hand
def _way(*names: str) -> Callable[[Way], Way]:
    def of(way: Way) -> Way:
        for each in names:
            _WAYS[each] = way
        return way

    return of


@_way("reshape", "broadcast_to")
def _shaped(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield method(operands[0], short_name(op), dims(op.attrs["shape"]))


@_way("rebind")
def _rebound(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    args = [dims(op.attrs["shape"])]
    if op.attrs.get("message"):
        args.append(string(op.attrs["message"]))
    yield method(operands[0], "rebind", *args)
    yield call("ops.rebind", operands[0], *args, layout=literal(op.attrs.get("layout")))


@_way("permute")
def _permuted(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield method(operands[0], "permute", items(map(literal, op.attrs["dims"])))


@_way("transpose")
def _transposed(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield Attribute(operands[0], "T")
    axes = (op.attrs["axis_1"], op.attrs["axis_2"])
    yield method(operands[0], "transpose", *map(literal, axes))


@_way("flatten")
def _flattened(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    axes = (op.attrs["start_dim"], op.attrs["end_dim"])
    yield method(operands[0], "flatten")
    yield method(operands[0], "flatten", literal(axes[0]))
    yield method(operands[0], "flatten", *map(literal, axes))


@_way("cast")
def _cast(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield method(operands[0], "cast", literal(op.attrs["dtype"]))


@_way("transfer")
def _moved(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield method(operands[0], "to", literal(op.attrs["device"]))


@_way("max", "min")
def _extreme(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield call(f"ops.{short_name(op)}", *operands)
    yield call(f"ops.{short_name(op)}imum", *operands)


@_way("reduce.sum", "reduce.max", "reduce.min", "mean", "argmax", "argmin", "softmax", "logsoftmax")
def _reduced(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield call(
        f"ops.{short_name(op).rpartition('.')[2]}", *operands, axis=literal(op.attrs["axis"])
    )


@_way("concat")
def _joined(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield call("ops.concat", items(operands), axis=literal(op.attrs["axis"]))


@_way("slice")
def _cut(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    found = entries(op, ())
    if found is not None:
        yield subscript(operands[0], found)


def subscript(of: Node, entries: Sequence[Node]) -> Node:
    """``of[entries]``, without what stands for whole dims at the end."""
    kept = list(entries)
    whole = Slice().flat()
    while len(kept) > 1 and kept[-1].flat() == whole:
        kept.pop()
    leading = 0
    while leading < len(kept) - 1 and kept[leading].flat() == whole:
        leading += 1
    if leading > 1 and len(kept) == len(entries):
        kept[:leading] = [Atom("...")]
    return Subscript(of, kept)


def cut(size: Dim, start: Dim, step: int, made: Dim) -> Node:
    """The slice of a dim of ``size`` that has ``made`` elements."""
    if (start, step, made) == (Dim(0), 1, size):
        return Slice()
    stop = start + made * step
    begins = None if start == Dim(0) else _bound(start, size)
    if step < 0:
        ends = None if stop + 1 == Dim(0) or str(stop).startswith("-") else literal_dim(stop)
        begins = None if start == size - 1 else literal_dim(start)
        return Slice(begins, ends, number(str(step)))
    if step > 1:
        last = size if _reaches(size, start, step, made) else start + (made - 1) * step + 1
        return Slice(begins, None if last == size else _bound(last, size), number(str(step)))
    return Slice(begins, None if stop == size else _bound(stop, size))


def _bound(at: Dim, size: Dim) -> Node:
    """The bound ``at`` of a slice of a dim of ``size``, counted from its end where that is
    shorter."""
    back = at - size
    if not isinstance(at, StaticDim) and isinstance(back, StaticDim) and back.dim < 0:
        return number(str(back.dim))
    return literal_dim(at)


def _reaches(size: Dim, start: Dim, step: int, made: Dim) -> bool:
    """Whether a slice to the end has ``made`` elements."""
    return (size - start + step - 1) // step == made


@_way("gather")
def _gathered(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield call("ops.gather", *operands, axis=literal(op.attrs["axis"]))


@_way("pad")
def _padded(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    sizes = items(literal_dim(Dim(size)) for size in op.attrs["paddings"])
    yield call("ops.pad", operands[0], sizes, value=literal(op.attrs["value"]))


@_way("constant")
def _constant(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    array = op.attrs["value"].array
    kind = DType.from_numpy(array.dtype)
    more = [literal(kind), literal(op.attrs["device"])]
    short = array.size <= 256
    filled = literals.uniform(array)
    if filled is not None and array.size > 8:
        yield call("ops.constant", filled, *([] if _on_host(op) else [Atom("None"), more[1]]))
    if short:
        for node in literals.numbers(array):
            if not literals.is_wide(node):
                yield call("ops.constant", node, *more)
    written = literals.array(array)
    yield call("ops.constant", written, *([] if _on_host(op) else [Atom("None"), more[1]]))


def _on_host(op: Op) -> bool:
    return bool(op.attrs["device"] == DeviceRef.CPU())


@_way("dim")
def _size(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield call("TensorValue", dim(Dim(op.attrs["dim"]), alone=True))


@_way("range")
def _counted(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    attrs = op.attrs
    more = {"dtype": literal(attrs["dtype"]), "device": literal(attrs["device"])}
    if operands:
        bounds = list(operands)
        yield call("ops.range", *bounds, out_dim=dim(Dim(attrs["size"])), **more)
        return
    start, step = Dim(attrs.get("start", 0)), Dim(attrs.get("step", 1))
    stop = start + Dim(attrs["size"]) * step
    nodes = [literal_dim(at) for at in (start, stop, step)]
    yield Call(name("ops.range"), nodes if step != 1 else nodes[:2], list(more.items()))


@_way("conv")
def _convolved(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    rank = op.operands[0].tensor_type.rank
    yield from _filtered(op, operands, f"conv{rank - 2}d", groups=literal(op.attrs["groups"]))


@_way("conv_transpose")
def _deconvolved(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    yield from _filtered(op, operands, "conv2d_transpose")


def _filtered(op: Op, operands: Sequence[Node], function: str, **own: Node) -> Iterator[Node]:
    attrs = op.attrs
    kwargs = {key: literal(attrs[key]) for key in ("stride", "dilation", "padding")}
    kwargs |= own
    if len(operands) > 2:
        kwargs["bias"] = operands[2]
    rank = op.operands[0].tensor_type.rank
    if attrs["channels_first"]:
        kwargs["input_layout"] = name("ConvInputLayout.NCHW")
    for layout in FilterLayout:
        if len(layout.name) == rank:
            more = {"filter_layout": name(f"FilterLayout.{layout.name}")}
            yield call(f"ops.{function}", operands[0], operands[1], **kwargs, **more)


@_way("resize")
def _resized(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    mode = name(f"ops.InterpolationMode.{str(op.attrs['mode']).upper()}")
    yield call("ops.resize", operands[0], dims(op.attrs["shape"]), interpolation=mode)


@_way("irfft")
def _inverse(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    kwargs = {key: literal(op.attrs[key]) for key in ("n", "axis", "normalization")}
    kwargs["input_is_complex"] = literal(op.attrs["complex"])
    kwargs["buffer_size_mb"] = literal(op.attrs["buffer_size_mb"])
    yield call("ops.irfft", operands[0], **kwargs)


@_way("allgather", "allreduce.sum")
def _collected(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    half = len(operands) // 2
    more = {key: literal(value) for key, value in op.attrs.items()}
    yield call(f"ops.{short_name(op)}", items(operands[:half]), items(operands[half:]), **more)


@_way("dequantize", "qmatmul", "matmul_blocks")
def _unpacked(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    encoding = name(f"QuantizationEncoding.{op.attrs['encoding']}")
    if short_name(op) != "qmatmul":
        yield call(f"ops.{short_name(op)}", encoding, *operands)
    else:
        yield call("ops.qmatmul", encoding, Atom("None"), *operands)


@_way("print")
def _printed(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    label, text = op.attrs["label"], op.attrs["text"]
    if operands:
        yield call("ops.print", operands[0], label=string(label))
        return
    yield call("ops.print", string(text))
    if text.startswith(f"{label}: "):
        yield call("ops.print", string(text.removeprefix(f"{label}: ")), label=string(label))


@_way("buffer.load_slice")
def _read(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    found = entries(op, operands[1:])
    if found is not None:
        yield subscript(operands[0], found)


@_way("buffer.store_slice")
def _stored(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    found = entries(op, operands[2:])
    if found is None:
        return
    yield call("ops.buffer_store_slice", *operands[:2], items(map(_object, found)))
    starts, shape = op.attrs["starts"], Shape(op.attrs["shape"])
    single = [n for n, size in enumerate(shape) if size == 1 and isinstance(found[n], Slice)]
    slices = sum(isinstance(each, Slice) for each in found)
    for places in combinations(single, max(slices - op.operands[1].tensor_type.rank, 0)):
        made = list(found)
        for n in places:
            made[n] = literal_dim(Dim(starts[n]))
        yield call("ops.buffer_store_slice", *operands[:2], items(map(_object, made)))


def literal_dim(at: Dim) -> Node:
    """The dim ``at`` where a number or a ``Dim`` will do, and no name."""
    return dim(at, alone=not isinstance(at, StaticDim))


def entries(op: Op, computed: Sequence[Node]) -> list[Node] | None:
    """The index of the part of a tensor or a buffer that ``op`` reads or writes, as slices and as
    ``computed`` places; None where no index does.
    """
    attrs = op.attrs
    pairs = zip(attrs.get("computed", ()), computed, strict=False)
    at = {axis: node for (axis, word), node in pairs if word == "index"}
    if len(at) != len(attrs.get("computed", ())):
        return None
    source = op.operands[0].tensor_type.shape
    shape = Shape(attrs["shape"])
    return [
        at[n] if n in at else cut(size, Dim(attrs["starts"][n]), int(attrs["steps"][n]), shape[n])
        for n, size in enumerate(source)
    ]


def _object(entry: Node) -> Node:
    """``entry``, which may be written with colons, outside of a subscript."""
    if not isinstance(entry, Slice):
        return entry
    none: Node = Atom("None")
    parts = [entry.start or none, entry.stop or none]
    if entry.step is not None:
        parts.append(entry.step)
    if len(parts) == 2 and entry.start is None:
        parts = parts[1:]
    return call("slice", *parts)


@_way("random")
def _drawn(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    attrs = op.attrs
    parts = [literal(attrs["dtype"]), dims(attrs["shape"])]
    if attrs["device"] != DeviceRef.CPU():
        parts.append(literal(attrs["device"]))
    like = call("TensorType", *parts)
    first, second = (literal(float(one)) for one in attrs["parameters"])
    if attrs["distribution"] == "uniform":
        yield call("ops.random.uniform", like, range=together([first, second]))
    else:
        yield call("ops.random.normal", like, mean=first, std=second)


@_way("custom", "custom.inplace")
def _users(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    attrs = op.attrs
    function = "ops.custom" if short_name(op) == "custom" else "ops.inplace_custom"
    args = [string(attrs["name"]), literal(attrs["device"]), items(operands)]
    types = items(map(literal, attrs["types"]))
    if types.items or function == "ops.custom":
        args.append(types)
    pairs = [f"{string(key).flat()}: {literal(value).flat()}" for key, value in attrs["parameters"]]
    more = {"parameters": Atom(f"{{{', '.join(pairs)}}}")} if pairs else {}
    yield call(function, *args, **more)


__all__ = [
    "OPERATORS",
    "cut",
    "is_number",
    "primitive",
    "short_name",
    "subscript",
    "ways",
]

"""Programs that show what the palette offers: those of docstrings, and where there is none, one
that is made by trying small inputs until the operation takes them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, KernelLibrary, TensorType, Value, ops
from maxlab.graph.editing import OPERATIONS
from maxlab.graph.graph import LIVE
from maxlab.lab import docstrings, layers
from maxlab.lab.palette import Kind, Offer, Parameter, offers
from maxlab.nn.calls import no_hooks
from maxlab.opset.declared import Declaration

F32, I32 = DType.float32, DType.int32
TYPES: Final = (
    TensorType(F32, [2, 3]),
    TensorType(F32, [3, 3]),
    TensorType(F32, [3]),
    TensorType(I32, [2, 3]),
    TensorType(I32, [3]),
    TensorType(DType.bool, [2, 3]),
    TensorType(F32, [1, 4, 4, 2]),
    TensorType(F32, [2, 2, 2, 2]),
    TensorType(F32, [1, 4, 4, 4, 2]),
    TensorType(F32, [2, 2, 2, 2, 2]),
    TensorType(F32, [1, 8, 4]),
)
"""Of the inputs that are tried, the plainest first."""

ARGUMENTS: Final[Mapping[Kind, Mapping[str, Any]]] = {
    "data": {
        "1": 1, "0": 0, "2": 2, "[1, 2]": [1, 2], "[1, 0]": [1, 0], "(2, 2)": (2, 2), "[0]": [0],
        "[1, 1, 1, 1]": [1, 1, 1, 1], "[1.0, 2.0]": [1.0, 2.0], "(4, 4)": (4, 4),
    },
    "dims": {
        "[3, 2]": [3, 2], "[2, 3]": [2, 3], "[4, 2, 3]": [4, 2, 3], "[1, 8, 8, 2]": [1, 8, 8, 2],
        "[1, 2]": [1, 2], "3": 3, "(3, 3)": (3, 3), "(2, 2)": (2, 2),
    },
    "dtype": {"DType.int32": I32},
    "device": {"DeviceRef.CPU()": DeviceRef.CPU()},
    "text": {'"ij->ji"': "ij->ji", '"shown"': "shown"},
    "value": {}, "values": {}, "choice": {},
}  # fmt: skip
"""The arguments that are tried for a parameter of each kind that has no default."""

MOST_TRIED: Final = 4000
NAMES: Final = ("x", "y", "z")


class _Call(NamedTuple):
    """A call that is tried: the types of its inputs, its arguments, and how they are written."""

    types: tuple[TensorType, ...]
    text: str
    arguments: Mapping[str, Any]


@cache
def example_of(name: str) -> str:
    """A program that uses the operation ``name``: that of its docstring, or one that is made; empty
    where none was found.

    Example:
        >>> print(example_of("tanh"))
        import numpy as np
        <BLANKLINE>
        from maxlab import engine
        from maxlab.dtype import DType
        from maxlab.graph import Graph, TensorType, ops
        <BLANKLINE>
        with Graph("tanh", input_types=[TensorType(DType.float32, [2, 3])]) as graph:
            x = graph.inputs[0].tensor
            graph.output(ops.tanh(x))
        model = engine.InferenceSession().load(graph)
        print(model(np.ones((2, 3), np.float32))[0].to_numpy())
    """
    written = docstrings.read(OPERATIONS[name]).example
    if f"{name}(" in written:  # that of another name of the same operation may not have it
        return written
    for call in itertools.islice(_calls(offers()[name]), MOST_TRIED):
        count = _results(name, call)
        if count:
            return _program(name, call, count)
    return written


def _calls(offer: Offer) -> Iterator[_Call]:
    """Calls of ``offer`` that may be right, the plainest first."""
    needed = [p for p in offer.parameters if p.default is None]
    if offer.many and not needed:
        needed = [offer.parameters[-1]]
    values = [p for p in needed if p.kind in ("value", "values")]
    others = [p for p in needed if p.kind not in ("value", "values")]
    most = max(1 if values else 0, len(values))
    inputs = sorted(
        itertools.product(range(len(TYPES)), repeat=most), key=lambda n: (len(set(n)), sum(n))
    )
    for chosen in inputs:
        types = tuple(TYPES[n] for n in chosen)
        for given in itertools.product(*(ARGUMENTS[p.kind].items() for p in others)):
            yield _call(
                offer, values, types, dict(zip((p.name for p in others), given, strict=True))
            )


def _call(
    offer: Offer,
    values: Sequence[Parameter],
    types: tuple[TensorType, ...],
    given: Mapping[str, tuple[str, Any]],
) -> _Call:
    names = dict(zip((p.name for p in values), NAMES, strict=False))
    parts: list[str] = []
    by_name = False
    for parameter in offer.parameters:
        if parameter.name in names:
            name = names[parameter.name]
            is_list = parameter.kind == "values" and not (
                offer.many and parameter is offer.parameters[-1]
            )
            text = f"[{name}, {name}]" if is_list else name
        elif parameter.name in given:
            text = given[parameter.name][0]
        else:
            by_name = True
            continue
        parts.append(f"{parameter.name}={text}" if by_name else text)
    return _Call(types, ", ".join(parts), {name: value for name, (_, value) in given.items()})


def _results(name: str, call: _Call) -> int:
    """How many results the call has; 0 where it is refused."""
    with Graph(name, input_types=call.types) as graph:
        LIVE.discard(graph)  # it is none of the user's
        known = dict(zip(NAMES, (value.tensor for value in graph.inputs), strict=False))
        scope = {**known, "ops": ops, "DType": DType, "DeviceRef": DeviceRef}
        try:
            # The text is made of the constants above alone.
            made = eval(f"ops.{name}({call.text})", scope)
        except (MaxlabError, TypeError, ValueError, NotImplementedError):
            return 0
        listed = list(made) if isinstance(made, (list, tuple)) else [made]
        if not listed or not all(isinstance(one, Value) for one in listed):
            return 0
        try:
            graph.output(*listed)
        except MaxlabError:
            return 0
    return -1 if isinstance(made, (list, tuple)) else 1


def _program(name: str, call: _Call, count: int) -> str:
    types = ", ".join(_type_text(type) for type in call.types)
    arrays = ", ".join(
        f"np.ones({tuple(int(d) for d in type.shape)}, np.{_numpy_name(type)})"
        for type in call.types
    )
    device = "DeviceRef, " if "DeviceRef" in call.text else ""
    tensor = "TensorType, " if call.types else ""
    dtype = "from maxlab.dtype import DType\n" if call.types or "DType" in call.text else ""
    inputs = f", input_types=[{types}]" if call.types else ", input_types=[]"
    if len(call.types) == 1:
        read = f"    {NAMES[0]} = graph.inputs[0].tensor\n"
    elif call.types:
        names = ", ".join(NAMES[: len(call.types)])
        read = f"    {names} = (value.tensor for value in graph.inputs)\n"
    else:
        read = ""
    star = "*" if count < 0 else ""
    numpy = "import numpy as np\n\n" if call.types else ""
    return (
        f"{numpy}from maxlab import engine\n{dtype}"
        f"from maxlab.graph import {device}Graph, {tensor}ops\n\n"
        f'with Graph("{name}"{inputs}) as graph:\n{read}'
        f"    graph.output({star}ops.{name}({call.text}))\n"
        "model = engine.InferenceSession().load(graph)\n"
        f"print(model({arrays})[0].to_numpy())"
    )


def _type_text(type: TensorType) -> str:
    dims = ", ".join(
        f"{str(d)!r}".replace("'", '"') if not str(d).isdigit() else str(d) for d in type.shape
    )
    return f"TensorType(DType.{type.dtype.name}, [{dims}])"


def _numpy_name(type: TensorType) -> str:
    return "bool_" if type.dtype is DType.bool else type.dtype.name


@cache
def example_of_layer(name: str) -> str:
    """A program that builds a graph of the layer ``nn.<name>``: that of its docstring, or one that
    is made."""
    written = docstrings.read(getattr(nn, name)).example
    if written:
        return written
    offer = layers.layers()[name]
    for type in TYPES:
        texts = {b.name: "2" for b in offer.typed if b.default is None and not b.text(type)}
        try:
            with no_hooks():
                layers.type_after(layers.made(offer, type, texts), type)
        except MaxlabError:
            continue
        return _layer_program(name, type, texts)
    return ""


def _layer_program(name: str, type: TensorType, texts: Mapping[str, str]) -> str:
    offer = layers.layers()[name]
    parts = []
    for blank in offer.blanks:
        has_default = (
            inspect.signature(offer.cls).parameters[blank.name].default
            is not inspect.Parameter.empty
        )
        if blank.given == "device":
            parts.append(f"{blank.name}=DeviceRef.CPU()")
        elif not blank.given and not has_default:
            text = texts.get(blank.name) or blank.text(type)
            parts.append(f"{blank.name}={'DType.' if blank.kind == 'dtype' else ''}{text}")
    call = f"nn.{name}({', '.join(parts)})"
    device = "DeviceRef, " if "DeviceRef" in call else ""
    return (
        "from maxlab import nn\nfrom maxlab.dtype import DType\n"
        f"from maxlab.graph import {device}Graph, TensorType\n\n"
        f'graph = Graph("{name.lower()}", {call}, [{_type_text(type)}])\n'
        "print(graph.output_types)"
    )


def example_of_kernel(declared: Declaration, variable: str, types: Sequence[TensorType]) -> str:
    """A program that calls a kernel of the library that ``variable`` is, on inputs of ``types``;
    empty where its results are not of the type of the first input.

    Args:
        declared: The kernel.
        variable: A variable of the notebook.
        types: Those of its first operands; the others are like the last of them.
    """
    if not types:
        return ""
    inputs = [*types, *[types[-1]] * (len(declared.operands) - len(types))]
    library = KernelLibrary().having(declared)
    try:
        with Graph(declared.name, input_types=inputs, kernel_library=library) as graph:
            LIVE.discard(graph)  # it is none of the user's
            device = inputs[0].device
            ops.custom(declared.name, device, graph.inputs, [inputs[0]] * len(declared.results))
    except MaxlabError:
        return ""
    listed = ", ".join(map(_type_text, inputs))
    return (
        "from maxlab.dtype import DType\n"
        "from maxlab.graph import DeviceRef, Graph, TensorType, ops\n\n"
        f"types = [{listed}]\n"
        f'with Graph("{declared.name}", None, types, custom_extensions={variable}) as graph:\n'
        f'    made = ops.custom("{declared.name}", DeviceRef.CPU(), graph.inputs, '
        f"types[:1] * {len(declared.results)})\n"
        "    graph.output(*made)\n"
        "print(graph.output_types)"
    )


__all__ = ["example_of", "example_of_kernel", "example_of_layer"]

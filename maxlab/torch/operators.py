"""Graphs and kernels of maxlab as operations of torch: ``graph_op`` and ``CustomOpLibrary``.

They are real operations of ``torch.library``: they are called with tensors, and stand in graphs of
``torch.compile`` with any backend. Outputs come first among their arguments, and are written in
place: the caller, or torch's own planning of memory, makes them.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from torch.library import CustomOpDef

from maxlab.engine import InferenceSession, Model
from maxlab.errors import ArgumentError, ArgumentTypeError, InputError, MissingNameError
from maxlab.graph import Graph, KernelLibrary, TensorType, Value, ops
from maxlab.ir import DeviceRef, Dim
from maxlab.opset.declared import Declaration
from maxlab.torch.aten import DTYPES, HOST
from maxlab.torch.crossing import tensor_of

Traced = Callable[..., Any]
Kernels = Path | str | KernelLibrary
NAMESPACE = "maxlab"

_lock = threading.Lock()
_owners: dict[str, tuple[str, str]] = {}
"""Which function, by its module and its name there, has each name of an operation."""


@overload
def graph_op(
    fn: Traced,
    name: str | None = None,
    kernel_library: Kernels | None = None,
    input_types: Sequence[TensorType] | None = None,
    output_types: Sequence[TensorType] | None = None,
    num_outputs: int | None = None,
) -> CustomOpDef: ...
@overload
def graph_op(
    fn: None = None,
    name: str | None = None,
    kernel_library: Kernels | None = None,
    input_types: Sequence[TensorType] | None = None,
    output_types: Sequence[TensorType] | None = None,
    num_outputs: int | None = None,
) -> Callable[[Traced], CustomOpDef]: ...
def graph_op(
    fn: Traced | None = None,
    name: str | None = None,
    kernel_library: Kernels | None = None,
    input_types: Sequence[TensorType] | None = None,
    output_types: Sequence[TensorType] | None = None,
    num_outputs: int | None = None,
) -> CustomOpDef | Callable[[Traced], CustomOpDef]:
    """The operation of torch that computes what ``fn`` builds with ``ops`` of maxlab.

    It is called with its outputs first, which it writes in place, then its inputs; it returns
    nothing. A graph is compiled for each tuple of shapes and dtypes, or once for all that
    ``input_types`` with symbolic dims allow. Inputs and outputs are not copied.

    Args:
        fn: Called with a ``TensorValue`` for each input; returns one value, several, or None. Its
            parameters name the inputs. Without it, a decorator is returned.
        name: The name of the operation; by default that of ``fn``.
        kernel_library: Custom ops that ``fn`` may use.
        input_types: The types of the inputs; by default those of the tensors of each call.
        output_types: The types of the outputs; by default what ``fn`` makes.
        num_outputs: How many outputs there are; by default as many as ``output_types``, or 1.

    Raises:
        ArgumentError: ML684, ``fn`` takes a variable number of inputs, or ``num_outputs`` is not
            the number of ``output_types``.
        ArgumentTypeError: ML684, ``fn`` is no function.

    Example:
        >>> import torch
        >>> import maxlab.torch
        >>> @maxlab.torch.graph_op
        ... def scaled(x, factor):
        ...     return x * factor
        >>> result = torch.empty(3)
        >>> scaled(result, torch.ones(3), torch.tensor(4.0))
        >>> result
        tensor([4., 4., 4.])
    """

    def decorate(function: Traced) -> CustomOpDef:
        count = _count_of(function, output_types, num_outputs)
        names = _inputs_of(function)
        called = str(name or getattr(function, "__name__", "op"))
        source = _Graphs(function, called, kernel_library, input_types, output_types, count)
        return _operation(called, names, count, source, _owner_of(function))

    return decorate if fn is None else decorate(fn)


class CustomOpLibrary:
    """The custom ops of a kernel library as operations of torch, each an attribute.

    An operation is called with its outputs first, which it writes in place, then its inputs.

    Args:
        kernel_library: A file, folder or archive of kernels, or a ``KernelLibrary``.

    Raises:
        ArgumentError: ML763, a path without a kernel library.

    Example:
        >>> import torch
        >>> from maxlab.graph import KernelLibrary
        >>> from maxlab.torch import CustomOpLibrary
        >>> kernels = KernelLibrary()
        >>> _ = kernels.add_source('''
        ... // @op double(x: float32[n]) -> (y: float32[n])
        ... // @both
        ... store(y, i, 2 * load(x, i));
        ... ''')
        >>> library = CustomOpLibrary(kernels)
        >>> result = torch.empty(2)
        >>> library.double(result, torch.tensor([1.0, 2.0]))
        >>> result
        tensor([2., 4.])
    """

    def __init__(self, kernel_library: Kernels) -> None:
        self._kernel_library = _library_of(kernel_library)
        # All at once, as plain attributes: torch.compile reads these while it traces a function.
        for name in self._kernel_library:
            declared = self._kernel_library[name]
            if not _why_not(declared):
                setattr(self, name, _declared(self._kernel_library, declared))

    def __getattr__(self, name: str) -> CustomOpDef:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._kernel_library:
            raise MissingNameError(
                "ML760",
                f"there is no custom op {name!r}",
                why=[f"the library has {', '.join(sorted(self._kernel_library)) or 'no ops'}"],
                fix="declare it in the library: // @op name(x: float32[n]) -> (y: float32[n])",
            )
        declared = self._kernel_library[name]
        raise ArgumentError(
            "ML684",
            f"{name} {_why_not(declared)}: it is no operation that torch can call",
            at=declared.location,
            fix="declare what it writes as results",
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernel_library]

    def __repr__(self) -> str:
        return f"CustomOpLibrary({', '.join(self._kernel_library)})"


# ---------------------------------------------------------------- making operations
def _operation(
    name: str, inputs: Sequence[str], count: int, source: _Graphs, owner: tuple[str, str]
) -> CustomOpDef:
    outputs = [f"result{n}" if count > 1 else "result" for n in range(count)]
    while set(outputs) & set(inputs):
        outputs = [f"{each}_" for each in outputs]
    written = [f"Tensor(a{n}!) {each}" for n, each in enumerate(outputs)]
    schema = f"({', '.join([*written, *(f'Tensor {each}' for each in inputs)])}) -> ()"

    def run(*tensors: torch.Tensor) -> None:
        source.run(tensors[:count], tensors[count:])

    def fake(*tensors: torch.Tensor) -> None:
        """Returns at once: outputs are there already."""

    qualified = f"{NAMESPACE}::{_name_for(name, owner)}"
    made = torch.library.custom_op(qualified, run, mutates_args=outputs, schema=schema)
    made.register_fake(fake)
    return made


def _declared(library: KernelLibrary, op: Declaration) -> CustomOpDef:
    """The operation of torch for one declared op."""
    count, name = len(op.results), op.name
    source = _Graphs(None, name, library, None, None, count)
    inputs = [operand.name for operand in op.operands]
    return _operation(name, inputs, count, source, (op.file, name))


def _why_not(op: Declaration) -> str:
    """Why ``op`` can be no operation of torch; empty when it can."""
    if op.has_handles:
        return "takes or makes handles"
    return "changes its operands in place" if op.changed else ""


def _name_for(name: str, owner: tuple[str, str]) -> str:
    """``name``, or with a number where the operation of another function is called so. One that is
    defined again, as by running a cell twice, takes the place of the first."""
    base = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    with _lock:
        number = 1
        chosen = base
        while _owners.get(chosen, owner) != owner:
            number += 1
            chosen = f"{base}_{number}"
        _owners[chosen] = owner
    return chosen


def _owner_of(function: Traced) -> tuple[str, str]:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return str(getattr(function, "__module__", "")), str(name)


def _count_of(
    function: Any, output_types: Sequence[TensorType] | None, num_outputs: int | None
) -> int:
    if not callable(function):
        raise ArgumentTypeError(
            "ML684",
            f"graph_op takes a function, got {type(function).__name__}",
            fix="write @maxlab.torch.graph_op above a function of tensors",
        )
    declared = None if output_types is None else len(output_types)
    if declared is not None and num_outputs not in (None, declared):
        raise ArgumentError(
            "ML684",
            f"graph_op: num_outputs is {num_outputs}, and there are {declared} output_types",
            fix="leave num_outputs out",
        )
    return next((n for n in (num_outputs, declared) if n is not None), 1)


def _inputs_of(function: Traced) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(p.kind in open_ended for p in parameters):
        raise ArgumentError(
            "ML684",
            f"graph_op: {getattr(function, '__name__', 'the function')} takes a variable number of "
            "inputs, and an operation of torch has a fixed one",
            fix="name each input as a parameter",
        )
    return [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]


def _library_of(given: Kernels) -> KernelLibrary:
    return given if isinstance(given, KernelLibrary) else KernelLibrary(None, [given])


# ---------------------------------------------------------------- running them
_Key = tuple[tuple[torch.dtype, torch.Size], ...]


class _Graphs:
    """The compiled graphs of one operation, by what they are compiled for."""

    def __init__(
        self,
        function: Traced | None,
        name: str,
        kernels: Kernels | None,
        input_types: Sequence[TensorType] | None,
        output_types: Sequence[TensorType] | None,
        count: int,
    ) -> None:
        self.name = name
        self._function = function
        self._kernels = None if kernels is None else _library_of(kernels)
        self._inputs = None if input_types is None else list(input_types)
        self._outputs = None if output_types is None else list(output_types)
        self._count = count
        self._models: dict[_Key, Model] = {}
        self._lock = threading.Lock()

    def run(self, into: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        """Writes the results for ``inputs`` into ``into``."""
        for kind, tensors in (("output", into), ("input", inputs)):
            for number, x in enumerate(tensors):
                self._require_plain(f"{kind} {number}", x)
        model = self._model(into, inputs)
        model.execute_into([tensor_of(x) for x in into], *map(tensor_of, inputs))

    def _require_plain(self, what: str, x: torch.Tensor) -> None:
        why = ""
        if x.device.type != "cpu":
            why = f"is on {x.device}"
        elif x.layout is not torch.strided or not x.is_contiguous():
            why = "is not contiguous"
        elif x.is_conj() or x.is_neg():
            why = "is a view with other signs than its memory"
        elif x.dtype not in DTYPES:
            why = f"has the dtype {x.dtype}, which maxlab has not"
        if why:
            raise InputError(
                "ML889",
                f"{what} of {self.name} {why}",
                fix="pass a contiguous tensor of the CPU: x.cpu().contiguous()",
            )

    def _model(self, into: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Model:
        fixed = self._inputs is not None
        needed = inputs if self._function is not None else (*inputs, *into)
        key: _Key = () if fixed else tuple((x.dtype, x.shape) for x in needed)
        found = self._models.get(key)
        if found is None:
            with self._lock:
                found = self._models.get(key)
                if found is None:
                    found = self._models[key] = self._load(into, inputs)
        return found

    def _load(self, into: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Model:
        types = self._inputs or [_type_of(x) for x in inputs]
        with Graph(self.name, input_types=types, kernel_library=self._kernels) as graph:
            values = list(graph.inputs)
            if self._function is None:
                wanted = [_type_of(x) for x in into]
                made: Any = ops.custom(self.name, DeviceRef.CPU(), values, wanted)
            else:
                made = self._function(*(value.tensor for value in values))
            found = _listed(made)
            if len(found) != self._count:
                raise ArgumentError(
                    "ML684",
                    f"graph_op: {self.name} made {len(found)} outputs, expected {self._count}",
                    fix=f"declare their number: @graph_op(num_outputs={len(found)})",
                )
            declared: Sequence[TensorType | None] = self._outputs or [None] * len(found)
            graph.output(*map(_rebound, found, declared))
        return InferenceSession().load(graph)


def _listed(made: Any) -> list[Any]:
    if made is None:
        return []
    return [made] if isinstance(made, Value) or not hasattr(made, "__iter__") else list(made)


def _rebound(value: Any, type: TensorType | None) -> Any:
    """``value`` with the dims that its output is declared with."""
    if type is None:
        return value
    return ops.rebind(value, list(type.shape), "as its output is declared")


def _type_of(x: torch.Tensor) -> TensorType:
    return TensorType(DTYPES[x.dtype], [Dim(size) for size in x.shape], HOST)


__all__ = ["CustomOpLibrary", "graph_op"]

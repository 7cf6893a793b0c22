"""Modules of eager tensors as compiled graphs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from maxlab import trace
from maxlab.errors import UnusableArgumentError, shown
from maxlab.experimental.nn import states
from maxlab.experimental.programs import session_for
from maxlab.experimental.tensor import Tensor
from maxlab.graph import DeviceRef, Graph, Weight
from maxlab.opset.builder import SCOPE_TYPES

_P = ParamSpec("_P")
_R = TypeVar("_R")

if TYPE_CHECKING:
    from maxlab.engine import Model
    from maxlab.graph import Type


_PATH = "_path"


def in_scope(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """``call``, what a class of modules does when it is called; operations that it adds to a graph
    while the module is compiled belong to the path of the module there."""

    @functools.wraps(call)
    def invoke(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        path = getattr(args[0], _PATH, None)
        if path is None:
            return call(*args, **kwargs)
        _maxlab_scope = path  # the graph reads it from this frame
        return call(*args, **kwargs)

    return invoke


class Tree(Protocol):
    """A module, as far as compiling looks at it."""

    @property
    def local_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Its own parameters under their names."""

    @property
    def parameters(self) -> Iterable[tuple[str, Tensor]]:
        """All parameters under their paths."""

    @property
    def descendants(self) -> Iterable[tuple[str, Any]]:
        """All modules below it under their paths."""


def compile_module(
    module: Tree,
    computation: Callable[..., Any],
    input_types: Sequence[Type],
    weights: Mapping[str, Any] | None,
) -> CompiledModule:
    """``module`` for inputs of ``input_types`` as one compiled graph: see ``Module.compile``.

    Args:
        module: A module.
        computation: The method of it that computes.
        input_types: A type for each input.
        weights: Values of its parameters by path, in place of those that it has.
    """
    name = type(module).__name__
    signature = inspect.signature(computation)
    try:
        signature.bind(*input_types)
    except TypeError as error:
        raise UnusableArgumentError(
            "ML725",
            f"{name}.compile: {len(input_types)} types for the arguments {signature}: {error}",
            fix="pass a type for each argument, in their order: "
            'compile(TensorType(DType.float32, ["n", 5]))',
        ) from None
    parameters = dict(module.parameters)
    for path, each in (("", module), *module.descendants):
        for attribute, value in states.attributes(each):
            states.refuse_layer(".".join(filter(None, (name, path, attribute))), value)
    given: Mapping[str, Any] = parameters
    if weights is not None:
        states.check_names(name, parameters, weights, strict=False)
        given = weights
    data = {path: states.fitting(path, x, given[path]) for path, x in parameters.items()}
    graph = Graph(name, input_types=input_types)
    with graph:
        for path, child in module.descendants:
            graph.state[SCOPE_TYPES].setdefault(path, type(child).__name__)
        values = {
            path: Tensor.from_graph_value(
                graph.add_weight(_weight(path, tensor), force_initial_weight_on_host=False)
            )
            for path, tensor in data.items()
        }
        traced = _Replica(module, values).of(computation)
        inputs: Sequence[Any] = graph.inputs
        outputs = traced(*(Tensor.from_graph_value(value) for value in inputs))
        flat: list[Tensor] = []
        layout = _flatten(name, outputs, flat)
        graph.output(*(tensor.__tensorvalue__() for tensor in flat))
    registry = {path: states.memory_of(tensor) for path, tensor in data.items()}
    model = session_for(graph).load(graph, weights_registry=registry)
    return CompiledModule(name, signature, model, layout, len(input_types))


class CompiledModule:
    """A module of eager tensors that was compiled: called as the module is, with tensors or arrays.

    Shown as the last value of a cell it is its graph, drawn.

    Attributes:
        model: The compiled graph, which can be profiled and looked into.
        graph: The graph that was compiled.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        model: Model,
        layout: Callable[[Sequence[Any]], Any],
        count: int,
    ) -> None:
        self.__name__ = name
        self.__signature__ = signature
        self.model = model
        self._layout = layout
        self._count = count

    @property
    def graph(self) -> Graph:
        """The graph that was compiled."""
        made: Graph = self.model.graph
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result for these inputs, computed by its graph: tensors, in the same tuples,
        lists and dicts.

        Args:
            *args: A tensor, NumPy array or array of the DLPack protocol for each input.
            **kwargs: The same by the names of the module's arguments.

        Raises:
            UnusableArgumentError: ML725, an argument is missing, or was not compiled for; a
                ``TypeError``.
            InputError, InputTypeError: As of `engine.Model`, an input of another type.
        """
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise UnusableArgumentError(
                "ML725",
                f"{self.__name__}: {error}; it takes {self.__signature__}",
                fix="pass a tensor or array for each input",
            ) from None
        if len(bound.args) != self._count or bound.kwargs:
            raise UnusableArgumentError(
                "ML725",
                f"{self.__name__} was compiled for {self._count} inputs, got "
                f"{len(bound.args) + len(bound.kwargs)}",
                fix="compile with a type for each argument that varies",
            )
        outputs = self.model(
            *(states.memory_of(x) if isinstance(x, Tensor) else x for x in bound.args)
        )
        return self._layout([Tensor(storage=output) for output in outputs])

    def __repr__(self) -> str:
        return f"<{self.__name__}, compiled: {self.model!r}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self.model, include, exclude)


def _weight(path: str, tensor: Tensor) -> Weight:
    device = DeviceRef.from_device(tensor.device)
    return Weight(path, tensor.dtype, tensor.shape, device)


class _Replica:
    """A tree of modules with other tensors under the names of its parameters, which shares all else
    with the first: a run of it changes nothing there, nor what other threads compute."""

    def __init__(self, module: Tree, values: Mapping[str, Tensor]) -> None:
        paths: list[tuple[str, Tree]] = [("", module)]
        paths += [(f"{path}.", each) for path, each in module.descendants]
        self._values: dict[tuple[int, str], Tensor] = {}
        self._paths: dict[int, str] = {}
        for path, each in paths:
            self._paths.setdefault(id(each), path.removesuffix("."))
        self._made: dict[int, Any] = {}
        for path, each in paths:
            for name, _ in each.local_parameters:
                self._values.setdefault((id(each), name), values[f"{path}{name}"])

    def of(self, value: Any) -> Any:
        """``value`` with the modules of the tree replaced in it."""
        if id(value) in self._paths:
            return self._made.get(id(value)) or self._copy(value)
        if isinstance(value, MethodType):
            return MethodType(value.__func__, self.of(value.__self__))
        if isinstance(value, functools.partial):
            arguments = [self.of(x) for x in value.args]
            words = {name: self.of(x) for name, x in value.keywords.items()}
            return functools.partial(self.of(value.func), *arguments, **words)
        if type(value) in (list, tuple):
            return type(value)(self.of(x) for x in value)
        if type(value) is dict:
            return {key: self.of(x) for key, x in value.items()}
        return value

    def _copy(self, module: Tree) -> Any:
        made: Any = object.__new__(type(module))
        self._made[id(module)] = made
        object.__setattr__(made, _PATH, self._paths[id(module)])
        for name, value in states.attributes(module):
            new = self._values.get((id(module), name))
            object.__setattr__(made, name, self.of(value) if new is None else new)
        return made


def _flatten(name: str, value: Any, flat: list[Tensor]) -> Callable[[Sequence[Any]], Any]:
    """Adds the tensors of ``value`` to ``flat``; gives what puts others in their places."""
    if isinstance(value, Tensor):
        place = len(flat)
        flat.append(value)
        return lambda tensors: tensors[place]
    if type(value) is dict:
        parts = {key: _flatten(name, x, flat) for key, x in value.items()}
        return lambda tensors: {key: part(tensors) for key, part in parts.items()}
    if isinstance(value, (list, tuple)):
        kind: Any = type(value)
        items = [_flatten(name, x, flat) for x in value]
        if hasattr(kind, "_fields"):  # a named tuple
            return lambda tensors: kind(*(item(tensors) for item in items))
        return lambda tensors: kind(item(tensors) for item in items)
    raise UnusableArgumentError(
        "ML735",
        f"{name}.compile: the result has {shown(value)} in it, expected a Tensor",
        fix="return a Tensor, or a tuple, list or dict of them",
    )


__all__ = ["CompiledModule", "compile_module"]

"""``Layer``: what happens when a layer is called — its scope in the graph, and the hooks after
it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from maxlab.errors import ArgumentTypeError
from maxlab.opset.builder import SCOPE_TYPES, Builder, current

Hook = Callable[["Layer", tuple[Any, ...], dict[str, Any], Any], Any]
"""A function of the layer, its arguments, its keyword arguments and its outputs; see
``add_layer_hook``."""


class Layer:
    """The base of everything that is called to add ops to a graph. Use ``Module``, which also has
    weights.

    A call of a layer runs the hooks that ``add_layer_hook`` added, and gives the ops that it adds
    the layer's path in the model as their scope.

    Deprecated: use ``Module``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        call = cls.__dict__.get("__call__")
        forward = cls.__dict__.get("forward")
        if call is None and inspect.isfunction(forward):  # as PyTorch's modules are written
            call = cls.__call__ = _calling(forward)  # type: ignore[method-assign]
        if inspect.isfunction(call) and not hasattr(call, "__wrapped_layer__"):
            cls.__call__ = _called(call)  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the layer; subclasses define it.

        Raises:
            NotImplementedError: The class has no ``__call__`` of its own.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no __call__: define what the layer computes"
        )


def _calling(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A ``__call__`` that does what ``forward`` does, also when a subclass defines it anew."""

    @functools.wraps(forward)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes one
        return self.forward(*args, **kwargs)

    return __call__


def _called(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, a class's ``__call__``, with scope and hooks around it."""
    signature: inspect.Signature | None = None

    @functools.wraps(call)
    def invoke(self: Layer, /, *args: Any, **kwargs: Any) -> Any:
        visit, token = _enter(self)
        # Read by the graph from this frame: the ops that are added below belong to this path.
        _maxlab_scope = visit.path
        try:
            outputs = call(self, *args, **kwargs)
            hooks = _hooks()
            if hooks:
                nonlocal signature
                if signature is None:
                    signature = inspect.signature(call)
                bound = signature.bind(self, *args, **kwargs)
                for hook in hooks:
                    made = hook(self, bound.args[1:], bound.kwargs, outputs)
                    outputs = outputs if made is None else made
            return outputs
        finally:
            _visit.reset(token)

    invoke.__wrapped_layer__ = call  # type: ignore[attr-defined]
    return invoke


# ---------------------------------------------------------------- scopes
class _Visit:
    """A call that is running: the layer's path in its graph, and the paths of the layers below its
    root."""

    __slots__ = ("graph", "path", "paths", "prefix")

    def __init__(
        self, graph: Builder[Any] | None, prefix: str, paths: dict[int, str], path: str
    ) -> None:
        self.graph = graph
        self.prefix = prefix
        self.paths = paths
        self.path = path


_visit: ContextVar[_Visit | None] = ContextVar("maxlab_layer", default=None)


class _Roots:
    """The layers that were called in one graph from outside of any layer, and their paths."""

    def __init__(self) -> None:
        self.paths: dict[
            int, tuple[Layer, str]
        ] = {}  # the layer too: an id is only good while it lives

    def path(self, layer: Layer, leaf: bool) -> str:
        """The path of a root: none for the first that has layers below it, its class's name for
        others."""
        known = self.paths.get(id(layer))
        if known is None:
            taken = {path for _, path in self.paths.values()}
            path = ""
            if leaf or path in taken:
                stem = path = type(layer).__name__.lower()
                number = 1
                while path in taken:
                    number += 1
                    path = f"{stem}_{number}"
            known = self.paths[id(layer)] = (layer, path)
        return known[1]


_ROOTS = "roots of layers"
_HOOKS = "hooks of layers"


def join(*parts: str) -> str:
    """The parts of a path that are not empty, with dots between."""
    return ".".join(part for part in parts if part)


def _enter(layer: Layer) -> tuple[_Visit, Any]:
    graph = current()
    outer = _visit.get()
    if outer is not None and outer.graph is graph:
        relative = outer.paths.get(id(layer))
        if relative is not None:
            visit = _Visit(graph, outer.prefix, outer.paths, join(outer.prefix, relative))
        else:  # made inside of another layer's call: it belongs to no tree, only to the call
            path = join(outer.path, type(layer).__name__.lower())
            visit = _Visit(graph, path, _paths(layer, graph, path), path)
    else:
        prefix = ""
        if graph is not None:
            roots = graph.state.get(_ROOTS)
            if roots is None:
                roots = graph.state[_ROOTS] = _Roots()
            prefix = roots.path(layer, not _children(layer))
            _name_weights(layer, graph)
        visit = _Visit(graph, prefix, _paths(layer, graph, prefix), prefix)
    return visit, _visit.set(visit)


@contextmanager
def standing(layer: Layer, path: str) -> Iterator[Callable[[], str]]:
    """A context in which calls of ``layer`` stand at ``path`` in the graph that is being built; it
    gives a function that tells the path of the call that is running, for ``Graph.at``."""
    graph = current()
    paths = {key: join(path, below) for key, below in _paths(layer, graph, path).items()}
    token = _visit.set(_Visit(graph, "", paths, path))

    def running() -> str:
        visit = _visit.get()
        return path if visit is None else visit.path

    try:
        yield running
    finally:
        _visit.reset(token)


def _children(layer: Layer) -> bool:
    return bool(getattr(layer, "sublayers", None))


def _paths(layer: Layer, graph: Builder[Any] | None, prefix: str) -> dict[int, str]:
    """The paths below ``layer`` by identity; the graph is told the types that stand there."""
    tree = getattr(layer, "_tree", None)
    found: list[tuple[str, Layer]] = [("", layer)] if tree is None else tree()
    types = graph.state.get(SCOPE_TYPES) if graph is not None else None
    if types is not None:
        for path, child in found:
            types.setdefault(join(prefix, path), type(child).__name__)
    return {id(child): path for path, child in reversed(found)}


def _name_weights(layer: Layer, graph: Builder[Any]) -> None:
    name = getattr(layer, "_name_weights", None)
    if name is not None:
        name(graph)


# ---------------------------------------------------------------- hooks
_everywhere: list[Hook] = []
_are_silent: ContextVar[bool] = ContextVar("maxlab_no_hooks", default=False)


@contextmanager
def no_hooks() -> Iterator[None]:
    """A context in which no hooks are called: for layers that are only tried."""
    token = _are_silent.set(True)
    try:
        yield
    finally:
        _are_silent.reset(token)


def _hooks() -> list[Hook]:
    if _are_silent.get():
        return []
    graph = current()
    own = graph.state.get(_HOOKS) if graph is not None else None
    return [*_everywhere, *own] if own else list(_everywhere)


def _not_callable(hook: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML701",
        f"a hook must be callable, got {type(hook).__name__}",
        fix="pass a function of (layer, args, kwargs, outputs)",
    )


def add_layer_hook(fn: Hook) -> None:
    """Let ``fn`` be called after each call of a layer, nested ones included.

    ``fn(layer, args, kwargs, outputs)`` gets the arguments as the layer's signature binds them:
    what was passed by keyword but can stand by position is in ``args``. When it returns something
    other than None, that replaces the outputs, for the caller and for the hooks that follow. Inside
    of ``with Graph(...):`` the hook belongs to that graph; outside it stays for all graphs until
    ``clear_hooks``.

    Args:
        fn: The function.

    Raises:
        ArgumentTypeError: ML701, ``fn`` cannot be called.

    Example:
        >>> from maxlab import nn
        >>> nn.add_layer_hook(lambda layer, args, kwargs, outputs: print(type(layer).__name__))
        >>> nn.clear_hooks()
    """
    if not callable(fn):
        raise _not_callable(fn)
    graph = current()
    if graph is None:
        _everywhere.append(fn)
    else:
        graph.state[_HOOKS] = [*graph.state.get(_HOOKS, ()), fn]


def remove_layer_hook(fn: Hook) -> None:
    """Remove ``fn`` from the hooks of all graphs, and from those of the graph that is being built.

    A hook that is not there is none to remove.

    Args:
        fn: A function that ``add_layer_hook`` added.

    Example:
        >>> from maxlab import nn
        >>> hook = lambda layer, args, kwargs, outputs: print(type(layer).__name__)
        >>> nn.add_layer_hook(hook)
        >>> nn.layer.remove_layer_hook(hook)
    """
    _everywhere[:] = [hook for hook in _everywhere if hook is not fn]
    graph = current()
    if graph is not None and _HOOKS in graph.state:
        graph.state[_HOOKS] = [hook for hook in graph.state[_HOOKS] if hook is not fn]


def running_path() -> str:
    """The path in the graph of the layer whose call is running; empty for a root, or for none."""
    visit = _visit.get()
    return "" if visit is None else visit.path


def clear_hooks() -> None:
    """Remove the hooks of all graphs, and those of the graph that is being built."""
    _everywhere.clear()
    graph = current()
    if graph is not None:
        graph.state.pop(_HOOKS, None)


@contextmanager
def layer_hooks(*hooks: Hook) -> Iterator[None]:
    """A context in which ``hooks`` are called after each call of a layer, besides those added
    before.

    Example:
        >>> from maxlab import nn
        >>> seen = []
        >>> with nn.layer_hooks(lambda layer, args, kwargs, outputs: seen.append(layer)):
        ...     pass
    """
    before = list(_everywhere)
    for hook in hooks:
        if not callable(hook):
            raise _not_callable(hook)
    _everywhere.extend(hooks)
    try:
        yield
    finally:
        _everywhere[:] = before

"""The operations on tensors: each function of ``graph.ops``, for values of a graph and for tensors.

Given values of a graph, a function adds to that graph and gives values. Given tensors, or lists of
them, it records the operation and gives tensors, in the same lists, tuples and dicts. The names,
parameters, errors and examples are those of ``graph.ops``.

Example:
    >>> from maxlab.experimental import functional as F
    >>> from maxlab.experimental.tensor import Tensor
    >>> F.relu(Tensor.constant([-1.0, 2.0]))
    Tensor([0., 2.], dtype=float32, shape=(2,), device=cpu:0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from maxlab.dtype import DType
from maxlab.errors import missing
from maxlab.experimental import recording
from maxlab.experimental.kernels import library as kernel_library
from maxlab.experimental.recording import recorded, slot_in
from maxlab.experimental.stores import buffer_store, buffer_store_slice
from maxlab.experimental.tracing import here
from maxlab.experimental.tracing import recording as trace_here
from maxlab.graph import elsewhere, ops
from maxlab.ir import DeviceRef, Shape, StaticDim
from maxlab.opset.builder import current

_F = TypeVar("_F", bound=Callable[..., Any])

_PLAIN = (bool, int, str, type(None), type(...), DType, DeviceRef)
_WITHOUT = frozenset(
    {"call", "cond", "while_loop", "print", "watch", "inplace_custom", "allgather", "random"}
)
"""Functions of ``graph.ops`` that say what a graph does when it runs: tensors have Python there."""


def functional(op: _F) -> _F:
    """The function ``op`` of values of a graph, for tensors too: those in its arguments, in lists,
    tuples and dicts as well, and what it gives.

    Given a value of a graph, or called without any tensor while a graph is built, it is ``op``.

    Args:
        op: A function that adds operations to the graph in use, such as one of ``graph.ops``.

    Example:
        >>> from maxlab.experimental import functional as F
        >>> from maxlab.experimental.tensor import Tensor
        >>> from maxlab.graph import ops
        >>> @F.functional
        ... def scaled(x, by=2):
        ...     return {"sum": ops.sum(x * by), "rest": [x - 1]}
        >>> made = scaled(Tensor.constant([1.0, 2.0]))
        >>> made["sum"].item(), made["rest"][0]
        (6.0, Tensor([0., 1.], dtype=float32, shape=(2,), device=cpu:0))
    """

    remembered = _is_remembered(op)

    @functools.wraps(op)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not remembered:
            return _without_key(op, args, kwargs)
        if len(args) == 1 and not kwargs and args[0].__class__ is recording.kind:
            return recording.of_one(op, args[0])
        key = [op]
        if not _key_of(args, key) or (kwargs and not _key_of(kwargs.values(), key, kwargs)):
            return _without_key(op, args, kwargs)
        trace = here.trace
        if trace is not None and recording.remembering:
            after = trace.state.edges.get(tuple(key))
            if after is not None and (current() is None or recording.found_in(args)):
                return recording.again(trace, after)
        return _without_key(op, args, kwargs, tuple(key))

    return wrapped  # type: ignore[return-value]


def _is_remembered(op: Any) -> bool:
    """Whether what ``op`` does follows from its arguments alone. Of a function of the user's nobody
    knows, and which kernel a custom op is may change."""
    module = getattr(op, "__module__", None) or ""
    known = module.startswith("maxlab.graph.") or module in ("_operator", "builtins")
    return known and op is not ops.custom


def applied(op: Callable[..., Any], known_by: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """The recorded result of ``op`` on ``args``, among which are tensors. Another function that is
    known by the same plain values ``known_by`` does the same.
    """
    key: list[Any] = [known_by]
    if not _key_of(args, key):
        return recorded(None, op, args, {})
    trace = here.trace
    after = trace.state.edges.get(tuple(key)) if trace is not None else None
    if after is not None and trace is not None and recording.remembering:
        return recording.again(trace, after)
    return recorded(tuple(key), op, args, {})


def _without_key(op: Callable[..., Any], args: Any, kwargs: dict[str, Any], key: Any = None) -> Any:
    if current() is not None and not recording.found_in([*args, *kwargs.values()]):
        return op(*args, **kwargs)
    return recorded(key, op, args, kwargs)


def _key_of(given: Any, key: list[Any], names: Any = None) -> bool:
    """Whether ``given`` are plain values and tensors, which ``key`` then has."""
    if names is not None:
        key.append(tuple(names))
    for one in given:
        kind = one.__class__
        if kind is recording.kind:
            trace = trace_here()
            key.append((one._slot if one._trace is trace else slot_in(one, trace),))
        elif kind in _PLAIN:
            key.append(kind)
            key.append(one)
        elif kind is float:
            key.append(one.hex())
        elif kind is StaticDim:
            key.append(kind)
            key.append(one.dim)
        elif kind is slice:
            key.append(kind)
            if not _key_of((one.start, one.stop, one.step), key):
                return False
        elif kind is list or kind is tuple or kind is Shape:
            key.append(kind)
            if not _key_of(one, key):
                return False
            key.append(None)
        else:
            return False
    return True


class Functions:
    """The functions of a module of ``graph.ops`` for tensors."""

    def __init__(self, module: ModuleType, called: str) -> None:
        self._module = module
        self._called = called

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, ModuleType):
            made: Any = Functions(found, f"{self._called}.{name}")
        elif callable(found) and not isinstance(found, type):
            made = functional(found)
        else:
            made = found
        setattr(self, name, made)
        return made


_all = Functions(ops, "functional")

_names = [
    name
    for name in ops.__all__
    if callable(getattr(ops, name))
    and not isinstance(getattr(ops, name), type)
    and not name.startswith(("buffer_", "cache_"))
    and name not in _WITHOUT
]
for _name in _names:
    globals()[_name] = getattr(_all, _name)

__all__ = ["buffer_store", "buffer_store_slice", "functional", "kernel_library"]
__all__.extend(sorted(_names))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:

    def __getattr__(name: str) -> object:
        """The other functions of ``graph.ops``, by names of NumPy and PyTorch; the error for a name
        that is not there."""
        if not name.startswith("_") and name in dir(ops) and name not in _WITHOUT:
            return getattr(_all, name)
        raise missing("functional", name, __all__, elsewhere.INSTEAD)

"""The builder: what ops, operators, layers, importers and decompositions put operations into.

A ``Graph`` is one. Others may only count, infer types, or compute at once: whoever writes an
operation asks ``builder()`` for the one in use and speaks to this protocol alone. Nothing here
knows of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import Location, NoGraphError
from maxlab.ir import DeviceRef, Dim, Type

V = TypeVar("V")

SCOPE_TYPES = "types of scopes"
"""The key in ``Builder.state`` of the class names of the modules that stand at scope paths."""


class Ops(Protocol[V]):
    """The part of a builder that decompositions of ops write with."""

    def op(self, name: str, operands: Sequence[V], /, **attrs: Any) -> tuple[V, ...]:
        """The results of a new op ``mo.<name>``, whose types the op table infers.

        An op with an effect takes the chains of its devices and makes new ones; they are not among
        the results.

        Raises:
            GraphError: ML301, the table has no such op; ML314, an operand belongs elsewhere.
            MaxlabError: What the op's type rule says.
        """
        ...

    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> V:
        """The constant ``x``, a number, array or nested sequence, in ``dtype``.

        Raises:
            DTypeError: ML102, a value that ``dtype`` cannot hold.
        """
        ...

    def type_of(self, value: V) -> Type:
        """The type of ``value``."""
        ...


class Builder(Ops[V], Protocol[V]):
    """Puts operations somewhere. ``V`` is the kind of value that it hands out."""

    @property
    def name(self) -> str:
        """The name in messages: that of a graph."""
        ...

    @property
    def ops(self) -> Any:
        """The public functions of ``graph.ops``, to which the operators of values forward."""
        ...

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The memory of operations from call to call: the random stream, the roots of layers. A
        transaction that fails restores it.
        """
        ...

    def tensor(self, x: Any, what: str = "the operand") -> V:
        """``x``, a value, dim, shape, weight or array, as a tensor.

        Raises:
            ArgumentTypeError: ML317, anything else.
        """
        ...

    def weight(self, weight: Any) -> V:
        """The value of ``weight``, a ``graph.Weight``; the same one each time.

        Raises:
            GraphError: ML321, another weight has this name.
        """
        ...

    def has_weight(self, weight: Any) -> bool:
        """Whether ``weight`` is the weight of its name here."""
        ...

    def region(
        self,
        what: str,
        arguments: Sequence[V | Type],
        body: Callable[..., Sequence[V]],
    ) -> Any:
        """The region of the ops that ``body`` adds, for ``control``.

        Args:
            what: What it is part of, for messages: ``"while_loop: the body"``.
            arguments: What the arguments of ``body`` are like: types, or values of such types.
            body: Called once with the arguments; returns the values that the region gives.

        Raises:
            UnsupportedError: ML756, it computes a dim.
        """
        ...

    def control(
        self, name: str, operands: Sequence[V], regions: Sequence[Any], /, **attrs: Any
    ) -> tuple[V, ...]:
        """The results of a new op ``mo.<name>`` that runs ``regions``."""
        ...

    def call(self, body: Any, arguments: Sequence[V], prefix: str) -> tuple[V, ...]:
        """The results of ``body``, a graph, on ``arguments``; ``prefix`` precedes the names of its
        placeholder weights."""
        ...

    def known_dim(self, value: V) -> Dim | None:
        """The dim whose size ``value``, a rank-0 integer, always is; None when a run decides."""
        ...

    def known_data(self, value: V) -> np.ndarray[Any, Any] | None:
        """The elements of ``value`` if it is a constant; None otherwise."""
        ...

    @property
    def kernels(self) -> Any:
        """The declarations of custom ops, by name: a mapping.

        Raises:
            ArgumentError: ML760 from a lookup, there is no such declaration.
        """
        ...

    def dim_names(self) -> Collection[str]:
        """The names of dims that have a size here."""
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """A context that is undone if it raises: ops, weights, chains and state are as before, and
        an error of maxlab names the user's line."""
        ...

    def at(self, place: Location | None, scope: str) -> AbstractContextManager[None]:
        """A context whose ops stand at ``place`` in ``scope``, wherever the code that adds them
        is. For importers."""
        ...


_using: ContextVar[tuple[Builder[Any], ...]] = ContextVar("maxlab_builders", default=())


def current(*operands: Any) -> Builder[Any] | None:
    """The builder in use: the innermost that this thread or task has entered, else the one that an
    operand carries as ``__builder__``, else None."""
    using = _using.get()
    if using:
        return using[-1]
    for operand in operands:
        if hasattr(type(operand), "__builder__"):  # not of the object: it may raise anything
            carried: Builder[Any] = operand.__builder__
            return carried
    return None


def builder(*operands: Any, what: str = "an operation") -> Builder[Any]:
    """The builder in use, as ``current`` finds it; ``what`` is what needs it.

    Raises:
        NoGraphError: ML313, there is none.

    Example:
        >>> from maxlab.graph import Graph
        >>> from maxlab.opset.builder import builder
        >>> with Graph("g") as graph:
        ...     builder() is graph
        True
    """
    found = current(*operands)
    if found is None:
        raise NoGraphError(
            "ML313",
            f"{what} needs a graph, and none is being built",
            fix="write it inside of `with Graph(...):`",
        )
    return found


def enter(entered: Builder[Any]) -> None:
    """Let ``entered`` be the builder in use."""
    _using.set((*_using.get(), entered))


def leave(entered: Builder[Any]) -> None:
    """Go back to the builder that was in use before ``entered``."""
    using = _using.get()
    if entered in using:
        _using.set(using[: len(using) - 1 - using[::-1].index(entered)])


def entered() -> tuple[Builder[Any], ...]:
    """The builders that this thread or task has entered, the innermost last; for ``reenter``."""
    return _using.get()


def reenter(builders: tuple[Builder[Any], ...]) -> None:
    """Go back to ``builders``, which were in use before an interrupt."""
    _using.set(builders)


def one(b: Ops[V], name: str, operands: Sequence[V], /, **attrs: Any) -> V:
    """The only result of a new op ``mo.<name>``; see ``Ops.op``."""
    (made,) = b.op(name, operands, **attrs)
    return made


__all__ = [
    "SCOPE_TYPES",
    "Builder",
    "Ops",
    "builder",
    "current",
    "enter",
    "entered",
    "leave",
    "one",
    "reenter",
]

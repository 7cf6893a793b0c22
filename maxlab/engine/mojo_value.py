"""Opaque handles in Python: what kernels of users make and take, as inputs and outputs of models.

A handle is the address of an object (``mx_object`` of ``kernels/c/prelude.h``), which counts who
has it. A run holds all that it makes to its end; a `MojoValue` holds the one that it stands for,
and lets go of it when nobody has it any more, not even a tensor that is its address. Code of
kernels is never unloaded, so that a handle may outlive the model, the session and the library that
it came from.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from maxlab.driver import Tensor
from maxlab.errors import ArgumentTypeError
from maxlab.ir import OpaqueType
from maxlab.toolchain import Runtime


class MojoValue:
    """An opaque handle: what the kernel of a user has made, and only kernels understand.

    A model gives one for each output of an ``OpaqueType``, and takes it again as an input, this
    model or another one whose kernels know the type. What it holds is let go, by the destructor
    that its kernel library names, when the last ``MojoValue`` of it is.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.graph import DeviceRef, Graph, OpaqueType, ops
        >>> kernels = '''
        ... // @opaque counter drop=free
        ... typedef struct { i64 at; } counter;
        ...
        ... // @op counter_new() -> (c: counter)
        ... // @c
        ... c = malloc(sizeof *c);
        ... if (c) c->at = 0;
        ... '''
        >>> with Graph("new", custom_extensions=kernels) as graph:
        ...     graph.output(
        ...         *ops.custom("counter_new", DeviceRef.CPU(), [], [OpaqueType("counter")])
        ...     )
        >>> (counter,) = engine.InferenceSession().load(graph)()
        >>> counter
        MojoValue(counter)
    """

    __slots__ = ("__weakref__", "_cell", "_name", "definition")
    _cell: Any
    _name: str
    definition: str
    """The text that tells its type from others of that name."""

    def __init__(self) -> None:
        raise ArgumentTypeError(
            "ML786",
            "a MojoValue is made by the kernel of a model",
            fix="run a graph with an output of OpaqueType",
        )

    @classmethod
    def of(cls, runtime: Runtime, address: int, name: str, definition: str) -> MojoValue:
        """One more reference to the object at ``address``."""
        ffi, lib = runtime.ffi, runtime.lib
        made = cls.__new__(cls)
        lib.mx_retain(ffi.cast("mx_object *", address))
        # The cell lives as long as anything that reads the address, and is what lets go.
        made._cell = ffi.gc(
            ffi.new("mx_object *[1]", [ffi.cast("mx_object *", address)]),
            lambda cell: lib.mx_release(cell[0]),
        )
        made._name = name
        made.definition = definition
        return made

    @property
    def type(self) -> OpaqueType:
        """The type of the handle.

        Example:
            >>> from maxlab import engine
            >>> from maxlab.graph import DeviceRef, Graph, OpaqueType, ops
            >>> kernels = '''
            ... // @opaque cell
            ... typedef struct { i64 at; } cell;
            ...
            ... // @op cell_new() -> (c: cell)
            ... // @c
            ... c = malloc(sizeof *c);
            ... '''
            >>> with Graph("new", custom_extensions=kernels) as graph:
            ...     graph.output(
            ...         *ops.custom("cell_new", DeviceRef.CPU(), [], [OpaqueType("cell")])
            ...     )
            >>> (cell,) = engine.InferenceSession().load(graph)()
            >>> cell.type == OpaqueType("cell")
            True
        """
        return OpaqueType(self._name)

    def tensor(self, runtime: Runtime) -> Tensor:
        """The address of the object as a tensor, which keeps it."""
        memory = np.frombuffer(runtime.ffi.buffer(self._cell), np.uint64)
        array = memory.reshape(()).view(Address)
        array.handle = self
        return Tensor.from_numpy(array)

    def __repr__(self) -> str:
        return f"MojoValue({self._name})"

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "ML786",
            f"{self!r} cannot be copied or written to a file: only kernels know what it holds",
            fix="give what it holds with a kernel that makes tensors of it",
        )


class Address(np.ndarray[Any, Any]):
    """The address of an object as an array of rank 0; any other number is no handle."""

    handle: MojoValue


def handle_of(given: Any) -> MojoValue | None:
    """The handle that ``given`` is, or is the address of."""
    if isinstance(given, Tensor):
        return given.owner.handle if isinstance(given.owner, Address) else None
    return given if isinstance(given, MojoValue) else None


def address_of(tensor: Tensor) -> int:
    """The address of an object, which ``tensor`` holds as kernels of the host take it."""
    return int(tensor.to_numpy())


__all__ = ["MojoValue", "address_of", "handle_of"]

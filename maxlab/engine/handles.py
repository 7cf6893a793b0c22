"""Opaque handles in Python: what kernels of users make and take, as inputs and outputs of models.

A handle is the address of an object (``mx_object`` of ``kernels/c/prelude.h``), which counts who
has it. A run holds all that it makes to its end; a `MojoValue` holds the one that it stands for,
and lets go of it when nobody has it any more, not even a tensor that is its address. Code of
kernels is never unloaded, so that a handle may outlive the model, the session and the library that
it came from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.handles import definitions
from maxlab.driver import Tensor
from maxlab.errors import ArgumentTypeError, ExecutionError, InputTypeError, Location
from maxlab.ir import HandleType, OpaqueType
from maxlab.opset.custom import declaration_of
from maxlab.opset.custom_text import NOTHING, SAME
from maxlab.toolchain import Runtime

if TYPE_CHECKING:
    from maxlab.compiler.plan import Step


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

    __slots__ = ("__weakref__", "_cell", "_definition", "_name")
    _cell: Any
    _definition: str
    _name: str

    def __init__(self) -> None:
        raise ArgumentTypeError(
            "ML786",
            "a MojoValue is made by the kernel of a model",
            fix="run a graph with an output of OpaqueType",
        )

    @classmethod
    def _of(cls, runtime: Runtime, address: int, name: str, definition: str) -> MojoValue:
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
        made._definition = definition
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

    def _tensor(self, runtime: Runtime) -> Tensor:
        """The address of the object as a tensor, which keeps it."""
        memory = np.frombuffer(runtime.ffi.buffer(self._cell), np.uint64)
        array = memory.reshape(()).view(_Address)
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


class _Address(np.ndarray[Any, Any]):
    """The address of an object as an array of rank 0; any other number is no handle."""

    handle: MojoValue


def _handle_of(given: Any) -> MojoValue | None:
    """The handle that ``given`` is, or is the address of."""
    if isinstance(given, Tensor):
        return given.owner.handle if isinstance(given.owner, _Address) else None
    return given if isinstance(given, MojoValue) else None


_LOCAL = threading.local()


class Made:
    """The objects that one run, or one walk through the steps of a model, makes."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        release = runtime.lib.mx_release_all
        self.objects = runtime.ffi.gc(runtime.ffi.new("mx_object *[1]"), release)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Let what this thread executes put the objects it makes here."""
        before = getattr(_LOCAL, "made", None)
        _LOCAL.made = self
        try:
            yield
        finally:
            _LOCAL.made = before

    def release(self) -> None:
        """Let go of the objects; those that somebody else has live on."""
        self.runtime.lib.mx_release_all(self.objects)


@contextmanager
def some_run(runtime: Runtime) -> Iterator[None]:
    """Let what this thread makes live to the end of the ``with`` block, or of the run that it is
    in."""
    if getattr(_LOCAL, "made", None) is not None:
        yield
        return
    made = Made(runtime)
    try:
        with made.taken():
            yield
    finally:
        made.release()


def collecting(execute: Callable[..., int], runtime: Runtime) -> Callable[..., int]:
    """``execute``, whose objects go where `Made.taken` says; what is made elsewhere is let go at
    its end."""
    lib, null = runtime.lib, runtime.ffi.NULL

    def collected(*args: Any) -> int:
        found: Made | None = getattr(_LOCAL, "made", None)
        made = Made(runtime) if found is None else found
        lib.mx_collect(made.objects)
        try:
            return execute(*args)
        finally:
            lib.mx_collect(null)
            if found is None:
                made.release()

    return collected


class Handles:
    """The inputs and outputs of a model that are handles.

    Attributes:
        inputs: The type names of the inputs that are handles, by number.
        outputs: The same of the outputs.
        definitions: What tells the types that its kernels know from others of their names.
    """

    def __init__(self, compiled: Compiled, runtime: Runtime) -> None:
        source = compiled.source
        assert source.output is not None
        self.runtime = runtime
        self.inputs = _handles(v.type for v in source.inputs)
        self.outputs = _handles(v.type for v in source.output.operands)
        self.definitions = definitions(source)
        self.model = source.name
        self.names = [v.name for v in source.inputs]

    def tensor(self, number: int, given: Any) -> Tensor:
        """Input ``number`` as the address that kernels take.

        Raises:
            InputTypeError: ML786, it is no handle of its type.
        """
        found = self.require(number, given)
        return given if isinstance(given, Tensor) else found._tensor(self.runtime)

    def require(self, number: int, given: Any) -> MojoValue:
        """The handle that input ``number`` is, or is the address of.

        Raises:
            InputTypeError: ML786, it is no handle of its type.
        """
        wanted, found = self.inputs[number], _handle_of(given)
        name = f"{self.names[number]} of {self.model}"
        what = f"input {number} ({name}) must be a handle of {wanted!r}, got"
        if found is None or found._name != wanted:
            raise InputTypeError(
                "ML786",
                f"{what} {type(given).__name__ if found is None else found}",
                fix="pass an output of a model that makes one",
            )
        if self.definitions.get(wanted, found._definition) != found._definition:
            raise InputTypeError(
                "ML786",
                f"{what} {found} of a library that declares {wanted!r} otherwise",
                fix="make it anew: what it points to is laid out as the other text says",
            )
        return found

    def given(self, tensors: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """``outputs`` with a `MojoValue` for each that is a handle; one that an input, or another
        output, is already is that one."""
        made = list(outputs)
        passed = {_address(tensors[n]): _handle_of(tensors[n]) for n in self.inputs}
        for number, name in self.outputs.items():
            if isinstance(made[number], MojoValue):
                continue
            address = _address(made[number])
            found = passed.get(address)
            if found is None:
                definition = self.definitions[name]
                found = MojoValue._of(self.runtime, address, name, definition)
                passed[address] = found
            made[number] = found
        return made


def _handles(types: Any) -> dict[int, str]:
    return {n: type.name for n, type in enumerate(types) if isinstance(type, HandleType)}


def _address(tensor: Tensor) -> int:
    return int(tensor.to_numpy())


def has_handles(compiled: Compiled) -> bool:
    """Whether any value of the graph is a handle."""
    return compiled.plan.facts.has_handles


def failure(compiled: Compiled, step: Step, code: int, info: Sequence[int]) -> ExecutionError:
    """The error for a kernel that returned `NOTHING` or `SAME`."""
    ops = (compiled.source.find(node) for node in step.nodes)
    op = next(op for op in ops if op is not None)
    declared = declaration_of(op.attrs)
    at: Location | None = op.loc
    declared_at = f"it is declared at {declared.file}:{declared.line}: {declared}"
    if code == SAME:
        taken = [a.name for a in declared.operands if a.opaque]
        names = sorted((taken[info[0]], taken[info[1]]))
        return ExecutionError(
            "ML789",
            f"{declared.name}: the operands {' and '.join(names)} are one handle, and "
            f"{taken[info[0]]} is changed in place",
            at=at,
            why=[declared_at],
            fix="pass two handles",
        )
    assert code == NOTHING
    made = [a.name for a in declared.results if a.opaque]
    return ExecutionError(
        "ML785",
        f"{declared.name} made no handle: its kernel did not set {made[info[0]]}, or there was no "
        "memory for it",
        at=at,
        why=[declared_at],
        fix=f"let the body set {made[info[0]]} to memory of its own, and test what malloc gives",
    )


__all__ = ["Handles", "Made", "MojoValue", "collecting", "failure", "has_handles", "some_run"]

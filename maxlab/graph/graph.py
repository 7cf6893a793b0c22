"""``Graph``: what users build, see and compile."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab import files, trace
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    GraphError,
)
from maxlab.graph.adopting import Adopting
from maxlab.graph.build import (
    as_name,
    constant_array,
    is_array,
    is_number,
    is_weak,
    own_copy,
    staged,
    tensor,
    to_numpy,
)
from maxlab.graph.context import CurrentGraph, current_graph, pop, push
from maxlab.graph.files import UNNAMED, read_function
from maxlab.graph.foreign import users_own
from maxlab.graph.kernel_library import gathered
from maxlab.graph.module import Module
from maxlab.graph.value import TensorValue, Value, wrap
from maxlab.ir import (
    DeviceRef,
    Dim,
    Function,
    Shape,
    SymbolicDim,
    Type,
    symbols_of,
    user_frame,
    user_location,
)
from maxlab.ir import Value as IrValue

if TYPE_CHECKING:
    from maxlab.graph.weights import Weights

LIVE: weakref.WeakSet[Graph] = weakref.WeakSet()
"""The graphs of this process that are still referenced, for the notebook's list."""


class Graph(Adopting):
    """A tensor program: typed inputs, ops, and outputs. Compile it with
    ``engine.InferenceSession``.

    Use it as a context and call ``output``, or give ``forward``, which gets the inputs and returns
    the outputs.

    Args:
        name: The name of the graph; of one that is read, the name that it was saved with when left
            out. Of a file with several graphs, the name says which one is read.
        forward: Called with the inputs, then ``args`` and ``kwargs``; what it returns are the
            outputs.
        input_types: The types of the inputs.
        path: A file with a graph in MLIR's generic form, to read instead of building one.
        *args: Passed to ``forward``.
        custom_extensions: Kernel libraries for ``ops.custom``: paths of files, folders or archives,
            ``KernelLibrary`` objects, or texts with declarations.
        context: Kept for compatibility; must be None. In MLIR, types and places belong to one.
        kernel_library: A ``KernelLibrary`` to use.
        module: A ``Module`` that the graph becomes part of: others of it may call the graph, and
            they are saved together.
        **kwargs: Passed to ``forward``.

    Raises:
        GraphError: ML319, a context, or a module that is no ``Module``; ML762, an op is declared
            twice.
        ArgumentTypeError: ML326, the name is no string.
        ArgumentError: ML763, a path without a kernel library; ML365, the module has a graph of this
            name; ML366, the file has several graphs, none of this name.
        InvalidPathError: ML793, there is no file at ``path`` that can be read.
        ParseError: ``path`` has no graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> graph.output_types
        [TensorType(dtype=DType.float32, shape=[Dim('n')], device=cpu:0)]
    """

    current = CurrentGraph()

    @staged
    def __init__(
        self,
        name: str = UNNAMED,
        forward: Callable[..., Any] | None = None,
        input_types: Iterable[Type] = (),
        path: Path | str | Function | None = None,
        *args: Any,
        custom_extensions: Any = (),
        context: Any = None,
        kernel_library: Any = None,
        module: Any = None,
        **kwargs: Any,
    ) -> None:
        if context is not None or not (module is None or isinstance(module, Module)):
            what = "a context" if context is not None else f"module={module!r}"
            raise GraphError(
                "ML319",
                f"a graph takes no MLIR objects, got {what}",
                fix="leave context= out: types and places are equal wherever they are made"
                if context is not None
                else "pass a maxlab.graph.Module",
            )
        name = as_name("the name of a graph", name)
        if isinstance(path, Function):  # one of several that were read together
            function = path
        else:
            function = Function(name) if path is None else read_function(path, name)
        if module is not None:
            module.require_free(function.name)
        super().__init__(function)
        self.name = name = function.name
        self._depth = 0
        self._parent: Graph | None = None
        self._kernel_library = gathered(custom_extensions)
        if kernel_library is not None:
            more = len(self._kernel_library) > 0
            self._kernel_library = gathered(
                [kernel_library, self._kernel_library] if more else kernel_library
            )
        if path is not None:
            self._chains.read(function)
        else:
            for type in input_types:
                if not isinstance(type, Type):
                    raise ArgumentTypeError(
                        "ML320",
                        f"an input type is {type!r}, expected a TensorType or BufferType",
                        fix="write TensorType(dtype, shape)",
                    )
                self._function.add_input(type)
        self._inputs: list[Value] = [wrap(v) for v in self._function.inputs]
        LIVE.add(self)
        trace.emit("graph", name, inputs=len(self._inputs))
        self._module: Module | None = module
        if forward is not None:
            self._trace(forward, args, kwargs)
        if module is not None:  # now that nothing can fail any more
            module._add(self)

    def _trace(
        self, forward: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self._scopes._base = user_frame(2)
        push(self)
        self._depth += 1
        try:
            with users_own():
                made = _listed(forward(*self.inputs, *args, **kwargs))
            self.output(*made)
        finally:
            self._leave()

    # ------------------------------------------------------------ context
    def __enter__(self) -> Graph:
        if self._depth == 0:
            self._scopes._base = user_frame(1)
        self._depth += 1
        push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._leave()

    def _leave(self) -> None:
        pop(self)
        self._depth -= 1
        if self._depth == 0:
            self._scopes.close()

    # ------------------------------------------------------------ weights
    @staged
    def add_weight(self, weight: Any, force_initial_weight_on_host: bool = True) -> TensorValue:
        """The value of ``weight`` in this graph; the same value each time.

        Args:
            weight: A ``Weight``.
            force_initial_weight_on_host: Whether a weight of another device starts on the CPU and
                is moved.

        Raises:
            GraphError: ML321, another weight has this name.
        """
        from maxlab.graph.weight import Weight

        if not isinstance(weight, Weight):
            raise ArgumentTypeError(
                "ML333",
                f"add_weight: expected a Weight, got {type(weight).__name__}",
                fix="make one: Weight(name, DType.float32, shape, DeviceRef.CPU())",
            )
        if current_graph() is not self:
            with self:
                return self.add_weight(weight, force_initial_weight_on_host)
        return self._add_weight(weight, force_initial_weight_on_host)

    def weights(self) -> Weights:
        """A root for the names of weights that have no data yet:
        ``graph.weights().layers[0].w.allocate(...)``.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph
            >>> weights = Graph("g").weights()
            >>> weights.layers[0].w.allocate(DType.float32, [4, 4])
            Weight('layers.0.w', dtype=DType.float32, shape=[Dim(4), Dim(4)], device=cpu:0)
        """
        from maxlab.graph.weights.declared import DeclaredWeights

        return DeclaredWeights()

    # ------------------------------------------------------------ outputs
    @property
    def inputs(self) -> Sequence[Value]:
        """The input values, in the order of the input types."""
        return self._inputs

    @staged
    def output(self, *outputs: Any) -> None:
        """Set the outputs of the graph. A second call replaces them, and warns.

        Args:
            *outputs: Values, weights, dims, shapes, numbers or arrays.

        Warns:
            UserWarning: The graph has outputs, which these replace; it names both places.

        Raises:
            GraphError: An output belongs to another graph.
        """
        if current_graph() is not self:
            with self:
                self.output(*outputs)
            return
        values: list[IrValue] = []
        for x in outputs:
            if isinstance(x, Value):
                values.append(self._own(x))
            elif is_weak(x):
                array = own_copy(to_numpy(x), x)
                values.append(self._own(constant_array(array, DeviceRef.CPU())))
            else:
                values.append(self._own(tensor(x, "an output")))
        function = self._function
        old = function.output
        if old is not None:
            old.drop()
            function.ops.remove(old)
        location, _ = self._scopes.capture(2)
        if old is not None:
            frame = user_frame()
            warnings.warn_explicit(
                f"the graph {self.name!r} had an output, set at {old.loc or 'an unknown place'}; "
                f"the one of {user_location() or 'this call'} replaces it. Give all outputs at "
                "once: graph.output(x, y)",
                UserWarning,
                frame.f_code.co_filename if frame is not None else "<graph>",
                frame.f_lineno if frame is not None else 1,
            )
        function.block.append(function.create("mo.output", values, [], {}, loc=location, scope=""))
        self._revision += 1

    @property
    def output_types(self) -> list[Type]:
        """The types of the outputs.

        Raises:
            GraphError: ML322, ``output`` was not called.
        """
        op = self._function.output
        if op is None:
            raise GraphError(
                "ML322",
                f"the graph {self.name!r} has no output yet",
                at=user_location(),
                fix="call graph.output(...)",
            )
        return [v.type for v in op.operands]

    # ------------------------------------------------------------ subgraphs
    @staged
    def add_subgraph(
        self,
        name: str,
        forward: Callable[..., Any] | None = None,
        input_types: Iterable[Type] = (),
        path: Path | None = None,
        custom_extensions: Any = (),
        devices: Iterable[DeviceRef] = (),
    ) -> Graph:
        """A new graph that this one may call with ``ops.call``.

        Args:
            name: A name that no other subgraph of this graph has.
            forward: Called with the inputs; builds the body at once.
            input_types: The types of the inputs.
            path: A saved graph to use as the body.
            custom_extensions: Kernel libraries beside those of this graph.
            devices: The devices the body uses; every device must be named by a value anyway, so
                this only documents.

        Raises:
            ArgumentError: ML323, the name is taken.
        """
        name = as_name("the name of a subgraph", name)
        if name in self._subgraphs:
            raise ArgumentError(
                "ML323",
                f"the graph {self.name!r} already has a subgraph {name!r}",
                fix="give the subgraph another name, or call the one that is there",
            )
        for device in devices:
            DeviceRef.from_device(device)
        subgraph = Graph(
            name,
            None,
            input_types,
            path,
            custom_extensions=custom_extensions,
            kernel_library=self._kernel_library,
        )
        subgraph._parent = self
        LIVE.discard(subgraph)
        if forward is not None:
            subgraph._trace(forward, (), {})
        self._subgraphs[name] = subgraph
        return subgraph

    @property
    def module(self) -> Module | None:
        """The module that the graph is part of; None when it is part of none."""
        return self._module

    # ------------------------------------------------------------ reading
    @property
    def revision(self) -> int:
        """A number that grows with every change of the graph."""
        return self._revision

    @property
    def kernel_libraries_paths(self) -> list[Path]:
        """The paths of the custom kernel libraries."""
        return self._kernel_library.library_paths()

    @property
    def parameters(self) -> list[SymbolicDim]:
        """The symbolic dims of the inputs, in order."""
        return symbols_of(v.type for v in self._function.inputs)

    def save(self, path: Path | str) -> None:
        """Write the graph to a file, in MLIR's generic form; ``Graph(path=...)`` reads it.

        Constants are written with it, weights are not: their data stays in the weights registry.

        Args:
            path: The file, which is replaced when all is written.

        Raises:
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.

        Example:
            >>> import tempfile
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
            ...     graph.save(file.name)
            ...     Graph(path=file.name).output_types == graph.output_types
            True
        """
        from maxlab.ir.printer import generic

        files.write_text(path, generic(self._function), "the graph")

    def __str__(self) -> str:
        from maxlab.ir.printer import pretty

        return pretty(self._function)

    def __repr__(self) -> str:
        ops = len([op for op in self._function.ops if op.name != "mo.output"])
        return f"Graph({self.name!r}, {len(self._inputs)} inputs, {ops} ops)"

    def to_html(self, path: Path | str | None = None) -> Any:
        """The graph as one HTML page that needs no network: its text, or, when ``path`` is given,
        the path it was written to.

        Raises:
            DocumentError: ML810, maxlab was installed without its front end.
        """
        return trace.export_html(self, path)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)


def _listed(made: Any) -> tuple[Any, ...]:
    """What ``forward`` returned, as a tuple of outputs: nothing, one value, or several."""
    if made is None:
        return ()
    one = isinstance(made, (Value, Dim, Shape)) or is_number(made) or is_array(made)
    return (made,) if one or not isinstance(made, Iterable) else tuple(made)

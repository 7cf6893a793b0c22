"""``Graph``: what users build, see and compile."""

from __future__ import annotations

import os
import weakref
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from maxlab import files, trace
from maxlab.dtype import DType
from maxlab.errors import (
    NO_GRADIENTS,
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    Location,
    MaxlabError,
    NoGraphError,
    elsewhere,
    unlisted,
    untrained,
)
from maxlab.graph import ops
from maxlab.graph.arguments import add_inputs, libraries, refuse_mlir
from maxlab.graph.build import as_name, as_tensor, staged
from maxlab.graph.chains import DeviceChains
from maxlab.graph.control_flow import closed, traced
from maxlab.graph.files import UNNAMED, functions_of, read_function
from maxlab.graph.foreign import users_own
from maxlab.graph.inlining import Calls, may_call
from maxlab.graph.instead import INSTEAD
from maxlab.graph.journal import Noted
from maxlab.graph.kernel_library import KernelLibrary
from maxlab.graph.known import dim_names, known_data, known_dim
from maxlab.graph.operands import data_of, plain
from maxlab.graph.outputs import Inputs, as_outputs, listed, one_by_one, warn_replaced
from maxlab.graph.parameters import callable_with, no_such_argument, parameter_names
from maxlab.graph.regions import Region
from maxlab.graph.signing import remember
from maxlab.graph.value import TensorValue, TensorValueLike, Value, _ChainValue, wrap
from maxlab.graph.weight import Weight
from maxlab.graph.weight_table import WeightTable
from maxlab.graph.writer import Transaction, Writer
from maxlab.habits import fitting
from maxlab.ir import (
    Constant,
    DeviceRef,
    Dim,
    Function,
    SymbolicDim,
    Type,
    symbols_of,
    user_frame,
    user_location,
)
from maxlab.ir.cells import latest_run
from maxlab.ir.printer import generic, pretty
from maxlab.opset import OPSET, OpDef, is_weight, lookup, operations
from maxlab.opset.builder import SCOPE_TYPES, current, enter, leave
from maxlab.opset.effects import devices_of

if TYPE_CHECKING:
    from maxlab.graph.document import Document, Notes
    from maxlab.graph.grouped import Groups
    from maxlab.graph.weights import Weights
    from maxlab.ir.edit import Edit
    from maxlab.ir.edit_log import Log
    from maxlab.opset.declared import Declaration

_ROWS: dict[str, OpDef] = {}  # of ops that were made, without ``mo.``

LIVE: weakref.WeakSet[Graph] = weakref.WeakSet()
"""The graphs of this process that are still referenced, for the notebook's list."""


class CurrentGraph:
    """``Graph.current``: the graph that is being built."""

    def __get__(self, instance: object, owner: type | None = None) -> Graph:
        found = current()
        if not isinstance(found, Graph):
            raise NoGraphError(
                "ML313",
                "no graph is being built",
                fix="write it inside of `with Graph(...):`",
            )
        return found


class Graph(trace.Displayed):
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
        path: A file that ``save`` wrote, to read instead of building a graph.
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
        refuse_mlir(context, module)
        name = as_name("the name of a graph", name)
        notes: Notes | None = None
        if isinstance(path, Function):  # one of several that were read together
            function = path
        elif path is None:
            function = Function(name)
        else:
            function, notes = read_function(path, name)
        if module is not None:
            module.require_free(function.name)
        self.name = name = function.name
        self._writer = writer = Writer(self, function)
        self._chains = DeviceChains(writer)
        self._weights = WeightTable(writer)
        self._calls = Calls(writer, self._chains, self._weights)
        self._subgraphs: Noted[str, Graph] = Noted(writer.journal)
        writer.state[SCOPE_TYPES] = Noted(writer.journal)
        self._depth = 0
        self._notes: Notes | None = None
        self._parent: Graph | None = None
        self._kernel_library = libraries(custom_extensions, kernel_library)
        if path is not None:
            self._chains.read(function)
        else:
            if forward is None and kwargs:
                raise no_such_argument(sorted(kwargs))
            add_inputs(function, input_types)
        self._inputs: list[Value] = Inputs(wrap(v) for v in function.inputs)
        self._input_names = parameter_names(forward, len(self._inputs))
        if notes is not None:
            self._know(notes)
        self.made_in = latest_run()
        # The lines that ops of a file or of another graph name did not run for this graph.
        self.taken_over = frozenset(op.id for op in function.walk() if path is not None)
        LIVE.add(self)
        trace.emit("graph", name, inputs=len(self._inputs))
        self._module: Any = module
        if forward is not None:
            self._trace(callable_with(forward, len(self._inputs), args, kwargs), args, kwargs)
        if module is not None:  # now that nothing can fail any more
            module.add(self)

    def _trace(
        self, forward: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self._writer.scopes.open(user_frame())
        enter(self)
        self._depth += 1
        try:
            with users_own():
                made = listed(forward(*self.inputs, *args, **kwargs))
            self.output(*made)
        finally:
            self._leave()

    # ------------------------------------------------------------ context
    def __enter__(self) -> Graph:
        if self._depth == 0:
            self._writer.scopes.open(user_frame())
        self._depth += 1
        enter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._leave()

    def _leave(self) -> None:
        leave(self)
        self._depth -= 1
        if self._depth == 0:
            self._writer.scopes.close()

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
        if not isinstance(weight, Weight):
            raise ArgumentTypeError(
                "ML333",
                f"add_weight: expected a Weight, got {type(weight).__name__}",
                fix="make one: Weight(name, DType.float32, shape, DeviceRef.CPU())",
            )
        if current() is not self:
            with self:
                return self.add_weight(weight, force_initial_weight_on_host)
        made: TensorValue = wrap(self._weights.add(weight, force_initial_weight_on_host))
        return made

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

    # ------------------------------------------------------------ the builder
    # What `opset.builder.Builder` asks for: all that adds ops goes through these.
    ops: Any = ops

    @property
    def state(self) -> Noted[str, Any]:
        """The memory of operations from call to call; a transaction that fails restores it."""
        return self._writer.state

    def tensor(self, x: Any, what: str = "the operand") -> TensorValue:
        """``x``, a value, dim, shape, weight or array, as a tensor of this graph.

        Raises:
            ArgumentTypeError: ML317, anything else.
        """
        if x.__class__ is TensorValue:
            return x
        return as_tensor(self, x, what)

    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> TensorValue:
        """The constant ``x``, a number, array or nested sequence, in ``dtype``.

        Raises:
            DTypeError: ML102, a value that ``dtype`` cannot hold.
        """
        made: TensorValue
        (made,) = self.op("constant", [], value=Constant(data_of(x, dtype)), device=device)
        return made

    def type_of(self, value: Value) -> Type:
        """The type of ``value``."""
        return value.type

    def op(self, name: str, operands: Sequence[Any], /, **attrs: Any) -> tuple[Any, ...]:
        """The results of a new op ``mo.<name>``, whose types the op table infers; see
        ``opset.builder.Ops``.

        Raises:
            GraphError: ML301, there is no such op; ML314, an operand belongs to another graph, or
                this graph is not the one that is being built.
            MaxlabError: What the op's type rule says.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     (y,) = graph.op("exp", graph.inputs)
            ...     y.shape
            [Dim('n')]
        """
        writer = self._writer
        row = _ROWS.get(name)
        if row is None:
            row = _ROWS[name] = lookup(f"mo.{name}")
        values = writer.owned(operands)
        if attrs:
            attrs = {key: plain(value) for key, value in attrs.items()}
        types = writer.types_of(row, values, attrs)
        if row.effect:
            return self._effect(row.name, values, types, attrs)
        made = writer.append(row.name, values, types, attrs).results
        return (wrap(made[0]),) if len(made) == 1 else tuple(map(wrap, made))

    def _effect(
        self, name: str, values: list[Any], types: Sequence[Type], attrs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The results of an op that has its place in the order of effects of its devices."""
        devices = devices_of(OPSET[name], [v.type for v in values], attrs)
        chains = [self._chains.of(device) for device in devices]
        results = [*types, *(chain.type for chain in chains)]
        made = self._writer.append(name, [*values, *chains], results, attrs).results
        for device, chain in zip(devices, made[len(types) :], strict=True):
            self._chains.newest[device] = chain
        return tuple(map(wrap, made[: len(types)]))

    def region(
        self,
        what: str,
        arguments: Sequence[Value | Type],
        body: Callable[..., Sequence[Value]],
    ) -> Region:
        """The region of the ops that ``body`` adds; see ``opset.builder.Builder``.

        Raises:
            UnsupportedError: ML756, it computes a dim.
        """
        return traced(self._writer, self._chains, what, arguments, body)

    def control(
        self, name: str, operands: Sequence[Any], regions: Sequence[Region], /, **attrs: Any
    ) -> tuple[Any, ...]:
        """The results of a new op ``mo.<name>`` that runs ``regions``."""
        values = self._writer.owned(operands)
        row = lookup(f"mo.{name}")
        made = closed(self._writer, self._chains, row, values, regions, attrs)
        return tuple(map(wrap, made))

    def call(self, body: Any, arguments: Sequence[Any], prefix: str = "") -> tuple[Any, ...]:
        """The results of the graph ``body`` on ``arguments``; see ``ops.call``.

        Raises:
            ArgumentTypeError: ML348, ``body`` is not a graph.
            GraphError: ML346, it is not a subgraph of this graph, and not in its module; ML322, it
                has no output; ML321, a weight of the prefixed name has another type.
            ArgumentError: ML347, another number of arguments, or one of another type.
        """
        if not isinstance(body, Graph):
            raise ArgumentTypeError(
                "ML348",
                f"call: expected a Graph, got {type(body).__name__}",
                fix="pass what graph.add_subgraph or module.build_subgraph returned",
            )
        if not may_call(self, body):
            raise GraphError(
                "ML346",
                f"call: {body.name!r} is not a subgraph of {self.name!r}",
                fix=f"make it with {self.name}.add_subgraph(...)",
            )
        body.output_types  # noqa: B018 - raises when there is no output
        return tuple(self._calls.write(body, arguments, prefix))

    def weight(self, weight: Weight) -> TensorValue:
        """The value of ``weight`` in this graph; see ``add_weight``."""
        return self.add_weight(weight)

    def has_weight(self, weight: Weight) -> bool:
        """Whether ``weight`` is the weight of its name in this graph."""
        return self._weights.weights.get(weight.name) is weight

    def known_dim(self, value: Value) -> Dim | None:
        """The dim whose size ``value``, a rank-0 integer, always is; None when a run decides."""
        return known_dim(value._ir())

    def known_data(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The elements of ``value`` if it is a constant of the graph; None otherwise."""
        return known_data(value._ir())

    @property
    def kernels(self) -> KernelLibrary:
        """The library with the custom ops of this graph."""
        return self._kernel_library

    @contextmanager
    def knowing(self, declared: Declaration) -> Iterator[None]:
        """A context in which the graph has the custom op ``declared``, in the place of one of its
        name; it keeps it, unless the context ends by an exception."""
        before = self._kernel_library
        self._kernel_library = before.having(declared)
        try:
            yield
        except BaseException:
            self._kernel_library = before
            raise

    def dim_names(self) -> Collection[str]:
        """The names of dims that have a size in this graph, those of the inputs first."""
        return dim_names(self._writer.function)

    def transaction(self) -> Transaction:
        """A context that is undone if it raises, whatever it raises: the graph is as it was.

        Ids of what was undone are not given again.

        Example:
            >>> from maxlab.graph import Graph, ops
            >>> with Graph("g", input_types=[]) as graph:
            ...     before = str(graph)
            ...     try:
            ...         with graph.transaction():
            ...             _ = ops.shape_to_tensor([1, 2])
            ...             raise KeyError
            ...     except KeyError:
            ...         str(graph) == before
            True
        """
        return Transaction(self._writer)

    def at(
        self, place: Location | None, scope: str | Callable[[], str]
    ) -> AbstractContextManager[None]:
        """A context whose ops stand at ``place`` in ``scope``, or in what that gives for each of
        them, wherever the code that adds them is."""
        return self._writer.at(place, scope)

    # ------------------------------------------------------------ effects
    @property
    def device_chains(self) -> DeviceChains:
        """The newest chain of each device: what is loaded, stored or printed there next comes
        behind it.
        """
        return self._chains

    @property
    def always_ready_chain(self) -> _ChainValue:
        """A chain that is behind nothing; the same one each time."""
        return self._chains.ready()

    # ------------------------------------------------------------ what calls and views read
    @property
    def body(self) -> Function:
        """The function that callers write down; it does not change when the graph does."""
        return self._calls.body

    @property
    def weight_table(self) -> WeightTable:
        """The weights of the graph, and their values."""
        return self._weights

    @property
    def subgraphs(self) -> Mapping[str, Graph]:
        """The subgraphs by name; with those that were made of operations of the graph, as long as
        they are called."""
        made = self._calls.subgraphs()
        return {**self._subgraphs, **made} if made else self._subgraphs

    def become_part_of(self, parent: Graph) -> None:
        """Be a subgraph of ``parent``: the weights of the same names are its weights."""
        self._parent = parent
        for op in self.function.ops:
            weight = parent.weight_table.weights.get(op.attrs["name"]) if is_weight(op) else None
            if weight is not None:
                self._weights.weights[weight.name] = weight
                self._weights.values[weight.name] = op.result

    @property
    def calls(self) -> Calls:
        """The calls of subgraphs that are written into the graph."""
        return self._calls

    @property
    def parent(self) -> Graph | None:
        """The graph whose subgraph this is; None if it is none."""
        return self._parent

    @property
    def scope_calls(self) -> Mapping[str, tuple[str, Location]]:
        """Of each scope that a call of a function or a module opened: the scope around it, and
        where the call was written."""
        return MappingProxyType(self._writer.scopes.calls)

    @property
    def scope_types(self) -> Noted[str, str]:
        """The class names of the modules that were called, by scope path."""
        found: Noted[str, str] = self._writer.state[SCOPE_TYPES]
        return found

    def body_scopes(self) -> dict[Function, Mapping[str, str]]:
        """The class names at the scopes of each subgraph that is called, by the body of the
        subgraph; of those that subgraphs call, too.
        """
        found: dict[Function, Mapping[str, str]] = {}
        for subgraph in self.subgraphs.values():
            found.update(subgraph.body_scopes())
            found[subgraph.body] = subgraph.scope_types
        return found

    @property
    def function(self) -> Function:
        """The ops of the graph as the compiler reads them, the newest last."""
        return self._writer.function

    @function.setter
    def function(self, function: Function) -> None:
        self._writer.write(function)

    @property
    def log(self) -> Log:
        """The changes of the graph, as records in their order."""
        return self._writer.log

    def reread(self, edits: Iterable[Edit] = ()) -> None:
        """Knows what ``edits``, which were made to the function itself, have changed beside its
        operations: the newest chain of each device, and which operations are still those of a
        subgraph that was called."""
        self._chains.read(self._writer.function)
        self._calls.reread(edits)

    @property
    def _error(self) -> MaxlabError | None:
        return self._writer.error

    @property
    def error(self) -> MaxlabError | None:
        """The error that stopped the code that builds the graph, which a view shows; None after the
        next operation.
        """
        return self._writer.error

    @error.setter
    def error(self, error: MaxlabError | None) -> None:
        self._writer.error = error

    @property
    def _revision(self) -> int:
        return self._writer.log.revision

    # ------------------------------------------------------------ outputs
    @property
    def inputs(self) -> Sequence[Value]:
        """The input values, in the order of the input types."""
        values = self._writer.function.inputs
        if [v._ir() for v in self._inputs] != values:  # an edit added or removed some
            known = {value._ir(): value for value in self._inputs}
            self._inputs = Inputs(known[v] if v in known else wrap(v) for v in values)
        return self._inputs

    @staged
    def output(self, *outputs: Any) -> None:
        """Set the outputs of the graph. A second call replaces them, and warns.

        Args:
            *outputs: Values, weights, dims, shapes, numbers or arrays; or one list of them.

        Warns:
            UserWarning: The graph has outputs, which these replace; it names both places.

        Raises:
            GraphError: An output belongs to another graph.
        """
        if current() is not self:
            with self:
                self.output(*outputs)
            return
        owned = self._writer.owned(as_outputs(one_by_one(outputs)))
        location, _ = self._writer.place()
        old = self._writer.function.output
        if old is not None:
            warn_replaced(self.name, old)
        self._writer.set_output(owned, location)

    @property
    def output_types(self) -> list[Type]:
        """The types of the outputs.

        Raises:
            GraphError: ML322, ``output`` was not called.
        """
        op = self._writer.function.output
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
        if name in self.subgraphs:
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
    def module(self) -> Any:
        """The ``Module`` that the graph is part of; None when it is part of none."""
        return self._module

    # ------------------------------------------------------------ reading
    @property
    def revision(self) -> int:
        """A number that grows with every change of the graph."""
        return self._writer.log.revision

    @property
    def kernel_libraries_paths(self) -> list[Path]:
        """The paths of the custom kernel libraries."""
        return self._kernel_library.library_paths()

    @property
    def parameters(self) -> list[SymbolicDim]:
        """The symbolic dims of the inputs, in order."""
        return symbols_of(v.type for v in self._writer.function.inputs)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs in the program: the parameters of ``forward``, or none."""
        return self._input_names

    def _know(self, notes: Notes) -> None:
        """Have ``notes``, which were read with the graph, beside it."""
        self._notes = notes
        self._input_names = notes.inputs
        for path, kind in notes.scopes.items():
            self.scope_types[path] = kind
        if notes.groups is not None:
            self._know_groups(notes.groups)

    def _know_groups(self, groups: Groups) -> None:
        """Call the subgraphs that ``groups`` says, as far as its operations are theirs."""
        from maxlab.graph.grouped import calls_of

        bodies: list[Function] = []
        for body, inner, scopes in zip(groups.bodies, groups.inner, groups.scopes, strict=True):
            body.calls = calls_of(body, inner, bodies)
            subgraph = Graph(path=body, kernel_library=self._kernel_library)
            LIVE.discard(subgraph)  # it is none of the user's
            subgraph.become_part_of(self)
            for path, kind in scopes.items():
                subgraph.scope_types[path] = kind
            self._calls.made[subgraph.body] = subgraph
            bodies.append(subgraph.body)
        for call in calls_of(self.function, groups.calls, bodies):
            self._calls.note(call)

    @property
    def document(self) -> Document:
        """The graph with its layout, comments and drafts, which ``save("name.mlgraph")`` writes."""
        from maxlab.graph.document import Document, Notes

        if self._notes is None:
            self._notes = Notes()
        return Document(self, self._notes)

    @property
    def kept_weights(self) -> MutableMapping[str, Any]:
        """The numbers of weights that ``document`` keeps, by the names of the weights; empty where
        nobody has asked for one."""
        return {} if self._notes is None else self.document.weights

    def edit(self, *, height: int = 560) -> Any:
        """A view of the graph with editing on, as the last line of a cell shows it: what is changed
        in it is this graph. Outside of a notebook it is a line of text.

        Args:
            height: Of the view, in CSS pixels.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> graph.edit()
            GraphView('double', 1 op)
        """
        return trace.reading("edit")(self, height=height)

    @fitting("ML975", "graph.save(path)")
    def save(self, path: Path | str, weights: Mapping[str, Any] | None = None) -> None:
        """Writes the graph to a file, which ``maxlab.open(path)`` and ``Graph(path=...)`` read.

        Where the name ends with ``.mlgraph`` it is a document: JSON, with the layout, the comments
        and the drafts of ``graph.document``. Other files are in MLIR's generic form.

        Constants are written with it. The numbers of weights are too, in a document, where they are
        given or the document has them already: up to 4 KiB in the document, larger ones in a
        ``.safetensors`` file beside it, which the document names. The numbers of other weights stay
        in the weights registry. Custom kernels of the graph that are compiled in this process are
        compiled wherever this user opens the file, as long as it is not changed.

        Args:
            path: The file, which is replaced when all is written.
            weights: The numbers of weights that the document keeps from now on, by their names,
                such as ``model.weights``; those of weights that the graph does not read are left
                out.

        Raises:
            GraphError: ML355, an attribute of an operation is of this process alone; ML886, the
                numbers of a weight are not of its type, or the file is no document.
            DocumentError: ML867, something beside the graph is not what a file can hold.
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
        from maxlab.graph.conflicts import warn_of_conflicts
        from maxlab.graph.document import SUFFIX
        from maxlab.graph.kept import remove_unused, weights_of, write_weights

        where = files.as_path(path)
        is_document = where.suffix == SUFFIX
        kept = self.document.weights if is_document else None
        if kept is not None:
            given = weights or {}
            for name in weights_of(self.function) if given else ():
                if name in given:
                    kept[name] = given[name]
            if kept:
                where = Path(os.path.realpath(where))
                write_weights(self.document.notes.weights, self.function, where)
        elif weights is not None:
            raise GraphError(
                "ML886",
                f"{where} would be no document, and only a document keeps the numbers of weights",
                fix="save it as a document: graph.save('name.mlgraph', weights=weights)",
            )
        text = self.document.text() if is_document else generic(self._writer.function)
        files.write_text(path, text, "the graph")
        if kept:
            remove_unused(where, SUFFIX)
        warn_of_conflicts(self._writer.function, "saved")
        remember(text, self._writer.function)

    @fitting("ML975", "graph.to_python('net.py')")
    def to_python(
        self, path: Path | str | None = None, weights: Mapping[str, Any] | None = None
    ) -> str:
        """The Python program that builds this graph, as a person would have written it.

        Each scope becomes a function; scopes that compute the same with other weights become one
        function, and calls of it or a loop. Comments and drafts of the document become comments.
        What the program builds is this graph: the same operations with the same attributes, wired
        alike, the same names and the same constants, bit by bit. Places on the canvas are not in
        it.

        Args:
            path: The file that the program is written to. Constants of more than 4 KiB, and the
                data of ``weights``, are written beside it, into a ``.safetensors`` file that the
                program reads. Without a path nothing is written.
            weights: The data of the weights by their names, such as a registry for a session. The
                program then reads it; without it, the program declares the weights, and
                ``InferenceSession.load`` is given the data.

        Raises:
            GraphError: ML837, an operation cannot be written; ML839, a constant is long and there
                is no path, or the data of a weight is missing or is not of its type.
            ArgumentError: ML838, the path ends with ``.safetensors``.
            FileError: ML003, a file cannot be written.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType, ops
            >>> row = TensorType(DType.float32, ["n", 8])
            >>> graph = Graph("scores", lambda x: ops.softmax(x * 2 + 1), [row])
            >>> print(graph.to_python())
            from maxlab.dtype import DType
            from maxlab.graph import Graph, TensorType, ops
            <BLANKLINE>
            with Graph("scores", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
                x = graph.inputs[0].tensor
                graph.output(ops.softmax(x * 2 + 1))
            <BLANKLINE>
        """
        from maxlab.graph.code import to_python

        return to_python(self, path, weights, trial, {"Graph": Graph})

    @staged
    def name_values(
        self,
        names: Mapping[str, Value | TensorValueLike] | None = None,
        **more: Value | TensorValueLike,
    ) -> None:
        """Gives names to values, which views show and files keep.

        Args:
            names: Values by their names; for names that Python does not have. An array becomes a
                constant of its name.
            **more: The same, for other names.

        Raises:
            ArgumentTypeError: ML317, something is no value; ML383, a name is no string.
            GraphError: ML314, a value belongs to another graph.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType, ops
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     x = graph.inputs[0].tensor
            ...     y = ops.exp(x)
            ...     graph.name_values(x=x, y=y)
            ...     graph.output(y)
            >>> [value.name for value in graph.function.inputs]
            ['x']
        """
        for name, value in {**(names or {}), **more}.items():
            as_name("a value", name)
            named = value if isinstance(value, Value) else self.tensor(value)
            self._writer.own(named)
            named._ir().rename(name)

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[Any, ...]]:
        # What `save` writes: copies and pickles are graphs that were read.
        libraries = self.kernel_libraries_paths
        function = self._writer.function
        is_plain = self._notes is None and not any(function.notes.values())
        text = generic(function) if is_plain else self.document.text()
        return read_text, (type(self), text, self.name, libraries)

    def __call__(self, *args: Any) -> NoReturn:
        """Raises: a graph is compiled before it runs.

        Raises:
            GraphError: ML970, always.
        """
        raise GraphError(
            "ML970",
            f"the graph {self.name!r} cannot be called: it is not compiled",
            fix="maxlab.load(graph)(array)[0]; inside of another graph: ops.call(graph, x)",
        )

    def __add__(self, other: object) -> NoReturn:
        raise ArgumentTypeError(
            "ML973",
            "graphs are not added: a graph is no list of operations",
            fix="compare them: maxlab.diff(graph, graph); call one in another: ops.call(graph, x)",
        )

    __radd__ = __add__

    def __str__(self) -> str:
        return pretty(self._writer.function)

    def __repr__(self) -> str:
        inputs, ops = len(self.inputs), operations(self._writer.function)
        return (
            f"Graph({self.name!r}, {inputs} input{'s' * (inputs != 1)}, {ops} op{'s' * (ops != 1)})"
        )


def trial() -> Graph:
    """A graph that nobody lists, to try expressions in."""
    made = Graph("trial")
    LIVE.discard(made)
    return made


def read_text(kind: type[Graph], text: str, name: str, libraries: Sequence[Path]) -> Graph:
    """The graph of ``text``, which a file could hold: what a copy or a pickle is made by."""
    found, notes = next(one for one in functions_of(text, name) if one[0].name == name)
    made = kind(name, path=found, custom_extensions=list(libraries))
    if notes is not None:
        made._know(notes)
    return made


elsewhere(Graph, "graph", INSTEAD)
untrained(Graph, "graph", (*NO_GRADIENTS, "train"))
unlisted(Graph, "graph", "graph.function.ops is a list of its operations; print(graph) shows them")

"""``Graph``: what users build, see and compile."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from maxlab import trace
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    InvalidPathError,
    Location,
    MaxlabError,
    NoGraphError,
    ParseError,
)
from maxlab.graph.build import (
    add,
    constant_array,
    is_array,
    is_number,
    is_weak,
    own_copy,
    staged,
    tensor,
    to_numpy,
)
from maxlab.graph.chains import _DeviceChainMap
from maxlab.graph.context import current_graph, pop, push
from maxlab.graph.kernel_library import gathered
from maxlab.graph.regions import Region, outermost, unreachable
from maxlab.graph.value import TensorValue, Value, _ChainValue, wrap
from maxlab.ir import (
    Block,
    ChainType,
    DeviceRef,
    Dim,
    Function,
    Op,
    Shape,
    SymbolicDim,
    TensorType,
    Type,
    symbols_of,
    user_frame,
    user_location,
)
from maxlab.ir import Value as IrValue
from maxlab.ir.source import Scopes

if TYPE_CHECKING:
    from maxlab.graph.weight import Weight
    from maxlab.graph.weights import Weights

LIVE: weakref.WeakSet[Graph] = weakref.WeakSet()
"""The graphs of this process that are still referenced, for the notebook's list."""


_UNNAMED = "graph"


class _Current:
    """``Graph.current``: the graph that is being built."""

    def __get__(self, instance: object, owner: type | None = None) -> Graph:
        graph = current_graph()
        if graph is None:
            raise NoGraphError(
                "ML313",
                "no graph is being built",
                fix="write it inside of `with Graph(...):`",
            )
        return graph


class _Mark(NamedTuple):
    """What a graph had before an op was staged; ``blocks`` are the ops, arguments and captures of
    its own block and of each region that is being built."""

    blocks: tuple[tuple[int, int, int], ...]
    number: int
    output: Op | None
    weights: int
    subgraphs: int
    calls: int
    chains: dict[DeviceRef, IrValue]
    first: dict[DeviceRef, IrValue]
    ready: _ChainValue | None


class Graph:
    """A tensor program: typed inputs, ops, and outputs. Compile it with
    ``engine.InferenceSession``.

    Use it as a context and call ``output``, or give ``forward``, which gets the inputs and returns
    the outputs.

    Args:
        name: The name of the graph; of one that is read, the name that it was saved with when left
            out.
        forward: Called with the inputs, then ``args`` and ``kwargs``; what it returns are the
            outputs.
        input_types: The types of the inputs.
        path: A file with a graph in MLIR's generic form, to read instead of building one.
        *args: Passed to ``forward``.
        custom_extensions: Kernel libraries for ``ops.custom``: paths of files, folders or archives,
            ``KernelLibrary`` objects, or texts with declarations.
        context: Kept for compatibility; must be None.
        kernel_library: A ``KernelLibrary`` to use.
        module: Kept for compatibility; must be None.
        **kwargs: Passed to ``forward``.

    Raises:
        GraphError: ML319, a context or a module is given; ML762, an op is declared twice.
        ArgumentError: ML763, a path without a kernel library.
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

    current = _Current()

    @staged
    def __init__(
        self,
        name: str = _UNNAMED,
        forward: Callable[..., Any] | None = None,
        input_types: Iterable[Type] = (),
        path: Path | str | None = None,
        *args: Any,
        custom_extensions: Any = (),
        context: Any = None,
        kernel_library: Any = None,
        module: Any = None,
        **kwargs: Any,
    ) -> None:
        if context is not None or module is not None:
            raise GraphError(
                "ML319",
                "a graph has no MLIR context or module to share",
                fix="leave context= and module= out",
            )
        self.name = name
        self._function = Function(name)
        self._weights: dict[str, Any] = {}
        self._weight_values: dict[str, TensorValue] = {}
        self._scopes = Scopes(None)
        self._depth = 0
        self._error: MaxlabError | None = None
        self._revision = 0
        # What stands at a scope path: the class names of the modules that were called.
        self._scope_types: dict[str, str] = {}
        self._subgraphs: dict[str, Graph] = {}
        self._parent: Graph | None = None
        self._chains = _DeviceChainMap(self)
        self._ready: _ChainValue | None = None
        self._regions: list[Region] = []  # those that are being built, the innermost last
        self._kernel_library = gathered(custom_extensions)
        if kernel_library is not None:
            more = len(self._kernel_library) > 0
            self._kernel_library = gathered(
                [kernel_library, self._kernel_library] if more else kernel_library
            )
        if path is not None:
            self._read(Path(path))
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
        if forward is not None:
            self._trace(forward, args, kwargs)

    def _read(self, path: Path) -> None:
        from maxlab.ir.parser import parse_function
        from maxlab.opset.verify import verify

        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            if isinstance(error, UnicodeDecodeError):
                raise ParseError(
                    "ML350",
                    f"{path} is not a graph: it is not text",
                    fix="read what Graph.save wrote",
                ) from error
            raise InvalidPathError(
                "ML793",
                f"the graph {str(path)!r} cannot be read: {error}",
                fix="pass the path of a file that graph.save wrote",
            ) from error
        self._function = parse_function(text, str(path))
        verify(self._function)
        self._chains.read(self._function)
        if self.name != _UNNAMED:
            self._function.name = self.name
        self.name = self._function.name

    def _trace(
        self, forward: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self._scopes._base = user_frame(2)
        push(self)
        self._depth += 1
        try:
            self.output(*_listed(forward(*self.inputs, *args, **kwargs)))
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

    # ------------------------------------------------------------ adding ops
    @property
    def _block(self) -> Block:
        """Where ops go."""
        return self._regions[-1].block if self._regions else self._function.block

    @contextmanager
    def _at_root(self) -> Iterator[None]:
        """Let ops go to the graph itself, before the op whose regions are being built."""
        inside, self._regions = self._regions, []
        try:
            yield
        finally:
            self._regions = inside

    def _mark(self) -> _Mark:
        function = self._function
        return _Mark(
            (
                (len(function.ops), len(function.inputs), 0),
                *((len(r.block.ops), len(r.block.args), len(r.captured)) for r in self._regions),
            ),
            function._next,
            function.output,
            len(self._weights),
            len(self._subgraphs),
            len(function.calls),
            dict(self._chains._newest),
            dict(self._chains._first),
            self._ready,
        )

    def _rollback(self, mark: _Mark) -> None:
        """Take back everything that was added since ``mark``."""
        blocks = [self._function.block, *(region.block for region in self._regions)]
        for block, (count, arguments, _) in zip(
            reversed(blocks), reversed(mark.blocks), strict=True
        ):
            ops = block.ops
            # While a graph has an output, ops are added before it: it stays the last one.
            output = mark.output if block is self._function.block else None
            kept = count if output is None else count - 1
            for op in ops[kept:]:
                if op is not output:
                    _forget(op)
            ops[kept:] = [] if output is None else [output]
            del block.args[arguments:]
        for region, (_, _, captures) in zip(self._regions, mark.blocks[1:], strict=True):
            for value in list(region.captured)[captures:]:
                del region.captured[value]
        self._function._next = mark.number
        del self._function.calls[mark.calls :]
        self._chains._newest = dict(mark.chains)
        self._chains._first = dict(mark.first)
        self._ready = mark.ready
        for name in list(self._weights)[mark.weights :]:
            del self._weights[name]
            del self._weight_values[name]
        for name in list(self._subgraphs)[mark.subgraphs :]:
            del self._subgraphs[name]

    def _failed(self, error: MaxlabError) -> None:
        """Remember the newest error, so that a view of the partial graph can show it."""
        self._error = error

    def _own(self, value: Any) -> IrValue:
        """The IR value behind ``value``, which must belong to this graph."""
        if not isinstance(value, Value):
            value = tensor(value)
        if self is not current_graph():
            raise GraphError(
                "ML314",
                f"the graph {self.name!r} is not the one that is being built",
                fix=f"write it inside of `with {self.name}:`",
            )
        return self._reached(value._ir())

    def _reached(self, raw: IrValue) -> IrValue:
        """What stands for ``raw`` where ops go now: itself, or the argument that captures it."""
        block = raw.owner.block if isinstance(raw.owner, Op) else raw.owner
        if block is self._block:
            return raw
        blocks = [self._function.block, *(region.block for region in self._regions)]
        if not any(block is known for known in blocks):
            top = outermost(block.parent) if block is not None else None
            ended = top is not None and top.block is self._function.block
            raise unreachable(self, raw, ended)
        for region in self._regions[[b is block for b in blocks].index(True) :]:
            raw = region.capture(self, raw)
        return raw

    def _append(
        self, name: str, operands: Sequence[IrValue], types: Sequence[Type], attrs: dict[str, Any]
    ) -> Any:
        location, scope = self._scopes.capture(3)
        op = self._function.create(name, operands, types, attrs, loc=location, scope=scope)
        self._insert(op)
        made = [wrap(v) for v in op.results]
        return made[0] if len(made) == 1 else made

    def _append_op(
        self,
        name: str,
        operands: Sequence[IrValue],
        types: Sequence[Type],
        attrs: dict[str, Any],
        regions: Sequence[Block],
    ) -> Op:
        """A new op that has ``regions``."""
        location, scope = self._scopes.capture(3)
        op = self._function.create(name, operands, types, attrs, loc=location, scope=scope)
        op.regions = list(regions)
        for region in regions:
            region.parent = op
        self._insert(op)
        return op

    def _insert(self, op: Op) -> None:
        # What a weight is does not depend on which branch reads it first.
        block = self._function.block if op.name == "mo.constant.external" else self._block
        output = self._function.output if block is self._function.block else None
        if output is not None:  # more ops after output(): they come before it
            block.ops.insert(len(block.ops) - 1, op)
            op.block = block
        else:
            block.append(op)
        self._revision += 1
        self._error = None

    # ------------------------------------------------------------ effects
    @property
    def device_chains(self) -> _DeviceChainMap:
        """The newest chain of each device: what is loaded, stored or printed there next comes
        behind it.
        """
        return self._chains

    @property
    def always_ready_chain(self) -> _ChainValue:
        """A chain that is behind nothing; the same one each time."""
        if self._ready is None:
            with self._at_root():
                self._ready = self._append("mo.chain", [], [ChainType()], {})
        ready = self._ready
        assert ready is not None
        if self._regions:
            inside: _ChainValue = wrap(self._reached(ready._ir()))
            return inside
        return ready

    # ------------------------------------------------------------ calls of subgraphs
    def _inline(self, op: Op, operands: Sequence[IrValue], name: str, ids: dict[str, str]) -> Op:
        """A copy of ``op``, an op of the subgraph ``name``; ``ids`` gets the new ids of it, and of
        what stands in its regions.

        The copy keeps the place where the user wrote it; its scope is that of the call, then the
        subgraph's name, then its own.
        """
        location, scope = self._scopes.capture(3)
        copy = self._copied(op, operands, location, (scope, name), ids)
        self._insert(copy)
        return copy

    def _copied(
        self,
        op: Op,
        operands: Sequence[IrValue],
        location: Location | None,
        scope: tuple[str, ...],
        ids: dict[str, str],
    ) -> Op:
        copy = self._function.create(
            op.name,
            operands,
            [r.type for r in op.results],
            op.attrs,
            loc=op.loc or location,
            scope=".".join(part for part in (*scope, op.scope) if part),
        )
        ids[op.id] = copy.id
        for made, old in zip(copy.results, op.results, strict=True):
            made.name = old.name
        for region in op.regions:
            inner = Block(copy)
            env: dict[IrValue, IrValue] = {}
            for arg in region.args:
                env[arg] = IrValue(
                    f"b{self._function.fresh()}", arg.type, inner, arg.index, arg.name
                )
                inner.args.append(env[arg])
            for old_op in region.ops:
                given = [env[v] for v in old_op.operands]
                twin = self._copied(old_op, given, location, scope, ids)
                inner.append(twin)
                env.update(zip(old_op.results, twin.results, strict=True))
            copy.regions.append(inner)
        return copy

    def _adopt_scope_types(self, subgraph: Graph) -> None:
        """Know what stands at the scopes that a call of ``subgraph`` is about to bring in."""
        if subgraph._scope_types:
            _, scope = self._scopes.capture(3)
            for path, name in subgraph._scope_types.items():
                full = ".".join(part for part in (scope, subgraph.name, path) if part)
                self._scope_types.setdefault(full, name)

    def _weight_of_call(self, subgraph: Graph, op: Op, prefix: str) -> IrValue:
        """The value in this graph of ``op``, a weight of a subgraph that is called with
        ``prefix``."""
        from maxlab.graph.weight import Weight, shard_as

        name, type = op.attrs["name"], op.attrs["type"]
        weight = subgraph._weights.get(name)
        if op.attrs["placeholder"]:
            full = prefix + name
            known = self._weights.get(full)
            if known is None:
                align = op.attrs.get("align")
                if "part" in op.attrs:
                    weight = shard_as(op, prefix)
                else:
                    weight = Weight(full, type.dtype, type.shape, type.device, align=align)
                return self._add_weight(weight, on_host=False)._ir()
            value = self._weight_values[full]
            # on the host first: the constant, not its copy on the device, is what the subgraph has
            source = value._ir().op
            assert source is not None
            if source.name == "mo.transfer":
                value = wrap(source.operands[0])
            if value._ir().type != type:
                raise GraphError(
                    "ML321",
                    f"the weight {full!r} is {value._ir().type} here and {type} in "
                    f"{subgraph.name!r}",
                    fix="give the weights different names, or call with another prefix",
                )
            return value._ir()
        if weight is not None:
            known = self._weights.get(name)
            if known is not None and weight._stands_for(known):
                source = self._weight_values[name]._ir().op
                assert source is not None
                return source.operands[0] if source.name == "mo.transfer" else source.result
            if known is not None:
                raise self._name_taken(name)
            made = add("constant.external", [], **op.attrs)
            made._ir().name = name
            # the subgraph moves it to its device itself
            self._weights[name] = weight
            moved = weight.device != made.device
            with self._at_root():
                self._weight_values[name] = (
                    add("transfer", [made], device=weight.device) if moved else made
                )
            return made._ir()
        return self._inline(op, [], subgraph.name, {}).result

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

    def _name_taken(self, name: str) -> GraphError:
        return GraphError(
            "ML321",
            f"the graph {self.name!r} already has another weight named {name!r}",
            fix="give each weight a name of its own; modules do that for you",
        )

    def _add_weight(self, weight: Weight, on_host: bool) -> TensorValue:
        name = weight.name
        known = self._weights.get(name)
        if known is not None:
            if not weight._stands_for(known):
                raise self._name_taken(name)
            return self._weight_values[name]
        device: DeviceRef = weight.device
        host = on_host and not device.is_cpu()
        type = TensorType(weight.dtype, weight.shape, DeviceRef.CPU() if host else device)
        attrs = {"name": name, "type": type, "placeholder": weight._placeholder}
        attrs |= weight._more_attrs()
        with self._at_root():
            value = add("constant.external", [], **attrs)
            value._ir().name = name
            if host:
                value = add("transfer", [value], device=device)
        self._weights[name] = weight
        self._weight_values[name] = value
        return value

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
        """Set the outputs of the graph; a second call replaces them.

        Args:
            *outputs: Values, weights, dims, shapes, numbers or arrays.

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
            path: The file, which is replaced.

        Raises:
            OSError: The file cannot be written.

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

        Path(path).write_text(generic(self._function), encoding="utf-8")

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


def _forget(op: Op) -> None:
    """Let ``op``, and what stands in its regions, read nothing and stand nowhere."""
    for region in op.regions:
        for inner in region.ops:
            _forget(inner)
    op.drop()
    op.block = None


def _listed(made: Any) -> tuple[Any, ...]:
    """What ``forward`` returned, as a tuple of outputs: nothing, one value, or several."""
    if made is None:
        return ()
    one = isinstance(made, (Value, Dim, Shape)) or is_number(made) or is_array(made)
    return (made,) if one or not isinstance(made, Iterable) else tuple(made)

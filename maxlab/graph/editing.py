"""``Editor``: changes a graph that stands, a step at a time.

A graph is built by adding operations. An editor changes those that are there: it connects an
operation to another value, puts one on an edge, replaces, removes or copies some, and gives inputs
other types. What follows from a step is part of it: types flow to the outputs, operations move
behind what they read, and data that nobody reads any more goes. A step is done whole or not at all,
and `Editor.undo` takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

from maxlab.errors import ArgumentTypeError, GraphError, shown
from maxlab.graph import ops
from maxlab.graph.build import as_name
from maxlab.graph.clipping import Clips
from maxlab.graph.finding import OpLike, ValueLike
from maxlab.graph.flowing import flow
from maxlab.graph.graph import Graph
from maxlab.graph.grouping import Groups
from maxlab.graph.noting import Noting
from maxlab.graph.outputs import as_outputs
from maxlab.graph.rearranging import (
    put_before,
    resize,
    short_name,
    still_read,
    take_out,
)
from maxlab.graph.resolving import Resolving
from maxlab.graph.staged import placed
from maxlab.graph.value import Value, wrap
from maxlab.ir import Op, SymbolicDim, Type, symbols_of, user_location
from maxlab.ir import Value as IrValue
from maxlab.ir.edit import AddOp
from maxlab.ir.edit_log import changes_function
from maxlab.ir.listening import ABSENT
from maxlab.ir.types import Typed
from maxlab.opset import lookup
from maxlab.opset.attributes import wrong_attributes

OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    name: function
    for name in dir(ops)
    if isinstance(function := getattr(ops, name), FunctionType)
    and function.__module__.startswith(ops.__name__ + ".")
}
"""The functions of ``ops`` by name."""


class Editor(Groups, Clips, Noting, Resolving):
    """Changes ``graph``, and what people lay beside it, by steps that can be undone.

    Operations are named by their ids, as ``print(graph)`` and views show them, values by ids, by
    names, or as what ``graph.inputs`` and operations give. New operations are those of ``ops``, by
    their names.

    Args:
        graph: The graph. Others may go on adding operations to it.
        since: How many steps of the graph's are never undone: ``log.steps`` of that moment; by
            default all that were made before the editor.

    Raises:
        ArgumentTypeError: ML300, ``graph`` is no graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Editor, Graph, TensorType, ops
        >>> with Graph("scores", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        ...     graph.output(ops.exp(graph.inputs[0].tensor))
        >>> editor = Editor(graph)
        >>> editor.replace("n0", "softmax")
        [TensorValue(dtype=DType.float32, shape=[Dim('n'), Dim(8)], device=cpu:0)]
        >>> editor.set_type("input0", TensorType(DType.float32, [4, 3]))
        >>> graph.output_types
        [TensorType(dtype=DType.float32, shape=[Dim(4), Dim(3)], device=cpu:0)]
        >>> editor.undo(), editor.undo(), editor.undo()
        (True, True, False)
        >>> [op.name for op in graph.function.ops]
        ['mo.exp', 'mo.output']
    """

    @placed
    def __init__(self, graph: Graph, *, since: int | None = None) -> None:
        if not isinstance(graph, Graph):
            raise ArgumentTypeError(
                "ML300",
                f"an editor takes a Graph, got {shown(graph)}",
                fix="write Editor(graph); a model's is model.graph",
            )
        super().__init__(graph)
        self._log = graph.log
        self._floor = self._log.steps if since is None else since
        graph.calls.leave()

    # ------------------------------------------------------------ undo
    @property
    def can_undo(self) -> bool:
        """Whether there is a step to take back, made since the editor was."""
        return self._log.steps > self._floor

    @property
    def can_redo(self) -> bool:
        """Whether the step that was undone last can be done again."""
        return self._log.undone > 0

    def undo(self) -> bool:
        """Takes back the last step; False if there is none since the editor was made.

        Raises:
            GraphError: ML389, the graph is in the middle of a change.
        """
        return self.can_undo and self._again(self._log.undo)

    def redo(self) -> bool:
        """Does the step again that was undone last; False if there is none, or the graph was
        changed since.

        Raises:
            GraphError: ML389, the graph is in the middle of a change.
        """
        return self._again(self._log.redo)

    def _again(self, change: Callable[[], bool]) -> bool:
        mark = self._log.mark()
        self.graph.calls.leave()
        done = change()
        edits = self._log.edits(mark)
        if changes_function(edits):
            self.graph.reread(edits)
            self.graph.calls.arrive()
        return done

    # ------------------------------------------------------------ adding
    @placed
    def add_input(self, type: Type, name: str = "") -> Value:
        """A new input, the last one.

        Args:
            type: Its type.
            name: Its name; ``input2`` for the third, unless one is given.

        Raises:
            ArgumentTypeError: ML320, ``type`` is no type of an input.
        """
        if not isinstance(type, Typed):
            raise ArgumentTypeError(
                "ML320",
                f"an input type is {shown(type)}, expected a TensorType or BufferType",
                fix="write TensorType(dtype, shape)",
            )
        with self.step():
            value = self.graph.function.add_input(type, name and as_name("an input", name))
        made: Value = wrap(value)
        return made

    @placed
    def add(self, name: str, *operands: Any, **arguments: Any) -> list[Value]:
        """The results of a new operation at the end of the graph, which nothing reads yet.

        Args:
            name: A function of ``ops``: ``"matmul"``, ``"softmax"``.
            *operands: What it takes: values, their ids or names, numbers, arrays.
            **arguments: Its other arguments, by name.

        Raises:
            GraphError: ML301, there is no such operation.
            MaxlabError: What the operation says of its operands.
        """
        with self.step():
            return self._call(name, operands, arguments)

    @placed
    def insert(self, name: str, op: OpLike, operand: int, *more: Any, **arguments: Any) -> Value:
        """The result of a new operation on the edge to operand number ``operand`` of ``op``.

        It takes what ``op`` read there, then ``more`` and ``arguments``, and ``op`` reads its
        result.

        Raises:
            GraphError: ML301, there is no such operation; ML300, ``op`` has no such operand.
            MaxlabError: The operation does not take the value, or what reads its result does not.
        """
        with self.step():
            reader, number = self._operand(op, operand)
            with self._beside(reader):
                made = self._call(name, (wrap(reader.operands[number]), *more), arguments)
            if len(made) != 1:
                raise GraphError(
                    "ML300",
                    f"{name} has {len(made)} results, and an edge takes one",
                    fix="editor.add it, then editor.connect one of its results",
                )
            self._connect(reader, number, made[0]._ir())
        return made[0]

    @placed
    def duplicate(self, *originals: OpLike) -> list[Value]:
        """The results of copies of ``originals``; copies read each other where the originals do."""
        with self.step():
            chosen = [self._op(op) for op in originals]
            order = [op for op in self.graph.function.ops if op in chosen]
            copies: dict[IrValue, IrValue] = {}
            made: list[Value] = []
            for op in order:
                self._require_plain(op, "copied")
                copy = self.graph.function.create(
                    op.name,
                    [copies.get(v, v) for v in op.operands],
                    [v.type for v in op.results],
                    op.attrs,
                    loc=user_location(),
                    scope=op.scope,
                )
                self.graph.function.block.insert(copy, self.graph.function.output)
                copies.update(zip(op.results, copy.results, strict=True))
                made.extend(map(wrap, copy.results))
        return made

    # ------------------------------------------------------------ changing
    @placed
    def connect(self, op: OpLike, operand: int, value: ValueLike) -> None:
        """Lets ``op`` read ``value`` as its operand number ``operand``; the output is an op too.

        Raises:
            GraphError: ML300, ``op`` has no such operand; ML315, ``value`` is made of ``op``.
            MaxlabError: ``op``, or what reads its result, does not take it.
        """
        with self.step():
            reader, number = self._operand(op, operand)
            self._connect(reader, number, self._value(value))

    @placed
    def set_attribute(self, op: OpLike, key: str, value: Any) -> None:
        """Sets the attribute ``key`` of ``op``, as the op table declares it; None takes away one
        that ``op`` may be without.

        Raises:
            GraphError: ML300, ``op`` has no such attribute, or the value is none for it.
            MaxlabError: ``op``, or what reads its result, cannot have it.
        """
        with self.step():
            changed = self._op(op)
            schema = lookup(changed.name).attrs
            declared = schema.get(key)
            away = value is None and declared is not None and declared.optional
            attrs = {k: v for k, v in changed.attrs.items() if k != key}
            if not (away and declared is not None and not declared.none):
                attrs[key] = value
            wrong = wrong_attributes(schema, attrs)
            if wrong is not None:
                raise GraphError(
                    "ML300",
                    f"{short_name(changed)} {changed.id} {wrong[0]}",
                    at=changed.loc,
                    fix=wrong[1],
                )
            changed.set_attr(key, attrs.get(key, ABSENT))
            self._flow(changed=[changed])

    @placed
    def set_type(self, input: ValueLike, type: Type) -> None:
        """Gives an input another type; types follow down to the outputs.

        Where a symbolic dim becomes another one, or a number, and no other input has it, operations
        that name it follow too.

        Raises:
            ArgumentTypeError: ML320, ``type`` is no type of an input.
            GraphError: ML300, ``input`` is no input.
            MaxlabError: An operation does not take what it would read.
        """
        with self.step():
            value = self._value(input)
            function = self.graph.function
            if value not in function.inputs:
                raise GraphError(
                    "ML300",
                    f"%{value.id} is no input: its type follows from its operation",
                    at=value.op.loc if value.op is not None else None,
                    fix="give an input another type, or change an attribute of the operation",
                )
            old = value.type
            if not isinstance(type, Typed) or type.__class__ is not old.__class__:
                raise ArgumentTypeError(
                    "ML320",
                    f"an input type is {shown(type)}, expected a {old.__class__.__name__}",
                    fix=f"write {old.__class__.__name__}(dtype, shape)",
                )
            value.retype(type)
            assert isinstance(old, Typed)
            names = [d.name for d in symbols_of(v.type for v in function.inputs)]
            sizes = {
                dim.name: new.poly
                for dim, new in zip(old.shape, type.shape, strict=False)
                if isinstance(dim, SymbolicDim) and dim.name not in names and new != dim
            }
            resize(function, sizes)
            function.set_parameters(names)
            self._flow(values=[value])

    @placed
    def replace(self, op: OpLike, name: str, *more: Any, **arguments: Any) -> list[Value]:
        """The results of a new operation that takes the operands of ``op``, and its place.

        Args:
            op: The operation that goes.
            name: A function of ``ops``.
            *more: What it takes behind the operands of ``op``.
            **arguments: Its other arguments, by name.

        Raises:
            GraphError: ML301, there is no such operation; ML300, it has another number of results.
            MaxlabError: It does not take the operands, or what reads its result does not.
        """
        operands = self.operands(op)
        return self.replace_by(op, name, lambda: self._call(name, (*operands, *more), arguments))

    @placed
    def replace_by(self, op: OpLike, name: str, make: Callable[[], Sequence[Value]]) -> list[Value]:
        """The results of what ``make`` adds, which take the place of the results of ``op``.

        Args:
            op: The operation that goes.
            name: What is added, for errors.
            make: Adds operations, and returns as many results as ``op`` has.

        Raises:
            GraphError: ML301, there is no such operation; ML300, it has another number of results.
            MaxlabError: What reads a result of ``op`` does not take the new one.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Editor, Graph, TensorType, ops
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     graph.output(ops.exp(graph.inputs[0].tensor))
            >>> x = graph.inputs[0].tensor
            >>> _ = Editor(graph).replace_by("n0", "two", lambda: [ops.relu(ops.tanh(x))])
            >>> [op.name for op in graph.function.ops]
            ['mo.tanh', 'mo.relu', 'mo.output']
        """
        with self.step():
            old = self._op(op)
            self._require_plain(old, "replaced")
            with self._beside(old):
                made = list(make())
            if len(made) != len(old.results):
                raise GraphError(
                    "ML300",
                    f"{name} has {len(made)} results, {short_name(old)} {old.id} "
                    f"{len(old.results)}",
                    at=old.loc,
                    fix="editor.add it, then editor.connect its results",
                )
            values = [value._ir() for value in made]
            if values and values[0].op is not None:
                self._hand_over(old, values[0].op)
            for before, after in zip(old.results, values, strict=True):
                if before.name and not after.name:
                    after.rename(before.name)
                before.replace_with(after)
            take_out(self.graph.function, [old])
            self._flow(values=values)
        return made

    @placed
    def remove(self, *originals: OpLike) -> None:
        """Removes ``originals``. What read the result of one reads its first operand that fits;
        constants that nobody reads any more go too.

        Raises:
            GraphError: ML315, something reads the result, and there is no operand to read.
            MaxlabError: What reads the result does not take the operand.
        """
        with self.step():
            chosen = [self._op(op) for op in originals]
            order = [op for op in self.graph.function.ops if op in chosen]
            for op in order:
                self._require_plain(op, "removed")
            changed = take_out(self.graph.function, order)
            self._flow(values=[v for v in changed if v.block is not None])

    @placed
    def remove_input(self, input: ValueLike) -> None:
        """Removes an input that nothing reads.

        Raises:
            GraphError: ML300, it is no input; ML315, something reads it.
        """
        with self.step():
            value = self._value(input)
            function = self.graph.function
            if value not in function.inputs:
                raise GraphError(
                    "ML300",
                    f"%{value.id} is no input",
                    fix="remove the operation that makes it",
                )
            if value.uses:
                raise still_read(value)
            function.block.remove_argument(value)
            function.set_parameters(d.name for d in symbols_of(v.type for v in function.inputs))
            self._flow()

    @placed
    def rename(self, value: ValueLike, name: str) -> None:
        """Calls ``value`` by another name; the empty name takes its name away."""
        with self.step():
            self._value(value).rename(name and as_name("a value", name))

    @placed
    def set_outputs(self, *values: Any) -> None:
        """Lets the graph give ``values``, and nothing else."""
        with self.step():
            given = [wrap(self._value(v)) if isinstance(v, str) else v for v in values]
            owned = [self._value(v) for v in as_outputs(given)]
            old = self.graph.function.output
            if old is None:
                block = self.graph.function.block
                block.append(self.graph.function.ending(owned, user_location()))
            else:
                old.set_operands(owned)

    # ------------------------------------------------------------ parts of steps
    def _call(self, name: str, operands: Sequence[Any], arguments: dict[str, Any]) -> list[Value]:
        function = OPERATIONS.get(name) if isinstance(name, str) else None
        if function is None:
            raise GraphError(
                "ML301",
                f"there is no operation {shown(name)}",
                fix="the operations are listed in docs/ops",
            )
        given = [wrap(self._value(x)) if isinstance(x, str) else x for x in operands]
        made = function(*given, **arguments)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        return [value for value in results if isinstance(value, Value)]

    @contextmanager
    def _beside(self, op: Op) -> Iterator[None]:
        """Let operations that are added stand before ``op``, in its scope, and behind what they
        read."""
        mark = self._log.mark()
        with self.graph.at(user_location(), op.scope):
            yield
        function = self.graph.function
        for edit in self._log.edits(mark):
            if isinstance(edit, AddOp) and edit.block == (None, 0):
                made = self._log.op(edit.op.id)
                if made is not None and made.block is function.block:
                    put_before(function, made, op)

    def _connect(self, op: Op, number: int, value: IrValue) -> None:
        if value.op is not None and not op.ends_block:
            put_before(self.graph.function, value.op, op)
        op.set_operand(number, value)
        self._flow(changed=[op])

    def _flow(self, values: Iterable[IrValue] = (), changed: Iterable[Op] = ()) -> None:
        flow(self.graph.function, values, changed)

    def _require_plain(self, op: Op, what: str) -> None:
        if op.ends_block:
            raise GraphError(
                "ML315",
                f"the output of the graph cannot be {what}",
                at=op.loc,
                fix="editor.set_outputs says what the graph gives",
            )


__all__ = ["Editor"]

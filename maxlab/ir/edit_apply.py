"""Does what records say: `fits` tells whether a function is as a record expects it, `perform`
changes it, by the methods of its values, ops and blocks.

`perform` may be told again what was done halfway: it sets what is to be, whatever there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NoReturn

from maxlab.errors import GraphError
from maxlab.ir.core import Block, Op, Value, number_of, walk
from maxlab.ir.edit import (
    FUNCTION,
    AddArgument,
    AddOp,
    BlockData,
    BlockId,
    Edit,
    MoveOp,
    OpData,
    OrderArguments,
    RemoveArgument,
    RemoveOp,
    ReplaceUses,
    SetAttr,
    SetName,
    SetNote,
    SetOperands,
    SetParameters,
    SetResults,
    SetSource,
    SetType,
    ValueData,
)
from maxlab.ir.edit_objects import Objects, attached, op_data, source_data, value_data
from maxlab.ir.listening import ABSENT


# ---------------------------------------------------------------- checking
def fits(edit: Edit, objects: Objects) -> None:
    """Return if the function of ``objects`` is as ``edit`` expects it.

    Raises:
        GraphError: ML389, it has not what the edit speaks of, or something else in its place.
    """
    _Check(edit, objects).run()


class _Check:
    def __init__(self, edit: Edit, objects: Objects) -> None:
        self._edit = edit
        self._objects = objects

    def run(self) -> None:
        edit = self._edit
        if isinstance(edit, AddOp):
            self._add_op(edit)
        elif isinstance(edit, RemoveOp):
            self._remove_op(edit)
        elif isinstance(edit, MoveOp):
            self._move_op(edit)
        elif isinstance(edit, (AddArgument, RemoveArgument, OrderArguments)):
            self._arguments(edit)
        elif isinstance(edit, (SetOperands, SetResults, SetAttr, SetSource)):
            self._op_edit(edit)
        elif isinstance(edit, ReplaceUses):
            self._uses(edit)
        elif isinstance(edit, SetName):
            known = (
                self._objects.function.name
                if edit.target == FUNCTION
                else self._value(edit.target).name
            )
            self._same(f"the name of {edit.target or 'the function'}", known, edit.old)
        elif isinstance(edit, SetNote):
            self._note(edit)
        elif isinstance(edit, SetType):
            self._same(f"the type of {edit.value}", self._value(edit.value).type, edit.old)
        else:
            self._same("the parameters", tuple(self._objects.function.parameters), edit.old)

    # ------------------------------------------------------------ what is there
    def _fail(self, what: str) -> NoReturn:
        kind = type(self._edit).__name__
        raise GraphError(
            "ML389",
            f"{kind} does not fit the graph {self._objects.function.name!r}: {what}",
            fix="read the graph again, and make the edit for what it has now",
        )

    def _same(self, what: str, known: Any, expected: Any) -> None:
        if known != expected and _frozen(known) != _frozen(expected):
            self._fail(f"{what} is {_short(known)}, expected {_short(expected)}")

    def _block(self, id: BlockId) -> Block:
        block = self._objects.block(id)
        if block is None or not attached(block):
            self._fail(f"there is no region {id[1]} of {id[0] or 'the graph'}")
        return block

    def _op(self, id: str) -> Op:
        op = self._objects.op(id)
        if op is None or not attached(op.block):
            self._fail(f"there is no op {id}")
        return op

    def _value(self, id: str) -> Value:
        value = self._objects.value(id)
        if value is None or not attached(value.block) or not _is_made(value):
            self._fail(f"there is no value {id}")
        return value

    def _next(self, block: Block, before: str | None) -> Op | None:
        if before is None:
            return None
        op = self._objects.op(before)
        if op is None or op.block is not block:
            self._fail(f"the op {before}, before which it is, is not in the block")
        return op

    # ------------------------------------------------------------ kinds
    def _add_op(self, edit: AddOp) -> None:
        self._next(self._block(edit.block), edit.before)
        self._new(edit.op, set(), set())

    def _new(self, data: OpData, ops: set[str], values: set[str]) -> None:
        """Return if nothing has the ids of ``data``, and what it reads is there; the values that it
        makes are added to ``values``."""
        known = self._objects.op(data.id)
        if data.id in ops or (known is not None and attached(known.block)):
            self._fail(f"there is an op {data.id}")
        ops.add(data.id)
        for id in data.operands:
            if id not in values:
                self._value(id)
        inside = set(values)
        for region in data.regions:
            self._new_block(region, ops, inside)
        for result in data.results:
            self._new_value(result, values)

    def _new_block(self, data: BlockData, ops: set[str], values: set[str]) -> None:
        for arg in data.args:
            self._new_value(arg, values)
        for op in data.ops:
            self._new(op, ops, values)

    def _new_value(self, data: ValueData, values: set[str]) -> None:
        known = self._objects.value(data.id)
        taken = known is not None and attached(known.block) and _is_made(known)
        if taken or data.id in values:
            self._fail(f"there is a value {data.id}")
        values.add(data.id)

    def _remove_op(self, edit: RemoveOp) -> None:
        op = self._op(edit.op.id)
        block = self._block(edit.block)
        if op.block is not block:
            self._fail(f"{op.id} is in another block")
        following = self._next(block, edit.before)
        index = block.ops.index(op) + 1
        self._same(
            f"the op behind {op.id}",
            block.ops[index] if index < len(block.ops) else None,
            following,
        )
        used = next((v for v in op.results if v.uses), None)
        if used is not None:
            self._fail(f"{next(iter(used.uses)).id} reads {used.id}")
        self._same(f"the op {op.id}", op_data(op), edit.op)

    def _move_op(self, edit: MoveOp) -> None:
        op, block = self._op(edit.op), self._block(edit.block)
        if op.block is not block:
            self._fail(f"{op.id} is in another block")
        places = {known: place for place, known in enumerate(block.ops)}
        place = places[op]
        behind = block.ops[place + 1] if place + 1 < len(block.ops) else None
        self._same(f"the op behind {op.id}", behind, self._next(block, edit.old))
        before = self._next(block, edit.new)
        target = len(block.ops) if before is None else places[before]
        for value in op.operands:
            if value.op is not None and places.get(value.op, -1) >= target:
                self._fail(f"{op.id} reads {value.id}, which would be made behind it")
        for value in op.results:
            for reader in value.uses:
                if places.get(reader, target) < target:
                    self._fail(f"{reader.id} reads {value.id}, which would be made behind it")

    def _arguments(self, edit: AddArgument | RemoveArgument | OrderArguments) -> None:
        block = self._block(edit.block)
        if isinstance(edit, OrderArguments):
            self._same("the order of the arguments", tuple(v.id for v in block.args), edit.old)
            if sorted(edit.new) != sorted(edit.old):
                self._fail("the arguments in another order are other ones")
        elif isinstance(edit, AddArgument):
            if not 0 <= edit.index <= len(block.args):
                self._fail(
                    f"there are {len(block.args)} arguments, none can be number {edit.index}"
                )
            self._new_value(edit.value, set())
        else:
            value = self._value(edit.value.id)
            found = block.args.index(value) if value.owner is block else -1
            self._same(f"the number of the argument {value.id}", found, edit.index)
            self._same(f"the argument {value.id}", value_data(value), edit.value)
            if value.uses:
                self._fail(f"{next(iter(value.uses)).id} reads {value.id}")

    def _op_edit(self, edit: SetOperands | SetResults | SetAttr | SetSource) -> None:
        op = self._op(edit.op)
        if isinstance(edit, SetOperands):
            found: Any = tuple(v.id for v in op.operands)
            self._same(f"what {op.id} reads", found, edit.old)
            for id in edit.new:
                self._value(id)
        elif isinstance(edit, SetResults):
            self._same(f"what {op.id} gives", tuple(map(value_data, op.results)), edit.old)
            kept = {data.id for data in edit.new}
            for value in op.results:
                if value.uses and value.id not in kept:
                    self._fail(f"{next(iter(value.uses)).id} reads {value.id}")
            known_ids = {data.id for data in edit.old}
            for data in edit.new:
                if data.id not in known_ids:
                    self._new_value(data, set())
        elif isinstance(edit, SetSource):
            self._same(f"the source of {op.id}", source_data(op.source), edit.old)
        else:
            known = op.attrs.get(edit.key, ABSENT)
            self._same(f"{edit.key} of {op.id}", known, edit.old)
            if edit.before is not None and edit.before not in op.attrs:
                self._fail(f"{op.id} has no attribute {edit.before}")

    def _uses(self, edit: ReplaceUses) -> None:
        self._value(edit.old)
        self._value(edit.new)
        for id, number in edit.places:
            operands = self._op(id).operands
            if not 0 <= number < len(operands):
                self._fail(f"{id} has no operand {number}")
            self._same(f"the operand {number} of {id}", operands[number].id, edit.old)

    def _note(self, edit: SetNote) -> None:
        function = self._objects.function
        notes = function.notes.get(edit.table, {})
        what = f"the note {edit.key!r} of {edit.table}"
        self._same(what, notes.get(edit.key), edit.old)
        if edit.old is None and edit.before is not None and edit.before not in notes:
            self._fail(f"{edit.table} has no note {edit.before!r}")
        if edit.new is None:
            self._same(
                f"the note behind {what}", function.note_after(edit.table, edit.key), edit.before
            )


def _is_made(value: Value) -> bool:
    owner = value.owner
    return value in (owner.results if isinstance(owner, Op) else owner.args)


def _frozen(value: Any) -> Any:
    """``value`` for a comparison in which NaN equals itself, 0.0 is not -0.0, and a list is a
    tuple."""
    if isinstance(value, float):
        return float(value).hex()
    if isinstance(value, (tuple, list)):
        return tuple(map(_frozen, value))
    if isinstance(value, (OpData, BlockData)):
        return tuple(_frozen(getattr(value, field.name)) for field in fields(value))
    return value


def _short(value: Any) -> str:
    text = f"{value.id}" if isinstance(value, (Op, Value)) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


# ---------------------------------------------------------------- doing
def perform(edit: Edit, objects: Objects) -> None:
    """Do what ``edit`` says to the function of ``objects``."""
    _PERFORM[type(edit)](edit, objects)


def _op(objects: Objects, id: str) -> Op:
    op = objects.op(id)
    assert op is not None, id
    return op


def _value(objects: Objects, id: str) -> Value:
    value = objects.value(id)
    assert value is not None, id
    return value


def _block(objects: Objects, id: BlockId) -> Block:
    block = objects.block(id)
    assert block is not None, id
    return block


def _add_op(edit: AddOp, objects: Objects) -> None:
    block = _block(objects, edit.block)
    known = objects.op(edit.op.id)
    halfway = known is not None and known in block.ops  # it was about to be removed
    if known is not None and halfway:
        known.block = None
    op = objects.made(edit.op)
    for inner in (op, *(o for region in op.regions for o in walk(region))):
        for id in (inner.id, *(value.id for value in inner.results)):
            objects.function.reserve(id)
    before = objects.op(edit.before)
    if halfway:
        op.block = block
    else:  # what is not in the list either was about to be added before it
        block.insert(op, before if before in block.ops else None)


def _remove_op(edit: RemoveOp, objects: Objects) -> None:
    block, op = _block(objects, edit.block), _op(objects, edit.op.id)
    if op in block.ops:
        block.remove(op)
    else:  # it was about to be added
        op.drop()
        op.block = None


def _move_op(edit: MoveOp, objects: Objects) -> None:
    _block(objects, edit.block).move(_op(objects, edit.op), objects.op(edit.new))


def _add_argument(edit: AddArgument, objects: Objects) -> None:
    block = _block(objects, edit.block)
    value = objects.made_value(edit.value, block, edit.index)
    if value not in block.args:
        block.put_argument(value, edit.index)


def _remove_argument(edit: RemoveArgument, objects: Objects) -> None:
    block, value = _block(objects, edit.block), objects.value(edit.value.id)
    if value is not None and value in block.args:
        block.remove_argument(value)


def _order_arguments(edit: OrderArguments, objects: Objects) -> None:
    _block(objects, edit.block).order_arguments([_value(objects, id) for id in edit.new])


def _set_operands(edit: SetOperands, objects: Objects) -> None:
    _op(objects, edit.op).set_operands([_value(objects, id) for id in edit.new])


def _replace_uses(edit: ReplaceUses, objects: Objects) -> None:
    old, new = _value(objects, edit.old), _value(objects, edit.new)
    old.replace_at([(_op(objects, id), number) for id, number in edit.places], new)


def _set_results(edit: SetResults, objects: Objects) -> None:
    op = _op(objects, edit.op)
    for data in edit.new:
        objects.function.reserve(data.id)
    op.set_results([objects.made_value(data, op, n) for n, data in enumerate(edit.new)])


def _set_attr(edit: SetAttr, objects: Objects) -> None:
    _op(objects, edit.op).set_attr(edit.key, edit.new, edit.before)


def _set_name(edit: SetName, objects: Objects) -> None:
    if edit.target == FUNCTION:
        objects.function.rename(edit.new)
    else:
        _value(objects, edit.target).rename(edit.new)


def _set_type(edit: SetType, objects: Objects) -> None:
    _value(objects, edit.value).retype(edit.new)


def _set_source(edit: SetSource, objects: Objects) -> None:
    new = edit.new
    _op(objects, edit.op).set_whole_source((new.loc, new.scope, new.origins))


def _set_parameters(edit: SetParameters, objects: Objects) -> None:
    objects.function.set_parameters(edit.new)


def _set_note(edit: SetNote, objects: Objects) -> None:
    objects.function.set_note(edit.table, edit.key, edit.new, edit.before)


_PERFORM: dict[type, Callable[[Any, Objects], None]] = {
    AddOp: _add_op,
    RemoveOp: _remove_op,
    MoveOp: _move_op,
    AddArgument: _add_argument,
    RemoveArgument: _remove_argument,
    OrderArguments: _order_arguments,
    SetOperands: _set_operands,
    ReplaceUses: _replace_uses,
    SetResults: _set_results,
    SetAttr: _set_attr,
    SetName: _set_name,
    SetType: _set_type,
    SetSource: _set_source,
    SetParameters: _set_parameters,
    SetNote: _set_note,
}


def count_uses(objects: Objects, number: int) -> None:
    """Count anew which ops of the function read its values, after a change that was interrupted.

    Ops that stand in no block, which others read values with, are left alone, unless their id has
    ``number`` or a larger one: those were being made.
    """
    ops: list[Op] = []
    values: list[Value] = []
    for block in objects.roots():
        values += block.args
        for op in walk(block):
            ops.append(op)
            values += op.results
            values += [value for region in op.regions for value in region.args]
    for value in values:
        value.uses = {
            op: count
            for op, count in value.uses.items()
            if op.block is None and value in op.operands and number_of(op.id) < number
        }
    for op in ops:
        for value in op.operands:
            value.uses[op] = value.uses.get(op, 0) + 1


__all__ = ["count_uses", "fits", "perform"]

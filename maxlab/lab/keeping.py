"""Steps that operations of the graph do not take: those become drafts, where people say so.

An operation is not whole where what it read is gone, has another type, or was exchanged for a value
that does not fit; neither is what reads it.
"""

from __future__ import annotations

from collections.abc import Callable

from maxlab.errors import MaxlabError
from maxlab.graph import Draft, Editor
from maxlab.graph.drafting import misfits, put_aside, readers_of, unfit
from maxlab.ir import Op, Value
from maxlab.lab import drafts, fields
from maxlab.lab.protocol.changes import ChangeArgs

FIELD = "drafts"
"""The field of a step that may leave drafts."""


class _Tried(Exception):  # noqa: N818 - it is no error
    """The step can be done; raised so that it is taken back."""


def count(editor: Editor, args: ChangeArgs, make: Callable[[ChangeArgs], object]) -> int:
    """How many operations would be drafts if the step ``args`` were done with them; 0 where it
    cannot be done so.

    Args:
        editor: Of the graph, which stays as it is.
        args: The step, which was refused.
        make: Makes a step.
    """
    document = editor.graph.document
    before = {draft.id for draft in document.drafts}
    left = 0
    try:
        if _affected(editor, args):
            with editor.step():
                make({**args, "fields": {**args["fields"], FIELD: "yes"}})
                left = sum(d.id not in before and not _is_output(d) for d in document.drafts)
                raise _Tried
    except _Tried:
        return left
    except MaxlabError:
        return 0
    return 0


def keep(editor: Editor, args: ChangeArgs) -> Draft | None:
    """The draft that the operation became which the step ``args`` is about; None where that stays
    in the graph, and only others become drafts.

    Raises:
        GraphError: ML814, one of them cannot be a draft.
    """
    ops = _affected(editor, args)
    made = put_aside(editor, ops) if ops else []
    order = {op.id: id for op, id in zip(ops, made, strict=False)}
    return drafts.find(editor, order.get(args["op"], ""))


def _is_output(draft: Draft) -> bool:
    return drafts.short_name_of(draft) == "output"


def _affected(editor: Editor, args: ChangeArgs) -> list[Op]:
    """The operations that the step would leave without what they read, or take, in the order of
    the graph."""
    inputs = {value.id: value for value in editor.graph.function.inputs}
    if args["do"] == "remove":
        gone = [editor.op(item) for item in args["on"] if _is_op(editor, item)]
        values = [value for op in gone for value in op.results]
        values += [inputs[item] for item in args["on"] if item in inputs]
        return [op for op in readers_of(editor, values) if op not in gone]
    if args["do"] == "set" and args["op"] in inputs and "type" in args["fields"]:
        type = fields.read_type("type", args["fields"]["type"])
        return unfit(editor, inputs[args["op"]], type)
    if args["do"] in ("connect", "set") and _is_op(editor, args["op"]):
        op = editor.op(args["op"])
        read = _to_read(editor, args)
        # What an attribute makes of its operation shows when that is tried.
        return [op, *readers_of(editor, op.results)] if read is None else misfits(editor, op, read)
    return []


def _to_read(editor: Editor, args: ChangeArgs) -> dict[int, Value] | None:
    """The values that the operation of the step shall read, by the numbers of its operands; None
    where the step is of more than operands."""
    if args["do"] == "connect":
        # More than one value at once is refused with drafts, too.
        on = args["on"]
        return {args["operand"]: editor.in_function(on[0])} if len(on) == 1 else None
    found = {}
    for name, text in args["fields"].items():
        if name.startswith("operand "):
            value = fields.read_value(editor, name, text.strip())
            found[int(name.removeprefix("operand "))] = editor.in_function(value)
        elif name != FIELD:
            return None
    return found


def _is_op(editor: Editor, item: str) -> bool:
    found = editor.graph.function.find(item)
    return found is not None and not found.ends_block


__all__ = ["FIELD", "count", "keep"]

"""The questions of ports, ``reach`` and ``ports``, and the changes that are made by dragging."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph import Editor
from maxlab.graph.drafting import maker_of
from maxlab.graph.rearranging import short_name
from maxlab.graph.value import Value
from maxlab.lab import draft_reaching, drafts, keeping, ports, reaching
from maxlab.lab.protocol.changes import ChangeArgs, PortsAnswer, ReachAnswer, ReachArgs
from maxlab.lab.protocol.costs import NoArgs
from maxlab.lab.protocol.questions import PORTS, REACH
from maxlab.lab.questions.asking import Answer, Shown, question
from maxlab.lab.questions.change import Done, called, editor_of, reader_of, step, value_of


@question(PORTS)
def ports_of(shown: Shown, args: NoArgs) -> Answer[PortsAnswer]:
    """The names of the operands of operations."""
    return Answer({"version": 1, "names": ports.names_of_operands()})


@question(REACH)
def reach(shown: Shown, args: ReachArgs) -> Answer[ReachAnswer]:
    """The ends that a port can be connected to."""
    editor = editor_of(shown)
    draft = drafts.find(editor, maker_of(args["value"])[0])
    reader = drafts.find(editor, args["op"])
    if draft is not None:
        ends = draft_reaching.takers_of_draft(editor, draft, args["value"])
    elif args["value"]:
        value = editor.in_function(args["value"])
        ends = reaching.takers(editor, value) + draft_reaching.takers(editor, value)
    elif reader is not None:
        ends = draft_reaching.taken(editor, reader, args["operand"])
    else:
        op = editor.op(reader_of(editor, args["op"]))
        editor.operand(op, args["operand"])  # there is one
        ends = reaching.taken(editor, op, args["operand"])
    return ends_answer(editor, ends)


def ends_answer(editor: Editor, ends: Iterable[reaching.End]) -> Answer[ReachAnswer]:
    """The answer that lists ``ends``, in which the graph's last operation is ``output``."""
    output = editor.graph.function.output
    return Answer(
        {
            "version": 1,
            "ends": [
                {
                    "op": "output" if output is not None and end.op == output.id else end.op,
                    "operand": end.operand,
                    "value": end.value,
                    "state": end.state,
                    "says": end.says,
                }
                for end in ends
            ],
        }
    )


def _only(editor: Editor, args: ChangeArgs) -> Value:
    """The one value that is dragged."""
    if len(args["on"]) != 1:
        raise GraphError(
            "ML300",
            f"{len(args['on'])} values are to be connected at once",
            fix="connect one value to one operand",
        )
    (item,) = args["on"]
    draft = drafts.find(editor, maker_of(item)[0])
    if draft is not None:
        raise GraphError(
            "ML815",
            f"{drafts.short_name_of(draft)} {draft.id} is a draft, and no operation of the graph "
            "can read it",
            fix="give it what it lacks: it is an operation then",
        )
    return value_of(editor, item)


@step("connect")
def connect(editor: Editor, args: ChangeArgs) -> Done:
    """Let an operand read another value."""
    draft = drafts.find(editor, args["op"])
    if draft is not None:
        (item,) = args["on"]
        made = drafts.find(editor, maker_of(item)[0])
        id = item if made is not None else editor.in_function(_only(editor, args)).id
        drafts.connect(editor, draft, args["operand"], id)
        name = drafts.operand_name(draft, args["operand"])
        return f"{name} of the draft {drafts.short_name_of(draft)} {draft.id} reads %{id}", [
            draft.id
        ]
    value, reader = _only(editor, args), reader_of(editor, args["op"])
    with editor.step():
        kept = keeping.keep(editor, args) if keeping.FIELD in args["fields"] else None
        if kept is not None:
            drafts.connect(editor, kept, args["operand"], editor.in_function(value).id)
            return f"kept {drafts.short_name_of(kept)} as a draft", [kept.id]
        editor.connect(reader, args["operand"], value)
    op = editor.op(reader)
    name = "the output" if op.ends_block else f"{short_name(op)} {op.id}"
    return f"{name} reads {called(editor, value)}", [] if op.ends_block else [op.id]


@step("splice")
def splice(editor: Editor, args: ChangeArgs) -> Done:
    """Put what makes a value on the edge to an operand: it reads what the operand read, and the
    operand reads the value."""
    value, reader = _only(editor, args), reader_of(editor, args["op"])
    made = editor.in_function(value)
    with editor.step():
        read = editor.operand(reader, args["operand"])
        if made.op is not None:
            _read_first(editor, made.op.id, read)
        editor.connect(reader, args["operand"], value)
    return f"put {called(editor, value)} on the edge", [] if made.op is None else [made.op.id]


def _read_first(editor: Editor, op: str, value: Value) -> None:
    """Let the first operand of ``op`` that takes ``value`` read it.

    Raises:
        MaxlabError: None does; the error is that of the first.
    """
    first: MaxlabError | None = None
    for number in range(len(editor.operands(op))):
        try:
            editor.connect(op, number, value)
        except MaxlabError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first

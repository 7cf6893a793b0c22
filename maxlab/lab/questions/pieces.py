"""Pieces of a graph: the question ``clip``, and the changes that group, put back and paste."""

from __future__ import annotations

from maxlab.engine.times import plural
from maxlab.errors import GraphError, shown
from maxlab.graph import Editor
from maxlab.graph.rearranging import short_name
from maxlab.lab import boxes
from maxlab.lab.protocol.changes import ChangeArgs, ClipAnswer, ClipArgs
from maxlab.lab.protocol.questions import CLIP
from maxlab.lab.questions.asking import Answer, Shown, question
from maxlab.lab.questions.change import Done, editor_of, step, value_of
from maxlab.lab.regions import listed
from maxlab.lab.scopes import Paths


@question(CLIP)
def clip(shown: Shown, args: ClipArgs) -> Answer[ClipAnswer]:
    """The text of what is copied, and how people read it."""
    editor = editor_of(shown)
    text = editor.copy(*args["on"])
    said = f"copied {plural(len(args['on']), 'operation')}"
    listing = editor.listing(*args["on"])
    return Answer({"version": 1, "text": text, "listing": listing, "said": said})


@step("group")
def group(editor: Editor, args: ChangeArgs) -> Done:
    """Make a subgraph of operations."""
    name = args["fields"].get("name", "").strip()
    with boxes.followed(editor) as before:
        scope = editor.group(*args["on"], name=name)
        after = boxes.members(editor.graph)
        inside = frozenset(args["on"])
        new = (path for path, ids in after.items() if path not in before and inside <= ids)
        boxes.put(editor, args.get("places", []), next(new, ""))
    called = scope.rpartition(".")[2]
    if called.isdigit():
        called = ".".join(scope.split(".")[-2:])
    return f"made the group {called} of {plural(len(args['on']), 'operation')}", args["on"]


@step("dissolve")
def dissolve(editor: Editor, args: ChangeArgs) -> Done:
    """Put the operations of a group back: of the box ``op``, or of what an operation stands in."""
    if args["op"]:
        with boxes.followed(editor):
            ops = editor.dissolve(scope_of(editor, args["op"]))
            boxes.put(editor, args.get("places", []))
        return f"dissolved {args['op']}", ops
    if len(args["on"]) != 1:
        raise GraphError(
            "ML300",
            f"{plural(len(args['on']), 'operation')} are selected",
            fix="select a group, or one operation that stands in it",
        )
    op = editor.op(args["on"][0])
    with boxes.followed(editor):
        ops = editor.dissolve(op)
        boxes.put(editor, args.get("places", []))
    return f"dissolved the group of {short_name(op)} {op.id}", ops


def scope_of(editor: Editor, path: str) -> str:
    """The scope of operations that a view shows as the box ``path``.

    Raises:
        GraphError: ML300, there is no such box, or it is a branch or the body of a loop.
    """
    graph = editor.graph
    found = listed(graph.function, graph.scope_types)
    paths = Paths([one.scope for one in found.ops], {**found.functions, **found.modules})
    for one in found.ops:
        parts = one.scope.split(".")
        if one.scope != one.op.scope or not f"{paths.of(one.scope)}.".startswith(f"{path}."):
            continue
        for count in range(len(parts), 0, -1):
            scope = ".".join(parts[:count])
            if paths.of(scope) == path:
                return scope
    raise GraphError(
        "ML300",
        f"the graph {graph.name!r} has no group {shown(path)}",
        fix="branches and the bodies of loops are parts of their operation, and no groups",
    )


@step("paste")
def paste(editor: Editor, args: ChangeArgs) -> Done:
    """Add what a clip has; it reads what is selected, where that is given."""
    onto = [value_of(editor, item) for item in args["on"]]
    before = len(editor.graph.function.inputs)
    made = editor.paste(args["fields"].get("text", ""), onto)
    inputs = len(editor.graph.function.inputs) - before
    more = f", with {plural(inputs, 'new input')}" if inputs else ""
    return f"pasted {plural(len(made), 'operation')}{more}", [op.id for op in made]

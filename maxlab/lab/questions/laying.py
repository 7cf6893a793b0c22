"""The steps of the editing strip that change what stands beside the graph: where things are drawn,
which boxes are folded, and comments."""

from __future__ import annotations

from typing import Any

from maxlab.graph import Editor, Place
from maxlab.lab.fields import FieldError
from maxlab.lab.protocol.changes import ChangeArgs
from maxlab.lab.questions.change import Done, step

_WORDS = {"place": "moved", "pin": "pinned", "unpin": "unpinned", "align": "aligned"}
"""The name of the step that draws items at places."""


@step("place")
@step("pin")
@step("unpin")
@step("align")
def _place(editor: Editor, args: ChangeArgs) -> Done:
    given = args.get("places", [])
    known = editor.graph.document.places
    made: dict[str, Place] = {}
    for one in given:
        before = known.get(one["key"])
        more = before.more if before is not None else {}
        made[one["key"]] = Place(x=one["x"], y=one["y"], pinned=one["pinned"], more=more)
    editor.place_all(made)
    return f"{_WORDS[args['do']]} {_items(len(given))}", []


@step("unplace")
def _unplace(editor: Editor, args: ChangeArgs) -> Done:
    editor.unplace(*args["on"])
    return f"left {_items(len(args['on']))} to the layout", []


@step("fold")
def _fold(editor: Editor, args: ChangeArgs) -> Done:
    with editor.step():
        for path, folded in args["fields"].items():
            editor.fold(path, folded == "true")
    return "", []


@step("comment")
def _comment(editor: Editor, args: ChangeArgs) -> Done:
    text = _text(args)
    for at in args.get("places", []):
        editor.comment(text, args["op"], at["x"], at["y"])
        break
    else:
        editor.comment(text, args["op"])
    return "added a comment", []


@step("set-comment")
def _set_comment(editor: Editor, args: ChangeArgs) -> Done:
    """Another text, another place, or both, of one comment."""
    (id,) = args["on"]
    text = _text(args) if "text" in args["fields"] else None
    for at in args.get("places", []):
        editor.set_comment(id, text, x=at["x"], y=at["y"])
        break
    else:
        editor.set_comment(id, text)
    return "changed the comment" if text is not None else "moved the comment", []


@step("remove-comment")
def _remove_comment(editor: Editor, args: ChangeArgs) -> Done:
    with editor.step():
        for id in args["on"]:
            editor.remove_comment(id)
    count = len(args["on"])
    return "removed the comment" if count == 1 else f"removed {count} comments", []


@step("resolve")
def _resolve(editor: Editor, args: ChangeArgs) -> Done:
    """A conflict, decided by what one side has."""
    (id,) = args["on"]
    take: Any = args["fields"].get("take", "")
    known = [conflict.on for conflict in editor.graph.document.conflicts if conflict.id == id]
    editor.resolve(id, take)
    keys = [key for on in known for key in on if editor.graph.function.find(key) is not None]
    return f"took {take} of the conflict {id}", keys


def _text(args: ChangeArgs) -> str:
    text = args["fields"].get("text", "").strip()
    if not text:
        raise FieldError("text", "nothing is given", "write what the comment says")
    return text


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"

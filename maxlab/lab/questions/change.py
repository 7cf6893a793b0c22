"""The questions of the editing strip: ``offer``, ``details`` and ``change``.

A change is a step of `maxlab.graph.Editor`: whole or not at all, and taken back by another.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, MaxlabError
from maxlab.graph import Editor, Graph, TensorType
from maxlab.graph.rearranging import short_name
from maxlab.graph.value import Value
from maxlab.ir import Op, Type
from maxlab.ir.types import Typed
from maxlab.lab import fields, fits, palette
from maxlab.lab.fields import FieldError
from maxlab.lab.models import model_for
from maxlab.lab.palette import Offer, Parameter
from maxlab.lab.protocol.changes import (
    ChangeAnswer,
    ChangeArgs,
    ChangeField,
    DetailsAnswer,
    DetailsArgs,
    OfferAnswer,
    OfferArgs,
    OfferedOp,
)
from maxlab.lab.protocol.questions import CHANGE, DETAILS, OFFER
from maxlab.lab.questions.asking import Answer, Shown, question
from maxlab.opset import lookup

_floors: weakref.WeakKeyDictionary[Graph, int] = weakref.WeakKeyDictionary()
"""How many steps each graph had when it was first changed by hand: those of its code, which no undo
takes back. An editor would keep the graph alive."""


def editor_of(shown: Shown) -> Editor:
    """The editor of the graph that is shown, or that the model is of.

    Raises:
        ArgumentError: ML806, there is none.
    """
    graph = shown if isinstance(shown, Graph) else model_for(shown).graph
    if not isinstance(graph, Graph):
        raise ArgumentError(
            "ML806",
            "this view shows a model whose graph is gone",
            fix="show a graph as the last line of a cell",
        )
    return Editor(graph, since=_floors.setdefault(graph, graph.log.steps))


# ---------------------------------------------------------------- what can be added
@question(OFFER)
def offer(shown: Shown, args: OfferArgs) -> Answer[OfferAnswer]:
    """The operations that fit where something is to be added."""
    editor = editor_of(shown)
    given = _read_there(editor, args)
    found = fits.fitting(editor, given, _attempt(args))
    told = ", ".join(_called(editor, value) for value in given)
    return Answer(
        {
            "version": 1,
            "offers": [_told(fit, len(given)) for fit in found],
            "on": told or "nothing yet",
        }
    )


def _read_there(editor: Editor, args: OfferArgs | ChangeArgs) -> list[Value]:
    """The values that an operation would read that is added there."""
    way = args.get("way") or args.get("do")
    if way == "insert":
        return [editor.operand(_reader(editor, args["op"]), args["operand"])]
    if way == "replace":
        return editor.operands(args["op"])
    return [_value(editor, item) for item in args["on"]]


def _reader(editor: Editor, op: str) -> str:
    """The id of the operation ``op``; ``output`` is that of the graph's outputs."""
    output = editor.graph.function.output
    return output.id if op == "output" and output is not None else op


def _value(editor: Editor, item: str) -> Value:
    """The value with the id ``item``, or the first result of the operation with that id."""
    try:
        return editor.value(item)
    except MaxlabError:
        op = editor.op(item)
        if not op.results:
            raise
        return editor.value(op.results[0].id)


def _attempt(args: OfferArgs) -> fits.Attempt | None:
    """What tries an operation there; None where it is added at the end."""
    if args["way"] == "insert":
        return lambda editor, one: [
            editor.insert(one.name, _reader(editor, args["op"]), args["operand"])
        ]
    if args["way"] == "replace":
        return lambda editor, one: editor.replace(args["op"], one.name)
    return None


def _told(fit: fits.Fit, given: int) -> OfferedOp:
    offer = fit.offer
    return {
        "name": offer.name,
        "family": offer.family,
        "says": offer.says,
        "fields": [_field(p) for p in palette.open_parameters(offer, given)],
        "needs": list(fit.needs),
        "result": fit.result,
    }


def _field(parameter: Parameter) -> ChangeField:
    return {
        "name": parameter.name,
        "kind": parameter.kind,
        "text": parameter.default or "",
        "needed": parameter.default is None,
        "choices": _choices(parameter),
        "hint": fields.WRITE[parameter.kind],
    }


def _choices(parameter: Parameter) -> list[str]:
    if parameter.kind == "dtype":
        return [dtype.name for dtype in DType if dtype.is_float() or dtype.is_integral()]
    return list(parameter.choices)


def _called(editor: Editor, value: Value) -> str:
    """What a value is called: its name, or the operation that makes it."""
    found = editor.in_function(value)
    if found.name:
        return found.name
    return f"%{found.id}" if found.op is None else f"{short_name(found.op)} {found.op.id}"


# ---------------------------------------------------------------- what is there
@question(DETAILS)
def details(shown: Shown, args: DetailsArgs) -> Answer[DetailsAnswer]:
    """What can be changed of an operation or an input by typing."""
    editor, item = editor_of(shown), args["item"]
    for value in editor.graph.function.inputs:
        if item in (value.id, value.name):
            known = [
                _now("name", "text", value.name, hint="letters, digits and _"),
                _now("type", "type", fields.type_text(value.type), hint=fields.WRITE["type"]),
            ]
            title = f"input {_called(editor, editor.value(value.id))}"
            return Answer({"version": 1, "title": title, "fields": known})
    op = editor.op(item)
    known = [] if not op.results else [_now("name", "text", op.results[0].name)]
    known += [
        _now(f"operand {n}", "value", _called_text(editor, value), needed=True)
        for n, value in enumerate(editor.operands(op))
    ]
    known += [_attribute(op, key) for key in fields.readable_attributes(op.name)]
    title = "outputs" if op.ends_block else f"{short_name(op)} {op.id}"
    return Answer({"version": 1, "title": title, "fields": known})


def _now(name: str, kind: Any, text: str, *, needed: bool = False, hint: str = "") -> ChangeField:
    return {
        "name": name,
        "kind": kind,
        "text": text,
        "needed": needed,
        "choices": [],
        "hint": hint or fields.WRITE[kind],
    }


def _attribute(op: Op, key: str) -> ChangeField:
    parameter = fields.attribute(op.name, key)
    field = _field(parameter)
    field["text"] = fields.attribute_text(op.attrs.get(key))
    field["needed"] = not lookup(op.name).attrs[key].optional
    return field


def _called_text(editor: Editor, value: Value) -> str:
    """How a field names ``value``: a name that no other value has, or its id."""
    found = editor.in_function(value)
    return found.name or found.id


# ---------------------------------------------------------------- a change
@question(CHANGE)
def change(shown: Shown, args: ChangeArgs) -> Answer[ChangeAnswer]:
    """What was done."""
    editor = editor_of(shown)
    try:
        said, select = _STEPS[args["do"]](editor, args)
    except FieldError as error:
        wrong = {"name": error.field, "says": f"{error.said}: {error.fix}"}
        return Answer(
            {
                "version": 1,
                "said": "",
                "select": [],
                "can_undo": editor.can_undo,
                "can_redo": editor.can_redo,
                "wrong": [{"name": wrong["name"], "says": wrong["says"]}],
            }
        )
    return Answer(
        {
            "version": 1,
            "said": said,
            "select": select,
            "can_undo": editor.can_undo,
            "can_redo": editor.can_redo,
            "wrong": [],
        }
    )


Done = tuple[str, list[str]]
"""What was done, in words, and the operations that are new or were changed."""


def _look(editor: Editor, args: ChangeArgs) -> Done:
    return "", []


def _makers(editor: Editor, values: Sequence[Value]) -> list[str]:
    ops = [editor.in_function(value).op for value in values]
    return list(dict.fromkeys(op.id for op in ops if op is not None))


def _offered(name: str) -> Offer:
    found = palette.offers().get(name)
    if found is None:
        raise ArgumentError(
            "ML808", f"there is no operation {name!r} to add", fix="choose one of the list"
        )
    return found


def _add(editor: Editor, args: ChangeArgs) -> Done:
    found, given = _offered(args["name"]), _read_there(editor, args)
    operands, others = fields.arguments(editor, found, given, args["fields"])
    made = editor.add(found.name, *operands, **others)
    return f"added {found.name}", _makers(editor, made)


def _insert(editor: Editor, args: ChangeArgs) -> Done:
    found, given = _offered(args["name"]), _read_there(editor, args)
    operands, others = fields.arguments(editor, found, given, args["fields"])
    reader = _reader(editor, args["op"])
    made = editor.insert(found.name, reader, args["operand"], *operands[1:], **others)
    return f"put {found.name} on the edge", _makers(editor, [made])


def _exchange(editor: Editor, args: ChangeArgs) -> Done:
    found, given = _offered(args["name"]), _read_there(editor, args)
    old = short_name(editor.op(args["op"]))
    operands, others = fields.arguments(editor, found, given, args["fields"])
    made = editor.replace(args["op"], found.name, *operands[len(given) :], **others)
    return f"replaced {old} by {found.name}", _makers(editor, made)


def _remove(editor: Editor, args: ChangeArgs) -> Done:
    inputs = {value.id for value in editor.graph.function.inputs}
    with editor.step():
        removed = [item for item in args["on"] if item not in inputs]
        if removed:
            editor.remove(*removed)
        for item in args["on"]:
            if item in inputs:
                editor.remove_input(item)
    return f"removed {_counted(len(args['on']), 'item')}", []


def _duplicate(editor: Editor, args: ChangeArgs) -> Done:
    made = _makers(editor, editor.duplicate(*args["on"]))
    return f"copied {_counted(len(made), 'operation')}", made


def _set(editor: Editor, args: ChangeArgs) -> Done:
    """Change the fields of an operation or an input, all of them or none."""
    item, typed = args["op"], args["fields"]
    inputs = {value.id for value in editor.graph.function.inputs}
    with editor.step():
        if item in inputs:
            if "type" in typed:
                editor.set_type(item, _type(typed["type"]))
            if "name" in typed:
                editor.rename(item, typed["name"].strip())
            return "changed the input", []
        op = editor.op(item)
        for name, text in typed.items():
            if name == "name":
                editor.rename(op.results[0].id, text.strip())
            elif name.startswith("operand "):
                number = int(name.removeprefix("operand "))
                editor.connect(op, number, _operand(editor, name, text))
            else:
                value = fields.read(editor, fields.attribute(op.name, name), text.strip())
                editor.set_attribute(op, name, fields.as_attribute(value))
    return f"changed {short_name(op)}", [op.id]


def _operand(editor: Editor, field: str, text: str) -> Value:
    found = fields.read_value(editor, field, text.strip())
    if not isinstance(found, Value):
        raise FieldError(field, f"{text!r} is no value of the graph", fields.WRITE["value"])
    return found


def _type(text: str) -> Type:
    return fields.read_type("type", text)


def _input(editor: Editor, args: ChangeArgs) -> Done:
    typed = args["fields"]
    made = editor.add_input(_type(typed.get("type", "")), typed.get("name", "").strip())
    return f"added the input {_called(editor, made)}", []


def _random(editor: Editor, args: ChangeArgs) -> Done:
    """Add a constant of noise, as weights begin."""
    typed = args["fields"]
    type = _type(typed.get("type", ""))
    assert isinstance(type, Typed)
    if not isinstance(type, TensorType) or type.parameters:
        raise FieldError("type", "a constant has sizes that are numbers", "float32[64, 10]")
    size = int(np.prod([int(dim) for dim in type.shape], dtype=np.int64))
    if size > MOST_NUMBERS:
        raise FieldError(
            "type", f"{size:,} numbers are too many by hand", "make a Weight in the cell"
        )
    seed = _number("seed", typed.get("seed", "") or "0", int)
    scale = _number("scale", typed.get("scale", "") or "0.1", float)
    noise = np.random.default_rng(abs(seed)).standard_normal([int(d) for d in type.shape])
    with editor.step():
        made = editor.add("constant", (noise * scale).astype(np.float32), DType.float32)
        if type.dtype != DType.float32:
            made = editor.add("cast", made[0], type.dtype)
        name = typed.get("name", "").strip()
        if name:
            editor.rename(made[0], name)
    return f"added the constant {_called(editor, made[0])}", _makers(editor, made)


MOST_NUMBERS = 1 << 24
"""Of a constant that is made by hand."""


def _number(field: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text.strip())
    except ValueError as error:
        raise FieldError(field, f"{text!r} is no number", fields.WRITE["data"]) from error


def _outputs(editor: Editor, args: ChangeArgs) -> Done:
    values = [_value(editor, item) for item in args["on"]]
    editor.set_outputs(*values)
    return f"the graph gives {', '.join(_called(editor, value) for value in values)}", []


def _save(editor: Editor, args: ChangeArgs) -> Done:
    path = args["fields"].get("path", "").strip()
    if not path:
        raise FieldError("path", "nothing is given", "write a path such as net.mlgraph")
    editor.graph.save(path)
    return f"saved {path}", []


def _undo(editor: Editor, args: ChangeArgs) -> Done:
    return ("undone" if editor.undo() else "there is nothing to undo"), []


def _redo(editor: Editor, args: ChangeArgs) -> Done:
    return ("done again" if editor.redo() else "there is nothing to redo"), []


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


_STEPS: dict[str, Callable[[Editor, ChangeArgs], Done]] = {
    "look": _look,
    "add": _add,
    "insert": _insert,
    "replace": _exchange,
    "set": _set,
    "remove": _remove,
    "duplicate": _duplicate,
    "input": _input,
    "random": _random,
    "outputs": _outputs,
    "save": _save,
    "undo": _undo,
    "redo": _redo,
}

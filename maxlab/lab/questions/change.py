"""The questions of the editing strip: ``offer``, ``details`` and ``change``.

A change is a step of `maxlab.graph.Editor`: whole or not at all, and taken back by another.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np

from maxlab.dtype import DType
from maxlab.engine.times import plural
from maxlab.errors import ArgumentError, GraphError, MaxlabError
from maxlab.graph import Draft, Editor, Graph, TensorType
from maxlab.graph.rearranging import short_name
from maxlab.graph.value import Value
from maxlab.ir import Op, Type
from maxlab.ir.types import Typed
from maxlab.lab import contents, drafts, fields, fits, keeping, palette, sources
from maxlab.lab.code.bases import by_hand
from maxlab.lab.fields import FieldError
from maxlab.lab.models import model_for
from maxlab.lab.offering import Source
from maxlab.lab.palette import Offer, Parameter
from maxlab.lab.protocol.changes import (
    AboutArgs,
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
    given = read_there(editor, args)
    found = fits.fitting(editor, given, _attempt(args))
    told = ", ".join(called(editor, value) for value in given)
    return Answer(
        {
            "version": 1,
            "offers": [_told(fit, len(given)) for fit in found] + _others(editor, args, given),
            "on": told or "nothing yet",
        }
    )


def _others(editor: Editor, args: OfferArgs, given: Sequence[Value]) -> list[OfferedOp]:
    """The other things than operations that can be added there."""
    if args["way"] == "replace":
        found: dict[str, OfferedOp] = {}
        for some in _read_instead(given):
            for told in sources.fitting(editor, some, partial(_replaced_by, args["op"])):
                found.setdefault(told["name"], told)
        return list(found.values())
    if args["way"] == "add":
        return sources.fitting(editor, given)

    def inserted(editor: Editor, one: Source, given: Sequence[Value]) -> Sequence[Value]:
        reader = reader_of(editor, args["op"])
        return insert_source(editor, one, given, one.trial or {}, reader, args["operand"])

    return sources.fitting(editor, given, inserted)


def _read_instead(given: Sequence[Value]) -> list[Sequence[Value]]:
    """The operands that may be read in place of an operation with the operands ``given``: all of
    them, or the first, as a layer reads that has its own weights.
    """
    return [given, given[:1]] if len(given) > 1 else [given]


def _replaced_by(
    op: str,
    editor: Editor,
    source: Source,
    given: Sequence[Value],
    typed: Mapping[str, str] | None = None,
) -> Sequence[Value]:
    """The values that ``source`` makes of ``given`` in the place of the operation ``op``.

    Raises:
        MaxlabError: It does not take the values, or what reads the operation does not take it.
    """
    fields = (source.trial or {}) if typed is None else typed
    name = source.told["name"]
    return editor.replace_by(op, name, lambda: source.add(editor, given, fields))


def insert_source(
    editor: Editor,
    source: Source,
    given: Sequence[Value],
    typed: Mapping[str, str],
    reader: str,
    operand: int,
) -> Sequence[Value]:
    """The values that ``source`` makes on the edge to an operand, which reads them.

    Raises:
        MaxlabError: It does not take the value, or what reads its result does not.
    """
    with editor.step():
        made = source.add(editor, given, typed)
        if len(made) != 1:
            raise GraphError(
                "ML300",
                f"{source.told['name']} has {len(made)} results, and an edge takes one",
                fix="add it beside the edge, then connect one of its results",
            )
        editor.connect(reader, operand, made[0])
    return made


def read_there(editor: Editor, args: OfferArgs | ChangeArgs | AboutArgs) -> list[Value]:
    """The values that an operation would read that is added there."""
    way = args.get("way") or args.get("do")
    if way == "insert":
        return [editor.operand(reader_of(editor, args["op"]), args["operand"])]
    if way == "replace":
        return editor.operands(args["op"])
    return [value_of(editor, item) for item in args["on"]]


def reader_of(editor: Editor, op: str) -> str:
    """The id of the operation ``op``; ``output`` is that of the graph's outputs."""
    output = editor.graph.function.output
    return output.id if op == "output" and output is not None else op


def value_of(editor: Editor, item: str) -> Value:
    """The value with the id ``item``, or the first result of the operation with that id."""
    try:
        return editor.value(item)
    except MaxlabError:
        op = editor.op(item)
        if not op.results:
            raise
        return editor.value(op.results[0].id)


def _attempt(args: OfferArgs) -> fits.Attempt | None:
    """A function that tries an operation there; None where it is added at the end."""
    if args["way"] == "insert":
        return lambda editor, one: [
            editor.insert(one.name, reader_of(editor, args["op"]), args["operand"])
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


def called(editor: Editor, value: Value) -> str:
    """The name of a value: its own, or the operation that makes it."""
    found = editor.in_function(value)
    if found.name:
        return found.name
    return f"%{found.id}" if found.op is None else f"{short_name(found.op)} {found.op.id}"


# ---------------------------------------------------------------- what is there
@question(DETAILS)
def details(shown: Shown, args: DetailsArgs) -> Answer[DetailsAnswer]:
    """The fields of an operation or an input that can be changed by typing."""
    editor, item = editor_of(shown), args["item"]
    for value in editor.graph.function.inputs:
        if item in (value.id, value.name):
            known = [
                _now("name", "text", value.name, hint="letters, digits and _"),
                _now("type", "type", fields.type_text(value.type), hint=fields.WRITE["type"]),
            ]
            title = f"input {called(editor, editor.value(value.id))}"
            return Answer({"version": 1, "title": title, "fields": known})
    draft = drafts.find(editor, item)
    if draft is not None:
        return Answer({"version": 1, **_details_of(draft)})
    op = editor.op(item)
    known = [] if not op.results else [_now("name", "text", op.results[0].name)]
    known += [
        _now(f"operand {n}", "value", _called_text(editor, value), needed=True)
        for n, value in enumerate(editor.operands(op))
    ]
    known += [_attribute(op, key) for key in fields.readable_attributes(op.name)]
    title = "outputs" if op.ends_block else f"{short_name(op)} {op.id}"
    return Answer({"version": 1, "title": title, "fields": known})


def _details_of(draft: Draft) -> _Details:
    known = [
        _now(drafts.operand_name(draft, n), "value", value or "")
        for n, value in enumerate(draft.operands)
    ]
    for parameter in drafts.open_parameters(draft):
        field = _field(parameter)
        field["text"] = drafts.text_of(draft, parameter) or field["text"]
        known.append(field)
    return {"title": f"the draft {drafts.short_name_of(draft)} {draft.id}", "fields": known}


class _Details(TypedDict):
    title: str
    fields: list[ChangeField]


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
    """The result of the change."""
    editor = editor_of(shown)
    try:
        with by_hand(editor.graph):
            said, select = _done(editor, args)
    except FieldError as error:
        answer = _answer(editor, "", [])
        answer["wrong"] = [{"name": error.field, "says": f"{error.said}: {error.fix}"}]
    except MaxlabError as error:
        count = keeping.count(editor, args, partial(_done, editor))
        if count == 0:
            raise
        answer = _answer(editor, "", [])
        answer["refused"] = {"says": str(error), "drafts": count}
    else:
        answer = _answer(editor, said, select)
    return Answer(answer)


def _answer(editor: Editor, said: str, select: list[str]) -> ChangeAnswer:
    return {
        "version": 1,
        "said": said,
        "select": select,
        "can_undo": editor.can_undo,
        "can_redo": editor.can_redo,
        "wrong": [],
    }


def _done(editor: Editor, args: ChangeArgs) -> Done:
    """Makes the change; drafts that are whole then become operations in the same step."""
    make = _STEPS[args["do"]]
    if args["do"] in ("look", "save", "undo", "redo"):
        return make(editor, args)
    with editor.step():
        said, select = make(editor, args)
        if select and args["do"] in ("add", "insert", "draft"):
            for at in args.get("places", [])[:1]:
                editor.place(select[-1], at["x"], at["y"], pinned=at["pinned"])
        made = drafts.settle(editor)
    if made:
        names = ", ".join(f"{short_name(editor.op(id))} {id}" for id in made)
        said = f"{said}; {names} {'is' if len(made) == 1 else 'are'} whole"
        select = [*(id for id in select if _is_shown(editor, id)), *made]
    return said, select


Done = tuple[str, list[str]]
"""A sentence about the change, and the operations that are new or were changed."""
Step = Callable[[Editor, ChangeArgs], Done]


def step(do: str) -> Callable[[Step], Step]:
    """The decorator of the function that makes the change ``do``."""

    def keep(made: Step) -> Step:
        _STEPS[do] = made
        return made

    return keep


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
    name, given = args["name"], read_there(editor, args)
    other = None if name in palette.offers() else sources.sources(editor, given).get(name)
    if other is not None:
        return f"added {name}", _makers(editor, other.add(editor, given, args["fields"]))
    found = _offered(name)
    operands, others = fields.arguments(editor, found, given, args["fields"])
    made = editor.add(found.name, *operands, **others)
    return f"added {found.name}", _makers(editor, made)


def _insert(editor: Editor, args: ChangeArgs) -> Done:
    name, given = args["name"], read_there(editor, args)
    reader = reader_of(editor, args["op"])
    other = None if name in palette.offers() else sources.sources(editor, given).get(name)
    if other is not None:
        at = reader, args["operand"]
        made_by = insert_source(editor, other, given, args["fields"], *at)
        return f"put {name} on the edge", _makers(editor, made_by)
    found = _offered(name)
    operands, others = fields.arguments(editor, found, given, args["fields"])
    made = editor.insert(found.name, reader, args["operand"], *operands[1:], **others)
    return f"put {found.name} on the edge", _makers(editor, [made])


def _draft(editor: Editor, args: ChangeArgs) -> Done:
    """Put an operation down that is not whole yet."""
    found = _offered(args["name"])
    values = [editor.in_function(value_of(editor, item)).id for item in args["on"]]
    id = drafts.put_down(editor, found, values, args["fields"])
    return f"put {found.name} {id} down unfinished", [id]


def _exchange(editor: Editor, args: ChangeArgs) -> Done:
    name, given = args["name"], read_there(editor, args)
    old = short_name(editor.op(args["op"]))
    if name not in palette.offers():
        made = _exchanged(editor, args, given)
        return f"replaced {old} by {name}", _makers(editor, made)
    found = _offered(name)
    operands, others = fields.arguments(editor, found, given, args["fields"])
    made = editor.replace(args["op"], found.name, *operands[len(given) :], **others)
    return f"replaced {old} by {found.name}", _makers(editor, made)


def _exchanged(editor: Editor, args: ChangeArgs, given: Sequence[Value]) -> Sequence[Value]:
    """The values that a source makes in the place of an operation, of all operands of it or of the
    first.

    Raises:
        FieldError: ML808, something that is typed cannot be read.
        MaxlabError: It fits with neither.
    """
    refused: MaxlabError | None = None
    for some in _read_instead(given):
        source = sources.sources(editor, some).get(args["name"])
        try:
            if source is not None:
                return _replaced_by(args["op"], editor, source, some, args["fields"])
        except FieldError:
            raise
        except MaxlabError as error:
            refused = refused or error
    if refused is None:
        _offered(args["name"])  # raises: there is nothing of the name
        raise AssertionError(args["name"])
    raise refused


def _remove(editor: Editor, args: ChangeArgs) -> Done:
    inputs = {value.id for value in editor.graph.function.inputs}
    with editor.step():
        if keeping.FIELD in args["fields"]:
            keeping.keep(editor, args)
        unfinished = [item for item in args["on"] if drafts.find(editor, item) is not None]
        for item in unfinished:
            editor.remove_draft(item)
        others = [item for item in args["on"] if item not in unfinished]
        removed = [item for item in others if item not in inputs]
        if removed:
            editor.remove(*removed)
        for item in others:
            if item in inputs:
                editor.remove_input(item)
    return f"removed {plural(len(args['on']), 'item')}", []


def _duplicate(editor: Editor, args: ChangeArgs) -> Done:
    made = _makers(editor, editor.duplicate(*args["on"]))
    return f"added {plural(len(made), 'operation')} once more", made


def _set(editor: Editor, args: ChangeArgs) -> Done:
    """Change the fields of an operation or an input, all of them or none."""
    item, typed = args["op"], args["fields"]
    inputs = {value.id for value in editor.graph.function.inputs}
    draft = drafts.find(editor, item)
    with editor.step():
        if draft is not None:
            drafts.set_fields(editor, draft, typed)
            return f"changed the draft {drafts.short_name_of(draft)} {item}", [item]
        if item in inputs:
            if keeping.FIELD in typed:
                keeping.keep(editor, args)
            if "type" in typed:
                editor.set_type(item, _type(typed["type"]))
            if "name" in typed:
                editor.rename(item, typed["name"].strip())
            return "changed the input", []
        op = editor.op(item)
        if keeping.FIELD in typed:
            typed = {name: text for name, text in typed.items() if name != keeping.FIELD}
            kept = keeping.keep(editor, args)
            if kept is not None:
                drafts.set_fields(editor, kept, _fields_of_draft(kept, typed))
                return f"kept {drafts.short_name_of(kept)} as a draft", [kept.id]
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


def _fields_of_draft(draft: Draft, typed: Mapping[str, str]) -> dict[str, str]:
    """The texts that were typed for an operation, by the names of the fields of the draft that it
    became.

    Raises:
        GraphError: ML814, a name was typed, which no draft has.
    """
    if "name" in typed:
        raise GraphError(
            "ML814",
            f"the draft {drafts.short_name_of(draft)} {draft.id} can have no name",
            fix="name what it gives when it is an operation",
        )
    numbers = {f"operand {n}": drafts.operand_name(draft, n) for n in range(len(draft.operands))}
    return {numbers.get(name, name): text for name, text in typed.items()}


def _operand(editor: Editor, field: str, text: str) -> Value:
    found = fields.read_value(editor, field, text.strip())
    if not isinstance(found, Value):
        raise FieldError(field, f"{text!r} is no value of the graph", fields.WRITE["value"])
    return found


def _type(text: str) -> Type:
    return fields.read_type("type", text)


def _is_shown(editor: Editor, id: str) -> bool:
    """Whether ``id`` is that of an operation, a draft or an input that is there."""
    is_input = any(value.id == id for value in editor.graph.function.inputs)
    return is_input or drafts.is_item(editor, id)


def _input(editor: Editor, args: ChangeArgs) -> Done:
    typed = args["fields"]
    made = editor.add_input(_type(typed.get("type", "")), typed.get("name", "").strip())
    return f"added the input {called(editor, made)}", [editor.in_function(made).id]


def _random(editor: Editor, args: ChangeArgs) -> Done:
    """Add a constant: of noise, as weights begin, or of what a variable or a file has."""
    typed = args["fields"]
    if typed.get("from", "").strip():
        return _constant_of(editor, typed)
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
    return f"added the constant {called(editor, made[0])}", _makers(editor, made)


def _constant_of(editor: Editor, typed: Mapping[str, str]) -> Done:
    array = contents.array_for("from", typed["from"].strip())
    if array.size > MOST_NUMBERS:
        raise FieldError(
            "from", f"{array.size:,} numbers are too many", "make a Weight in the cell"
        )
    with editor.step():
        made = editor.add("constant", array, DType.from_numpy(array.dtype))
        if typed.get("type", "").strip():
            wanted = _type(typed["type"])
            if not isinstance(wanted, TensorType) or list(wanted.shape) != list(array.shape):
                raise FieldError(
                    "type", f"the numbers are of the shape {list(array.shape)}", "leave it out"
                )
            if wanted.dtype != DType.from_numpy(array.dtype):
                made = editor.add("cast", made[0], wanted.dtype)
        if typed.get("name", "").strip():
            editor.rename(made[0], typed["name"].strip())
    return f"added the constant {called(editor, made[0])}", _makers(editor, made)


MOST_NUMBERS = 1 << 24
"""Of a constant that is made by hand."""


def _number(field: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text.strip())
    except ValueError as error:
        raise FieldError(field, f"{text!r} is no number", fields.WRITE["data"]) from error


def _outputs(editor: Editor, args: ChangeArgs) -> Done:
    values = [value_of(editor, item) for item in args["on"]]
    editor.set_outputs(*values)
    return f"the graph gives {', '.join(called(editor, value) for value in values)}", []


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


_STEPS: dict[str, Step] = {
    "look": _look,
    "add": _add,
    "insert": _insert,
    "replace": _exchange,
    "draft": _draft,
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

"""Drafts in a view: put down unfinished, connected, changed, and made operations once they are
whole.

A draft from the palette has the name of a function of ``ops`` and what was typed for it; one that
was an operation of the graph has its name in the op table, see `maxlab.graph.drafting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph import Draft, Editor
from maxlab.graph.drafting import built, maker_of, result_id
from maxlab.graph.value import Value
from maxlab.ir.attrparse import AttributeReader
from maxlab.ir.attrtext import attr_text
from maxlab.lab import fields, palette
from maxlab.lab.palette import Offer, Parameter
from maxlab.lab.ports import operand_names


def find(editor: Editor, id: str) -> Draft | None:
    """The draft with the id ``id``; None if there is none."""
    return next((one for one in editor.graph.document.drafts if one.id == id), None)


def is_item(editor: Editor, id: str) -> bool:
    """Whether ``id`` is that of an operation or a draft that is there."""
    return editor.graph.function.find(id) is not None or find(editor, id) is not None


def short_name_of(draft: Draft) -> str:
    """The name of the operation that ``draft`` is to be."""
    return draft.name.removeprefix("mo.")


def offer_of(draft: Draft) -> Offer | None:
    """The operation of the palette that ``draft`` is; None if it was one of the graph."""
    return None if draft.name.startswith("mo.") else palette.offers().get(draft.name)


# ---------------------------------------------------------------- operands
def operand_name(draft: Draft, number: int) -> str:
    """The name of operand ``number`` of ``draft``."""
    names = operand_names(short_name_of(draft))
    for place, name in enumerate(names):
        if name.endswith(" 0") and number >= place:
            return f"{name[:-2]} {number - place}"
    return names[number] if number < len(names) else f"operand {number}"


def put_down(editor: Editor, offer: Offer, values: Sequence[str], typed: Mapping[str, str]) -> str:
    """The id of a new draft of ``offer`` that reads ``values``; operands that are needed beside
    them are missing.

    Args:
        editor: Of the graph.
        offer: The operation.
        values: The ids of its first operands.
        typed: What was typed for its other parameters.
    """
    operands: list[str | None] = list(values)
    texts = {name: text.strip() for name, text in typed.items() if text.strip()}
    places = [p for p in offer.parameters if p.kind == "value"]
    for number, place in enumerate(places):
        text = texts.get(place.name)
        named = None if text is None else _named(editor, text)
        if number < len(operands):
            continue
        if named is not None:
            del texts[place.name]
        if named is not None or place.default is None:
            operands.append(named)
    if not operands and any(p.kind == "values" for p in offer.parameters):
        operands.append(None)
    return editor.draft(offer.name, operands, "", texts)


def _named(editor: Editor, text: str) -> str | None:
    """The id of the value that ``text`` names; None if it names none."""
    try:
        return editor.in_function(text.removeprefix("%")).id
    except MaxlabError:
        return None


def connect(editor: Editor, draft: Draft, operand: int, value: str) -> None:
    """Lets ``draft`` read the value with the id ``value``, of the graph or of another draft.

    Raises:
        GraphError: ML300, there is no such operand; ML815, the value is made of the draft.
    """
    operands = list(draft.operands)
    if not 0 <= operand < len(operands):
        raise GraphError(
            "ML300",
            f"the draft {draft.id} has {len(operands)} operands, and none is number {operand}",
            fix="operands are counted from 0",
        )
    if depends(editor, value, draft):
        raise GraphError(
            "ML815",
            f"%{value} is made of {short_name_of(draft)} {draft.id}, which would read it",
            fix="connect a value that does not depend on it",
        )
    operands[operand] = value
    editor.set_draft(draft.id, operands=operands)


def depends(editor: Editor, value: str, draft: Draft) -> bool:
    """Whether the value with the id ``value`` is made of ``draft``, itself or over other drafts."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        maker = find(editor, maker_of(waiting.pop())[0])
        if maker is not None and maker.id not in found:
            found.add(maker.id)
            waiting += [id for id in maker.operands if id is not None]
    return draft.id in found


# ---------------------------------------------------------------- whole or not
def settle(editor: Editor) -> list[str]:
    """The ids of the operations that drafts became, which were whole; the others say what is
    missing or wrong."""
    made: list[str] = []
    is_new = True
    while is_new:
        is_new = False
        for draft in list(editor.graph.document.drafts):
            reason = lacking(editor, draft)
            if not reason:
                try:
                    with editor.step():
                        made += _become(editor, draft)
                except MaxlabError as error:
                    reason = error.what
                else:
                    is_new = True
                    continue
            if reason != draft.reason:
                editor.set_draft(draft.id, reason=reason)
    return made


def lacking(editor: Editor, draft: Draft) -> str:
    """Says, in words, what ``draft`` lacks before it can be tried; empty if nothing."""
    typed = draft.attrs
    parts = []
    offer = offer_of(draft)
    places = [p for p in offer.parameters if p.kind == "value"] if offer is not None else []
    for number, id in enumerate(draft.operands):
        name = operand_name(draft, number)
        if id is None:
            if not (number < len(places) and places[number].name in typed):
                parts.append(f"{name} is missing")
        else:
            maker = find(editor, maker_of(id)[0])
            if maker is not None:
                parts.append(
                    f"{name} reads {short_name_of(maker)} {maker.id}, which is a draft itself"
                )
    if offer is not None:
        others = [p for p in offer.parameters if p.kind not in ("value", "values")]
        parts += [
            f"{p.name} is missing" for p in others if p.default is None and p.name not in typed
        ]
    return "; ".join(parts)


def tried(editor: Editor, draft: Draft) -> list[Value]:
    """The results of the operation that ``draft`` is; it is added to the graph.

    Raises:
        MaxlabError: What the operation says of its operands.
    """
    offer = offer_of(draft)
    ids = [id for id in draft.operands if id is not None]
    if offer is None:
        return built(editor, draft.name, ids, draft.attrs)
    operands, others = fields.arguments(editor, offer, [], typed_of(offer, draft))
    return editor.add(offer.name, *operands, **others)


def typed_of(offer: Offer, draft: Draft) -> dict[str, str]:
    """The texts for the fields of ``offer`` that would make ``draft``."""
    typed = dict(draft.attrs)
    operands = list(draft.operands)
    for place in offer.parameters:
        if place.kind == "value" and operands:
            id = operands.pop(0)
            if id is not None:
                typed[place.name] = id
        elif place.kind == "values" and operands:
            typed[place.name] = ", ".join(id for id in operands if id is not None)
            operands = []
    return typed


def _become(editor: Editor, draft: Draft) -> list[str]:
    """Makes an operation of ``draft``, which gets its place, its comments and its readers."""
    results = [editor.in_function(value) for value in tried(editor, draft)]
    document = editor.graph.document
    ids = {result_id(draft.id, n): value.id for n, value in enumerate(results)}
    for other in list(document.drafts):
        if any(id in ids for id in other.operands):
            read = [ids.get(id, id) if id is not None else None for id in other.operands]
            editor.set_draft(other.id, operands=read)
    made = results[0].op if results else None
    if made is not None:
        place = document.places.pop(draft.id, None)
        if place is not None:
            document.places[made.id] = place
        for number, comment in enumerate(document.comments):
            if comment.on == draft.id:
                document.comments[number] = replace(comment, on=made.id)
    editor.remove_draft(draft.id)
    return [] if made is None else [made.id]


# ---------------------------------------------------------------- changes
def set_fields(editor: Editor, draft: Draft, typed: Mapping[str, str]) -> None:
    """Changes what was typed for ``draft``, and what it reads.

    Raises:
        FieldError: ML808, a text names no value, or means nothing for an attribute.
    """
    operands, attrs = list(draft.operands), dict(draft.attrs)
    names = {operand_name(draft, n): n for n in range(len(operands))}
    was_op = offer_of(draft) is None
    for name, text in typed.items():
        text = text.strip()
        if name in names:
            operands[names[name]] = _operand(editor, name, text)
        elif text and was_op:
            value = fields.read(editor, fields.attribute(draft.name, name), text)
            attrs[name] = attr_text(fields.as_attribute(value))
        elif text:
            attrs[name] = text
        else:
            attrs.pop(name, None)
    editor.set_draft(draft.id, operands=operands, attrs=attrs)


def _operand(editor: Editor, name: str, text: str) -> str | None:
    if not text:
        return None
    value = text.removeprefix("%")
    if find(editor, maker_of(value)[0]) is not None:
        return value
    found = _named(editor, value)
    if found is None:
        raise fields.FieldError(name, f"there is no value {text!r}", fields.WRITE["value"])
    return found


def open_parameters(draft: Draft) -> list[Parameter]:
    """The parameters of ``draft`` that can be typed, beside its operands."""
    offer = offer_of(draft)
    if offer is None:
        keys = fields.readable_attributes(draft.name)
        return [fields.attribute(draft.name, key) for key in keys]
    return [p for p in offer.parameters if p.kind not in ("value", "values")]


def text_of(draft: Draft, parameter: Parameter) -> str | None:
    """The text that is typed for ``parameter`` of ``draft``; None where there is none."""
    text = draft.attrs.get(parameter.name)
    if text is None or offer_of(draft) is not None:
        return text
    return fields.attribute_text(
        AttributeReader(text, f"{draft.name}, {parameter.name}").attribute()
    )


__all__ = [
    "connect",
    "depends",
    "find",
    "is_item",
    "lacking",
    "offer_of",
    "open_parameters",
    "operand_name",
    "put_down",
    "set_fields",
    "settle",
    "short_name_of",
    "tried",
    "typed_of",
]

"""Operations that leave a graph as drafts: beside it they keep what they read, and what is wrong.

A draft whose name begins with ``mo.`` has been an operation, and keeps its attributes as documents
write them. The results of a draft have ids as those of an operation have, ``v9`` of the draft
``n9``, so that another draft can read them; the graph never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph.editing import Editor
from maxlab.graph.rearranging import short_name
from maxlab.graph.value import Value, wrap
from maxlab.ir import ChainType, Op, Type
from maxlab.ir import Value as IrValue
from maxlab.ir.attrparse import AttributeReader
from maxlab.ir.attrtext import attr_text
from maxlab.opset import lookup
from maxlab.opset.verify import infer_types

_RESULT = re.compile(r"v(\d+)(?:_(\d+))?")


def result_id(draft: str, number: int = 0) -> str:
    """The id of result ``number`` of the draft with the id ``draft``.

    Example:
        >>> result_id("n9"), result_id("n9", 1)
        ('v9', 'v9_1')
    """
    return f"v{draft[1:]}" if number == 0 else f"v{draft[1:]}_{number}"


def maker_of(value: str) -> tuple[str, int]:
    """The id of the draft that would make the value with the id ``value``, and which result it is;
    an empty id where that is no id of a result."""
    found = _RESULT.fullmatch(value)
    return ("", 0) if found is None else (f"n{found[1]}", int(found[2] or 0))


def readers_of(editor: Editor, values: Iterable[IrValue]) -> list[Op]:
    """The operations that read ``values``, or what is made of them; in the order of the graph, and
    without the outputs."""
    lost = set(values)
    found = []
    for op in editor.graph.function.ops:
        if not op.ends_block and any(value in lost for value in op.operands):
            found.append(op)
            lost.update(op.results)
    return found


def unfit(editor: Editor, value: IrValue, type: Type) -> list[Op]:
    """The operations that do not take what they would read if ``value`` had the type ``type``, and
    what is made of them; in the order of the graph."""
    return _unfit(editor, {value: type})


def misfits(editor: Editor, op: Op, read: Mapping[int, IrValue]) -> list[Op]:
    """The operations that do not take what they would read if ``op`` read other values, and what is
    made of them; in the order of the graph. ``op`` itself is the first where it does not take them.

    Args:
        editor: Of the graph, which stays as it is.
        op: An operation.
        read: The values, by the numbers of its operands.
    """
    types = [read.get(n, v).type for n, v in enumerate(op.operands)]
    try:
        if op.regions:
            raise GraphError("ML814", f"{short_name(op)} {op.id} cannot be followed")
        made = infer_types(op, [type for type in types if not isinstance(type, ChainType)])
    except MaxlabError:
        return [op, *readers_of(editor, op.results)]
    return _unfit(editor, dict(zip(op.results, made, strict=False)))


def _unfit(editor: Editor, types: dict[IrValue, Type]) -> list[Op]:
    lost: set[IrValue] = set()
    found = []
    for op in editor.graph.function.ops:
        if op.ends_block or not any(v in types or v in lost for v in op.operands):
            continue
        try:
            if op.regions or any(v in lost for v in op.operands):
                raise GraphError("ML814", f"{short_name(op)} {op.id} cannot be followed")
            reads = [types.get(v, v.type) for v in _read(op)]
            made = infer_types(op, reads)
        except MaxlabError:
            found.append(op)
            lost.update(op.results)
        else:
            types.update(zip(op.results, made, strict=False))
    return found


def _read(op: Op) -> list[IrValue]:
    return [v for v in op.operands if not isinstance(v.type, ChainType)]


def put_aside(editor: Editor, ops: Sequence[Op]) -> list[str]:
    """The ids of drafts that ``ops`` become, in one step; outputs that they make become a draft as
    well.

    Args:
        editor: Of the graph.
        ops: Operations, with all that read them.

    Raises:
        GraphError: ML814, one of them cannot be a draft.
    """
    function = editor.graph.function
    gone = set(ops)
    order = [op for op in function.ops if op in gone]
    for op in order:
        if op.regions or len(_read(op)) != len(op.operands):
            what = "has regions" if op.regions else "changes a buffer"
            raise GraphError(
                "ML814",
                f"{short_name(op)} {op.id} {what}, and a draft cannot keep that",
                at=op.loc,
                fix="connect it to another value first, or remove it too",
            )
    made: list[str] = []
    ids: dict[str, str] = {}
    with editor.step():
        lost = {v for op in order for v in op.results}
        output = function.output
        outputs = [] if output is None else list(output.operands)
        if not lost.isdisjoint(outputs):
            editor.set_outputs(*(wrap(v) for v in outputs if v not in lost))
        for op in order:
            id = _noted(editor, op.name, [ids.get(v.id, v.id) for v in op.operands], op.attrs)
            ids.update((v.id, result_id(id, n)) for n, v in enumerate(op.results))
            place = editor.graph.document.places.pop(op.id, None)
            if place is not None:
                editor.graph.document.places[id] = place
            comments = editor.graph.document.comments
            for number, comment in enumerate(comments):
                if comment.on == op.id:
                    comments[number] = replace(comment, on=id)
            made.append(id)
        if not lost.isdisjoint(outputs):
            assert output is not None
            made.append(_noted(editor, output.name, [ids.get(v.id, v.id) for v in outputs], {}))
        for op in reversed(order):
            function.block.remove(op)
    return made


def _noted(editor: Editor, name: str, operands: Sequence[str], attrs: Mapping[str, Any]) -> str:
    texts = {key: attr_text(value) for key, value in attrs.items()}
    return editor.draft(name, operands, "", texts)


def built(
    editor: Editor, name: str, operands: Sequence[str], attrs: Mapping[str, str]
) -> list[Value]:
    """The results of a new operation ``name``, such as ``mo.matmul``, of a draft that is whole.

    Raises:
        MaxlabError: What the operation says of its operands or attributes.
    """
    given = [editor.value(id) for id in operands]
    if lookup(name).role == "output":
        editor.set_outputs(*given)
        return []
    with editor.step():
        read = {key: _attribute(text, f"{name}, {key}") for key, text in attrs.items()}
        try:
            return list(editor.graph.op(name.removeprefix("mo."), given, **read))
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            if isinstance(error, MaxlabError):
                raise
            raise GraphError(
                "ML814",
                f"{name.removeprefix('mo.')} does not take {len(given)} operands with the "
                f"attributes {sorted(attrs)}",
                fix="connect other operands, or remove the draft",
            ) from error


def _attribute(text: str, where: str) -> Any:
    reader = AttributeReader(text, where)
    made = reader.attribute()
    if reader.token:
        reader.fail("expected the end of the text")
    return made


__all__ = ["built", "maker_of", "misfits", "put_aside", "readers_of", "result_id", "unfit"]

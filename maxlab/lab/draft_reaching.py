"""Values that the operands of drafts can read, and readers that can take the results of drafts; see
`maxlab.lab.reaching`.
"""

from __future__ import annotations

from dataclasses import replace

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph import Draft, Editor
from maxlab.graph.drafting import result_id
from maxlab.graph.graph import LIVE, Graph
from maxlab.ir import ChainType, Type, Value
from maxlab.lab import drafts
from maxlab.lab.fields import type_text
from maxlab.lab.reaching import End, State


def takers(editor: Editor, value: Value) -> list[End]:
    """Every operand of a draft, with whether it takes ``value``."""
    trier = _Trier(editor)
    return [
        trier.end(draft, number, value)
        for draft in editor.graph.document.drafts
        for number in range(len(draft.operands))
    ]


def taken(editor: Editor, draft: Draft, operand: int) -> list[End]:
    """Every value, of the graph and of other drafts, with whether the operand takes it.

    Raises:
        GraphError: ML300, ``draft`` has no such operand.
    """
    if not 0 <= operand < len(draft.operands):
        raise GraphError(
            "ML300",
            f"the draft {draft.id} has {len(draft.operands)} operands, and none is number "
            f"{operand}",
            fix="operands are counted from 0",
        )
    trier = _Trier(editor)
    function = editor.graph.function
    values = [*function.inputs, *(v for op in function.ops for v in op.results)]
    found = [trier.end(draft, operand, v) for v in values if not isinstance(v.type, ChainType)]
    others = [other for other in editor.graph.document.drafts if other.id != draft.id]
    found += [_between(editor, draft, operand, result_id(other.id)) for other in others]
    return found


def takers_of_draft(editor: Editor, draft: Draft, value: str) -> list[End]:
    """Every operand, with whether it takes ``value``, a result of ``draft``: those of other drafts
    do."""
    why = f"{drafts.short_name_of(draft)} {draft.id} is a draft itself"
    found = [
        End(op.id, number, value, "refused", why)
        for op in editor.graph.function.ops
        for number in range(sum(not isinstance(v.type, ChainType) for v in op.operands))
    ]
    for other in editor.graph.document.drafts:
        if other.id != draft.id:
            found += [_between(editor, other, n, value) for n in range(len(other.operands))]
    return found


def _between(editor: Editor, reader: Draft, operand: int, value: str) -> End:
    """Whether one draft can read another."""
    if reader.operands[operand] == value:
        return End(reader.id, operand, value, "same", reader.reason)
    if drafts.depends(editor, value, reader):
        why = f"it is made of {drafts.short_name_of(reader)} {reader.id}"
        return End(reader.id, operand, value, "refused", why)
    return End(reader.id, operand, value, "fits", "a draft")


class _Trier:
    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._copy: Editor | None = None
        self._known: dict[tuple[str, int, Type], tuple[State, str]] = {}

    def end(self, draft: Draft, number: int, value: Value) -> End:
        """Whether operand ``number`` of ``draft`` takes ``value``."""
        if draft.operands[number] == value.id:
            return End(draft.id, number, value.id, "same", draft.reason)
        key = (draft.id, number, value.type)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._found(draft, number, value)
        return End(draft.id, number, value.id, *known)

    def _found(self, draft: Draft, number: int, value: Value) -> tuple[State, str]:
        operands = list(draft.operands)
        operands[number] = value.id
        made = replace(draft, operands=tuple(operands))
        lacking = drafts.lacking(self._editor, made)
        if lacking:
            return "fits", f"a draft still: {lacking}"
        if self._copy is None:
            copy = Graph(path=self._editor.graph.function.clone())
            LIVE.discard(copy)  # it is none of the user's
            self._copy = Editor(copy)
        try:
            with self._copy.step():
                results = drafts.tried(self._copy, made)
                raise _Taken([type_text(self._copy.in_function(v).type) for v in results])
        except _Taken as took:
            return "fits", ", ".join(took.types) or "an output"
        except MaxlabError as error:
            return "refused", error.what


class _Taken(Exception):  # noqa: N818 - it is no error
    """The draft took the value; raised so that it is taken back."""

    def __init__(self, types: list[str]) -> None:
        super().__init__(*types)
        self.types = types


__all__ = ["taken", "takers", "takers_of_draft"]

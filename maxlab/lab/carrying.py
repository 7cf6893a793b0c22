"""Where something of the palette can be put down: values that it can read, and edges that it can be
put on.

A view asks when somebody begins to drag an entry out of the list. It is tried in a copy of the
graph once for each type that a value has; whether what reads an edge then takes the result follows
from the types.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from maxlab.errors import MaxlabError
from maxlab.graph import Editor
from maxlab.graph.value import BufferValue, Value
from maxlab.ir import ChainType, Op, Type
from maxlab.ir import Value as IrValue
from maxlab.lab import palette, sources
from maxlab.lab.fields import FieldError
from maxlab.lab.fits import scratch_of, takes, tried, type_texts
from maxlab.lab.reaching import End, Readers, State, read_by, values_of
from maxlab.nn.calls import no_hooks

MOST_SECONDS = 0.6
"""That may be spent on trials."""

Made = tuple[State, str, tuple[Type, ...]]
"""Whether it reads a value, what there would be or why not, and the types of its results; none
where something has to be typed first."""


def carried(editor: Editor, name: str) -> list[End]:
    """Every value of the graph, with whether the palette's ``name`` reads it, and every operand,
    with whether it can be put on the edge there. The ends of values name no operation.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Editor, Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 4])]) as graph:
        ...     graph.output(ops.exp(graph.inputs[0].tensor))
        >>> for end in carried(Editor(graph), "logical_not"):
        ...     print(end.op or "-", end.operand, end.state)
        - 0 refused
        - 0 refused
        n0 0 refused
        n1 0 refused
    """
    trial = _Trial(editor, name)
    readers = Readers(editor)
    found = []
    for value in values_of(editor):
        state, says, _ = trial.of(value)
        found.append(End("", 0, value.id, state, says))
    for op in editor.graph.function.ops:
        for number, value in enumerate(read_by(op)):
            found.append(End(op.id, number, value.id, *_on_edge(trial, readers, op, number, value)))
    return found


def _on_edge(
    trial: _Trial, readers: Readers, op: Op, number: int, value: IrValue
) -> tuple[State, str]:
    state, says, types = trial.of(value)
    if state != "fits" or not types:
        return state, says
    if len(types) != 1:
        return "refused", f"it has {len(types)} results, and an edge takes one"
    if types[0] == value.type:
        return "fits", type_texts(types)
    taken, why = readers.end(op, number, types[0])
    return taken, type_texts(types) if taken == "fits" else why


class _Trial:
    """Whether something of the palette reads a value, remembered by the value's type."""

    def __init__(self, editor: Editor, name: str) -> None:
        self._editor = editor
        self._name = name
        self._scratch = scratch_of(editor)
        self._known: dict[Type, Made] = {}
        self._until = time.monotonic() + MOST_SECONDS

    def of(self, value: IrValue) -> Made:
        """The outcome of trying the palette's entry on ``value``."""
        if isinstance(value.type, ChainType):
            return "refused", "it is an order, not a value", ()
        known = self._known.get(value.type)
        if known is None:
            if self._known and time.monotonic() > self._until:
                return "untried", "it was not tried: the graph is large", ()
            known = self._known[value.type] = self._made(value.id)
        return known

    def _made(self, id: str) -> Made:
        value = self._scratch.value(id)
        offer = palette.offers().get(self._name)
        if offer is None:
            return self._of_source(value, id)
        needs = palette.missing(offer, 1)
        if needs is None:
            return "refused", f"{self._name} reads no value", ()
        if not takes(offer, [value]):
            kind = "a buffer" if isinstance(value, BufferValue) else "a tensor"
            return "refused", f"{self._name} does not read {kind}", ()
        if needs:
            return "fits", f"asks for {', '.join(needs)}", ()

        def add(editor: Editor) -> Sequence[Value]:
            return editor.add(self._name, *palette.bound(offer, [value]))

        return self._tried(add)

    def _of_source(self, value: Value, id: str) -> Made:
        shown = self._editor.value(id)  # the graph has its groups and kernels, a copy has none
        source = sources.sources(self._editor, [shown]).get(self._name)
        if source is None:
            return "refused", f"{self._name} does not read it", ()
        if source.trial is None:
            needs = source.told["needs"]
            return "fits", f"asks for {', '.join(needs)}" if needs else source.told["result"], ()
        return self._tried(partial(sources.added, source=source, given=[value]))

    def _tried(self, attempt: Callable[[Editor], Sequence[Value]]) -> Made:
        with no_hooks():
            made = tried(self._scratch, attempt)
        if isinstance(made, FieldError):
            return "fits", f"asks for {made.field}", ()
        if isinstance(made, MaxlabError):
            return "refused", made.what, ()
        return "fits", type_texts(made), made


__all__ = ["carried"]

"""The steps of an editor that decide what a merge could not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.errors import GraphError, shown
from maxlab.graph.becoming import become
from maxlab.graph.checked import checked
from maxlab.graph.conflicts import SIDES, Conflict, Side
from maxlab.graph.parted import Entity, Parted, split
from maxlab.graph.staged import placed
from maxlab.graph.stepping import Stepping


class Resolving(Stepping):
    """Takes sides in the conflicts of ``graph.document``. Each is a step of the graph's."""

    @placed
    def resolve(self, conflict: str, take: Side = "ours") -> None:
        """Decides a conflict, as a step: the graph gets what one side has, and the conflict goes.

        Undo brings both back. ``ours`` leaves the graph as it is where nothing was changed since
        the merge.

        Args:
            conflict: Its id, such as ``m0``.
            take: ``ours``, ``theirs``, or ``base``: what there was before both.

        Raises:
            GraphError: ML857, there is no such conflict, or no such side; ML858, what that side
                has does not fit the graph as it is now.

        Example:
            >>> import maxlab
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Editor, Graph, TensorType, ops
            >>> row = TensorType(DType.float32, ["n", 8])
            >>> base, ours, theirs = (Graph("g", lambda x: ops.softmax(x), [row]) for _ in range(3))
            >>> Editor(ours).set_attribute("n0", "axis", 0)
            >>> Editor(theirs).set_attribute("n0", "axis", 1)
            >>> graph = maxlab.merge(base, ours, theirs).graph
            >>> editor = Editor(graph)
            >>> editor.resolve("m0", "theirs")
            >>> graph.function.ops[0].attrs["axis"], len(graph.document.conflicts)
            (1, 0)
            >>> editor.undo(), graph.function.ops[0].attrs["axis"], len(graph.document.conflicts)
            (True, 0, 1)
        """
        found = self._conflict(conflict)
        if take not in SIDES:
            raise GraphError(
                "ML857",
                f"a conflict has no side {shown(take)}",
                fix="the sides are 'ours', 'theirs' and 'base'",
            )
        parted = split(self.graph.document.data())
        self._take(parted, found, take)
        try:
            function, notes = checked(parted, self.graph.name)
        except GraphError as error:
            raise GraphError(
                "ML858",
                f"{take!r} of the conflict {found.id} ({found.says}) does not fit the graph as it "
                f"is now: {error.what}",
                fix="decide the other conflicts first, take the other side, or edit the graph by "
                "hand and take 'ours'",
            ) from error
        with self.step():
            become(self.graph, function)
        files = self.graph.document.notes.weights.files
        files.update({**notes.weights.files, **files})

    def _take(self, parted: Parted, conflict: Conflict, take: Side) -> None:
        del parted.parts["conflict", conflict.id]
        parted.constants.update(conflict.constants)
        for part in conflict.parts:
            value = part.side(take)
            if take == "ours" and _is_as(parted, part.of, part.name, value):
                continue
            if part.name and part.of not in parted.parts:
                continue  # it was removed meanwhile
            parted.put(part.of, part.name, value)

    def _conflict(self, id: Any) -> Conflict:
        conflicts: Sequence[Conflict] = list(self.graph.document.conflicts)
        for one in conflicts:
            if one.id == id:
                return one
        known = ", ".join(one.id for one in conflicts[:8])
        raise GraphError(
            "ML857",
            f"the graph {self.graph.name!r} has no conflict {shown(id)}",
            fix=f"there are {known}" if known else "there are none: all is decided",
        )


def _is_as(parted: Parted, entity: Entity, name: str, value: Any) -> bool:
    fields = parted.parts.get(entity)
    return bool((fields if name == "" else (fields or {}).get(name)) == value)


__all__ = ["Resolving"]

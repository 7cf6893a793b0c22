"""The questions ``write`` and ``written``: the edits of a graph in the cell that built it."""

from __future__ import annotations

from maxlab.graph import Graph
from maxlab.ir import Op
from maxlab.lab.code.bases import base_of, is_plainly_built
from maxlab.lab.code.cells import (
    RunCell,
    namespace,
    number_of,
    require_own_text,
    run_cells,
    used_elsewhere,
    why_elsewhere,
)
from maxlab.lab.code.changes import changes_between
from maxlab.lab.code.expecting import expect
from maxlab.lab.code.proposing import Proposal, propose
from maxlab.lab.code.refusing import CodeError, no_place
from maxlab.lab.protocol.code import WriteAnswer, WriteArgs, WrittenAnswer, WrittenArgs
from maxlab.lab.protocol.questions import WRITE, WRITTEN
from maxlab.lab.questions.asking import Answer, Shown, question
from maxlab.lab.questions.change import editor_of


@question(WRITE)
def write(shown: Shown, args: WriteArgs) -> Answer[WriteAnswer]:
    """The proposal for the cell, or why there is none."""
    graph = editor_of(shown).graph
    answer: WriteAnswer = {
        "version": 1,
        "cell": "",
        "title": "",
        "before": "",
        "after": "",
        "says": [],
        "checked": False,
        "unchecked": "",
    }
    try:
        cell, found = _proposal(graph, args)
        answer["after"] = cell.in_raw(found.new_text, found.replacements)
    except CodeError as error:
        answer["refused"] = {
            "code": error.code,
            "says": error.what,
            "fix": error.fix or "",
            "ways": list(error.ways),
        }
        return Answer(answer)
    answer["cell"], answer["title"] = cell.id, f"cell [{cell.number}]"
    answer["before"] = cell.raw
    answer["says"] = list(dict.fromkeys(found.says))
    answer["checked"], answer["unchecked"] = found.is_checked, found.unchecked
    return Answer(answer)


def _proposal(graph: Graph, args: WriteArgs) -> tuple[RunCell, Proposal]:
    """The cell, and what is proposed for it.

    Raises:
        CodeError: Nothing can be.
    """
    base = base_of(graph)
    changes = changes_between(base, graph.function)
    before = {op.id: op for op in base.ops}
    touched = [before[op.id] for op in [*changes.attributes, *changes.removed] if op.id in before]
    for op in graph.function.ops:
        old = before.get(op.id)
        if old is not None and [v.id for v in old.operands] != [v.id for v in op.operands]:
            touched.append(old)
    cell = _cell_of(base.ops, touched, graph)
    require_own_text(cell, touched, graph)
    found = propose(
        cell.text,
        base,
        graph.function,
        namespace(),
        is_here=lambda op: cell.has(op, graph),
        elsewhere=why_elsewhere(cell, graph),
        used=used_elsewhere(cell.id),
        graph=graph,
        way=None if args["way"] == "rewrite" else args["way"],
    )
    if not found.is_checked and not is_plainly_built(graph):
        raise CodeError(
            "ML879",
            "lines behind the graph have changed it, and the cell cannot be tried: "
            f"{found.unchecked}",
            fix="change the cell by hand",
        )
    return cell, found


def _cell_of(ops: list[Op], touched: list[Op], graph: Graph) -> RunCell:
    """The cell that what was changed is in; of changes that no operation tells, that of the
    output."""
    for group in (touched, ops[::-1]):
        numbers = [n for n in (number_of(op, graph) for op in group) if n is not None]
        cells = run_cells(list(dict.fromkeys(numbers)))
        if cells:
            return next(iter(cells.values()))
        if group and group is touched:
            why = why_elsewhere(RunCell("", -1, "", ""), graph)(group[0])
            raise why if why.code != "ML878" else _unknown(group[0])
    raise no_place("the graph", "in no cell of this notebook")


def _unknown(op: Op) -> CodeError:
    assert op.loc is not None
    return no_place(f"{op.name.removeprefix('mo.')} {op.id}", f"in {op.loc.file}, which has no id")


@question(WRITTEN)
def written(shown: Shown, args: WrittenArgs) -> Answer[WrittenAnswer]:
    """Remembers what a cell is to build: its next run is compared with the graph as it is now."""
    graph = editor_of(shown).graph
    expect(args["cell"], graph)
    return Answer(
        {"version": 1, "says": "written; run the cell, and it is compared with this graph"}
    )

"""Functions are changed by the methods of their values, ops and blocks alone: only those tell the
log."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "maxlab"
DOOR = {"ir/core.py", "ir/rewriting.py", "ir/edit_objects.py", "ir/edit_apply.py"}
"""Where the methods are, and what puts back what they did."""

FIELDS = {"_operands", "attrs", "origins", "uses", "home", "parent", "regions"}
LISTS = {"ops", "args", "inputs", "operands", "_operands", "results", "regions", "uses", "origins"}
CHANGES = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", "update"}

OTHERS = {
    # Fields of these names that are no part of a function.
    "compiler/plan_reader.py: of.ops.append",
    "compiler/schedule.py: group.ops.append",
    "compiler/schedule.py: group.ops.sort",
    "compiler/schedule.py: other.ops",
    "graph/control_flow.py: writer.regions.append",
    "graph/control_flow.py: writer.regions.pop",
    "lab/regions.py: self.found.ops.append",
    "lab/regions.py: self.found.ops.insert",
    "torch/importer.py: part.inputs.append",
    "torch/importer.py: part.results",
}


def changes(path: Path) -> Iterator[str]:
    """The places of ``path`` that look like a change of a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        for target in targets:
            inner = target.value if isinstance(target, ast.Subscript) else target
            if not isinstance(inner, ast.Attribute) or _own(inner):
                continue
            wanted = LISTS | FIELDS if target is not inner else FIELDS | {"ops", "results"}
            if inner.attr in wanted:
                yield ast.unparse(inner)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = node.func.value
            if (
                node.func.attr in CHANGES
                and isinstance(inner, ast.Attribute)
                and inner.attr in LISTS | {"attrs"}
                and not _own(inner)
            ):
                yield ast.unparse(node.func)


def _own(node: ast.Attribute) -> bool:
    """Whether an object changes a field of its own."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def found() -> set[str]:
    """All such places outside of the door, of the modules that know the IR."""
    places: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in DOOR and "maxlab.ir" in path.read_text():
            places |= {f"{name}: {place}" for place in changes(path)}
    return places


def test_nothing_changes_a_function_past_the_log() -> None:
    assert found() - OTHERS == set()


@pytest.mark.parametrize(
    "line",
    [
        "op.attrs = {}",
        "op.attrs['k'] = 1",
        "op._operands[0] = v",
        "del block.ops[3]",
        "block.ops[:0] = made",
        "function.block.args.append(v)",
        "first.origins = ()",
        "op.regions += [r]",
    ],
)
def test_what_is_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "m.py"
    path.write_text(line)
    assert list(changes(path))

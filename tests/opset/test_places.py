"""Where ops are declared: the table that says which module to import for a row."""

from __future__ import annotations

import ast
import subprocess
import sys

from maxlab.opset import OPSET
from maxlab.opset.places import NAMED, PLACES

DECLARED = """
import sys
from maxlab.opset import core
made, define = [], core.define
def noted(name, *row, **facts):
    made.append((sys._getframe(1).f_globals["__name__"].rpartition(".")[2], name))
    return define(name, *row, **facts)
core.define = noted
list(core.OPSET)
print(made)
"""


def test_rows_are_where_the_table_says() -> None:
    """All modules of the package are imported, each in a process that notes what it declares."""
    done = subprocess.run(
        [sys.executable, "-c", DECLARED], capture_output=True, text=True, check=True
    )
    declared = set(ast.literal_eval(done.stdout))
    assert declared == {(place, name) for place, names in PLACES.items() for name in names}


def test_roles_that_one_op_has_alone_are_listed() -> None:
    roles = [row.role for row in OPSET.values()]
    assert {row.role: row.name for row in OPSET.values() if roles.count(row.role) == 1} == NAMED


def test_a_row_needs_the_modules_of_no_other() -> None:
    program = (
        "from maxlab.opset import OPSET, lookup; lookup('mo.add'); import sys; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    known = {name for name in done.stdout.split() if name.startswith("maxlab.opset.")}
    assert "maxlab.opset.binary" in known
    assert not known & {"maxlab.opset.convolution", "maxlab.opset.attention", "maxlab.opset.fft"}


def test_names_that_are_in_no_table_are_no_rows() -> None:
    assert OPSET.get("mo.none") is None
    assert "mo.none" not in OPSET
    assert len(OPSET) == len(list(OPSET)) == sum(map(len, PLACES.values()))

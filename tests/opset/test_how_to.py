"""The page about adding an op is true: its blocks run, and its op passes the tests of the table."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from maxlab.opset import OPSET, OpDef
from tests.opset.test_reference import check_decomposition, check_types

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-an-op.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture
def table() -> Iterator[None]:
    """The op table, without what the test added afterwards."""
    before = dict(OPSET)
    yield
    for name in set(OPSET) - set(before):
        del OPSET[name]


@pytest.mark.usefixtures("table")
def test_the_page_adds_an_op() -> None:
    names: dict[str, Any] = {}
    for block in BLOCK.finditer(PAGE.read_text("utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block[1], str(PAGE), "exec"), names)
        if block[2] is not None:
            assert printed.getvalue() == block[2]
    row = OPSET["mo.softplus"]
    assert row.samples is not None
    for sample in row.samples():
        check_types(row, sample, symbolic=False)
        check_decomposition(row, sample, symbolic=sample.shapes is not None)


def test_every_field_of_a_row_is_explained() -> None:
    text = PAGE.read_text("utf-8")
    for field in fields(OpDef):
        assert f"`{field.name}`" in text, field.name

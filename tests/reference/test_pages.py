"""Every code block of the reference pages has one test; needs the pages, which are not here.

``MAXLAB_REFERENCE`` names their folder, with files such as ``graph.ops.md``.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGES = ("nn.*.md", "graph.*.md", "driver.md", "dtype.md", "engine.md", "profiler.md")
FOLDER = os.environ.get("MAXLAB_REFERENCE")
Block = tuple[str, int]


def marks(source: str) -> Iterator[Block]:
    """The blocks that the tests in ``source`` are marked with."""
    for node in ast.walk(ast.parse(source)):
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "example":
                assert isinstance(node, ast.FunctionDef)
                assert node.name.startswith("test_"), f"{node.name} is no test"
                page, ordinal = (ast.literal_eval(argument) for argument in mark.args)
                yield page, ordinal


def marked() -> Counter[Block]:
    """How many tests each block has."""
    files = sorted(HERE.glob("test_*.py"))
    return Counter(block for file in files for block in marks(file.read_text("utf-8")))


def blocks(name: str, page: str) -> list[Block]:
    """The code blocks of ``page``: each opens with the name of its language."""
    return [(name, number + 1) for number, _ in enumerate(re.findall(r"```\w+", page))]


def test_no_block_has_two_tests() -> None:
    found = marked()
    assert found
    assert [block for block, count in found.items() if count > 1] == []


def test_marks_are_read() -> None:
    source = '@example("p", 2)\n@example("p", 3)\ndef test_a(): ...\n@other\ndef test_b(): ...\n'
    assert list(marks(source)) == [("p", 2), ("p", 3)]
    assert blocks("p", "a\n```python\nx\n```\n**Example:** ```pycon\n>>> x\n```") == [
        ("p", 1),
        ("p", 2),
    ]


@pytest.mark.skipif(FOLDER is None, reason="MAXLAB_REFERENCE does not name the pages")
def test_every_block_has_a_test() -> None:
    assert FOLDER is not None
    pages = [path for pattern in PAGES for path in sorted(Path(FOLDER).glob(pattern))]
    assert pages, f"no pages in {FOLDER}"
    expected = {block for path in pages for block in blocks(path.stem, path.read_text("utf-8"))}
    found = set(marked())
    assert sorted(expected - found) == [], "blocks without a test"
    assert sorted(found - expected) == [], "tests of blocks that are not there"

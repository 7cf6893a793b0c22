"""The how-to page about making kernels faster leaves no kind of action out."""

from __future__ import annotations

from typing import get_args

from maxlab.analysis.advice.action import Kind
from tests.pages import DOCS


def test_the_page_names_every_kind_of_action() -> None:
    text = (DOCS / "how-to" / "make-a-kernel-faster.md").read_text("utf-8")
    assert all(f"`{kind}`" in text for kind in get_args(Kind))

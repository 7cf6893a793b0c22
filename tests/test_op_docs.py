"""``docs/ops/README.md`` is what the op table gives."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

from maxlab.opset import OPSET

ROOT = Path(__file__).resolve().parents[1]


def generator() -> ModuleType:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("gen_op_docs", ROOT / "scripts/gen_op_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_ops_is_up_to_date() -> None:
    made = generator()
    wanted = made.page()
    if os.environ.get("MAXLAB_WRITE_DOCS"):
        made.PAGE.write_text(wanted, "utf-8")
    assert made.PAGE.read_text("utf-8") == wanted, "run scripts/gen_op_docs.py"
    for name in OPSET:
        assert wanted.count(f"| {name.removeprefix('mo.')} |") + wanted.count(
            f"| **{name.removeprefix('mo.')}** |"
        ), name


def test_every_kind_is_told() -> None:
    told = generator().kinds()
    assert {row.kind for row in OPSET.values()} <= set(told)
    assert all(told.values())

"""The examples in docstrings run as printed: of every module that has some."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import maxlab
from maxlab.diagnostics.monitor import marks

ROOT = Path(maxlab.__file__).parent
NEEDS = {"maxlab.torch": "torch", "maxlab.pipelines.lib.tokenizer.templates": "jinja2"}
"""Packages whose examples need another one."""


def modules() -> list[str]:
    """The modules with an example, by name."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        if ">>> " in file.read_text("utf-8"):
            parts = file.relative_to(ROOT.parent).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder for what examples write, and an end to what they start."""
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(tmp_path / "monitor"))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    marks.detach()


@pytest.mark.parametrize("name", modules())
def test_the_examples_do_as_printed(name: str) -> None:
    for package, needed in NEEDS.items():
        if name.startswith(package):
            pytest.importorskip(
                needed, reason=f"{needed} not installed; scripts/test --oracle installs it"
            )
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    tests = {test.name: test for test in finder.find(module, name)}
    for word in dir(module):  # functions that are wrapped are passed over by doctest's own search
        inner = getattr(getattr(module, word), "__wrapped__", None)
        if inner is not None and getattr(inner, "__module__", "") == name:
            for test in finder.find(inner, f"{name}.{word}", globs=dict(vars(module))):
                tests.setdefault(test.name, test)
    count = sum(len(test.examples) for test in tests.values())
    assert count > 0, "its examples are not found"
    for test in tests.values():
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0

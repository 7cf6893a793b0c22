"""Cells are known by their ids: their numbers become those of other cells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from maxlab.ir import cells


class Shell:
    """What IPython says of itself, with cells that run one after another."""

    def __init__(self) -> None:
        self.history_manager = SimpleNamespace(input_hist_parsed=[""])
        self.events = SimpleNamespace(register=lambda name, call: self.heard.append(call))
        self.compile = SimpleNamespace(format_code_name=self.name)
        self.kernel = SimpleNamespace(get_parent=lambda channel: self.parent)
        self.heard: list[Any] = []
        self.parent: dict[str, Any] = {}
        self.numbers: dict[str, int] = {}

    def name(self, file: str) -> tuple[str, str] | None:
        number = self.numbers.get(file)
        return None if number is None else ("Cell", f"In[{number}]")

    def run(self, cell: str, file: str, stored: bool = True) -> None:
        for call in self.heard:
            call(SimpleNamespace(cell_id=cell, store_history=stored))
        self.parent = {"header": {"msg_id": "run"}, "metadata": {"cellId": cell}}
        if stored:
            self.numbers[file] = len(self.history_manager.input_hist_parsed)
            self.history_manager.input_hist_parsed.append(file)


def test_a_cell_is_found_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    monkeypatch.setattr(cells, "shell", lambda: shell)
    monkeypatch.setattr(cells, "_IDS", {})
    first, second = "/tmp/ipykernel_1/a.py", "/tmp/ipykernel_1/b.py"
    shell.run("import", first)
    cells.watch()  # maxlab is imported in a cell that runs already
    assert cells.cell_of(first) == "import"
    shell.run("define", second)
    shell.run("", "", stored=False)
    assert cells.execution_of(second) == 2
    assert cells.cell_of(second) == "define"
    shell.run("define", second)
    assert (cells.execution_of(second), cells.cell_of(second)) == (3, "define")
    assert cells.cell_of("model.py") == ""
    assert cells.cell_of("/tmp/ipykernel_1/unknown.py") == ""


def test_there_is_no_cell_outside_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "shell", lambda: None)
    cells.watch()
    assert cells.cell_of("/tmp/ipykernel_1/a.py") == ""
    assert cells.running_cell() == ("", "")

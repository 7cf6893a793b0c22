"""The pages of ``docs/errors``: for each code a program that fails and one that does not.

In a message of a page, ``…`` stands for text that differs from machine to machine. A page of an
error that no program can be made to raise has the section *How it comes about* instead of a failing
program, and only its form is checked.
"""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from maxlab import config
from maxlab.driver import accelerator
from maxlab.errors import MaxlabError
from maxlab.ir import source
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "errors"
PAGES = {path.stem: path for path in sorted(FOLDER.glob("ML*.md"))}
UNPROVOKED = "## How it comes about\n"
OTHERS = {
    "torch": "\nimport torch\n",
    "transformers": "\nfrom transformers import ",
    "jinja2": "\nChatTemplate(",
}
"""Packages that programs of pages need, by what a page that needs one has in it."""
FAMILIES = {
    "ML0": "Files",
    "ML1": "Element types; configurations, folders of models and tokenizers of pipelines",
    "ML2": "Shapes",
    "ML3": "Graphs, their values and their text",
    "ML4": "Devices and tensors",
    "ML5": "The C compiler and the cache of kernels; attention layers and adapters",
    "ML6": "Sessions, inputs and weights",
    "ML7": "Modules",
    "ML8": "The notebook side",
    "ML9": "Queries and overlays, and what is not in this version",
}


def codes() -> set[str]:
    """Every code that an error of maxlab is made with."""
    found: set[str] = set()
    for path in (ROOT / "maxlab").rglob("*.py"):
        if "labextension" not in path.parts:
            found |= set(re.findall(r'"(ML\d{3})"', path.read_text("utf-8")))
    return found


def run(program: str) -> MaxlabError | None:
    """What ``program`` raises; its lines are known to the error as those of ``example.py``."""
    name = "example.py"
    linecache.cache[name] = (len(program), None, program.splitlines(True), name)
    source._LOCATIONS.clear()
    scope: dict[str, Any] = {"__name__": "__main__"}
    config._config = None  # a program may set MAXLAB_* variables
    try:
        with (
            mock.patch.dict(os.environ),
            # A program may simulate devices.
            mock.patch.object(accelerator, "_backend", accelerator._backend),
        ):
            exec(compile(program, name, "exec"), scope)
    except MaxlabError as error:
        return error
    finally:
        del linecache.cache[name]
    return None


def table() -> str:
    """The table of all pages that ``docs/errors/README.md`` holds."""
    lines: list[str] = []
    family = ""
    for code, path in PAGES.items():
        if code[:3] != family:
            family = code[:3]
            lines += ["", f"## {family}xx: {FAMILIES[family]}", ""]
            lines += ["| code | what |", "| --- | --- |"]
        title = path.read_text("utf-8").partition("\n")[0].removeprefix(f"# {code}: ")
        lines.append(f"| [{code}]({code}.md) | {title} |")
    return "\n".join(lines[1:]) + "\n"


def test_every_code_has_a_page() -> None:
    assert codes() - set(PAGES) == set(), "write docs/errors/<code>.md"
    assert set(PAGES) - codes() == set(), "no error has these codes any more"


def test_the_index_lists_every_page() -> None:
    index = FOLDER / "README.md"
    written = index.read_text("utf-8")
    wanted = written.partition("## ML0xx")[0] + table()
    if os.environ.get("MAXLAB_WRITE_DOCS"):
        index.write_text(wanted, "utf-8")
    else:
        assert written == wanted, "run MAXLAB_WRITE_DOCS=1 pytest tests/test_error_pages.py"


def test_no_page_tells_those_after_it_of_an_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="transformers not installed")
    known = dict(PIPELINE_REGISTRY.architectures)
    with monkeypatch.context() as patched:
        test_page("ML179", tmp_path, patched)
    assert PIPELINE_REGISTRY.architectures == known


@pytest.mark.parametrize("code", PAGES)
def test_page(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGES[code].read_text("utf-8")
    assert re.match(rf"# {code}: .+\n\n\S", text)
    (message,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert f"[{code}]" in message
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    if UNPROVOKED in text:
        assert not programs
        assert "\n## The fix\n" in text
        return
    failing, mended = programs
    for package, sign in OTHERS.items():
        if sign in text:
            pytest.importorskip(
                package, reason=f"{package} not installed; scripts/test --oracle installs it"
            )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "_config", config.config())  # put back what programs change
    monkeypatch.setattr(PIPELINE_REGISTRY, "architectures", {})  # and what they register
    error = run(failing)
    assert error is not None, "the program of the page does not fail"
    assert error.code == code
    pattern = ".*".join(map(re.escape, message.split("…")))
    shown = f"{type(error).__name__}: {error}"
    if os.environ.get("MAXLAB_WRITE_DOCS") and not re.fullmatch(pattern, shown, re.DOTALL):
        PAGES[code].write_text(text.replace(message, shown), "utf-8")
        return
    assert re.fullmatch(pattern, shown, re.DOTALL), f"the page does not show\n{shown}"
    assert run(mended) is None

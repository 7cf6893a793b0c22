"""The pages of ``docs/errors``: for each code a program that fails and one that does not."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

from maxlab.errors import MaxlabError
from maxlab.ir import source

ROOT = Path(__file__).resolve().parents[1]
PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "errors").glob("ML*.md"))}
# The families of codes whose pages are complete.
COMPLETE = re.compile(r"ML([123]\d\d|63\d)")


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
    try:
        exec(compile(program, name, "exec"), scope)
    except MaxlabError as error:
        return error
    finally:
        del linecache.cache[name]
    return None


def test_every_code_has_a_page() -> None:
    raised = {code for code in codes() if COMPLETE.fullmatch(code)}
    assert raised - set(PAGES) == set(), "write docs/errors/<code>.md"
    assert set(PAGES) - codes() == set(), "no error has these codes any more"


@pytest.mark.parametrize("code", PAGES)
def test_page(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGES[code].read_text("utf-8")
    assert re.match(rf"# {code}: .+\n\n\S", text)
    failing, mended = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (message,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    error = run(failing)
    assert error is not None, "the program of the page does not fail"
    assert error.code == code
    assert f"{type(error).__name__}: {error}" == message, "the page shows another message"
    assert run(mended) is None

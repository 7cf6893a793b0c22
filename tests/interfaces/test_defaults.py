"""The fields of the classes of `maxlab.interfaces`, their order and defaults, against a table."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maxlab import interfaces
from maxlab.interfaces import BatchType

TABLE = Path(__file__).with_name("defaults.md")
NEW = "new"


def rows() -> dict[str, list[tuple[str, str]]]:
    """Each class of the table with its fields and their defaults, as written."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in {"class", "---"}:
            found.setdefault(cells[0], []).append((cells[1], cells[2]))
    return found


def written(parameter: inspect.Parameter) -> str:
    """The default of ``parameter`` as the table writes it."""
    default: Any = parameter.default
    if default is inspect.Parameter.empty:
        return "-"
    # Dataclasses and structs show a mark of their own instead of what makes the default.
    if "factory" in repr(default).lower() or repr(default) == "<UNSET>":
        return NEW
    return (
        f"{type(default).__name__}.{default.name}"
        if isinstance(default, BatchType)
        else (repr(default))
    )


def made_anew(kind: type, name: str) -> bool:
    """Whether a struct makes the default of the field ``name`` for each object."""
    import msgspec

    if not issubclass(kind, msgspec.Struct):
        return False
    (field,) = (one for one in msgspec.structs.fields(kind) if one.name == name)
    return field.default_factory is not msgspec.NODEFAULT


@pytest.mark.parametrize("name", rows())
def test_fields_and_defaults_are_those_of_the_table(name: str) -> None:
    kind = getattr(interfaces, name)
    found = [
        (one.name, NEW if made_anew(kind, one.name) else written(one))
        for one in inspect.signature(kind).parameters.values()
    ]
    assert found == rows()[name]


def test_the_table_is_whole() -> None:
    assert len(rows()) == 22
    assert sum(map(len, rows().values())) == 111


def test_what_is_made_anew_differs_between_objects() -> None:
    assert interfaces.RequestID() != interfaces.RequestID()
    assert interfaces.SamplingParams().seed != interfaces.SamplingParams().seed
    first, second = (
        interfaces.AudioGenerationRequest(interfaces.RequestID("a"), "m") for _ in range(2)
    )
    assert first.audio_prompt_tokens is not second.audio_prompt_tokens


_WITHOUT = """
import sys
sys.modules["msgspec"] = None
import maxlab
try:
    import maxlab.interfaces
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_without_the_extra_the_import_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("MissingPackageError maxlab.interfaces needs the package msgspec")
    assert 'fix: pip install "maxlab[llm]"' in done.stdout


def test_importing_it_brings_in_no_heavy_package() -> None:
    program = "import maxlab.interfaces, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy = {"zmq", "transformers", "tokenizers", "torch", "jinja2", "yaml", "maxlab.driver"}
    assert not heavy & set(done.stdout.split())

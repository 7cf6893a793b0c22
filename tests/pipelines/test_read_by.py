"""Every field has a reader that really reads it, or can be refused by a pipeline that does not."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from maxlab import interfaces
from maxlab.errors import UnsupportedError
from maxlab.interfaces import RequestID, SamplingParams, refuse_unread
from maxlab.pipelines import core
from tests.interfaces.samples import PARAMS, SAMPLES

PACKAGE = Path(interfaces.__file__).parents[1]
TABLE = Path(__file__).with_name("read_by.md")


def rows() -> list[tuple[str, str, str]]:
    """Class, field and reader of each row."""
    lines = TABLE.read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(a, b, c) for a, b, c in (c for c in cells if len(c) == 3) if a not in {"class", "---"}]


def kind_of(name: str) -> Any:
    """The class ``name``."""
    return getattr(interfaces, name, None) or getattr(core, name)


def names_of(kind: Any) -> list[str]:
    """The fields of a class; of a struct, the public ones."""
    if issubclass(kind, msgspec.Struct):
        return [name for name in kind.__struct_fields__ if not name.startswith("_")]
    return [field.name for field in dataclasses.fields(kind)]


def attributes(module: str, function: str) -> set[str]:
    """The attributes that a function of ``maxlab`` reads."""
    tree: Any = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    for part in function.split("."):
        (tree,) = (one for one in tree.body if getattr(one, "name", None) == part)
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("name", sorted({row[0] for row in rows()}))
def test_the_table_has_every_field(name: str) -> None:
    assert sorted(row[1] for row in rows() if row[0] == name) == sorted(names_of(kind_of(name)))


def test_the_readers_read() -> None:
    found = [row for row in rows() if row[2] != "refused"]
    assert len(found) > 10
    for _, field, reader in found:
        module, _, function = reader.partition(":")
        assert field in attributes(module, function), (field, reader)


def asked(name: str) -> Any:
    """An object of the class ``name`` with no field at its default."""
    if name == "SamplingParams":
        return dataclasses.replace(PARAMS, logits_processors=[print])
    if name == "TextContext":
        return core.TextContext(
            max_length=9,
            tokens=np.array([1]),
            json_schema="{}",
            model_name="m",
            target_endpoint="ipc://a",
        )
    if name == "TextGenerationRequest":  # a prompt or messages
        request = SAMPLES[name][1]
        return (request, dataclasses.replace(request, messages=None, prompt="x"))
    return SAMPLES[name][1]


def has_default(kind: Any, name: str) -> bool:
    """Whether a field is left out by most, and so says something where it is not."""
    if issubclass(kind, msgspec.Struct):
        (one,) = (field for field in msgspec.structs.fields(kind) if field.name == name)
        return one.default is not msgspec.NODEFAULT
    (field,) = (field for field in dataclasses.fields(kind) if field.name == name)
    return field.default is not dataclasses.MISSING


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (name, field)
        for name, field, reader in rows()
        if reader == "refused" and has_default(kind_of(name), field)
    ],
)
def test_what_nobody_reads_is_refused(name: str, field: str) -> None:
    read = set(names_of(kind_of(name))) - {field}
    objects = asked(name)
    told = []
    for one in objects if isinstance(objects, tuple) else (objects,):
        try:
            refuse_unread(one, read)
        except UnsupportedError as error:
            told.append(str(error))
    assert told
    assert all(text.startswith(f"{name}.{field} is ") for text in told)


def test_defaults_are_never_refused() -> None:
    refuse_unread(SamplingParams(), set())
    refuse_unread(interfaces.AudioGenerationRequest(RequestID(), "m"), set())

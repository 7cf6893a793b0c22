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
from maxlab.pipelines.lib import config
from maxlab.pipelines.lib.max_config import MAXConfig
from maxlab.pipelines.lib.settings import default_of, settings_of
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
    return getattr(interfaces, name, None) or getattr(core, name, None) or getattr(config, name)


def names_of(kind: Any) -> list[str]:
    """The fields of a class; of a struct, the public ones."""
    if issubclass(kind, msgspec.Struct):
        return [name for name in kind.__struct_fields__ if not name.startswith("_")]
    if issubclass(kind, MAXConfig):  # its parts, and what it inherits, have rows of their own
        inherited = names_of(kind.__base__) if dataclasses.is_dataclass(kind.__base__) else []
        return [name for name in settings_of(kind) if name not in inherited]
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
        if reader == "refused"
        and not issubclass(kind_of(name), MAXConfig)
        and has_default(kind_of(name), field)
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


ANY = (True, False, 7, 0.5, "x", "decode_only", "yarn", "rolling", "launch_server", "int8",
       "ipc:///tmp/x", ["x"], [7], {"a": 1})  # fmt: skip
"""Values, of which each setting of a configuration takes some."""


def unresolved(kind: Any) -> Any:
    """A configuration of defaults, whose model nobody looks for."""
    if not issubclass(kind, config.PipelineConfig):
        return kind()
    made = kind.__new__(kind)
    made._fill({} if kind is config.PipelineConfig else {"audio_decoder": "d"})
    return made


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (name, field)
        for name, field, reader in rows()
        if reader == "refused" and issubclass(kind_of(name), MAXConfig)
    ],
)
def test_settings_that_nobody_reads_are_refused(name: str, field: str) -> None:
    kind = kind_of(name)
    assert not settings_of(kind)[field].is_read
    made = unresolved(kind)
    default = default_of(kind, field)
    for value in ANY:
        try:
            setattr(made, field, value)
        except (ValueError, TypeError):
            continue
        if getattr(made, field) != default:
            break
    else:
        raise AssertionError("no value is another one than the default")
    read = set(made._places())
    made.refuse_unread(read)
    with pytest.raises(UnsupportedError, match=rf"^{name}\.{field} is .*ML127"):
        made.refuse_unread(read - {field})


def test_defaults_are_never_refused() -> None:
    refuse_unread(SamplingParams(), set())
    for kind in {kind_of(name) for name, _, _ in rows()}:
        if issubclass(kind, MAXConfig):
            unresolved(kind).refuse_unread({"audio_decoder"} & set(settings_of(kind)))
    refuse_unread(interfaces.AudioGenerationRequest(RequestID(), "m"), set())

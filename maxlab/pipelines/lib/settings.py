"""Kinds of settings: what values a field takes, and how they are written as text.

A field of a configuration is declared once, with `setting`. Its kind checks a value that a program
gives, reads the text of a command line, of a file or of an environment variable, and writes the
value as text again.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from maxlab.driver import DeviceSpec
from maxlab.dtype import DType
from maxlab.errors import InputError, shown
from maxlab.interfaces import fields

METADATA = "setting"
"""The key of a field's metadata under which its `Setting` lies."""


class Origin(enum.StrEnum):
    """Where the value of a setting came from."""

    default = "default"
    """The class."""
    user = "user"
    """An argument, or an assignment, of a program."""
    file = "file"
    """A configuration file."""
    flags = "command line"
    """The flags of a command."""
    environment = "environment"
    """An environment variable."""
    resolved = "resolved"
    """Chosen by ``resolve()``, by the model and the machine."""


_WRITTEN = {
    "N": "a whole number, such as 4",
    "X": "a number, such as 0.5",
    "BOOL": "true or false",
    "PATH": "a path",
    "DTYPE": "a dtype, such as float32",
    "DEVICE": "cpu, gpu or gpu:0",
}
"""Words for what stands for a value in the help of a command."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that a setting takes, and how they are written.

    Attributes:
        rule: Raises for a value that the setting may not have.
        parse: Makes a value of text; raises ValueError for text that is none.
        settle: Makes the value that is kept of one that a program gave, such as an enum's member
            of its text. Leaves what it does not know to the rule.
        write: The text that ``parse`` makes the value of.
        told: The name of a value in the help of a command: ``N``.
        one: Of a list, the kind of its elements.
        is_switch: Whether it is true or false.
        is_mapping: Whether it holds names with values.
        takes_none: Whether it may be None, which an empty text says.
    """

    rule: fields.Rule
    parse: Callable[[str], Any]
    settle: Callable[[Any], Any] = _same
    write: Callable[[Any], str] = str
    told: str = "TEXT"
    one: Kind | None = None
    is_switch: bool = False
    is_mapping: bool = False
    takes_none: bool = False

    def kept(self, field: str, value: Any) -> Any:
        """The value that ``field`` keeps of ``value``, which a program gave.

        Raises:
            InputTypeError: It is of the wrong type.
            InputError: It is out of its range.
        """
        settled = self.settle(value)
        self.rule(field, settled)
        return settled

    def read(self, field: str, text: str) -> Any:
        """The value of ``field`` that ``text`` says.

        Raises:
            InputError: ML126, the text is no such value; or the value is out of its range.
        """
        try:
            value = self.parse(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                "ML126",
                f"{field}: the text {shown(text)} is no value of it",
                why=[str(error)] if str(error) else (),
                fix=f"write {_WRITTEN.get(self.told, self.told)}",
            ) from None
        return self.kept(field, value)


def _integer_of(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value


def whole(least: int = 0, most: int = fields.INT32) -> Kind:
    """The kind of an int in [``least``, ``most``]."""

    def parse(text: str) -> int:
        if len(text) > 40:
            raise ValueError("it is longer than any number that fits")
        return int(text)

    return Kind(fields.integer(least, most), parse, _integer_of, told="N")


def number(least: float, most: float = math.inf, *, above: bool = False) -> Kind:
    """The kind of a finite number in [``least``, ``most``], or above ``least`` alone."""
    rule = fields.real(least, most, above=above)

    def settle(value: Any) -> Any:
        is_number = isinstance(value, (int, float, np.integer, np.floating))
        if isinstance(value, bool) or not is_number:
            return value
        try:
            return float(value)
        except OverflowError:  # the rule refuses it
            return value

    return Kind(rule, float, settle, repr, told="X")


_TRUTHS = {"true": True, "1": True, "yes": True, "on": True}
_TRUTHS |= {"false": False, "0": False, "no": False, "off": False}


def _truth(text: str) -> bool:
    found = _TRUTHS.get(text.strip().lower())
    if found is None:
        raise ValueError("true and false are the two values")
    return found


def switch() -> Kind:
    """The kind of True or False."""
    return Kind(
        fields.flag, _truth, write=lambda value: str(value).lower(), told="BOOL", is_switch=True
    )


def text(*, filled: bool = False) -> Kind:
    """The kind of a string; with ``filled`` one that has characters. No string has NUL."""

    def rule(field: str, value: Any) -> None:
        (fields.word if filled else fields.text)(field, value)
        if "\0" in value:
            raise fields.out_of_range(field, value, "a str without NUL")

    return Kind(rule, _same)


def words(*allowed: str) -> Kind:
    """The kind of a string that is one of ``allowed``."""
    told = " | ".join(allowed)

    def rule(field: str, value: Any) -> None:
        fields.text(field, value)
        if value not in allowed:
            raise fields.out_of_range(field, value, f"one of {', '.join(map(repr, allowed))}")

    return Kind(rule, _same, told=told)


def member(kind: type[enum.Enum]) -> Kind:
    """The kind of a member of the enum ``kind``, which its value names too, in any case."""
    by_text = {str(one.value).lower(): one for one in kind}
    told = " | ".join(str(one.value) for one in kind)

    def settle(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, kind):
            return by_text.get(value.lower(), value)
        return value

    def rule(field: str, value: Any) -> None:
        if isinstance(value, str) and not isinstance(value, kind):
            raise fields.out_of_range(field, value, f"one of {told}")
        fields.instance(kind)(field, value)

    def parse(written: str) -> Any:
        found = by_text.get(written.strip().lower())
        if found is None:
            raise ValueError(f"it is none of {told}")
        return found

    return Kind(rule, parse, settle, lambda value: str(value.value), told=told)


def dtype() -> Kind:
    """The kind of an element type, which its name stands for too."""

    def settle(value: Any) -> Any:
        if isinstance(value, str):
            return getattr(DType, value, value) if value.isidentifier() else value
        return value

    def parse(written: str) -> Any:
        found = settle(written.strip())
        if not isinstance(found, DType):
            raise ValueError("it is the name of no element type")
        return found

    return Kind(fields.instance(DType), parse, settle, lambda value: value.name, told="DTYPE")


def path() -> Kind:
    """The kind of a path, which may be given as a string."""

    def rule(field: str, value: Any) -> None:
        fields.instance(Path, name="a path")(field, value)
        if "\0" in str(value):
            raise fields.out_of_range(field, str(value), "a path without NUL")

    def parse(written: str) -> Path:
        if not written:
            raise ValueError("a path has characters")
        return Path(written)

    def settle(value: Any) -> Any:
        return Path(value) if isinstance(value, str) and value else value

    return Kind(rule, parse, settle, told="PATH")


def maybe(inner: Kind) -> Kind:
    """The kind of None, which an empty text says, or of what ``inner`` takes.

    No value of ``inner`` may have an empty text.
    """

    def parse(written: str) -> Any:
        return None if not written else inner.parse(written)

    def settle(value: Any) -> Any:
        return None if value is None else inner.settle(value)

    def write(value: Any) -> str:
        return "" if value is None else inner.write(value)

    return dataclasses.replace(
        inner,
        rule=fields.optional(inner.rule),
        parse=parse,
        settle=settle,
        write=write,
        takes_none=True,
    )


def several(inner: Kind, hint: str | None = None) -> Kind:
    """The kind of a list of what ``inner`` takes; as text, they stand with commas between them."""

    def settle(value: Any) -> Any:
        return [inner.settle(one) for one in value] if isinstance(value, (list, tuple)) else value

    def parse(written: str) -> list[Any]:
        return [inner.parse(one.strip()) for one in written.split(",")] if written else []

    def write(value: Sequence[Any]) -> str:
        return ",".join(inner.write(one) for one in value)

    rule = fields.listed(inner.rule, hint=hint)
    return Kind(rule, parse, settle, write, told=inner.told, one=inner)


def mapping() -> Kind:
    """The kind of a dict with string keys and values of JSON; as text, an object of JSON."""

    def rule(field: str, value: Any) -> None:
        fields.mapped(fields.text, fields.anything)(field, value)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            told = "values that JSON can say"
            raise fields.wrong_type(field, value, told, fix=str(error)) from None

    def parse(written: str) -> dict[str, Any]:
        found = json.loads(written)
        if not isinstance(found, dict):
            raise ValueError("it is no object of JSON")
        return found

    return Kind(rule, parse, write=json.dumps, told='{"NAME": VALUE}', is_mapping=True)


def devices() -> Kind:
    """The kind of a list of devices; as text ``cpu``, ``gpu`` or ``gpu:0,gpu:1``."""

    def one(written: str) -> DeviceSpec:
        kind, _, id = written.strip().partition(":")
        if kind not in ("cpu", "gpu"):
            raise ValueError("a device is cpu, gpu or gpu:N")
        if kind == "cpu":
            return DeviceSpec.cpu(int(id) if id else -1)
        return DeviceSpec.accelerator(int(id) if id else 0)

    def write(spec: DeviceSpec) -> str:
        is_any = spec == DeviceSpec.cpu()
        return spec.device_type if is_any else f"{spec.device_type}:{spec.id}"

    device = Kind(fields.instance(DeviceSpec), one, write=write, told="DEVICE")
    listed = several(device, hint="write [DeviceSpec.cpu()]")

    def rule(field: str, value: Any) -> None:
        listed.rule(field, value)
        if not value:
            raise fields.out_of_range(field, value, "a list with a device")
        if len({spec.device_type for spec in value}) > 1 or len(set(value)) < len(value):
            raise fields.out_of_range(field, value, "devices of one type, each once")

    return dataclasses.replace(listed, rule=rule)


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a configuration.

    Attributes:
        kind: What values it takes.
        help: What it does, in a sentence or two.
        env: The environment variable that gives its default; empty where none does.
        is_read: Whether a part of maxlab reads it. A pipeline that does not read one of the others
            either refuses a configuration that sets it.
        has_flag: Whether commands have a flag for it.
    """

    kind: Kind
    help: str
    env: str = ""
    is_read: bool = True
    has_flag: bool = True


def setting(
    kind: Kind,
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    env: str = "",
    is_read: bool = True,
    has_flag: bool = True,
    compare: bool = True,
) -> Any:
    """A field of a dataclass with its kind and its help.

    Example:
        >>> @dataclass
        ... class Config:
        ...     page: int = setting(whole(1), 128, "Tokens of a page.")
        >>> Config().page, settings_of(Config)["page"].help
        (128, 'Tokens of a page.')
    """
    about = {METADATA: Setting(kind, help, env, is_read, has_flag)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=about, compare=compare)
    return dataclasses.field(default=default, metadata=about, compare=compare)


def settings_of(kind: type) -> Mapping[str, Setting]:
    """The settings of a configuration's class, by name, in the order of the class."""
    return _settings_of(kind)


@cache
def _settings_of(kind: type) -> Mapping[str, Setting]:
    found: dict[str, Setting] = {}
    for one in dataclasses.fields(kind):
        if METADATA in one.metadata:
            found[one.name] = one.metadata[METADATA]
    return MappingProxyType(found)


def default_of(kind: type, name: str) -> Any:
    """The value that the setting ``name`` of ``kind`` has when nobody gives one."""
    (found,) = (one for one in dataclasses.fields(kind) if one.name == name)
    if found.default_factory is not dataclasses.MISSING:
        return found.default_factory()
    return found.default


__all__ = [
    "Kind",
    "Origin",
    "Setting",
    "default_of",
    "devices",
    "dtype",
    "mapping",
    "maybe",
    "member",
    "number",
    "path",
    "setting",
    "settings_of",
    "several",
    "switch",
    "text",
    "whole",
    "words",
]

"""Flags of command lines: a flag for each setting of a configuration, read and written."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from maxlab.errors import InputError, shown
from maxlab.interfaces import fields
from maxlab.pipelines.lib.settings import Kind, Setting

CONFIG_FILE = "config_file"
"""The name of the flag for a file of settings."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises, where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise InputError(
            "ML129",
            f"the command line of {self.prog} cannot be read: {message}",
            fix="write --name value, or --name=value; --help tells the flags",
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parser(settings: Mapping[str, Setting], prog: str) -> argparse.ArgumentParser:
    """A parser with a flag for each setting that has one, in their order.

    Values stay texts, and settings whose flag is not given are left out.
    """
    made = _Parser(prog=prog, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    made.add_argument(
        _flag(CONFIG_FILE),
        dest=CONFIG_FILE,
        metavar="PATH",
        help="A YAML file of settings, which other flags replace.",
    )
    for name, one in settings.items():
        if not one.has_flag:
            continue
        about = one.help.replace("%", "%%") + (f" Default: ${one.env}." if one.env else "")
        if one.kind.is_switch:
            made.add_argument(_flag(name), dest=name, nargs="?", const="true", help=about)
            # The second spelling has no line of its own in the help.
            made.add_argument(
                _flag(f"no_{name}"),
                dest=name,
                action="store_const",
                const="false",
                help=argparse.SUPPRESS,
            )
        elif one.kind.one is not None:
            made.add_argument(
                _flag(name), dest=name, action="append", metavar=one.kind.told, help=about
            )
        else:
            made.add_argument(_flag(name), dest=name, metavar=one.kind.told, help=about)
    return made


def read(
    made: argparse.ArgumentParser, arguments: Sequence[str], owner: str
) -> dict[str, str | list[str]]:
    """The texts that a command line gives to settings, by name; of a list, one for each flag.

    Args:
        made: What `parser` made.
        arguments: The words of the command line.
        owner: The name of the configuration in errors.

    Raises:
        InputTypeError: ML980, the words are no list of strings.
        InputError: ML125, a flag that there is not; ML129, anything else that cannot be read.
    """
    fields.listed(fields.text, kinds=(list, tuple))("arguments", arguments)
    found, rest = made.parse_known_args(list(arguments))
    if rest:
        word = rest[0].partition("=")[0]
        flags = [flag for action in made._actions for flag in action.option_strings]
        near = get_close_matches(word[:100], flags, 3, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "--help tells the flags"
        if word.startswith("-"):
            raise InputError("ML125", f"{owner} has no flag {shown(word)}", fix=hint)
        made.error(f"{shown(rest[0])} belongs to no flag")
    return vars(found)


def value(kind: Kind, name: str, found: str | list[str]) -> Any:
    """The value of the setting ``name`` that the texts of its flag say.

    Raises:
        InputError: ML126, ML981, they say none that the setting takes.
    """
    if kind.one is None:
        return kind.read(_flag(name), str(found))
    texts = [found] if isinstance(found, str) else found
    if len(texts) == 1 and texts[0] == "":
        return kind.kept(_flag(name), None if kind.takes_none else [])
    return kind.kept(_flag(name), [kind.one.read(_flag(name), text) for text in texts])


def write(name: str, setting: Setting, value: Any) -> list[str]:
    """The words of a command line that give ``value`` to the setting ``name``."""
    flag, kind = _flag(name), setting.kind
    if not setting.has_flag:
        return []
    if kind.is_switch:
        return [flag if value else _flag(f"no_{name}")]
    if kind.one is not None and value is not None:
        return [f"{flag}={kind.one.write(one)}" for one in value] or [f"{flag}="]
    return [f"{flag}={kind.write(value)}"]


__all__ = ["CONFIG_FILE", "parser", "read", "value", "write"]

"""YAML of configurations, read as data: no tags, no aliases, no duplicates, little depth.

Scalars keep their text, which the kind of a setting reads: ``off`` is a mode of profiling where a
mode is asked for, and false where a truth is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from maxlab.errors import DocumentError, shown
from maxlab.interfaces import fields
from maxlab.interfaces.needing import needed_by
from maxlab.pipelines.lib.settings import Kind

MOST_BYTES = 1 << 20
"""The largest file of a configuration."""
MOST_DEPTH = 16
"""The most lists and mappings inside of each other."""
_BREAKS = frozenset("\r\x85\u2028\u2029")
_NULLS = ("", "~", "null", "Null", "NULL")


class Plain(str):
    """A scalar without quotes, which may stand for None, a truth or a number."""

    __slots__ = ()


def _yaml() -> Any:
    with needed_by("a configuration in YAML", "pyyaml"):
        import yaml
    return yaml


def _wrong(where: str, what: str, line: int | None = None, fix: str | None = None) -> DocumentError:
    at = "" if line is None else f", line {line + 1}"
    return DocumentError("ML128", f"{where}{at}: {what}", fix=fix)


def twice(name: str, where: str) -> DocumentError:
    """The error for a setting that ``where`` has in two places."""
    return _wrong(where, f"{shown(name)} is set twice", fix="leave one of the two out")


def _only_data(yaml: Any, text: str, where: str) -> None:
    """Raises for anything but one document of plain scalars, lists and mappings."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _wrong(where, "a configuration is one document, and here is another", line)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _wrong(where, "anchors and aliases are refused", line, "write the value out")
        if getattr(event, "tag", None):
            told = f"the tag {shown(event.tag)} is refused: a configuration is data only"
            raise _wrong(where, told, line, "leave the tag out")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MOST_DEPTH:
                raise _wrong(where, f"it is more than {MOST_DEPTH} levels deep", line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1


def _data(yaml: Any, node: Any, where: str) -> Any:
    """The lists, dicts and texts of a node."""
    if isinstance(node, yaml.ScalarNode):
        return Plain(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_data(yaml, one, where) for one in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _wrong(where, "a name is a text", key.start_mark.line)
        if key.value in found:
            raise _wrong(where, f"{shown(key.value)} is set twice", key.start_mark.line)
        found[key.value] = _data(yaml, value, where)
    return found


def load(text: str, where: str) -> dict[str, Any]:
    """The names and values of a YAML text; scalars are texts, `Plain` where they have no quotes.

    Args:
        text: The text; an empty one has no names.
        where: What it is called in errors.

    Raises:
        DocumentError: ML128, it is no YAML, or more than data.
        MissingPackageError: ML979, pyyaml is not installed.
    """
    yaml = _yaml()
    fields.text("text", text)
    try:
        _only_data(yaml, text, where)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        told = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is no YAML"
        raise _wrong(where, str(told), None if mark is None else mark.line) from None
    if node is None:
        return {}
    found = _data(yaml, node, where)
    if isinstance(found, Plain) and found in _NULLS:
        return {}
    return section(found, "", where)


def section(found: Any, name: str, where: str) -> dict[str, Any]:
    """The names of a section.

    Raises:
        DocumentError: ML128, it has no names.
    """
    if not isinstance(found, dict):
        told = f"{shown(name)} is a section" if name else "a configuration names settings"
        raise _wrong(where, f"{told}, and here is {shown(found)}", fix="write NAME: VALUE lines")
    return found


def _scalar(found: str) -> Any:
    """The value that a scalar of a mapping's setting stands for, as JSON has it."""
    if not isinstance(found, Plain):
        return found
    if found in _NULLS:
        return None
    try:
        value = json.loads(found)
    except (ValueError, RecursionError):
        return str(found)
    return value if isinstance(value, (bool, int, float)) else str(found)


def _plain_data(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _plain_data(one) for name, one in found.items()}
    if isinstance(found, list):
        return [_plain_data(one) for one in found]
    return _scalar(found)


def value(kind: Kind, field: str, found: Any) -> Any:
    """The value of ``field``, of this kind, that a document has.

    Raises:
        InputError: ML126, ML981, it is no value that the setting takes.
        InputTypeError: ML980, a list or a mapping stands where a setting takes none.
    """
    if isinstance(found, Plain) and found in _NULLS:
        return kind.kept(field, None)
    if kind.is_mapping:
        return kind.kept(field, _plain_data(found))
    if isinstance(found, str):
        return kind.read(field, str(found))
    if isinstance(found, list) and kind.one is not None:
        one = kind.one
        texts = [item if isinstance(item, str) else None for item in found]
        if None in texts:
            raise fields.wrong_type(field, found, f"a list of {kind.told}")
        return kind.kept(
            field, [one.read(f"{field}[{n}]", str(text)) for n, text in enumerate(texts)]
        )
    raise fields.wrong_type(field, found, kind.told)


def plain(kind: Kind, value: Any) -> Any:
    """The data of a document that `value` reads ``value`` from."""
    if value is None or kind.is_switch or kind.is_mapping:
        return value
    if kind.one is not None:
        return [kind.one.write(one) for one in value]
    return value if isinstance(value, (int, float)) else kind.write(value)


def dump(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """YAML of sections with their settings, in their order."""
    if not sections:
        return ""
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc,name-defined,unused-ignore]
        """Writes texts so that they are read again as they are."""

    def text(dumper: Any, value: str) -> Any:
        # Between other quotes these characters are line breaks, and read as a space.
        style = '"' if _BREAKS & set(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(dict(sections), Dumper=Dumper, sort_keys=False, allow_unicode=True))


__all__ = ["MOST_BYTES", "Plain", "dump", "load", "plain", "section", "twice", "value"]

"""The text of a user's kernel, with the names of the kernel that is generated around it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from maxlab.dtype import DType
from maxlab.opset.declared import Parameter, ParameterRule
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.notes import call_at, read_note, remembered

if TYPE_CHECKING:
    from maxlab.opset.custom import Bound

_TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?:\.|->)\s*(?P<field>[A-Za-z_]\w*)
  | (?P<name>[A-Za-z_]\w*)(?:\.(?P<member>\d+|size|rank)\b)?
    """,
    re.VERBOSE | re.DOTALL,
)
_TAKEN = re.compile(r"[sxyt]\d+|b|d|lo|hi|ctx|items|fault|KERNEL")
"""Names of the text around a body, which the names in it must not meet."""


class Translator:
    """Writes a body with the names that its kernel has."""

    def __init__(self, at: Site, bound: Bound) -> None:
        self.at, self.bound = at, bound
        declared = bound.declared
        self.buffers: dict[str, Buffer] = {}
        for argument, buffer in zip(declared.operands, at.operands, strict=True):
            self.buffers[argument.name] = buffer
        changed = [a for a in declared.operands if a.inout]
        self.written = [a.name for a in (*declared.results, *changed)]
        for argument, buffer in zip(declared.results, at.results, strict=True):
            self.buffers[argument.name] = buffer
        self.computed = {b.dtype: b.compute for b in self.buffers.values()}
        self.words: dict[str, str] = {}
        self.line = declared.bodies[at.target].line
        for name, value in bound.parameters.items():
            if not isinstance(value, DType):
                self._value(declared.parameters[name], value)

    def _value(self, rule: ParameterRule, value: Parameter) -> None:
        if isinstance(value, str) and rule.choices:
            for number, choice in enumerate(rule.choices):
                self.words[f"{rule.name}_{choice}"] = str(number)
            self.words[rule.name] = str(rule.choices.index(value))
        elif isinstance(value, str):
            plain = "".join(f"\\{byte:03o}" for byte in value.encode())
            self.words[rule.name] = f'"{plain}"'
        elif isinstance(value, int):
            text = self.at.literal(value, DType.int64 if abs(value) >= 2**31 else DType.int32)
            self.words[rule.name] = "1" if value is True else "0" if value is False else text

    def translate(self, text: str) -> str:
        """``text`` with its names replaced; its lines stay lines."""
        out: list[str] = []
        start = 0
        while (found := _TOKEN.search(text, start)) is not None:
            out.append(text[start : found.start()])
            start = found.end()
            name = found["name"]
            if found["field"] is not None:  # of a struct: threadIdx.x
                name = found["field"]
                head = found[0].removesuffix(name)
                out.append(f"{head}u_{name}" if _TAKEN.fullmatch(name) else found[0])
            elif name is None:
                out.append(found[0])
            elif name in ("load", "store") and (call := call_at(text, start)) is not None:
                arguments, start = call
                out.append(self._access(name, arguments))
            elif name in ("MX_LOG", "MX_ASSERT") and (call := call_at(text, start)) is not None:
                line = self.line + text.count("\n", 0, found.start())
                whole = text[start : call[1]]
                arguments, start = call
                out.append(self._note(name, arguments, line) + "\n" * whole.count("\n"))
            else:
                out.append(self._word(name, found["member"]))
        return "".join([*out, text[start:]])

    def _note(self, word: str, arguments: list[str], line: int) -> str:
        """What a message or an assertion becomes; nothing where it is not asked for."""
        declared = self.bound.declared
        made = read_note(word, arguments, declared.name, f"{declared.file}:{line}")
        assert not isinstance(made, str), made  # it was read before
        note, values = made
        asserts = self.at.assert_level
        if note.kind == "assert" and asserts not in ("warn", "all"):
            return "(void)0"
        if note.kind == "log" and note.level < self.at.log_level:
            return "(void)0"
        translated = [self.translate(value) for value in values]
        if note.kind == "log":
            return self.at.log(
                remembered(note), "i", list(zip(note.kinds, translated, strict=True))
            )
        number = remembered(note)
        found = self.at.log(number, "i", []) if asserts == "warn" else self.at.asserted(number, "i")
        return f"do {{ if (!({translated[0]})) {found}; }} while (0)"

    def _word(self, name: str, member: str | None) -> str:
        tail = f".{member}" if member is not None else ""
        if name in self.buffers:
            if member is not None:
                return self.at.size(self.bound.poly(f"{name}.{member}"))
            return self.buffers[name].name
        if name in self.bound.dims:
            return self.at.size(self.bound.dims[name]) + tail
        if name in self.words:
            return self.words[name] + tail
        if name in self.bound.dtypes:
            return self._type(self.bound.dtypes[name]) + tail
        if name in ("shared", "scratch"):
            return (self.at.shared if name == "shared" else self.at.scratch) + tail
        head, _, last = name.rpartition("_")
        if head.startswith("mx_") and last in self.bound.dtypes:
            return f"{head}_{self._type(self.bound.dtypes[last])}{tail}"
        return f"u_{name}{tail}" if _TAKEN.fullmatch(name) else name + tail

    def _type(self, dtype: DType) -> str:
        """The type in which elements of ``dtype`` are computed."""
        found = self.computed.get(dtype)
        if found is not None:
            return found
        if dtype is DType.bool:
            return "i32"
        return "f32" if dtype.is_float() and dtype.size_in_bytes < 4 else dtype.short

    def _access(self, word: str, arguments: list[str]) -> str:
        name = arguments[0].strip()
        buffer = self.buffers.get(name)
        known = buffer is not None and (word == "load" or name in self.written)
        if buffer is None or not known or len(arguments) != (2 if word == "load" else 3):
            return f"{word}({', '.join(map(self.translate, arguments))})"  # the compiler refuses it
        index = self.translate(arguments[1].strip(" "))
        if word == "load":
            return buffer.load(index)
        value = self.translate(arguments[2].strip(" "))
        if buffer.dtype is DType.bool:
            value = f"({value}) != 0"
        return buffer.store(index, value).removesuffix(";")


__all__ = ["Translator"]

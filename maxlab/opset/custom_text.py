"""The text of a user's kernel, with the names of the kernel that is generated around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from maxlab.dtype import DType
from maxlab.opset.declared import Argument, Parameter, ParameterRule
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.notes import call_at, read_note, remembered

if TYPE_CHECKING:
    from maxlab.opset.custom_binding import Bound

_TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?:\.|->)\s*(?P<field>[A-Za-z_]\w*)
  | (?P<name>[A-Za-z_]\w*)(?:\.(?P<member>\d+|size|rank)\b)?
    """,
    re.VERBOSE | re.DOTALL,
)
_TAKEN = re.compile(r"[sxytgho]\d+|b|d|lo|hi|ctx|items|fault|KERNEL")
"""Names of the text around a body, which the names in it must not meet."""


ALONE = "// @alone"
"""The first line of a kernel whose names may be those of another one: it is compiled by itself."""
NOTHING, SAME = 4, 5
"""The values that a kernel returns that set a handle to nothing, or got one handle for two
operands.
"""


class Handle(NamedTuple):
    """An operand or a result that is a handle: the pointer to what it holds, and its slot."""

    name: str
    argument: Argument
    slot: str


def came_from(file: str, line: int, text: str) -> str:
    """``text``, marked as what a user wrote at ``line`` of ``file``."""
    shown = "".join(c if c.isprintable() else "?" for c in file)
    return f"// @from {shown}:{line}\n{text}\n// @from"


def plain(text: str) -> str:
    """``text``, declarations of a user, with the names that bodies know them by."""

    def renamed(found: re.Match[str]) -> str:
        name = found["field"] or found["name"]
        if name is None or not _TAKEN.fullmatch(name):
            return found[0]
        at = found.start("field" if found["field"] else "name") - found.start()
        return f"{found[0][:at]}u_{found[0][at:]}"

    return _TOKEN.sub(renamed, text)


class Translator:
    """Writes a body with the names that its kernel has."""

    def __init__(self, at: Site, bound: Bound) -> None:
        self.at, self.bound = at, bound
        declared = bound.declared
        self.buffers: dict[str, Buffer] = {}
        self.taken: list[Handle] = []
        self.made: list[Handle] = []
        for operand, buffer in zip(declared.operands, at.operands, strict=True):
            if operand.opaque:
                self.taken.append(Handle(f"h{len(self.taken)}", operand, buffer.name))
            else:
                self.buffers[operand.name] = buffer
        changed = [a for a in declared.operands if a.inout]
        self.written = [a.name for a in (*declared.results, *changed)]
        for result, buffer in zip(declared.results, at.results, strict=True):
            if result.opaque:
                self.made.append(Handle(f"g{len(self.made)}", result, buffer.name))
            else:
                self.buffers[result.name] = buffer
        self.handles = {h.argument.name: h.name for h in (*self.taken, *self.made)}
        self.computed = {b.dtype: b.compute for b in self.buffers.values()}
        self.words: dict[str, str] = {}
        self.line = declared.bodies[at.target].line
        for name, value in bound.parameters.items():
            if not isinstance(value, DType):
                self._value(declared.parameters[name], value)

    # ------------------------------------------------------------ handles
    def ahead(self) -> str:
        """The text in front of the function: the types of handles, and who lets go of them."""
        declared = self.bound.declared
        if not self.handles:
            return ""
        folder = Path(declared.file).parent
        own = Path(declared.file).name
        parts = [ALONE]
        for each in declared.opaques:
            file = declared.file if each.file == own else str(folder / each.file)
            parts.append(came_from(file, each.line, plain(each.text)))
        drops = {each.name: each.drop for each in declared.opaques}
        parts += [
            f"static void mx_drop_{name}(void *p) {{ {drops[name]}(({name} *)p); }}"
            for name in dict.fromkeys(h.argument.element for h in self.made)
        ]
        return "\n".join(parts)

    def before(self) -> str:
        """The text in front of the loop over items: pointers to the contents of handles."""
        lines = []
        for n, handle in enumerate(self.taken):
            const = "" if handle.argument.inout else "const "
            kind = f"{const}{handle.argument.element} *"
            lines.append(f"mx_object *const o{n} = (mx_object *){handle.slot}[0];")
            lines.append(f"{kind}const {handle.name} = ({kind})o{n}->self;")
        for n, m in self._pairs():
            lines.append(
                f"if (o{n} == o{m}) {{ ctx->err[0] = {n}; ctx->err[1] = {m}; return {SAME}; }}"
            )
        lines += [f"{h.argument.element} *{h.name} = 0;" for h in self.made]
        return "\n".join(lines)

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of operands of which the first is changed, so that they must be two handles."""
        for n, one in enumerate(self.taken):
            for m, other in enumerate(self.taken):
                same = one.argument.element == other.argument.element
                if n != m and one.argument.inout and same and (n < m or not other.argument.inout):
                    yield n, m

    def after(self) -> str:
        """The text behind the loop: objects for all that was made, or the one there is already."""
        lines, first = [], len(self.taken)
        for n, handle in enumerate(self.made):
            made = f"mx_make(ctx, {handle.name}, mx_drop_{handle.argument.element})"
            known = [(h, m) for m, h in enumerate(self.taken)]
            known += [(h, first + m) for m, h in enumerate(self.made[:n])]
            for other, number in known:
                if other.argument.element == handle.argument.element:
                    made = f"{handle.name} == {other.name} ? o{number} : {made}"
            lines.append(f"mx_object *const o{first + n} = {handle.name} ? {made} : 0;")
        for n, handle in enumerate(self.made):
            lines.append(f"if (!o{first + n}) {{ ctx->err[0] = {n}; return {NOTHING}; }}")
            lines.append(f"{handle.slot}[0] = (u64)o{first + n};")
        return "\n".join(lines)

    # ------------------------------------------------------------ text
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
        """The text of a message or an assertion; empty where it is not asked for."""
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
        if name in self.handles:
            return self.handles[name] + tail
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


__all__ = ["ALONE", "NOTHING", "SAME", "Translator", "came_from", "plain"]

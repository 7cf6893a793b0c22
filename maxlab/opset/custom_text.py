"""The text of a kernel of a library, with the names of the kernel that is generated around it.

While a text is changed, each of its lines has a mark in front that says which line of the file it
is: a character of ``_MARKS`` on. In the end the marks become comments, ``// @from FILE:LINE``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from maxlab.dtype import DType
from maxlab.opset.conditions import chosen_lines, chosen_words
from maxlab.opset.declarations import DTYPES, Argument, Body, Parameter, ParameterRule
from maxlab.opset.faults import NOTHING, SAME
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.macros import Macro
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


_CALLS = ("load", "store", "loaded", "index", "refuse", "along")
_STATEMENTS = ("index", "refuse")
_LEAST = {"index": 3, "refuse": 2, "along": 3}
_MOST = {"index": 3, "refuse": 2, "along": 5}
"""How many arguments statements have that stand for several."""
ALONE = "// @alone"
"""The first line of a kernel whose names may be those of another one: it is compiled by itself."""


_MARKS = 0xF0000
_MARK = re.compile(f"[{chr(_MARKS)}-{chr(_MARKS + 0xFFFD)}]")
_PASTED = re.compile(r"\s*##\s*")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Handle(NamedTuple):
    """An operand or a result that is a handle: the pointer to what it holds, and its slot."""

    name: str
    argument: Argument
    slot: str


def came_from(file: str, line: int, text: str) -> str:
    """``text``, marked as what stands at ``line`` of ``file``."""
    return f"// @from {_shown(file)}:{line}\n{text}\n// @from"


def _shown(file: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in file)


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
    """Writes bodies with the names that their kernels have.

    Args:
        at: The op, and whom it is written for.
        bound: Its declaration, bound to its types.
        own: Whether the text is maxlab's own, which may use the names of the text around it.
    """

    def __init__(self, at: Site, bound: Bound, own: bool = False) -> None:
        self.at, self.bound, self.own = at, bound, own
        declared = bound.declared
        self.buffers: dict[str, Buffer] = {}
        self.taken: list[Handle] = []
        self.made: list[Handle] = []
        for operand, buffer in zip(declared.operands, at.operands, strict=not own):
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
        for memory in declared.temporaries:
            if bound.holds(memory.condition):
                dtype = bound.dtypes.get(memory.element) or DTYPES[memory.element]
                self.buffers[memory.name] = at.temporary(dtype, bound.poly(memory.count))
                self.written.append(memory.name)
        self.handles = {h.argument.name: h.name for h in (*self.taken, *self.made)}
        self.computed = {b.dtype: b.compute for b in self.buffers.values()}
        self.stored = {b.dtype: b.stored for b in self.buffers.values()}
        self._places: dict[tuple[str, int], int] = {}
        self.macros = {macro.name: macro for macro in declared.macros}
        self.texts: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self._learn()

    def _learn(self) -> None:
        """Note what parameters are in the text."""
        self.words = {}
        for name, value in self.bound.parameters.items():
            if not isinstance(value, DType):
                self._value(self.bound.declared.parameters[name], value)

    def bound_to(self, bound: Bound) -> Translator:
        """The same, for other parameters of the op."""
        made = copy.copy(self)
        made.bound = bound
        made._learn()
        return made

    # ------------------------------------------------------------ bodies
    def body(self, body: Body) -> tuple[str, str]:
        """The statements of ``body`` that run for each item, and those in front of the loop."""
        with self.bound.deciding():
            text, before = self._lines(body.line, body.text), self._lines(*body.before)
        words = set(_WORD.findall(text)) | set(_WORD.findall(before))
        sizes = "\n".join(
            f"const i64 {name} = {self.at.size(poly)};"
            for name, poly in self.bound.sizes.items()
            if name in words
        )
        return text, "\n".join(part for part in (sizes, before) if part)

    def _lines(self, first: int, text: str) -> str:
        if not text.strip():
            return ""
        file = self.bound.declared.file
        marked = self._marked(chosen_lines(text, self.bound.env), file, first)
        return self._placed(self.translate(marked))

    def _marked(self, lines: Iterable[tuple[int, str]], file: str, first: int) -> str:
        """``lines``, of which number 0 is the line ``first`` of ``file``, with their marks."""
        made = []
        for number, line in lines:
            place = self._places.setdefault((file, first + number), len(self._places))
            made.append(chr(_MARKS + place) + line)
        return "\n".join(made)

    def _placed(self, text: str) -> str:
        """``text`` with comments in place of its marks: wherever a line does not follow the one
        before it in its file."""
        places = list(self._places)
        made: list[str] = []
        expected, last = ("", 0), ("", 0)
        for line in text.split("\n"):
            found = _MARK.search(line)
            last = places[ord(found[0]) - _MARKS] if found is not None else last
            if last != expected:
                made.append(f"// @from {_shown(last[0])}:{last[1]}")
            made.append(_MARK.sub("", line))
            expected = last[0], last[1] + 1
        return "\n".join([*made, "// @from"])

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
        elif isinstance(value, tuple):
            self.words[f"{rule.name}.size"] = str(len(value))
            for number, each in enumerate(value):
                dtype = DType.int64 if abs(each) >= 2**31 else DType.int32
                self.words[f"{rule.name}.{number}"] = self.at.literal(each, dtype)
        elif isinstance(value, float) or rule.kind == "float":
            assert isinstance(value, (int, float))
            kinds = [b.dtype for b in (*self.at.results, *self.at.operands) if b.dtype.is_float()]
            self.words[rule.name] = self.at.literal(value, (*kinds, DType.float64)[0])
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
                out.append(f"{head}u_{name}" if self._met(name) else found[0])
            elif name is None:
                out.append(found[0])
            elif name in _CALLS and (call := call_at(text, start)) is not None:
                given, end = call
                made = self._called(name, given)
                if made is None:
                    made, end = self._word(name, found["member"]), start
                out.append(made)
                start = self._behind(text, end, made) if name in _STATEMENTS else end
            elif name in self.macros and found["member"] is None:
                macro, arguments = self.macros[name], None
                if macro.arguments is not None:
                    arguments, start = call_at(text, start) or (None, start)
                line = text.rfind("\n", 0, found.start()) + 1
                made = self._expanded(macro, arguments, _MARK.sub("", text[line : found.start()]))
                out.append(made)
                start = start if macro.words else self._behind(text, start, made)
            elif name in self.texts:
                out.append(self.texts[name])
                start = self._behind(text, start, self.texts[name])
            elif name in ("MX_LOG", "MX_ASSERT") and (call := call_at(text, start)) is not None:
                place = self._place_of(text, found.start())
                whole = text[start : call[1]]
                arguments, start = call
                kept = "".join(f"\n{mark}" for mark in _MARK.findall(whole))
                out.append(self._note(name, arguments, place) + kept)
            else:
                out.append(self._word(name, found["member"]))
        return "".join([*out, text[start:]])

    def _met(self, name: str) -> bool:
        """Whether ``name`` is one of the text around, which a user's name must not meet."""
        return not self.own and _TAKEN.fullmatch(name) is not None

    def _place_of(self, text: str, at: int) -> str:
        """File and line of what stands at ``at`` of ``text``."""
        marks = _MARK.findall(text, 0, at)
        file, line = list(self._places)[ord(marks[-1]) - _MARKS]
        return f"{file}:{line}"

    @staticmethod
    def _behind(text: str, end: int, made: str) -> int:
        """Where ``text`` goes on behind a statement, which has its own semicolon."""
        whole = made.rstrip().endswith((";", "}"))
        return end + 1 if whole and text[end : end + 1] == ";" else end

    def _expanded(self, macro: Macro, arguments: list[str] | None, indent: str) -> str:
        """The text of the macro with these arguments, its lines as far right as ``indent``."""
        env = self.bound.env
        if macro.words:
            text = chosen_words(macro.text, env)
        else:
            text = self._marked(chosen_lines(macro.text, env), macro.file, macro.line)
            text = text.replace("\n", "\n" + (indent if not indent.strip() else ""))
        names = macro.arguments or ()
        if not names and arguments is not None and not "".join(arguments).strip():
            arguments = []
        if len(arguments or ()) != len(names):
            return f"{macro.name}({', '.join(arguments or ())})"  # the compiler refuses it
        given = dict(zip(names, arguments or (), strict=True))
        given = {name: value.strip() for name, value in given.items()}
        if given:
            text = _TOKEN.sub(lambda m: self._given(m, given), text)
        return self.translate(_PASTED.sub("", text))

    @staticmethod
    def _given(found: re.Match[str], given: Mapping[str, str]) -> str:
        name = found["name"]
        if name is None or name not in given:
            return found[0]
        return given[name] + found[0].removeprefix(name)

    def _note(self, word: str, arguments: list[str], place: str) -> str:
        """The code of a message or an assertion; it does nothing where that is not asked for."""
        declared = self.bound.declared
        made = read_note(word, [_MARK.sub("", a) for a in arguments], declared.name, place)
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
        if f"{name}{tail}" in self.words:
            return self.words[f"{name}{tail}"]
        if name in self.words:
            return self.words[name] + tail
        if name in self.bound.dtypes:
            return self._type(self.bound.dtypes[name]) + tail
        if name in ("shared", "scratch"):
            return (self.at.shared if name == "shared" else self.at.scratch) + tail
        head, _, last = name.rpartition("_")
        if head.startswith("mx_") and last in self.bound.dtypes:
            return f"{head}_{self._type(self.bound.dtypes[last])}{tail}"
        if head.startswith("mx_") and last in self.macros and self.macros[last].arguments is None:
            return f"{head}_{self._expanded(self.macros[last], None, '')}{tail}"
        if head == "stored" and last in self.bound.dtypes:
            return self._stored_type(self.bound.dtypes[last]) + tail
        return f"u_{name}{tail}" if self._met(name) else name + tail

    def _type(self, dtype: DType) -> str:
        """The type in which elements of ``dtype`` are computed."""
        found = self.computed.get(dtype)
        if found is not None:
            return found
        if dtype is DType.bool:
            return "i32"
        return "f32" if dtype.is_float() and dtype.size_in_bytes < 4 else dtype.short

    def _stored_type(self, dtype: DType) -> str:
        """The type of elements of ``dtype`` in memory."""
        if dtype in self.stored:
            return self.stored[dtype]
        halves = {DType.bool: "u8", DType.float16: "u16", DType.bfloat16: "u16"}
        return halves.get(dtype) or self._type(dtype)

    def _called(self, word: str, arguments: list[str]) -> str | None:
        """The code of a call of one of ``_CALLS``; None when it is no such call."""
        if word in ("load", "store", "loaded"):
            return self._access(word, arguments)
        if not (_LEAST[word] <= len(arguments) <= _MOST[word]):
            return None
        made = [self.translate(argument.strip(" ")) for argument in arguments]
        plain = [_MARK.sub("", argument).strip() for argument in made]
        if word == "index":
            return self.at.wrap(plain[0], made[1], made[2])
        if word == "refuse":
            return self.at.fault(*made)
        strip = int(plain[3]) if len(plain) > 3 else 1 << 20
        before = f"{plain[4]} " if len(plain) > 4 else ""
        return self.at.along(plain[0], made[1], made[2], strip=strip, before=before)

    def _access(self, word: str, arguments: list[str]) -> str:
        name = _MARK.sub("", arguments[0]).strip()
        buffer = self.buffers.get(name)
        known = buffer is not None and (word != "store" or name in self.written)
        if buffer is None or not known or len(arguments) != (3 if word == "store" else 2):
            return f"{word}({', '.join(map(self.translate, arguments))})"  # the compiler refuses it
        index = self.translate(arguments[1].strip(" "))
        if word == "load":
            return buffer.load(index)
        if word == "loaded":
            return buffer.load("@").replace(f"{buffer.name}[@]", index)
        value = self.translate(arguments[2].strip(" "))
        if buffer.dtype is DType.bool and not self.own:  # own kernels compute 0 or 1
            value = f"({value}) != 0"
        return buffer.store(index, value).removesuffix(";")


__all__ = ["ALONE", "Translator", "came_from", "plain"]

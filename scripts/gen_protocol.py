#!/usr/bin/env python3
"""Writes the TypeScript types and readers of the front end from ``maxlab/lab/protocol``.

    scripts/gen_protocol.py            write the files of extension/src/proto that are generated
    scripts/gen_protocol.py --check    say whether they are as they would be written

The sources are read, not imported: each becomes one file of TypeScript. A class becomes a reader,
made of those in ``extension/src/proto/shape.ts``, and an interface of the values that the reader
lets pass, so that each field is said once; an assignment of types becomes a type alias and its
reader. The texts below either are comments.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "extension" / "src" / "proto"
PROTOCOL = "maxlab/lab/protocol"
SOURCES = (
    f"{PROTOCOL}/document.py",
    f"{PROTOCOL}/difference.py",
    f"{PROTOCOL}/messages.py",
    f"{PROTOCOL}/dashboard.py",
    f"{PROTOCOL}/sampling.py",
    f"{PROTOCOL}/generation.py",
    f"{PROTOCOL}/board.py",
    f"{PROTOCOL}/live.py",
    f"{PROTOCOL}/editor.py",
    f"{PROTOCOL}/hints.py",
    "maxlab/analysis/told.py",
    f"{PROTOCOL}/costs.py",
    f"{PROTOCOL}/checks.py",
    f"{PROTOCOL}/changes.py",
    f"{PROTOCOL}/code.py",
    f"{PROTOCOL}/files.py",
    f"{PROTOCOL}/questions.py",
    f"{PROTOCOL}/query.py",
)
"""What is declared where, each after what it refers to."""

WIDTH = 100

TYPES = {"str": "string", "int": "number", "float": "number", "bool": "boolean"}
SHAPES = {
    "str": "isText",
    "int": "isWhole",
    "float": "isNumber",
    "bool": "isFlag",
    "object": "isAnything",
}
KINDS = {"str": "text", "int": "number", "float": "number", "bool": "flag"}


@dataclass
class Module:
    """One source, and what was made of it."""

    path: str
    tree: ast.Module
    parts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """What its TypeScript exports."""

    @property
    def stem(self) -> str:
        """Its name in TypeScript."""
        return Path(self.path).stem

    def fail(self, node: ast.AST, what: str) -> SystemExit:
        """To raise where the source says what has no TypeScript."""
        return SystemExit(f"{self.path}:{getattr(node, 'lineno', 0)}: {what}")


class Writer:
    """Turns declarations into TypeScript, one module after the other."""

    def __init__(self) -> None:
        self._classes: dict[str, ast.ClassDef] = {}
        self._aliases: dict[str, ast.expr] = {}
        self._home: dict[str, Module] = {}
        self._module = Module("", ast.Module([], []))

    def write(self, module: Module) -> None:
        """Fill in the ``parts`` of ``module``."""
        self._module = module
        questions: list[tuple[str, ast.expr, ast.expr]] = []
        for node, text in with_texts(module.tree.body):
            match node:
                case ast.ClassDef(bases=[ast.Name(id=base), *_]) if (
                    base == "TypedDict" or base in self._classes
                ):
                    self._classes[node.name] = node
                    self._add(f"is{node.name}", self._record(node))
                    self._add(f"I{node.name}", self._interface(node))
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_type(value):
                    self._aliases[name] = value
                    self._add(name, self._alias(name, value, text))
                    shape = f"export const is{name}: Shape<{name}> = {self.shape(value)};"
                    self._add(f"is{name}", shape)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                    self._add(name, self._constant(name, value, text))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)):
                    self._add(name, self._constant(name, value, text))
                case ast.AnnAssign(
                    target=ast.Name(id=name),
                    annotation=note,
                    value=(ast.List() | ast.Dict()) as value,
                ):
                    self._add(name, self._table(name, note, value, text))
                case ast.AnnAssign(
                    annotation=ast.Subscript(
                        value=ast.Name(id="Question"), slice=ast.Tuple(elts=[args, answer])
                    ),
                    value=ast.Call(args=[ast.Constant(value=str(what))]),
                ):
                    questions.append((what, args, answer))
                case _:
                    pass
        if questions:
            self._add("IQuestions", self._questions(questions))
            self._add("ANSWERS", self._answers(questions))

    def _add(self, name: str, text: str) -> None:
        self._module.parts.append(text)
        self._module.names.append(name)
        self._home[name] = self._module

    # ------------------------------------------------------------ types
    def type(self, node: ast.expr) -> str:
        """The TypeScript of an annotation."""
        match node:
            case ast.Constant(value=None):
                return "null"
            case ast.Constant(value=str(text)):
                return f"'{text}'"
            case ast.Constant(value=int(number)):
                return str(number)
            case ast.Name(id="object"):
                return "unknown"
            case ast.Name(id=name) if name in TYPES:
                return TYPES[name]
            case ast.Name(id=name) if name in self._classes:
                return f"I{name}"
            case ast.Name(id=name) if name in self._aliases:
                return name
            case ast.BinOp(op=ast.BitOr()):
                return " | ".join(dict.fromkeys(self.type(part) for part in members(node)))
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                made = [self.type(part) for part in arguments(inner)]
                match name:
                    case "list":
                        return f"({made[0]})[]" if " | " in made[0] else f"{made[0]}[]"
                    case "dict":
                        return f"Record<{', '.join(made)}>"
                    case "tuple":
                        return f"[{', '.join(made)}]"
                    case "Literal":
                        return " | ".join(made)
                    case "NotRequired":
                        return made[0]
                    case _:
                        pass
            case _:
                pass
        raise self._module.fail(node, f"no TypeScript for {ast.unparse(node)}")

    def _interface(self, node: ast.ClassDef) -> str:
        if not self._all_fields(node):
            return f"export type I{node.name} = Record<string, never>;"
        return f"export interface I{node.name} extends Told<typeof is{node.name}> {{}}"

    def _alias(self, name: str, value: ast.expr, text: str) -> str:
        made = f"export type {name} = {self.type(value)};"
        if len(made) > WIDTH and isinstance(value, ast.BinOp):
            parts = "\n  | ".join(self.type(value).split(" | "))
            made = f"export type {name} =\n  | {parts};"
        return "\n".join([*comment(text), made])

    def _constant(self, name: str, value: object, text: str) -> str:
        made = repr(value) if isinstance(value, (str, int)) else "null"
        return "\n".join([*comment(text), f"export const {name} = {made};"])

    def _table(self, name: str, note: ast.expr, value: ast.expr, text: str) -> str:
        made = literal(ast.literal_eval(value))
        kind = self.type(note)
        kind = f"readonly {kind}" if kind.endswith("[]") else f"Readonly<{kind}>"
        return "\n".join([*comment(text), f"export const {name}: {kind} = {made};"])

    # ------------------------------------------------------------ readers
    def shape(self, node: ast.expr) -> str:
        """The reader of an annotation, as an expression."""
        match node:
            case ast.Constant(value=None):
                return "isNull"
            case ast.Name(id=name) if name in SHAPES:
                return SHAPES[name]
            case ast.Name(id=name) if name in self._classes or name in self._aliases:
                return f"is{name}"
            case ast.BinOp(op=ast.BitOr()):
                return self._union(node)
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                return f"oneOf({', '.join(self.type(part) for part in arguments(inner))})"
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                made = [self.shape(part) for part in arguments(inner)]
                match name:
                    case "list":
                        return f"list({made[0]})"
                    case "dict":
                        return f"table({made[1]})"
                    case "tuple":
                        return f"tuple({', '.join(made)})"
                    case "NotRequired":
                        return made[0]
                    case _:
                        pass
            case _:
                pass
        raise self._module.fail(node, f"no reader for {ast.unparse(node)}")

    def _record(self, node: ast.ClassDef) -> str:
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        rows = [[f"  ...is{base}.fields"] for base in bases if base != "TypedDict"]
        for name, note, text in own_fields(node):
            shape = self.shape(note)
            shape = f"optional({shape})" if is_optional(note) else shape
            rows.append([*comment(text, "  "), f"  {name}: {shape}"])
        inside = ",\n".join("\n".join(row) for row in rows)
        table = f"{{\n{inside}\n}}" if inside else "{}"
        head = comment(ast.get_docstring(node) or "")
        return "\n".join([*head, f"export const is{node.name} = record({table});"])

    def _all_fields(self, node: ast.ClassDef) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in self._classes:
                found |= self._all_fields(self._classes[base.id])
        return found | {name: note for name, note, _ in own_fields(node)}

    def _union(self, node: ast.expr) -> str:
        parts = [one for part in members(node) for one in self._flat(part)]
        by_kind: dict[str, list[ast.expr]] = {}
        for part in parts:
            by_kind.setdefault(self._kind(part), []).append(part)
        made: dict[str, str] = {}
        for kind, same in by_kind.items():
            if kind == "number":
                made[kind] = (
                    "isNumber" if any(ast.unparse(p) == "float" for p in same) else "isWhole"
                )
            elif len(same) == 1:
                made[kind] = self.shape(same[0])
            elif kind == "object":
                made[kind] = self._tagged(same)
            else:
                raise self._module.fail(node, f"two kinds of {kind} cannot be told apart")
        if len(made) == 1:
            return next(iter(made.values()))
        if len(made) == 2 and "null" in made:
            [other] = [shape for kind, shape in made.items() if kind != "null"]
            return f"orNull({other})"
        return f"anyOf({{ {', '.join(f'{kind}: {shape}' for kind, shape in made.items())} }})"

    def _flat(self, node: ast.expr) -> list[ast.expr]:
        """The members of an alias that is a union itself, else the one."""
        if isinstance(node, ast.Name) and isinstance(self._aliases.get(node.id), ast.BinOp):
            return [one for part in members(self._aliases[node.id]) for one in self._flat(part)]
        return [node]

    def _kind(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=None):
                return "null"
            case ast.Name(id=name) if name in KINDS:
                return KINDS[name]
            case ast.Name(id=name) if name in self._aliases:
                return self._kind(self._aliases[name])
            case ast.Name(id=name) if name in self._classes:
                return "object"
            case ast.Subscript(value=ast.Name(id="dict")):
                return "object"
            case ast.Subscript(value=ast.Name(id="list" | "tuple")):
                return "list"
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                first = arguments(inner)[0]
                return KINDS[type(getattr(first, "value", "")).__name__]
            case _:
                raise self._module.fail(node, f"no kind of {ast.unparse(node)} in a union")

    def _tagged(self, parts: Sequence[ast.expr]) -> str:
        """The reader of one of several classes, told apart by a field."""
        classes = [self._classes[ast.unparse(part)] for part in parts]
        for tag in self._all_fields(classes[0]):
            words = [self._word(self._all_fields(one).get(tag)) for one in classes]
            if None not in words and len(set(words)) == len(words):
                rows = [f"  {word}: is{one.name}" for word, one in zip(words, classes, strict=True)]
                return f"tagged('{tag}', {{\n{(',' + chr(10)).join(rows)}\n}})"
        names = ", ".join(one.name for one in classes)
        raise self._module.fail(parts[0], f"no field tells {names} apart")

    def _word(self, note: ast.expr | None) -> str | None:
        match note:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Constant(value=str(word))):
                return word
            case _:
                return None

    # ------------------------------------------------------------ questions
    def _questions(self, rows: Sequence[tuple[str, ast.expr, ast.expr]]) -> str:
        lines = ["/** The arguments and the answer of each question. */"]
        lines.append("export interface IQuestions {")
        for what, args, answer in rows:
            lines.append(f"  {what}: {{ args: {self.type(args)}; answer: {self.type(answer)} }};")
        return "\n".join([*lines, "}", "", "export type QuestionName = keyof IQuestions;"])

    def _answers(self, rows: Sequence[tuple[str, ast.expr, ast.expr]]) -> str:
        lines = ["/** The reader of the answer to each question. */"]
        lines.append(
            "export const ANSWERS: { readonly [K in QuestionName]: Shape<IQuestions[K]['answer']> }"
            " = {"
        )
        inside = [f"  {what}: {self.shape(answer)}" for what, _, answer in rows]
        lines += [
            ",\n".join(inside),
            "};",
            "",
            "/** The version of the answer to each question. */",
        ]
        lines.append("export const VERSIONS: { readonly [K in QuestionName]: number } = {")
        versions = [f"  {what}: {self._version(answer)}" for what, _, answer in rows]
        return "\n".join([*lines, ",\n".join(versions), "};"])

    def _version(self, answer: ast.expr) -> str:
        notes = [
            self._all_fields(self._classes[ast.unparse(p)])["version"] for p in self._flat(answer)
        ]
        made = {self.type(note) for note in notes}
        if len(made) != 1:
            raise self._module.fail(answer, f"{ast.unparse(answer)} is of several versions")
        return made.pop()

    # ------------------------------------------------------------ files
    def file(self, module: Module) -> str:
        """The whole text of the file that ``module`` becomes."""
        docstring = (ast.get_docstring(module.tree) or "").replace("``", "`")
        made = f"Generated by `scripts/gen_protocol.py` from `{module.path}`: change it there."
        body = "\n\n".join(module.parts)
        used = words(re.sub(r"/\*\*.*?\*/", "", body, flags=re.DOTALL))
        from_files: dict[str, list[str]] = {}
        for name in sorted(used & set(self._home)):
            if (home := self._home[name]) is not module:
                from_files.setdefault(home.stem, []).append(name)
        shapes = sorted(used & SHAPE_NAMES)
        types = [f"type {name}" for name in ("Shape", "Told") if name in used]
        if shapes or types:
            from_files["shape"] = [*shapes, *types]
        imports = [imported(stem, names) for stem, names in sorted(from_files.items())]
        head = "\n".join(comment(f"{docstring}\n\n{made}"))
        return "\n\n".join([head, *(["\n".join(imports)] if imports else []), body]) + "\n"


SHAPE_NAMES = frozenset(
    {
        *SHAPES.values(),
        "isNull",
        "anyOf",
        "list",
        "oneOf",
        "optional",
        "orNull",
        "record",
        "table",
        "tagged",
        "tuple",
    }
)


def imported(stem: str, names: Sequence[str]) -> str:
    """The import of ``names``, types marked as such, from the file ``stem``."""
    marked = [
        f"type {n}" if not n.startswith(("is", "type ")) and n[:1].isupper() else n for n in names
    ]
    if stem == "shape":
        marked = list(names)
    line = f"import {{ {', '.join(marked)} }} from './{stem}';"
    if all(name.startswith("type ") for name in marked):
        plain = ", ".join(name.removeprefix("type ") for name in marked)
        line = f"import type {{ {plain} }} from './{stem}';"
    if len(line) <= WIDTH:
        return line
    head = "import type" if line.startswith("import type") else "import"
    inside = [n.removeprefix("type ") for n in marked] if head == "import type" else marked
    return f"{head} {{\n  {(',' + chr(10) + '  ').join(inside)}\n}} from './{stem}';"


def literal(value: object, pad: str = "") -> str:
    """The TypeScript of a table of texts and numbers, on one line where that is short enough."""
    match value:
        case str(text):
            return "'" + json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"') + "'"
        case list(entries):
            opened, closed, parts = "[", "]", [literal(one, pad + "  ") for one in entries]
        case dict(table):
            keys = [k if re.fullmatch(r"[A-Za-z_]\w*", k) else literal(k) for k in table]
            inside = [literal(one, pad + "  ") for one in table.values()]
            opened, closed = "{ ", " }"
            parts = [f"{key}: {one}" for key, one in zip(keys, inside, strict=True)]
        case _:
            return json.dumps(value)
    line = f"{opened}{', '.join(parts)}{closed}"
    if not parts or (len(pad) + len(line) < WIDTH and "{" not in "".join(parts)):
        return line if parts else opened.strip() + closed.strip()
    rows = (",\n" + pad + "  ").join(parts)
    return f"{opened.strip()}\n{pad}  {rows}\n{pad}{closed.strip()}"


def is_type(node: ast.expr) -> bool:
    """Whether an assigned expression is a type."""
    return isinstance(node, (ast.BinOp, ast.Subscript))


def is_optional(note: ast.expr) -> bool:
    """Whether an annotation is ``NotRequired[…]``."""
    return (
        isinstance(note, ast.Subscript)
        and isinstance(note.value, ast.Name)
        and note.value.id == "NotRequired"
    )


def members(node: ast.expr) -> list[ast.expr]:
    """The members of a union."""
    if isinstance(node, ast.BinOp):
        return [*members(node.left), *members(node.right)]
    return [node]


def arguments(inner: ast.expr) -> list[ast.expr]:
    """What stands in the brackets of a type."""
    return list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]


def own_fields(node: ast.ClassDef) -> list[tuple[str, ast.expr, str]]:
    """The fields that a class itself declares: name, annotation and text."""
    return [
        (one.target.id, one.annotation, text)
        for one, text in with_texts(node.body)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]


def comment(text: str, pad: str = "") -> list[str]:
    """``text`` as a JSDoc comment; no lines when it is empty."""
    if not text:
        return []
    if "\n" not in text and len(pad) + len(text) + 7 <= WIDTH:
        return [f"{pad}/** {text} */"]
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, WIDTH - len(pad) - 3)]
    return [f"{pad}/**", *(f"{pad} * {line}".rstrip() for line in lines[1:]), f"{pad} */"]


def with_texts(body: Sequence[ast.stmt]) -> list[tuple[ast.stmt, str]]:
    """Each statement with the string that stands right below it."""
    found = []
    for n, statement in enumerate(body):
        after = body[n + 1] if n + 1 < len(body) else None
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = " ".join(str(after.value.value).split())
        found.append((statement, text))
    return found


def generate(sources: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The contents of each generated file, by name, of (path, text) of each source."""
    writer = Writer()
    modules = [Module(path, ast.parse(text)) for path, text in sources]
    for module in modules:
        writer.write(module)
    return {f"{module.stem}.ts": writer.file(module) for module in modules}


def words(text: str) -> set[str]:
    """The identifiers in ``text``."""
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def main() -> int:
    """Write the files, or with ``--check`` compare them."""
    check = "--check" in sys.argv[1:]
    stale = []
    sources = [(path, (ROOT / path).read_text("utf-8")) for path in SOURCES]
    for name, text in generate(sources).items():
        path = TARGET / name
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(text, "utf-8")
    if check and stale:
        print(f"{', '.join(stale)} not as generated; run scripts/gen_protocol.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

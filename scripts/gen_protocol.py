#!/usr/bin/env python3
"""Writes the TypeScript types of the front end from ``maxlab/lab/protocol.py``.

    scripts/gen_protocol.py            write extension/src/proto/document.ts and messages.ts
    scripts/gen_protocol.py --check    say whether they are as they would be written

The source is read, not imported: classes become interfaces, assignments of types become type
aliases, and the texts below either become comments.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "maxlab" / "lab" / "protocol.py"
TARGET = ROOT / "extension" / "src" / "proto"

MESSAGES = "NeedBundle"
"""The first declaration that belongs to ``messages.ts``."""

WIDTH = 100

HEADS = {
    "document.ts": """\
The graph document: the plain JSON snapshot of one graph that every view draws.

Pure types. The document is produced in Python, travels through messages, saved notebooks and
exported pages, and is therefore untrusted here: `validate.ts` turns unknown JSON into these types.\
""",
    "messages.ts": """\
Messages between the notebook widget and its Python model, and the widget's synced traits.\
""",
}
GENERATED = "Generated from `maxlab/lab/protocol.py` by `scripts/gen_protocol.py`: change it there."

PRIMITIVES = {"str": "string", "int": "number", "float": "number", "bool": "boolean"}


class Writer:
    """Turns declarations into TypeScript; ``interfaces`` are the names of all classes."""

    def __init__(self, interfaces: set[str]) -> None:
        self._interfaces = interfaces

    def type(self, node: ast.expr) -> str:
        """The TypeScript of an annotation."""
        match node:
            case ast.Constant(value=None):
                return "null"
            case ast.Constant(value=str(text)):
                return f"'{text}'"
            case ast.Name(id=name):
                if name in self._interfaces:
                    return f"I{name}"
                return "unknown" if name == "object" else PRIMITIVES.get(name, name)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                parts = f"{self.type(left)} | {self.type(right)}".split(" | ")
                return " | ".join(dict.fromkeys(parts))
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                return self._generic(name, inner)
            case _:
                raise SystemExit(f"{SOURCE}:{node.lineno}: no TypeScript for {ast.unparse(node)}")

    def _generic(self, name: str, inner: ast.expr) -> str:
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        made = [self.type(part) for part in parts]
        match name:
            case "list":
                return f"({made[0]})[]" if " " in made[0] else f"{made[0]}[]"
            case "dict":
                return f"Record<{', '.join(made)}>"
            case "tuple":
                return f"[{', '.join(made)}]"
            case "Literal":
                return " | ".join(made)
            case "NotRequired":
                return made[0]
            case _:
                raise SystemExit(f"{SOURCE}:{inner.lineno}: no TypeScript for {name}[…]")

    def interface(self, node: ast.ClassDef) -> str:
        """A class as an interface."""
        lines = [*comment(ast.get_docstring(node) or ""), f"export interface I{node.name} {{"]
        for field, text in with_texts(node.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                note = field.annotation
                optional = (
                    isinstance(note, ast.Subscript)
                    and isinstance(note.value, ast.Name)
                    and note.value.id == "NotRequired"
                )
                lines += comment(text, "  ")
                lines.append(f"  {field.target.id}{'?' if optional else ''}: {self.type(note)};")
        return "\n".join([*lines, "}"])

    def alias(self, name: str, value: ast.expr, text: str) -> str:
        """A type alias."""
        made = f"export type {name} = {self.type(value)};"
        if len(made) > WIDTH:
            made = (
                f"export type {name} =\n  | " + "\n  | ".join(self.type(value).split(" | ")) + ";"
            )
        return "\n".join([*comment(text), made])


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


def generate(source: str) -> dict[str, str]:
    """The contents of each generated file, by name."""
    body = ast.parse(source).body
    classes = {node.name for node in body if isinstance(node, ast.ClassDef)}
    writer = Writer(classes)
    parts: dict[str, list[str]] = {"document.ts": [], "messages.ts": []}
    declared: dict[str, list[str]] = {"document.ts": [], "messages.ts": []}
    target = "document.ts"
    for node, text in with_texts(body):
        if isinstance(node, ast.ClassDef):
            target = "messages.ts" if node.name == MESSAGES else target
            parts[target].append(writer.interface(node))
            declared[target].append(f"I{node.name}")
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and not isinstance(node.value, ast.Constant)
        ):
            name = node.targets[0].id
            parts[target].append(writer.alias(name, node.value, text))
            declared[target].append(name)
    files = {}
    for name, made in parts.items():
        head = "\n".join(comment(f"{HEADS[name]}\n\n{GENERATED}"))
        body_text = "\n\n".join(made)
        used = [
            d for d in declared["document.ts"] if name == "messages.ts" and d in words(body_text)
        ]
        imports = (
            [f"import type {{ {', '.join(sorted(used))} }} from './document';"] if used else []
        )
        files[name] = "\n\n".join([head, *imports, body_text]) + "\n"
    return files


def words(text: str) -> set[str]:
    """The identifiers in ``text``."""
    return set("".join(c if c.isalnum() else " " for c in text).split())


def main() -> int:
    """Write the files, or with ``--check`` compare them."""
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in generate(SOURCE.read_text("utf-8")).items():
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

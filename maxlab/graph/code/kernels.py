"""The texts of custom kernels, as constants of the code."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.graph.code.text import INDENT, string
from maxlab.ir import Function
from maxlab.opset import role_of


def texts_of(functions: Iterable[Function]) -> list[str]:
    """The texts of the custom operations of ``functions``, each once."""
    return list(
        dict.fromkeys(
            str(op.attrs["source"])
            for function in functions
            for op in function.walk()
            if role_of(op) == "custom"
        )
    )


def constant(texts: list[str]) -> list[str]:
    """The lines that set ``KERNELS`` to ``texts``."""
    if not texts:
        return []
    if len(texts) == 1:
        return f"KERNELS = {literal(texts[0])}".split("\n")
    made = ["KERNELS = ["]
    for text in texts:
        made += f"{INDENT}{literal(text)},".split("\n")
    return [*made, "]"]


def literal(text: str) -> str:
    """A literal whose text declares what ``text`` does: over several lines where Python can."""
    plain = all(line == line.rstrip() and line.isprintable() for line in text.split("\n"))
    if not plain or '"""' in text or text.endswith(("\\", '"')):
        return string(f"\n{text}\n").flat()
    mark = "r" if "\\" in text else ""
    return f'{mark}"""\n{text}\n"""'


__all__ = ["constant", "texts_of"]

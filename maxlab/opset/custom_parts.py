"""The parts of an op of a kernel library, as launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.ir.poly import ONE, Poly
from maxlab.opset.custom_binding import Bound
from maxlab.opset.custom_text import Translator
from maxlab.opset.declarations import Body, Part
from maxlab.opset.kernel import Site


def write_parts(at: Site, bound: Bound, writer: Translator) -> None:
    """Add all parts of the op that ``bound`` declares."""
    for part, body in bound.parts():
        write_part(at, bound, writer, part, body)


def write_part(
    at: Site,
    bound: Bound,
    writer: Translator,
    part: Part,
    body: Body,
    *,
    extent: Poly | None = None,
    **more: Any,
) -> None:
    """Add the launch of one part.

    Args:
        extent: Its items, where the text does not say how many they are.
        more: What else ``Site.part`` takes; it stands above what the text says.
    """
    options, flags, said = body.options, body.flags, part.expressions
    text, before = writer.body(body)
    items = options.get("items") or said.get("items")
    work = options.get("work") or said.get("work", "1")
    if extent is None:
        extent = bound.poly(items) if items else domain(bound)
    given: Mapping[str, Any] = {
        "work": bound.poly(work),
        "block": "block" in flags and at.target == "cuda",
        "threads": int(options.get("threads", "256")),
        "shared": bound.poly(options.get("shared", "0")),
        "scratch": bound.poly(options.get("scratch", "0")),
        # Two threads would change one handle at the same time.
        "serial": "serial" in flags or any(a.opaque and a.inout for a in bound.declared.operands),
        "ahead": writer.ahead(),
        "before": "\n".join(each for each in (before, writer.before()) if each),
        "after": writer.after(),
        "name": part.name,
    }
    at.part(text, extent, **{**given, **more})


def domain(bound: Bound) -> Poly:
    """The elements of the first result, or of the first operand that is changed; one item for what
    makes a handle, or changes nothing but what one holds."""
    declared = bound.declared
    if any(result.opaque for result in declared.results):
        return ONE
    changed = [a for a in declared.operands if a.inout and not a.opaque]
    arguments = [*declared.results, *changed]
    return bound.members[f"{arguments[0].name}__of_size"] if arguments else ONE


__all__ = ["domain", "write_part", "write_parts"]

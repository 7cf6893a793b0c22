"""Names of graphs of ``torch.compile``: after the class or function whose code they are."""

from __future__ import annotations

import linecache
import re

from torch.fx import GraphModule

from maxlab.torch.places import frames_in

_HEAD = re.compile(r"(\s*)(class|def)\s+(\w+)")
UNKNOWN = "compiled"


def name_of_graph(module: GraphModule) -> str:
    """The class whose method, or the function, from which the first operation of ``module`` was
    called; ``"compiled"`` where no line of a user did, as in a bare ``Sequential``."""
    for node in module.graph.nodes:
        frames = frames_in(node.meta.get("stack_trace"))
        if frames:
            file, line, function = frames[0]
            return _class_around(file, line, function) or function.strip("<>") or UNKNOWN
    return UNKNOWN


def _class_around(file: str, line: int, function: str) -> str:
    """The class that has the method ``function`` around ``line`` of ``file``; empty without one."""
    deepest: int | None = None  # how far the method is indented
    for number in range(line, 0, -1):
        found = _HEAD.match(linecache.getline(file, number))
        if found is None:
            continue
        indent, kind, name = len(found[1]), found[2], found[3]
        if deepest is None:
            if kind == "def" and name == function:
                deepest = indent
        elif indent < deepest:
            return name if kind == "class" else ""
    return ""


__all__ = ["name_of_graph"]

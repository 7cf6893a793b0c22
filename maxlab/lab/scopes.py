"""The scopes of a graph: paths, labels, and fingerprints that tell which siblings are alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from maxlab.ir import Constant, Op, Value
from maxlab.lab import protocol
from maxlab.lab.regions import Listed, Shown, label_of_scope, unnumbered
from maxlab.opset import is_weight

UNTOLD_ATTRS = frozenset({"name", "placeholder", "align"})
"""Attributes of a weight that say which weight it is, not what is computed with it."""


def _parts(scope: str) -> list[str]:
    """The names in ``scope``. A subgraph may be called ``..``, and a path has no empty names."""
    return [part or "·" for part in scope.split(".")] if scope else []


class Paths:
    """The scope of every op as the view knows it.

    The second call of a function ``block`` has the path ``block.1``, its first ``block``, which
    would make the first call the parent of the others. Here the first becomes ``block.0``. Paths of
    modules (``modules`` holds them) stay as they are.
    """

    def __init__(self, scopes: Sequence[str], modules: Mapping[str, str]) -> None:
        self._modules = modules
        prefixes: dict[str, None] = {}
        for scope in dict.fromkeys(scopes):
            parts = _parts(scope)
            for n in range(1, len(parts) + 1):
                prefixes[".".join(parts[:n])] = None
        self._repeated = {
            path.removesuffix(".1")
            for path in prefixes
            if path.endswith(".1")
            and path.removesuffix(".1") + ".0" not in prefixes
            and path not in modules
            and path.removesuffix(".1") not in modules
        }
        self._known: dict[str, str] = {"": ""}
        self.types: dict[str, str] = {}
        for scope in dict.fromkeys(scopes):
            self.of(scope)

    def of(self, scope: str) -> str:
        """The path of ``scope``, an op's scope."""
        known = self._known.get(scope)
        if known is None:
            known = self._known[scope] = self._made(scope)
        return known

    def _made(self, scope: str) -> str:
        parts = _parts(scope)
        old, made = "", []
        for n, part in enumerate(parts):
            old = f"{old}.{part}" if old else part
            made.append(part)
            following = parts[n + 1] if n + 1 < len(parts) else ""
            if old in self._repeated and not following.isdigit():
                made.append("0")
            if old in self._modules:
                self.types[".".join(made)] = self._modules[old]
        return ".".join(made)


def declared(paths: Sequence[str]) -> dict[str, str]:
    """The label of each scope, by path, outer scopes first.

    An index belongs to the name before it: of ``encoder.layers.0``, the scopes are ``encoder`` and
    ``encoder.layers.0``, with the label ``layers.0``.
    """
    used = set(paths)
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if not path:
            continue
        parts = path.split(".")
        label = ""
        for n, part in enumerate(parts):
            label = f"{label}.{part}" if label else part
            prefix = ".".join(parts[: n + 1])
            following = parts[n + 1] if n + 1 < len(parts) else ""
            if following.isdigit() and not part.isdigit() and prefix not in used:
                continue
            found.setdefault(prefix, label)
            label = part if following.isdigit() and not part.isdigit() else ""
    return found


def fingerprints(
    ops: Sequence[Shown], paths: Sequence[str], wanted: Sequence[str]
) -> dict[str, str]:
    """A hash for each scope in ``wanted`` of what it computes.

    Equal hashes mean: the same ops with the same attributes and types, wired alike inside, reading
    values of the same types from outside. Names of weights and scopes outside do not count.

    Args:
        ops: The ops of a graph, in order.
        paths: The path of each op.
        wanted: Paths of scopes.
    """
    inside: dict[str, list[int]] = {path: [] for path in wanted}
    chains: dict[str, list[str]] = {}
    for n, path in enumerate(paths):
        chain = chains.get(path)
        if chain is None:
            parts = path.split(".")
            prefixes = [".".join(parts[: k + 1]) for k in range(len(parts))]
            chain = chains[path] = [p for p in prefixes if p in inside]
        for scope in chain:
            inside[scope].append(n)
    signatures = [""] * len(ops)
    for members in inside.values():
        for n in members:
            if not signatures[n]:
                signatures[n] = _signature(ops[n].op)
    return {
        path: _fingerprint(path, members, ops, paths, signatures)
        for path, members in inside.items()
    }


def _fingerprint(
    scope: str,
    members: Sequence[int],
    ops: Sequence[Shown],
    paths: Sequence[str],
    signatures: Sequence[str],
) -> str:
    names: dict[Value, str] = {}
    outside = 0
    lines: list[str] = []
    for place, n in enumerate(members):
        # what a loop gives itself is named by what it makes, which comes behind it
        for value in ops[n].op.results:
            names[value] = f"{place}.{value.index}"
    for n in members:
        shown = ops[n]
        wires = []
        for value in (*shown.operands, *(v for given in shown.gives for v in given)):
            name = names.get(value)
            if name is None:
                name = names[value] = f"x{outside}:{value.type}"
                outside += 1
            wires.append(name)
        path = unnumbered(paths[n][len(scope) :])
        lines.append(f"{path}|{signatures[n]}|{','.join(wires)}")
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=6).hexdigest()


def _signature(op: Op) -> str:
    external = is_weight(op)
    attrs = ";".join(
        f"{key}={_attr(value)}"
        for key, value in sorted(op.attrs.items())
        if not (external and key in UNTOLD_ATTRS)
    )
    return f"{op.name}({attrs}):{','.join(str(r.type) for r in op.results)}"


def _attr(value: Any) -> str:
    return value.digest if isinstance(value, Constant) else str(value)


def scopes_of(
    found: Listed, paths: Sequence[str], types: Mapping[str, str], known: Mapping[str, str]
) -> list[protocol.Scope]:
    """The scopes of a document; ``types`` names the class of a module, or the function of a region,
    by its path, and ``known`` has the fingerprints of scopes that did not change."""
    labels = declared(paths)
    unknown = [path for path in labels if path not in known]
    prints = {**known, **(fingerprints(found.ops, paths, unknown) if unknown else {})}
    return [
        {
            "path": path,
            "label": label_of_scope(path) or label,
            "type": types.get(path, ""),
            "fingerprint": prints[path],
        }
        for path, label in labels.items()
    ]

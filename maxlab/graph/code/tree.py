"""The operations of a graph by their scopes: what becomes a function, and what stands in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from maxlab.ir import Block, ChainType, Op, Value
from maxlab.ir.function import Call as Inlined
from maxlab.opset import OPSET, is_chain, is_constant, is_weight, role_of


@dataclass(eq=False)
class Scope:
    """The operations of one scope that follow each other.

    Attributes:
        path: Of the scope.
        label: The last part of it, without its number.
        items: What stands in it, in order.
        reads: The values from outside that it reads, weights left out.
        gives: The values of it that others read.
    """

    path: str
    label: str
    items: list[Item] = field(default_factory=list)
    reads: list[Value] = field(default_factory=list)
    gives: list[Value] = field(default_factory=list)

    def ops(self) -> Iterator[Op]:
        """The operations in it and in the scopes in it."""
        return all_ops(self.items)


@dataclass(eq=False)
class Called:
    """One call of a subgraph, in the place of its operations."""

    call: Inlined
    inside: list[Op]
    operands: list[Value]
    results: list[Value]


Item = Op | Scope | Called


def all_ops(items: Iterable[Item]) -> Iterator[Op]:
    """The operations of ``items``, those of calls included."""
    for item in items:
        if isinstance(item, Op):
            yield item
        elif isinstance(item, Called):
            yield from item.inside
        else:
            yield from all_ops(item.items)


# ---------------------------------------------------------------- paths
def parts_of(path: str) -> tuple[str, ...]:
    """The names of a scope path; a number belongs to the name before it.

    Example:
        >>> parts_of("encoder.layers.0.attention")
        ('encoder', 'layers.0', 'attention')
    """
    made: list[str] = []
    for part in path.split(".") if path else []:
        if part.isdigit() and made and not made[-1].rpartition(".")[2].isdigit():
            made[-1] = f"{made[-1]}.{part}"
        else:
            made.append(part)
    return tuple(made)


# ---------------------------------------------------------------- order
def is_source(op: Op) -> bool:
    """Whether ``op`` is data or a weight: it stands wherever it is read first."""
    return is_constant(op) or is_weight(op)


def items_of(block: Block, base: tuple[str, ...], calls: Sequence[Inlined] = ()) -> list[Item]:
    """The items of ``block``, by scopes below ``base``."""
    ops = [op for op in block.ops if not op.ends_block and not is_chain(op)]
    paths = {op: _below(parts_of(op.scope), base) for op in ops}
    listed = _with_calls(ops, paths, calls)
    sources = [item for item, _ in listed if isinstance(item, Op) and is_source(item)]
    apart = set(sources)
    listed = [each for each in listed if each[0] not in apart]
    top: list[Item] = []
    stack: list[Scope] = []
    for item, path in listed:
        depth = 0
        while (
            depth < len(stack)
            and depth < len(path)
            and stack[depth].path == ".".join((*base, *path[: depth + 1]))
        ):
            depth += 1
        del stack[depth:]
        for n in range(depth, len(path)):
            label = path[n].rpartition(".")[0] if path[n].rpartition(".")[2].isdigit() else path[n]
            scope = Scope(".".join((*base, *path[: n + 1])), label or path[n])
            (stack[-1].items if stack else top).append(scope)
            stack.append(scope)
        (stack[-1].items if stack else top).append(item)
    made = _tidied(top)
    _place(sources, made)
    return made


def _place(sources: Sequence[Op], top: list[Item]) -> None:
    """Put data and weights into ``top``: where they are read first, in the innermost scope that
    all readers are in."""
    homes: dict[Op, tuple[Scope, ...]] = {}
    _note_homes(top, (), homes)
    before: dict[Item | None, list[tuple[list[Item], Op]]] = {}
    for op in sources:
        readers = [homes[user] for user in op.result.uses if user in homes]
        outside = any(user not in homes for user in op.result.uses)
        home = () if outside or not readers else _common(readers)
        place = home[-1].items if home else top
        at = next(
            (
                n
                for n, item in enumerate(place)
                if not op.result.uses.keys().isdisjoint(all_ops([item]))
            ),
            len(place) if op.result.uses else 0,
        )
        before.setdefault(place[at] if at < len(place) else None, []).append((place, op))
    for item, waiting in before.items():
        for place, op in waiting:
            place.insert(len(place) if item is None else place.index(item), op)


def _note_homes(
    items: Sequence[Item], inside: tuple[Scope, ...], homes: dict[Op, tuple[Scope, ...]]
) -> None:
    for item in items:
        if isinstance(item, Scope):
            _note_homes(item.items, (*inside, item), homes)
        elif isinstance(item, Called):
            homes |= dict.fromkeys(item.inside, inside)
        else:
            homes[item] = inside


def _common(chains: Sequence[tuple[Scope, ...]]) -> tuple[Scope, ...]:
    first, *rest = chains
    size = len(first)
    for chain in rest:
        size = min(size, len(chain))
        while first[:size] != chain[:size]:
            size -= 1
    return first[:size]


def _below(path: tuple[str, ...], base: tuple[str, ...]) -> tuple[str, ...]:
    return path[len(base) :] if path[: len(base)] == base else path


def _with_calls(
    ops: Sequence[Op], paths: Mapping[Op, tuple[str, ...]], calls: Sequence[Inlined]
) -> list[tuple[Item, tuple[str, ...]]]:
    by_id = {op.id: op for op in ops}
    values = {v.id: v for op in ops for v in op.results}
    for op in ops:
        values |= {v.id: v for v in op.operands}
    inside: dict[Op, Called] = {}
    for call in calls:
        own = [by_id[id] for id in call.ids.values() if id in by_id]
        known = all(id in values for id in (*call.operands, *call.results))
        if not own or not known or any(op in inside for op in own):
            continue
        made = Called(
            call, own, [values[i] for i in call.operands], [values[i] for i in call.results]
        )
        inside |= dict.fromkeys(own, made)
    listed: list[tuple[Item, tuple[str, ...]]] = []
    seen: set[Called] = set()
    for op in ops:
        found = inside.get(op)
        if found is None:
            listed.append((op, paths[op]))
        elif found not in seen:
            seen.add(found)
            listed.append((found, parts_of(found.call.scope)[:-1]))
    return listed


# ---------------------------------------------------------------- what becomes a function
def _tidied(items: list[Item]) -> list[Item]:
    """``items`` without the scopes that no function should be made of."""
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Scope):
            made.append(item)
            continue
        item.items = _tidied(item.items)
        only = item.items[0] if len(item.items) == 1 else None
        if isinstance(only, Scope):
            made.append(only)
        elif _is_function(item):
            made.append(item)
        else:
            made += item.items
    return made


def _is_function(scope: Scope) -> bool:
    count = 0
    for item in scope.items:
        if isinstance(item, Op):
            count += not is_source(item)
        else:
            count += 2
    plain = all(not draws(op) and role_of(op) != "bind" for op in scope.ops())
    return count > 1 and plain


def draws(op: Op) -> bool:
    """Whether ``op`` draws random numbers, or holds what does: its place among others counts."""
    row = OPSET.get(op.name)
    inner = (each for region in op.regions for each in region.ops)
    return (row is not None and row.chapter == "random") or any(map(draws, inner))


def connect(items: Sequence[Item], gives: Iterable[Value]) -> None:
    """Set what each scope in ``items`` reads and gives, where others read ``gives`` too."""
    wanted = set(gives)
    for item in items:
        if isinstance(item, Scope):
            inside = set(item.ops())
            made = [v for op in item.ops() for v in op.results if not isinstance(v.type, ChainType)]
            own = set(made)
            item.gives = [
                v for v in made if v in wanted or any(user not in inside for user in v.uses)
            ]
            item.gives = [v for v in item.gives if v.op is None or not is_source(v.op) or v.uses]
            reads = dict.fromkeys(
                v
                for op in item.ops()
                for v in op.operands
                if v not in own and not isinstance(v.type, ChainType)
            )
            item.reads = list(reads)
            connect(item.items, item.gives)


def has_effect(op: Op) -> bool:
    """Whether ``op`` has a place among others: it stands in a statement of its own, in order."""
    row = OPSET.get(op.name)
    if row is None:
        return True
    return bool(row.effect or row.asserts or op.regions or row.role == "bind" or draws(op))


__all__ = [
    "Called",
    "Item",
    "Scope",
    "all_ops",
    "connect",
    "draws",
    "has_effect",
    "is_source",
    "items_of",
    "parts_of",
]

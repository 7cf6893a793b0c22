"""The differences between two plans, in words: ``plan.diff(other)``."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from maxlab.compiler.facts import Facts
from maxlab.compiler.lifetimes import peak
from maxlab.compiler.op_facts import OpFacts
from maxlab.compiler.plan_changes import Change, Detail, PlanDiff, in_order
from maxlab.compiler.plan_match import (
    Matching,
    OneToOne,
    computed,
    matched,
    plain_text,
    texts_of,
)
from maxlab.compiler.plan_parts import Slot, SlotKind, Step
from maxlab.compiler.plan_renumber import Renumbering
from maxlab.compiler.plan_text import (
    buffer_words,
    conditions,
    counted,
    formula_text,
    launch_text,
    listed,
    size_lines,
    slot_words,
    touched_slots,
)
from maxlab.compiler.plan_whole import Whole
from maxlab.digests import blake2b
from maxlab.errors import Location
from maxlab.ir.poly import ZERO, Poly

_Part = TypeVar("_Part", Step, Slot)

LONGEST = 100
"""Characters of a value in a line; the rest is left out."""


# ---------------------------------------------------------------- making it
def diff(one: Whole, other: Whole) -> PlanDiff:
    """The differences between the plans ``one`` and ``other``."""
    if one == other:
        return PlanDiff(size_words(one), size_words(other))
    if _order(other) < _order(one):  # the same pairs are found in either direction
        return _diff(other, one).mirrored()
    return _diff(one, other)


def size_words(plan: Whole) -> str:
    """How many steps and buffers ``plan`` has."""
    return f"{counted(len(plan.steps), 'step')}, {counted(len(plan.slots), 'buffer')}"


def _order(plan: Whole) -> tuple[int, str]:
    steps = [(computed(step, plan.slots), step.nodes) for step in plan.steps]
    return len(plan.steps), repr((steps, [(op.name, op.at) for op in plan.facts.ops.values()]))


def _diff(one: Whole, other: Whole) -> PlanDiff:
    pairs = matched(one, other)
    renumbering = Renumbering(one, other, pairs)
    steps = in_order(_step_changes(one, other, pairs, renumbering))
    buffers = in_order(_buffer_changes(one, other, pairs, renumbering))
    rest = (*_order_details(one, other, renumbering), *_fact_details(one, other, renumbering))
    totals = tuple(
        Detail(what, *map(_amount, sizes))
        for what, sizes in zip(_TOTALS, zip(_totals(one), _totals(other), strict=True), strict=True)
        if sizes[0] != sizes[1]
    )
    renumbered = not (steps or buffers or rest)
    return PlanDiff(size_words(one), size_words(other), steps, buffers, rest, totals, renumbered)


# ---------------------------------------------------------------- steps
def _step_changes(
    one: Whole, other: Whole, pairs: Matching, renumbering: Renumbering
) -> Iterator[Change]:
    yield from _alone(one.steps, other.steps, pairs.steps, step_words)
    for number, other_number in pairs.steps.there.items():
        like, step = one.steps[number], other.steps[other_number]
        fields = like.differences(renumbering.step(step, like))
        details = [*_step_details(like, step, fields)]
        if "pointers" in fields:
            details += _pointer_details((like, one), (step, other), pairs)
        if number in pairs.moved:
            details.insert(0, Detail("runs as step", *_positions(like, step, one, other)))
        if details:
            texts = ("", "")
            if _code(like) != _code(step):
                texts = _code(like), _code(step)
            was, words = (f"{s.name} ({s.kind})" for s in (like, step))
            yield Change(like.id, step.id, was, words, tuple(details), texts)


def _alone(
    ones: Sequence[_Part],
    others: Sequence[_Part],
    pairs: OneToOne[int],
    words: Callable[[_Part], str],
) -> Iterator[Change]:
    """The steps, or buffers, that only one of two plans has: ``ones`` are those of the first plan,
    ``others`` those of the second."""
    for part in ones:
        if part.number not in pairs.there:
            yield Change(part.id, "", words(part), "")
    for part in others:
        if part.number not in pairs.back:
            yield Change("", part.id, "", words(part))


def step_words(step: Step) -> str:
    """A line that describes ``step``."""
    written, read = touched_slots(step)
    parts = [f"{step.name} ({step.kind})"]
    parts += [f"writes {listed(written)}"] if written else []
    parts += [f"reads {listed(read)}"] if read else []
    return f"{parts[0]}{': ' if parts[1:] else ''}{', '.join(parts[1:])}"


def _positions(a: Step, b: Step, one: Whole, other: Whole) -> Iterator[str]:
    for step, plan in ((a, one), (b, other)):
        yield f"{step.number + 1} of {len(plan.steps)}"


def _code(step: Step) -> str:
    return "\n".join(map(plain_text, texts_of(step)))


def _step_details(a: Step, b: Step, fields: Sequence[str]) -> Iterator[Detail]:
    """The differences between the steps ``a`` and ``b``, which differ in ``fields``."""
    said: set[str] = set()
    for name in fields:
        for what, show in _STEP_FIELDS[name]:
            before, after = (_short(show(step)) for step in (a, b))
            if before != after and what not in said:
                said.add(what)
                yield Detail(what, before, after)
    code = _code(a), _code(b)
    if code[0] != code[1]:
        yield Detail("kernel, where it differs", *_line_counts(*code))
    elif not said and fields and "pointers" not in fields:  # none of them has words of its own
        name = fields[0]
        yield Detail(_HIDDEN.get(name, name), *(_short(str(getattr(s, name))) for s in (a, b)))


def _pointer_details(
    a: tuple[Step, Whole], b: tuple[Step, Whole], pairs: Matching
) -> Iterator[Detail]:
    """The buffers of one step alone; or, where both have the same, their order."""
    found = []
    for n, what in enumerate(("writes", "reads")):
        mine, theirs = touched_slots(a[0])[n], touched_slots(b[0])[n]
        only = [slot for slot in mine if pairs.slots.there.get(slot) not in theirs]
        others = [slot for slot in theirs if pairs.slots.back.get(slot) not in mine]
        if only or others:
            sides = ((only, a[1]), (others, b[1]))
            texts = (", ".join(slot_words(plan.slots[s]) for s in slots) for slots, plan in sides)
            found.append(Detail(what, *map(_short, texts)))
    return iter(found or [Detail("pointers", listed(a[0].pointers), listed(b[0].pointers))])


def _line_counts(a: str, b: str) -> tuple[str, str]:
    lines = [Counter(text.splitlines()) for text in (a, b)]
    found = [counted((lines[n] - lines[1 - n]).total(), "line") for n in (0, 1)]
    return found[0], found[1]


_HIDDEN = {"held": "sizes of buffers", "printed": "operations of its lines", "gpu": "kernels"}
"""Fields that are said in words only when nothing else differs."""

_Show = Callable[[Step], str]


def _only(what: str, show: _Show) -> tuple[tuple[str, _Show], ...]:
    return ((what, show),)


def _sizes(sizes: Iterable[Poly]) -> str:
    return ", ".join(map(str, sizes))


_LAUNCH: tuple[str, _Show] = ("launch", launch_text)
_STEP_FIELDS: Mapping[str, tuple[tuple[str, _Show], ...]] = {
    "number": (),
    "group": (),
    "held": (),
    "printed": (),
    "name": _only("name", lambda s: s.name),
    "kind": _only("kind", lambda s: s.kind),
    "pointers": (),
    "sizes": _only("sizes it is told", lambda s: _sizes(s.sizes)),
    "nodes": _only("the user's operations", lambda s: " ".join(s.nodes)),
    "parallel": _only("items", lambda s: str(s.parallel)),
    "launch": (_LAUNCH,),
    "flops": _only("flops", lambda s: str(s.flops)),
    "touching": _only("bytes", lambda s: str(s.nbytes)),
    "builtin": _only("calls", lambda s: s.callee),
    "ops": _only("computes", lambda s: " ".join(s.ops)),
    "device": _only("runs on", lambda s: str(s.device)),
    "gpu": (
        _LAUNCH,
        ("kernels to choose from", lambda s: str(len(s.gpu or ()))),
        ("library product", lambda s: formula_text(s.gpu.library) if s.gpu else ""),
    ),
    "call": _only("calls", lambda s: s.callee),
    "ranks": _only("ranks of its arguments", lambda s: " ".join(map(str, s.ranks))),
    "binds": _only(
        "binds", lambda s: f"the size in b{s.binds.slot} for {s.binds.op}" if s.binds else ""
    ),
    "keeps": _only("keeps", lambda s: listed(s.keeps)),
    "jump": _only("goes on", launch_text),
    "guard": _only("only where", lambda s: "; ".join(conditions(s.guard) if s.guard else ())),
    "renamed": _only(
        "stands for", lambda s: " ".join(id for ids in (s.renamed or {}).values() for id in ids)
    ),
    "exchange": _only("exchanges", launch_text),
    "arguments": _only("arguments", lambda s: "; ".join(map(formula_text, s.arguments))),
    "long": _only("operations of an item that may take long", lambda s: str(s.long or "")),
}
"""How the fields of a step are called and shown."""
assert _STEP_FIELDS.keys() >= {
    one.name for one in dataclasses.fields(Step)
} - {"loops", "strips", "others", "_traffic"}, "each field that is compared has words"  # fmt: skip


# ---------------------------------------------------------------- buffers
def _buffer_changes(
    one: Whole, other: Whole, pairs: Matching, renumbering: Renumbering
) -> Iterator[Change]:
    yield from _alone(one.slots, other.slots, pairs.slots, buffer_words)
    for number, other_number in pairs.slots.there.items():
        like, slot = one.slots[number], other.slots[other_number]
        renumbered = renumbering.slot(slot, like)
        if like != renumbered:
            details: tuple[Detail, ...] = tuple(_buffer_details(like, slot, renumbered))
            was, words = (f"{s.kind} {s.name}".strip() for s in (like, slot))
            if like.packing != renumbered.packing:
                details = (*_packing_details(like, one, slot, other, renumbered), *details)
            yield Change(like.id, slot.id, was, words, details)


def _buffer_details(a: Slot, b: Slot, renumbered: Slot) -> Iterator[Detail]:
    shown: Mapping[str, Callable[[Slot], str]] = {
        "kind": lambda s: s.kind,
        "dtype": lambda s: s.dtype.name,
        "shape": lambda s: f"[{_sizes(s.shape)}]",
        "nbytes": lambda s: str(s.nbytes),
        "index": lambda s: str(s.index),
        "name": lambda s: s.name,
        "device": lambda s: str(s.device),
        "order": lambda s: " ".join(map(str, s.order)) or "as the shape says",
        "data": _numbers,
    }
    words = {"nbytes": "bytes", "index": "number", "device": "on", "order": "axes in memory"}
    for name, show in shown.items():
        mine, theirs = getattr(a, name), getattr(renumbered, name)
        is_same = show(a) == show(renumbered) if name == "data" else mine == theirs
        if not is_same:
            yield Detail(words.get(name, name), _short(show(a)), _short(show(b)))


def _packing_details(
    a: Slot, one: Whole, b: Slot, other: Whole, renumbered: Slot
) -> Iterator[Detail]:
    """The differences between the packings of the buffers ``a`` and ``b``."""
    sources = [s.packing and plan.slots[s.packing.source] for s, plan in ((a, one), (b, other))]
    numbers = [s.packing and s.packing.source for s in (a, renumbered)]
    if numbers[0] != numbers[1]:
        yield Detail("is packed from", *(slot_words(s) if s else "" for s in sources))
    texts = [_short(formula_text(s.packing)) for s in (a, b)]
    if texts[0] != texts[1]:
        yield Detail("packing", *texts)


def _numbers(slot: Slot) -> str:
    """The first numbers of a constant, and what tells it from others."""
    if slot.data is None:
        return ""
    raw = slot.data.tobytes()
    first = " ".join(map(str, slot.data.reshape(-1)[:4]))
    more = " …" if slot.data.size > 4 else ""
    return f"{first}{more} (digest {_digest(raw)})"


def _digest(raw: bytes) -> str:

    return blake2b(raw, digest_size=4).hexdigest()


# ---------------------------------------------------------------- the whole
def _order_details(one: Whole, other: Whole, renumbering: Renumbering) -> Iterator[Detail]:
    """The differences between the fields of plans that are lists of numbers."""
    theirs = {
        "outputs": renumbering.slot_numbers(other.outputs),
        "cuts": [renumbering.step_number(number) for number in other.cuts],
        "aliases": {n: renumbering.slot_number(slot) for n, slot in other.aliases.items()},
        "loops": [renumbering.steps(steps) for steps in other.loops],
        "programs": [renumbering.steps(steps) for steps in other.programs],
    }
    shown: Mapping[str, tuple[str, Callable[[Whole], str]]] = {
        "outputs": ("outputs are in", lambda p: listed(p.outputs)),
        "cuts": ("sizes are bound before", lambda p: _step_ids(p.cuts)),
        "aliases": (
            "outputs that are buffers",
            lambda p: ", ".join(f"{n} is b{slot}" for n, slot in p.aliases.items()),
        ),
        "loops": ("loops", lambda p: _ranges(p.loops)),
        "programs": ("operations with regions", lambda p: _ranges(p.programs)),
    }
    for name, (what, show) in shown.items():
        if getattr(one, name) != theirs[name]:
            yield Detail(what, _short(show(one)), _short(show(other)))


def _step_ids(numbers: Iterable[int]) -> str:
    return " ".join(f"k{number}" for number in numbers)


def _ranges(ranges: Iterable[range]) -> str:
    return ", ".join(f"k{r.start} to k{r.stop - 1}" for r in ranges)


def _fact_details(one: Whole, other: Whole, renumbering: Renumbering) -> Iterator[Detail]:
    a, b = one.facts, renumbering.facts(other.facts)
    yield from _line_details(a, b)
    for part in dataclasses.fields(Facts):
        mine, theirs = getattr(a, part.name), getattr(b, part.name)
        if mine == theirs:
            continue
        if part.name == "ops":
            yield from _op_details(mine, theirs)
        elif part.name in ("inputs", "outputs", "weights"):
            yield from _record_details(part.name.removesuffix("s"), mine, theirs)
        elif part.name == "sizes":
            yield from _size_details(a, other.facts)
        else:
            yield Detail(
                _FACTS.get(part.name, part.name), *(_short(_plain(x)) for x in (mine, theirs))
            )


_FACTS = {
    "name": "name of the graph",
    "written": "inputs that are changed",
    "apart": "inputs that must not be one memory",
    "ahead": "computed when the model is loaded",
    "handles": "opaque handles",
}


def _line_details(a: Facts, b: Facts) -> Iterator[Detail]:
    """The first of the things that are of another line of the user, and how many others there
    are."""
    mine, theirs = ([*_lines_of(facts)] for facts in (a, b))
    known = dict(theirs)
    apart = [(what, at) for what, at in mine if what in known and known[what] != at]
    if apart:
        what, at = apart[0]
        more = f", and of {counted(len(apart) - 1, 'thing')} more" if len(apart) > 1 else ""
        yield Detail(f"the user's line of {what}{more}", *map(_line_text, (at, known[what])))


def _lines_of(facts: Facts) -> Iterator[tuple[str, Location | None]]:
    for op in facts.ops.values():
        yield f"operation {op.id}", op.at
    for number, output in enumerate(facts.outputs):
        yield f"output {number}", output.at
    for weight in facts.weights.values():
        yield f"the weight {weight.label}", weight.at


def _op_details(a: Mapping[str, OpFacts], b: Mapping[str, OpFacts]) -> Iterator[Detail]:
    """The differences between the operations besides their lines."""
    for id, op in a.items():
        other = b.get(id)
        if other is None or (op.name, op.fault, op.kernel) == (
            other.name,
            other.fault,
            other.kernel,
        ):
            continue
        if op.name != other.name:
            yield Detail(f"operation {id}", op.word, other.word)
        else:
            said = (f"{formula_text(x.fault)} {x.kernel or ''}".strip() for x in (op, other))
            yield Detail(f"messages of {id}", *map(_short, said))
    alone = [" ".join(op.word for id, op in x.items() if id not in y) for x, y in ((a, b), (b, a))]
    if any(alone):
        yield Detail("operations of one plan alone", *map(_short, alone))


def _line_text(at: Location | None) -> str:
    if at is None:
        return "not known"
    return _short(f"{at}, column {at.column}{': ' if at.text else ''}{at.text.strip()}")


def _record_details(what: str, a: Any, b: Any) -> Iterator[Detail]:
    """The differences between inputs, outputs or weights, which are numbered or named."""
    ones, others = (dict(x) if isinstance(x, Mapping) else dict(enumerate(x)) for x in (a, b))
    alone = [
        ", ".join(str(key) for key in x if key not in y)
        for x, y in ((ones, others), (others, ones))
    ]
    if any(alone):
        yield Detail(f"{what}s of one plan alone", *map(_short, alone))
    for key in (key for key in ones if key in others):
        mine, theirs = ones[key], others[key]
        for part in dataclasses.fields(mine):
            values = getattr(mine, part.name), getattr(theirs, part.name)
            if values[0] != values[1] and part.name != "at":
                yield Detail(f"{what} {key}, {part.name}", *(_short(_plain(x)) for x in values))


def _size_details(a: Facts, b: Facts) -> Iterator[Detail]:
    lines = [list(size_lines(facts)) for facts in (a, b)]
    mine, theirs = (Counter(found) for found in lines)
    only = ["; ".join((mine - theirs).elements()), "; ".join((theirs - mine).elements())]
    if any(only):
        yield Detail("conditions of sizes", *map(_short, only))
    elif lines[0] != lines[1]:
        yield Detail("order of the conditions of sizes", *(_short("; ".join(x)) for x in lines))
    else:
        yield Detail("operations that state sizes", *(_short(str(f.sizes)) for f in (a, b)))


def _plain(value: Any) -> str:
    """A value of the facts of a plan in a line."""
    if value is None:
        return ""
    if dataclasses.is_dataclass(value):
        return formula_text(value)
    if isinstance(value, (tuple, list, frozenset)):
        items = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(map(_plain, items))}]"
    return str(value)


# ---------------------------------------------------------------- totals
_TOTALS = (
    "arithmetic",
    "bytes read and written",
    "bytes of weights and constants",
    "bytes of packed weights",
    "bytes of intermediate values, one beside the other",
    "bytes of intermediate values at once",
    "bytes of outputs",
)


def _totals(plan: Whole) -> list[Poly | None]:
    def of(*kinds: SlotKind) -> Poly:
        return _sum(slot.nbytes for slot in plan.slots if slot.kind in kinds)

    return [
        _sum(step.flops for step in plan.steps),
        _sum(step.nbytes for step in plan.steps),
        of("weight", "constant"),
        of("packed"),
        of("arena"),
        peak(plan),
        of("output"),
    ]


def _sum(sizes: Iterable[Poly]) -> Poly:
    total = ZERO
    for size in sizes:
        total = total + size
    return total


def _amount(size: Poly | None) -> str:
    return "depends on the sizes" if size is None else _short(str(size))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


__all__ = ["diff"]

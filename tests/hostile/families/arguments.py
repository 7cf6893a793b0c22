"""Arguments of operations: each operation called with one or two values that nobody should pass."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

from maxlab.graph import Graph, ops
from tests.graph.bad_values import BAD, CALLS, METHODS, Setting, called
from tests.hostile.harness import Case, Family, WrongResultError


def _method(name: str, label: str) -> Case:
    def run(folder: Path) -> None:
        setting = Setting()
        with setting.graph:
            METHODS[name](setting, BAD[label]())

    return Case(f"{name} <- {label}", run)


def _operation(name: str, random: Random) -> Case:
    seed = random.random()

    def run(folder: Path) -> None:
        inner = Random(seed)
        setting = Setting()
        with setting.graph:
            arguments = CALLS[name](setting)
            for key in inner.sample(
                sorted(arguments), min(len(arguments), inner.choice((1, 1, 2)))
            ):
                bad = BAD[inner.choice(sorted(BAD))]()
                old = arguments[key]
                arguments[key] = (bad, *old[1:]) if key.startswith("*") else bad
            called(name, arguments)
        str(setting.graph)

    return Case(f"{name} with arguments drawn from {seed}", run)


def _draw(random: Random) -> Case:
    if random.random() < 0.25:
        return _method(random.choice(sorted(METHODS)), random.choice(sorted(BAD)))
    return _operation(random.choice(sorted(CALLS)), random)


def _huge(folder: Path) -> None:
    """An attribute that no decimal text can be written of is printed, saved and read."""
    setting = Setting()
    with setting.graph:
        setting.graph.output(ops.band_part(setting.x, num_lower=10**5000, num_upper=-(10**5000)))
    str(setting.graph)
    setting.graph.save(folder / "huge.mlir")
    again = Graph("again", path=folder / "huge.mlir")
    if str(again).partition("\n")[2] != str(setting.graph).partition("\n")[2]:
        raise WrongResultError("the saved graph reads back as another one")


SEEDS = [
    Case("band_part of 10**5000 diagonals", _huge),
]
SEEDS += [
    make()
    for make in (
        partial(_method, "permute", "none"),
        partial(_method, "x[_]", "deep"),
        partial(_method, "TensorType shape", "deep"),
        partial(_method, "TensorType dim", "past-int64"),
        partial(_method, "TensorType shape", "long"),
        partial(_method, "x + _", "masked"),
        partial(_method, "subgraph name", "nul-text"),
    )
]

FAMILIES = (Family("arguments", SEEDS, _draw, 8000),)

"""Every op of the table on what its samples leave out: other dtypes, other sizes, operands that are
views. The kernels of all cases are compiled together, some in one run of the compiler."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from maxlab.errors import ToolchainError
from maxlab.ir import Function
from maxlab.opset import OPSET, Sample
from tests.compiler.compiling import compile_all
from tests.compiler.interpret import Array, Builder, interpret, load, outputs_of
from tests.compiler.test_matrix import Case, compare_all
from tests.compiler.test_matrix import build as build_plain
from tests.compiler.variants import (
    LAYOUTS,
    PREPARED,
    SIZES,
    applied,
    laid_out,
    resized,
    retyped,
    taken,
)
from tests.sampling import chosen


@dataclass(frozen=True)
class Variant:
    """One variant: of which case, and how its operands lie in memory."""

    case: Case
    layouts: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What pytest calls it."""
        return "-".join((self.case.id, *self.layouts[:1]))

    def build(self) -> tuple[Function, list[Array]]:
        """The op alone in a function, behind the views of its operands, and the inputs."""
        if not self.layouts:
            return build_plain(self.case)
        b, inputs = Builder("variant"), list[Array]()
        results = applied(b, OPSET[self.case.name], self.case.sample, self.layouts, inputs)
        assert results is not None
        return b.output(*results), inputs


def _rows() -> Iterator[tuple[str, list[Sample]]]:
    for name, row in OPSET.items():
        samples = list(row.samples()) if row.samples is not None else []
        if samples and samples[0].arrays:
            yield name, samples


def layouts() -> Iterator[Variant]:
    """Two samples of every row in each layout: one of its first, and another one each time."""
    for name, samples in _rows():
        row = OPSET[name]
        fit = [s for s in samples if taken(row, s) and any(a.ndim for a in s.arrays)]
        for turn, layout in enumerate(LAYOUTS):
            chosen = {0, 1 + turn % max(len(fit) - 1, 1)} & set(range(len(fit)))
            for number in sorted(chosen):
                case = Case(name, number, fit[number], False)
                # the operands take turns, so that they do not all lie alike
                which = tuple(w for w in LAYOUTS[turn:] + LAYOUTS[:turn] if w != "repeated")
                if layout == "repeated":
                    if name in PREPARED:
                        continue
                    which = ("repeated", "plain")
                if applied(Builder(), row, case.sample, which, []) is not None:
                    yield Variant(case, which)


def dtypes() -> Iterator[Variant]:
    """The first sample of every row in the dtypes that no sample of the row has."""
    for name, samples in _rows():
        had = {s.arrays[0].dtype for s in samples}
        for number, made in enumerate(retyped(OPSET[name], samples[0])):
            if made.arrays[0].dtype not in had:
                yield Variant(Case(name, number, replace(made, shapes=None), False))


def sizes() -> Iterator[Variant]:
    """A sample of every row with named dims, in other sizes, with the names and without them."""
    for name, samples in _rows():
        named = next((s for s in samples if s.shapes is not None), None)
        if named is None or name in PREPARED:
            continue
        for number, first in enumerate(SIZES):
            made = resized(OPSET[name], named, (first, SIZES[-1 - number], 5))
            if made is not None:
                yield Variant(Case(name, number, made, bool(number % 2)))


_FIXED = {"mo.bind_dim", "mo.slice.bounds", "mo.rebind"}
"""Ops of a few scalars, or of names only: there is nothing to vary."""
VARIANTS = list(itertools.chain(layouts(), dtypes(), sizes()))


@pytest.fixture(scope="module", autouse=True)
def warm(request: pytest.FixtureRequest) -> None:
    """Compile the kernels of all variants that run at once."""
    variants = [params["variant"] for params in chosen(request, test_variant)]
    with contextlib.suppress(ToolchainError):  # found again by the test of the variant
        compile_all(v.build()[0] for v in variants if isinstance(v, Variant))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.id)
def test_variant(variant: Variant) -> None:
    function, inputs = variant.build()
    with np.errstate(all="ignore"):
        want = interpret(function, inputs)
    got = outputs_of(load(function), inputs)
    if not variant.layouts:
        compare_all(variant.case, got, want, inputs)
        return
    # the sizes of errors are judged by what the op reads, whatever lies around it
    arrays = [
        laid_out(Builder(), x, variant.layouts[n % len(variant.layouts)], [])[1]
        for n, x in enumerate(variant.case.sample.arrays)
    ]
    case = replace(variant.case, sample=replace(variant.case.sample, arrays=tuple(arrays)))
    compare_all(case, got, want, arrays)


def test_there_are_variants_of_every_kind() -> None:
    """Of every layout, of the dtypes, and of the sizes; of nearly every op."""
    seen = {variant.layouts[0] for variant in VARIANTS if variant.layouts}
    assert seen == set(LAYOUTS)
    assert {v.case.name for v in VARIANTS} >= {name for name, _ in _rows()} - _FIXED
    assert sum(not v.layouts for v in VARIANTS) > 100


def test_what_would_take_minutes_is_no_variant() -> None:
    """As in seed 13525: 67 images of 67 filters of 67 by 67 are 10^12 products."""
    row = OPSET["mo.conv_transpose"]
    assert row.samples is not None
    named = next(s for s in row.samples() if s.label == "all symbolic")
    assert resized(row, named, (2,)) is not None
    assert resized(row, named, (67,)) is None

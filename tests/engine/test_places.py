"""Where values are placed in the memory of a run."""

from __future__ import annotations

import random

import pytest

from maxlab.compiler.plan import Slot
from maxlab.dtype import DType
from maxlab.engine.layout import layout_arena
from maxlab.ir.poly import Poly


@pytest.mark.parametrize("seed", range(20))
def test_each_is_where_it_fits_first(seed: int) -> None:
    """Larger ones first, each at the first place that nothing used between the same steps has."""
    rng = random.Random(seed)
    slots: list[Slot] = []
    uses: dict[int, tuple[int, int]] = {}
    for number in range(rng.randint(0, 120)):
        nbytes = rng.choice([0, 1, 64, 65, 1000, 5000, rng.randint(0, 9999)])
        slots.append(Slot(number, "arena", DType.uint8, Poly.constant(nbytes), ()))
        first = rng.randint(0, 80)
        uses[number] = first, first + rng.choice([0, 1, 2, 5, 30])
    entries, total = layout_arena(slots, uses, {})

    def end(place: int, nbytes: int) -> int:
        return place + -(-max(nbytes, 1) // 64) * 64

    sizes = [entry.nbytes for entry in entries]
    assert sizes == sorted(sizes, reverse=True)
    assert {entry.slot for entry in entries} == set(uses)
    for n, entry in enumerate(entries):
        near = [x for x in entries[:n] if x.first <= entry.last and entry.first <= x.last]
        places = [0, *(end(x.offset, x.nbytes) for x in near)]
        free = [
            place
            for place in places
            if all(
                end(place, entry.nbytes) <= x.offset or end(x.offset, x.nbytes) <= place
                for x in near
            )
        ]
        assert entry.offset == min(free)
    assert total == max((end(x.offset, x.nbytes) for x in entries), default=0)

"""Random programs against their interpretation; ``scripts/fuzz`` runs thousands."""

from __future__ import annotations

import pytest

from maxlab.engine import launching
from tests.compiler.programs import run

FOUND = [676, 749, 793, 840]
"""Seeds that have found bugs."""


@pytest.mark.parametrize("seed", range(100, 108))
def test_random_program_in_small_chunks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is cut into as many chunks as it has rows, for three threads."""
    monkeypatch.setattr(launching, "GRAIN_COST", 1)
    assert run(seed, threads=3) >= 0


@pytest.mark.parametrize("seed", [*range(24), *FOUND])
def test_random_program(seed: int) -> None:
    assert run(seed) >= 0

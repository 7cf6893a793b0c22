"""Random programs against their interpretation; ``scripts/fuzz`` runs thousands."""

from __future__ import annotations

import pytest

from tests.compiler.programs import run

FOUND = [676, 749, 793, 840]
"""Seeds that have found bugs."""


@pytest.mark.parametrize("seed", [*range(24), *FOUND])
def test_random_program(seed: int) -> None:
    assert run(seed) >= 0

"""Hostile input of every family: each case is right or a typed error, and never anything else.

A push runs a sample of the seeds and of the other cases; ``--all`` runs every case.
``python -m tests.hostile`` runs families outside of pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.families import FAMILIES
from tests.hostile.harness import Family, Outcome, table

ROOT = Path(__file__).resolve().parents[2]

BLOCKS = [
    (family, first)
    for family in FAMILIES
    for first in range(len(family.seeds), family.count, family.block)
]


def check(family: Family, first: int, end: int) -> None:
    """Fail with every case that did not end well."""
    # A fresh process forks for the cases: this one may be large and have threads.
    command = [sys.executable, "-m", "tests.hostile", "--json", f"{family.name}:{first}:{end}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [Outcome(*row) for row in json.loads(done.stdout)]
    assert len(outcomes) == end - first
    bad = [outcome for outcome in outcomes if not outcome.is_good]
    assert not bad, "\n\n".join([table(family.name, outcomes), *map(str, bad)])


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_seeds(family: Family) -> None:
    check(family, 0, len(family.seeds))


@pytest.mark.parametrize(
    ("family", "first"), BLOCKS, ids=[f"{family.name}-{first}" for family, first in BLOCKS]
)
def test_cases(family: Family, first: int) -> None:
    check(family, first, min(first + family.block, family.count))


def test_there_are_enough() -> None:
    assert all(family.count >= 1000 for family in FAMILIES)
    assert sum(family.count for family in FAMILIES) >= 50_000

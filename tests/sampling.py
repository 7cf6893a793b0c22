"""Seeded samples of the big families of tests: what a push runs of them, and how it says so.

A *family* is a test module, or one test function of it, with hundreds of cases that are alike, of
which each push runs a sample. ``--all`` runs them whole, as does naming a case's own id on the
command line. Which cases a sample has is decided by a seed: the commit that is tested, unless
``--sample-seed`` or ``MAXLAB_SAMPLE_SEED`` gives another. So one commit always runs the same cases,
and many commits run all of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Family:
    """Tests whose ids begin with ``prefix``; a push runs ``share`` of each group's cases, and of
    each group one at least. A group is what shares an id before the first ``split`` in it: by
    default the cases of one test function."""

    name: str
    prefix: str
    share: Fraction
    split: str = "["


_THIRD, _QUARTER, _HALF = Fraction(1, 3), Fraction(1, 4), Fraction(1, 2)

FAMILIES: tuple[Family, ...] = (
    Family("ops on a GPU", "tests/cuda/test_ops.py", _QUARTER),
    Family("GPU products of awkward sizes", "tests/cuda/test_hostile_products.py", _QUARTER),
    Family("GPU masks of attention", "tests/cuda/test_hostile_masks.py", _THIRD),
    Family("GPU attention templates", "tests/cuda/test_attention_kernel.py", _QUARTER),
    Family("GPU product templates", "tests/cuda/test_product.py", _QUARTER),
    Family("GPU templates in graphs", "tests/cuda/test_products.py", _THIRD),
    Family("GPU options", "tests/cuda/test_options.py", _THIRD),
    Family("random programs on a GPU", "tests/cuda/test_random_programs.py", _THIRD),
    Family("ops under each option", "tests/compiler/test_options.py", _QUARTER),
    Family("variants of ops", "tests/compiler/test_variants.py", _QUARTER),
    Family("random programs over the table", "tests/compiler/test_whole_table.py", _HALF),
    Family("packed operands", "tests/compiler/test_packed.py", _HALF),
    Family("options of sessions", "tests/engine/test_session_options.py", _QUARTER),
    Family("analyses that find no fault", "tests/analysis/check/test_sound.py", _THIRD),
    Family("packed kernels in C", "tests/kernels_c/test_packed.py", _HALF),
    Family("products in C", "tests/kernels_c/test_gemm.py", _HALF),
    Family("operations of torch", "tests/torch_import/test_operations.py", _HALF),
    Family("hostile weight files", "tests/graph/test_weights_hostile.py", _HALF),
    Family("hostile input", "tests/hostile/test_table.py::test_cases", Fraction(1, 50), "-"),
)


@dataclass(slots=True)
class Sample:
    """What was chosen of the families, by name: ``(cases that run, cases there are)``."""

    seed: str
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """One line a family: how many of how many cases run."""
        return [
            f"{name}: {chosen} of {cases} cases"
            for name, (chosen, cases) in sorted(self.counts.items())
        ]


def seed_of(root: Path = ROOT) -> str:
    """The seed of a run that is given none: the commit of the checkout, ``"0"`` outside of one."""
    if given := os.environ.get("MAXLAB_SAMPLE_SEED"):
        return given
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "0"
    return done.stdout.strip() or "0"


def family_of(nodeid: str, families: Sequence[Family] = FAMILIES) -> Family | None:
    """The family of the test ``nodeid``: that with the longest prefix; None for tests of none."""
    fitting = [family for family in families if nodeid.startswith(family.prefix)]
    return max(fitting, key=lambda family: len(family.prefix), default=None)


def sample(
    nodeids: Sequence[str], seed: str, families: Sequence[Family] = FAMILIES
) -> tuple[set[str], Sample]:
    """The ids that run, and what was chosen of each family.

    Args:
        nodeids: All collected tests.
        seed: Decides which cases are chosen.
        families: What is sampled; every test of no family runs.
    """
    kept: set[str] = set()
    groups: dict[tuple[Family, str], list[str]] = {}
    for nodeid in nodeids:
        family = family_of(nodeid, families)
        if family is None:
            kept.add(nodeid)
        else:
            groups.setdefault((family, nodeid.partition(family.split)[0]), []).append(nodeid)
    made = Sample(seed)
    for (family, _), cases in groups.items():
        count = max(1, ceil(len(cases) * family.share))
        kept.update(sorted(cases, key=lambda case: _rank(seed, case))[:count])
        chosen, total = made.counts.get(family.name, (0, 0))
        made.counts[family.name] = (chosen + count, total + len(cases))
    return kept, made


def _rank(seed: str, nodeid: str) -> bytes:
    return hashlib.blake2b(f"{seed}\0{nodeid}".encode(), digest_size=8).digest()


def named_on(config: pytest.Config, nodeid: str) -> bool:
    """Whether the command line names this very case, which then runs whatever the sample is."""
    return any("[" in argument and nodeid.endswith(argument) for argument in config.args)


def chosen(request: pytest.FixtureRequest, test: object) -> list[dict[str, object]]:
    """The parameters of each case of the test function ``test`` that runs.

    For fixtures that ready all cases at once: what no case needs is not readied.
    """
    return [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test
    ]

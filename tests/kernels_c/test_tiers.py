"""The page of how exact functions are: it is drawn from what was measured, and that still holds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from maxlab.toolchain.flags import ACCURACIES
from scripts.exhaustive import tiers
from scripts.exhaustive.judge import judge
from tests.kernels_c.test_exhaustive import every_exponent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
MARK = "<!-- made with MAXLAB_WRITE_DOCS=1 by tests/kernels_c/test_tiers.py -->\n"
KEPT = tiers.kept()
CASES = [(name, who) for who in ACCURACIES for name in tiers.OWN[who]]
OTHERS = [(name, who) for who in ("exact", "fast") for name in tiers.FUNCTIONS
          if name not in tiers.OWN[who]]  # fmt: skip


def test_the_page_is_up_to_date() -> None:
    head, mark, written = PAGE.read_text("utf-8").partition(MARK)
    assert mark
    if os.environ.get("MAXLAB_WRITE_DOCS"):
        PAGE.write_text(head + MARK + tiers.page(), "utf-8")
    else:
        assert written == tiers.page(), f"run MAXLAB_WRITE_DOCS=1 pytest {Path(__file__).name}"


@pytest.mark.parametrize(("name", "who"), CASES)
def test_no_input_is_further_off_than_the_table_says(name: str, who: str) -> None:
    """Half a unit more is granted to other CPUs, whose quotients are divided, of fast functions."""
    tabled = KEPT[name][who]
    x = np.concatenate([every_exponent(), np.array([tabled["at"]], np.float32)])
    found = judge(tiers.case_of(name))(x, tiers.runner(name, who)(x))
    assert found.ulps <= tabled["ulps"] + (0.5 if who == "fast" else 1e-3), found
    assert found.special <= tabled["special"], found


@pytest.mark.parametrize(("name", "who"), OTHERS)
def test_what_has_no_formula_of_its_own_gives_the_bits_of_the_default(name: str, who: str) -> None:
    x = every_exponent()
    got, want = (tiers.runner(name, one)(x) for one in (who, "default"))
    np.testing.assert_array_equal(got, want)
    if who == "exact":  # else a zero may have either sign
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize(("name", "who"), CASES)
def test_a_sample_is_measured(name: str, who: str) -> None:
    found = tiers.measure(name, who, 1 << 16)
    assert found.inputs == 1 << 16
    assert 0.45 < found.ulps <= KEPT[name][who]["ulps"] + (0.5 if who == "fast" else 1e-3)


@pytest.mark.parametrize("name", tiers.FUNCTIONS)
def test_no_exact_function_is_off_by_more_than_a_unit(name: str) -> None:
    """But for a product of two, each of which is rounded."""
    found = KEPT[name].get("exact", KEPT[name]["default"])
    assert found["ulps"] <= (2 if name == "tanh_sigmoid" else 1)
    assert found["special"] == 0


@pytest.mark.parametrize("name", tiers.FUNCTIONS)
def test_torch_is_no_more_exact_than_the_default(name: str) -> None:
    """But for subnormal results of exp, whose largest error is of those."""
    found = KEPT[name]["default"]
    if name == "exp":
        assert found["ulps"] < 0.77
        assert float(found["at"]) < -87.3
        return
    assert KEPT[name]["torch"]["ulps"] >= found["ulps"]


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu", "gelu_tanh"])
def test_torch_is_no_more_exact_than_fast_ones(name: str) -> None:
    assert KEPT[name]["torch"]["ulps"] >= 0.99 * KEPT[name]["fast"]["ulps"]

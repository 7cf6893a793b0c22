"""Every unary op on float32: the inputs that were worst of all 2^32, and some of every exponent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.toolchain.prelude import Prelude, prelude
from scripts.exhaustive import main as command
from scripts.exhaustive.cases import UnaryCase, unary_cases
from scripts.exhaustive.judge import Finding, judge, referenced
from scripts.exhaustive.report import NAME, Book, number

CASES = list(unary_cases())
KEPT = json.loads((command.RESULTS / f"{NAME}.json").read_text())["ops"]
WORST = {
    # where earlier kernels were off by more than they may: by 1.0 to 1.6 ulps, gelu by up to 10^37
    "rsqrt": [1.1827658e-38, 1.4e-45, 3.0e-39, 2.0**-60],
    "exp": [-5.8577867, 26.729578, 88.72284, 88.722839, -103.97208, -87.33655],
    "log1p": [-8.940697e-08, 0.41237232, -0.99999994, 2.0**-24, 3.4e38],
    "sin": [1.0300072e07, 25.971357, 2.794678e26],
    "cos": [1.9468792e09, 1.5707964],
    "atanh": [0.6026068, -0.6026068, 0.99999994, 0.5],
    "acos": [0.55842876, 0.99999994, -0.99999994, 0.5, -0.5],
    "sigmoid": [1.9559405, -1.6606324, -87.58667, -103.9, -104.1, 3.0e38],
    "silu": [0.28952804, -91.87626, -110.5, -1.0e30, 3.0e38],
    "gelu": [0.025, -1.8277507, -8.786215, -13.9, -14.2, 1.4e-45, -0.6, 0.6, -3.0e38],
    "gelu_tanh": [-10.102411, -5.3, 9.0, -3.0e38, 3.0e38],
    "gelu_quick": [-53.91595, -61.5, -1.0e30, 3.0e38],
}


def every_exponent(count: int = 300) -> np.ndarray[Any, Any]:
    """Numbers of every exponent and sign: the ends of their ranges, and some between."""
    rng = np.random.default_rng(3)
    ends = np.tile([0, 1, 2, (1 << 23) - 1, 1 << 22], (512, 1))
    mantissas = np.concatenate([ends, rng.integers(0, 1 << 23, (512, count))], axis=1)
    bits = (mantissas | (np.arange(512)[:, None] << 23)).ravel()
    made: np.ndarray[Any, Any] = bits.astype(np.uint32).view(np.float32)
    return made


def check(case: UnaryCase, found: Finding) -> None:
    assert found.special == 0, (case.name, found.special, number(found.special_at))
    assert found.ulps <= case.limit, (case.name, found.ulps, number(found.ulps_at))
    assert found.steps <= case.row.ulps, (case.name, found.steps, number(found.steps_at))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_bounds_hold(case: UnaryCase) -> None:
    worst = [np.array(WORST.get(case.name, []), np.float32)]
    for part in KEPT.get(case.name, {"parts": []})["parts"]:
        bits = [part["ulps_at"], part["steps_at"], part["special_at"]]
        worst.append(np.array(bits, np.uint32).view(np.float32))
    x = np.concatenate([*worst, -np.concatenate(worst), every_exponent()])
    check(case, judge(case)(x, command.results_of(case.load(), x)))


def test_all_numbers_were_run_for_what_is_not_exact_and_no_bound_is_broken() -> None:
    assert set(KEPT) <= {case.name for case in CASES}
    for name in {case.name for case in CASES} & set(referenced()):
        at = 0
        for part in sorted(KEPT[name]["parts"], key=lambda part: int(part["low"])):
            assert part["low"] == at, name
            at = part["high"]
        assert at == command.ALL, name
    assert Book(command.RESULTS, {}).broken() == []


def test_every_inexact_op_has_a_reference_in_double() -> None:
    assert {case.name for case in CASES if not case.exact} <= set(referenced())


@pytest.mark.parametrize(
    ("bits", "exact", "kind"),
    [
        (0x3F800001, 1.0, "ulps"),
        (0x7FC00000, 1.0, "special"),
        (0x7F800000, 1.0, "special"),
        (0xBF800000, 1.0, "steps"),
    ],
)
def test_a_wrong_result_is_found(bits: int, exact: float, kind: str) -> None:
    case = next(case for case in CASES if case.name == "exp")
    x = np.zeros(2048, np.float32)
    got = np.full(2048, exact, np.float32)
    assert judge(case)(x, got) == Finding(2048, rechecked=1)
    got[1027] = np.array(bits, np.uint32).view(np.float32)
    found = judge(case)(x, got)
    assert getattr(found, kind) >= 1
    with pytest.raises(AssertionError):
        check(case, Finding(ulps=found.ulps * 2, steps=found.steps * 3, special=found.special))


def test_a_zero_of_the_wrong_sign_is_found() -> None:
    case = next(case for case in CASES if case.name == "tanh")
    x = np.array([0.0, -0.0], np.float32)
    assert judge(case)(x, x).special == 0
    assert judge(case)(x, -x).special == 2
    exact = next(case for case in CASES if case.name == "trunc")
    assert judge(exact)(x, -x).special == 2


def test_parts_are_kept_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--ops", "trunc,exp", "--part", "7/4096", "--threads", "1", "--out", str(tmp_path)]
    assert command.main(arguments, "") == 0
    first = capsys.readouterr().out
    for word in ("exp 7/4096", "trunc 7/4096", "all bounds hold"):
        assert word in first
    assert command.main(arguments, "") == 0
    assert "7/4096" not in capsys.readouterr().out
    text = (tmp_path / f"{NAME}.md").read_text()
    for word in ("| `exp` | 1 |", "0.0%"):
        assert word in text
    kept = tmp_path / f"{NAME}.json"
    kept.write_text(kept.read_text().replace('"ulps": 0.', '"ulps": 7.'))
    assert command.main(arguments, "") == 1
    assert "not 1.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "other"),
    [
        ("i64 version;", "i64 version, more;", False),  # the interface
        ("/* e^x of the floats of a vector", "/* what comes is e^x", False),
        ("all(-3.19461833e-05f)", "all(-3.19461873e-05f)", True),
        ("f32 p = 0.0674664006f;", "f32 p = 0.0674664016f;", False),  # of the logarithm
    ],
)
def test_only_code_that_computes_makes_another_kernel(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, other: bool
) -> None:
    model = next(case for case in CASES if case.name == "exp").load()
    before, text = command.kernel_of(model), prelude().text
    assert text.count(old) == 1
    monkeypatch.setattr(command, "prelude", lambda: Prelude(text.replace(old, new)))
    assert (command.kernel_of(model) != before) is other


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--ops", "nothing"], ["--part", "5/4"]):
        with pytest.raises(SystemExit):
            command.main(arguments, "")
    assert "--list names them" in capsys.readouterr().err

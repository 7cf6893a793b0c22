"""Samples of big families: the same for one seed, whole over many, and never nothing."""

from __future__ import annotations

from fractions import Fraction

from tests.sampling import FAMILIES, ROOT, Family, family_of, sample

ODD = Family("odd", "tests/odd", Fraction(1, 3))
CASES = [f"tests/odd/test_a.py::test_x[{n}]" for n in range(10)]
ALONE = ["tests/odd/test_a.py::test_alone", "tests/even/test_b.py::test_y[1]"]


def test_a_seed_decides() -> None:
    first, said = sample(CASES + ALONE, "abc", [ODD])
    assert sample(CASES + ALONE, "abc", [ODD])[0] == first
    assert set(ALONE) <= first
    assert len(first) == 4 + len(ALONE)
    assert said.counts == {"odd": (5, 11)}
    assert said.lines() == ["odd: 5 of 11 cases"]


def test_many_seeds_run_everything() -> None:
    seen = set().union(*(sample(CASES, str(seed), [ODD])[0] for seed in range(60)))
    assert seen == set(CASES)


def test_the_longest_prefix_is_the_family() -> None:
    inner = Family("inner", "tests/odd/test_a.py::test_x", Fraction(1, 2))
    assert family_of(CASES[0], [ODD, inner]) is inner
    assert family_of("tests/odd/test_b.py::test_z", [ODD, inner]) is ODD


def test_every_family_is_there() -> None:
    for family in FAMILIES:
        prefixes = (family.prefixes,) if isinstance(family.prefixes, str) else family.prefixes
        for prefix in prefixes:
            file, _, test = prefix.partition("[")[0].partition("::")
            assert (ROOT / file).exists(), prefix
            assert not test or f"def {test}(" in (ROOT / file).read_text("utf-8"), prefix


def test_a_family_without_a_split_is_one_group() -> None:
    slow = Family("slow", ("tests/odd", "tests/even"), Fraction(1, 4), "")
    kept, said = sample(CASES + ALONE, "1", [slow])
    assert said.counts == {"slow": (3, 12)}
    assert len(kept) == 3


def test_a_share_of_nothing_is_left_to_all() -> None:
    families = (Family("slow", "tests/slow.py", Fraction(0)),)
    kept, made = sample(["tests/slow.py::test_a", "tests/other.py::test_b"], "seed", families)
    assert kept == {"tests/other.py::test_b"}
    assert made.counts == {"slow": (0, 1)}


def test_of_few_cases_all_run() -> None:
    few = Family("few", "tests/odd", Fraction(1, 5), least=4)
    kept, made = sample(CASES + ALONE, "1", [few])
    assert made.counts == {"few": (5, 11)}  # four of the ten, and the one that stands alone
    assert len(kept) == 6


def test_groups_that_run_whole() -> None:
    whole = Family("whole", "tests/", Fraction(1, 2), "::", whole=True)
    names = [f"tests/{file}.py::test_{n}" for file in "abcd" for n in range(3)]
    kept, made = sample(names, "1", [whole])
    files = {name.partition("::")[0] for name in kept}
    assert len(files) == 2
    assert kept == {name for name in names if name.partition("::")[0] in files}
    assert made.counts == {"whole": (6, 12)}

"""Variants: chosen by a clock, kept for other processes, and never in the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from maxlab import trace
from maxlab.config import config, read_config, set_config
from maxlab.errors import ArgumentError
from maxlab.toolchain import variants
from maxlab.toolchain.variants import Case, Family, Trial, Variant, timing
from maxlab.toolchain.variants.choosing import Choice
from maxlab.toolchain.variants.measurer import Measurer


class Fake(Family):
    """Three ways that take as long as ``took`` says, on a clock that only they move."""

    name = "fake"
    axes = ("n",)

    def __init__(self, **took: int) -> None:
        self.took = {"plain": 1000, "quick": 1000, "other": 1000, "impossible": 1} | took
        self.now = 0
        self.trials = 0
        self.during: Callable[[], object] = lambda: None

    def variants(self, case: Case) -> Sequence[Variant]:
        return (
            Variant("plain", (0,)),
            Variant("quick", (1,)),
            Variant("other", (2,), bits="other"),
            Variant("impossible", (3,), needs=frozenset({"no-such-feature"})),
        )[: 4 if case[0] else 1]

    def shape_class(self, case: Case) -> Case:
        return tuple(map(variants.rounded, case)) if case[0] else case

    def trial(self, case: Case) -> Trial:
        self.trials += 1

        def run(variant: Variant) -> None:
            self.during()
            self.now += self.took[variant.name]

        return Trial(run, f"{case[0]} numbers")


Made = Callable[..., Fake]


@pytest.fixture
def mode(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Sets how variants are chosen; the cache is empty at first."""
    before = set_config(replace(config(), cache_dir=tmp_path / "cache", variants="on"))

    def choose_by(how: str) -> None:
        variants.forget()
        variants.use(how)

    yield choose_by
    variants.forget()
    set_config(before)


@pytest.fixture
def fake(mode: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Made:
    def make(**took: int) -> Fake:
        made = Fake(**took)
        monkeypatch.setattr(timing, "clock", lambda: made.now)
        return made

    return make


def verdict_files() -> list[Path]:
    return sorted((config().cache_dir / "variants").rglob("*.json"))


def test_the_first_answer_is_the_guess_and_a_later_one_what_was_measured(fake: Made) -> None:
    family = fake(quick=900)
    go = threading.Event()
    family.during = lambda: go.wait(20)
    choice = variants.choose(family, (100,))
    assert (choice.variant.name, choice.state.origin) == ("plain", "guess")
    told: list[str] = []
    choice.then(lambda: told.append(choice.variant.name))
    assert not told, "nothing was measured yet"
    go.set()
    assert variants.wait(20)
    assert told == ["quick"]
    assert variants.choose(family, (128,)) is choice, "one class of sizes has one choice"
    assert choice.state.origin == "measured"
    assert choice.state.times == {"plain": 1000, "quick": 900}
    assert choice.state.trial == "128 numbers"


def test_a_gain_that_may_be_noise_changes_nothing(fake: Made) -> None:
    choice = variants.choose(fake(quick=980), (100,))
    assert variants.wait(20)
    assert (choice.variant.name, choice.state.origin) == ("plain", "measured")


@pytest.mark.parametrize("exact", [True, False])
def test_other_bits_are_for_those_who_do_not_mind(fake: Made, exact: bool) -> None:
    choice = variants.choose(fake(quick=900, other=100), (100,), exact=exact)
    assert variants.wait(20)
    assert choice.variant.name == ("quick" if exact else "other")


def test_what_this_cpu_cannot_run_is_not_tried(fake: Made) -> None:
    choice = variants.choose(fake(), (100,), exact=False)
    assert variants.wait(20)
    assert [one.name for one in choice.variants] == ["plain", "quick", "other"]


def test_one_variant_needs_no_timing(fake: Made) -> None:
    family = fake()
    assert variants.choose(family, (0,)).state.origin == "only"
    assert variants.wait(20)
    assert not family.trials


def test_off_is_the_guess(fake: Made, mode: Callable[[str], None]) -> None:
    family = fake(quick=100)
    variants.choose(family, (100,))
    assert variants.wait(20)
    assert verdict_files()
    mode("off")
    choice = variants.choose(family, (100,))
    assert variants.wait(20)
    assert (choice.variant.name, choice.state.origin) == ("plain", "off")
    assert family.trials == 1


def test_deterministic_is_measured_first_and_never_again(
    fake: Made, mode: Callable[[str], None]
) -> None:
    mode("deterministic")
    family = fake(quick=500, other=1)
    assert variants.choose(family, (100,), exact=False).variant.name == "quick"
    for took in (2000, 10):  # whatever the clock says later
        mode("deterministic")
        family = fake(quick=took)
        choice = variants.choose(family, (100,), exact=False)
        assert (choice.variant.name, choice.state.origin) == ("quick", "kept")
        assert not family.trials


def test_the_first_process_decides(fake: Made, mode: Callable[[str], None]) -> None:
    mode("deterministic")
    first = fake(quick=500)
    variants.choose(first, (100,))
    [file] = verdict_files()
    late = fake(plain=100, quick=5000)
    # As it is for a process that looked before the other one wrote.
    content = file.read_bytes()
    late.during = lambda: file.write_bytes(content)
    file.unlink()
    mode("deterministic")
    choice = variants.choose(late, (100,))
    assert late.trials == 1
    assert choice.variant.name == "quick"
    assert choice.state.times["quick"] == 500


BAD: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "half": lambda text: text[: len(text) // 2],
    "a list": lambda text: "[]",
    "no such variant": lambda text: text.replace('"chosen": "quick"', '"chosen": "rm -rf"'),
    "of another CPU": lambda text: json.dumps(json.loads(text) | {"cpu": "00000000"}),
    "of other sizes": lambda text: json.dumps(json.loads(text) | {"case": [7]}),
    "of another version": lambda text: json.dumps(json.loads(text) | {"version": 99}),
    "no times": lambda text: json.dumps(json.loads(text) | {"times": {"quick": 1}}),
    "negative": lambda text: json.dumps(json.loads(text) | {"times": {"quick": -1, "plain": 1}}),
    "deep": lambda text: "[" * 50_000,
    "huge": lambda text: " " * (1 << 17),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_does_not_fit_is_passed_over_and_replaced(
    fake: Made, mode: Callable[[str], None], kind: str
) -> None:
    mode("deterministic")
    variants.choose(fake(quick=500), (100,))
    [file] = verdict_files()
    file.write_text(BAD[kind](file.read_text()))
    mode("deterministic")
    trace.recorder().clear()
    family = fake(plain=100)
    choice = variants.choose(family, (100,))
    assert family.trials == 1
    assert choice.variant.name == "plain"
    [event] = [e for e in trace.recorder().events("warning") if e.name == "variants"][:1]
    assert file.name in event.data["message"]
    assert choice.state.note
    mode("deterministic")
    assert variants.choose(fake(), (100,)).state.origin == "kept"
    assert verdict_files() == [file]


def test_a_cache_that_cannot_be_written_costs_measuring_again(
    fake: Made, mode: Callable[[str], None]
) -> None:
    config().cache_dir.mkdir()
    (config().cache_dir / "variants").write_text("in the way")
    mode("deterministic")
    choice = variants.choose(fake(quick=500), (100,))
    assert choice.variant.name == "quick"
    assert "could not be kept" in choice.state.note


def test_too_little_time_leaves_the_guess(fake: Made) -> None:
    family = fake(quick=timing.BUDGET_NS, plain=timing.BUDGET_NS)
    choice = variants.choose(family, (100,))
    assert variants.wait(20)
    assert choice.variant.name == "plain"
    assert choice.state.origin == "measured"
    assert choice.state.times == {}
    assert family.now <= 2 * timing.BUDGET_NS


def test_a_hopeless_variant_is_timed_twice(fake: Made) -> None:
    family = fake(quick=1_000_000)
    variants.choose(family, (100,))
    assert variants.wait(20)
    assert family.now == 3 * (1_000_000 + 1000), "a turn for the caches, and two that count"


def test_a_trial_that_fails_leaves_the_guess(fake: Made) -> None:
    family = fake(quick=1)

    def fail() -> None:
        raise MemoryError("none")

    family.during = fail
    choice = variants.choose(family, (100,))
    assert variants.wait(20)
    assert (choice.variant.name, choice.state.origin) == ("plain", "guess")
    assert "none" in choice.state.note
    assert not choice.is_pending


def test_the_end_of_a_process_ends_the_measuring(fake: Made) -> None:
    family = fake()
    measurer = Measurer()
    begun = threading.Event()
    family.during = begun.set
    choice = Choice(
        family,
        (128,),
        family.usable((128,)),
        variants.State(family.usable((128,))[0], "guess", {}),
    )
    choice.is_pending = True

    def forever(stopped: Callable[[], bool]) -> None:
        def slow() -> None:
            begun.set()
            while not stopped():
                pass

        family.during = slow
        choice.decide(stopped)

    measurer.add(forever)
    assert begun.wait(20)
    measurer._end()
    assert not choice.is_pending
    assert (choice.variant.name, choice.state.origin) == ("plain", "guess")
    assert not verdict_files()


SECOND = """
from maxlab.toolchain import variants
from maxlab.toolchain.variants import timing
from tests.toolchain.test_variants import Fake

def no_clock():
    raise AssertionError("nothing is to be measured")

timing.clock = no_clock
choice = variants.choose(Fake(), (100,))
assert variants.wait(20)
print(choice.variant.name, choice.state.origin)
"""
KILLED = """
import time
from maxlab.toolchain import variants
from tests.toolchain.test_variants import Fake

family = Fake()
family.during = lambda: (print("begun", flush=True), time.sleep(60))
variants.choose(family, (100,))
variants.wait(60)
"""


def environment(how: str = "on") -> dict[str, str]:
    return os.environ | {"MAXLAB_CACHE_DIR": str(config().cache_dir), "MAXLAB_VARIANTS": how}


@pytest.mark.parametrize("how", ["on", "deterministic"])
def test_a_second_process_takes_what_the_first_has_measured(fake: Made, how: str) -> None:
    variants.choose(fake(quick=500), (100,))
    assert variants.wait(20)
    done = subprocess.run(
        [sys.executable, "-c", SECOND],
        env=environment(how),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "quick kept\n", done.stderr


def test_a_process_that_is_killed_leaves_nothing_behind(
    fake: Made, mode: Callable[[str], None]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not verdict_files()
    mode("deterministic")
    assert variants.choose(fake(quick=500), (100,)).variant.name == "quick"


def test_processes_that_fork_do_not_wait_for_a_thread_of_their_parent(fake: Made) -> None:
    family = fake(quick=100)
    go = threading.Event()
    family.during = lambda: go.wait(20)
    variants.choose(family, (100,))
    child = os.fork()
    if child == 0:
        family.during = lambda: None
        choice = variants.choose(family, (100,))
        os._exit(0 if variants.wait(20) and choice.variant.name == "quick" else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    assert variants.wait(20)


def test_settings_are_words() -> None:
    assert read_config({}).variants == "on"
    assert read_config({"MAXLAB_VARIANTS": "deterministic"}).variants == "deterministic"
    with pytest.raises(ArgumentError, match="MAXLAB_VARIANTS") as caught:
        read_config({"MAXLAB_VARIANTS": "maybe"})
    assert caught.value.code == "ML225"
    with pytest.raises(ArgumentError) as caught:
        variants.use("sometimes")
    assert caught.value.code == "ML225"

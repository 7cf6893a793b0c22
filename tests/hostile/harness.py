"""Runs hostile cases, each in a process of its own with limits, and names how each one ended.

A *family* makes cases out of numbers: `Family.case(n)` is always the same case. The first numbers
are its *seeds*, inputs that once did harm; the rest are drawn at random. The code of the family
decides what a case does, in a child that was forked for it:

=========  ===================================================================================
outcome    how the case ended
=========  ===================================================================================
right      it returned; where there is something to compare, the family compared it
typed      it raised a `MaxlabError`
bare       it raised another exception
wrong      the family found a result that is not what it should be, or something lost
signal     the process died of a signal, or ended without a word
hang       it used 2 seconds of processor time, or did not end in 30 seconds
memory     it raised `MemoryError`, or its memory grew beyond the limit of its family
=========  ===================================================================================

Only the first two are good.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from maxlab.errors import MaxlabError

GOOD = ("right", "typed")
OUTCOMES = (*GOOD, "bare", "wrong", "signal", "hang", "memory")

CPU_S = 2.0
"""Seconds of processor time that a case may use."""
WALL_S = 30.0
"""Seconds that it may take, on a machine that is busy with other work."""
MEMORY = 512 << 20
"""Bytes that a case may add to the process that it is forked from."""


class WrongResultError(Exception):
    """What a family raises for a result that is not what it should be."""


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile input: a name that says what it is, and what is done with it."""

    name: str
    run: Callable[[Path], object]
    """Called in the child with an empty folder of its own."""


@dataclass(frozen=True, slots=True)
class Family:
    """Cases that are alike.

    Args:
        name: One word, part of the names of its tests.
        seeds: Inputs that once did harm, as functions that make the case.
        draw: The case that a random generator decides.
        count: The number of cases under ``--all``, seeds included.
        ready: Run once before the first case, so that cases find modules and kernels ready.
        memory: Bytes that a case may add to the process.
        block: How many cases one test runs.
    """

    name: str
    seeds: Sequence[Case]
    draw: Callable[[Random], Case]
    count: int
    ready: Callable[[], object] = lambda: None
    memory: int = MEMORY
    block: int = 50

    def case(self, number: int) -> Case:
        """The case of that number; the first ones are the seeds."""
        if number < len(self.seeds):
            return self.seeds[number]
        return self.draw(Random(f"{self.name}/{number}"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case ended, and what it said."""

    case: str
    outcome: str
    said: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing is to be mended."""
        return self.outcome in GOOD

    def __str__(self) -> str:
        return f"{self.outcome}: {self.case}\n{self.said}".rstrip()


def run(family: Family, numbers: Iterable[int]) -> list[Outcome]:
    """How the cases ``numbers`` of ``family`` ended, in their order.

    The process that calls this should be small and have one thread: it forks for every case.
    """
    family.ready()
    return [_tried(family, number) for number in numbers]


def _tried(family: Family, number: int) -> Outcome:
    """How one case ended; one that seems to hang is tried again, since the machine may be busy."""
    outcome = _in_child(family, number)
    return _in_child(family, number) if outcome.outcome == "hang" else outcome


def _in_child(family: Family, number: int) -> Outcome:
    """How one case ended, which ran in a forked child."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(family, number, writer, folder)  # does not return
        os.close(writer)
        with contextlib.suppress(OSError):
            os.setpgid(child, child)  # it does so itself; whoever comes first
        try:
            return _watch(family, number, child, reader)
        finally:
            os.close(reader)


def _child(family: Family, number: int, writer: int, folder: str) -> None:
    """Run one case, tell how it ended, and leave without running anybody's exit handlers."""
    told: tuple[str, str, str] = (f"case {number}", "signal", "it ended without a word")
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        faulthandler.disable()
        with open(os.devnull, "r+b") as nothing:
            for stream in range(3):
                os.dup2(nothing.fileno(), stream)
        used = _address_space()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (used + 4 * family.memory,) * 2)
        told = _tell(family, number, Path(folder))
    except BaseException:  # not the case's fault, and still no reason to go on as the parent
        told = (f"case {number}", "bare", traceback.format_exc())
    finally:
        with contextlib.suppress(BaseException):
            os.write(writer, pickle.dumps(told))
        os._exit(0)


def _tell(family: Family, number: int, folder: Path) -> tuple[str, str, str]:
    case = family.case(number)
    try:
        case.run(folder)
    except MaxlabError as error:
        return case.name, "typed", error.code
    except WrongResultError as error:
        return case.name, "wrong", str(error)
    except MemoryError:
        return case.name, "memory", traceback.format_exc()[-3000:]
    except BaseException:
        return case.name, "bare", traceback.format_exc()[-3000:]
    return case.name, "right", ""


def _watch(family: Family, number: int, child: int, reader: int) -> Outcome:
    """How ``child`` ended; ends it when it takes too long."""
    begun = time.monotonic()
    content = b""
    said = ""
    while True:
        ready, _, _ = select.select([reader], [], [], 0.25)
        if ready:
            piece = os.read(reader, 1 << 16)
            content += piece
            if not piece:
                break
            continue
        if _cpu_seconds(child) > CPU_S:
            said = f"it used {CPU_S} s of processor time"
        elif time.monotonic() - begun > WALL_S:
            said = f"it did not end in {WALL_S} s"
        if said:
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started, too
    _, status, usage = os.wait4(child, 0)
    name = f"{family.name} case {number}"
    if said:
        return Outcome(f"{name}: {family.case(number).name}", "hang", said)
    if not content:
        ended = os.waitstatus_to_exitcode(status)
        return Outcome(f"{name}: {family.case(number).name}", "signal", f"it ended with {ended}")
    told, outcome, words = pickle.loads(content)
    grown = usage.ru_maxrss * 1024 - _resident()
    if outcome in GOOD and grown > family.memory:
        outcome, words = "memory", f"{grown >> 20} MiB, at most {family.memory >> 20} are allowed"
    return Outcome(f"{name}: {told}", outcome, words)


def _cpu_seconds(pid: int) -> float:
    """Seconds of processor time that ``pid`` and its ended children have used."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0.0
    fields = text[text.rfind(")") + 2 :].split()
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def table(family: str, outcomes: Sequence[Outcome]) -> str:
    """One line: how many cases of the family ended in which way."""
    counts = {kind: sum(o.outcome == kind for o in outcomes) for kind in OUTCOMES}
    return f"{family}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)


def mutated(data: bytes, random: Random) -> bytes:
    """``data`` with a few bytes changed, cut, doubled or put in."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(made) + 1)
        kind = random.randrange(5)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << random.randrange(8)
        elif kind == 1 and at < len(made):
            made[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, ord("9"), ord('"'), ord("{")))
        elif kind == 2:
            del made[at : at + random.choice((1, 4, 64, 1 << 20))]
        elif kind == 3:
            made[at:at] = random.randbytes(random.choice((1, 4, 64)))
        else:
            end = at + random.choice((1, 8, 256))
            made[at:at] = made[at:end] * random.choice((1, 2, 50))
    return bytes(made)


WEIRD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**20,
    10**400, 0.0, -0.0, 0.5, 1e300, float("nan"), float("inf"), 1j, "", "x", "n", "..", "/", "a\0b",
    "\ud800", "x" * 5000, b"bytes", (), [], {}, set(), [None], [[]], ["n"], [1.5], [2**63], [-1],
    {"a": 1}, object(), int, len, ..., NotImplemented, slice(None), range(3),
)  # fmt: skip
"""Values that some caller gives where another is wanted."""


def deep(depth: int = 100_000) -> list[Any]:
    """A list in a list in a list, ``depth`` deep."""
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made

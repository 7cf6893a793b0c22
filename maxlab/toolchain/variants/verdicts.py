"""Verdicts on disk: a file for each CPU model, family and class of sizes.

A file only names one of the variants that this maxlab has, so that a foreign one can do no harm:
what it says is checked against what is asked for, and one that does not fit is passed over with a
note and measured anew. The first process that has measured decides: those that come at the same
time take what is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maxlab import files, trace
from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.errors import FileError, MissingFileError
from maxlab.toolchain.compiler import cpu_digest, find_compiler
from maxlab.toolchain.library import sources_digest
from maxlab.toolchain.variants.family import Case, Family, Variant

VERSION = 1
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a measurement.

    Attributes:
        family: The name of the family.
        case: The class of sizes.
        names: All variants that were compared, the guess first.
        chosen: The name of the one that was taken.
        times: Nanoseconds of each by its name; empty when the time did not suffice.
        trial: The work that they were timed on, in words.
        cpu: The CPU, its model and features, as a digest.
        made_of: The sources and the compiler of the kernels, as a digest.
    """

    family: str
    case: Case
    names: tuple[str, ...]
    chosen: str
    times: dict[str, int]
    trial: str
    cpu: str
    made_of: str


def made_of() -> str:
    """A digest of what the kernels are made of: other code may be faster otherwise."""
    text = f"{sources_digest()}\0{find_compiler().digest}"
    return blake2b(text.encode(), digest_size=8).hexdigest()


def place_of(family: Family, case: Case, variants: Sequence[Variant]) -> Path:
    """The file of a verdict for the class ``case``, when these ``variants`` are compared."""
    text = "\0".join([family.member, *map(str, case), *(one.name for one in variants)])
    name = blake2b(text.encode(), digest_size=8).hexdigest()
    folder = config().cache_dir / "variants" / f"{cpu_digest()}-{made_of()}"
    return folder / f"{family.name}-{name}.json"


def kept(family: Family, case: Case, variants: Sequence[Variant]) -> tuple[Verdict | None, str]:
    """The verdict on disk, None when there is none that fits; and what is wrong with the one that
    is there, in words."""
    path = place_of(family, case, variants)
    try:
        text = files.read_text(path, "a verdict on variants", _MOST_BYTES)
    except MissingFileError:
        return None, ""
    except FileError as error:
        return None, _passed_over(path, error.what)
    try:
        verdict = _read(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return None, _passed_over(path, f"it is damaged ({type(error).__name__})")
    mine = (family.name, case, tuple(one.name for one in variants), cpu_digest(), made_of())
    if (verdict.family, verdict.case, verdict.names, verdict.cpu, verdict.made_of) != mine:
        return None, _passed_over(path, "it is about something else")
    return verdict, ""


def _passed_over(path: Path, why: str) -> str:
    note = f"the verdict {path.name} was passed over: {why}"
    trace.emit("warning", "variants", message=note, fix="none is needed: it is measured anew")
    return note


def _read(found: Any) -> Verdict:
    """The verdict that a file says.

    Raises:
        ValueError: It says none, or one that contradicts itself.
        TypeError: The same.
        KeyError: The same.
    """
    if found["version"] != VERSION:
        raise ValueError("another version")
    names = tuple(str(name) for name in found["names"])
    times = {str(name): int(ns) for name, ns in found["times"].items()}
    case = tuple(int(size) for size in found["case"])
    told = [found[name] for name in ("family", "chosen", "trial", "cpu", "made_of")]
    if not all(isinstance(one, str) for one in told) or found["chosen"] not in names:
        raise ValueError("no verdict")
    if times and (set(times) != set(names) or min(times.values()) < 1):
        raise ValueError("no times")
    family, chosen, trial, cpu, code = told
    return Verdict(family, case, names, chosen, times, trial, cpu, code)


def keep(family: Family, verdict: Verdict, variants: Sequence[Variant]) -> tuple[Verdict, str]:
    """The verdict that counts from now on, and a note in words: ``verdict``, now on disk, or that
    of another process which was first. A cache that cannot be written costs measuring again, and
    nothing else."""
    path = place_of(family, verdict.case, variants)
    text = json.dumps({"version": VERSION, **asdict(verdict)}, indent=1) + "\n"
    new: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = path.parent / f".new-{os.getpid()}-{threading.get_native_id()}"
        place.unlink(missing_ok=True)  # of a process that was killed, and had the same number
        with open(place, "x", encoding="utf-8") as file:
            new = place
            file.write(text)
        try:
            os.link(new, path)  # only where there is none
        except FileExistsError:
            first, note = kept(family, verdict.case, variants)
            if first is not None:
                return first, ""
            os.replace(new, path)
            return verdict, note
        except OSError:  # a file system without links
            os.replace(new, path)
        return verdict, ""
    except OSError as error:
        note = f"the verdict {path.name} could not be kept: {error.strerror}"
        trace.emit("warning", "variants", message=note, fix="make the cache writable")
        return verdict, note
    finally:
        if new is not None:
            with contextlib.suppress(OSError):
                new.unlink()


__all__ = ["Verdict", "keep", "kept", "made_of", "place_of"]

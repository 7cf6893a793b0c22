"""Folders of the machine's monitor: whatever lies there, it stays, but for what maxlab wrote."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from maxlab.diagnostics.monitor import places
from tests.hostile.families.paths import CONTENT, KINDS
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError

NAMES = (
    "run-2024-01", "thesis-1-2", "a-1-1", "abcdef012345-1-1", "abcdef012345-99999999-5", "-1-1",
    "x-1-", "..-1-1", "a-9999999999999999999-1", "photos", "1-2-3-4", "0-0-0", "é-1-1",
)  # fmt: skip
FILES = ("monitor.json", "notes.txt", "lock", "log", "segment-0", "0.mlrec", ".marker", "a/b.txt")


def _tree(base: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below ``base``: its kind and mode, and the content of files."""
    found = {}
    for path in sorted(base.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path.relative_to(base))] = (
            mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() and mode & 0o400 else b"",
        )
    return found


def _case(seed: float) -> Case:
    def run(folder: Path) -> None:
        random = Random(seed)
        base = folder / "work"
        base.mkdir(mode=random.choice((0o755, 0o775, 0o700)))
        for name in random.sample(NAMES, random.randrange(1, 6)):
            session = base / name
            if random.random() < 0.2:
                elsewhere = folder / f"elsewhere-{name}"
                elsewhere.mkdir()
                session.symlink_to(elsewhere)
            else:
                session.mkdir()
            for file in random.sample(FILES, random.randrange(len(FILES))):
                target = session / file
                target.parent.mkdir(exist_ok=True)
                if random.random() < 0.3:
                    kind = random.choice(sorted(set(KINDS) - {"a sparse file"}))
                    KINDS[kind](target)
                else:
                    target.write_bytes(CONTENT)
            os.utime(session, (1, 1))
        before, mode = _tree(folder), base.stat().st_mode
        places.remove_dead(base, 0)
        if _tree(folder) != before:
            raise WrongResultError(f"{set(before) ^ set(_tree(folder))} changed")
        if base.stat().st_mode != mode:
            raise WrongResultError("the folder that the user named has another mode")

    return Case(f"folders drawn from {seed}", run)


def _named(value: object) -> Case:
    def run(folder: Path) -> None:
        places.base_folder({"MAXLAB_MONITOR_DIR": value})  # type: ignore[dict-item]

    return Case(f"MAXLAB_MONITOR_DIR={value!r:.60}", run)


SEEDS = [_named(value) for value in WEIRD if isinstance(value, str)]

FAMILIES = (Family("monitor_folders", SEEDS, lambda random: _case(random.random()), 1000),)

"""The caches of this machine, as the operating system lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_SYSFS = Path("/sys/devices/system/cpu")
_ASSUMED = ((1, 32 << 10), (2, 1 << 20), (3, 16 << 20))
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of cache.

    Attributes:
        level: 1 is the nearest.
        nbytes: Bytes of one such cache.
        shared_by: Cores that share one.
        assumed: The system does not say how large it is; ``nbytes`` is a usual size.
    """

    level: int
    nbytes: int
    shared_by: int
    assumed: bool = False

    def share(self, threads: int) -> int:
        """The bytes that each of ``threads`` threads on cores of their own has."""
        return self.nbytes // max(min(threads, self.shared_by), 1)


def caches(root: Path = _SYSFS) -> tuple[Cache, ...]:
    """The data caches of the first core that this process may use, the nearest first.

    Args:
        root: Where the system lists its processors; tests have one of their own.
    """
    try:
        core = min(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        core = 0
    found: dict[int, Cache] = {}
    for place in sorted((root / f"cpu{core}" / "cache").glob("index*")):
        try:
            kind = (place / "type").read_text().strip()
            if kind == "Instruction":
                continue
            level = int((place / "level").read_text())
            nbytes = _bytes((place / "size").read_text().strip())
            shared = _count((place / "shared_cpu_list").read_text().strip())
        except (OSError, ValueError):  # a virtual machine may leave some of them out
            continue
        found[level] = Cache(level, nbytes, shared)
    if found:
        return tuple(found[level] for level in sorted(found))
    cores = os.cpu_count() or 1
    return tuple(
        Cache(level, nbytes, cores if level == 3 else 1, True) for level, nbytes in _ASSUMED
    )


def _bytes(text: str) -> int:
    if text and text[-1] in _UNITS:
        return int(text[:-1]) * _UNITS[text[-1]]
    return int(text)


def _count(text: str) -> int:
    """How many processors a list such as ``0-3,8`` names."""
    total = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def cpu_model() -> str:
    """The processor's name, with what tells it from others of that name; ``"unknown"`` when the
    system does not say."""
    found: dict[str, str] = {}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform

        return platform.processor() or platform.machine() or "unknown"
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    name = found.get("model name") or found.get("CPU part") or "unknown"
    extra = [found[key] for key in ("cpu family", "model", "stepping") if key in found]
    return f"{name} ({'/'.join(extra)})" if extra else name

"""Settings, read once from ``MAXLAB_*`` environment variables.

===========================  ==========================================  ======================
variable                     meaning                                     default
===========================  ==========================================  ======================
``MAXLAB_CACHE_DIR``         where compiled kernels are kept: a          ``~/.cache/maxlab``
                             directory that only you can write
``MAXLAB_CACHE_LIMIT``       how many MiB of them are kept: those used   2048
                             longest ago go first; 0 keeps all
``MAXLAB_CC``                the C compiler                              gcc, cc, clang or zig
``MAXLAB_NUM_THREADS``       threads of a session, 1024 at most          usable physical cores
``MAXLAB_AT_LOAD``           0 computes what depends on weights alone    1
                             in each run, not once at load
``MAXLAB_TRACE_EVENTS``      events the ring buffer keeps                16384
``MAXLAB_KEEP_SOURCE``       1 keeps the generated C beside each         0
                             ``.so``, and lets debuggers find symbols
``MAXLAB_ENABLE_PROFILING``  1 records the spans of `maxlab.profiler`;   0
                             ``MODULAR_ENABLE_PROFILING`` does too
``MAXLAB_SIMULATOR``         how many simulated GPUs stand in for real    0
                             ones; see `maxlab.driver.use_simulator`
``MAXLAB_SIMULATOR_CHECK``   1 checks every access of simulated kernels  0
``MAXLAB_VARIANTS``          how kernels with several variants choose:   on
                             ``on``, ``off`` or ``deterministic``; see
                             `maxlab.toolchain.variants`
===========================  ==========================================  ======================

``MAXLAB_MONITOR_DIR``, where recordings of the machine lie, is read at each use; see
`maxlab.diagnostics.Monitor`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from maxlab.errors import ArgumentError, shown

VERSION = "0.1.0"
"""Of maxlab: ``maxlab.__version__``."""
MOST_THREADS = 1024
"""The most threads of a session, as ``kernels/c/team.h`` has it."""
MOST = 1 << 30
"""The most that any other number among the settings may be."""
VARIANTS = ("on", "off", "deterministic")
"""How the variants of kernels may be chosen; see `maxlab.toolchain.variants`."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of this process; immutable."""

    cache_dir: Path
    cc: str | None
    num_threads: int
    trace_events: int
    keep_source: bool
    profiling: bool = False
    simulator: int = 0
    simulator_check: bool = False
    cache_limit: int = 2048
    at_load: bool = True
    plan_cache: bool = True
    variants: str = "on"


def _integer(
    env: Mapping[str, str], name: str, default: int, least: int = 1, most: int = MOST
) -> int:
    text = env.get(name, "")
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        bounds = f"of {least} or more" if number < least else f"of {most} or less"
        raise ArgumentError(
            "ML390",
            f"{name} must be an integer {bounds}, got {shown(text)}",
            fix=f"unset {name}, or set it to {bounds.removeprefix('of ')}",
        )
    return number


def _word(env: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of ``words``, the first by default."""
    found = env.get(name, "") or words[0]
    if found not in words:
        raise ArgumentError(
            "ML225",
            f"{name} must be one of {', '.join(words)}, got {shown(found)}",
            fix=f"unset {name}, or set it to one of {', '.join(words)}",
        )
    return found


def _cache_dir(env: Mapping[str, str]) -> Path:
    """Where compiled kernels are kept.

    Raises:
        ArgumentError: ML511, ``MAXLAB_CACHE_DIR`` names no directory.
    """
    given = env.get("MAXLAB_CACHE_DIR")
    if given:
        place = os.path.expanduser(given)
        wrong = None
        if "\0" in given:
            wrong = "it has a NUL character"
        elif place.startswith("~"):
            wrong = f"there is no home directory for {place.split(os.sep)[0]}"
        if wrong is not None:
            raise ArgumentError(
                "ML511",
                f"MAXLAB_CACHE_DIR is {shown(given)}, which names no directory: {wrong}",
                fix="set MAXLAB_CACHE_DIR to the full path of a directory, or unset it",
            )
        return Path(os.path.abspath(place))
    base = env.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # as its specification says
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "maxlab"


def _core_of(cpu: int) -> str:
    """A name of the core that ``cpu`` is a thread of."""
    place = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        return Path(place).read_text("ascii")
    except OSError:  # the kernel does not tell
        return str(cpu)


def _usable_cores() -> int:
    """How many physical cores the process may run on: threads of one core compute no faster."""
    try:
        return len({_core_of(cpu) for cpu in os.sched_getaffinity(0)}) or 1
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def _threads() -> int:
    return min(_usable_cores(), MOST_THREADS)


def _on(env: Mapping[str, str], *names: str) -> bool:
    return any(env.get(name, "0") not in ("", "0") for name in names)


def read_config(env: Mapping[str, str] | None = None) -> Config:
    """The settings that ``env`` (by default the process environment) asks for.

    Raises:
        ArgumentError: ML390, a number that is not one, or too small or large; ML511, a cache
            directory that cannot be; ML225, ``MAXLAB_VARIANTS`` is none of its words.
    """
    env = os.environ if env is None else env
    return Config(
        cache_dir=_cache_dir(env),
        cc=env.get("MAXLAB_CC") or None,
        num_threads=_integer(env, "MAXLAB_NUM_THREADS", _threads(), most=MOST_THREADS),
        trace_events=_integer(env, "MAXLAB_TRACE_EVENTS", 16384),
        keep_source=_on(env, "MAXLAB_KEEP_SOURCE"),
        profiling=_on(env, "MAXLAB_ENABLE_PROFILING", "MODULAR_ENABLE_PROFILING"),
        cache_limit=_integer(env, "MAXLAB_CACHE_LIMIT", 2048, least=0),
        simulator=_integer(env, "MAXLAB_SIMULATOR", 0, least=0),
        simulator_check=env.get("MAXLAB_SIMULATOR_CHECK", "0") not in ("", "0"),
        at_load=env.get("MAXLAB_AT_LOAD", "") != "0",
        plan_cache=env.get("MAXLAB_PLAN_CACHE", "") != "0",
        variants=_word(env, "MAXLAB_VARIANTS", VARIANTS),
    )


_config: Config | None = None


def config() -> Config:
    """The settings of this process, read at first use."""
    global _config
    if _config is None:
        _config = read_config()
    return _config


def set_config(new: Config) -> Config:
    """The settings that were in force; ``new`` is in force from now on (used by tests)."""
    global _config
    old = config()
    _config = new
    return old

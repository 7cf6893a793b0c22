"""Settings, read once from ``MAXLAB_*`` environment variables.

===========================  ==========================================  ======================
variable                     meaning                                     default
===========================  ==========================================  ======================
``MAXLAB_CACHE_DIR``         where compiled kernels are kept             ``~/.cache/maxlab``
``MAXLAB_CC``                the C compiler                              gcc, cc or clang
``MAXLAB_NUM_THREADS``       threads of a session                        usable physical cores
``MAXLAB_TRACE_EVENTS``      events the ring buffer keeps                16384
``MAXLAB_KEEP_SOURCE``       1 keeps the generated C beside each ``.so`` 0
``MAXLAB_ENABLE_PROFILING``  1 records the spans of `maxlab.profiler`;   0
                             ``MODULAR_ENABLE_PROFILING`` does too
``MAXLAB_SIMULATOR``         how many simulated GPUs stand in for real    0
                             ones; see `maxlab.driver.use_simulator`
``MAXLAB_SIMULATOR_CHECK``   1 checks every access of simulated kernels  0
===========================  ==========================================  ======================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from maxlab.errors import ArgumentError


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


def _integer(env: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    text = env.get(name, "")
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentError(
            "ML390",
            f"{name} must be an integer of {least} or more, got {text!r}",
            fix=f"unset {name}, or set it to {least} or more",
        )
    return number


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


def _on(env: Mapping[str, str], *names: str) -> bool:
    return any(env.get(name, "0") not in ("", "0") for name in names)


def read_config(env: Mapping[str, str] | None = None) -> Config:
    """The settings that ``env`` (by default the process environment) asks for.

    Raises:
        ArgumentError: ML390, a number that is not one.
    """
    env = os.environ if env is None else env
    cache = env.get("MAXLAB_CACHE_DIR")
    if cache:
        cache_dir = Path(cache).expanduser()
    else:
        base = env.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache_dir = Path(base) / "maxlab"
    return Config(
        cache_dir=cache_dir,
        cc=env.get("MAXLAB_CC") or None,
        num_threads=_integer(env, "MAXLAB_NUM_THREADS", _usable_cores()),
        trace_events=_integer(env, "MAXLAB_TRACE_EVENTS", 16384),
        keep_source=_on(env, "MAXLAB_KEEP_SOURCE"),
        profiling=_on(env, "MAXLAB_ENABLE_PROFILING", "MODULAR_ENABLE_PROFILING"),
        simulator=_integer(env, "MAXLAB_SIMULATOR", 0, least=0),
        simulator_check=env.get("MAXLAB_SIMULATOR_CHECK", "0") not in ("", "0"),
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

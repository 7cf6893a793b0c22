"""Facts of the place where a run was measured, so that nobody compares two machines by accident.
Names of the machine and of its user are left out: files of runs are handed around.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from maxlab.errors import MaxlabError
from maxlab.toolchain import find_compiler

# What must be equal for times to be comparable -> what to call it.
DECIDING = {"cpu": "CPU", "cores": "number of cores", "system": "operating system"}

# What may well explain a difference.
TELLING = {"compiler": "C compiler", "maxlab": "maxlab", "numpy": "NumPy", "python": "Python"}


def machine_facts() -> dict[str, str]:
    """This machine and what runs on it, as short texts: the CPU, its cores, the system, and the
    versions of the C compiler, maxlab, NumPy and Python.

    Example:
        >>> sorted(machine_facts())
        ['compiler', 'cores', 'cpu', 'maxlab', 'numpy', 'python', 'system']
    """
    return {
        "cpu": _cpu(),
        "cores": str(_cores()),
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": _compiler(),
        "maxlab": _version("maxlab"),
        "numpy": _version("numpy"),
        "python": ".".join(str(n) for n in sys.version_info[:3]),
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
            for line in info:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _compiler() -> str:
    try:
        return find_compiler().version
    except MaxlabError:
        return "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a checkout that was not installed
        module = sys.modules.get(package)
        return str(getattr(module, "__version__", "unknown"))

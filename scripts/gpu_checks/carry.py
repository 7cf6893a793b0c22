"""What the other machine lacks: packed into a folder here, installed from it there.

There, nothing that is already installed is replaced: a wheel is installed only where its package
is missing or too old, into a folder that stands on PYTHONPATH. torch keeps the NumPy it was built
with. (A virtual environment would not see torch if torch itself lives in one.)
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from scripts.gpu_checks.stage import ROOT, Machine, Stage, ended

PYTHON = "3.12"
LIMIT_BYTES = 50 << 20
PYCUDA = "2026.1"
MAXLAB: dict[str, str] = {
    "cffi": "1.16", "hypothesis": "6.100", "iniconfig": "0", "ml-dtypes": "0.5",
    "numpy": "1.26", "packaging": "0", "pluggy": "1.5", "pycparser": "0", "pygments": "0",
    "pytest": "8.2", "pytest-timeout": "2.3", "safetensors": "0.4.5", "sortedcontainers": "2",
}  # fmt: skip
"""Distributions and the oldest version of each that maxlab's core and the device tests import."""
PYCUDA_NEEDS = {
    "mako": "0", "markupsafe": "2.1", "platformdirs": "2.2", "pytools": "0", "siphash24": "0",
    "typing-extensions": "4",
}  # fmt: skip
"""Those that PyCUDA imports."""
BUILD = {"setuptools": "70.1", "wheel": "0.40"}
"""What the PyCUDA sdist is built with where its wheel does not fit."""
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64",
              "manylinux2014_x86_64", "manylinux1_x86_64")  # fmt: skip

_PROBE = """
import importlib.metadata as m, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``"2.11.0+cu130"`` is (2, 11, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[a-z+]", text)[0]))


# ---------------------------------------------------------------- here, with a network
def pack(folder: Path, python: str | None = None) -> int:
    """Fill ``folder``: wheels for Python 3.12 on x86-64, PyCUDA's source, its wheel if it can be
    built here.

    Args:
        python: a Python 3.12 to build the PyCUDA wheel for; by default ``python3.12`` on the PATH.

    Returns:
        0, or 1 if the folder is larger than 50 MiB.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    wanted = [f"{name}>={oldest}" for name, oldest in {**MAXLAB, **PYCUDA_NEEDS, **BUILD}.items()]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", PYTHON, "--implementation", "cp", "-d", str(folder)]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    _call([*command, *wanted])
    build = ROOT / "scripts" / "build_pycuda.py"
    found = python or shutil.which(f"python{PYTHON}")
    if found and _runs(found):
        print(f"building PyCUDA's wheel for {found}", flush=True)
        wheel = _call([sys.executable, str(build), "--python", found, "--version", PYCUDA])
        shutil.copy(wheel.strip().splitlines()[-1], folder)
    else:
        print(f"no Python {PYTHON} here: PyCUDA will be built there, in about a minute")
    _sdist(folder)
    files = sorted(folder.iterdir())
    total = sum(file.stat().st_size for file in files)
    for file in files:
        print(f"{file.stat().st_size / 2**20:7.2f} MiB  {file.name}")
    print(f"{total / 2**20:7.2f} MiB in {len(files)} files")
    if total > LIMIT_BYTES:
        print(f"more than {LIMIT_BYTES >> 20} MiB: too much to carry", file=sys.stderr)
        return 1
    return 0


def _sdist(folder: Path) -> None:
    """PyCUDA's source, which pip would otherwise try to configure while it downloads it."""
    scratch = folder / ".home"
    scratch.mkdir()
    (scratch / ".aksetup-defaults.py").write_text("", encoding="utf-8")
    try:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary"]
        command += ["pycuda", "-d", str(folder), f"pycuda=={PYCUDA}"]
        _call(command, {"HOME": str(scratch)})
    finally:
        shutil.rmtree(scratch)


def _runs(python: str) -> bool:
    """Whether it is a Python 3.12, and not a launcher that has none."""
    asked = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip() == PYTHON


def _call(command: list[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        raise SystemExit(f"failed with status {done.returncode}: {' '.join(command)}")
    return done.stdout


# ---------------------------------------------------------------- there, without one
def install(machine: Machine, stage: Stage, carried: Path | None, budget: float) -> None:
    """Put what is missing on PYTHONPATH; PyCUDA from its wheel, or built from its source."""
    site = machine.scratch / "site"
    site.mkdir(parents=True, exist_ok=True)
    before = machine.env.get("PYTHONPATH", "")
    machine.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), str(site), before]))
    needed = MAXLAB if machine.simulated else {**MAXLAB, **PYCUDA_NEEDS}
    there = _installed(machine, [*needed, "pycuda", "torch"])
    missing = _missing(needed, there)
    stage.facts["already there"] = there
    wheels = {_name(file): file for file in sorted(carried.glob("*.whl"))} if carried else {}
    fitting = [wheels[name] for name in missing if name in wheels]
    if fitting:
        _unpack(machine, stage, fitting, site, budget)
    if not machine.simulated and "pycuda" not in there:
        _pycuda(machine, stage, carried, wheels, site, budget)
    after = _installed(machine, [*needed, "pycuda"])
    stage.facts["installed"] = {k: v for k, v in after.items() if there.get(k) != v}
    lacking = _missing(needed, after)
    if lacking:
        stage.fail(f"missing or too old here, and not carried: {', '.join(lacking)}")
    probe = "import maxlab, maxlab.engine"
    if not machine.simulated:
        probe += "\nfrom maxlab import driver\nassert driver.accelerator_count(), "
        probe += "driver.accelerator.missing_for_accelerators()"
    done = machine.run([machine.python, "-c", probe], budget)
    if done.code != 0:
        stage.fail(f"maxlab does not find a GPU: {ended(done)}", done.output)


def _missing(needed: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """The names in ``needed`` that are not there, or older than what is needed."""
    return [
        name
        for name, oldest in needed.items()
        if name not in there or version_of(there[name]) < version_of(oldest)
    ]


def _installed(machine: Machine, names: list[str]) -> dict[str, str]:
    done = machine.run([machine.python, "-c", _PROBE, json.dumps(names)], 60)
    if done.code != 0:
        raise RuntimeError(f"{machine.python}: {ended(done)}: {done.output[-300:]}")
    found: dict[str, str] = json.loads(done.output.splitlines()[-1])
    return found


def _name(wheel: Path) -> str:
    return wheel.name.split("-")[0].lower().replace("_", "-").replace(".", "-")


def _unpack(machine: Machine, stage: Stage, files: list[Path], site: Path, budget: float) -> None:
    """Install wheels into ``site`` by pip, or, where there is no pip, by unpacking them."""
    command = machine.module("pip", "install", "-q", "--no-index", "--no-deps", "--no-compile")
    command += ["--no-cache-dir", "--disable-pip-version-check", "--upgrade", "--target"]
    done = machine.run([*command, str(site), *map(str, files)], budget)
    if done.code == 0:
        return
    if "No module named pip" not in done.output:
        stage.fail(f"pip install: {ended(done)}", done.output)
        return
    for file in files:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(site)


def _pycuda(
    machine: Machine,
    stage: Stage,
    carried: Path | None,
    wheels: dict[str, Path],
    site: Path,
    budget: float,
) -> None:
    """PyCUDA's wheel if it can be imported, else one built here."""
    if "pycuda" in wheels:
        before = stage.status
        _unpack(machine, stage, [wheels["pycuda"]], site, budget)
        done = machine.run([machine.python, "-c", "import pycuda.driver as d; d.init()"], 60)
        if done.code == 0 and stage.status == before:
            stage.facts["pycuda"] = "the carried wheel"
            return
        stage.facts["the carried wheel of PyCUDA"] = done.output.splitlines()[-3:]
        for place in site.glob("pycuda*"):
            shutil.rmtree(place, ignore_errors=True)
    sources = sorted(carried.glob("pycuda-*.tar.gz")) if carried else []
    if not sources or carried is None:
        stage.fail("PyCUDA is neither here nor carried")
        return
    script = str(ROOT / "scripts" / "build_pycuda.py")
    command = [machine.python, script, "--sdist", str(sources[-1]), "--find-links", str(carried)]
    done = machine.run([*command, "--out", str(machine.scratch)], budget, log="build-pycuda.log")
    built = [line for line in done.output.splitlines() if line.endswith(".whl")]
    if done.code != 0 or not built:
        stage.fail(f"building PyCUDA: {ended(done)}", done.output)
        return
    _unpack(machine, stage, [Path(built[-1])], site, budget)
    stage.facts["pycuda"] = "built here"

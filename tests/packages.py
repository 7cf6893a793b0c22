"""Packages of this checkout, and environments outside of it to install them in, for tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

IS_BUILT = (ROOT / "maxlab" / "labextension" / "package.json").exists()
NOT_BUILT = "the front end is not built: scripts/lab --setup builds it"

_COMPILER = ("cc", "gcc", "as", "ld")


def run(*command: str, cwd: Path, **environment: str) -> str:
    """Standard output of ``command``; fails with both outputs when the command does."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_wheel(folder: Path, source: Path = ROOT, **environment: str) -> Path:
    """A wheel of ``source`` in ``folder``: of this checkout, from the front end that is built."""
    command = ["-m", "pip", "wheel", str(source), "--no-deps", "--no-build-isolation", "-q", "-w"]
    run(sys.executable, *command, str(folder), cwd=ROOT, **environment)
    (made,) = folder.glob("*.whl")
    return made


def make_sdist(folder: Path) -> Path:
    """The source distribution of this checkout, in ``folder``."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder), cwd=ROOT)
    (made,) = folder.glob("*.tar.gz")
    return made


def files_of(package: Path) -> set[str]:
    """Names of the files in a wheel or a source distribution, in the latter below its folder."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {info.filename for info in wheel.infolist() if not info.is_dir()}
    with tarfile.open(package) as sdist:
        return {one.name.partition("/")[2] for one in sdist.getmembers() if one.isfile()}


def built() -> set[str]:
    """Names of the files of the built front end, in this checkout."""
    folders = (ROOT / "maxlab" / name for name in ("labextension", "static"))
    return {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


class Environment:
    """A virtual environment in ``folder``, in which nothing of the checkout is found, and no Node.

    Its commands see its own programs, a C compiler, and nothing else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
        self.python = str(folder / "bin" / "python")
        programs = folder / "programs"
        programs.mkdir()
        for name in _COMPILER:
            path = shutil.which(name)
            if path is not None:
                (programs / name).symlink_to(path)
        self.path = f"{folder / 'bin'}{os.pathsep}{programs}"
        assert shutil.which("node", path=self.path) is None

    def install(self, *packages: str) -> None:
        """Install ``packages``, in the versions that the tests run with."""
        versions = ("-c", str(ROOT / "scripts" / "constraints.txt"))
        self.run("-m", "pip", "install", "-q", *versions, *packages)

    def run(self, *arguments: str) -> str:
        """Standard output of ``python arguments``, run outside of the checkout."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        # Where packages come from stays what it is here.
        kept = {
            name: value
            for name, value in os.environ.items()
            if re.match(r"(PIP|SSL|REQUESTS|UV)_|(https?|no|all)_proxy$|LANG$", name, re.IGNORECASE)
        }
        pip = Path.home() / ".config" / "pip" / "pip.conf"
        if pip.exists():
            kept.setdefault("PIP_CONFIG_FILE", str(pip))
        done = subprocess.run(
            [self.python, *arguments],
            cwd=home,
            env={**kept, "PATH": self.path, "HOME": str(home), "MAXLAB_CACHE_DIR": str(home / "c")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

"""What ``scripts/_setup.sh`` installs into the environment of a checkout."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def requirements(*extras: str) -> list[str]:
    """What the set-up asks pip for."""
    script = 'source scripts/_setup.sh; PY="$1"; shift; requirements "$@"'
    command = ["bash", "-c", script, "bash", sys.executable, *extras]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_what_builds_maxlab_is_installed_for_whoever_only_looks() -> None:
    # maxlab itself is put in with --no-build-isolation: nothing else brings its build backend.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = {*project["build-system"]["requires"], *project["project"]["dependencies"]}
    assert wanted - set(requirements()) == set()


def test_an_extra_adds_to_it() -> None:
    added = set(requirements("test")) - set(requirements())
    assert any(line.startswith("pytest>=") for line in added)

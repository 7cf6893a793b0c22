"""File systems that tests make: tiny ones that fill up, and ones that code may not be run from."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(options: str) -> Iterator[Path]:
    """A folder that is a file system in memory with these mount options, such as ``"size=24k"``.

    The test is skipped, with the reason, where that is not possible.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        folder.rmdir()
        pytest.skip(f"a file system cannot be mounted: {error}")
    if done.returncode != 0:
        folder.rmdir()
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()

"""Has wheels bring the runtime as machine code: a hook of hatchling that runs `scripts.prebuild`.

Without a compiler the wheel is made all the same: its users compile the runtime at first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Prebuild(BuildHookInterface[Any]):
    """Runs before the files of a wheel are collected, and before an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile what is missing in ``kernels/prebuilt``."""
        done = subprocess.run(
            [sys.executable, "-m", "scripts.prebuild"],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": self.root},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
            self.app.display_warning(f"the runtime is not compiled ahead: {last}")

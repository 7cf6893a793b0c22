"""Files with a line of JSON for each thing that happened, and what a test process is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "GPU_CHECK_RESULTS"
"""The variable that names the file."""
SHARE = "GPU_CHECK_SHARE"
"""The variable that says which tests: ``1/4`` are those whose number leaves 1 over when divided
by 4.
"""


def read(file: Path) -> list[dict[str, Any]]:
    """The lines so far; one that was cut short is left out."""
    if not file.exists():
        return []
    found = []
    for line in file.read_text("utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found

#!/usr/bin/env python3
"""Writes the table by which JupyterLab completes the names and arguments of operations.

    scripts/gen_ops_table.py            write it
    scripts/gen_ops_table.py --check    say whether it is as it would be written

The extension carries the table, so that it completes before a kernel is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from maxlab.lab.hints.table import rows

TARGET = Path(__file__).resolve().parents[1] / "extension/src/lab/hints/ops-table.json"


def text() -> str:
    """The table as its file has it: an operation a line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows())
    return f"[\n{lines}\n]\n"


def main() -> int:
    """0, or 1 where the file is not as it would be written."""
    made = text()
    if "--check" in sys.argv[1:]:
        is_same = TARGET.read_text("utf-8") == made
        print("the table is as it would be written" if is_same else "run scripts/gen_ops_table.py")
        return 0 if is_same else 1
    TARGET.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

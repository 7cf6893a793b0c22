"""Prints one line, "N passed, N failed, N skipped", over the JUnit reports of a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def count(folder: Path) -> tuple[int, int, int]:
    """``(passed, failed, skipped)`` over every ``*.xml`` in ``folder``."""
    total = failed = skipped = 0
    for report in sorted(folder.glob("*.xml")):
        for suite in ET.parse(report).getroot().iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
    return total - failed - skipped, failed, skipped


if __name__ == "__main__":
    passed, failed, skipped = count(Path(sys.argv[1]))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")

"""Prints one line, "N passed, N failed, N skipped", over the JUnit reports of a folder; with
``--slowest N`` the N slowest tests instead."""

from __future__ import annotations

import argparse
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


def slowest(folder: Path, most: int) -> list[tuple[float, str]]:
    """``(seconds, name)`` of the slowest tests of every ``*.xml`` in ``folder``, set-up included,
    the slowest first."""
    found = [
        (float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")
        for report in sorted(folder.glob("*.xml"))
        for case in ET.parse(report).getroot().iter("testcase")
    ]
    return sorted(found, reverse=True)[:most]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slowest", type=int, metavar="N")
    options = parser.parse_args()
    if options.slowest is None:
        passed, failed, skipped = count(options.folder)
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
    else:
        print(f"== the {options.slowest} slowest tests, in seconds")
        for seconds, name in slowest(options.folder, options.slowest):
            print(f"{seconds:7.1f}  {name}")

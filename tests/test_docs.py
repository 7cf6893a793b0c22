"""The documents hang together: every link leads somewhere, and ``docs/README.md`` leads to all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "errors" or p.stem == "README"),
    ROOT / "README.md",
    *(p for folder in ("benchmarks", "kernels", "scripts") for p in (ROOT / folder).rglob("*.md")),
]


def targets(page: Path) -> list[Path]:
    """The files and folders that ``page`` links to."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [(page.parent / link).resolve() for link in links if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in targets(page) if not target.exists()] == []


def test_the_index_leads_to_every_page_and_tutorial() -> None:
    index = ROOT / "docs" / "README.md"
    wanted = {p for p in PAGES if "docs" in p.relative_to(ROOT).parts} - {index}
    wanted |= set((ROOT / "notebooks").glob("*.ipynb"))
    assert wanted - set(targets(index)) == set()

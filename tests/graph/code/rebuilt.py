"""Graphs that are written as Python and built again, and ruff's word on what was written."""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxlab.graph import Graph
from maxlab.graph.code import canonical

ROOT = Path(__file__).resolve().parents[3]


def built(text: str, path: Path) -> Graph:
    """The graph that the program ``text`` builds, which is run as the file ``path``."""
    names: dict[str, Any] = {"__file__": str(path), "__name__": "written"}
    exec(compile(text, str(path), "exec"), names)
    graph = names["graph"]
    assert isinstance(graph, Graph)
    return graph


def same(graph: Graph, again: Graph, *, names: bool = True) -> str:
    """How the canonical text of ``again`` differs from that of ``graph``; empty if it does not."""
    before = canonical(graph.function, names=names).splitlines()
    after = canonical(again.function, names=names).splitlines()
    return "\n".join(difflib.unified_diff(before, after, lineterm="", n=1))


def rebuilt(
    graph: Graph, path: Path, weights: Mapping[str, Any] | None = None, *, names: bool = True
) -> str:
    """The program of ``graph``, which builds it again, bit by bit."""
    text = graph.to_python(path, weights)
    assert path.read_text("utf-8") == text
    difference = same(graph, built(text, path), names=names)
    assert not difference, f"{text}\n{difference}"
    return text


def require_formatted(folder: Path) -> None:
    """Nothing, when ruff has nothing to change or to say about the programs in ``folder``."""
    config = str(ROOT / "pyproject.toml")
    for command in (["format", "--check", "--diff"], ["check", "--output-format=concise"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", config, str(folder)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

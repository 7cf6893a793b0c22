"""The commands about graphs: ``diff`` of two graphs, ``merge``, and ``git``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from maxlab import files, trace
from maxlab.analysis import git_setup
from maxlab.analysis.merging import merge
from maxlab.analysis.revisions import graph_at, is_revision, text_at
from maxlab.errors import ArgumentError, MaxlabError
from maxlab.graph import Graph
from maxlab.graph.document import SUFFIX
from maxlab.graph.reading import graph_of
from maxlab.ir.function_json import hash_of
from maxlab.opset import is_constant

FINE, DIFFERENT = 0, 1
_SUFFIXES = (SUFFIX, ".mlir")


def _say(text: object, stream: TextIO | None = None) -> None:
    (stream or sys.stdout).write(f"{text}\n")


def are_graphs(given: Sequence[str], paths: Sequence[str]) -> bool:
    """Whether graphs are to be compared, and no runs."""
    return bool(paths) or any(one.endswith(_SUFFIXES) or is_revision(one) for one in given)


def _pairs(given: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[list[Graph], list[str]]]:
    """The graphs to compare, two and two, with what to call them."""
    if not paths:
        if len(given) != 2:
            raise ArgumentError(
                "ML899",
                f"two graphs are compared, got {len(given)}",
                fix="python -m maxlab diff before.mlgraph after.mlgraph",
            )
        yield [graph_at(one) for one in given], list(given)
        return
    if len(given) > 2:
        raise ArgumentError(
            "ML899",
            f"two revisions are compared, got {len(given)}",
            fix="python -m maxlab diff HEAD~1 HEAD -- scores.mlgraph",
        )
    for path in paths:
        revisions = list(given) or ["HEAD"]
        names = [f"{revision}:{path}" for revision in revisions]
        graphs = [
            graph_of(text_at(revision, path), name)
            for revision, name in zip(revisions, names, strict=True)
        ]
        if len(graphs) == 1:
            graphs.append(graph_at(path))
            names.append(path)
        yield graphs, names


def diff_graphs(options: argparse.Namespace, paths: Sequence[str]) -> int:
    """Prints what differs between graphs; 1 where something does and that was asked for."""
    found = [_compared(graphs, names) for graphs, names in _pairs(options.given, paths)]
    rows = options.rows if options.rows >= 0 else None
    if options.json is not None:
        data = [one.to_dict() for one in found]
        text = json.dumps(data[0] if len(data) == 1 else data, indent=1, ensure_ascii=False) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            files.write_text(options.json, text, "the comparison")
    else:
        for one in found:
            _say(one.table(rows))
    if options.html is not None or options.open:
        _page(found, options)
    return DIFFERENT if options.exit_code and any(found) else FINE


def _compared(graphs: Sequence[Graph], names: Sequence[str]) -> Any:
    return trace.reading("diff_graphs")(graphs[0], graphs[1], names)


def _page(found: Sequence[Any], options: argparse.Namespace) -> None:
    if len(found) != 1:
        raise ArgumentError(
            "ML899",
            f"a page shows one comparison, got {len(found)} files",
            fix="name one file: python -m maxlab diff HEAD -- scores.mlgraph --html page.html",
        )
    path = options.html
    if path is None:
        path = Path(tempfile.gettempdir()) / f"maxlab-difference-{os.getpid()}.html"
    found[0].to_html(path)
    if options.open:
        webbrowser.open(Path(path).resolve().as_uri())


# ---------------------------------------------------------------- merge
def merge_files(options: argparse.Namespace) -> int:
    """Merges three files; 1 where something is left to decide."""
    found = merge(options.base, options.ours, options.theirs)
    if options.output is None:
        sys.stdout.write(found.text())
    else:
        found.save(options.output)
    if not found.is_clean:
        name = options.name or os.fspath(options.output or options.ours)
        _say(f"{name}: {found}", sys.stderr)
        _say(
            "open it in JupyterLab to decide, or in Python: Editor(maxlab.open(path)).resolve(id, "
            "'theirs')",
            sys.stderr,
        )
    return FINE if found.is_clean else DIFFERENT


# ---------------------------------------------------------------- git
def set_up_git(options: argparse.Namespace) -> int:
    """Sets or takes out what Git does with documents, or says what is set."""
    if options.show_diff is not None:
        return _driver(options.show_diff)
    if options.install:
        _say("\n".join(git_setup.install()))
    elif options.uninstall:
        gone = git_setup.uninstall()
        _say("\n".join(f"removed {one}" for one in gone) or "nothing was set")
    elif git_setup.is_installed():
        _say("Git shows and merges .mlgraph files as graphs in this repository.")
    else:
        _say("Git treats .mlgraph files as text in this repository; --install changes that.")
    return FINE


def _driver(given: Sequence[str]) -> int:
    """Prints a difference for ``git diff``, which gives the path, and of each side a file, a hash
    and a mode. An error is part of what is printed: Git would stop at it.

    ``git difftool`` comes here too, since what is set for a kind of files goes before it: then the
    tool that it was told is started."""
    if os.environ.get("GIT_EXTERNAL_DIFF") == "git-difftool--helper":
        return subprocess.run(["git", "difftool--helper", *given], check=False).returncode
    path, sides = given[0], (given[1], given[4] if len(given) > 4 else os.devnull)
    _say(f"graphs a/{path} b/{path}")
    try:
        graphs = [None if one == os.devnull else graph_at(one) for one in sides]
        one, other = graphs
        if one is not None and other is not None:
            _say(_compared([one, other], [f"a/{path}", f"b/{path}"]))
        else:
            known = one or other
            what = "added" if one is None else "removed"
            count = 0 if known is None else sum(1 for _ in known.function.walk())
            _say(f"{what}: {count} operations")
    except MaxlabError as error:
        _say(f"it cannot be shown as a graph: {error}")
    return FINE


def listing(graph: Graph) -> str:
    """All of a graph as lines, so that a comparison of texts shows each change: its operations, the
    bytes of constants as a hash, and what stands beside it."""
    lines = [str(graph)]
    lines += [
        f"constant {op.id}: {hash_of(op.attrs['value'].array.tobytes())}"
        for op in graph.function.walk()
        if is_constant(op)
    ]
    document = graph.document
    for key, place in document.places.items():
        lines.append(f"place {key}: {place.x:g}, {place.y:g}" + (" pinned" * place.pinned))
    lines += [f"comment {one.id} on {one.on or 'nothing'}: {one.text}" for one in document.comments]
    lines += [f"draft {one.id}: {one.name} {list(one.operands)}" for one in document.drafts]
    lines += [f"conflict {one}" for one in document.conflicts]
    return "\n".join(lines)


__all__ = ["are_graphs", "diff_graphs", "listing", "merge_files", "set_up_git"]

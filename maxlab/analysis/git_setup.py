"""Settings of Git for documents of graphs, in one repository: how it shows their changes, and how
it merges them.

It is set where nobody else sees it, in ``.git/config`` and ``.git/info/attributes``, when it is
asked for, and taken out again without a trace.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from maxlab.analysis.revisions import git
from maxlab.files import read_text, write_text

BEGIN, END = "# maxlab: begin", "# maxlab: end"
SECTIONS = ("diff.maxlab", "merge.maxlab", "difftool.maxlab", "mergetool.maxlab")


def settings() -> dict[str, str]:
    """The settings of the configuration, by key."""
    program = f"{shlex.quote(sys.executable)} -m maxlab"
    return {
        "diff.maxlab.command": f"{program} git --show-diff",
        "diff.maxlab.textconv": f"{program} show --text",
        "diff.maxlab.cachetextconv": "false",
        "merge.maxlab.name": "merge of maxlab graphs",
        "merge.maxlab.driver": f"{program} merge %O %A %B -o %A --name %P",
        "difftool.maxlab.cmd": f'{program} diff "$LOCAL" "$REMOTE" --open',
        "mergetool.maxlab.cmd": f'{program} merge "$BASE" "$LOCAL" "$REMOTE" -o "$MERGED" '
        '--name "$MERGED"',
        "mergetool.maxlab.trustExitCode": "true",
    }


def install(folder: str | Path = ".") -> list[str]:
    """Lets Git show and merge documents as graphs in the repository of ``folder``; what was set.

    Raises:
        FileError: ML855, there is no Git, or no repository; ML003, it cannot be written.
    """
    path = _attributes(folder)
    for key, value in settings().items():
        git(["config", "--local", key, value], folder, needed=f"{key} cannot be set")
    lines = [BEGIN, "*.mlgraph diff=maxlab merge=maxlab", END]
    _rewrite(path, lambda others: [*others, *lines])
    return [f"{key} = {value}" for key, value in settings().items()] + [f"{path}: {lines[1]}"]


def uninstall(folder: str | Path = ".") -> list[str]:
    """Takes out what `install` set; what was taken out.

    Raises:
        FileError: ML855, there is no Git, or no repository; ML003, it cannot be written.
    """
    path = _attributes(folder)
    gone = [
        section
        for section in SECTIONS
        if git(["config", "--local", "--remove-section", section], folder) is not None
    ]
    if _rewrite(path, list):
        gone.append(str(path))
    return gone


def is_installed(folder: str | Path = ".") -> bool:
    """Whether Git shows documents as graphs in the repository of ``folder``.

    Raises:
        FileError: ML855, there is no Git, or no repository.
    """
    path = _attributes(folder)
    has_lines = BEGIN in _lines(path)
    found = git(["config", "--local", "--get", "diff.maxlab.command"], folder)
    return has_lines and found is not None


def _attributes(folder: str | Path) -> Path:
    found = git(
        ["rev-parse", "--git-path", "info/attributes"],
        folder,
        needed=f"{folder} is in no repository of Git",
    )
    return Path(folder) / os.fsdecode((found or b"").rstrip(b"\r\n"))


def _lines(path: Path) -> list[str]:
    return read_text(path, "the attributes").splitlines() if path.exists() else []


def _rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> bool:
    """Lets the file have its lines without ours, changed by ``change``; whether it had ours."""
    lines = _lines(path)
    has_ours = BEGIN in lines
    others = lines
    if has_ours:
        start = lines.index(BEGIN)
        stop = lines.index(END, start) if END in lines[start:] else start
        others = [*lines[:start], *lines[stop + 1 :]]
    made = change(others)
    if made != lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        if made:
            write_text(path, "\n".join(made) + "\n", "the attributes")
        else:
            path.unlink(missing_ok=True)
    return has_ours


__all__ = ["install", "is_installed", "settings", "uninstall"]

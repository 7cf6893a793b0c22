"""Graphs in the history of a Git repository: ``HEAD~1:scores.mlgraph``.

Git is asked, never changed: what is read is the bytes of a file in a commit. A text that names a
file that is there is that file, also where it has a colon.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from maxlab.errors import FileError
from maxlab.graph import Graph
from maxlab.graph.reading import graph_of

GIT_S = 60
"""Seconds that Git may take for one answer."""


def graph_at(given: str) -> Graph:
    """The graph in the file at the path ``given``, or in a file of a commit: ``revision:path``.

    Raises:
        FileError: ML855, Git has no such revision or file, there is no Git, or no repository;
            ML001, it is no regular file; ML002, it cannot be read.
        ParseError: It has no graph.

    Example:
        >>> import tempfile
        >>> import maxlab
        >>> row = maxlab.TensorType(maxlab.float32, ["n"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     maxlab.Graph("double", lambda x: x * 2, [row]).save(f"{folder}/double.mlgraph")
        ...     graph_at(f"{folder}/double.mlgraph")
        Graph('double', 1 input, 1 op)
    """
    if not is_revision(given):
        return Graph(path=given)
    revision, _, path = given.partition(":")
    return graph_of(text_at(revision, path), given)


def is_revision(given: str) -> bool:
    """Whether ``given`` names a file of a commit, and no file that is there."""
    revision, colon, path = given.partition(":")
    drive = len(revision) == 1 and path[:1] in ("/", "\\")
    return bool(colon and revision and path) and not drive and not os.path.lexists(given)


def text_at(revision: str, path: str, folder: str | Path = ".") -> str:
    """The text of the file ``path``, from ``folder``, in the commit ``revision``.

    Raises:
        FileError: ML855, Git does not have it.
    """
    if revision.startswith("-"):  # an option of Git's, and no name of a commit
        raise _refused(f"{revision!r} is no revision", "")
    found = git(["rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], folder)
    if found is None:
        git(["rev-parse", "--git-dir"], folder, needed=f"{folder} is in no repository of Git")
        raise _refused(f"the repository has no revision {revision!r}", "")
    commit = found.decode().strip()
    where = path if os.path.isabs(path) else f"./{path}"
    if os.path.isabs(path):
        top = git(["rev-parse", "--show-toplevel"], folder) or b""
        where = os.path.relpath(os.path.realpath(path), os.fsdecode(top).strip())
    content = git(["cat-file", "blob", f"{commit}:{where}"], folder)
    if content is None:
        raise _refused(f"{revision} has no file {path!r}", "")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused(f"{revision}:{path} is not text, as a graph is", "") from None


def git(
    arguments: Sequence[str], folder: str | Path = ".", needed: str | None = None
) -> bytes | None:
    """The output of ``git`` with ``arguments`` in ``folder``; None when it fails.

    Args:
        arguments: They are given as they are, through no shell.
        folder: Where it runs.
        needed: What to say when it fails, as an error.

    Raises:
        FileError: ML855, there is no Git, it takes too long, or it failed and was needed.
    """
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise _refused("there is no git on this machine", "install Git") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused(f"git does not answer: {error}", "") from None
    if done.returncode == 0:
        return done.stdout
    if needed is None:
        return None
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise _refused(
        needed + (f": {told[-1]}" if told else ""),
        "run it in a folder of a repository, or make one: git init",
    )


def _refused(what: str, fix: str) -> FileError:
    return FileError(
        "ML855",
        what,
        fix=fix or "git log -- name.mlgraph lists the commits of a file; write HEAD~1:name.mlgraph",
    )


__all__ = ["git", "graph_at", "is_revision", "text_at"]

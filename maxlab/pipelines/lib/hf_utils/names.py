"""Names of repositories, of their revisions and of their files, checked before anything is opened.

A name that passes stays below the folder that it is joined to. So nothing that a user, a hub or an
index says can reach a file elsewhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from maxlab.errors import MissingRepositoryError, RepositoryError, shown

MOST_NAME = 4096
"""Characters that a path has at most on Linux."""
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")


def _bad(what: str, given: object, why: str, fix: str) -> RepositoryError:
    return RepositoryError("ML111", f"{shown(given)} is not the name of {what}: {why}", fix=fix)


def check_repo_id(repo_id: object) -> str:
    """``repo_id`` itself, the id of a repository on a hub: ``"name"`` or ``"owner/name"``.

    Raises:
        RepositoryError: ML111, it is none.

    Example:
        >>> check_repo_id("HuggingFaceTB/SmolLM2-135M")
        'HuggingFaceTB/SmolLM2-135M'
    """
    fix = "an id is owner/name, such as HuggingFaceTB/SmolLM2-135M; a folder is named by its path"
    if not isinstance(repo_id, str):
        raise _bad("a repository", repo_id, "it is no text", fix)
    parts = repo_id.split("/")
    why = ""
    if len(parts) > 2:
        why = "it has more than one /"
    elif not all(_PART.fullmatch(part) for part in parts):
        why = "each part has letters, digits, _, - and . inside, at most 96"
    elif ".." in repo_id or "--" in repo_id:
        why = "it has .. or -- inside"
    elif repo_id.endswith(".git"):
        why = "it ends with .git"
    if why:
        raise _bad("a repository", repo_id, why, fix)
    return repo_id


def check_revision(revision: object) -> str:
    """``revision`` itself: the name of a branch or a tag, or the hash of a commit.

    Raises:
        RepositoryError: ML111, it is none.

    Example:
        >>> check_revision("refs/pr/1")
        'refs/pr/1'
    """
    fix = "give a branch, a tag or the hash of a commit, such as main"
    return _relative(revision, "a revision", fix)


def check_file_name(name: object) -> str:
    """``name`` itself: a file of a repository, relative to its root, with ``/`` between folders.

    Raises:
        RepositoryError: ML111, it is none, or it leads out of the repository.

    Example:
        >>> check_file_name("onnx/model.onnx")
        'onnx/model.onnx'
    """
    if isinstance(name, os.PathLike):
        name = os.fspath(name)
    return _relative(name, "a file of a repository", "give it relative to the repository's root")


def _relative(name: object, what: str, fix: str) -> str:
    if not isinstance(name, str):
        raise _bad(what, name, "it is no text", fix)
    why = ""
    if not name:
        why = "it is empty"
    elif any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 or ord(c) == 127 for c in name):
        why = "it has a character that no name may have"
    elif len(name) > MOST_NAME:
        why = f"it has {len(name)} characters"
    elif "\\" in name:
        why = "it has a backslash"
    elif name.startswith("/") or re.match("[A-Za-z]:", name):
        why = "it is an absolute path"
    elif {"", ".", ".."} & set(name.split("/")):
        why = "it has an empty part, . or .."
    if why:
        raise _bad(what, name, why, fix)
    return name


def is_like_path(repo_id: str) -> bool:
    """True if ``repo_id`` is written as a path, as no id of a repository is."""
    return repo_id.startswith((".", "/", "~")) or "\\" in repo_id or repo_id.count("/") > 1


def as_folder(repo_id: object) -> Path | None:
    """The folder that ``repo_id`` names; None where it can only be the id of a repository.

    Raises:
        MissingRepositoryError: ML112, it is written as a path, and no folder is there.
        RepositoryError: ML111, it is no text, or has a NUL; ML112, it is a file.
    """
    if isinstance(repo_id, os.PathLike):
        repo_id = os.fspath(repo_id)
    if not isinstance(repo_id, str) or not repo_id or "\0" in repo_id:
        check_repo_id(repo_id)
    assert isinstance(repo_id, str)
    path = Path(repo_id).expanduser() if repo_id.startswith("~") else Path(repo_id)
    if os.path.isdir(path):  # False, whatever the system says of the name
        return path
    if os.path.exists(path):
        raise RepositoryError(
            "ML112",
            f"{shown(repo_id)} is a file, and a model is a folder",
            fix="give the folder that the file lies in",
        )
    if is_like_path(repo_id):
        raise no_folder(repo_id)
    return None


def refuse_revision(folder: Path, revision: object) -> None:
    """Raise unless ``revision`` says nothing: a folder of this machine has no revisions.

    ``main`` is what is asked for by default, and a snapshot of a cache is called by its commit.

    Raises:
        RepositoryError: ML111, no revision; ML124, another one than those.
    """
    if check_revision(revision) not in ("main", folder.name):
        raise RepositoryError(
            "ML124",
            f"{shown(str(folder), 200)} is a folder, which has no revision {shown(revision)}",
            fix="leave the revision out, or give the id of a repository",
        )


def no_folder(repo_id: str) -> MissingRepositoryError:
    """The error for the folder ``repo_id``, which is not there."""
    return MissingRepositoryError(
        "ML112",
        f"there is no folder {shown(repo_id, 200)}",
        why=[f"paths are relative to {os.getcwd()}"] if not os.path.isabs(repo_id) else (),
        fix="check the path; a repository of a hub is owner/name",
    )


def below(root: Path, file: object) -> str:
    """The name of a file relative to ``root``, given as that or as an absolute path.

    Raises:
        RepositoryError: ML111, it is neither, or it leads out of ``root``.

    Example:
        >>> below(Path("/models/tiny"), "/models/tiny/a.gguf")
        'a.gguf'
    """
    if isinstance(file, (str, os.PathLike)) and os.path.isabs(file):
        path, start = Path(file), root.absolute()
        if path.is_relative_to(start):
            file = path.relative_to(start).as_posix()
    return check_file_name(file)


def inside(root: Path, name: str, holds: Path | None = None) -> Path:
    """The path of the file ``name`` below ``root``, whose links lead nowhere else.

    Args:
        root: The folder.
        name: A name that was checked.
        holds: The folder that links may lead into; by default ``root``. In a cache of Hugging Face
            the files of a snapshot are links to blobs beside it.

    Raises:
        RepositoryError: ML123, a link leads out of the folder.
    """
    path = root.joinpath(*PurePosixPath(name).parts)
    real = Path(os.path.realpath(path))
    within = Path(os.path.realpath(holds or root))
    if not real.is_relative_to(within):
        raise RepositoryError(
            "ML123",
            f"the file {shown(name, 200)} of {shown(str(root), 200)} is a link that leads out of "
            "the folder",
            why=[f"it leads to {shown(str(real), 200)}"],
            fix="put a copy of the file there, or give the folder that it leads to",
        )
    return path


__all__ = [
    "as_folder",
    "below",
    "check_file_name",
    "check_repo_id",
    "check_revision",
    "inside",
    "is_like_path",
    "no_folder",
    "refuse_revision",
]

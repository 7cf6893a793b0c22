"""The cache of files that were downloaded from a hub, read without the network.

The cache is that of ``huggingface_hub``: for each repository a folder with ``refs`` (which commit a
branch was at), ``snapshots`` (a folder for each commit) and ``blobs`` (the contents, which the
files of snapshots link to).
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from maxlab import files
from maxlab.errors import FileError, MissingPackageError, MissingRepositoryError
from maxlab.graph.staged import placed
from maxlab.pipelines.lib.hf_utils.names import check_repo_id, check_revision

_MOST_REF = 1024
_COMMIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PREFIX = "models--"


def cache_folder() -> Path:
    """The folder of the cache, as ``HF_HUB_CACHE`` or ``HF_HOME`` say when ``huggingface_hub`` is
    imported.

    Raises:
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.
    """
    try:
        from huggingface_hub import constants
    except ImportError as error:
        raise no_package(error) from error
    return Path(os.path.abspath(os.path.expanduser(constants.HF_HUB_CACHE)))


def no_package(error: ImportError) -> MissingPackageError:
    """The error for ``huggingface_hub``, which cannot be imported."""
    return MissingPackageError(
        "ML979",
        "repositories of a hub need the package huggingface_hub, which is not installed",
        why=[str(error)],
        fix='pip install "maxlab[llm]"; a folder of this machine needs nothing',
    )


def repo_folder(repo_id: str) -> Path:
    """The folder of a repository in the cache, whether it is there or not."""
    return cache_folder() / f"{_PREFIX}{check_repo_id(repo_id).replace('/', '--')}"


def snapshot_of(repo_id: str, revision: str) -> Path | None:
    """The folder of a revision in the cache; None where there is none.

    Raises:
        RepositoryError: ML111, no id or no revision.
    """
    folder = repo_folder(repo_id)
    named = folder / "refs" / check_revision(revision)
    commit = revision
    if named.is_file():
        try:
            commit = files.read_text(named, "the commit of a branch", most=_MOST_REF).strip()
        except FileError:
            return None
    if not _COMMIT.fullmatch(commit):
        return None  # such as a branch's name with a /, of which the cache has nothing
    found = folder / "snapshots" / commit
    return found if found.is_dir() else None


@placed
def generate_local_model_path(repo_id: str, revision: str) -> str:
    """The absolute path of the folder in which a revision of a repository is cached.

    Args:
        repo_id: The repository, such as ``"HuggingFaceTB/SmolLM2-135M"``.
        revision: The hash of a commit; of a branch or tag the commit that was downloaded last.

    Raises:
        MissingRepositoryError: ML112 (a FileNotFoundError), nothing of it is cached.
        RepositoryError: ML111, no id or no revision.
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.

    Example:
        >>> generate_local_model_path("HuggingFaceTB/SmolLM2-135M", "main")  # doctest: +SKIP
        '/home/me/.cache/huggingface/hub/models--HuggingFaceTB--SmolLM2-135M/snapshots/93efa2f0…'
    """
    found = snapshot_of(repo_id, revision)
    if found is None:
        folder = repo_folder(repo_id)
        have = cached_revisions(repo_id)
        raise MissingRepositoryError(
            "ML112",
            f"the revision {revision!r} of {repo_id} is not in the cache",
            why=[
                f"the cache is {folder.parent}",
                f"it has the revisions {', '.join(have)} of it"
                if have
                else "it has nothing of the repository",
            ],
            fix="download it first: download_weight_files, or the command hf download",
        )
    return str(found)


def cached_revisions(repo_id: str) -> list[str]:
    """The branches, tags and commits of a repository that are in the cache."""
    folder = repo_folder(repo_id)
    refs = sorted((folder / "refs").glob("*")) if (folder / "refs").is_dir() else []
    snapshots = sorted((folder / "snapshots").glob("*"))
    return [one.name for one in refs if one.is_file()] + [one.name for one in snapshots]


def similar_cached(repo_id: str) -> str | None:
    """The repository in the cache whose id is most like ``repo_id``; None where none is."""
    try:
        names = [name for name in os.listdir(cache_folder()) if name.startswith(_PREFIX)]
    except OSError:
        return None
    ids = {name.removeprefix(_PREFIX).replace("--", "/", 1) for name in names} - {repo_id}
    by_case = {one.lower(): one for one in ids}
    near = difflib.get_close_matches(repo_id.lower(), by_case, 1, 0.8)
    return by_case[near[0]] if near else None


__all__ = [
    "cache_folder",
    "cached_revisions",
    "generate_local_model_path",
    "no_package",
    "repo_folder",
    "similar_cached",
    "snapshot_of",
]

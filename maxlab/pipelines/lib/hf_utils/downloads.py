"""Downloading files of weights into the cache of ``huggingface_hub``, several at once."""

from __future__ import annotations

import difflib
import inspect
import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from maxlab import progress
from maxlab.errors import ArgumentTypeError, RepositoryError, UnreachableError, shown
from maxlab.graph.staged import placed
from maxlab.pipelines.lib.hf_utils.access import (
    attempted,
    is_offline,
    no_file,
    offline,
    validate_hf_repo_access,
)
from maxlab.pipelines.lib.hf_utils.cache import snapshot_of
from maxlab.pipelines.lib.hf_utils.listing import Listing, in_folder, on_hub, path_in
from maxlab.pipelines.lib.hf_utils.names import (
    as_folder,
    below,
    check_file_name,
    check_repo_id,
    check_revision,
    refuse_revision,
)

_MB = 1_000_000


@placed
def download_weight_files(
    huggingface_model_id: str,
    filenames: list[str],
    revision: str | None = None,
    force_download: bool = False,
    max_workers: int = 8,
) -> list[Path]:
    """The paths of files of a repository on this machine, downloaded where they are not here yet.

    Files go to the cache of ``huggingface_hub``, below ``HF_HOME``. The hub is asked once for the
    list of files, so that a wrong name is told before anything is downloaded. A connection that is
    cut is taken up where it was cut, within one call. Progress is that of the notebook, and
    *Cancel* ends the download.

    Args:
        huggingface_model_id: The repository, or a folder, whose files are never downloaded.
        filenames: Files relative to the root of the repository. Where all of them are paths of
            files on this machine, absolute or relative to the working directory, these are
            returned; of a folder, paths of files in it.
        revision: A branch, a tag, or the hash of a commit. Where it is given, files that the cache
            has of it are returned without the network; None is ``main``, as the hub has it now.
        force_download: Download again what the cache has.
        max_workers: How many files are downloaded at once.

    Returns:
        A path for each name, in their order.

    Raises:
        RepositoryError: (a ValueError) ML111, a name that leads out of the repository; ML112, no
            such folder; ML113, no such repository; ML114, a gated one; ML115, no such revision;
            ML116, no such file; ML117, a rate limit; ML118, the hub cannot be reached; ML119,
            offline mode; ML120, a token that is refused; ML122, a download that is not whole, or
            that cannot be written; ML123, a link that leads out of the folder; ML124, a folder
            with ``force_download`` or a revision.
        ArgumentTypeError: ML111, ``filenames`` is no list, or ``max_workers`` no number from 1 on.
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.
        CancelledError: ML897, somebody cancelled the download.

    Example:
        >>> download_weight_files(  # doctest: +SKIP
        ...     "HuggingFaceTB/SmolLM2-135M", ["model.safetensors"], revision="main"
        ... )
        [PosixPath('/home/me/.cache/huggingface/hub/models--HuggingFaceTB--…/model.safetensors')]
    """
    names = _names(filenames, max_workers)
    folder = as_folder(huggingface_model_id)
    if folder is not None:
        if force_download:
            raise RepositoryError(
                "ML124",
                f"{shown(huggingface_model_id, 200)} is a folder, of which nothing is downloaded",
                fix="leave out force_download, or give the id of a repository",
            )
        refuse_revision(folder, "main" if revision is None else revision)
        return _in_folder(huggingface_model_id, folder, [below(folder, name) for name in names])
    if not force_download and (here := _paths_of_this_machine(names)) is not None:
        return here
    return files_of_repository(huggingface_model_id, names, revision, force_download, max_workers)


def files_of_repository(
    repo_id: str,
    filenames: Sequence[str],
    revision: str | None = None,
    force_download: bool = False,
    max_workers: int = 8,
) -> list[Path]:
    """As `download_weight_files`, whatever files lie in the working directory."""
    names = [check_file_name(name) for name in filenames]
    check_repo_id(repo_id)
    wanted = "main" if revision is None else check_revision(revision)
    if not names:
        return []
    cached = _cached(repo_id, wanted, names)
    if cached is not None and not force_download and (revision is not None or is_offline()):
        return cached
    if is_offline():
        raise offline(repo_id, wanted, "" if cached else names[0])
    with progress.working(f"download {repo_id}"):
        try:
            listing = on_hub(repo_id, wanted)
        except UnreachableError:
            if cached is not None and not force_download:
                return cached
            raise
        for name in names:
            if name not in listing.sizes:
                near = difflib.get_close_matches(name, list(listing.sizes), 3, 0.6)
                raise no_file(repo_id, wanted, name, near)
        commit = listing.info.sha if listing.info is not None else None
        if not force_download and commit and (current := _cached(repo_id, commit, names)):
            return current
        return _download(repo_id, wanted, names, listing, force_download, max_workers)


def _names(filenames: object, max_workers: object) -> list[Any]:
    if isinstance(filenames, (str, bytes, os.PathLike)) or not isinstance(filenames, Sequence):
        raise ArgumentTypeError(
            "ML111",
            f"filenames is a list of names, got {shown(filenames)}",
            fix='write ["model.safetensors"]',
        )
    if isinstance(max_workers, bool) or not isinstance(max_workers, int) or max_workers < 1:
        raise ArgumentTypeError(
            "ML111",
            f"max_workers is a number from 1 on, got {shown(max_workers)}",
            fix="leave it out for 8",
        )
    return [os.fspath(name) if isinstance(name, os.PathLike) else name for name in filenames]


def _paths_of_this_machine(names: list[Any]) -> list[Path] | None:
    """``names`` as paths, where all of them are files by themselves."""
    for name in names:
        if not isinstance(name, str) or "\0" in name or ".." in Path(name).parts:
            return None
        if not os.path.isfile(name):
            return None
    return [Path(name) for name in names] or None


def _in_folder(repo_id: str, folder: Path, names: list[str]) -> list[Path]:
    found = []
    for name in names:
        path = path_in(folder, name)
        if not path.is_file():
            near = difflib.get_close_matches(name, list(in_folder(folder).sizes), 3, 0.6)
            raise no_file(str(repo_id), "", name, near)
        found.append(path)
    return found


def _cached(repo_id: str, revision: str, names: list[str]) -> list[Path] | None:
    """The files of a revision in the cache; None unless all of them are there."""
    snapshot = snapshot_of(repo_id, revision)
    if snapshot is None:
        return None
    paths = [path_in(snapshot, name) for name in names]
    return paths if all(path.is_file() for path in paths) else None


# ---------------------------------------------------------------- the transfer


class _StoppedError(Exception):
    """Another download has failed, so that this one is of no use."""


class _Meter:
    """Bytes of several downloads, told to one work."""

    def __init__(self, work: progress.Work, total: int) -> None:
        self.work, self.total, self.done = work, total, 0
        self.is_over = False
        self._lock = threading.Lock()

    def count(self, nbytes: int, name: str) -> None:
        """Add to the bytes that have come; less than none where some have to come again.

        Raises:
            CancelledError: ML897, the work is cancelled.
            _StoppedError: Another download has failed.
        """
        with self._lock:
            self.done += nbytes
            done = self.done
        if self.is_over:
            raise _StoppedError
        self.work.step("megabytes downloaded:", done // _MB, -(-self.total // _MB), name)


def _bar(meter: _Meter, name: str) -> type[Any]:
    """A class of bars, as ``huggingface_hub`` makes one for a download, that draws nothing."""
    from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]

    class Bar(tqdm):  # type: ignore[type-arg,misc,unused-ignore]
        monitor_interval = 0  # tqdm would keep a thread for each class, to draw again

        def __init__(self, *args: Any, **options: Any) -> None:
            options["disable"] = True
            super().__init__(*args, **options)

        def update(self, n: float | None = 1) -> bool | None:
            meter.count(int(n or 0), name)
            return None

    return Bar


def _download(
    repo_id: str,
    revision: str,
    names: list[str],
    listing: Listing,
    force: bool,
    max_workers: int,
) -> list[Path]:
    from huggingface_hub import hf_hub_download

    work = progress.now()
    assert work is not None
    unique = list(dict.fromkeys(names))
    meter = _Meter(work, sum(listing.sizes[name] or 0 for name in unique))
    # Versions before 1.0 draw bars of their own.
    takes_bar = "tqdm_class" in inspect.signature(hf_hub_download).parameters

    def fetch(name: str) -> Path:
        options: dict[str, Any] = {"tqdm_class": _bar(meter, name)} if takes_bar else {}

        def ask() -> str:
            return str(
                hf_hub_download(repo_id, name, revision=revision, force_download=force, **options)
            )

        path = Path(attempted(ask, work, repo_id, revision, name))
        _require_whole(path, repo_id, name, listing.sizes[name])
        if not takes_bar:
            meter.count(path.stat().st_size, name)
        return path

    with ThreadPoolExecutor(min(max_workers, len(unique)) or 1, "maxlab-download") as pool:
        futures = {name: pool.submit(fetch, name) for name in unique}
        try:
            done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:  # an interrupt too
            meter.is_over = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [futures[name].result() for name in names]


def _require_whole(path: Path, repo_id: str, name: str, size: int | None) -> None:
    have = path.stat().st_size
    if size is not None and have != size:
        raise RepositoryError(
            "ML122",
            f"the download of {name} of {repo_id} failed: it has {have} bytes, and the hub says "
            f"{size}",
            fix="download it again with force_download=True",
        )


# ---------------------------------------------------------------- one file of the cache


@placed
def try_to_load_from_cache(repo_id: str, filename: str, revision: str) -> str | Any | None:
    """The path of a file in the cache; None where the cache does not have it.

    Where the cache knows that the repository has no such file, it is the value
    ``huggingface_hub._CACHED_NO_EXIST``. A repository of which the cache has nothing is asked of
    its hub first, so that a wrong id is told.

    Args:
        repo_id: The repository, or a folder.
        filename: The file, relative to its root.
        revision: A branch, a tag, or the hash of a commit.

    Raises:
        RepositoryError: (a ValueError) ML111, a name that leads out of the repository; ML123, a
            link that does; ML112 to ML120, as `validate_hf_repo_access`.
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.

    Example:
        >>> try_to_load_from_cache(  # doctest: +SKIP
        ...     "HuggingFaceTB/SmolLM2-135M", "config.json", "main"
        ... )
        '/home/me/.cache/huggingface/hub/models--HuggingFaceTB--SmolLM2-135M/…/config.json'
    """
    name = check_file_name(filename)
    folder = as_folder(repo_id)
    if folder is not None:
        refuse_revision(folder, revision)
        path = path_in(folder, name)
        return str(path) if path.is_file() else None
    validate_hf_repo_access(repo_id, revision)
    import huggingface_hub

    found = huggingface_hub.try_to_load_from_cache(repo_id, name, revision=revision)
    if isinstance(found, str) and (snapshot := snapshot_of(repo_id, revision)) is not None:
        path_in(snapshot, name)
    return found


__all__ = ["download_weight_files", "files_of_repository", "try_to_load_from_cache"]

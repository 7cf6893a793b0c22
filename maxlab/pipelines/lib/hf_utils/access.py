"""Asking a hub: with retries, and with errors that say what to do.

``huggingface_hub`` raises errors of the HTTP library that it is built on, which differs between its
versions. They are told apart here by status, and by what `huggingface_hub.errors` has in all of
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from maxlab import progress
from maxlab.errors import (
    MaxlabError,
    MissingRepositoryError,
    RepositoryError,
    UnreachableError,
)
from maxlab.graph.foreign import users_own
from maxlab.graph.staged import placed
from maxlab.pipelines.lib.hf_utils.cache import no_package, similar_cached, snapshot_of
from maxlab.pipelines.lib.hf_utils.names import (
    as_folder,
    check_repo_id,
    check_revision,
    refuse_revision,
)

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo  # type: ignore[import-not-found,unused-ignore]

T = TypeVar("T")

WAITS_S = (1.0, 2.0, 4.0)
"""Seconds before each further attempt, where a hub cannot be reached or has a fault."""
TIMEOUT_S = 10.0
"""Seconds that a hub has to answer."""
_NETWORK = frozenset({"requests", "urllib3", "httpx", "httpx2", "httpcore"})
_LOGIN = "log in with the command hf auth login, or set HF_TOKEN to a token of your account"


def is_offline() -> bool:
    """True if ``HF_HUB_OFFLINE`` forbids to ask hubs; as ``huggingface_hub`` read it when it was
    imported.

    Raises:
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.
    """
    try:
        from huggingface_hub import constants
    except ImportError as error:
        raise no_package(error) from error
    return bool(constants.HF_HUB_OFFLINE)


def endpoint() -> str:
    """The address of the hub: that of ``HF_ENDPOINT``, or Hugging Face's."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def model_info(repo_id: str, revision: str) -> ModelInfo:
    """The description of a revision by its hub, its files with their sizes; one request.

    Raises:
        RepositoryError: ML113 to ML120; see `translated`.
        CancelledError: ML897, somebody wants the work to end.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint())

    def ask() -> ModelInfo:
        return api.model_info(repo_id, revision=revision, files_metadata=True, timeout=TIMEOUT_S)

    return asked(ask, repo_id, revision)


def asked(question: Callable[[], T], repo_id: str, revision: str, file: str = "") -> T:
    """The answer of ``question``, which asks a hub; asked again where that may help.

    Rate limits are told at once: asking again would lengthen them.

    Raises:
        RepositoryError: ML113 to ML120, and ML122; see `translated`.
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.
        CancelledError: ML897, somebody wants the work to end.
    """
    with progress.working(f"ask for {repo_id}") as work:
        return attempted(question, work, repo_id, revision, file)


def attempted(
    question: Callable[[], T], work: progress.Work, repo_id: str, revision: str, file: str = ""
) -> T:
    """As `asked`, on any thread, as a part of ``work``."""
    if is_offline():
        raise offline(repo_id, revision, file)
    waits = iter(enumerate(WAITS_S, 1))
    while True:
        try:
            with users_own():  # no argument is to blame for what comes out
                return question()
        except MaxlabError:
            raise
        except Exception as error:
            found = translated(error, repo_id, revision, file)
            if found is None:
                raise
            attempt, seconds = next(waits, (0, 0.0))
            is_passing = isinstance(found, UnreachableError) and found.code == "ML118"
            if not is_passing or not attempt:
                raise found from error
        work.step("waiting before a further attempt", attempt, len(WAITS_S))
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            work.check()


# ---------------------------------------------------------------- errors


def status_of(error: BaseException) -> int | None:
    """The status of the HTTP response that ``error`` is about; None where there was none."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _is_network(error: BaseException) -> bool:
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(modules & _NETWORK) or isinstance(error, (ConnectionError, TimeoutError))


def _is_timeout(error: BaseException) -> bool:
    return any("Timeout" in kind.__name__ for kind in type(error).__mro__)


def translated(
    error: BaseException, repo_id: str, revision: str, file: str = ""
) -> RepositoryError | None:
    """The error to raise for one of ``huggingface_hub`` or its HTTP library; None for any other.

    ML113: no such repository. ML114: gated. ML115: no such revision. ML116: no such file. ML117: a
    rate limit. ML118: no connection, no answer in time, or a fault of the hub. ML119: offline mode.
    ML120: a token that is refused. ML122: a download that is not whole, or cannot be written.
    """
    from huggingface_hub import errors

    status = status_of(error)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return offline(repo_id, revision, file)
    if isinstance(error, errors.GatedRepoError):
        return _gated(repo_id, status)
    if isinstance(error, errors.RevisionNotFoundError):
        return MissingRepositoryError(
            "ML115",
            f"the repository {repo_id} has no revision {revision!r}",
            fix=f"see {endpoint()}/{repo_id}/tree/main for its branches and tags",
        )
    if isinstance(error, errors.LocalEntryNotFoundError):  # wraps why the hub was not asked
        cause = error.__cause__
        inner = translated(cause, repo_id, revision, file) if cause is not None else None
        return inner or _unreachable(repo_id, error)
    if isinstance(error, errors.EntryNotFoundError):
        return no_file(repo_id, revision, file, ())
    if status == 429:
        return _limited(repo_id, error)
    if isinstance(error, errors.DisabledRepoError):
        return RepositoryError(
            "ML120",
            f"the hub has disabled access to {repo_id} for everybody",
            fix=f"see {endpoint()}/{repo_id} for why",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return _not_found(repo_id, status)
    if status == 401 and not _has_token():
        return _not_found(repo_id, status)
    if status in (401, 403):
        return _refused(repo_id, status)
    if status == 404:
        return _not_found(repo_id, status)
    if status is not None and status != 408 and status < 500:
        return RepositoryError(
            "ML118",
            f"the hub {endpoint()} answered a question about {repo_id} with status {status}",
            why=[_first_line(error)],
            fix="check HF_ENDPOINT, and that huggingface_hub is of a current version",
        )
    if status is not None or _is_network(error):
        return _unreachable(repo_id, error)
    if isinstance(error, (OSError, errors.FileMetadataError)):
        return RepositoryError(
            "ML122",
            f"the download of {file or 'a file'} of {repo_id} failed: {_first_line(error)}",
            fix="check the room on the disk, then download again with force_download=True",
        )
    return None


def _has_token() -> bool:
    from huggingface_hub import get_token

    return bool(get_token())


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip()[:300] if lines else type(error).__name__


def _not_found(repo_id: str, status: int | None) -> MissingRepositoryError:
    near = similar_cached(repo_id)
    why = ["hubs answer the same for a private repository to whoever has no access"]
    if status == 401:
        why.append("nobody is logged in on this machine, or the token is for another account")
    return MissingRepositoryError(
        "ML113",
        f"there is no repository {repo_id} on {endpoint()}",
        why=why,
        fix=f"did you mean {near}, which is in the cache?"
        if near
        else f"check the spelling; if it is private, {_LOGIN}",
    )


def _gated(repo_id: str, status: int | None) -> RepositoryError:
    return RepositoryError(
        "ML114",
        f"the repository {repo_id} is gated: its owner asks you to accept conditions first",
        why=["nobody is logged in on this machine"]
        if status == 401
        else ["the account that is logged in has not been granted access"],
        fix=f"accept the conditions at {endpoint()}/{repo_id}, then {_LOGIN}",
    )


def _limited(repo_id: str, error: BaseException) -> RepositoryError:
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    after = str(headers.get("Retry-After", ""))
    wait = f"{after} seconds" if after.isdigit() else "a few minutes"
    return RepositoryError(
        "ML117",
        f"the hub limits how often it is asked, and refused to answer about {repo_id}",
        fix=f"wait {wait}; who is logged in may ask more often: {_LOGIN}",
    )


def _refused(repo_id: str, status: int) -> RepositoryError:
    what = "is not valid any more, or never was" if status == 401 else "may not read it"
    return RepositoryError(
        "ML120",
        f"the hub refuses access to {repo_id}: your token {what}",
        fix=f"{_LOGIN}; the token needs the right to read this repository",
    )


def _unreachable(repo_id: str, error: BaseException) -> UnreachableError:
    status = status_of(error)
    if status is not None:
        what = f"has a fault (status {status})"
    elif _is_timeout(error):
        what = f"did not answer within {TIMEOUT_S:g} seconds"
    else:
        what = "cannot be reached"
    return UnreachableError(
        "ML118",
        f"the hub {endpoint()} {what}, and {repo_id} is not in the cache",
        why=[_first_line(error)],
        fix="check the connection and any proxy, then try again; HF_ENDPOINT names another hub",
    )


def offline(repo_id: str, revision: str, file: str = "") -> UnreachableError:
    """The error for something that is not in the cache while ``HF_HUB_OFFLINE`` is set."""
    what = f"the file {file} of {repo_id}" if file else repo_id
    return UnreachableError(
        "ML119",
        f"{what} (revision {revision}) is not in the cache, and HF_HUB_OFFLINE forbids to ask the "
        "hub",
        fix="unset HF_HUB_OFFLINE and start Python again, or copy the model into a folder",
    )


def no_file(
    repo_id: str, revision: str, file: str, near: tuple[str, ...] | list[str]
) -> MissingRepositoryError:
    """The error for a file that a repository or folder does not have."""
    at = f" (revision {revision})" if revision else ""
    return MissingRepositoryError(
        "ML116",
        f"{repo_id}{at} has no file {file!r}",
        fix=f"did you mean {' or '.join(near)}?"
        if near
        else "HuggingFaceRepo(…).weight_files lists its weights",
    )


# ---------------------------------------------------------------- the public one


@placed
def validate_hf_repo_access(repo_id: str, revision: str) -> None:
    """Raise unless the files of a repository can be read, with what to do about it.

    A folder of this machine can, and so can a revision of which the cache has files: neither is
    asked of the network. Any other repository is asked of its hub, again after 1, 2 and 4 seconds
    where that cannot be reached.

    Args:
        repo_id: The repository, or a folder.
        revision: A branch, a tag, or the hash of a commit; ``main`` of a folder.

    Raises:
        RepositoryError: (a ValueError) ML111, a name that none can have; ML112, no such folder;
            ML113, no such repository, or a private one; ML114, a gated one; ML115, no such
            revision; ML117, a rate limit; ML118, the hub cannot be reached; ML119, offline mode;
            ML120, a token that is refused; ML124, a folder with a revision.
        MissingPackageError: ML979, ``huggingface_hub`` is not installed.

    Example:
        >>> validate_hf_repo_access("HuggingFaceTB/SmolLM2-135M", "main")  # doctest: +SKIP
    """
    folder = as_folder(repo_id)
    if folder is not None:
        refuse_revision(folder, revision)
        return
    check_repo_id(repo_id)
    snapshot = snapshot_of(repo_id, check_revision(revision))
    if snapshot is not None and any(snapshot.iterdir()):
        return
    model_info(repo_id, revision)


__all__ = [
    "TIMEOUT_S",
    "WAITS_S",
    "asked",
    "attempted",
    "endpoint",
    "is_offline",
    "model_info",
    "no_file",
    "offline",
    "status_of",
    "translated",
    "validate_hf_repo_access",
]

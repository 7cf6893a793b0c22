"""Errors of ``huggingface_hub``, and of the HTTP libraries that its versions are built on."""

from __future__ import annotations

import errno
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from maxlab import progress
from maxlab.errors import RepositoryError, UnreachableError
from maxlab.pipelines.lib.hf_utils import download_weight_files
from maxlab.pipelines.lib.hf_utils.access import translated
from tests.pipelines.hub.models import plain
from tests.pipelines.hub.server import Hub, Model

pytestmark = pytest.mark.oracle


def http(library: str, name: str, base: type[Exception] = Exception, status: int = 0) -> Exception:
    """An error of an HTTP library, which need not be installed."""
    error: Any = type(name, (base,), {"__module__": library})("line one\nline two")
    if status:
        error.response = types.SimpleNamespace(status_code=status, headers={})
    return error  # type: ignore[no-any-return]


def of_hub(name: str, cause: Exception | None = None) -> Exception:
    """An error of ``huggingface_hub``, made without a response."""
    from huggingface_hub import errors

    kind = getattr(errors, name)
    error: Exception = kind.__new__(kind)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (("requests.exceptions", "ConnectionError", OSError), "ML118"),
        (("requests.exceptions", "ReadTimeout", OSError), "ML118"),
        (("urllib3.exceptions", "MaxRetryError"), "ML118"),
        (("httpx", "ConnectError"), "ML118"),
        (("httpx2", "RemoteProtocolError"), "ML118"),
        (("requests.exceptions", "HTTPError", OSError, 502), "ML118"),
        (("httpx", "HTTPStatusError", Exception, 429), "ML117"),
        (("httpx", "HTTPStatusError", Exception, 404), "ML113"),
        (("httpx", "HTTPStatusError", Exception, 401), "ML113"),
        (("httpx", "HTTPStatusError", Exception, 403), "ML120"),
        (("httpx", "HTTPStatusError", Exception, 400), "ML118"),
        (("builtins", "ConnectionResetError", ConnectionResetError), "ML118"),
        (("builtins", "TimeoutError", TimeoutError), "ML118"),
        (("builtins", "OSError", OSError), "ML122"),
        (("builtins", "ValueError", ValueError), None),
        (("builtins", "KeyError", KeyError), None),
    ],
    ids=str,
)
def test_errors_of_http_libraries(cache: Path, error: Any, code: str | None) -> None:
    found = translated(http(*error), "owner/tiny", "main", "w.gguf")
    assert (found and found.code) == code
    assert found is None or "line two" not in str(found)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("OfflineModeIsEnabled", "ML119"),
        ("GatedRepoError", "ML114"),
        ("RevisionNotFoundError", "ML115"),
        ("RepositoryNotFoundError", "ML113"),
        ("DisabledRepoError", "ML120"),
        ("EntryNotFoundError", "ML116"),
        ("LocalEntryNotFoundError", "ML118"),
        ("FileMetadataError", "ML122"),
        ("HFValidationError", None),
    ],
)
def test_errors_of_huggingface_hub(cache: Path, name: str, code: str | None) -> None:
    found = translated(of_hub(name), "owner/tiny", "main", "w.gguf")
    assert (found and found.code) == code


def test_the_cause_of_a_file_that_is_not_in_the_cache_counts(cache: Path) -> None:
    limited = http("httpx", "HTTPStatusError", Exception, 429)
    found = translated(of_hub("LocalEntryNotFoundError", limited), "owner/tiny", "main")
    assert (found and found.code) == "ML117"


def test_only_what_passes_is_unreachable(cache: Path) -> None:
    for status, kind in ((500, True), (408, True), (400, False), (410, False)):
        found = translated(
            http("httpx", "HTTPStatusError", Exception, status), "owner/tiny", "main"
        )
        assert isinstance(found, UnreachableError) == kind
    timeout = translated(http("httpx2", "ReadTimeout"), "owner/tiny", "main")
    assert "did not answer within 10 seconds" in str(timeout)


def test_a_disk_that_is_full(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def full(*args: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    hub.models["owner/tiny"] = Model({"w.safetensors": plain()})
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(ValueError, match=r"w\.safetensors.*No space left on device.*ML122"):
        download_weight_files("owner/tiny", ["w.safetensors"])


def test_a_download_that_fails_stops_those_that_are_under_way(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    begun, stopped = threading.Event(), []

    def download(repo_id: str, name: str, *, tqdm_class: Any, **options: object) -> str:
        if name == "bad.gguf":
            begun.wait(20)
            raise http("httpx", "HTTPStatusError", Exception, 403)
        bar = tqdm_class(total=10**9)
        begun.set()
        try:
            for _ in range(20_000):
                bar.update(1)
                time.sleep(0.001)
        except Exception as error:
            stopped.append(type(error).__name__)
            raise
        return __file__

    hub.models["owner/tiny"] = Model({"bad.gguf": b"x", "good.gguf": b"x"})
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(RepositoryError, match="ML120"):
        download_weight_files("owner/tiny", ["good.gguf", "bad.gguf"])
    assert stopped == ["_StoppedError"]


def test_versions_that_take_no_bar(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    download = huggingface_hub.hf_hub_download

    def older(
        repo_id: str, filename: str, *, revision: str | None = None, force_download: bool = False
    ) -> str:
        return str(download(repo_id, filename, revision=revision, force_download=force_download))

    hub.models["owner/tiny"] = Model({"w.safetensors": plain()})
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", older)
    with progress.working("load the model") as work:
        (path,) = download_weight_files("owner/tiny", ["w.safetensors"])
        assert work.what == "w.safetensors"
    assert path.read_bytes() == plain()

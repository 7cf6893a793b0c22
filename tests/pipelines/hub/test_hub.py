"""Repositories of a hub that answers on the loopback interface, with its refusals and faults."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxlab import progress
from maxlab.errors import CancelledError, MissingRepositoryError, RepositoryError
from maxlab.graph.weights import WeightsFormat
from maxlab.pipelines.lib.config_enums import RepoType, SupportedEncoding
from maxlab.pipelines.lib.hf_utils import (
    HuggingFaceRepo,
    download_weight_files,
    generate_local_model_path,
    try_to_load_from_cache,
    validate_hf_repo_access,
)
from maxlab.pipelines.lib.hf_utils.downloads import files_of_repository
from tests.pipelines.hub.models import cached, config, gguf_file, plain, safetensors
from tests.pipelines.hub.server import COMMIT, Fault, Hub, Model

pytestmark = pytest.mark.oracle

ID = "owner/tiny"
API = f"/api/models/{ID}/revision/main"
SAFE, GGUF = WeightsFormat.safetensors, WeightsFormat.gguf


def tiny(**more: Any) -> Model:
    """A repository of one file of weights."""
    return Model({"config.json": config(), "model.safetensors": plain("BF16", 100)}, more)


def resolve(name: str) -> str:
    return f"/{ID}/resolve/main/{name}"


# ---------------------------------------------------------------- the whole path


def test_a_repository_is_described_downloaded_and_then_read_without_the_hub(
    hub: Hub, cache: Path
) -> None:
    hub.models[ID] = tiny(safetensors={"parameters": {"BF16": 100}, "total": 100})
    repo = HuggingFaceRepo(ID)
    assert repo.repo_type is RepoType.online
    assert repo.weight_files == {SAFE: ["model.safetensors"]}
    assert repo.formats_available == [SAFE]
    assert repo.supported_encodings == ["bfloat16"]
    assert repo.encoding_for_file("model.safetensors") is SupportedEncoding.bfloat16
    assert repo.size_of("model.safetensors") == len(plain("BF16", 100))
    assert repo.size_of("none") is None
    assert (repo.file_exists("config.json"), repo.file_exists("none")) == (True, False)
    assert repo.info.sha == COMMIT
    assert str(repo).startswith(f"{ID} at main, on the hub")
    assert "bfloat16" in repo._repr_html_()
    assert hub.paths() == [API], "one request tells all of it"

    names = ["config.json", "model.safetensors"]
    paths = download_weight_files(ID, names, "main")
    assert [path.read_bytes() for path in paths] == [hub.models[ID].files[n] for n in names]
    assert all(path.is_relative_to(cache) for path in paths)

    hub.asked.clear()
    hub.models.clear()
    again = HuggingFaceRepo(ID)
    assert str(again).startswith(f"{ID} at main, in the cache")
    assert again.supported_encodings == ["bfloat16"]
    assert again.files_for_encoding(SupportedEncoding.bfloat16) == {
        SAFE: [Path("model.safetensors")]
    }
    assert again.file_exists("tokenizer.json") is False
    assert download_weight_files(ID, names, "main") == paths
    assert download_weight_files(ID, names, COMMIT) == paths
    assert generate_local_model_path(ID, "main") == str(paths[0].parent)
    assert generate_local_model_path(ID, COMMIT) == str(paths[0].parent)
    assert try_to_load_from_cache(ID, "config.json", "main") == str(paths[0])
    assert try_to_load_from_cache(ID, "none.json", "main") is None
    validate_hf_repo_access(ID, "main")
    assert hub.asked == []


def test_without_a_revision_the_hub_is_asked_for_the_newest(hub: Hub, cache: Path) -> None:
    hub.models[ID] = tiny()
    (old,) = download_weight_files(ID, ["model.safetensors"])
    hub.asked.clear()
    assert download_weight_files(ID, ["model.safetensors"]) == [old]
    assert hub.paths() == [API], "the cache has this commit, and nothing is downloaded"
    hub.models[ID] = Model({"model.safetensors": plain("F32", 3)}, commit="d" * 40)
    (new,) = download_weight_files(ID, ["model.safetensors"])
    assert new != old
    assert new.read_bytes() == plain("F32", 3)
    assert old.is_file()
    # A revision that is given is that of the cache, which has moved on.
    assert download_weight_files(ID, ["model.safetensors"], "main") == [new]
    hub.models.clear()
    hub.faults = [Fault(503)] * 9
    assert download_weight_files(ID, ["model.safetensors"]) == [new], "the hub is down"


def test_files_of_the_working_directory_count_only_where_that_is_asked_for(
    hub: Hub, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.models[ID] = tiny()
    (tmp_path / "model.safetensors").write_bytes(plain())
    monkeypatch.chdir(tmp_path)
    assert download_weight_files(ID, ["model.safetensors"]) == [Path("model.safetensors")]
    (path,) = files_of_repository(ID, ["model.safetensors"])
    assert path.read_bytes() == plain("BF16", 100)
    assert files_of_repository(ID, []) == []


def test_files_are_downloaded_again_when_that_is_asked_for(hub: Hub, cache: Path) -> None:
    hub.models[ID] = tiny()
    (path,) = download_weight_files(ID, ["model.safetensors"], "main")
    path.resolve().write_bytes(b"spoilt")
    assert download_weight_files(ID, ["model.safetensors"], "main") == [path]
    (again,) = download_weight_files(ID, ["model.safetensors"], "main", force_download=True)
    assert again.read_bytes() == plain("BF16", 100)


def test_many_files_at_once(hub: Hub, cache: Path) -> None:
    files = {f"model-{n:05}-of-00009.safetensors": plain("F32", n) for n in range(1, 10)}
    hub.models[ID] = Model(files)
    names = [*files, next(iter(files))]
    for workers in (1, 4):
        paths = download_weight_files(ID, names, force_download=True, max_workers=workers)
        assert [path.name for path in paths] == names
        assert [path.read_bytes() for path in paths] == [files[name] for name in names]


# ---------------------------------------------------------------- encodings


def test_encodings_of_a_hub_are_told_without_downloading_weights(hub: Hub, cache: Path) -> None:
    name = "tiny-q4_k_m.gguf"
    files = {
        name: gguf_file({"w": ("Q4_K", 1)}),
        "tiny-other.gguf": b"x",
        "pytorch_model.bin": b"x",
    }
    hub.models[ID] = Model(
        {**files, "model.safetensors": safetensors({"w": ("F16", 9), "n": ("F32", 1)})}
    )
    repo = HuggingFaceRepo(ID)
    hub.asked.clear()
    assert "float16" not in str(repo), "a view asks nobody"
    assert hub.asked == []
    assert repo.supported_encodings == ["float16", "q4_k"]
    assert repo.files_for_encoding(SupportedEncoding.q4_k) == {GGUF: [Path(name)]}
    assert repo.supported_encodings == ["float16", "q4_k"]
    assert hub.asked == [("GET", resolve("model.safetensors"), "bytes=0-100000")]
    with pytest.raises(RepositoryError, match="its name does not tell.*ML121"):
        repo.encoding_for_file("tiny-other.gguf")


def test_a_quantised_model_of_a_hub(hub: Hub, cache: Path) -> None:
    told = {"safetensors": {"parameters": {"I32": 8, "F16": 64}, "total": 72}}
    quantised = {"config": {"quantization_config": {"quant_method": "gptq"}}}
    hub.models[ID] = tiny(**told, **quantised)
    assert HuggingFaceRepo(ID).supported_encodings == ["gptq"]


def test_a_head_that_is_none_is_told_by_its_name(hub: Hub, cache: Path) -> None:
    hub.models[ID] = Model({"a-bf16.safetensors": b"\xff" * 99, "b.safetensors": b"x"})
    repo = HuggingFaceRepo(ID)
    assert repo.supported_encodings == ["bfloat16"]


def test_the_hub_is_asked_for_what_the_cache_lacks(hub: Hub, cache: Path) -> None:
    files = {
        "a-Q4_K_M.gguf": gguf_file({"w": ("Q4_K", 1)}),
        "a-Q6_K.gguf": gguf_file({"w": ("Q6_K", 1)}),
    }
    hub.models[ID] = Model({**files, "config.json": config()})
    download_weight_files(ID, ["a-Q4_K_M.gguf"])
    hub.asked.clear()
    repo = HuggingFaceRepo(ID)
    assert repo.supported_encodings == ["q4_k"]
    assert repo.files_for_encoding(SupportedEncoding.q4_k) == {GGUF: [Path("a-Q4_K_M.gguf")]}
    assert hub.asked == []
    assert repo.files_for_encoding(SupportedEncoding.q6_k) == {GGUF: [Path("a-Q6_K.gguf")]}
    assert repo.encoding_for_file("a-Q6_K.gguf") is SupportedEncoding.q6_k
    assert repo.file_exists("a-Q6_K.gguf")
    assert repo.size_of("a-Q6_K.gguf") == len(files["a-Q6_K.gguf"])
    assert hub.paths() == [API]


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": config()},
        {"model.safetensors": plain()},
        {"config.json": config(), "model-00001-of-00002.safetensors": plain()},
    ],
)
def test_a_cache_with_a_part_of_a_model_is_not_all_there_is(
    hub: Hub, cache: Path, files: dict[str, bytes]
) -> None:
    hub.models[ID] = tiny()
    cached(cache, ID, files)
    repo = HuggingFaceRepo(ID)
    assert repo.weight_files == {SAFE: ["model.safetensors"]}
    assert hub.paths() == [API]
    hub.faults = [Fault(500)] * 4
    assert HuggingFaceRepo(ID).file_exists(next(iter(files))), "it is better than nothing"


# ---------------------------------------------------------------- refusals


def refused(call: Callable[[], object], code: str) -> RepositoryError:
    with pytest.raises(RepositoryError, match=code) as caught:
        call()
    assert caught.value.fix
    return caught.value


ASKING: list[Callable[[], object]] = [
    lambda: HuggingFaceRepo(ID),
    lambda: validate_hf_repo_access(ID, "main"),
    lambda: download_weight_files(ID, ["model.safetensors"]),
    lambda: try_to_load_from_cache(ID, "model.safetensors", "main"),
]


@pytest.mark.parametrize("ask", ASKING, ids=["repo", "validate", "download", "cache"])
@pytest.mark.parametrize(
    ("token", "model", "code", "says"),
    [
        (None, None, "ML113", "nobody is logged in"),
        ("mine", None, "ML113", "check the spelling"),
        (None, Model({}, token="theirs"), "ML113", "if it is private"),
        ("mine", Model({}, token="theirs"), "ML120", "your token may not read it"),
        ("expired", Model({}, token="theirs"), "ML120", "is not valid any more"),
        (None, Model({}, token="theirs", is_gated=True), "ML114", "nobody is logged in"),
        ("mine", Model({}, token="theirs", is_gated=True), "ML114", "has not been granted access"),
    ],
)
def test_refusals_say_what_to_do(
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[], object],
    token: str | None,
    model: Model | None,
    code: str,
    says: str,
) -> None:
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    if model is not None:
        hub.models[ID] = model
    error = refused(ask, code)
    assert says in str(error)
    assert ID in error.what
    if code != "ML113" or token is None:
        assert "hf auth login" in str(error.fix)
    assert token is None or token not in str(error).replace("your token", "").split()
    assert hub.paths() == [API], "nobody asks twice for what is refused"


def test_a_token_opens_what_is_gated(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "theirs")
    hub.models[ID] = Model({"model.safetensors": plain()}, token="theirs", is_gated=True)
    (path,) = download_weight_files(ID, ["model.safetensors"])
    assert path.read_bytes() == plain()


def test_revisions_and_files_that_are_not_there(hub: Hub) -> None:
    hub.models[ID] = tiny()
    refused(lambda: HuggingFaceRepo(ID, "v9"), "ML115")
    refused(lambda: download_weight_files(ID, ["model.safetensors"], "v9"), "ML115")
    error = refused(
        lambda: download_weight_files(ID, ["config.json", "modle.safetensors"]), "ML116"
    )
    assert error.fix == "did you mean model.safetensors?"
    assert isinstance(error, MissingRepositoryError)
    assert "GET" not in {method for method, path, _ in hub.asked if "resolve" in path}
    refused(lambda: HuggingFaceRepo(ID).encoding_for_file("none.gguf"), "ML116")


def test_a_likely_id_of_the_cache_is_proposed(hub: Hub, cache: Path) -> None:
    cached(cache, "owner/TinyModel-1B", {"config.json": b"{}"})
    error = refused(lambda: HuggingFaceRepo("owner/tinymodel-1b"), "ML113")
    assert "did you mean owner/TinyModel-1B" in str(error.fix)


@pytest.mark.parametrize("after", ["7", "", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_rate_limits_are_told_at_once(hub: Hub, after: str) -> None:
    hub.models[ID] = tiny()
    for ask in ASKING:
        hub.faults = [Fault(429, (("Retry-After", after),))] * 9
        hub.asked.clear()
        error = refused(ask, "ML117")
        assert f"wait {'7 seconds' if after == '7' else 'a few minutes'}" in str(error.fix)
        assert len(hub.asked) == 1


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", [Fault(500), Fault(503), Fault(408), Fault(0)])
def test_faults_that_pass_are_not_told(hub: Hub, fault: Fault) -> None:
    hub.models[ID] = tiny()
    hub.faults = [fault, fault, fault]
    validate_hf_repo_access(ID, "main")
    assert hub.paths() == [API] * 4


@pytest.mark.parametrize(
    ("fault", "says"), [(Fault(500), "has a fault (status 500)"), (Fault(0), "cannot be reached")]
)
def test_faults_that_stay_are_told(hub: Hub, fault: Fault, says: str) -> None:
    hub.faults = [fault] * 9
    error = refused(lambda: validate_hf_repo_access(ID, "main"), "ML118")
    assert says in error.what
    assert len(hub.asked) == 4


def test_other_answers_are_told_at_once(hub: Hub) -> None:
    hub.faults = [Fault(418)] * 9
    error = refused(lambda: validate_hf_repo_access(ID, "main"), "ML118")
    assert "418" in error.what
    assert len(hub.asked) == 1


def test_a_hub_that_says_nothing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    def silent(*args: object, **options: object) -> None:
        raise TimeoutError("nothing came")

    monkeypatch.setattr(HfApi, "model_info", silent)
    error = refused(lambda: validate_hf_repo_access(ID, "main"), "ML118")
    assert "did not answer within 10 seconds" in error.what


def test_a_hub_that_is_not_there(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    error = refused(lambda: HuggingFaceRepo(ID), "ML118")
    assert "http://127.0.0.1:9 cannot be reached" in error.what


def test_a_download_that_is_cut_goes_on_where_it_was(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # what was read of a piece is lost
    content = plain("F32", 5000)
    hub.models[ID] = Model({"model.safetensors": content})
    hub.faults = [Fault(path="model.safetensors", method="GET", cut=7000)]
    (path,) = download_weight_files(ID, ["model.safetensors"])
    assert path.read_bytes() == content
    ranges = [range for method, at, range in hub.asked if method == "GET" and at != API]
    assert ranges == ["", "bytes=7000-"]


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_file_that_comes_at_the_second_attempt(
    hub: Hub, cache: Path, method: str, status: int
) -> None:
    hub.models[ID] = tiny()
    hub.faults = [Fault(status, path="model.safetensors", method=method)]
    (path,) = download_weight_files(ID, ["model.safetensors"])
    assert path.read_bytes() == plain("BF16", 100)


def test_one_file_that_fails_ends_the_others(hub: Hub, cache: Path) -> None:
    files = {f"model-{n:05}-of-00009.safetensors": plain("F32", 10) for n in range(1, 10)}
    hub.models[ID] = Model(files)
    hub.faults = [Fault(403, path="model-00002-of-00009.safetensors")] * 9
    refused(lambda: download_weight_files(ID, list(files), max_workers=2), "ML120")
    assert not list(cache.rglob("*.incomplete"))


def test_a_download_can_be_cancelled(hub: Hub, cache: Path) -> None:
    hub.models[ID] = Model({"model.safetensors": plain("F32", 5000)})
    seen = []

    class Cancelled(progress.Work):
        def step(self, phase: str, done: int = 0, total: int = 0, what: str = "") -> None:
            seen.append((phase, done, total, what))
            self.cancel()
            super().step(phase, done, total, what)

    work = Cancelled("load the model")
    with pytest.raises(CancelledError), progress.working(work):
        download_weight_files(ID, ["model.safetensors"])
    assert seen == [("megabytes downloaded:", 0, 1, "model.safetensors")]
    assert try_to_load_from_cache(ID, "model.safetensors", "main") is None


def test_progress_counts_bytes_of_all_files(hub: Hub, cache: Path, monkeypatch: Any) -> None:
    files = {f"{n}.gguf": os.urandom(10_000) for n in range(3)}
    hub.models[ID] = Model(files)
    from maxlab.pipelines.lib.hf_utils import downloads

    monkeypatch.setattr(downloads, "_MB", 1000)
    with progress.working("load the model") as work:
        download_weight_files(ID, list(files))
        assert (work.phase, work.done, work.total) == ("megabytes downloaded:", 30, 30)


def test_a_file_that_is_shorter_than_the_hub_said(hub: Hub, cache: Path) -> None:
    hub.models[ID] = Model({"model.safetensors": plain()})
    told = {"siblings": [{"rfilename": "model.safetensors", "size": 10**6}]}
    hub.models[ID].more = told
    refused(lambda: download_weight_files(ID, ["model.safetensors"]), "ML122")


# ---------------------------------------------------------------- what a hub must not do


@pytest.mark.parametrize(
    "name", ["../../x.safetensors", "/etc/x.safetensors", "a\0.bin", "", "a\\b.bin"]
)
def test_names_that_lead_out_of_a_repository_are_refused(hub: Hub, cache: Path, name: str) -> None:
    hub.models[ID] = Model({name: plain()})
    refused(lambda: HuggingFaceRepo(ID), "ML111")
    refused(lambda: download_weight_files(ID, ["model.safetensors"]), "ML111")
    refused(lambda: download_weight_files(ID, [name]), "ML111")
    assert not list(cache.parent.rglob("*.safetensors"))


@pytest.mark.parametrize(
    "repo_id",
    [
        "a/../b",
        "..",
        "a--b",
        "a..b",
        "x.git",
        "-a",
        "a b",
        "a\nb",
        "models--a",
        "é",
        "a/" + "b" * 97,
    ],
)
def test_ids_that_no_repository_has(hub: Hub, cache: Path, repo_id: str) -> None:
    for ask in (
        lambda: HuggingFaceRepo(repo_id, repo_type=RepoType.online),
        lambda: generate_local_model_path(repo_id, "main"),
    ):
        refused(ask, "ML111")
    assert hub.asked == []


@pytest.mark.parametrize("revision", ["../main", "/main", "", "a\0", "a//b", None])
def test_revisions_that_none_can_have(hub: Hub, cache: Path, revision: Any) -> None:
    for ask in (
        lambda: HuggingFaceRepo(ID, revision),
        lambda: validate_hf_repo_access(ID, revision),
        lambda: generate_local_model_path(ID, revision),
        lambda: try_to_load_from_cache(ID, "config.json", revision),
    ):
        refused(ask, "ML111")
    assert hub.asked == []


def test_a_reference_of_the_cache_that_leads_out_counts_for_nothing(hub: Hub, cache: Path) -> None:
    cached(cache, ID, {"config.json": config(), "model.safetensors": plain()})
    (cache / "secret").mkdir()
    (cache / "models--owner--tiny" / "refs" / "main").write_text("../../secret")
    refused(lambda: generate_local_model_path(ID, "main"), "ML112")
    refused(lambda: HuggingFaceRepo(ID), "ML113")


def test_a_link_of_the_cache_that_leads_out_is_refused(
    hub: Hub, cache: Path, tmp_path: Path
) -> None:
    snapshot = cached(cache, ID, {"config.json": config()})
    (tmp_path / "secret.safetensors").write_bytes(plain())
    (snapshot / "model.safetensors").symlink_to(tmp_path / "secret.safetensors")
    refused(lambda: HuggingFaceRepo(ID).weight_files, "ML123")
    refused(lambda: download_weight_files(ID, ["model.safetensors"], "main"), "ML123")
    refused(lambda: try_to_load_from_cache(ID, "model.safetensors", "main"), "ML123")


# ---------------------------------------------------------------- offline


def test_offline_the_cache_is_all_there_is(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for ask in ASKING:
        error = refused(ask, "ML119")
        assert "HF_HUB_OFFLINE" in str(error.fix)
    error = refused(lambda: generate_local_model_path(ID, "main"), "ML112")
    assert isinstance(error, FileNotFoundError)
    cached(cache, ID, {"config.json": config(), "model.safetensors": plain("F16")})
    assert HuggingFaceRepo(ID).supported_encodings == ["float16"]
    (path,) = download_weight_files(ID, ["model.safetensors"])
    assert path.read_bytes() == plain("F16")
    refused(lambda: download_weight_files(ID, ["model.safetensors"], force_download=True), "ML119")
    refused(lambda: download_weight_files(ID, ["none.gguf"], "main"), "ML119")
    error = refused(lambda: generate_local_model_path(ID, "v2"), "ML112")
    assert f"main, {'a' * 40}" in str(error)
    assert hub.asked == []

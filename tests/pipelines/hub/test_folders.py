"""Models in folders: their files, formats, sizes and encodings, and names that lead out of them."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.lib.pretty import pretty

from maxlab.errors import (
    ArgumentTypeError,
    MissingPackageError,
    MissingRepositoryError,
    RepositoryError,
    WeightError,
)
from maxlab.graph.weights import WeightsFormat, load_weights
from maxlab.pipelines.lib.config_enums import RepoType, SupportedEncoding
from maxlab.pipelines.lib.hf_utils import (
    HuggingFaceRepo,
    download_weight_files,
    generate_local_model_path,
    try_to_load_from_cache,
    validate_hf_repo_access,
)
from maxlab.pipelines.lib.hf_utils.names import check_file_name
from tests.pipelines.hub.models import (
    cached,
    config,
    folder,
    gguf_file,
    plain,
    pytorch,
    safetensors,
)

SHARDS = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
SAFE, GGUF, TORCH = WeightsFormat.safetensors, WeightsFormat.gguf, WeightsFormat.pytorch


def of(root: Path, files: dict[str, bytes]) -> HuggingFaceRepo:
    """A model in a folder."""
    return HuggingFaceRepo(str(folder(root, files)))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["model.safetensors"], {SAFE: ["model.safetensors"]}),
        (["model.safetensors", "config.json", "README.md"], {SAFE: ["model.safetensors"]}),
        ([*SHARDS, "model.safetensors.index.json"], {SAFE: SHARDS}),
        ([*SHARDS, "consolidated.safetensors"], {SAFE: SHARDS}),
        (["consolidated.safetensors"], {SAFE: ["consolidated.safetensors"]}),
        (["model-Q4_0.gguf", "mmproj-model-f16.gguf"], {GGUF: ["model-Q4_0.gguf"]}),
        (["adapter_model.safetensors"], {SAFE: ["adapter_model.safetensors"]}),
        (["consolidated.00.pth", "model.safetensors"], {SAFE: ["model.safetensors"]}),
        (["original/consolidated.00.pth", *SHARDS], {SAFE: SHARDS}),
        # What folders hold are other models, where the root has one.
        (["model.safetensors", "2_Dense/model.safetensors"], {SAFE: ["model.safetensors"]}),
        (["unet/model.safetensors"], {SAFE: ["unet/model.safetensors"]}),
        (["Q4/a.gguf", "b.gguf"], {GGUF: ["Q4/a.gguf", "b.gguf"]}),
        (
            ["pytorch_model.bin", "model.gguf", "model.safetensors"],
            {SAFE: ["model.safetensors"], GGUF: ["model.gguf"], TORCH: ["pytorch_model.bin"]},
        ),
        (
            ["pytorch_model.bin", "training_args.bin", "optimizer.pt"],
            {TORCH: ["pytorch_model.bin"]},
        ),
        (
            [".hidden.safetensors", ".cache/a.safetensors", "MODEL.SAFETENSORS"],
            {SAFE: ["MODEL.SAFETENSORS"]},
        ),
        (["config.json"], {}),
        ([], {}),
    ],
)
def test_weight_files(
    tmp_path: Path, names: list[str], expected: dict[WeightsFormat, list[str]]
) -> None:
    repo = of(tmp_path, dict.fromkeys(names, b"x"))
    assert repo.weight_files == expected
    assert list(repo.weight_files) == repo.formats_available == list(expected)


@pytest.mark.parametrize(
    ("files", "encodings"),
    [
        ({"model.safetensors": plain("F32")}, ["float32"]),
        ({"model.safetensors": plain("F16")}, ["float16"]),
        ({"model.safetensors": plain("BF16")}, ["bfloat16"]),
        # Norms in float32 do not make a model of bfloat16 another one.
        ({"m.safetensors": safetensors({"w": ("BF16", 64), "n": ("F32", 8)})}, ["bfloat16"]),
        # Nor does an embedding, which floats of 8 bits leave as it is.
        ({"m.safetensors": safetensors({"w": ("F8", 64), "e": ("BF16", 640)})}, ["float8_e4m3fn"]),
        (
            {"m.safetensors": safetensors({"a.qweight": ("I32", 8), "a.g_idx": ("I32", 8)})},
            ["gptq"],
        ),
        (
            {
                "m.safetensors": safetensors({"a.qweight": ("I32", 8), "e": ("F16", 64)}),
                "config.json": config(quantization_config={"quant_method": "gptq", "bits": 4}),
            },
            ["gptq"],
        ),
        (
            {
                "m.safetensors": safetensors({"a.qweight": ("I32", 8), "e": ("F16", 64)}),
                "config.json": config(quantization_config={"quant_method": "awq"}),
            },
            [],
        ),
        ({"model.safetensors": plain("F64")}, []),
        # The head of a file says more than its name.
        ({"model-bf16.safetensors": plain("F32")}, ["float32"]),
        ({"model-q6_k.gguf": gguf_file({"w": ("Q4_0", 2)})}, ["q4_0"]),
        ({"m.gguf": gguf_file({"w": ("Q5_K", 3), "v": ("Q6_K", 1)})}, ["q5_k"]),
        # Of few layers the embedding is the larger part, and the file says what was asked for.
        ({"m.gguf": gguf_file({"w": ("Q4_K", 1), "e": ("Q6_K", 3)}, file_type=15)}, ["q4_k"]),
        ({"m.gguf": gguf_file({"w": ("Q6_K", 3)}, file_type=15)}, ["q6_k"]),
        ({"m.gguf": gguf_file({"w": ("Q8_0", 3)})}, []),
        ({"m.gguf": gguf_file({})}, []),
        (
            {"a.gguf": gguf_file({"w": ("Q4_K", 1)}), "b.gguf": gguf_file({"w": ("Q6_K", 1)})},
            ["q4_k", "q6_k"],
        ),
        ({"pytorch_model.bin": pytorch("BF16")}, ["bfloat16"]),
        ({SHARDS[0]: plain("F32", 4), SHARDS[1]: safetensors({"v": ("BF16", 64)})}, ["bfloat16"]),
        (
            {"model.safetensors": plain("F32"), "model.fp16.safetensors": plain("F16")},
            ["float32", "float16"],
        ),
        # A file that nobody can read does not hide one that can be.
        ({"model.safetensors": plain("F32"), "pytorch_model.bin": b"no archive"}, ["float32"]),
    ],
)
def test_encodings_by_the_heads_of_files(
    tmp_path: Path, files: dict[str, bytes], encodings: list[str]
) -> None:
    repo = of(tmp_path, files)
    assert repo.supported_encodings == encodings
    for encoding in SupportedEncoding:
        found = repo.files_for_encoding(encoding)
        assert bool(found) == (encoding in encodings)
        for format, paths in found.items():
            assert repo.files_for_encoding(encoding, format) == {format: paths}
            assert {repo.encoding_for_file(path) for path in paths} == {encoding}
            assert {repo.encoding_for_file(tmp_path / path) for path in paths} == {encoding}


def test_files_for_an_encoding_are_one_checkpoint_that_loads(tmp_path: Path) -> None:
    repo = of(
        tmp_path,
        {
            "config.json": config(),
            SHARDS[0]: plain("BF16"),
            SHARDS[1]: safetensors({"v": ("BF16", 4)}),
            "model.fp32.safetensors": plain("F32"),
            "x-Q4_K_M.gguf": gguf_file({"w": ("Q4_K", 2)}),
            "x-Q4_K_S.gguf": gguf_file({"w": ("Q4_K", 1)}),
        },
    )
    found = repo.files_for_encoding(SupportedEncoding.bfloat16)
    assert found == {SAFE: [Path(name) for name in SHARDS]}
    weights = load_weights([tmp_path / name for name in found[SAFE]])
    assert sorted(name for name, _ in weights.items()) == ["v", "w"]
    assert repo.files_for_encoding(SupportedEncoding.q4_k) == {GGUF: [Path("x-Q4_K_M.gguf")]}
    assert repo.files_for_encoding(SupportedEncoding.q4_k, SAFE) == {}
    assert repo.files_for_encoding(SupportedEncoding.q6_k) == {}


def test_a_whole_file_counts_before_shards_of_its_name(tmp_path: Path) -> None:
    repo = of(tmp_path, {"model.safetensors": plain(), SHARDS[0]: plain(), SHARDS[1]: plain()})
    found = repo.files_for_encoding(SupportedEncoding.float32)
    assert found == {SAFE: [Path("model.safetensors")]}


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (["a.safetensors", "b.safetensors", "model.safetensors.index.json"], ["a", "b"]),
        (["a.safetensors", "b.safetensors"], ["a"]),
        (["model.safetensors", "b.safetensors", "model.safetensors.index.json"], ["b"]),
        (["x/a.safetensors", "x/b.safetensors", "x/model.safetensors.index.json"], ["x/a", "x/b"]),
        (["a.safetensors", "b.safetensors", "model.bin.index.json"], ["a"]),
        (["a.safetensors", *SHARDS, "model.safetensors.index.json"], ["a"]),
    ],
)
def test_an_index_holds_files_together(
    tmp_path: Path, names: list[str], together: list[str]
) -> None:
    repo = of(tmp_path, {name: plain() for name in names})
    found = repo.files_for_encoding(SupportedEncoding.float32)[SAFE]
    assert [str(path) for path in found] == [f"{name}.safetensors" for name in together]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    repo = of(tmp_path, {SHARDS[0]: plain()})
    assert repo.supported_encodings == ["float32"]
    with pytest.raises(MissingRepositoryError, match=f"{SHARDS[1]}.*ML116"):
        repo.files_for_encoding(SupportedEncoding.float32)
    assert f"{SHARDS[1]} " in str(repo)
    huge = of(tmp_path / "huge", {"model-000001-of-999999.safetensors": plain()})
    with pytest.raises(MissingRepositoryError, match="model-000002-of-999999"):
        huge.files_for_encoding(SupportedEncoding.float32)


def test_sizes_and_existence(tmp_path: Path) -> None:
    repo = of(tmp_path, {"model.safetensors": plain(), "a/b.txt": b"123"})
    assert repo.size_of("a/b.txt") == 3
    assert repo.size_of("model.safetensors") == len(plain())
    assert repo.size_of("a") is None
    assert repo.size_of("none.bin") is None
    assert [repo.file_exists(name) for name in ("a/b.txt", "a", "b.txt")] == [True, False, False]


@pytest.mark.parametrize(
    ("file", "kind", "code"),
    [
        ("none.safetensors", MissingRepositoryError, "ML116"),
        ("config.json", RepositoryError, "ML121"),
        ("m.gguf", RepositoryError, "ML121"),
        ("bad.safetensors", WeightError, "ML633"),
        ("../m.gguf", RepositoryError, "ML111"),
        ("/etc/passwd", RepositoryError, "ML111"),
    ],
)
def test_encodings_that_are_not_told(tmp_path: Path, file: str, kind: type, code: str) -> None:
    files = {"config.json": config(), "m.gguf": gguf_file({"w": ("Q8_0", 1)})}
    repo = of(tmp_path, {**files, "bad.safetensors": b"x" * 99})
    with pytest.raises(kind) as caught:
        repo.encoding_for_file(file)
    assert getattr(caught.value, "code", None) == code


def test_weights_that_nobody_can_read_are_told(tmp_path: Path) -> None:
    repo = of(tmp_path, {"model.safetensors": b"x" * 99})
    with pytest.raises(WeightError, match="ML633"):
        _ = repo.supported_encodings
    with pytest.raises(WeightError, match="ML633"):
        repo.files_for_encoding(SupportedEncoding.gptq)
    assert "not readable" in str(repo)
    with pytest.raises(RepositoryError, match="ML121"):
        repo.files_for_encoding("q3_k")  # type: ignore[arg-type]


# ---------------------------------------------------------------- names

NAMES: list[Any] = [
    "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "", ".", "..", "a\0b", "a\\..\\b", "C:\\x",
    "C:x", "a\nb", "x" * 5000, "\ud800", 3, None,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_of_files_that_lead_out_are_refused(tmp_path: Path, name: Any) -> None:
    root = tmp_path / "model"
    repo = of(root, {"model.safetensors": plain()})
    folder(tmp_path, {"x": b"secret"})
    calls: list[Callable[[], object]] = [
        lambda: repo.file_exists(name),
        lambda: repo.size_of(name),
        lambda: repo.encoding_for_file(name),
        lambda: download_weight_files(str(root), [name]),
        lambda: try_to_load_from_cache(str(root), name, "main"),
    ]
    for call in calls:
        with pytest.raises(RepositoryError, match="ML111"):
            call()


@pytest.mark.parametrize("name", ["a\0b", "", "owner/name/more\0", 3, None])
def test_names_that_are_neither_folder_nor_repository(name: Any) -> None:
    for call in (
        lambda: HuggingFaceRepo(name),
        lambda: validate_hf_repo_access(name, "main"),
        lambda: download_weight_files(name, ["model.safetensors"]),
    ):
        with pytest.raises(RepositoryError, match="ML111"):
            call()


@pytest.mark.parametrize("name", ["./none", "/none/at/all", "a/b/c", "../none", "~/none/x"])
def test_folders_that_are_not_there(name: str) -> None:
    with pytest.raises(MissingRepositoryError, match="ML112") as caught:
        HuggingFaceRepo(name)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(MissingRepositoryError, match="ML112"):
        HuggingFaceRepo(name, repo_type=RepoType.local)


def test_files_are_no_models(tmp_path: Path) -> None:
    path = folder(tmp_path, {"model.gguf": b"x"}) / "model.gguf"
    with pytest.raises(RepositoryError, match=r"is a file.*ML112"):
        HuggingFaceRepo(str(path))


def test_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    folder(tmp_path, {"secret.safetensors": plain(), "other/x.txt": b"x"})
    root = folder(tmp_path / "model", {"config.json": config(), "inner/w.safetensors": plain()})
    (root / "model.safetensors").symlink_to(tmp_path / "secret.safetensors")
    (root / "there").symlink_to(tmp_path / "other")
    (root / "own.safetensors").symlink_to(root / "inner" / "w.safetensors")
    repo = HuggingFaceRepo(str(root))
    for call in (
        lambda: repo.weight_files,
        lambda: repo.file_exists("model.safetensors"),
        lambda: repo.size_of("there/x.txt"),
        lambda: download_weight_files(str(root), ["model.safetensors"]),
        lambda: try_to_load_from_cache(str(root), "there/x.txt", "main"),
    ):
        with pytest.raises(RepositoryError, match="ML123"):
            call()
    assert "is a link that leads out of the folder" in str(repo)
    assert "is a link that leads out of the folder" in repo._repr_html_()
    (root / "model.safetensors").unlink()
    assert HuggingFaceRepo(str(root)).weight_files == {SAFE: ["own.safetensors"]}


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    root = folder(tmp_path / "model", {"model.safetensors": plain()})
    (root / "again").symlink_to(root)
    (root / "self.safetensors").symlink_to(root / "self.safetensors")
    repo = HuggingFaceRepo(str(root))
    assert repo.weight_files == {SAFE: ["model.safetensors"]}


@given(st.text(st.sampled_from("./ab\\:~\0-_") | st.characters(), max_size=12))
def test_a_name_that_passes_stays_below_its_folder(name: str) -> None:
    try:
        checked = check_file_name(name)
    except RepositoryError:
        return
    joined = os.path.normpath(os.path.join("/root/of/model", checked))
    assert joined == f"/root/of/model/{name}"


def test_a_snapshot_of_a_cache_is_a_folder_with_links_to_its_blobs(tmp_path: Path) -> None:
    snapshot = cached(tmp_path, "owner/tiny", {"model.safetensors": plain("BF16")})
    repo = HuggingFaceRepo(str(snapshot), revision=snapshot.name)
    assert repo.supported_encodings == ["bfloat16"]
    assert repo.size_of("model.safetensors") == len(plain("BF16"))
    (tmp_path / "secret.gguf").write_bytes(b"x")
    (snapshot / "more.gguf").symlink_to(tmp_path.parent / "elsewhere.gguf")
    (tmp_path.parent / "elsewhere.gguf").write_bytes(b"x")
    with pytest.raises(RepositoryError, match="ML123"):
        _ = HuggingFaceRepo(str(snapshot)).weight_files


def test_a_folder_has_no_revisions(tmp_path: Path) -> None:
    root = str(folder(tmp_path / "model", {"model.safetensors": plain()}))
    calls: list[Callable[[], object]] = [
        lambda: HuggingFaceRepo(root, "v2"),
        lambda: validate_hf_repo_access(root, "v2"),
        lambda: download_weight_files(root, ["model.safetensors"], "v2"),
        lambda: try_to_load_from_cache(root, "model.safetensors", "v2"),
    ]
    for call in calls:
        with pytest.raises(RepositoryError, match=r"no revision 'v2'.*ML124"):
            call()


def test_repositories_need_a_package_and_folders_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    repo = of(tmp_path, {"model.safetensors": plain("F16")})
    assert repo.supported_encodings == ["float16"]
    calls: list[Callable[[], object]] = [
        lambda: HuggingFaceRepo("owner/tiny"),
        lambda: validate_hf_repo_access("owner/tiny", "main"),
        lambda: download_weight_files("owner/tiny", ["model.safetensors"]),
        lambda: try_to_load_from_cache("owner/tiny", "model.safetensors", "main"),
        lambda: generate_local_model_path("owner/tiny", "main"),
    ]
    for call in calls:
        with pytest.raises(MissingPackageError, match=r'(?s)ML979.*pip install "maxlab\[llm\]"'):
            call()


# ---------------------------------------------------------------- the object


def test_a_repo_is_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = of(tmp_path / "model", {"model.safetensors": plain()})
    assert repo.repo_type is RepoType.local
    assert (repo.revision, repo.trust_remote_code) == ("main", False)
    same = HuggingFaceRepo(tmp_path / "model", repo_type="local")  # type: ignore[arg-type]
    assert (repo == same, hash(repo) == hash(same)) == (True, True)
    assert repo != HuggingFaceRepo(str(tmp_path / "model"), trust_remote_code=True)
    assert repo.supported_encodings == pickle.loads(pickle.dumps(repo)).supported_encodings
    with pytest.raises(AttributeError):
        repo.revision = "other"  # type: ignore[misc]
    monkeypatch.chdir(tmp_path)
    assert HuggingFaceRepo("model").weight_files == repo.weight_files
    for bad in ("remote", 3):
        with pytest.raises(RepositoryError, match="ML111"):
            HuggingFaceRepo("model", repo_type=bad)  # type: ignore[arg-type]
    with pytest.raises(RepositoryError, match="ML124"):
        _ = repo.info


def test_the_table_of_files(tmp_path: Path) -> None:
    name = "<b>&.safetensors"
    repo = of(
        tmp_path,
        {name: plain("BF16", 1000), "config.json": b"{}", **{f"{n}.txt": b"" for n in range(50)}},
    )
    assert repo.to_csv().splitlines()[:2] == [
        "file,format,encoding,size [B]",
        f"{name},safetensors,bfloat16,{len(plain('BF16', 1000))}",
    ]
    text = str(repo).splitlines()
    assert text[0] == f"{tmp_path}, a folder"
    assert text[3].split() == [name, "safetensors", "bfloat16", "2.07", "kB"]
    assert text[-1] == "and 12 more"
    assert pretty(repo) == str(repo)  # type: ignore[no-untyped-call]
    page = repo._repr_html_()
    assert "&lt;b&gt;&amp;.safetensors" in page
    assert "<b>" not in page
    assert page.endswith("<p>and 12 more</p>")


# ---------------------------------------------------------------- files of this machine


def test_files_of_a_folder_are_not_downloaded(tmp_path: Path) -> None:
    root = folder(tmp_path / "model", {"model.safetensors": plain(), "a/b.gguf": b"x"})
    names = ["a/b.gguf", "model.safetensors"]
    assert download_weight_files(str(root), names) == [root / name for name in names]
    assert download_weight_files(str(root), []) == []
    validate_hf_repo_access(str(root), "main")
    assert try_to_load_from_cache(str(root), "model.safetensors", "main") == str(root / names[1])
    assert try_to_load_from_cache(str(root), "none.bin", "main") is None
    with pytest.raises(MissingRepositoryError, match=r"did you mean model\.safetensors"):
        download_weight_files(str(root), ["modle.safetensors"])
    with pytest.raises(RepositoryError, match="ML124"):
        download_weight_files(str(root), names, force_download=True)


def test_paths_of_this_machine_are_used_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path, {"own/model.safetensors": plain()})
    monkeypatch.chdir(tmp_path)
    for name in ("own/model.safetensors", str(tmp_path / "own/model.safetensors")):
        assert download_weight_files("owner/name", [name]) == [Path(name)]
    root = folder(tmp_path / "model", {"own/model.safetensors": b"x"})
    name = "own/model.safetensors"
    assert download_weight_files(str(root), [name]) == [root / name]
    assert download_weight_files(str(root), [str(root / name)]) == [root / name]
    with pytest.raises(RepositoryError, match="ML111"):
        download_weight_files(str(root), [str(tmp_path / name)])
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(RepositoryError, match="ML111"):
        download_weight_files("owner/name", ["../own/model.safetensors"])


@pytest.mark.parametrize(
    ("filenames", "workers"),
    [("model.safetensors", 8), (None, 8), (["a"], 0), (["a"], "8"), (["a"], True), (["a"], -1)],
)
def test_arguments_of_downloads(tmp_path: Path, filenames: Any, workers: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="ML111"):
        download_weight_files(str(tmp_path), filenames, max_workers=workers)


def test_a_folder_with_too_many_files_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxlab.pipelines.lib.hf_utils import listing

    monkeypatch.setattr(listing, "MOST_FILES", 5)
    repo = of(tmp_path, {f"{n}.bin": b"" for n in range(9)})
    with pytest.raises(RepositoryError, match="ML112"):
        _ = repo.weight_files


def test_configurations_that_are_none_do_no_harm(tmp_path: Path) -> None:
    for number, content in enumerate(
        [b"", b"[]", b"{", b'{"quantization_config": 3}', b"\xff", b"[" * 100_000]
    ):
        files = {"config.json": content, "model.safetensors": plain("BF16")}
        assert of(tmp_path / str(number), files).supported_encodings == ["bfloat16"]
    assert json.loads(config())["model_type"] == "llama"
    assert os.listdir(tmp_path)

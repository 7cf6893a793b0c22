"""Folders of tokenizers that are wrong: each error names the file, and no code of a folder runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxlab.errors import (
    FileError,
    MaxlabError,
    MissingFileError,
    MissingPackageError,
    RepositoryError,
    UnsupportedError,
)
from maxlab.pipelines.lib.tokenizer import TextTokenizer, packages
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")

CONFIG, MAIN, SPECIAL = "tokenizer_config.json", "tokenizer.json", "special_tokens_map.json"
GENERATION, MODEL = "generation_config.json", "config.json"


def write(name: str, text: str | bytes) -> Callable[[Path], None]:
    """Writes a file of the folder anew."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def field(name: str, **values: Any) -> Callable[[Path], None]:
    """Sets fields of a file of the folder."""

    def change(folder: Path) -> None:
        path = folder / name
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**found, **values}), "utf-8")

    return change


def shorten(name: str, part: float) -> Callable[[Path], None]:
    """Keeps the first part of a file alone."""

    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * part)])

    return change


def remove(*names: str) -> Callable[[Path], None]:
    """Removes files of the folder."""

    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def as_folder(name: str) -> Callable[[Path], None]:
    """Puts a folder where a file was."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return change


DEEP = "[" * 100_000
TABLE: list[tuple[str, Callable[[Path], None], str]] = [
    *((f"{MAIN} cut at {part}", shorten(MAIN, part), MAIN) for part in (0, 0.01, 0.5, 0.99)),
    (f"{MAIN} is text", write(MAIN, "hello"), MAIN),
    (f"{MAIN} is bytes", write(MAIN, bytes(range(256))), MAIN),
    (f"{MAIN} is a list", write(MAIN, "[]"), MAIN),
    (f"{MAIN} is deep", write(MAIN, DEEP), MAIN),
    (f"{MAIN} is empty", write(MAIN, "{}"), MAIN),
    (f"{MAIN} without a model", field(MAIN, model=None), MAIN),
    (f"{MAIN} with a model of another kind", field(MAIN, model={"type": "X"}), MAIN),
    (f"{MAIN} with a list for a model", field(MAIN, model=[]), MAIN),
    (f"{MAIN} with vocabulary of text", field(MAIN, model={"type": "BPE", "vocab": "a"}), MAIN),
    (
        f"{MAIN} with merges of nothing",
        field(MAIN, model={"type": "BPE", "vocab": {"a": 0}, "merges": [["b", "c"]]}),
        MAIN,
    ),
    (f"{MAIN} with added tokens of text", field(MAIN, added_tokens="a"), MAIN),
    (
        f"{MAIN} with an id below 0",
        field(MAIN, added_tokens=[{"id": -1, "content": "a"}]),
        MAIN,
    ),
    (f"{MAIN} with another decoder", field(MAIN, decoder={"type": "X"}), MAIN),
    (f"{MAIN} is a folder", as_folder(MAIN), MAIN),
    (f"{CONFIG} is a list", write(CONFIG, "[]"), CONFIG),
    (f"{CONFIG} is cut", shorten(CONFIG, 0.5), CONFIG),
    (f"{CONFIG} is deep", write(CONFIG, DEEP), CONFIG),
    (f"{CONFIG} is no UTF-8", write(CONFIG, b"\xff\xfe"), CONFIG),
    (f"{CONFIG} is a folder", as_folder(CONFIG), CONFIG),
    (f"{CONFIG}: eos_token is a number", field(CONFIG, eos_token=5), CONFIG),
    (f"{CONFIG}: bos_token is a list", field(CONFIG, bos_token=["<s>"]), CONFIG),
    (f"{CONFIG}: eos_token has no text", field(CONFIG, eos_token={"lstrip": True}), CONFIG),
    (f"{CONFIG}: chat_template is a number", field(CONFIG, chat_template=5), CONFIG),
    (f"{CONFIG}: chat_template is a list", field(CONFIG, chat_template=["a"]), CONFIG),
    (f"{CONFIG}: model_max_length is text", field(CONFIG, model_max_length="9"), CONFIG),
    (f"{CONFIG}: tokenizer_class is a list", field(CONFIG, tokenizer_class=[1]), CONFIG),
    (f"{CONFIG}: added tokens are a list", field(CONFIG, added_tokens_decoder=[1]), CONFIG),
    (f"{SPECIAL} is a list", write(SPECIAL, "[]"), SPECIAL),
    (f"{SPECIAL} is cut", write(SPECIAL, '{"eos_token": '), SPECIAL),
    (f"{SPECIAL}: eos_token is a number", write(SPECIAL, '{"eos_token": 1}'), SPECIAL),
    (
        f"{SPECIAL}: more tokens are numbers",
        write(SPECIAL, '{"additional_special_tokens": [1]}'),
        SPECIAL,
    ),
    (f"{GENERATION} is cut", write(GENERATION, "{"), GENERATION),
    (f"{GENERATION}: an end of text", write(GENERATION, '{"eos_token_id": "1"}'), GENERATION),
    (f"{GENERATION}: an end below 0", write(GENERATION, '{"eos_token_id": [-1]}'), GENERATION),
    (f"{MODEL}: an end that is true", write(MODEL, '{"eos_token_id": true}'), MODEL),
    (f"{MODEL} is a list", write(MODEL, "[]"), MODEL),
]


@pytest.mark.parametrize(("change", "name"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_a_wrong_file_is_named(tmp_path: Path, change: Callable[[Path], None], name: str) -> None:
    folder = trained.folder(tmp_path / "model", chat_template=trained.CHATML)
    change(folder)
    with pytest.raises(FileError) as caught:
        TextTokenizer(str(folder))
    assert name in caught.value.what
    assert caught.value.code in ("ML001", "ML002", "ML152")


def test_what_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = trained.folder(tmp_path / "model")
    remove(MAIN, CONFIG)(folder)
    (folder / "notes.txt").write_text("x")
    with pytest.raises(MissingFileError) as caught:
        TextTokenizer(str(folder))
    assert (caught.value.code, str(folder) in caught.value.what) == ("ML151", True)
    for path in ("./nothing", "a/b/c", "model/notes.txt"):
        with pytest.raises(RepositoryError) as told:
            TextTokenizer(path)
        assert (told.value.code, path in told.value.what) == ("ML112", True)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = trained.folder(tmp_path)
    (folder / SPECIAL).unlink(missing_ok=True)
    os.mkfifo(folder / SPECIAL)
    with pytest.raises(FileError, match="pipe"):
        TextTokenizer(str(folder))


CODE = """
from pathlib import Path
Path(__file__).with_name("RAN").write_text("x")
Path({marker!r}).write_text("x")
from transformers import PreTrainedTokenizerFast
class Own(PreTrainedTokenizerFast):
    pass
"""


def with_code(folder: Path, marker: Path) -> Path:
    """A folder whose tokenizer is a class of its own, which writes a file when it is imported."""
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    auto = {"AutoTokenizer": ["own.Own", "own.Own"]}
    field(CONFIG, auto_map=auto, tokenizer_class="Own")(folder)
    return folder


def test_code_of_a_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    marker = tmp_path / "marker"
    folder = with_code(trained.folder(tmp_path / "model"), marker)
    calls: list[Callable[[], object]] = [
        lambda: TextTokenizer(str(folder)),
        lambda: TextTokenizer(str(folder), trust_remote_code=False),
    ]
    for call in calls:
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert caught.value.code == "ML153"
        assert "trust_remote_code=True" in str(caught.value.fix)
    assert not marker.exists()
    assert not (folder / "RAN").exists()
    assert not (tmp_path / "modules").exists()
    TextTokenizer(str(folder), trust_remote_code=True)
    assert marker.exists()  # so the code would have shown itself


def test_a_jinja_with_ways_out_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    packages.jinja2.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.1.5")
    with pytest.raises(MissingPackageError, match=r"3\.1\.6 or later") as caught:
        packages.jinja2()
    assert caught.value.code == "ML979"


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MaxlabError) as caught:
        TextTokenizer(str(trained.folder(tmp_path)))
    assert (caught.value.code, caught.value.fix) == ("ML979", 'pip install "maxlab[llm]"')
    assert isinstance(caught.value, ImportError)

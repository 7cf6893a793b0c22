"""Adapters that are loaded and unloaded while a server answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxlab.entrypoints.llm import LLM
from maxlab.errors import InputError
from maxlab.pipelines.lib.config import PipelineConfig
from tests.serve.conftest import BASE
from tests.serve.serving import Served, error_of

GIVEN = {"prompt": "The quick brown fox", "max_tokens": 24, "ignore_eos": True}


def load(served: Served, name: str, path: Path) -> tuple[int, bytes]:
    given = {"lora_name": name, "lora_path": str(path)}
    status, _, body = served.post("/v1/load_lora_adapter", given)
    return status, body


def unload(served: Served, name: str) -> tuple[int, bytes]:
    status, _, body = served.post("/v1/unload_lora_adapter", {"lora_name": name})
    return status, body


def text(served: Served, model: str, **given: Any) -> str:
    status, _, body = served.post("/v1/completions", {**GIVEN, "model": model, **given})
    assert status == 200, body
    found: str = json.loads(body)["choices"][0]["text"]
    return found


def names(served: Served) -> list[str]:
    return [one["id"] for one in json.loads(served.get("/v1/models")[2])["data"]]


def test_an_adapter_comes_and_goes(served: Served, folder: Path) -> None:
    assert load(served, "late", folder / "one")[0] == 200
    assert names(served) == [BASE, "one", "two", "late"]
    assert text(served, "late") == text(served, "one") != text(served, BASE)
    assert unload(served, "late")[0] == 200
    assert names(served) == [BASE, "one", "two"]
    status, _, body = served.post("/v1/completions", {**GIVEN, "model": "late"})
    assert (status, error_of(body)["code"]) == (404, "model_not_found")
    assert load(served, "late", folder / "two")[0] == 200
    assert text(served, "late") == text(served, "two"), "nothing of the first one is left"
    assert unload(served, "late")[0] == 200


@pytest.mark.parametrize(
    ("name", "path", "status", "code"),
    [
        ("one", "one", 400, "adapter_exists"),
        (BASE, "one", 400, "adapter_exists"),
        ("late", "nowhere", 404, "adapter_not_found"),
        ("late", ".", 400, "ML537"),
        ("late", "broken", 400, "ML537"),
    ],
)
def test_what_is_no_adapter_is_refused(
    served: Served, folder: Path, name: str, path: str, status: int, code: str
) -> None:
    broken = folder / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "adapter_config.json").write_text('{"r": 4, "lora_alpha": 4}')
    (broken / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    got, body = load(served, name, folder / path)
    assert (got, error_of(body)["code"]) == (status, code), body
    assert names(served) == [BASE, "one", "two"]


def test_other_requests_about_adapters_are_refused(served: Served) -> None:
    got, body = unload(served, "nobody")
    assert (got, error_of(body)["code"]) == (404, "adapter_not_found")
    for given in ({}, {"lora_name": ""}, {"lora_name": "a", "lora_int_id": 1}):
        assert served.post("/v1/unload_lora_adapter", given)[0] == 400
    assert served.post("/v1/load_lora_adapter", {"lora_name": "a"})[0] == 400


def test_others_write_on_while_adapters_come_and_go(served: Served, folder: Path) -> None:
    """Requests for an adapter that goes get their whole text, or an error of their own."""
    wanted = {name: text(served, name) for name in (BASE, "one", "two")}
    faults: list[str] = []
    told = {200: 0, 404: 0}

    def ask(model: str) -> None:
        for _ in range(12):
            status, _, body = served.post("/v1/completions", {**GIVEN, "model": model})
            if model == "late" and status == 404:
                told[404] += 1
                continue
            told[200] += 1
            found = json.loads(body)["choices"][0]["text"] if status == 200 else body
            if found != wanted["two" if model == "late" else model]:
                faults.append(f"{model}: {found!r}")

    threads = [threading.Thread(target=ask, args=(one,)) for one in (*wanted, "late")]
    for thread in threads:
        thread.start()
    turns = 0
    while any(thread.is_alive() for thread in threads):
        assert load(served, "late", folder / "two")[0] == 200
        assert unload(served, "late")[0] == 200
        turns += 1
    assert not faults
    assert turns > 1
    assert told[200] >= 36


@pytest.fixture(scope="module")
def llm(folder: Path) -> Iterator[LLM]:
    config = PipelineConfig(
        model_path=str(folder), max_length=100, enable_lora=True, max_num_loras=1,
        max_lora_rank=8,
    )  # fmt: skip
    with LLM(config) as made:
        yield made


def test_the_adapters_of_an_llm(llm: LLM, served: Served, folder: Path) -> None:
    def ask(model: str | None) -> str:
        (found,) = llm.generate("The quick brown fox", 12, False, model=model)
        return found

    assert llm.adapters == []
    assert llm.load_adapter(f"a={folder / 'one'}") == "a"
    assert llm.load_adapter(str(folder / "two"), "b") == "b"
    assert llm.adapters == ["a", "b"]
    for model, name in ((None, BASE), ("a", "one"), ("b", "two"), ("a", "one")):
        assert ask(model) == text(served, name, max_tokens=12, ignore_eos=False)
    llm.unload_adapter("a")
    assert llm.adapters == ["b"]
    for refused in (
        lambda: ask("a"), lambda: llm.unload_adapter("a"),
        lambda: llm.load_adapter(str(folder / "one"), "b"),
    ):  # fmt: skip
        with pytest.raises(InputError, match="ML539"):
            refused()
    with pytest.raises(ValueError, match="ML537"):
        llm.load_adapter(str(folder / "nowhere"))
    assert llm.adapters == ["b"]

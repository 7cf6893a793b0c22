"""Chats with images over HTTP: data: URLs are read, nothing is fetched, and limits hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette not installed")
pytest.importorskip("uvicorn", reason="uvicorn not installed")
pytest.importorskip("msgspec", reason="msgspec not installed")

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.serve.command import engine_of
from maxlab.serve.limits import Limits
from maxlab.serve.server import ModelServer
from tests.pipelines.vision.asking import request
from tests.pipelines.vision.conftest import Pipe
from tests.pipelines.vision.folders import picture
from tests.serve.serving import Served, error_of, started

TEXT = {"type": "text", "text": "The fox?"}
PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def served(tiny: tuple[Path, Any]) -> Iterator[Served]:
    """A server of the tiny model that takes few and small images."""
    flags = ["--max-length=400", "--max-batch-size=4", "--served-model-name=tiny",
             "--enable-echo"]  # fmt: skip
    before = current()
    engine = engine_of(str(tiny[0]), flags, 8)
    limits = Limits(images=3, image_pixels=64 * 64)
    try:
        with started(ModelServer(engine, limits, port=0)) as found:
            yield found
    finally:
        engine.close()
        use_registry(before)


def url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def part(given: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": given}


def asked(served: Served, *parts: Any, **fields: Any) -> tuple[int, Any]:
    """The status and the body of a chat with these parts."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": list(parts)}],
            "max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields}  # fmt: skip
    status, _, data = served.post(PATH, body)
    return status, json.loads(data) if status == 200 else error_of(data)


def test_a_chat_sees_its_images(served: Served, pipeline: Pipe) -> None:
    found = []
    for seed in (0, 1):
        data = picture(24, 40, seed)
        status, body = asked(served, TEXT, part({"url": url(data), "detail": "auto"}))
        assert status == 200, body
        messages = [{"role": "user", "content": [TEXT, {"type": "image"}]}]
        (wanted,) = pipeline.generate(request(messages, data, max_new_tokens=8))
        text = pipeline.tokenizer.delegate.decode(  # type: ignore[attr-defined]
            wanted.tokens, skip_special_tokens=True
        )
        found.append(body["choices"][0]["message"]["content"])
        assert found[-1] == text
        assert body["usage"]["prompt_tokens"] > 15  # the tokens of the image among them
    assert found[0] != found[1]
    status, body = asked(served, TEXT)
    assert (status, body["usage"]["completion_tokens"]) == (200, 8)


def bomb() -> bytes:
    """The head of a PNG file that says that it has very many pixels."""
    data = bytearray(picture(8, 8))
    data[16:24] = (60000).to_bytes(4, "big") * 2
    return bytes(data)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"url": "https://example.org/a.png"}, "image_url_not_data"),
        ({"url": "file:///etc/passwd"}, "image_url_not_data"),
        ({"url": "data:text/plain;base64,aGk="}, "invalid_image"),
        ({"url": "data:image/png;base64,%%%"}, "invalid_image"),
        ({"url": "data:image/png;base64"}, "invalid_image"),
        ({"url": "data:image/png;base64,aGVsbG8="}, "invalid_image"),
        ({"url": url(picture(65, 64))}, "image_too_large"),
        ({"url": url(bomb())}, "invalid_image"),
        ({"url": url(picture(8, 8)), "detail": "high"}, "invalid_image"),
        ({"url": url(picture(8, 8)), "size": 3}, "invalid_image"),
        ({}, "invalid_image"),
        (url(picture(8, 8)), "invalid_image"),
    ],
)
def test_images_that_are_not_taken_get_400(served: Served, given: Any, code: str) -> None:
    status, error = asked(served, TEXT, part(given))
    assert (status, error["code"]) == (400, code), error
    assert error["param"] == "messages[0].content[1]"


def test_many_images_get_400(served: Served) -> None:
    one = part({"url": url(picture(8, 8))})
    assert asked(served, *[one] * 3)[0] == 200
    for count, n in ((4, 1), (2, 2)):
        status, error = asked(served, *[one] * count, n=n)
        assert (status, error["code"]) == (400, "too_many_images")
    text = {"type": "text", "text": "<|image_pad|>"}
    for parts in ([one, text], [part({"url": url(picture(40, 40)[:200])})]):  # of one the head
        status, error = asked(served, *parts)
        assert (status, error["code"]) == (400, "ML162")
    assert served.is_idle()

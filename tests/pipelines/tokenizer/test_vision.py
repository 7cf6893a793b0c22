"""Contexts of requests with images; the processor is a small one, of the tests' own.

It takes and gives what those of transformers do. Pillow, which reads files of images, is tested
where it is installed.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError, MissingPackageError
from maxlab.interfaces import PipelineTokenizer, RequestID, SamplingParams, TextGenerationRequest
from maxlab.pipelines.core import TextAndVisionContext, validate_only_one_image
from maxlab.pipelines.lib.tokenizer import TextAndVisionTokenizer, images, loading
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|start|>{{ m.role }}\n{% for part in m.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.KEY }}{% endif %}{% endfor %}<|end|>"
    "{% endfor %}"
)


class Processor:
    """Puts a token for each pair of bytes of an image where its token stands in the text."""

    image_token = "<image>"

    def __init__(self, path: str, form: str = "stacked") -> None:
        from transformers import AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(path)
        self.form = form

    def __call__(
        self, text: str, images: list[bytes], add_special_tokens: bool, return_tensors: str
    ) -> dict[str, Any]:
        assert return_tensors == "np"
        parts = text.split(self.image_token)
        if len(parts) != len(images) + 1:
            raise IndexError("as many images as places")
        whole = parts[0]
        for image, part in zip(images, parts[1:], strict=True):
            whole += self.image_token * (len(image) // 2) + part
        ids = self.tokenizer.encode(whole, add_special_tokens=add_special_tokens)
        made = [np.full((3, 2, 2), image[0], np.float32) for image in images]
        sizes = np.array([[1, 1, len(image) // 2] for image in images])
        forms: dict[str, Callable[[], Any]] = {
            "stacked": lambda: np.stack(made),
            "of one text": lambda: np.stack(made)[None],
            "list": lambda: [made],
            "grid": lambda: np.concatenate(
                [np.full((len(one) // 2, 5), one[0], np.float32) for one in images]
            ),
            "lost": lambda: np.stack(made)[:1],
            "integers": lambda: np.stack(made).astype(np.uint8),
        }
        found = {
            "input_ids": np.array([ids]),
            "attention_mask": np.ones((1, len(ids))),
            "pixel_values": forms[self.form](),
        }
        return {**found, "image_grid_thw": sizes} if self.form == "grid" else found


Make = Callable[..., TextAndVisionTokenizer]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes tokenizers whose images are bytes, by the form of pixels and the template's key."""

    def made(form: str = "stacked", key: str = "text", **given: Any) -> TextAndVisionTokenizer:
        folder = trained.folder(
            tmp_path / form, "byte_level", chat_template=TEMPLATE.replace("KEY", key)
        )
        monkeypatch.setattr(loading, "load", lambda kind, path, *rest: Processor(path, form))
        return TextAndVisionTokenizer(str(folder), **given)

    monkeypatch.setattr(images, "open_image", lambda data, where: data)
    return made


def message(*parts: Any) -> Any:
    """Messages of one user; a part is a text, or None for an image."""
    content = [
        {"type": "image"} if part is None else {"type": "text", "text": part} for part in parts
    ]
    return [{"role": "user", "content": content}]


def context_of(tokenizer: TextAndVisionTokenizer, **request: Any) -> TextAndVisionContext:
    """The context of a request."""
    given = TextGenerationRequest(RequestID("r"), "tiny", **request)
    return asyncio.run(tokenizer.new_context(given))


@pytest.mark.parametrize("form", ["stacked", "of one text", "list", "grid"])
def test_images_stand_where_their_tokens_do(make: Make, form: str) -> None:
    tokenizer = make(form)
    context = context_of(
        tokenizer, messages=message("The ", None, "fox", None), images=[b"\1" * 4, b"\2" * 6]
    )
    token = tokenizer.vision_token_ids[0]
    assert tokenizer.vision_token_ids == [7]
    places = [n for n, one in enumerate(context.prompt_tokens.tolist()) if one == token]
    assert [(one.start_idx, one.end_idx) for one in context.images] == [
        (places[0], places[0] + 2),
        (places[2], places[2] + 3),
    ]
    assert [float(one.pixel_values.flat[0]) for one in context.images] == [1.0, 2.0]
    assert len({one.image_hash for one in context.images}) == 2
    assert set(context.extra_model_args) == ({"image_grid_thw"} if form == "grid" else set())
    assert context.prompt_tokens.tolist().count(tokenizer.delegate.bos_token_id) == 1
    assert context.needs_vision_encoding


def test_images_that_follow_each_other_share_their_tokens(make: Make) -> None:
    context = context_of(make(), messages=message(None, None), images=[b"\1" * 4, b"\2" * 4])
    first, second = context.images
    assert (first.end_idx, second.end_idx - first.start_idx) == (second.start_idx, 4)


@pytest.mark.parametrize("key", ["text", "content"])
def test_templates_read_a_text_under_either_name(make: Make, key: str) -> None:
    tokenizer = make(key=key)
    assert tokenizer.expects_content_wrapping is True
    assert isinstance(tokenizer, PipelineTokenizer)
    plain: Any = [{"role": "user", "content": "a"}]
    for messages in (message("a"), plain):
        assert tokenizer.apply_chat_template(messages) == "<s><|start|>user\na<|end|>"
    parts = [{"type": "text", "content": "a"}, {"type": "image_url", "image_url": "x"}]
    wrapped: Any = [{"role": "user", "content": parts}]
    assert tokenizer.apply_chat_template(wrapped) == "<s><|start|>user\na<image><|end|>"


def test_requests_without_images_are_texts(make: Make) -> None:
    tokenizer = make()
    params = SamplingParams(max_new_tokens=3, stop=["###"])
    context = context_of(tokenizer, prompt="The fox", sampling_params=params, logprobs=2, echo=True)
    assert context.prompt_tokens.tolist() == tokenizer.delegate.encode("The fox")
    assert (context.images, context.extra_model_args) == ([], {})
    assert context.max_length == len(context.prompt_tokens) + 3
    assert (context.log_probabilities, context.log_probabilities_echo) == (2, True)
    assert context.eos_sequences
    assert context.eos_token_ids == {1}


def test_equal_images_have_equal_hashes(make: Make) -> None:
    tokenizer = make()
    found = [
        context_of(tokenizer, messages=message(None), images=[data * 4]).images[0].image_hash
        for data in (b"\1", b"\1", b"\2")
    ]
    assert (found[0] == found[1], found[0] == found[2]) == (True, False)


@pytest.mark.parametrize(
    ("form", "request_", "code"),
    [
        ("stacked", {"messages": message("a", None)}, "ML162"),
        ("stacked", {"messages": message("a"), "images": [b"\1\1"]}, "ML162"),
        ("stacked", {"messages": message(None, "<image>"), "images": [b"\1\1"]}, "ML162"),
        ("stacked", {"messages": message(None), "images": [b"\1"]}, "ML162"),
        ("stacked", {"prompt": "no place", "images": [b"\1\1"]}, "ML162"),
        ("stacked", {"prompt": [1, 2], "images": [b"\1\1"]}, "ML162"),
        ("stacked", {"messages": message(None), "images": [b"\1" * 2000]}, "ML160"),
        ("lost", {"messages": message(None, "a", None), "images": [b"\1\1"] * 2}, "ML162"),
        ("integers", {"messages": message(None), "images": [b"\1\1"]}, "ML162"),
        ("stacked", {}, "ML159"),
        ("stacked", {"messages": message("a", {"type": "audio"})}, "ML159"),
    ],
)
def test_images_that_do_not_fit_are_refused(
    make: Make, form: str, request_: dict[str, Any], code: str
) -> None:
    with pytest.raises(InputError) as caught:
        context_of(make(form), **request_)
    assert caught.value.code == code


def test_validators_see_each_context(make: Make) -> None:
    tokenizer = make(context_validators=[validate_only_one_image])
    assert context_of(tokenizer, messages=message(None), images=[b"\1\1"]).images
    with pytest.raises(InputError) as caught:
        context_of(tokenizer, messages=message(None, "a", None), images=[b"\1\1"] * 2)
    assert caught.value.code == "ML993"


def test_pillow_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingPackageError, match="pillow") as caught:
        images.open_image(b"", "an image")
    assert caught.value.code == "ML979"


# ---------------------------------------------------------------- files of images
def picture(form: str = "PNG", size: tuple[int, int] = (4, 3), mode: str = "RGB") -> bytes:
    """The bytes of an image."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow not installed")
    target = io.BytesIO()
    pillow.new(mode, size, 1).save(target, form)
    return target.getvalue()


@pytest.mark.parametrize("form", images.FORMATS)
def test_formats_are_read(form: str) -> None:
    image = images.open_image(picture(form), "an image")
    assert (image.size, image.mode) == ((4, 3), "RGB")


@pytest.mark.parametrize(
    "change",
    [
        lambda: b"",
        lambda: b"not an image",
        lambda: picture()[:40],
        lambda: picture("JPEG", (64, 64))[:-200],
        lambda: picture("TIFF"),
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        lambda: picture(size=(9000, 9000), mode="1"),
        lambda: b"x" * ((64 << 20) + 1),
    ],
)
def test_bytes_that_are_no_image_are_refused(change: Callable[[], bytes]) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow not installed")
    with pytest.raises(InputError) as caught:
        images.open_image(change(), "request r: images[0]")
    assert caught.value.code == "ML162"
    assert "images[0]" in caught.value.what


def test_what_is_transparent_lies_on_white() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow not installed")
    pixels = np.array([[[255, 0, 0, 255], [0, 0, 0, 0], [0, 0, 255, 51]]], np.uint8)
    grey = np.array([[[10, 255], [10, 0], [0, 51]]], np.uint8)
    palette = pillow.new("P", (2, 1))
    palette.putpalette([0, 255, 0, 9, 9, 9])
    palette.putpixel((1, 0), 1)
    wanted = {
        "RGBA": [[255, 0, 0], [255, 255, 255], [204, 204, 255]],
        "LA": [[10] * 3, [255] * 3, [204] * 3],
        "P": [[0, 255, 0], [255] * 3],
    }
    for mode, image in (
        ("RGBA", pillow.fromarray(pixels)),
        ("LA", pillow.fromarray(grey, "LA")),
        ("P", palette),
    ):
        target = io.BytesIO()
        image.save(target, "PNG", **({"transparency": 1} if mode == "P" else {}))
        found = np.asarray(images.open_image(target.getvalue(), mode))
        assert found[0].tolist() == wanted[mode], mode


def test_grey_of_16_bits_keeps_its_highest() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow not installed")
    target = io.BytesIO()
    pillow.fromarray(np.array([[0, 255, 256, 0x8000, 0xFFFF]], np.uint16)).save(target, "PNG")
    found = np.asarray(images.open_image(target.getvalue(), "grey"))
    assert found[0, :, 0].tolist() == [0, 0, 1, 128, 255]


def test_a_head_says_the_size_of_an_image() -> None:
    assert images.size_of(picture(size=(5, 3)), "an image") == (5, 3)
    assert images.size_of(picture(size=(64, 32))[:60], "a part") == (64, 32)
    with pytest.raises(InputError, match="an image") as caught:
        images.size_of(b"nothing", "an image")
    assert caught.value.code == "ML162"


def test_images_of_known_sizes_are_told_apart() -> None:
    assert images.ranges_of([9, 9, 9, 1, 9], [9], 3, [2, 1, 1]) == [(0, 2), (2, 3), (4, 5)]
    for sizes in ([2, 2], [1, 1, 1], [4], [2, 1, 1, 1]):
        with pytest.raises(InputError) as caught:
            images.ranges_of([9, 9, 9, 1, 9], [9], len(sizes), sizes)
        assert caught.value.code == "ML162"

"""Kinds of settings: what they take, what they refuse, and text that says the same value again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxlab.driver import DeviceSpec
from maxlab.dtype import DType
from maxlab.engine import GPUProfilingMode
from maxlab.errors import InputError, InputTypeError
from maxlab.pipelines.lib import settings
from maxlab.pipelines.lib.config_enums import RopeType, SupportedEncoding
from maxlab.pipelines.lib.settings import Kind

CPU, GPU = DeviceSpec.cpu(), DeviceSpec.accelerator()

KINDS: dict[str, Kind] = {
    "whole": settings.whole(1, 9),
    "number": settings.number(0, 1, above=True),
    "open": settings.number(0),
    "switch": settings.switch(),
    "text": settings.text(),
    "filled": settings.text(filled=True),
    "words": settings.words("0", "1"),
    "member": settings.member(SupportedEncoding),
    "mode": settings.member(GPUProfilingMode),
    "dtype": settings.dtype(),
    "path": settings.path(),
    "maybe": settings.maybe(settings.whole(1, 9)),
    "several": settings.several(settings.text(filled=True)),
    "paths": settings.several(settings.path()),
    "mapping": settings.mapping(),
    "devices": settings.devices(),
}


@pytest.mark.parametrize(
    ("kind", "given_value", "kept"),
    [
        ("whole", 9, 9),
        ("whole", np.int64(3), 3),
        ("number", 1, 1.0),
        ("number", np.float32(0.5), 0.5),
        ("switch", False, False),
        ("member", "BFloat16", SupportedEncoding.bfloat16),
        ("mode", "on", GPUProfilingMode.ON),
        ("dtype", "bfloat16", DType.bfloat16),
        ("path", "a/b", Path("a/b")),
        ("maybe", None, None),
        ("several", ("a", "b"), ["a", "b"]),
        ("paths", ["a", Path("b")], [Path("a"), Path("b")]),
        ("mapping", {"a": [1, None]}, {"a": [1, None]}),
        ("devices", (GPU,), [GPU]),
    ],
)
def test_a_value_is_kept(kind: str, given_value: object, kept: object) -> None:
    found = KINDS[kind].kept("C.x", given_value)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        ("whole", 0, "ML981"),
        ("whole", 10**400, "ML981"),
        ("whole", True, "ML980"),
        ("whole", 2.0, "ML980"),
        ("whole", "2", "ML980"),
        ("number", 0, "ML981"),
        ("number", math.nan, "ML981"),
        ("open", math.inf, "ML981"),
        ("open", 10**400, "ML981"),
        ("open", True, "ML980"),
        ("switch", 1, "ML980"),
        ("switch", "true", "ML980"),
        ("text", b"a", "ML980"),
        ("text", "a\0b", "ML981"),
        ("filled", "", "ML981"),
        ("words", "2", "ML981"),
        ("words", 1, "ML980"),
        ("member", "float63", "ML981"),
        ("member", RopeType.none, "ML981"),
        ("member", 3, "ML980"),
        ("mode", SupportedEncoding.float32, "ML981"),
        ("dtype", "float63", "ML980"),
        ("dtype", "name", "ML980"),
        ("dtype", "__class__", "ML980"),
        ("path", "", "ML980"),
        ("path", "a\0", "ML981"),
        ("path", 3, "ML980"),
        ("maybe", 10, "ML981"),
        ("several", "ab", "ML980"),
        ("several", ["a", ""], "ML981"),
        ("several", {"a"}, "ML980"),
        ("mapping", [("a", 1)], "ML980"),
        ("mapping", {1: 2}, "ML980"),
        ("mapping", {"a": object()}, "ML980"),
        ("mapping", {"a": math.nan}, "ML980"),
        ("devices", [], "ML981"),
        ("devices", [CPU, GPU], "ML981"),
        ("devices", [GPU, GPU], "ML981"),
        ("devices", "cpu", "ML980"),
    ],
)
def test_a_value_is_refused(kind: str, value: object, code: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=r"C\.x") as raised:
        KINDS[kind].kept("C.x", value)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("whole", " 7 ", 7),
        ("number", "1e-1", 0.1),
        ("switch", "Yes", True),
        ("switch", "off", False),
        ("mode", "Detailed", GPUProfilingMode.DETAILED),
        ("dtype", "int8", DType.int8),
        ("maybe", "", None),
        ("several", "a, b", ["a", "b"]),
        ("several", "", []),
        ("mapping", '{"a": 1}', {"a": 1}),
        ("devices", "cpu", [CPU]),
        ("devices", "gpu", [GPU]),
        ("devices", "gpu:0,gpu:3", [GPU, DeviceSpec.accelerator(3)]),
    ],
)
def test_text_is_read(kind: str, text: str, value: object) -> None:
    assert KINDS[kind].read("C.x", text) == value


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("whole", "", "ML126"),
        ("whole", "4.0", "ML126"),
        ("whole", "9" * 10**6, "ML126"),
        ("whole", "10", "ML981"),
        ("number", "a", "ML126"),
        ("number", "nan", "ML981"),
        ("switch", "maybe", "ML126"),
        ("member", "q4", "ML126"),
        ("dtype", "", "ML126"),
        ("path", "", "ML126"),
        ("mapping", "[1]", "ML126"),
        ("mapping", "{", "ML126"),
        ("mapping", '{"a": NaN}', "ML980"),
        ("mapping", "[" * 10**5, "ML126"),
        ("devices", "tpu", "ML126"),
        ("devices", "gpu:x", "ML126"),
        ("devices", "gpu:-1", "ML126"),
    ],
)
def test_text_is_refused(kind: str, text: str, code: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=r"C\.x") as raised:
        KINDS[kind].read("C.x", text)
    assert raised.value.code == code
    assert len(str(raised.value)) < 400


_WORDS = st.text(st.characters(exclude_characters="\0,", exclude_categories=["Cs"]), max_size=9)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | _WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(1, 9),
    "number": st.floats(0, 1, exclude_min=True),
    "open": st.floats(0, allow_nan=False, allow_infinity=False),
    "switch": st.booleans(),
    "text": _WORDS,
    "words": st.sampled_from(["0", "1"]),
    "member": st.sampled_from(SupportedEncoding),
    "mode": st.sampled_from(GPUProfilingMode),
    "dtype": st.sampled_from([DType.float32, DType.bfloat16, DType.uint8]),
    "path": _WORDS.filter(bool).map(Path),
    "maybe": st.none() | st.integers(1, 9),
    "several": st.lists(_WORDS.filter(lambda word: bool(word.strip())).map(str.strip), max_size=3),
    "mapping": st.dictionaries(_WORDS, _JSON, max_size=3),
    "devices": st.lists(st.integers(0, 9).map(DeviceSpec.accelerator), min_size=1, unique=True),
}


@pytest.mark.parametrize("name", VALUES)
def test_text_that_is_written_says_the_value(name: str) -> None:
    @given(VALUES[name])
    def check(value: object) -> None:
        kind = KINDS[name]
        kept = kind.kept("C.x", value)
        assert kind.read("C.x", kind.write(kept)) == kept

    check()

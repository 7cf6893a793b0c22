"""The page of architectures: the registry says what runs, and tables of tests what was compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")
pytest.importorskip("gguf", reason="gguf not installed")

from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from tests.pipelines.decoders import test_decoders, test_float8, test_gguf, test_gptq
from tests.pipelines.decoders.running import CLOSE
from tests.pipelines.registry import test_encoders

PAGE = Path(__file__).resolve().parents[3] / "docs" / "architectures.md"
MARK = "<!-- made with MAXLAB_WRITE_DOCS=1 by tests/pipelines/decoders/test_compared.py -->\n"
SAME, ROUNDED, RUNS = f"{CLOSE:g}", "rounded", "runs"
GGUF_FLOATS = "float32 of GGUF"
VISION = "Qwen2_5_VLForConditionalGeneration"
"""Compared in tests/pipelines/vision."""
COLUMNS = [*SupportedEncoding, GGUF_FLOATS]


def compared() -> dict[tuple[str, str], str]:
    """How the tests compare a pair of an architecture and an encoding."""
    found = {(kind, "float32"): "1e-05" for kind in test_encoders.KINDS}
    for row in test_decoders.ROWS:
        found[row.architecture.name, "float32"] = SAME
    found[VISION, "float32"] = SAME
    for kind in (*(row.architecture.name for row in test_decoders.FIRST), VISION):
        for name, most in test_decoders.NARROW.items():
            found[kind, name] = f"{most:.1%}"
    for _, architecture in test_float8.ROWS:
        found[architecture.name, "float8_e4m3fn"] = SAME
    for architecture, *_ in test_gptq.ROWS:
        found[architecture.name, "gptq"] = SAME
    for each in test_gguf.ROWS:
        column = GGUF_FLOATS if each.kind == "float32" else each.kind
        key = (each.architecture.name, column)
        if found.get(key) != SAME:
            found[key] = SAME if test_gguf.rounds_nothing(each) else ROUNDED
    return found


def listed(lines: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    head, *rest = (list(line) for line in lines)
    cells = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def told(entries: Mapping[str, Any]) -> str:
    """The entries of config.json that a test sets, in words; "" where there are none."""
    parts = []
    for key, value in entries.items():
        kind = value.get("rope_type") if isinstance(value, dict) else None
        parts.append(f"`{key}`" + (f" {kind}" if kind else ""))
    return f" ({', '.join(parts)})" if parts else ""


def settings() -> dict[str, dict[str, list[str]]]:
    """For each architecture: by entries of config.json, the encodings compared with them."""
    rows: list[tuple[str, str, str]] = [
        *((row.architecture.name, "float32", told(row.entries)) for row in test_decoders.ROWS),
        *((VISION, "float32", entries) for entries in ("", told({"tie_word_embeddings": True}))),
        *((row.architecture.name, f"{row.kind} of GGUF", told(row.entries))
          for row in test_gguf.ROWS),
        *((one.name, f"gptq of {bits} bits{' with desc_act' if act else ''}", told(entries))
          for one, bits, act, entries in test_gptq.ROWS),
        *((one.name, f"float8_e4m3fn, {kind}", "") for kind, one in test_float8.ROWS),
    ]  # fmt: skip
    found: dict[str, dict[str, list[str]]] = {}
    for name, kind, entries in rows:
        found.setdefault(name, {}).setdefault(entries, []).append(kind)
    return found


def tables() -> str:
    """The part of the page that is made."""
    register_all_models()
    known, seen = PIPELINE_REGISTRY.architectures, compared()
    lines = [["architecture", *COLUMNS]]
    for name in sorted(known):
        one = known[name]
        have = {*map(str, one.supported_encodings)}
        if any(str(kind) == str(test_gguf.GGUF) for kind in one.weight_adapters):
            have.add(GGUF_FLOATS)
        lines.append(
            [
                name,
                *(
                    seen.get((name, str(kind)), RUNS) if str(kind) in have else ""
                    for kind in COLUMNS
                ),
            ]
        )
    rows = settings()
    text = listed(lines) + "\n## With which entries of config.json\n\n"
    for name in sorted(rows):
        repos = ", ".join(f"`{repo}`" for repo in known[name].example_repo_ids)
        kinds = (f"  - {', '.join(found)}{entries}\n" for entries, found in rows[name].items())
        text += f"- **{name}**, such as {repos}:\n{''.join(kinds)}"
    return text


def test_the_page_is_up_to_date() -> None:
    head, mark, written = PAGE.read_text("utf-8").partition(MARK)
    assert mark
    if os.environ.get("MAXLAB_WRITE_DOCS"):
        PAGE.write_text(head + MARK + tables(), "utf-8")
    else:
        assert written == tables(), f"run MAXLAB_WRITE_DOCS=1 pytest {Path(__file__).name}"


def test_what_is_compared_is_supported() -> None:
    register_all_models()
    known = PIPELINE_REGISTRY.architectures
    for name, kind in compared():
        assert kind == GGUF_FLOATS or kind in map(str, known[name].supported_encodings), name
    missing = {name for name in known if (name, "float32") not in compared()}
    assert not missing, "every architecture is compared in float32"

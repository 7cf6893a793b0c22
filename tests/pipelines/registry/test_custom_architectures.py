"""Architectures of users: modules by name and by place, and what is refused of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maxlab.errors import InputError, MaxlabError
from maxlab.pipelines.lib.custom_architectures import custom_architectures
from maxlab.pipelines.lib.registry import PipelineRegistry

TINY = Path(__file__).parents[1] / "tiny"

GOOD = f"""
import sys

sys.path.append({str(TINY)!r})
from bag_of_words import ARCHITECTURES
"""


def test_a_module_of_a_folder_is_imported_under_its_plain_name() -> None:
    (found,) = custom_architectures(f"{TINY}:bag_of_words")
    assert found.name == "BagOfWords"
    assert found.pipeline_model.__module__ == "bag_of_words"
    assert sys.path[-1] == str(TINY)
    before = list(sys.path)
    assert custom_architectures(f"{TINY}:bag_of_words") == [found]
    assert custom_architectures("bag_of_words")[0] is found
    assert sys.path == before


def test_a_relative_folder_is_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert custom_architectures("models:mine")
    assert custom_architectures("./models/../models:mine")


@pytest.mark.parametrize("name", ["package", "package.inner"])
def test_a_package_is_imported_with_its_parts(name: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package.inner import ARCHITECTURES\n")
    (package / "inner.py").write_text(f"import neighbour\n{GOOD}")
    (tmp_path / "neighbour.py").write_text("")
    assert custom_architectures(f"{tmp_path}:{name}")[0].name == "BagOfWords"
    del sys.modules["neighbour"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "exposes no list ARCHITECTURES, got"),
        ("ARCHITECTURES = None", "exposes no list ARCHITECTURES, got"),
        ("ARCHITECTURES = []", "exposes no list ARCHITECTURES, got"),
        ("ARCHITECTURES = ()", "exposes no list ARCHITECTURES, got"),
        ("ARCHITECTURES = 'BagOfWords'", "exposes no list ARCHITECTURES, got"),
        ("ARCHITECTURES = [int]", r"ARCHITECTURES\[0\] = .*, which is no SupportedArchitecture"),
        ("import nothing_like_it", "cannot be imported"),
        ("raise RuntimeError('on purpose')", "cannot be imported"),
        ("raise SystemExit(3)", "cannot be imported"),
        ("def f(:", "cannot be imported"),
        ("x = '\0'", "cannot be imported"),
        ("class C(metaclass=1): pass", "cannot be imported"),
    ],
)
def test_a_module_that_is_wrong_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        custom_architectures(f"{tmp_path}:mine")
    assert (caught.value.code, bool(caught.value.fix)) == ("ML133", True)
    if "imported" in said:
        assert "mine" not in sys.modules
        assert str(tmp_path) not in sys.path
        assert caught.value.why
        (tmp_path / "mine.py").write_text(f"{GOOD}\n# mended: other bytes than before")
        assert custom_architectures(f"{tmp_path}:mine")


@pytest.mark.parametrize(
    "spec",
    [
        "",
        ":",
        ":mine",
        "folder:",
        "mine-model",
        "a b",
        "a.",
        ".a",
        "../mine",
        "mine.py",
        "{folder}:mine.py",
        "{folder}:../mine",
        "{folder}:missing",
        "{folder}/missing:mine",
        "{folder}/mine.py:mine",
        "a\0b:mine",
        "nothing_like_it",
        "nothing_like_it.inner",
        "json.nothing_like_it",
        "{folder}:json",
    ],
)
def test_what_names_no_module_is_refused(spec: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    (tmp_path / "json.py").write_text(GOOD)
    path = list(sys.path)
    with pytest.raises(InputError) as caught:
        custom_architectures(spec.format(folder=tmp_path))
    assert caught.value.code == "ML133"
    assert sys.path == path
    assert "mine" not in sys.modules


@pytest.mark.parametrize("spec", [None, 3, b"mine", Path("mine")])
def test_a_spec_is_a_text(spec: object) -> None:
    with pytest.raises(MaxlabError) as caught:
        custom_architectures(spec)  # type: ignore[arg-type]
    assert caught.value.code == "ML980"


def test_one_name_in_two_folders_is_refused_with_both(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(GOOD)
    custom_architectures(f"{tmp_path / 'a'}:mine")
    with pytest.raises(InputError) as caught:
        custom_architectures(f"{tmp_path / 'b'}:mine")
    assert str(tmp_path / "a" / "mine.py") in caught.value.what
    assert str(tmp_path / "b" / "mine.py") in caught.value.what


def test_architectures_of_a_module_are_registered_together_or_not_at_all(tmp_path: Path) -> None:
    spec = f"{TINY}:bag_of_words"
    registry = PipelineRegistry([])
    registry.register_custom([spec, spec])
    assert list(registry.architectures) == ["BagOfWords"]
    (tmp_path / "other.py").write_text(
        "from dataclasses import replace\n"
        "from bag_of_words import ARCHITECTURES as mine\n"
        "ARCHITECTURES = [replace(mine[0], name='First'), replace(mine[0], rope_type='x')]\n"
    )
    with pytest.raises(InputError) as caught:
        registry.register_custom([f"{tmp_path}:other"])
    assert caught.value.code == "ML133"  # the module fails: a rope_type is no text
    (tmp_path / "other.py").write_text(
        "from dataclasses import replace\n"
        "from bag_of_words import ARCHITECTURES as mine\n"
        "ARCHITECTURES = [\n"
        "    replace(mine[0], name='First'), replace(mine[0], example_repo_ids=[])]\n"
    )
    with pytest.raises(InputError) as caught:
        registry.register_custom([f"{tmp_path}:other"])
    assert caught.value.code == "ML171"
    assert "example_repo_ids" in caught.value.what
    assert list(registry.architectures) == ["BagOfWords"]

"""The protocol from Python's side: what is declared, what is read, and what follows a rename."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest

from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab import protocol
from maxlab.lab.documents import checked_document
from maxlab.lab.protocol import questions as declared
from maxlab.lab.protocol import reader
from maxlab.lab.questions import answering
from tests.analysis import ceilings as made
from tests.lab.graphs import load, small

ROOT = Path(__file__).resolve().parents[2]
TABLE: dict[str, Any] = json.loads((ROOT / "tests/lab/messages.json").read_text("utf-8"))
OLD: dict[str, Any] = json.loads((ROOT / "tests/lab/document-1.json").read_text("utf-8"))

QUESTIONS = [found for found in vars(declared).values() if isinstance(found, declared.Question)]
CLOSED = {"ClientMessage", "DashboardClientMessage"}


def generator() -> ModuleType:
    """``scripts/gen_protocol.py``."""
    spec = importlib.util.spec_from_file_location("gen_protocol", ROOT / "scripts/gen_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- the table of messages


def samples() -> Iterator[tuple[str, Any, Any]]:
    """Name, type and message of each good sample."""
    for kind, messages in TABLE["good"].items():
        for message in messages:
            yield kind, getattr(protocol, kind), message
    for question in QUESTIONS:
        for answer in TABLE["answers"][question.name]:
            yield question.name, reader.types_of(question)[1], answer


def test_every_sample_is_read_and_holds_nothing_undeclared() -> None:
    for name, kind, message in samples():
        try:
            reader.check(message, kind, closed=True)
        except reader.MismatchError as mismatch:
            raise AssertionError(f"{name}: {mismatch}: {message!r:.300}") from None


def test_there_is_a_sample_of_everything() -> None:
    for kind in ("Client", "Server", "DashboardClient", "DashboardServer"):
        members = get_args(getattr(protocol, f"{kind}Message"))
        words = {get_args(reader.fields_of(one)["type"][0])[0] for one in members}
        assert {message["type"] for message in TABLE["good"][f"{kind}Message"]} == words
    assert {question.name for question in QUESTIONS} == set(TABLE["answers"])
    assert set(answering.handlers()) == set(TABLE["answers"])
    assert all(TABLE["answers"].values())


@pytest.mark.parametrize(
    ("kind", "message", "problem"),
    [(row["type"], row["message"], row["problem"]) for row in TABLE["bad"]],
)
def test_bad_samples_are_refused_with_the_words_of_the_front_end(
    kind: str, message: Any, problem: str
) -> None:
    with pytest.raises(reader.MismatchError) as caught:
        reader.check(message, getattr(protocol, kind), closed=kind in CLOSED)
    assert str(caught.value) == problem


def test_what_is_not_declared_is_refused_from_a_page_and_passed_over_in_a_document() -> None:
    for message in TABLE["good"]["ClientMessage"]:
        with pytest.raises(ArgumentError, match="ML862.*|more: it is not declared"):
            reader.client_message({**message, "more": 1})
    checked_document({**OLD, "more": 1})


def test_other_versions_say_that_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for message in TABLE["good"]["ClientMessage"][1:]:
        with pytest.raises(ArgumentError, match="ML863"):
            reader.client_message({**message, "protocol": protocol.PROTOCOL + 1})
    for message in TABLE["good"]["DashboardClientMessage"][1:]:
        with pytest.raises(ArgumentError, match="ML863"):
            reader.dashboard_message({**message, "protocol": 1})


# ---------------------------------------------------------------- answers


def args_of(node: str) -> dict[str, list[dict[str, Any]]]:
    """Arguments for each question that nothing has to be prepared for."""
    return {
        "roofline": [{}],
        "advice": [{}],
        "experiments": [{"nodes": [node]}],
        "timeline": [{}, {"runs": "all", "events": True}],
        "runs": [{}],
        "sweep": [{"sizes": {"n": [1, 2]}}],
        "memory": [{}, {"dims": {"n": 5}}],
        "passes": [{}, *({"stage": n} for n in range(3))],
        "compile": [{}],
        "why": [{"a": node, "b": "n2"}],
        "text": [{"kernel": "k0"}],
        "compare": [{"newest": True}, {}, {"all": True}],
        "nan": [{}, {"infinities": False}],
        "value": [{"node": node}],
    }


@pytest.fixture(scope="module")
def profile() -> Profile:
    """A profile of a model with two runs behind it."""
    model = load(small())
    found: Profile
    for _ in range(2):
        found = model.profile(np.ones((3, 8), np.float32), runs=3)
        answering.answer(found, "runs", {})
    return found


def test_answers_are_as_declared(profile: Profile) -> None:
    node = profile.kernels[0].nodes[0]
    with made.known(made.machine()):
        for what, calls in args_of(node).items():
            question = reader.question_of(what)
            assert question is not None
            for args in calls:
                data = answering.answer(profile, what, args).data
                sent = json.loads(json.dumps(data, allow_nan=False))
                reader.check(sent, reader.types_of(question)[1], closed=True)
        for what, data in answering.answers_to_save(profile).items():
            question = reader.question_of(what)
            assert question is not None
            reader.check(data, reader.types_of(question)[1], closed=True)


def test_keys_are_in_one_style() -> None:
    found = set()
    for path in generator().SOURCES:
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                if not name.isupper():
                    found.add(name)
    assert len(found) > 150
    assert [name for name in sorted(found) if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []


# ---------------------------------------------------------------- the version before


def test_a_document_of_the_version_before_is_read() -> None:
    document = checked_document(OLD)
    assert document["answers"]["memory"] == OLD["answers"]["memory"]


# ---------------------------------------------------------------- renames


def test_the_front_end_is_as_generated() -> None:
    module = generator()
    sources = [(path, (ROOT / path).read_text("utf-8")) for path in module.SOURCES]
    for name, text in module.generate(sources).items():
        path = ROOT / "extension/src/proto" / name
        assert path.read_text("utf-8") == text, f"{path} is stale: run scripts/gen_protocol.py"


def renamed(source: str, record: str, old: str, new: str) -> str:
    """``source`` with the field ``old`` of the class ``record`` called ``new``."""
    head, rest = source.split(f"class {record}(", 1)
    body, count = re.subn(rf"^    {old}:", f"    {new}:", rest, count=1, flags=re.MULTILINE)
    assert count == 1
    return f"{head}class {record}({body}"


RENAMES = [
    ("checks.py", "MemorySlot", "holder", "keeper", "maxlab/lab/questions/memory.py"),
    ("costs.py", "RooflinePoint", "fraction", "part", "maxlab/lab/questions/roofline.py"),
    ("messages.py", "AnswerMessage", "error", "problem", "maxlab/lab/widget.py"),
    ("dashboard.py", "MonitorState", "period", "pace", "maxlab/lab/dashboard/store.py"),
    ("document.py", "Node", "operands", "reads", "maxlab/lab/snapshot.py"),
]


@pytest.mark.slow
def test_a_field_renamed_in_the_protocol_fails_mypy(tmp_path: Path) -> None:
    """All five at once, in a copy: mypy names each maker of what was renamed."""
    pytest.importorskip("mypy")
    shutil.copytree(ROOT / "maxlab", tmp_path / "maxlab", ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, record, old, new, _ in RENAMES:
        path = tmp_path / "maxlab/lab/protocol" / name
        path.write_text(renamed(path.read_text("utf-8"), record, old, new), "utf-8")
    if (known := ROOT / ".mypy_cache").exists():  # of what was checked before, most is the same
        shutil.copytree(known, tmp_path / ".mypy_cache")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *(row[4] for row in RENAMES)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    for *_, old, new, maker in RENAMES:
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"{maker}:")]
        assert any(f'"{old}"' in line or f'"{new}"' in line for line in lines), done.stdout[-3000:]


@pytest.mark.slow
def test_a_field_renamed_in_the_protocol_fails_the_build_of_the_front_end(tmp_path: Path) -> None:
    """The types are made anew in a copy, and tsc names each reader of what was renamed."""
    modules = ROOT / "extension/node_modules"
    node = shutil.which("node")
    if node is None or not modules.exists():
        pytest.skip("needs the packages of the front end")
    extension = tmp_path / "extension"
    shutil.copytree(ROOT / "extension/src", extension / "src")
    for name in ("tsconfig.json", "package.json"):
        shutil.copy(ROOT / "extension" / name, extension)
    (extension / "node_modules").symlink_to(modules)
    module = generator()
    sources = []
    for path in module.SOURCES:
        text = (ROOT / path).read_text("utf-8")
        for name, record, old, new, _ in RENAMES:
            if path.endswith(f"protocol/{name}"):
                text = renamed(text, record, old, new)
        sources.append((path, text))
    for name, text in module.generate(sources).items():
        (extension / "src/proto" / name).write_text(text, "utf-8")
    tsc = [node, str(modules / "typescript/bin/tsc"), "--noEmit", "-p", "tsconfig.json"]
    done = subprocess.run(tsc, cwd=extension, capture_output=True, text=True, check=False)
    for _, record, old, _, _ in RENAMES:
        assert f"'{old}' does not exist on type" in done.stdout, (record, done.stdout[-3000:])

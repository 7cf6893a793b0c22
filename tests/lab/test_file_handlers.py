"""The Jupyter server's answers about files: who may ask, for what, and what a refusal says."""

from __future__ import annotations

import json
import shutil
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from maxlab.lab import bundle
from maxlab.lab.protocol import dashboard, editor, files
from maxlab.lab.protocol.reader import check
from maxlab.lab.snapshot import unpack
from tests.browser.server import LabServer, start_lab
from tests.lab.model_files import write_model

RECORDING = Path(__file__).resolve().parents[2] / "notebooks" / "data" / "two_gpus.mlrec"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A Jupyter server with a file of each kind."""
    home = tmp_path_factory.mktemp("files")
    root = home / "root"
    root.mkdir()
    save_file({"w": np.arange(6, dtype=np.float32).reshape(2, 3)}, root / "w.safetensors")
    save_file({"w": np.zeros(3)}, home / "outside.safetensors")
    (root / "out.safetensors").symlink_to(home / "outside.safetensors")
    shutil.copy(root / "w.safetensors", root / ".hidden.safetensors")
    (root / "bad.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    (root / "bad.mlprof").write_bytes(b"PK\3\4 nothing")
    (root / "bad.mlrec").write_bytes(b"nothing")
    shutil.copy(RECORDING, root / "machine.mlrec")
    with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    profile = engine.InferenceSession().load(graph).profile(np.ones(10, np.float32))
    profile.save(root / "run.mlprof")
    graph.save(root / "double.mlgraph")
    (root / "cut.mlgraph").write_text(graph.document.text()[:-9], "utf-8")
    write_model(root / "scores.mlmodel")
    (root / "cut.mlmodel").write_bytes((root / "scores.mlmodel").read_bytes()[:-40])
    running = start_lab(root, home)
    yield running
    running.stop()


def ask(
    server: LabServer, name: str, token: bool = True, range: str = "", **asked: Any
) -> tuple[int, bytes]:
    """Status and body of a question."""
    query = urllib.parse.urlencode(asked)
    headers = {"Authorization": f"token {server.token}"} if token else {}
    if range:
        headers["Range"] = range
    place = name if "/" in name else f"files/{name}"
    request = urllib.request.Request(f"{server.url}/maxlab/{place}?{query}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def refused(server: LabServer, name: str, **asked: Any) -> tuple[int, str]:
    """Status and code of a question that is not answered."""
    status, body = ask(server, name, **asked)
    said = json.loads(body)
    check(said, files.Refusal, closed=True)
    return status, said["code"]


def opened(server: LabServer, path: str = "w.safetensors") -> dict[str, Any]:
    """The header of a weight file."""
    status, body = ask(server, "header", path=path)
    assert status == 200
    found: dict[str, Any] = json.loads(body)
    check(found, files.WeightHeader, closed=True)
    return found


def split(body: bytes) -> tuple[Any, bytes]:
    """The JSON part and the buffer of an answer."""
    end = 4 + struct.unpack_from(">I", body)[0]
    return json.loads(body[4:end]), body[end:]


@pytest.mark.parametrize(
    "name", ["state", "header", "slice", "facts", "bytes", "graph", "model", "frame", "detail"]
)
def test_nobody_else_is_answered(name: str, server: LabServer) -> None:
    assert ask(server, name, token=False, path="w.safetensors", tensor=0)[0] == 403


def test_a_weight_file(server: LabServer) -> None:
    header = opened(server)
    assert [row[:3] for row in header["tensors"]] == [["w", "F32", [2, 3]]]
    asked = {"path": "w.safetensors", "stamp": header["stamp"], "tensor": 0}
    status, body = ask(server, "slice", **asked, rows=0, columns=1, at="0,0", window="0,1,2,2")
    assert status == 200
    found, raw = split(body)
    check(found, files.TensorSlice, closed=True)
    assert np.frombuffer(raw, "<f8").tolist() == [1, 2, 4, 5]
    status, body = ask(server, "facts", **asked)
    check(json.loads(body), files.TensorFacts, closed=True)
    status, body = ask(server, "state", **{k: asked[k] for k in ("path", "stamp")})
    check(json.loads(body), files.FileState, closed=True)


def test_bytes_and_ranges(server: LabServer) -> None:
    raw = (server.root / "w.safetensors").read_bytes()
    assert ask(server, "bytes", path="w.safetensors") == (200, raw)
    assert ask(server, "bytes", path="w.safetensors", range="bytes=8-11") == (206, raw[8:12])
    assert ask(server, "bytes", path="w.safetensors", range="bytes=-4") == (206, raw[-4:])
    assert ask(server, "bytes", path="w.safetensors", range="bytes=9999999-")[0] == 416


@pytest.mark.parametrize("name", ["state", "header", "bytes", "graph", "model", "frame"])
@pytest.mark.parametrize(
    "path",
    ["../outside.safetensors", "out.safetensors", ".hidden.safetensors", "missing.safetensors",
     "/etc/passwd", "..%2foutside.safetensors", ""],
)  # fmt: skip
def test_files_that_are_not_shown(name: str, path: str, server: LabServer) -> None:
    assert refused(server, name, path=path) == (404, "ML890")


def test_damaged_files(server: LabServer) -> None:
    assert refused(server, "header", path="bad.safetensors") == (400, "ML633")
    assert refused(server, "header", path="run.mlprof") == (400, "ML892")
    assert refused(server, "graph", path="bad.mlprof") == (400, "ML841")
    assert refused(server, "frame", path="bad.mlrec") == (400, "ML830")


def test_questions_that_are_none(server: LabServer) -> None:
    stamp = opened(server)["stamp"]
    asked = {"path": "w.safetensors", "stamp": stamp, "tensor": 0, "rows": 0, "columns": 1}
    assert refused(server, "slice", **asked, at="0") == (400, "ML892")
    assert refused(server, "slice", **{**asked, "tensor": 7}, at="0,0") == (400, "ML892")
    assert ask(server, "slice", **asked, at="x,0")[0] == 400
    assert ask(server, "slice", **{**asked, "rows": "1e3"}, at="0,0")[0] == 400
    assert ask(server, "facts", path="w.safetensors")[0] == 400


def test_a_file_that_changes_and_vanishes(server: LabServer) -> None:
    path = server.root / "fleeting.safetensors"
    save_file({"w": np.zeros(4)}, path)
    asked = {"path": path.name, "stamp": opened(server, path.name)["stamp"]}
    save_file({"w": np.zeros(5)}, path)
    assert refused(server, "facts", **asked, tensor=0) == (409, "ML891")
    assert refused(server, "state", **asked) == (409, "ML891")
    assert opened(server, path.name)["tensors"][0][2] == [5]
    path.unlink()
    assert refused(server, "state", **asked) == (409, "ML891")


def test_a_saved_run(server: LabServer) -> None:
    status, body = ask(server, "graph", path="run.mlprof")
    assert status == 200
    found = json.loads(body)
    check(found, files.SavedGraph, closed=True)
    assert found["label"] == "run"


def test_a_document(server: LabServer) -> None:
    status, body = ask(server, "graph", path="double.mlgraph")
    assert status == 200
    found = json.loads(body)
    check(found, files.SavedGraph, closed=True)
    assert found["label"] == "double"
    assert [node["op"] for node in unpack(found["document"])["nodes"]] == ["constant", "mul"]
    assert refused(server, "graph", path="cut.mlgraph") == (400, "ML864")


def test_a_model(server: LabServer) -> None:
    status, body = ask(server, "model", path="scores.mlmodel")
    assert status == 200
    found = json.loads(body)
    check(found, files.ModelContents, closed=True)
    assert found["name"] == "scores"
    status, body = ask(server, "graph", path="scores.mlmodel")
    assert [node["op"] for node in unpack(json.loads(body)["document"])["nodes"]][-1] == "gelu"
    for name in ("model", "graph"):
        assert refused(server, name, path="cut.mlmodel") == (400, "ML512")
    assert refused(server, "model", path="w.safetensors") == (400, "ML512")


def test_a_recording(server: LabServer) -> None:
    status, body = ask(server, "frame", path="machine.mlrec")
    assert status == 200
    found, raw = split(body)
    check(found, dashboard.FrameMessage, closed=True)
    assert found["state"]["replay"]
    assert len(raw) == found["count"] * (8 + 4 * found["width"])
    status, body = ask(server, "detail", path="machine.mlrec", start=0, end=3)
    check(split(body)[0], dashboard.DetailMessage, closed=True)


def test_the_gallery_is_listed_and_read(server: LabServer) -> None:
    status, body = ask(server, "templates/list")
    listed = json.loads(body)
    check(listed, editor.TemplateList, closed=True)
    assert status == 200
    assert len(listed["templates"]) >= 12
    for entry in listed["templates"]:
        status, body = ask(server, "templates/text", template=entry["name"])
        found = json.loads(body)
        check(found, editor.TemplateText, closed=True)
        assert '"maxlab.document"' in found["text"]
    for name in ("nothing", "../widget", "/etc/passwd"):
        assert refused(server, "templates/text", template=name) == (404, "ML825")
    assert ask(server, "templates/list", token=False)[0] == 403


def test_the_script_of_exported_pages_is_that_of_python(server: LabServer) -> None:
    name = "pages/script"
    assert ask(server, name) == (200, bundle.read("export.js"))
    assert ask(server, name, token=False)[0] == 403

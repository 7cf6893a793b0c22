"""Files opened by double click in the file browser: weights, models, a saved run, a recording."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect
from safetensors.numpy import save_file

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from tests.browser.page import VIEWPORT, LabPage
from tests.browser.server import LabServer
from tests.graph.weight_files import gguf_of
from tests.lab.model_files import small_graph, write_model

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "notebooks" / "data" / "two_gpus.mlrec"


@pytest.fixture(scope="module", autouse=True)
def folder(server: LabServer) -> Path:
    """A folder of the server with a file of each kind."""
    made = server.root / "files"
    made.mkdir(exist_ok=True)
    grid = np.linspace(-1, 1, 40 * 24, dtype=np.float32).reshape(40, 24)
    layers = {f"layers.{n}.weight": np.full((8, 4), n, np.float16) for n in range(6)}
    save_file({"grid": grid, "steps": np.arange(5), **layers}, made / "small.safetensors")
    (made / "small.gguf").write_bytes(gguf_of({"blk.0.attn_q.weight": grid}))
    (made / "broken.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    for name in ("fleeting", "kept"):
        save_file({"w": grid}, made / f"{name}.safetensors")
    with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(ops.gelu(graph.inputs[0].tensor * 2))
    profile = engine.InferenceSession().load(graph).profile(np.ones(1000, np.float32))
    profile.save(made / "run.mlprof")
    shutil.copy(RECORDING, made / "machine.mlrec")
    write_model(made / "scores.mlmodel")
    write_model(made / "cut.mlmodel", graph=small_graph().document.text()[:-9])
    whole = (made / "scores.mlmodel").read_bytes()
    (made / "broken.mlmodel").write_bytes(whole[: len(whole) // 2])
    (made / "changed.mlmodel").write_bytes(whole.replace(b'"operations": 3', b'"operations": 4'))
    return made


def double_click(lab: LabPage, name: str) -> Locator:
    """The tab that a double click on ``name`` opens, in the folder of the files."""
    page = lab.page
    lab.execute("filebrowser:open-path", {"path": "files"})
    page.locator(".jp-DirListing-item", has_text=name).dblclick()
    tab = page.locator(".jp-MaxLab-file:visible")
    try:
        tab.wait_for(timeout=10_000)
    except Exception:
        said = page.locator(".jp-Dialog:visible").all_text_contents()
        raise AssertionError(f"a double click on {name} shows no file of maxlab: {said}") from None
    return tab


def close_tab(lab: LabPage) -> None:
    """Close what was opened."""
    lab.close_all()
    lab.page.locator(".jp-MaxLab-file").first.wait_for(state="detached")


def test_safetensors(shared: LabPage) -> None:
    """Its tensors, sorted and filtered; a picture of one, with the value under the pointer."""
    tab = double_click(shared, "small.safetensors")
    rows = tab.locator(".jp-MaxLab-table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 8
    row = rows.filter(has_text="grid")
    assert re.search(r"F32.*40 × 24.*3.84 kB", row.text_content() or "")
    tab.get_by_role("button", name="Sort by Bytes").click()
    assert "grid" in (rows.first.text_content() or "")
    tab.get_by_label("Filter tensors").fill("layers.3")
    assert rows.count() == 1
    tab.get_by_label("Filter tensors").fill("")

    rows.filter(has_text="grid").get_by_role("button").click()
    facts = tab.locator(".jp-MaxLab-weights-facts")
    facts.get_by_text("all 960 numbers").wait_for()
    picture = tab.locator(".jp-MaxLab-weights-picture canvas")
    tab.get_by_role("img", name="Picture of grid").wait_for()
    box = picture.bounding_box()
    assert box is not None
    shared.page.mouse.move(box["x"] + 2, box["y"] + 2)
    value = tab.locator(".jp-MaxLab-weights-value")
    shared.shot("files-safetensors")
    assert "[0, 0] = −1" in (value.text_content() or "")
    picture.focus()
    for key in ("ArrowDown", "ArrowRight"):
        shared.page.keyboard.press(key)
    assert "[1, 1] = " in (value.text_content() or "")
    assert shared.barriers(".jp-MaxLab-file") == []
    shared.shot("files-safetensors")
    picture.press("+")
    tab.get_by_text(re.compile(r"rows \d+–\d+ of 40")).wait_for()
    close_tab(shared)


def test_gguf(shared: LabPage) -> None:
    """Its tensors."""
    tab = double_click(shared, "small.gguf")
    tab.get_by_role("button", name="blk.0.attn_q.weight").wait_for()
    shared.shot("files-gguf")
    close_tab(shared)


def test_profile(shared: LabPage) -> None:
    """The graph of a saved run with its times."""
    double_click(shared, "run.mlprof")
    shared.view()
    assert shared.page.evaluate("window.__maxlabTest.views[0].name") == "double"
    shared.shot("files-mlprof")
    close_tab(shared)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_model(shared: LabPage, name: str) -> None:
    """What a kept model says of itself beside its graph, which nothing of it runs to be drawn."""
    shared.set_theme(name)
    tab = double_click(shared, "scores.mlmodel")
    view = shared.view()
    assert view.labels() == ["input0", "matmul", "gelu", "output"]
    contents = tab.get_by_role("group", name="Contents of the file")
    text = contents.text_content() or ""
    for words in ("Not trusted.", "machine code", "plan and texts of kernels", "trusted=True"):
        assert words in text, words
    assert re.search(r"Digest[0-9a-f]{64}", text)
    assert "8.27 kB" in (contents.locator("li", has_text="weights").first.text_content() or "")
    contents.get_by_text("Members: 6").click()
    members = contents.get_by_role("table", name="Members")
    expect(members.get_by_role("row")).to_have_count(7)
    shared.shot(f"files-mlmodel-{name}")
    assert shared.barriers(".jp-MaxLab-file") == []
    too_faint = [pair for pair in shared.contrast(".jp-MaxLab-model") if pair[1] < 4.5]
    assert too_faint == []
    shared.page.set_viewport_size({"width": 900, "height": 900})
    view.settle()
    shared.shot(f"files-mlmodel-900-{name}")
    for part in (".jp-MaxLab-model-graph", ".jp-MaxLab-weights-side"):
        box = tab.locator(part).bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 200
    shared.page.set_viewport_size(VIEWPORT)
    shared.set_theme("light")
    close_tab(shared)


@pytest.mark.parametrize(("name", "code"), [("broken", "ML512"), ("changed", "ML514")])
def test_a_damaged_model(shared: LabPage, name: str, code: str) -> None:
    """What is wrong with it, and no graph."""
    shared.allowed += ["400 (Bad Request)", "a view shows"]
    tab = double_click(shared, f"{name}.mlmodel")
    tab.get_by_role("alert").get_by_text(code).wait_for()
    assert tab.locator(".jp-MaxLab-model-graph").is_hidden()
    shared.shot(f"files-mlmodel-{name}")
    close_tab(shared)


def test_a_model_whose_graph_is_damaged(shared: LabPage) -> None:
    """The contents are shown, and what is wrong where the graph would be."""
    shared.allowed += ["400 (Bad Request)", "a view shows"]
    tab = double_click(shared, "cut.mlmodel")
    tab.locator(".jp-MaxLab-model-graph").get_by_text("ML864").wait_for()
    assert "Not trusted." in (tab.text_content() or "")
    shared.shot("files-mlmodel-cut")
    close_tab(shared)


def test_recording(shared: LabPage) -> None:
    """The dashboard, replayed."""
    double_click(shared, "machine.mlrec")
    shared.page.wait_for_function("window.__maxlabTest?.dashboards?.[0]?.state?.replay")
    shared.shot("files-mlrec")
    close_tab(shared)


def test_a_damaged_file(shared: LabPage) -> None:
    """What is wrong with it, and what to do."""
    shared.allowed.append("400 (Bad Request)")
    shared.allowed.append("a view shows")
    tab = double_click(shared, "broken.safetensors")
    tab.get_by_text("ML633").wait_for()
    close_tab(shared)


def test_a_file_that_vanishes(shared: LabPage, folder: Path) -> None:
    """The tab says so, and keeps what it has shown."""
    shared.allowed.append("the server responded with a status of")
    tab = double_click(shared, "fleeting.safetensors")
    tab.get_by_role("button", name="w", exact=True).wait_for()
    (folder / "fleeting.safetensors").unlink()
    tab.get_by_role("button", name="w", exact=True).click()
    tab.get_by_text("is no longer there").first.wait_for()
    close_tab(shared)
    # JupyterLab looks now and then whether what was open lately is still there.
    (folder / "fleeting.safetensors").touch()


def test_opening_a_file_copies_nothing(shared: LabPage, folder: Path) -> None:
    """A checkpoint, which JupyterLab makes of files it may save, would be another 10 GB."""
    tab = double_click(shared, "kept.safetensors")
    tab.get_by_role("button", name="w", exact=True).wait_for()
    shared.page.wait_for_timeout(500)
    close_tab(shared)
    assert list(folder.rglob(".ipynb_checkpoints/kept*")) == []

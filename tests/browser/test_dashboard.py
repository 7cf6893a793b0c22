"""The dashboard in a real browser: live over GPUs that are simulated, in its tab, and replayed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer, start_lab
from tests.diagnostics.conftest import need
from tests.diagnostics.simulated import Work, build_library, environment

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "notebooks" / "data" / "two_gpus.mlrec"
# WCAG AA for normal text.
LEGIBLE = 4.5
SUMMARY = "window.__maxlabTest?.dashboards"

START = """
import time
import maxlab
from maxlab.diagnostics import Monitor
monitor = Monitor.start(period_s=0.2)
"""


@pytest.fixture(scope="module")
def gpu_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab on a machine with two GPUs, which are simulated and at work."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, which builds the stand-in for NVML")
    need("pynvml", "nvidia-ml-py")
    home = tmp_path_factory.mktemp("gpu-lab")
    root = home / "root"
    root.mkdir()
    work = Work(home / "gpus.txt")
    told = environment(build_library(home / "lib"), home / "gpus.txt")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**told, "PYTHONPATH": str(ROOT)}.items():
            patch.setenv(name, value)
        server = start_lab(root, home)
    yield server
    recorders = monitors_of(server)
    server.stop()
    work.close()
    # A server that ends takes its monitor with it.
    wait_for(lambda: not any(alive(one) for one in recorders), "the monitor to end")


@pytest.fixture
def gpu_lab(gpu_server: LabServer, browser: Browser, theme: str) -> Iterator[LabPage]:
    """JupyterLab on that machine, in each theme, with nothing recorded yet."""
    lab = LabPage.open(browser, gpu_server, theme)
    yield lab
    lab.close()
    gpu_server.shut_down_kernels()
    for monitor in monitors_of(gpu_server):
        monitor.send_signal(signal.SIGTERM)
        wait_for(partial(is_gone, monitor), "the monitor to end")
    shutil.rmtree(gpu_server.home / "runtime" / "maxlab-monitor", ignore_errors=True)


def monitors_of(server: LabServer) -> list[psutil.Process]:
    """The monitors that record below the server's home."""
    found = []
    for process in psutil.process_iter():
        try:
            if "maxlab-monitor" in process.cmdline() and any(
                str(server.home) in file.path for file in process.open_files()
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def alive(process: psutil.Process) -> bool:
    """Whether ``process`` runs; one that waits to be reaped does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def is_gone(process: psutil.Process) -> bool:
    """Whether ``process`` has ended."""
    return not alive(process)


def wait_for(condition: Callable[[], Any], what: str, patience_s: float = 60) -> Any:
    """What ``condition`` returns as soon as that is true."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {patience_s:.0f} s for {what}")


class View:
    """The first dashboard of the page, or another one."""

    def __init__(self, lab: LabPage, index: int = 0) -> None:
        self.lab = lab
        self.index = index
        self.wait("true")

    def wait(self, expression: str, timeout: float = 60) -> None:
        """Wait until ``expression`` is true, in which ``view`` is the dashboard."""
        self.lab.page.wait_for_function(
            f"""(n) => {{ const view = ({SUMMARY} ?? [])[n];
                return view !== undefined && ({expression}); }}""",
            arg=self.index,
            timeout=timeout * 1000,
        )

    def read(self, expression: str) -> Any:
        """What ``expression`` gives."""
        return self.lab.page.evaluate(
            f"(n) => {{ const view = {SUMMARY}[n]; return {expression}; }}", self.index
        )

    def charts(self) -> dict[str, str]:
        """Title and readouts of each chart."""
        found: dict[str, str] = self.read("view.charts()")
        return found

    @property
    def element(self) -> Any:
        """The element."""
        return self.lab.page.locator(".jp-MaxLab-dash:visible").nth(0)

    def faint(self) -> list[tuple[str, float]]:
        """Texts that are hard to read."""
        return [(text, r) for text, r in self.lab.contrast(".jp-MaxLab-dash") if r < LEGIBLE]


GPU_CHARTS = {
    "GPU utilisation",
    "GPU memory",
    "GPU memory activity",
    "Power",
    "Temperature",
    "Clocks",
    "PCIe",
    "NVLink",
    "CPU",
    "Host memory",
    "CPU cores",
    "Disk",
    "Network",
}


def test_live_below_a_cell(gpu_lab: LabPage, gpu_server: LabServer, theme: str) -> None:
    lab = gpu_lab
    lab.page.set_viewport_size({"width": 1440, "height": 1800})
    lab.open_notebook(write_notebook(gpu_server.root, f"live-{theme}.ipynb", []))
    lab.run_code(START.replace("0.2", "0.5"))
    lab.run_code("maxlab.dashboard()")
    view = View(lab)
    view.wait("view.samples > 3")

    # The charts go on while a cell runs, and the cell is marked as it does.
    before = view.read("view.samples")
    lab.run_code("time.sleep(6)", wait=False)
    view.wait("view.marks.some(mark => mark.kind === 'cell' && mark.took === null)")
    view.wait(f"view.samples > {before} + 3")
    view.wait("view.marks.filter(mark => mark.kind === 'cell' && mark.took > 5.9).length === 1")

    assert set(view.charts()) == GPU_CHARTS
    for title in ("GPU utilisation", "GPU memory", "Power", "CPU", "Host memory"):
        assert view.read(f"view.ink({title!r})") > 50, title
    assert "nv1" in view.charts()["GPU utilisation"]
    assert "pid" in view.element.inner_text()
    assert view.faint() == []
    lab.page.evaluate("() => document.querySelector('.jp-MaxLab-dash').scrollIntoView()")
    lab.shot(f"dashboard-live-{theme}")

    # Zoom by a drag; it holds still until the zoom is reset.
    plot = view.element.locator("[data-quantity=power] .u-over")
    box = plot.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    shown = view.read("view.shown")
    lab.page.mouse.move(box["x"] + box["width"] * 0.5, y)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + box["width"] * 0.75, y, steps=5)
    lab.page.mouse.up()
    view.wait("!view.isFollowing")
    zoomed = view.read("view.shown")
    view.wait("view.drawn('CPU').start === view.shown.start")
    length = shown["end"] - shown["start"]
    # A quarter of it was dragged over; the recording has gone on a little since it was asked.
    assert 0.2 * length < zoomed["end"] - zoomed["start"] < 0.35 * length
    lab.page.mouse.move(box["x"] + box["width"] * 0.6, y)
    lab.shot(f"dashboard-zoom-{theme}")
    view.element.get_by_role("button", name="Reset the zoom").click()
    view.wait("view.isFollowing")

    # The same by keys.
    view.element.focus()
    lab.page.keyboard.press("Space")
    view.wait("!view.isFollowing")
    lab.page.keyboard.press("+")
    lab.page.keyboard.press("ArrowLeft")
    lab.page.keyboard.press("Shift+ArrowLeft")
    assert "GPU utilisation: nv0" in lab.page.locator(".jp-MaxLab-dashLive").inner_text()
    lab.page.keyboard.press("0")
    view.wait("view.isFollowing")

    # Stop, by the button: nothing is sampled any more, and what there is stays.
    view.element.get_by_role("button", name="Stop recording").click()
    view.wait("!view.state.running")
    wait_for(lambda: not monitors_of(gpu_server), "the monitor to end")
    kept = view.read("view.samples")
    lab.run_code("time.sleep(1)")
    assert view.read("view.samples") == kept
    assert lab.errors == []


def test_history_survives_reload_kernel_and_page(
    gpu_lab: LabPage, gpu_server: LabServer, theme: str
) -> None:
    lab = gpu_lab
    name = write_notebook(gpu_server.root, f"history-{theme}.ipynb", [])
    lab.open_notebook(name)
    lab.run_code(START)
    lab.run_code("import os, signal\ntime.sleep(1)")
    (monitor,) = monitors_of(gpu_server)

    # The kernel is killed, as when memory runs out; Jupyter starts another one.
    pid = int(lab.run_code("os.getpid()")[0]["data"]["text/plain"])
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid), "the kernel to die")
    assert alive(monitor)
    # JupyterLab says so when Jupyter has noticed.
    lab.page.locator(".jp-Dialog-button.jp-mod-accept").first.click()
    lab.page.wait_for_function(
        """() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status
            === 'idle'"""
    )
    lab.run_code("import maxlab\nmaxlab.dashboard()")
    view = View(lab)
    view.wait("view.samples > 5 && view.state.running")
    names = view.read("view.marks.map(mark => mark.name)")
    assert {"In [1]", "In [2]"} <= set(names)
    unfinished = view.read("view.marks.filter(m => m.took === null).map(m => m.pid)")
    assert pid not in unfinished, "a cell of the killed kernel seems to run still"
    assert monitors_of(gpu_server) == [monitor], "there is another monitor"

    # A page that is loaded anew has all of it again, without a kernel, in the tab.
    before = view.read("view.samples")
    lab.page.goto(f"{gpu_server.url}/lab?reset")
    lab.page.wait_for_function("() => window.jupyterapp")
    lab.page.evaluate("async () => { await window.jupyterapp.restored; }")
    gpu_server.shut_down_kernels()
    lab.set_theme(theme)
    lab.execute("maxlab:open-diagnostics")
    tab = View(lab)
    tab.wait(f"view.samples >= {before}")
    assert "In [1]" in tab.read("view.marks.map(mark => mark.name)")

    # Closing the view ends nothing.
    lab.close_all()
    assert alive(monitor)


def test_the_tab_starts_and_stops_without_a_kernel(
    gpu_lab: LabPage, gpu_server: LabServer, theme: str
) -> None:
    lab = gpu_lab
    lab.execute("maxlab:open-diagnostics")
    view = View(lab)
    view.element.get_by_text("Nothing is recorded yet").wait_for()
    assert view.faint() == []
    lab.shot(f"dashboard-empty-{theme}")
    assert monitors_of(gpu_server) == []
    view.element.get_by_role("combobox").select_option("0.1")
    view.element.get_by_role("button", name="Start recording").click()
    view.wait("view.samples > 20")
    assert len(monitors_of(gpu_server)) == 1
    assert set(view.charts()) >= {"GPU utilisation", "CPU"}
    view.wait("view.samples > 60")
    # The charts go along with the samples.
    view.wait("Math.abs(view.drawn('Power').end - view.shown.end) < 0.01 && view.shown.end > 5")
    lab.shot(f"dashboard-tab-{theme}")
    assert view.faint() == []

    # The recording and the table are handed out as files.
    view.element.locator("summary").click()
    with lab.page.expect_download() as saved:
        view.element.get_by_role("button", name="Recording: all").click()
    path = Path(saved.value.path())
    assert saved.value.suggested_filename.endswith(".mlrec")
    from maxlab.diagnostics import Recording

    recording = Recording.load(path)
    assert recording.gpus == ["nv0", "nv1"]
    assert recording.numbers.tolist() == list(range(len(recording)))
    view.element.locator("summary").click()
    with lab.page.expect_download() as table:
        view.element.get_by_role("button", name="Table").click()
    lines = Path(table.value.path()).read_text().splitlines()
    assert lines[0].startswith("time [s],cpu [%]")
    assert len(lines) > 20
    view.element.locator("summary").click()
    with lab.page.expect_download() as picture:
        view.element.get_by_role("button", name="Picture").click()
    assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")

    view.element.get_by_role("button", name="Stop recording").click()
    view.wait("!view.state.running")
    assert monitors_of(gpu_server) == []
    assert lab.errors == []


def test_a_replay_needs_neither_gpu_nor_monitor(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    lab.page.set_viewport_size({"width": 1440, "height": 1800})
    lab.open_notebook(write_notebook(server.root, f"replay-{theme}.ipynb", []))
    (output,) = lab.run_code(f"import maxlab\nmaxlab.dashboard(replay={str(RECORDING)!r})")
    assert "<svg" in output["data"]["image/svg+xml"]
    assert "simulated" in output["data"]["image/svg+xml"]
    view = View(lab)
    view.wait("view.samples > 50")
    # it was made before disks and networks were recorded
    assert set(view.charts()) >= GPU_CHARTS - {"Disk", "Network"}
    assert {"prefill", "decode"} <= set(view.read("view.marks.map(mark => mark.name)"))
    label = view.element.locator(".jp-MaxLab-dashLabel")
    assert label.inner_text() == "simulated"
    assert view.element.get_by_role("button", name="Start recording").count() == 0
    assert view.faint() == []
    lab.page.evaluate("() => document.querySelector('.jp-MaxLab-dash').scrollIntoView()")
    chip = view.element.get_by_role("button", name="nv1 Simulated GPU")
    lab.shot(f"dashboard-replay-{theme}")
    chip.click()
    assert "nv1" not in view.charts()["GPU utilisation"]
    assert lab.errors == []


def test_a_machine_without_a_gpu_shows_the_rest(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    lab.open_notebook(write_notebook(server.root, f"bare-{theme}.ipynb", []))
    try:
        lab.run_code(START)
        lab.run_code("monitor")
        view = View(lab)
        view.wait("view.samples > 3")
        assert {"CPU", "Host memory", "CPU cores", "Disk", "Network"} <= set(view.charts())
        if "GPU utilisation" not in view.charts():
            assert "No GPU: NVIDIA: " in view.element.inner_text()
        view.wait("view.samples > 20")
        lab.page.evaluate("() => document.querySelector('.jp-MaxLab-dash').scrollIntoView()")
        lab.shot(f"dashboard-bare-{theme}")
        assert view.faint() == []
    finally:
        lab.run_code("monitor.stop()")
    assert lab.errors == []


def test_the_server_answers_nobody_else(gpu_server: LabServer) -> None:
    import urllib.error
    import urllib.request

    def status(path: str, method: str = "GET", body: bytes = b"{}", **headers: str) -> int:
        request = urllib.request.Request(
            f"{gpu_server.url}/maxlab/monitor/{path}", method=method, headers=headers
        )
        if method == "POST":
            request.data = body
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    token = f"token {gpu_server.token}"
    for path in ("frame", "recording", "detail?start=0&end=1"):
        assert status(path) == 403
        assert status(path, Authorization=token) == 200
    assert status("start", "POST") == 403
    assert status("detail?start=x&end=1", Authorization=token) == 400
    for wrong in (b'{"period": 0}', b'{"period": "x"}', b"[1]"):
        assert status("start", "POST", wrong, Authorization=token) == 400
    assert status("start", Authorization=token) == 405
    assert monitors_of(gpu_server) == []


def test_a_forged_request_starts_nothing(browser: Browser, gpu_server: LabServer) -> None:
    """A page of somebody else's makes the browser send cookies, and cannot know the token."""
    lab = LabPage.open(browser, gpu_server)
    try:
        codes = lab.page.evaluate(
            """async () => {
                const post = headers => fetch('/maxlab/monitor/stop', {method: 'POST', headers});
                const xsrf = /_xsrf=([^;]+)/.exec(document.cookie)[1];
                return [(await post({})).status, (await post({'X-XSRFToken': xsrf})).status];
            }"""
        )
    finally:
        lab.close()
    assert codes == [403, 204]


def test_the_recorder_of_the_tutorial_says_that_it_is_simulated() -> None:
    from maxlab.diagnostics import Recording

    recording = Recording.load(RECORDING)
    assert recording.label == "simulated"
    assert recording.gpus == ["nv0", "nv1"]
    assert tempfile.gettempdir() not in RECORDING.read_text()

"""A JupyterLab or Notebook server for tests: free port, own token, own folders."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

# Settings of the user that a test is: no news, no update check, nothing that comes up by itself.
_USER_SETTINGS: dict[str, dict[str, object]] = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    },
    "@jupyterlab/apputils-extension/themes.jupyterlab-settings": {"adaptive-theme": False},
    "@jupyterlab/docmanager-extension/plugin.jupyterlab-settings": {"autosave": False},
}

_PORTS_TRIED = 5
_TAKEN = "is already in use"
"""In the log of a server whose port another process took since it was looked for."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class LabServer:
    """A running JupyterLab or Notebook."""

    root: Path
    """The folder that its file browser shows."""
    home: Path
    """The folder with all that is its own: settings, workspaces, log."""
    url: str
    """``http://127.0.0.1:PORT``, without a slash at the end."""
    token: str
    log: Path
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> object:
        """What the server answers to ``GET path``, from JSON."""
        request = urllib.request.Request(
            f"{self.url}/{path}", headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    def shut_down_kernels(self) -> None:
        """End every kernel of this server."""
        kernels = self.get("api/kernels")
        assert isinstance(kernels, list)
        for kernel in kernels:
            request = urllib.request.Request(
                f"{self.url}/api/kernels/{kernel['id']}",
                headers={"Authorization": f"token {self.token}"},
                method="DELETE",
            )
            with (
                contextlib.suppress(urllib.error.HTTPError),
                urllib.request.urlopen(request, timeout=30),
            ):
                pass

    def stop(self) -> None:
        """End the server and the kernels it started, and wait until they are gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self.process.pid).children(recursive=True)
            with contextlib.suppress(OSError, urllib.error.URLError):
                self.shut_down_kernels()
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            for process in psutil.wait_procs(family, timeout=5)[1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


def start_lab(
    root: Path,
    home: Path,
    timeout: float = 90,
    python: str = sys.executable,
    app: Literal["jupyterlab", "notebook"] = "jupyterlab",
    programs: str | None = None,
) -> LabServer:
    """A JupyterLab or Notebook 7 that shows ``root`` and keeps all that is its own below ``home``.

    Args:
        root: The folder that it shows.
        home: The folder of its settings, kernels and log.
        timeout: Seconds in which it has to answer.
        python: The interpreter whose packages run.
        app: Which of the two.
        programs: The folders of its programs; by default, this process's behind the interpreter's.

    Raises:
        RuntimeError: it ended, or did not answer in ``timeout`` seconds; the message has its log.
    """
    settings = home / "settings"
    for name, values in _USER_SETTINGS.items():
        path = settings / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    token = secrets.token_urlsafe(24)
    environment = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        # Not an argument: arguments can be read by every user of the machine.
        "JUPYTER_TOKEN": token,
        "PATH": programs or f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)  # it has packages of its own
    name = "LabApp" if app == "jupyterlab" else "JupyterNotebookApp"
    command = [
        python,
        "-m",
        app,
        "--no-browser",
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
        f"--{name}.expose_app_in_browser=True",
    ]
    if app == "jupyterlab":
        command += [
            "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]
    if os.geteuid() == 0:
        command.append("--allow-root")
    log = home / "lab.log"
    for attempt in range(_PORTS_TRIED):
        port = free_port()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, f"--ServerApp.port={port}"],
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        server = LabServer(root, home, f"http://127.0.0.1:{port}", token, log, process)
        if _answers(server, timeout):
            return server
        if process.poll() is None:
            server.stop()
            raise RuntimeError(f"{app} did not answer in {timeout} s:\n{log.read_text()}")
        if _TAKEN not in log.read_text() or attempt + 1 == _PORTS_TRIED:
            break
    raise RuntimeError(f"{app} ended with {process.returncode}:\n{log.read_text()}")


def _answers(server: LabServer, timeout: float) -> bool:
    """Whether ``server`` answers before it ends and before ``timeout`` seconds are over."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            server.get("api/status")
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return True
    return False

"""GPUs that do not exist, at work: what the stand-in for NVML tells while time goes by.

    python -m tests.diagnostics.simulated OUT.mlrec [SECONDS [STORY]]

records them with a real monitor, for tutorials and tests on machines without a GPU. Such a
recording bears the label ``simulated``, which every view of it shows. The story ``day`` is a day's
work of two GPUs; in ``starved`` one GPU waits for batches, until they are made ahead of it.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIB = 2**30
LABEL = "simulated"


def gpus_at(second: float, count: int = 2) -> str:
    """The text of ``fake.h`` for this second of a made-up day's work.

    The first GPU loads weights, prefills and decodes in turns of 20 s; the others follow with less.
    """
    noise = random.Random(int(second * 5))
    lines = []
    for gpu in range(count):
        phase = (second - 3.0 * gpu) % 20
        share = 1.0 if gpu == 0 else 0.55 / gpu
        if second < 3.0 * gpu or phase < 2:
            busy, moving, held, link = 2.0, 1.0, 6.0, 9e6 * max(0.0, 1 - abs(phase - 1))
        elif phase < 8:
            busy, moving, held, link = 96.0, 62.0, 6 + 9 * (phase - 2), 6e5
        elif phase < 16:
            busy, moving, held, link = 71.0, 88.0, 60 + 1.6 * (phase - 8), 2e5
        else:
            busy, moving, held, link = 9.0, 4.0, 60.0, 5e4
        busy = min(100.0, max(0.0, busy * share + noise.uniform(-4, 4)))
        moving = min(100.0, max(0.0, moving * share + noise.uniform(-3, 3)))
        used = int((held * share + 0.6) * GIB)
        watts = 118 + 5.6 * busy + noise.uniform(-8, 8)
        degrees = 36 + 0.3 * busy + 6 * math.sin(second / 13)
        lines.append(
            f"gpu {gpu} total={141 * GIB} free={141 * GIB - used} used={used} reserved={GIB // 2} "
            f"util={busy:.0f} memutil={moving:.0f} name=Simulated_GPU arch=9 window_us=166000 "
            f"sm={345 + int(1635 * min(1, busy / 20))} maxsm=1980 memclock=3201 maxmem=3201 "
            f"power={watts * 1000:.0f} limit=700000 temp={degrees:.0f} "
            f"pcietx={link * share * 0.4:.0f} pcierx={link * share:.0f} "
            f"pid1={4100 + gpu} held1={int(used * 0.93)} pid2=88 held2={int(0.4 * GIB)} "
            f"nvtx={int(second * 4e6 * share)}+1 nvrx={int(second * 3e6 * share)}+1"
        )
    return "\n".join(lines)


BATCH_S, STEP_S = 0.9, 0.5
"""What it takes to make a batch, and to train on it, in the story ``starved``."""

FED_S = 14.0
"""When its batches begin to be made while the GPU works."""


def starved_at(second: float, count: int = 1) -> str:
    """The text of ``fake.h`` for this second of training that waits for its batches."""
    noise = random.Random(int(second * 10))
    cycle = BATCH_S + STEP_S if second < FED_S else BATCH_S
    works = (second % cycle if second < FED_S else (second - FED_S) % cycle) >= cycle - STEP_S
    busy = max(0.0, (93.0 if works else 0.0) + noise.uniform(-2, 2))
    return (
        f"gpu 0 total={141 * GIB} free={120 * GIB} used={21 * GIB} reserved={GIB // 2} "
        f"util={busy:.0f} memutil={busy * 0.6:.0f} name=Simulated_GPU arch=9 window_us=100000 "
        f"sm={1980 if works else 345} maxsm=1980 memclock=3201 maxmem=3201 "
        f"power={(120 + 4.8 * busy) * 1000:.0f} limit=700000 temp={41 + 0.2 * busy:.0f} "
        f"pcietx=20000 pcierx={900000 if works else 20000} pid1=4100 held1={20 * GIB}"
    )


STORIES = {"day": gpus_at, "starved": starved_at}


def build_library(folder: Path) -> Path:
    """The folder, with the stand-in for NVML in it.

    Raises:
        CalledProcessError: gcc did not build it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", f"-Wl,-soname,{library.name}",
         "-o", library, HERE / "fake_nvml.c"],
        check=True,
    )  # fmt: skip
    return folder


class Work:
    """Writes what the GPUs do to ``file``, from a thread, until it is closed."""

    def __init__(self, file: Path, count: int = 2, story: str = "day") -> None:
        self._file = file
        self._story = STORIES[story]
        self._count = count
        self.start_s = time.monotonic()
        self._over = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(self._story(time.monotonic() - self.start_s, self._count) + "\n")
        new.replace(self._file)

    def _run(self) -> None:
        while not self._over.wait(0.05):
            self._write()

    def close(self) -> None:
        """Stop; the GPUs stay as they are."""
        self._over.set()
        self._thread.join()


def environment(libraries: Path, gpus: Path) -> dict[str, str]:
    """What a process needs in its environment to see the GPUs of the file ``gpus``."""
    return {"LD_LIBRARY_PATH": str(libraries), "FAKE_GPUS": str(gpus)}


_PROGRAM = """
import sys, time
from maxlab import trace
from maxlab.diagnostics import Monitor
path, label, seconds, start_s = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
with Monitor.start(period_s=0.5, label=label) as monitor:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        phase = (time.monotonic() - start_s) % 20
        if phase < 2:
            with trace.span("load", "weights"):
                time.sleep(2 - phase)
        elif phase < 16:
            begin_ns = time.monotonic_ns()
            time.sleep(0.05)
            name = "prefill" if phase < 8 else "decode"
            trace.run_watcher(name, begin_ns, time.monotonic_ns())
        else:
            time.sleep(0.05)
monitor.save(path)
"""


# This process makes the batches, for as long as it takes: the CPU of the recording is true.
_STARVED = """
import sys, threading, time
from maxlab import trace
from maxlab.diagnostics import Monitor
from tests.diagnostics.simulated import BATCH_S, FED_S, STEP_S
path, label, seconds, start_s = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])

def make_batch():
    with trace.span("load", "make_batch"):
        end_s = time.monotonic() + BATCH_S
        while time.monotonic() < end_s:
            sorted(str(n) for n in range(2000))

def train_step(until_s):
    begin_ns = time.monotonic_ns()
    time.sleep(max(0.0, until_s - time.monotonic()))
    trace.run_watcher("train_step", begin_ns, time.monotonic_ns())

with Monitor.start(period_s=0.1, label=label) as monitor:
    cycle_s = BATCH_S + STEP_S
    number = int((time.monotonic() - start_s) / cycle_s) + 1
    while number * cycle_s < FED_S - cycle_s / 2:
        time.sleep(max(0.0, start_s + number * cycle_s - time.monotonic()))
        make_batch()
        number += 1
        train_step(start_s + number * cycle_s)
    number = 0
    while time.monotonic() < start_s + seconds:
        begin_s = start_s + FED_S + number * BATCH_S
        time.sleep(max(0.0, begin_s - time.monotonic()))
        ahead = threading.Thread(target=make_batch)
        ahead.start()
        time.sleep(max(0.0, begin_s + BATCH_S - STEP_S - time.monotonic()))
        train_step(begin_s + BATCH_S)
        ahead.join()
        number += 1
monitor.save(path)
"""


def main() -> None:
    """Record for a while."""
    out = Path(sys.argv[1]).resolve()
    seconds = sys.argv[2] if len(sys.argv) > 2 else "44"
    folder = Path(tempfile.mkdtemp())
    story = sys.argv[3] if len(sys.argv) > 3 else "day"
    work = Work(folder / "gpus.txt", story=story)
    program = _PROGRAM if story == "day" else _STARVED
    try:
        env = {
            **os.environ,
            **environment(build_library(folder / "lib"), folder / "gpus.txt"),
            "MAXLAB_MONITOR_DIR": str(folder / "monitor"),
        }
        subprocess.run(
            [sys.executable, "-c", program, str(out), LABEL, seconds, str(work.start_s)],
            check=True,
            env=env,
            cwd=HERE.parents[1],
        )
    finally:
        work.close()
        shutil.rmtree(folder)
    print(f"{out}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()

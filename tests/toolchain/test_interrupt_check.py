"""Looking whether the main thread is interrupted never hangs, whatever the garbage holds."""

from __future__ import annotations

import subprocess
import sys

_LOOKING = """
import gc, threading
from maxlab.toolchain import processes

class Held:
    pass

def leave_garbage():
    held = Held()
    held.itself = held
    held.local = threading.local()
    held.local.number = 1

def look():
    batch = processes.Batch()
    for _ in range(20):
        gc.disable()
        leave_garbage()
        # The tuples that the interpreter keeps for reuse are used up: the next one is allocated,
        # which starts a collection.
        kept = None
        kept = [(1, 2, number) for number in range(5000)]
        gc.enable()
        processes._is_interrupted(batch)

seeker = threading.Thread(target=look)
seeker.start()
seeker.join()
print("looked", gc.isenabled())
"""


def test_it_does_not_wait_for_itself_when_garbage_is_collected() -> None:
    # Before Python 3.12, sys._current_exceptions() holds a lock of the interpreter that freeing a
    # threading.local needs as well, and every collection may free one.
    ran = subprocess.run(
        [sys.executable, "-c", _LOOKING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout.split(), ran.stderr) == (["looked", "True"], "")

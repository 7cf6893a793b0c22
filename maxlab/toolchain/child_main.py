"""The process that `toolchain.child.Child` starts: ``python -m maxlab.toolchain.child_main SOCKET
PIPE``, two numbers of open files.

It reads one call a line from the socket, makes it, and sends what came of it; see ``Child.call``.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from maxlab.errors import MaxlabError

LATER_S = 5.0
"""How long behind the time limit of a call the process ends by itself, should nobody stop it."""

STACK_BYTES = 64 << 20
"""The stack that functions get at most; usual limits are 8 MiB."""


def serve(talk: socket.socket) -> None:
    """Make the calls that ``talk`` brings, until it is closed."""
    lines = talk.makefile("rb")
    _send(talk, {"ready": True})
    for line in lines:
        message = json.loads(line)
        module, _, name = message["call"].partition(":")
        signal.setitimer(signal.ITIMER_REAL, message["seconds"] + LATER_S)
        try:
            made = getattr(import_module(module), name)(*message["args"])
            answer = {"made": made}
        except MaxlabError as error:
            answer = {"raised": error.what, "code": error.code, "fix": error.fix}
        except Exception as error:
            what = f"the process beside this one failed: {type(error).__name__}: {error}"
            answer = {"raised": what, "code": "ML778", "fix": "please report it with this message"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(talk, answer)


def _send(talk: socket.socket, message: Any) -> None:
    talk.sendall(json.dumps(message).encode() + b"\n")


def end_with(pipe: int) -> None:
    """Have the system end this process when the other end of ``pipe`` is closed, even while it is
    in a kernel that never ends."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _limit_stack() -> None:
    """End endless recursion early, where the user's own limit would let it take all memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft == resource.RLIM_INFINITY or soft > STACK_BYTES:
        resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, hard))


def main(argv: list[str]) -> None:
    """Serve the socket ``argv[0]`` for as long as the pipe ``argv[1]`` is open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts the caller stops this one too
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _limit_stack()
    end_with(int(argv[1]))
    with socket.socket(fileno=int(argv[0])) as talk:
        serve(talk)


if __name__ == "__main__":
    main(sys.argv[1:])

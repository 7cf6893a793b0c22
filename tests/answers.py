"""Programs that try bad values and say a line for each, run where they may crash."""

from __future__ import annotations

import subprocess
import sys
import textwrap

ATTEMPT = """
def attempt(name, act, *given):
    from maxlab.errors import MaxlabError
    print(name, end=": ", flush=True)
    try:
        act(*given)
        print("taken")
    except MaxlabError as error:
        print("typed" if error.fix else "no fix")
    except BaseException as error:
        print(type(error).__name__, error)
"""
"""What the programs call: prints how ``act`` takes what it is given."""


def assert_typed(program: str, timeout: float = 300) -> None:
    """Fail unless each ``attempt`` of ``program`` raises a typed error with a fix, in a process of
    its own: a wrong answer may read memory that is not there."""
    text = f"{ATTEMPT}\n{textwrap.dedent(program)}\nprint('end')\n"
    run = subprocess.run(
        [sys.executable, "-c", text],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    lines = run.stdout.splitlines()
    assert [line for line in lines[:-1] if not line.endswith(": typed")] == []
    assert lines[-1:] == ["end"], (run.returncode, lines[-1:], run.stderr[-500:])

"""The commands of maxlab, for shells and for continuous integration.

    python -m maxlab diff before.mlprof after.mlprof --fail-if +5% --html report.html
    python -m maxlab show run.mlprof -o page.html
    python -m maxlab show scores.mlgraph -o page.html
    python -m maxlab trace run.mlprof -o trace.json

They end with 0 when all is well, with 1 when ``diff`` finds a limit exceeded, and with 2 when they
could not do what was asked: a file that cannot be read, or arguments that make no sense.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from maxlab import files
from maxlab.analysis.opening import open_file
from maxlab.analysis.runs import SavedRun, diff, load_run
from maxlab.analysis.runs.gate import judge, parse_limit
from maxlab.errors import MaxlabError

FINE, EXCEEDED, FAILED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command in ``arguments``, by default those of the process."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (MaxlabError, OSError) as error:
        print(f"maxlab {options.command}: {error}", file=sys.stderr)
        return FAILED
    return status


def _diff(options: argparse.Namespace) -> int:
    limits = [parse_limit(text) for text in options.fail_if]
    found = diff(*options.runs, confidence=options.confidence)
    print(found.table(options.rows if options.rows >= 0 else None))
    if options.html is not None:
        found.to_html(options.html)
    if options.json is not None:
        text = json.dumps(found.data(), indent=1, sort_keys=True) + "\n"
        files.write_text(options.json, text, "the comparison")
    status = FINE
    for verdict in [judge(found, limit) for limit in limits]:
        lines = [f"slower than {verdict.limit} allows: {said}" for said in verdict.exceeded]
        lines += [f"may be slower than {verdict.limit} allows: {s}" for s in verdict.unclear]
        print("\n".join(["", *lines] if lines else ["", f"within {verdict.limit}"]))
        if verdict.exceeded or (options.unclear_fails and verdict.unclear):
            status = EXCEEDED
    return status


def _show(options: argparse.Namespace) -> int:
    found = open_file(options.file)
    if options.output is not None:
        print(found.to_html(options.output))
    elif isinstance(found, SavedRun):
        print(found.table(options.rows if options.rows >= 0 else None))
    else:
        print(found)
    return FINE


def _trace(options: argparse.Namespace) -> int:
    print(load_run(options.run_file).timeline.to_chrome(options.output))
    return FINE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m maxlab",
        description="Look at saved graphs and runs, compare runs, and export them.",
        epilog="Runs are saved with profile.save('name.mlprof'), graphs with "
        "graph.save('name.mlgraph').",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    one = commands.add_parser(
        "diff",
        help="say what changed between runs",
        description="Say what changed between saved runs: the first against each of the others.",
        epilog=(
            "A folder stands for all runs in it, which must be of the same program. The exit "
            "status is 0 when no limit is exceeded, 1 when one is, and 2 when the runs could not "
            "be compared."
        ),
    )
    one.add_argument(
        "runs", nargs="+", type=Path, metavar="run", help="an .mlprof file or a folder"
    )
    one.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="LIMIT",
        help=(
            "end with 1 when this much slower: +5%% for a whole run, kernels:+5%% for all kernels "
            "together, kernel:+5%% for any kernel; may be given several times. A change counts "
            "only when it is shown, see --confidence"
        ),
    )
    one.add_argument(
        "--unclear-fails",
        action="store_true",
        help="end with 1 also when a limit is reached within the noise",
    )
    one.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="C",
        help="of the intervals, 0.95 by default",
    )
    one.add_argument("--html", type=Path, metavar="FILE", help="write the comparison as one page")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the comparison as JSON")
    _add_rows(one)
    one.set_defaults(run=_diff)

    one = commands.add_parser(
        "show",
        help="look at a graph or a run",
        description="Print a saved graph or run, or write it as a page. Nothing of it is run.",
    )
    one.add_argument("file", type=Path, help="an .mlgraph, .mlir or .mlprof file")
    one.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it as one HTML page")
    _add_rows(one)
    one.set_defaults(run=_show)

    one = commands.add_parser(
        "trace",
        help="write a run for Perfetto",
        description="Write when each kernel ran, in the format of Chrome and Perfetto.",
    )
    one.add_argument("run_file", type=Path, metavar="run", help="an .mlprof file")
    one.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the trace")
    one.set_defaults(run=_trace)
    return parser


def _add_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        type=int,
        default=20,
        metavar="N",
        help="kernels to list, 20 by default; -1 is all",
    )


if __name__ == "__main__":
    # Names of graphs may have characters that a terminal does not.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main())

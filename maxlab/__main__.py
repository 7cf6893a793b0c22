"""The commands of maxlab, for shells and for continuous integration.

    python -m maxlab diff before.mlprof after.mlprof --fail-if +5% --html report.html
    python -m maxlab diff before.mlgraph after.mlgraph --exit-code
    python -m maxlab diff HEAD~1 HEAD -- scores.mlgraph
    python -m maxlab merge base.mlgraph ours.mlgraph theirs.mlgraph -o merged.mlgraph
    python -m maxlab git --install
    python -m maxlab show run.mlprof -o page.html
    python -m maxlab show scores.mlgraph -o page.html
    python -m maxlab trace run.mlprof -o trace.json
    python -m maxlab code scores.mlgraph -o scores.py
    python -m maxlab info scores.mlmodel
    python -m maxlab run scores.mlmodel --input x.npy --trusted
    python -m maxlab serve meta-llama/Llama-3.2-1B

They end with 0 when all is well; with 1 when ``diff`` finds a limit exceeded, or with
``--exit-code`` graphs that differ, and when ``merge`` leaves something to decide; and with 2 when
they could not do what was asked: a file that cannot be read, or arguments that make no sense.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxlab.errors import MaxlabError

# Each command imports what it needs itself: a model is loaded in less time than the others import.
FINE, EXCEEDED, FAILED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command in ``arguments``, by default those of the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What stands behind -- are paths, as Git has it; what stands before may be revisions.
    place = given.index("--") if given[:1] == ["diff"] and "--" in given else len(given)
    parser = _parser()
    options, rest = parser.parse_known_args(given[:place])
    if rest and options.command != "serve":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.paths, options.settings = given[place + 1 :], rest
    try:
        status: int = options.run(options)
    except (MaxlabError, OSError) as error:
        print(f"maxlab {options.command}: {error}", file=sys.stderr)
        return FAILED
    return status


def _diff(options: argparse.Namespace) -> int:
    from maxlab import files
    from maxlab.analysis.graph_commands import are_graphs, diff_graphs
    from maxlab.analysis.runs import diff
    from maxlab.analysis.runs.gate import judge, parse_limit

    if are_graphs(options.given, options.paths):
        return diff_graphs(options, options.paths)
    limits = [parse_limit(text) for text in options.fail_if]
    found = diff(*map(Path, options.given), confidence=options.confidence)
    if options.json != "-":
        print(found.table(options.rows if options.rows >= 0 else None))
    if options.html is not None:
        found.to_html(options.html)
    if options.json is not None:
        text = json.dumps(found.data(), indent=1, sort_keys=True) + "\n"
        if options.json == "-":
            print(text, end="")
        else:
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
    from maxlab.analysis.graph_commands import listing
    from maxlab.analysis.opening import open_file
    from maxlab.analysis.runs import SavedRun

    found = open_file(options.file)
    if options.output is not None:
        print(found.to_html(options.output))
    elif isinstance(found, SavedRun):
        print(found.table(options.rows if options.rows >= 0 else None))
    else:
        print(listing(found) if options.text else found)
        if not (found.inputs or found.function.ops):
            print(f"{options.file} is an empty graph: nothing is built in it yet")
    return FINE


def _trace(options: argparse.Namespace) -> int:
    from maxlab.analysis.runs import load_run

    print(load_run(options.run_file).timeline.to_chrome(options.output))
    return FINE


def _code(options: argparse.Namespace) -> int:
    from maxlab.graph import Graph

    graph = Graph(path=options.file)
    text = graph.to_python(options.output)
    print(text.rstrip("\n") if options.output is None else options.output)
    return FINE


def _merge(options: argparse.Namespace) -> int:
    from maxlab.analysis.graph_commands import merge_files

    return merge_files(options)


def _git(options: argparse.Namespace) -> int:
    from maxlab.analysis.graph_commands import set_up_git

    return set_up_git(options)


def _run(options: argparse.Namespace) -> int:
    from maxlab.engine.kept.command import run

    lines = run(options.file, options.input, options.output, options.trusted, options.threads)
    print("\n".join(lines))
    return FINE


def _info(options: argparse.Namespace) -> int:
    from maxlab.engine.kept.command import info

    print(info(options.file, verify=options.verify))
    return FINE


def _serve(options: argparse.Namespace) -> int:
    from maxlab.serve.command import serve

    return serve(options, options.settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m maxlab",
        description="Look at saved graphs, runs and models, compare runs, run and serve models.",
        epilog="Runs are saved with profile.save('name.mlprof'), graphs with "
        "graph.save('name.mlgraph').",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    _add_diff(commands)
    one = commands.add_parser(
        "show",
        help="look at a graph or a run",
        description="Print a saved graph or run, or write it as a page. Nothing of it is run.",
    )
    one.add_argument("file", type=Path, help="an .mlgraph, .mlir or .mlprof file")
    one.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it as one HTML page")
    one.add_argument(
        "--text",
        action="store_true",
        help="of a graph: also what stands beside it, and constants as hashes, for comparisons",
    )
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

    one = commands.add_parser(
        "code",
        help="write a graph as Python",
        description="Print the Python program that builds a saved graph, or write it to a file, "
        "with long constants in a .safetensors file beside it. Nothing of the graph is run.",
    )
    one.add_argument("file", type=Path, help="an .mlgraph or .mlir file")
    one.add_argument("-o", "--output", type=Path, metavar="FILE", help="the Python file to write")
    one.set_defaults(run=_code)
    _add_graph_commands(commands)
    _add_model_commands(commands)
    _add_serve(commands)
    return parser


def _add_diff(commands: Any) -> None:
    one = commands.add_parser(
        "diff",
        help="say what changed between graphs, or between runs",
        description=(
            "Say what changed between two graphs: files, files of a commit "
            "(HEAD~1:scores.mlgraph), or revisions and then -- and files; one revision, or none, "
            "is compared with the file as it is. Or say what changed between saved runs: the first "
            "against each of the others."
        ),
        epilog=(
            "Of graphs, the exit status is 0; with --exit-code it is 1 when they differ; and 2 "
            "when they could not be compared. Of runs, a folder stands for all runs in it, which "
            "must be of the same program; the exit status is 0 when no limit is exceeded, 1 when "
            "one is, and 2 when the runs could not be compared."
        ),
    )
    one.add_argument(
        "given",
        nargs="*",
        metavar="what",
        help="two graphs, revisions of Git, or .mlprof files and folders",
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
    one.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the comparison as JSON; without a file, print it",
    )
    one.add_argument(
        "--exit-code", action="store_true", help="of graphs: end with 1 when they differ"
    )
    one.add_argument("--open", action="store_true", help="of graphs: show the page in a browser")
    _add_rows(one)
    one.set_defaults(run=_diff)


def _add_model_commands(commands: Any) -> None:
    one = commands.add_parser(
        "info",
        help="say what is in a saved model",
        description="Print what is in a saved model: its digest, inputs, outputs and sizes. "
        "Nothing of it is run.",
    )
    one.add_argument("file", type=Path, help="an .mlmodel file")
    one.add_argument(
        "--verify", action="store_true", help="read all of it, and hold it against its digest"
    )
    one.set_defaults(run=_info)

    one = commands.add_parser(
        "run",
        help="run a saved model",
        description="Run a saved model on arrays of NumPy, and print its outputs or write them.",
    )
    one.add_argument("file", type=Path, help="an .mlmodel file")
    one.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an input as an .npy file, in the order of the model's inputs or by name; given once "
        "for each",
    )
    one.add_argument(
        "--output",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="write an output as an .npy file, in their order; outputs without one are printed",
    )
    one.add_argument(
        "--trusted",
        nargs="?",
        const=True,
        default=False,
        metavar="DIGEST",
        help="take plan and machine code from the file, as it is trusted as a program; with a "
        "digest, if the file has that one. Without it the graph in the file is compiled here",
    )
    one.add_argument("--threads", type=int, metavar="N", help="threads; by default all cores")
    one.set_defaults(run=_run)


def _add_serve(commands: Any) -> None:
    from maxlab.serve.command import add_arguments

    one = commands.add_parser(
        "serve",
        help="serve a model over HTTP",
        description="Serve a model of language, or of embeddings, in the form of OpenAI's HTTP "
        "API, until a signal ends it.",
        epilog="All other flags are settings of the pipeline, such as --max-batch-size 8; "
        "PipelineConfig.help() tells them.",
        allow_abbrev=False,
    )
    add_arguments(one)
    one.set_defaults(run=_serve)


def _add_graph_commands(commands: Any) -> None:
    one = commands.add_parser(
        "merge",
        help="merge two versions of a graph",
        description=(
            "Merge what two sides changed in a document since the one that both come from. As a "
            "merge driver of Git it is called with %%O %%A %%B -o %%A."
        ),
        epilog=(
            "The exit status is 0 when all was merged, 1 when something is left to decide, which "
            "the document that is written says, and 2 when nothing could be merged."
        ),
    )
    one.add_argument("base", help="the version that both come from; an empty file where none is")
    one.add_argument("ours", help="one side: what is in conflict is as it has it")
    one.add_argument("theirs", help="the other side")
    one.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it there; printed by default"
    )
    one.add_argument("--name", default="", help="what to call the document in messages")
    one.set_defaults(run=_merge)

    one = commands.add_parser(
        "git",
        help="let Git show and merge graphs",
        description=(
            "Let Git show what changed in .mlgraph files as changes of graphs, and merge them, in "
            "this repository alone. Without an option it says whether it does."
        ),
    )
    which = one.add_mutually_exclusive_group()
    which.add_argument("--install", action="store_true", help="set it, for this repository")
    which.add_argument("--uninstall", action="store_true", help="take it out again")
    which.add_argument("--show-diff", nargs="+", metavar="FILE", help="called by git diff")
    one.set_defaults(run=_git)


def _add_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        type=int,
        default=20,
        metavar="N",
        help="lines to list, 20 by default; -1 is all",
    )


if __name__ == "__main__":
    # Names of graphs may have characters that a terminal does not.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main())

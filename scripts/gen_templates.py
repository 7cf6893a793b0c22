#!/usr/bin/env python3
"""Writes the documents of the gallery, ``maxlab/lab/templates/*.mlgraph``: templates and lessons.

    scripts/gen_templates.py            write them
    scripts/gen_templates.py --check    say whether they are as they would be written

Each is a graph that runs, with comments on its operations. A lesson begins with the part that is
given, and its goal has numbers that the solution gives; the solution itself stands here alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from maxlab.dtype import DType  # noqa: E402 - found by the line above
from maxlab.graph import (  # noqa: E402
    Comment,
    Editor,
    Graph,
    Lesson,
    TensorType,
    TensorValue,
    ops,
)
from maxlab.graph.document_json import dump  # noqa: E402
from maxlab.graph.reading import graph_of  # noqa: E402
from maxlab.lab.lessons import goal_of  # noqa: E402

TARGET = ROOT / "maxlab" / "lab" / "templates"
F32 = DType.float32

Notes = list[tuple[TensorValue, str]]
"""What is said of the operations that make these values."""


def noise(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Numbers as weights begin: small, and as many digits as a person can read."""
    rounded = np.random.RandomState(seed).standard_normal(shape).round(2)
    return np.asarray(rounded / np.sqrt(shape[0]), np.float32)


def graph_with(name: str, **inputs: list[Any]) -> Graph:
    graph = Graph(name, input_types=[TensorType(F32, shape) for shape in inputs.values()])
    editor = Editor(graph)
    for value, called in zip(graph.inputs, inputs, strict=True):
        editor.rename(value, called)
    return graph


def called(graph: Graph, **names: TensorValue) -> None:
    """Give values names."""
    editor = Editor(graph)
    for name, value in names.items():
        editor.rename(value, name)


def x_of(graph: Graph, number: int = 0) -> TensorValue:
    return graph.inputs[number].tensor


# ---------------------------------------------------------------- templates
def mlp() -> tuple[Graph, Notes]:
    """An MLP with softmax: Two linear layers with a relu between, and probabilities at the end."""
    graph = graph_with("mlp", x=["batch", 8])
    with graph:
        w1, b1 = ops.constant(noise(1, 8, 16), F32), ops.constant(noise(2, 16), F32)
        w2, b2 = ops.constant(noise(3, 16, 4), F32), ops.constant(noise(4, 4), F32)
        mixed = x_of(graph) @ w1
        hidden = ops.relu(mixed + b1)
        scores = hidden @ w2 + b2
        given = ops.softmax(scores)
        graph.output(given)
    called(graph, w1=w1, b1=b1, w2=w2, b2=b2)
    return graph, [
        (mixed, "Each row of x is mixed into 16 new numbers: [batch, 8] @ [8, 16]."),
        (hidden, "Without this bend, two linear layers would be one."),
        (given, "Four scores become four probabilities, which sum to 1."),
    ]


def attention() -> tuple[Graph, Notes]:
    """An attention block: Every word looks at all words, and takes from each what fits."""
    graph = graph_with("attention", x=["words", 16])
    with graph:
        x = x_of(graph)
        wq = ops.constant(noise(1, 16, 16), F32)
        wk = ops.constant(noise(2, 16, 16), F32)
        wv = ops.constant(noise(3, 16, 16), F32)
        query, key, value = x @ wq, x @ wk, x @ wv
        fits = query @ ops.transpose(key, 0, 1)
        scaled = fits / 4
        shares = ops.softmax(scaled)
        given = shares @ value
        graph.output(given)
    called(graph, wq=wq, wk=wk, wv=wv)
    return graph, [
        (value, "Three views of each word: what it looks for, offers, and gives."),
        (fits, "How well each word fits each other: [words, words]."),
        (scaled, "Divided by the root of 16, or softmax would choose one word alone."),
        (shares, "Each row sums to 1: how much a word takes from each other."),
    ]


def convolution() -> tuple[Graph, Notes]:
    """A convolution block: Filters slide over an image, and its size is halved."""
    graph = graph_with("convolution", image=["batch", 16, 16, 3])
    with graph:
        filters = ops.constant(noise(1, 27, 8).reshape(3, 3, 3, 8), F32)
        bias = ops.constant(noise(2, 8), F32)
        found = ops.conv2d(x_of(graph), filters, padding=(1, 1, 1, 1), bias=bias)
        bent = ops.relu(found)
        given = ops.max_pool2d(bent, (2, 2), stride=2)
        graph.output(given)
    called(graph, filters=filters, bias=bias)
    return graph, [
        (found, "Eight filters of 3 x 3 pixels; padding keeps the size at 16 x 16."),
        (given, "Of each 2 x 2 pixels the largest: 16 x 16 becomes 8 x 8."),
    ]


def residual() -> tuple[Graph, Notes]:
    """A residual block: What is learnt is added to what was there."""
    graph = graph_with("residual", x=["batch", 16])
    with graph:
        x = x_of(graph)
        gamma = ops.constant(np.ones(16, np.float32), F32)
        beta = ops.constant(np.zeros(16, np.float32), F32)
        even = ops.layer_norm(x, gamma, beta, 1e-5)
        up, down = ops.constant(noise(1, 16, 32), F32), ops.constant(noise(2, 32, 16), F32)
        wide = ops.gelu(even @ up)
        change = wide @ down
        given = x + change
        graph.output(given)
    called(graph, gamma=gamma, beta=beta, up=up, down=down)
    return graph, [
        (even, "Each row gets mean 0 and variance 1, so that depth does not blow numbers up."),
        (wide, "Wider inside: 32 numbers."),
        (given, "The way around: with a change of 0, the block does nothing."),
    ]


def normalisation() -> tuple[Graph, Notes]:
    """Layer norm from primitives: What layer_norm does, step by step."""
    graph = graph_with("layer_norm_by_hand", x=["batch", 8])
    with graph:
        x = x_of(graph)
        mean = ops.mean(x)
        centred = x - mean
        variance = ops.mean(centred * centred)
        scale = ops.rsqrt(variance + 1e-5)
        given = centred * scale
        graph.output(given)
    called(graph, mean=mean, variance=variance)
    return graph, [
        (mean, "One number a row: [batch, 1], which spreads over the row again."),
        (variance, "The mean of the squared distances from the mean."),
        (scale, "The small number keeps rows of equal numbers from a division by 0."),
    ]


def softmax() -> tuple[Graph, Notes]:
    """Softmax from primitives: Why the largest number is taken away first."""
    graph = graph_with("softmax_by_hand", scores=["batch", 6])
    with graph:
        scores = x_of(graph)
        largest = ops.max(scores)
        safe = scores - largest
        grown = ops.exp(safe)
        total = ops.sum(grown)
        given = grown / total
        graph.output(given)
    called(graph, largest=largest, total=total)
    return graph, [
        (safe, "exp(100) is too large for float32. Less the largest, all are at most 0."),
        (given, "Each row sums to 1."),
    ]


def classifier() -> tuple[Graph, Notes]:
    """A classifier without training: Each point goes to the nearest of three centres."""
    centres = np.array([[0, 0], [4, 0], [0, 4]], np.float32)
    graph = graph_with("nearest", points=["n", 2])
    with graph:
        points = x_of(graph)
        known = ops.constant(centres, F32)
        apart = ops.unsqueeze(points, 1) - known
        squared = ops.sum(apart * apart)
        distances = ops.squeeze(squared, -1)
        given = ops.argmin(distances)
        graph.output(ops.squeeze(given, -1), distances)
    called(graph, centres=known, distances=distances)
    return graph, [
        (apart, "Every point less every centre: [n, 1, 2] and [3, 2] spread to [n, 3, 2]."),
        (squared, "Squared distances order as distances do: no root is needed."),
        (given, "The number of the nearest centre: 0, 1 or 2."),
    ]


def edges() -> tuple[Graph, Notes]:
    """Edges of an image: Two filters that were known long before any were learnt."""
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    filters = np.stack([across, across.T], -1)[:, :, None, :]
    graph = graph_with("edges", image=["batch", "height", "width", 1])
    with graph:
        sobel = ops.constant(np.ascontiguousarray(filters), F32)
        slopes = ops.conv2d(x_of(graph), sobel, padding=(1, 1, 1, 1))
        given = ops.sqrt(ops.sum(slopes * slopes))
        graph.output(given)
    called(graph, sobel=sobel)
    return graph, [
        (slopes, "Two channels: how the image changes to the right, and downwards."),
        (given, "The length of both together: bright where there is an edge."),
    ]


def search() -> tuple[Graph, Notes]:
    """Search by likeness: Which of the stored rows points in the direction of the question."""
    graph = graph_with("search", question=["n", 8])
    with graph:
        question = x_of(graph)
        stored = ops.constant(noise(7, 5, 8), F32)
        both = question @ ops.transpose(stored, 0, 1)
        long = ops.sqrt(ops.sum(question * question))
        tall = ops.sqrt(ops.sum(stored * stored))
        likeness = both / (long * ops.transpose(tall, 0, 1))
        best = ops.argmax(likeness)
        graph.output(ops.squeeze(best, -1), likeness)
    called(graph, stored=stored, likeness=likeness)
    return graph, [
        (tall, "How long each stored row is: a long one would win in any direction."),
        (likeness, "Divided by both lengths: from -1, opposite, to 1, the same direction."),
    ]


# ---------------------------------------------------------------- lessons
Made = tuple[Graph, Graph, Lesson, list[list[np.ndarray[Any, Any]]]]
"""What is given, the solution, the text, and the inputs of the goal's cases."""

GRID = np.linspace(-2, 2, 12).round(2).astype(np.float32).reshape(3, 4)


def first_step() -> Made:
    given, solved = graph_with("first_step", x=["n", 4]), graph_with("s", x=["n", 4])
    with given:
        given.output(x_of(given))
    with solved:
        solved.output(ops.relu(x_of(solved) * 2))
    return (
        given,
        solved,
        Lesson(
            title="Lesson 1: your first operations",
            says="Add two operations to a graph, and let it give what comes out.",
            text="""\
A graph is a program that you can see: **operations** in boxes, and **edges** along which
tensors flow.

This one gives its input as it is. Let it give `relu(2 * x)`: every number doubled, and what is
below 0 made 0.

## How

1. Select the input `x`. Press `A`, type `mul`, and choose it: a form asks for its other operand.
2. With the product selected, press `A` and add `relu`.
3. Select `relu`, and press `O`: the graph gives it from now on.

*Wrong steps cost nothing:* `U` takes the last one back.""",
            hints=(
                "mul needs a second operand: write 2 into its field.",
                "After a step what is new is selected already: A adds what reads it.",
                (
                    "If the goal says that numbers differ, look at what the output reads: O lets "
                    "the graph give what is selected."
                ),
            ),
        ),
        [[GRID]],
    )


def shapes() -> Made:
    given, solved = graph_with("shapes", x=["n", 4]), graph_with("s", x=["n", 4])
    w = noise(5, 4, 3)
    with given:
        v = ops.constant(w.T, F32)
        given.output(ops.relu(x_of(given)))
    called(given, w=v)
    with solved:
        solved.output(ops.relu(x_of(solved)) @ ops.constant(w, F32))
    return (
        given,
        solved,
        Lesson(
            title="Lesson 2: shapes that fit",
            says="Multiply by a matrix that stands the wrong way round.",
            text="""\
A product of matrices `[n, 4] @ [4, 3]` gives `[n, 3]`: the *inner* sizes have to be the same,
and vanish.

The weight `w` in this graph is `[3, 4]`. Let the graph give `relu(x)` times `w`, turned so that
it fits: `float32[n, 3]`.

- Try the product first with `w` as it is. The step is refused, and says which sizes differ.
- `transpose` swaps two axes. Which?""",
            hints=(
                "Select w, press A, and add transpose with the axes 0 and 1.",
                (
                    "Select relu, press A, add matmul, and write the name or the id of the "
                    "transposed weight as its other operand."
                ),
            ),
        ),
        [[GRID]],
    )


def probabilities() -> Made:
    given, solved = graph_with("probabilities", x=["n", 4]), graph_with("s", x=["n", 4])
    with given:
        grown = ops.exp(x_of(given))
        given.output(grown)
    with solved:
        solved.output(ops.softmax(x_of(solved)))
    return (
        given,
        solved,
        Lesson(
            title="Lesson 3: probabilities from scores",
            says="Build softmax from exp, sum and a division, so that it survives large numbers.",
            text="""\
Scores become probabilities in two steps: make all of them positive with `exp`, then divide each
row by its sum.

The first step is there. The goal has two cases: small scores, and scores near **100**, where
`exp` is larger than any `float32`.

Less the largest of its row, no score is above 0, and the probabilities are the same. Why?
`exp(a - c) = exp(a) / exp(c)`, and `exp(c)` falls out of the division.""",
            hints=(
                "sum gives one number a row, [n, 1]: div spreads it over the row.",
                (
                    "The first case is met and the second is not: put sub on the edge from x to "
                    "exp. Click the edge, press A, and choose sub; its other operand is max of x."
                ),
                "max reads x, and has to be there before sub can name it: select x, add max.",
            ),
        ),
        [[GRID], [GRID + np.float32(100)]],
    )


def shortcut() -> Made:
    w = noise(9, 4, 4)
    given, solved = graph_with("shortcut", x=["n", 4]), graph_with("s", x=["n", 4])
    with given:
        mixed = x_of(given) @ ops.constant(w, F32)
        given.output(ops.relu(mixed))
    with solved:
        x = x_of(solved)
        solved.output(x + ops.tanh(x @ ops.constant(w, F32)))
    return (
        given,
        solved,
        Lesson(
            title="Lesson 4: a shortcut around a layer",
            says="Exchange an operation, and lead the input around the layer.",
            text="""\
Deep networks became trainable when layers got a way around them: the layer learns what to
*change*, and its input is added.

Make two changes to this layer:

- let it bend with `tanh` instead of `relu`;
- let the graph give `x + tanh(x @ w)`.

`Shift+R` puts another operation in the place of the selected one. What reads the old one reads
the new one.""",
            hints=(
                "Select relu, press Shift+R, and choose tanh.",
                "Select x and, with Shift held, tanh. Press A: add reads both.",
            ),
        ),
        [[GRID]],
    )


TEMPLATES: dict[str, Callable[[], tuple[Graph, Notes]]] = {
    "mlp": mlp,
    "attention": attention,
    "convolution": convolution,
    "residual": residual,
    "layer-norm": normalisation,
    "softmax": softmax,
    "nearest": classifier,
    "edges": edges,
    "search": search,
}
LESSONS: dict[str, Callable[[], Made]] = {
    "lesson-1-first-step": first_step,
    "lesson-2-shapes": shapes,
    "lesson-3-softmax": probabilities,
    "lesson-4-shortcut": shortcut,
}


def text_of(graph: Graph) -> str:
    """The document of ``graph`` without the lines of this script."""
    data = json.loads(graph.document.text())
    del data["graph"]["sources"]
    return graph_of(dump(data), "").document.text()


def template(make: Callable[[], tuple[Graph, Notes]]) -> str:
    """The text of a template; the docstring is its title and what it says."""
    graph, notes = make()
    editor = Editor(graph)
    title, _, says = (make.__doc__ or "").strip().partition(": ")
    graph.document.lesson = Lesson(title=title, says=says)
    for number, (value, text) in enumerate(notes):
        op = editor.in_function(value).op
        assert op is not None
        graph.document.comments.append(Comment(id=f"c{number}", text=text, on=op.id))
    return text_of(graph)


def lesson(make: Callable[[], Made]) -> str:
    """The text of a lesson."""
    graph, solution, told, cases = make()
    graph.document.lesson = told
    goal = goal_of(solution, *cases, tolerance=1e-3)
    # Rounded, so that they are the same whatever machine has made them.
    rounded = tuple(
        replace(case, outputs=tuple(x.astype(float).round(4).astype(x.dtype) for x in case.outputs))
        for case in goal.cases
    )
    graph.document.goal = replace(goal, cases=rounded)
    return text_of(graph)


def texts() -> dict[str, str]:
    """The text of each document, by the name of its file."""
    made = {name: template(make) for name, make in TEMPLATES.items()}
    made |= {name: lesson(make) for name, make in LESSONS.items()}
    return {f"{name}.mlgraph": text for name, text in made.items()}


def main() -> int:
    """Writes the files, or checks them."""
    made = texts()
    if "--check" in sys.argv[1:]:
        old = {file.name: file.read_text("utf-8") for file in TARGET.glob("*.mlgraph")}
        wrong = sorted(name for name in made.keys() | old.keys() if made.get(name) != old.get(name))
        print(*(f"{name} is not as it would be written" for name in wrong), sep="\n")
        return 1 if wrong else 0
    for name, text in made.items():
        (TARGET / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

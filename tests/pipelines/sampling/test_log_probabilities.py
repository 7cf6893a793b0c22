"""Log probabilities against torch: of sampled tokens, of prompts, and of prompts in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.dtype import DType
from maxlab.graph import DeviceRef
from maxlab.interfaces import LogProbabilities
from maxlab.pipelines.lib.log_probabilities import (
    compute_log_probabilities_ragged,
    log_probabilities_ragged_graph,
)
from tests.cpu_and_gpu import Array, at, session

CPU, SIZE = DeviceRef.CPU(), 23


class Teller:
    """A model of log probabilities, and ragged batches for it."""

    def __init__(self, place: DeviceRef, levels: int = 3) -> None:
        self.place = place
        self.device = driver.CPU() if place.is_cpu() else driver.Accelerator()
        self.model = session(place).load(log_probabilities_ragged_graph(place, levels=levels))

    def tell(
        self, lengths: list[int], top_n: list[int], echo: list[bool], seed: int = 1, **more: Any
    ) -> tuple[list[LogProbabilities | None], dict[str, Array]]:
        rng = np.random.default_rng(seed)
        ends = np.cumsum([0, *lengths])
        given: dict[str, Any] = {
            "logits": (rng.standard_normal((ends[-1], SIZE)) * 4).astype(np.float32),
            "tokens": rng.integers(0, SIZE, ends[-1]),
            "sampled_tokens": rng.integers(0, SIZE, len(lengths)),
            "input_row_offsets": ends,
        }
        given["next_token_logits"] = given["logits"][ends[1:] - 1]
        given |= more
        arrays = dict(given)
        for name in ("logits", "next_token_logits"):
            if given[name] is not None:
                given[name] = at(given[name], self.place)
        made = compute_log_probabilities_ragged(
            self.device, self.model, batch_top_n=top_n, batch_echo=echo, **given
        )
        return made, arrays


@pytest.fixture(scope="module")
def teller() -> Teller:
    return Teller(CPU)


def entry(logits: Array, token: int, top_n: int) -> tuple[float, dict[int, float]]:
    """What torch says of one place."""
    torch = pytest.importorskip("torch")
    found = torch.log_softmax(torch.tensor(logits.astype(np.float64)), -1)
    values, tokens = found.topk(top_n)
    tops = dict(zip(tokens.tolist(), values.tolist(), strict=True))
    return float(found[token]), tops | {token: float(found[token])}


def agree(found: LogProbabilities | None, wanted: list[tuple[float, dict[int, float]]]) -> None:
    assert found is not None
    values = [value for value, _ in wanted]
    np.testing.assert_allclose(found.token_log_probabilities, values, rtol=1e-6)
    assert len(found.top_log_probabilities) == len(wanted)
    for told, (_, tops) in zip(found.top_log_probabilities, wanted, strict=True):
        assert list(told) == list(tops)
        np.testing.assert_allclose(list(told.values()), list(tops.values()), rtol=1e-6)


def test_they_are_those_of_torch(place: DeviceRef) -> None:
    lengths, top_n, echo = [3, 1, 2, 4], [5, 2, 0, 7], [True, False, True, True]
    made, given = Teller(place).tell(lengths, top_n, echo)
    assert made[2] is None
    ends, logits, tokens = (given[k] for k in ("input_row_offsets", "logits", "tokens"))
    for n in (0, 1, 3):
        wanted = [
            entry(logits[row], int(tokens[row + 1]), top_n[n])
            for row in range(ends[n], ends[n + 1] - 1)
            if echo[n]
        ]
        last = entry(given["next_token_logits"][n], int(given["sampled_tokens"][n]), top_n[n])
        agree(made[n], [*wanted, last])
        assert len(wanted) == (lengths[n] - 1 if echo[n] else 0)


def test_a_sampled_token_among_the_top_has_no_entry_of_its_own(teller: Teller) -> None:
    logits = np.zeros((2, SIZE), np.float32)
    logits[:, [4, 9, 2]] = [3.0, 2.0, 1.0]
    made, _ = teller.tell(
        [1, 1], [2, 2], [False] * 2, next_token_logits=logits, sampled_tokens=np.array([9, 2])
    )
    assert [list(one.top_log_probabilities[0]) for one in made if one] == [[4, 9], [4, 9, 2]]


def test_a_prompt_in_parts_is_told_as_a_whole(teller: Teller) -> None:
    """A part of a prompt is followed by a token that is known, in the place of a sampled one."""
    (whole,), given = teller.tell([6], [3], [True])
    assert whole is not None
    parts: list[LogProbabilities] = []
    for first, past in ((0, 2), (2, 3), (3, 6)):
        follows = [*given["tokens"], given["sampled_tokens"][0]][past]
        (part,), _ = teller.tell(
            [past - first],
            [3],
            [True],
            logits=given["logits"][first:past],
            tokens=given["tokens"][first:past],
            sampled_tokens=np.array([follows]),
            next_token_logits=given["logits"][past - 1 : past],
        )
        assert part is not None
        parts.append(part)
    joined = [value for part in parts for value in part.token_log_probabilities]
    assert joined == whole.token_log_probabilities
    tops = [each for part in parts for each in part.top_log_probabilities]
    assert tops == whole.top_log_probabilities


def test_without_echo_no_logits_of_the_prompt_are_needed(teller: Teller) -> None:
    made, given = teller.tell([2, 3], [1, 1], [False, False], logits=None,
                              next_token_logits=np.eye(2, SIZE, dtype=np.float32))  # fmt: skip
    for n in range(2):
        token = int(given["sampled_tokens"][n])
        agree(made[n], [entry(given["next_token_logits"][n], token, 1)])
    made, _ = teller.tell([2], [0], [True], logits=None,
                          next_token_logits=np.zeros((1, SIZE), np.float32))  # fmt: skip
    assert made == [None]


def test_a_small_vocabulary_and_halves() -> None:
    made, given = Teller(CPU, levels=4).tell(
        [1],
        [4],
        [False],
        next_token_logits=np.array([[1, 5, 3, 2]], DType.bfloat16.ml_numpy),
        sampled_tokens=np.array([0]),
    )
    wide = given["next_token_logits"].astype(np.float32)
    agree(made[0], [entry(wide[0], 0, 4)])


@pytest.mark.parametrize(
    "given",
    [
        {"top_n": [8]},  # three levels are up to seven
        {"top_n": [-1]},
        {"top_n": [1, 1]},
        {"echo": [False, False]},
        {"logits": None, "next_token_logits": np.zeros((1, SIZE), np.float32)},
        {"logits": np.zeros((1, SIZE), np.float32)},
        {"next_token_logits": np.zeros((2, SIZE), np.float32)},
        {"sampled_tokens": np.array([SIZE])},
        {"tokens": np.array([1, -1])},
        {"tokens": np.array([1, 2, 3])},
        {"tokens": np.array([1.0, 2.0])},
        {"input_row_offsets": np.array([1, 2])},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_does_not_fit_is_refused(teller: Teller, given: dict[str, Any]) -> None:
    more = {name: value for name, value in given.items() if name not in ("top_n", "echo")}
    with pytest.raises((ValueError, TypeError)) as error:
        teller.tell([2], given.get("top_n", [3]), given.get("echo", [True]), **more)
    assert getattr(error.value, "code", "") in ("ML980", "ML981")


@pytest.mark.parametrize("levels", [-1, 17, 2.5])
def test_levels_that_cannot_be(levels: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        log_probabilities_ragged_graph(CPU, levels=levels)

"""The board of a scheduler: what it shows of a run, live and replayed, and how it pauses one."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("tokenizers", reason="tokenizers not installed")
pytest.importorskip("transformers", reason="transformers not installed")
pytest.importorskip("ipywidgets", reason="ipywidgets not installed")

from maxlab import trace
from maxlab.errors import DocumentError, InputTypeError
from maxlab.lab.board import ScheduleRun, scheduler_board
from maxlab.lab.board.drawn import drawn
from maxlab.lab.protocol import PROTOCOL
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import Limits, StepRecord, TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, Pipe, context, made


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    yield made(mine, tmp_path_factory.mktemp("decoder"), enable_prefix_caching=True)
    use_registry(before)


def scheduler_of(pipeline: Pipe) -> TextGenerationScheduler:
    limits = dataclasses.replace(Limits.of(pipeline.pipeline_config), prompt_tokens=64, steps=1)
    return TextGenerationScheduler(pipeline, limits)


@pytest.fixture(scope="module")
def run(pipeline: Pipe) -> ScheduleRun:
    """A run with two requests of one long prompt, which share pages, and others."""
    scheduler = scheduler_of(pipeline)
    run = ScheduleRun(scheduler.name)
    for text in (TEXTS[0], *TEXTS):
        scheduler.submit(context(pipeline, text, max_new_tokens=6))
    while scheduler.has_work:
        step = scheduler.step()
        run.add(trace.Event("schedule", "", 0, 0, step.record.data()))
    return run


def test_ages_and_shared_pages(run: ScheduleRun) -> None:
    assert max(step.shared_pages for step in run.steps) >= 1
    for step in run.steps:
        assert step.shared_pages <= step.pages - step.free_pages
    ages: dict[str, list[float]] = {}
    for step in run.steps:
        for own in step.requests:
            ages.setdefault(own.request, []).append(own.age_s)
    assert len(ages) == len(TEXTS) + 1
    for found in ages.values():
        assert found == sorted(found)
        assert found[0] > 0


def test_a_run_comes_back_from_a_file(run: ScheduleRun, tmp_path: Path) -> None:
    path = run.save(tmp_path / "run.jsonl")
    assert ScheduleRun.load(path).steps == run.steps
    assert scheduler_board(path).page == scheduler_board(run).page


def test_files_of_other_things(run: ScheduleRun, tmp_path: Path) -> None:
    path = run.save(tmp_path / "run.jsonl")
    first, second, *_ = path.read_text().splitlines()
    wrong = {**json.loads(second), "pages": "many"}
    for text in (
        "",
        "{}",
        f"{first}\n7",
        f"{first}\n{json.dumps(wrong)}",
        f"{first}\n" + "[" * 9000,
    ):
        path.write_text(text)
        with pytest.raises(DocumentError, match="ML477"):
            ScheduleRun.load(path)
    with pytest.raises(OSError, match="ML00"):
        ScheduleRun.load(tmp_path / "none")


def test_what_the_board_draws(run: ScheduleRun) -> None:
    view = scheduler_board(run)
    for position in (1, len(run.steps) // 2, len(run.steps)):
        view.position = position
        shown = view.page
        last = run.steps[position - 1]
        assert f"Step {last.number}: " in shown
        used = last.pages - last.free_pages
        assert f"{used} used, {last.shared_pages} shared, {last.free_pages} free" in shown
        assert f"waiting <b>{len(last.waiting)}</b>" in shown
        # Each part of a request in a batch is a box, told by its title.
        boxes = re.findall(r"<rect[^>]*><title>step \d+, [^:]*: \d+ tokens in", shown)
        assert len(boxes) == sum(len(step.requests) for step in run.steps[:position])
    assert "time to first token" in shown
    assert repr(view) == "BoardView(replay)"
    assert "No steps yet" in drawn([])
    evil = dataclasses.replace(run.steps[0], waiting=("<script>",))
    assert "<script>" not in drawn([evil])


def test_it_follows_only_its_scheduler(pipeline: Pipe) -> None:
    scheduler, other = scheduler_of(pipeline), scheduler_of(pipeline)
    view, every = scheduler_board(scheduler), scheduler_board()
    before = len(every.run)
    scheduler.answer([context(pipeline, "a", max_new_tokens=3)])
    other.answer([context(pipeline, "a", max_new_tokens=4)])
    view.refresh()
    every.refresh()
    assert view.position == len(view.run) == 3
    assert {step.scheduler for step in view.run.steps} == {scheduler.name}
    assert len(every.run) == min(before + 7, 5000)
    assert [step.number for step in scheduler_board(scheduler).run.steps] == [1, 2, 3]
    view.position = 1
    scheduler.answer([context(pipeline, "a", max_new_tokens=3)])
    view.refresh()
    assert view.position == 1, "it stays where it was moved to"
    before = len(every.run)
    every.close()
    other.answer([context(pipeline, "a", max_new_tokens=3)])
    assert len(every.run) == before, "a board that is closed follows nothing"


def test_pause_and_step(pipeline: Pipe) -> None:
    scheduler = scheduler_of(pipeline)
    view = scheduler_board(scheduler)

    def press(action: str) -> None:
        view._received(None, {"type": "control", "protocol": PROTOCOL, "action": action}, [])

    press("pause")
    assert (scheduler.is_paused, view.is_paused, view.can_control) == (True, True, True)
    assert "paused" in view.page
    scheduler.submit(context(pipeline, "a", max_new_tokens=3))
    for count in (1, 2, 3, 3):
        press("step")
        assert len(view.run) == count
    press("resume")
    assert (scheduler.is_paused, view.is_paused) == (False, False)
    assert view.problem == ""
    press("dance")
    assert "dance" in view.problem
    press("pause")
    assert view.problem == ""
    press("resume")
    replayed = scheduler_board(view.run)
    replayed._received(None, {"type": "control", "protocol": PROTOCOL, "action": "pause"}, [])
    assert "nobody can pause" in replayed.problem
    with pytest.raises(InputTypeError, match="ML478"):
        scheduler_board(view.run).pause()
    with pytest.raises(InputTypeError, match="ML478"):
        scheduler_board(7)


def test_records_of_before_are_read() -> None:
    old = {"number": 1, "batch_type": "", "num_steps": 0, "requests": ()}
    assert StepRecord.of(old).scheduler == ""


def test_a_run_that_is_longer_than_what_is_kept(
    run: ScheduleRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that is shown stays, and the batch is drawn, however many wait."""
    monkeypatch.setattr("maxlab.lab.board.run.MOST_KEPT", 20)
    waiting = tuple(f"waits {n}" for n in range(1000))
    long = ScheduleRun()
    view = scheduler_board(long)

    def add(numbers: range) -> None:
        for number in numbers:
            one = run.steps[number % len(run.steps)]
            step = dataclasses.replace(
                one, number=number, waiting=waiting, cancelled=("gone",), failed=("broken",)
            )
            long.add(trace.Event("schedule", "", 0, 0, step.data()))
        view.refresh()

    add(range(1, 19))
    view.position = 15
    add(range(19, 31))
    assert (len(long), long.dropped, view.count, view.position) == (20, 10, 20, 5)
    assert "Step 15: " in view.page
    view.position = view.count
    assert "Step 30: " in view.page
    assert "cancelled <b>30</b>" in view.page, "of those that are not kept, too"
    last = next(step for step in reversed(long.steps) if step.requests)
    for own in last.requests:
        assert f"{own.request[:18]}" in view.page
    assert "other requests had a part" in view.page
    view.position = 99
    assert view.position == 20

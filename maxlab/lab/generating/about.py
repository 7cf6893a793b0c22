"""The text about a chosen token, above the graph of its step, as HTML."""

from __future__ import annotations

from maxlab.engine.times import plural, time_text
from maxlab.errors import MaxlabError
from maxlab.lab.generating.again import TimedStep
from maxlab.lab.generating.drawn import Answer
from maxlab.lab.generating.tokens import GeneratedToken
from maxlab.markup import escape, visible
from maxlab.pipelines.lib.scheduler import RequestStep

MOST_NEIGHBOURS = 6
"""Other requests of a batch that are told one by one."""


def about(answer: Answer, place: int, run: TimedStep | None, problem: str = "") -> str:
    """A token's step: its number and cost, the requests beside it, and the graph that follows.

    Args:
        answer: The answer.
        place: The place of the token.
        run: The run that gave it; None where there is none.
        problem: Why there is none, or what is awaited.
    """
    token = answer.tokens[place]
    head = f"Token {place + 1:,} of {len(answer.tokens):,}: <code>{escape(repr(token.text))}</code>"
    numbers = "".join(
        f"<span>{escape(name)} <b>{escape(said)}</b></span>" for name, said in _numbers(token, run)
    )
    lines = [_neighbours(token), _measured(token, run)] if run is not None else [_neighbours(token)]
    told = "".join(f'<p class="mx-rq-faint">{escape(line)}</p>' for line in lines if line)
    said = f'<p class="mx-rq-problem">{escape(visible(problem))}</p>' if problem else ""
    return f'<h4>{head}</h4><div class="mx-rq-numbers">{numbers}</div>{told}{said}'


def words_of(error: MaxlabError) -> str:
    """An error as a sentence about the graph that cannot be drawn, and what helps."""
    fix = f" To see it: {error.fix}." if error.fix else ""
    return f"No graph of this step: {error.what}.{fix}"


def _time(seconds: float) -> str:
    return time_text(round(seconds * 1e9))


def _numbers(token: GeneratedToken, run: TimedStep | None) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    if token.probability is not None:
        told.append(("probability", f"{token.probability:.1%}"))
    step, own = token.step, token.own
    if step is not None and own is not None:
        told.append(("step", f"{step.number} of {step.scheduler}" if step.scheduler else ""))
        told.append((token.phase, f"{plural(own.computed, 'token')} in, {own.generated} out"))
        told.append(("the step took", _time(step.seconds)))
        told.append(("batch", plural(len(step.requests), "request")))
    if run is not None:
        profile = run.profile
        told.append((f"graph {profile.name}", f"{_time(profile.timed_ns / 1e9)}"))
        hottest = profile.hottest
        if hottest is not None:
            told.append(("most in", f"{hottest.id} {hottest.name} ({hottest.share:.0%})"))
    return told


def _neighbours(token: GeneratedToken) -> str:
    if token.step is None or token.own is None:
        return "The scheduler told nothing of its step."
    others = [one for one in token.step.requests if one is not token.own]
    if not others:
        return "No other request was in its batch."
    told = [_part(one) for one in others[:MOST_NEIGHBOURS]]
    if len(others) > MOST_NEIGHBOURS:
        told.append(f"and {len(others) - MOST_NEIGHBOURS:,} more")
    return f"Beside it in the batch: {'; '.join(told)}."


def _part(own: RequestStep) -> str:
    name = own.request if len(own.request) <= 14 else f"{own.request[:13]}…"
    what = "prompt" if own.prompt else "next token"
    return f"{name} ({what}, {plural(own.computed, 'token')} in)"


def _measured(token: GeneratedToken, run: TimedStep) -> str:
    if not run.is_again:
        runs = run.profile.runs
        several = f"; medians of the {runs} runs of the model in this step" if runs > 1 else ""
        return f"The times below were measured while the answer was written{several}."
    told = "This step was not timed when it was taken, so it was run again now with the same tokens"
    told += ", alone in the batch." if _had_others(token) else "."
    if run.found > 0:
        told += f" {plural(run.found, 'token')} of its prompt were in the cache this time."
    return f"{told} With --profile steps are timed as they are taken."


def _had_others(token: GeneratedToken) -> bool:
    return token.step is not None and len(token.step.requests) > 1


__all__ = ["MOST_NEIGHBOURS", "about", "words_of"]

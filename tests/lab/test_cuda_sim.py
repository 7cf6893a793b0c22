"""``cuda_sim.run``: planted mistakes, what warps did, what memory costs, and the HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.errors import NotebookError
from maxlab.lab.cuda_sim import SimRun, run
from maxlab.lab.cuda_sim.threads_view import MOST_CELLS
from maxlab.lab.cuda_sim.view import refused
from tests.sim.test_bugs import CASES, line

BUGS = (Path(__file__).parents[1] / "sim" / "bugs.cu").read_text("utf-8")
VOID = {"br", "input"}


class Checked(HTMLParser):
    """Reads HTML as a browser would, and remembers its tags, rows and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def html(of: SimRun) -> str:
    return of._repr_mimebundle_()["text/html"]


def marked(page: str, kind: str) -> set[int]:
    """The lines whose rows have the class ``kind``."""
    return {
        int(n)
        for n in re.findall(rf'<tr class="{kind}" style="[^"]*"><th scope="row">(\d+)<', page)
    }


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize("kernel", CASES)
def test_planted_mistakes_are_on_their_lines(kernel: str) -> None:
    kind, _, grid, block, arguments, shared = CASES[kernel]
    result = run(BUGS, grid, block, arguments(), shared, kernel=kernel)
    assert kind in {report.kind for report in result.reports}
    wanted = {n for n in (line(kernel, "@1"), line(kernel, "@2")) if n is not None}
    page = html(result)
    Checked(page)
    assert marked(page, "mx-cs-at") | marked(page, "mx-cs-also") == wanted
    assert wanted <= {int(n) for n in re.findall(r'<th scope="row">(\d+)</th>', page)}
    for report in result.reports:
        assert report.fix in page.replace("&#x27;", "'")


def test_the_block_with_the_mistake_is_shown() -> None:
    x = np.ones(100, np.float32)
    result = run(BUGS, 2, 64, [x, x.copy(), 100], kernel="global_beyond")
    assert result.shown == (1, 0, 0)
    culprit = result.threads[36]
    assert (culprit.thread, culprit.status) == ((36, 0, 0), "out-of-bounds")
    assert culprit.line == line("global_beyond", "@1")
    assert {t.status for t in result.threads[:36]} == {"ended"}
    assert {t.status for t in result.threads[37:]} == {"not started"}


def test_a_block_can_be_chosen() -> None:
    x = np.ones(100, np.float32)
    result = run(BUGS, 2, 64, [x, x.copy(), 100], kernel="global_beyond", view_block=(0,))
    assert result.shown == (0, 0, 0)
    assert {t.status for t in result.threads} == {"ended"}
    assert not result.ok


def test_where_threads_wait() -> None:
    result = run(BUGS, 1, 32, [np.zeros(32, np.int32)], kernel="divergent_deadlock")
    waits = [(t.status, t.line) for t in result.threads]
    assert waits[:16] == [("barrier", line("divergent_deadlock", "@1"))] * 16
    assert waits[16:] == [("warp", line("divergent_deadlock", "@2"))] * 16


# ------------------------------------------------------------------ warps


def lanes(result: SimRun, number: int) -> tuple[int, int]:
    """(times that warps ran line ``number``, lanes that took part in all)."""
    count = result.lines[number]
    return count.issues, count.active


BRANCHES = """extern "C" __global__ void branches(float *y, const float *x, int n) {
  const int t = threadIdx.x;
  if (t < 8)
    y[t] = x[t];
  else if (t < 24)
    y[t] = x[t] + 1;
  y[t] += 1;
}"""


def test_lanes_that_go_different_ways_meet_again() -> None:
    result = run(BRANCHES, 1, 32, [np.zeros(32, np.float32), np.zeros(32, np.float32), 0])
    assert lanes(result, 4) == (1, 8)
    assert lanes(result, 6) == (1, 16)
    assert lanes(result, 7) == (1, 32)  # together, not once for each way
    assert result.lines[4].masks == {0: 0x000000FF}
    assert result.lines[6].masks == {0: 0x00FFFF00}
    assert not result.lines[7].diverged


NESTED = """extern "C" __global__ void nested(float *y, const float *x) {
  const int t = threadIdx.x;
  float s = 0;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < t % 4 + i; j++)
      s += x[j];
    y[32 * i + t] = s;
  }
}"""


def test_inner_loops_of_different_lengths() -> None:
    """After each inner loop the lanes are together again: for round i the warp makes 3 + i rounds
    of the inner loop, and one store of all 32 lanes."""
    x, y = np.ones(8, np.float32), np.zeros(96, np.float32)
    result = run(NESTED, 1, 32, [y, x])
    reads = next(a for a in result.accesses if a.buffer == "x")
    writes = next(a for a in result.accesses if a.buffer == "y")
    assert reads.requests == sum(3 + i for i in range(3))
    assert (writes.requests, writes.cost) == (3, 12)
    sizes = 8 * sum(t + i for t in range(4) for i in range(3))
    assert lanes(result, 6)[1] == sizes


EARLY = """extern "C" __global__ void early(float *y, const float *x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    if (x[i] < 0)
      continue;
    y[i] = x[i];
  }
  if (threadIdx.x % 2)
    return;
  y[threadIdx.x] = 7;
}"""


def test_continue_and_return() -> None:
    x = np.where(np.arange(100) % 3 == 0, -1, 1).astype(np.float32)
    y = np.zeros(100, np.float32)
    result = run(EARLY, 1, 32, [y, x, 100])
    first = next(a for a in result.accesses if (a.line, a.buffer) == (3, "x"))
    assert (first.requests, first.cost) == (4, 13)  # 3 whole rounds, and one of 4 lanes
    stores = next(a for a in result.accesses if a.line == 5 and a.kind == "write")
    assert stores.requests == 4
    assert lanes(result, 9) == (1, 16)


def test_warps_are_apart() -> None:
    result = run(BRANCHES, 1, 40, [np.zeros(40, np.float32), np.zeros(40, np.float32), 0])
    assert lanes(result, 7) == (2, 40)
    assert not result.lines[7].diverged
    assert result.lines[4].masks == {0: 0xFF}
    assert [t.lane for t in result.threads[32:]] == list(range(8))


# ------------------------------------------------------------------ memory

STRIDE = """extern "C" __global__ void stride(float *y, const float *x, int by) {
  y[threadIdx.x] = x[threadIdx.x * by];
}"""


@pytest.mark.parametrize(("by", "sectors"), [(0, 1), (1, 4), (2, 8), (3, 12), (8, 32), (9, 32)])
def test_sectors_of_a_stride(by: int, sectors: int) -> None:
    x, y = np.ones(300, np.float32), np.zeros(32, np.float32)
    result = run(STRIDE, 1, 32, [y, x, by])
    read = next(a for a in result.accesses if a.buffer == "x")
    assert (read.sectors_per_request, read.requests) == (sectors, 1)
    assert read.ideal == (1 if by == 0 else 4)
    # Counted another way: from NumPy's addresses.
    assert sectors == len({int(t) * by * 4 // 32 for t in np.arange(32)})


@pytest.mark.parametrize("offset", [0, 1, 7, 8])
def test_sectors_of_a_view(offset: int) -> None:
    """A view keeps its distance from the beginning of its allocation."""
    x, y = np.ones(300, np.float32), np.zeros(32, np.float32)
    result = run(STRIDE, 1, 32, [y, x[offset:], 1])
    read = next(a for a in result.accesses if a.buffer == "x")
    assert read.cost == (4 if offset % 8 == 0 else 5)


BANKS = """extern "C" __global__ void banks(float *y, int by) {
  __shared__ float s[1056];
  for (int i = threadIdx.x; i < 1056; i += 32)
    s[i] = i;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x * by];
}"""


@pytest.mark.parametrize("by", [0, 1, 2, 3, 4, 8, 16, 31, 32, 33])
def test_bank_conflicts_of_a_stride(by: int) -> None:
    result = run(BANKS, 1, 32, [np.zeros(32, np.float32), by])
    read = next(a for a in result.accesses if (a.buffer, a.kind) == ("s", "read"))
    ways = 1 if by == 0 else int(np.gcd(by, 32))  # the same word is given to all at once
    assert (read.ways, read.cost, read.ideal) == (ways, ways, 1)
    assert read.sectors_per_request is None
    assert html(result).count(f"{ways}-way bank conflict</span>") == (0 if ways == 1 else 1)


VECTORS = """extern "C" __global__ void vectors(float4 *y, const float *x) {
  __shared__ float4 s[32];
  const int t = threadIdx.x;
  s[t] = reinterpret_cast<const float4 *>(x)[t];
  __syncthreads();
  y[t] = s[t];
}"""


def test_vectors_are_one_request() -> None:
    """512 bytes are 16 sectors, and four quarters of a warp are served without conflicts."""
    x = np.arange(128, dtype=np.float32)
    y = np.zeros_like(x)
    result = run(VECTORS, 1, 32, [y, x])
    assert (y == x).all()
    found = {(a.buffer, a.kind): (a.size, a.requests, a.cost, a.ways) for a in result.accesses}
    assert found == {
        ("x", "read"): (16, 1, 16, 0),
        ("s", "write"): (16, 1, 4, 1),
        ("s", "read"): (16, 1, 4, 1),
        ("y", "write"): (16, 1, 16, 0),
    }


def test_scalars_of_one_line_stay_apart() -> None:
    text = """extern "C" __global__ void pairs(float *y, const float *x) {
  y[threadIdx.x] = x[2 * threadIdx.x] + x[2 * threadIdx.x + 1];
}"""
    result = run(text, 1, 32, [np.zeros(32, np.float32), np.zeros(64, np.float32)])
    read = next(a for a in result.accesses if a.buffer == "x")
    assert (read.size, read.requests, read.cost) == (4, 2, 16)


def test_a_long_record_says_that_it_is_cut() -> None:
    text = """extern "C" __global__ void many(float *x, int n) {
  for (int i = 0; i < n; i++) x[threadIdx.x] += 1;
}"""
    x = np.zeros(32, np.float32)
    result = run(text, 1, 32, [x, 4000])
    assert (x == 4000).all()
    assert result.truncated
    # All that is counted is whole: 32 lanes, 4 sectors.
    assert {(a.per_request, len(a.worst.offsets)) for a in result.accesses} == {(4, 32)}
    assert "the beginning" in repr(result)
    assert "more than was recorded" in html(result)


# ------------------------------------------------------------------ watching

SUM = """extern "C" __global__ void block_sum(const float *x, float *sum) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (t < step) {
      s[t] += s[t + step];
      MX_WATCH(s[t]);
    }
    __syncthreads();
  }
  if (t == 0) *sum = s[0];
}"""


def test_watched_values_by_thread_and_step() -> None:
    x, total = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    result = run(SUM, 1, 64, [x, total])
    assert total[0] == x.sum()
    assert [len(t.watched) for t in result.threads[:5]] == [6, 5, 4, 4, 3]
    assert [w.value for w in result.threads[0].watched][-1] == x.sum()
    page = html(result)
    assert page.count('<input type="radio"') == page.count("<div><div class") == 7
    captions = re.findall(r"s\[t\]</code> on line 9, time (\d)(.*?): from", page)
    assert captions == [(str(n + 1), f", {32 >> n} of 64 threads") for n in range(6)]


def test_without_checks_values_can_still_be_watched() -> None:
    x, total = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    result = run(SUM, 1, 64, [x, total], check=False)
    assert (result.accesses, result.lines, result.ok) == ((), {}, True)
    assert repr(result) == "block_sum<<<1, 64>>>: ran without checks"
    assert html(result).count('<input type="radio"') == 6


# ------------------------------------------------------------------ the HTML


def test_everything_of_the_user_is_escaped() -> None:
    text = """// <script>alert(1)</script> & "quotes"
extern "C" __global__ void k(int *x) {
  const int t = threadIdx.x;
  MX_WATCH(t<5&&t>2?"<img src=x onerror=alert(2)>"[0]:t);
  if (t < 3 && t > 1) x[t] = t; // <b>
  x[t + 64] = 1;
}"""
    page = html(run(text, 1, 4, [np.zeros(64, np.int32)])) + refused(text, 1, "<i>no</i>")
    read = Checked(page)
    names = {tag for tag, _ in read.tags}
    assert not names & {"script", "img", "i"}
    assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)
    assert "<script>alert(1)</script>" in read.text
    assert "<img src=x onerror=alert(2)>" in read.text


def test_the_html_needs_no_script_and_no_ids() -> None:
    """Two outputs on one page must not disturb each other, and nothing is fetched."""
    x, total = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    page = html(run(SUM, 1, 64, [x, total]))
    read = Checked(page)
    assert not any("id" in attrs for _, attrs in read.tags)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "img", "iframe"}
    assert "url(" not in page
    assert all(a.get("scope") for tag, a in read.tags if tag == "th" and "class" not in a)


def test_the_html_of_large_blocks_is_bounded() -> None:
    text = """extern "C" __global__ void large(float *x) {
  for (int i = 0; i < 50; i++) MX_WATCH(x[threadIdx.x] + i);
}"""
    page = html(run(text, 1, 1024, [np.zeros(1024, np.float32)]))
    assert page.count("lane 7 of warp 3:") * 1024 <= MOST_CELLS
    assert "of 50 watched steps are shown" in page
    assert len(page) < 1_000_000


def test_the_same_in_every_run() -> None:
    def shown() -> tuple[str, str]:
        x, total = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
        result = run(SUM, 1, 64, [x, total])
        return repr(result), html(result)

    assert shown() == shown()


# ------------------------------------------------------------------ kernels


@pytest.mark.parametrize(
    ("text", "kernel", "message"),
    [
        ("int x;", None, "the text has no kernel"),
        (BUGS, None, f"the text has {len(CASES)} kernels, and none was chosen: missing_barrier"),
        (STRIDE, "strode", "the text has no kernel 'strode'"),
    ],
)
def test_which_kernel(text: str, kernel: str | None, message: str) -> None:
    arguments: list[Any] = []
    with pytest.raises(NotebookError, match=re.escape(message)) as error:
        run(text, 1, 1, arguments, kernel=kernel)
    assert error.value.code == "ML822"
    assert error.value.fix

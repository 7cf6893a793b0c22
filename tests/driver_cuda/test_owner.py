"""The owner thread: order, results, exceptions, reentrance, fork and the end of the process."""

from __future__ import annotations

import os
import threading
import traceback
import warnings

import pytest

from maxlab.driver.cuda.owner import Owner
from maxlab.errors import DeviceError
from tests.driver_cuda.conftest import Run


@pytest.fixture
def owner() -> Owner:
    return Owner(3)


def test_result_comes_back(owner: Owner) -> None:
    assert owner.call(lambda: 41 + 1) == 42


def test_work_runs_in_one_other_thread(owner: Owner) -> None:
    names = {owner.call(lambda: threading.current_thread().name) for _ in range(3)}
    assert names == {"maxlab-gpu:3"}


def test_order_of_one_thread_is_kept(owner: Owner) -> None:
    seen: list[int] = []
    for number in range(100):
        if number % 3:
            owner.later(lambda n=number: seen.append(n))  # type: ignore[misc]
        else:
            owner.call(lambda n=number: seen.append(n))  # type: ignore[misc]
    owner.call(int)
    assert seen == list(range(100))


def test_many_threads_get_their_own_results(owner: Owner) -> None:
    inside = []
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(200):

            def job(value: int = number * 1000 + step) -> int:
                inside.append(1)
                alone = len(inside)
                inside.pop()
                return value if alone == 1 else -1

            if owner.call(job) != number * 1000 + step:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_exception_keeps_its_type_and_traceback(owner: Owner) -> None:
    def deep() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError, match="here") as caught:
        owner.call(deep)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "deep"
    assert owner.call(lambda: 1) == 1  # and the owner goes on


def test_call_inside_of_a_call_runs_directly(owner: Owner) -> None:
    assert not owner.inside
    assert owner.call(lambda: owner.call(lambda: owner.call(lambda: owner.inside)))


def test_later_swallows_and_the_owner_goes_on(owner: Owner) -> None:
    owner.later(lambda: 1 / 0)
    assert owner.call(lambda: 2) == 2


def test_arguments_are_not_kept_alive(owner: Owner) -> None:
    import weakref

    class Thing:
        pass

    thing = Thing()
    watched = weakref.ref(thing)
    owner.call(lambda t=thing: None)  # type: ignore[misc]
    del thing
    owner.call(int)
    assert watched() is None


def test_close_runs_what_was_given_and_refuses_the_rest(owner: Owner) -> None:
    seen: list[str] = []
    owner.later(lambda: seen.append("later"))
    owner.close(lambda: seen.append("last"))
    assert seen == ["later", "last"]
    with pytest.raises(DeviceError, match="ML444"):
        owner.call(int)
    owner.later(lambda: seen.append("too late"))
    owner.close(lambda: seen.append("again"))
    assert seen == ["later", "last"]


def test_forked_child_is_told(owner: Owner) -> None:
    assert owner.call(lambda: 1) == 1
    read, write = os.pipe()
    with warnings.catch_warnings():  # Python 3.12's own about threads and fork
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:  # no assertion of pytest's may leave this process
        try:
            owner.call(int)
            message = "no error"
        except DeviceError as error:
            message = error.code
        except BaseException as error:
            message = repr(error)
        os.write(write, message.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == "ML444"
    os.waitpid(child, 0)
    assert owner.call(lambda: 2) == 2


# ---------------------------------------------------------------- with a device


def test_exit_without_any_work(on_fake: Run) -> None:
    on_fake("from tests.driver_cuda.programs import *\nopened()")


def test_exit_gives_everything_back(on_fake: Run) -> None:
    result = on_fake(
        """
import numpy as np
from tests.driver_cuda.programs import *
c = opened()
k, = kernels(c, SCALE)
x = put(c, np.arange(100, dtype=np.float32))
q = c.call(c.queue)
keep = [c.call(lambda: q.mark(timed=True)), c.call(lambda: c.allocate_pinned(100))]
c.call(lambda: c.launch(q, k, (1, 1, 1), (128, 1, 1), 0, [x, x, 100, 2]))
g = c.record(lambda q: c.launch(q, k, (1, 1, 1), (128, 1, 1), 0, [x, x, 100, 2]))
"""
    )
    assert result.report["kernels run"] == 1  # what was given is done, not dropped


def test_exit_with_work_of_other_atexit_functions(on_fake: Run) -> None:
    result = on_fake(
        """
import atexit
def early():  # registered first, so it runs when the device was given back
    try: c.call(int)
    except Exception as error: print(error.code)
    c.later(int)
atexit.register(early)
from tests.driver_cuda.programs import *
c = opened()
atexit.register(lambda: print(c.call(lambda: "still open")))
"""
    )
    assert result.out.split() == ["still", "open", "ML444"]


def test_exit_by_an_exception(on_fake: Run) -> None:
    from tests.driver_cuda.fake import harness

    result = harness.run("from tests.driver_cuda.programs import *\nopened()\nraise SystemExit(3)")
    assert (result.code, result.err) == (3, "")
    assert set(result.report["left"].values()) == {0}


def test_fork_after_use(on_fake: Run) -> None:
    result = on_fake(
        """
import os, sys, warnings
import numpy as np
from maxlab.driver.cuda import backend
from tests.driver_cuda.programs import *
c = opened()
x = put(c, np.ones(4, np.float32))
q = c.call(c.queue); m = c.call(q.mark)
warnings.simplefilter("ignore")  # Python's own about threads and fork
child = os.fork()
if child == 0:
    for work in (lambda: c.call(int), lambda: backend.open(0), lambda: c.load([])):
        try: work(); print("no error")
        except Exception as error: print(getattr(error, "code", repr(error)))
    del q, m
    sys.exit(0)  # runs atexit functions and finalizers
os.waitpid(child, 0)
print(get(c, x, 4).sum())
"""
    )
    assert result.out.split() == ["ML444", "ML444", "no", "error", "4.0"]


def test_context_is_the_primary_one_and_current_only_to_the_owner(on_fake: Run) -> None:
    result = on_fake(
        """
import ctypes
from tests.driver_cuda.programs import *
cuda = ctypes.CDLL("libcuda.so.1")
c = opened()
def current():
    found = ctypes.c_void_p()
    assert cuda.cuCtxGetCurrent(ctypes.byref(found)) == 0
    return found.value
primary = ctypes.c_void_p()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0)
print(current(), c.call(current) == primary.value == c.handle)
cuda.cuDevicePrimaryCtxRelease_v2(0)
"""
    )
    assert result.out.split() == ["None", "True"]

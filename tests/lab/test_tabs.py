"""Views that a page opens itself: what goes over their channel, and when they end."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from comm import get_comm_manager

from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.lab import live, tabs
from tests.lab.conftest import FakeComm
from tests.lab.graphs import small


def open_tab(id: str) -> FakeComm:
    comm = FakeComm(target_name=tabs.TARGET, data={}, primary=False)
    get_comm_manager().register_comm(comm)
    tabs.opened(comm, {"content": {"data": {"id": id}}})
    return comm


def id_of(graph: Graph) -> str:
    return next(item.id for item in live.listing({"g": graph}) if item.names == ("g",))


def close(comm: FakeComm) -> None:
    manager: Any = get_comm_manager()  # which asks for a socket and a name that it does not use
    manager.comm_close(None, None, {"content": {"comm_id": comm.comm_id}})


def test_a_tab_gets_its_traits_and_its_document(comms: list[FakeComm]) -> None:
    graph = small("in a tab")
    comm = open_tab(id_of(graph))
    states = [data["state"] for _, data, _ in comm.sent if data.get("method") == "update"]
    assert states[-1]["revision"] == 0
    assert states[-1]["not_live"] == ""
    comm.say({"type": "need_document"})
    assert '"in a tab"' in comm.document()
    assert comms == [], "no widget of a cell was made"
    close(comm)


def test_a_tab_shows_another_graph_when_it_is_told(comms: list[FakeComm]) -> None:
    first, second = small("first"), small("second")
    comm = open_tab(id_of(first))
    tabs.show(comm.comm_id, id_of(second))
    assert '"second"' in comm.document()
    close(comm)
    with pytest.raises(ArgumentError, match="ML807"):
        tabs.show(comm.comm_id, id_of(first))


def test_a_tab_of_nothing_is_closed_with_the_reason(comms: list[FakeComm]) -> None:
    comm = open_tab("g0")
    kind, data, _ = comm.sent[-1]
    assert kind == "comm_close"
    assert "ML807" in data["error"]


def test_a_tab_keeps_no_graph_alive(comms: list[FakeComm]) -> None:
    graph = small("short-lived")
    comm = open_tab(id_of(graph))
    seen = weakref.ref(graph)
    del graph
    gc.collect()
    assert seen() is None
    close(comm)


def test_outside_a_kernel_nothing_is_served() -> None:
    assert tabs.serve() == ""

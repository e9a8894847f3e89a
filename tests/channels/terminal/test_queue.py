"""One question at a time, in order, over threads; over processes see test_terminal."""

import fcntl
import os
import threading

import pytest

from humanlayer_agent.channels.terminal.queue import runtime_directory, turn
from humanlayer_agent.errors import NoTerminal


def never() -> bool:
    return False


def test_only_one_at_a_time(tmp_path):
    inside = 0
    most = 0
    done = 0

    def ask() -> None:
        nonlocal inside, most, done
        with turn("1", give_up=never, directory=tmp_path) as place:
            assert place is not None
            inside += 1
            most = max(most, inside)
            place.waiting()
            inside -= 1
            done += 1

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done) == (1, 8)
    assert not list((tmp_path / "tty-1").glob("*.ticket"))


def test_who_waits_is_counted_and_may_give_up(tmp_path):
    give_up = threading.Event()
    got: list[object] = []

    def ask() -> None:
        with turn("1", give_up=give_up.is_set, directory=tmp_path) as place:
            got.append(place)

    with turn("1", give_up=never, directory=tmp_path) as place:
        other = threading.Thread(target=ask)
        other.start()
        while place.waiting() != 1:
            pass
        give_up.set()
        other.join()
        assert place.waiting() == 0
    assert got == [None]


def test_who_came_before_but_was_late_to_say_so_waits_as_well(tmp_path):
    with turn("1", give_up=never, directory=tmp_path) as place:
        ticket = tmp_path / "tty-1" / f"{0:020d}-1-late.ticket"
        with ticket.open("x") as late:
            fcntl.flock(late, fcntl.LOCK_EX)
            assert place.waiting() == 1
        assert place.waiting() == 0


def test_it_gives_up_also_where_somebody_asks_out_of_turn(tmp_path, monkeypatch):
    """First in the queue, and the terminal is still taken: by one whose ticket came late."""

    def sleep(seconds):
        raise AssertionError("it waits, although nobody wants the answer any more")

    queue = tmp_path / "tty-1"
    queue.mkdir()
    with (queue / "asking").open("w") as taken:
        fcntl.flock(taken, fcntl.LOCK_EX)
        monkeypatch.setattr("humanlayer_agent.channels.terminal.queue.time.sleep", sleep)
        with turn("1", give_up=lambda: True, directory=tmp_path) as place:
            assert place is None
        assert not list(queue.glob("*.ticket"))


def test_terminals_do_not_wait_for_each_other(tmp_path):
    with turn("1", give_up=never, directory=tmp_path), turn("2", give_up=never, directory=tmp_path) as place:
        assert place is not None


def test_tickets_of_the_dead_are_removed(tmp_path):
    queue = tmp_path / "tty-1"
    queue.mkdir()
    (queue / "00000000000000000001-1-dead.ticket").touch()
    with turn("1", give_up=never, directory=tmp_path) as place:
        assert place is not None
    assert not list(queue.glob("*.ticket"))


def test_a_directory_that_others_can_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "humanlayer-agent" / "run"
    assert runtime_directory() == path
    os.chmod(path, 0o777)
    with pytest.raises(NoTerminal, match="chmod 700"):
        runtime_directory()


def test_a_link_or_a_missing_base_is_refused(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "humanlayer-agent").mkdir()
    (tmp_path / "humanlayer-agent" / "run").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(NoTerminal):
        runtime_directory()
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    with pytest.raises(NoTerminal, match="can't be queued"):
        runtime_directory()

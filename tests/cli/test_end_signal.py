import signal
import sys
import threading

import pytest

from humanlayer_agent.cli.shared.end_signal import EndSignal
from humanlayer_agent.testing.patience import PATIENCE
from tests.support import children

_AT_EACH_INSTRUCTION = """
import faulthandler, signal, sys, threading
from humanlayer_agent.cli.shared.end_signal import EndSignal

faulthandler.dump_traceback_later(60, exit=True)  # a handler that waits for its own thread waits for ever

def told_at(count, end_signal):
    'Tell it to end within the instruction of that number, in whatever function; whether there were so many.'
    left = count
    def trace(frame, event, arg):
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_name not in ("_tell", "raise_signal"):
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGTERM)
        return trace
    sys.settrace(trace)
    try:
        for _ in range(3):
            end_signal.wait(0.001)
    finally:
        sys.settrace(None)
    return left <= 0

count = 0
while True:
    count += 1
    with EndSignal() as end_signal:
        if not told_at(count, end_signal):
            break
        assert end_signal.wait(), count
print(count)
"""


def test_it_is_told_in_the_middle_of_any_instruction() -> None:
    """Once Ctrl-C came while `hla audit export --follow` held the lock of what it waited with: it hung for ever."""
    done = children.run([sys.executable, "-c", _AT_EACH_INSTRUCTION], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it_between_steps(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with EndSignal() as end_signal:
        assert not end_signal.wait(0)
        signal.raise_signal(number)
        assert end_signal.wait(0)
        assert end_signal.wait()  # and goes on to say so
    assert signal.getsignal(number) is before


def test_it_waits_for_a_signal_that_comes_later() -> None:
    with EndSignal() as end_signal:
        threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGTERM)).start()
        assert end_signal.wait()


def test_it_is_told_by_a_thread_that_it_is_over() -> None:
    with EndSignal() as end_signal:
        threading.Thread(target=end_signal.tell).start()
        assert end_signal.wait(PATIENCE)
        assert end_signal.wait(0)


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    with EndSignal():
        for number in (signal.SIGTERM, signal.SIGTERM):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

"""The kit against webhooks: what is expected of every channel, but for answers. Those are the inbox's, and tested there."""

import inspect

import pytest

from humanlayer_agent.testing.conformance import ChannelConformance


def answers(name: str) -> bool:
    """Tell whether a test of the kit needs an answer that is given in the channel."""
    source = inspect.getsource(getattr(ChannelConformance, name))
    return (
        any(f".{each}(" in source for each in ("answer", "grant", "until_answered"))
        and name != "test_an_answer_is_recorded"
    )


class TestWebhook(ChannelConformance):
    @pytest.fixture
    def rig(self, rig):
        return rig


for each in [name for name in dir(ChannelConformance) if name.startswith("test_") and answers(name)]:
    setattr(TestWebhook, each, None)

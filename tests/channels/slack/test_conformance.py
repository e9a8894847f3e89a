"""The conformance kit against the Slack channel and the fake Slack, by both ways in which clicks come in."""

import pytest

from humanlayer_agent.testing.conformance import ChannelConformance


@pytest.fixture(params=["socket", "http"])
def mode(request):
    return request.param


class TestSlack(ChannelConformance):
    @pytest.fixture
    def rig(self, rig):
        return rig

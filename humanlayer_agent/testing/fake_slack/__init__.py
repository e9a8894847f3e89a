"""A fake Slack for tests: the Web API, Socket Mode and signed requests, with Slack's limits, scopes and faults.

`slack_sdk`'s own client and any Socket Mode receiver talk to it. It enforces what Slack documents (`limits`), sends
each click to exactly one of the app's connections (or to its address), and breaks connections and answers in all the
ways that were seen. It knows nothing of what is tested with it. Nothing of it listens on anything but 127.0.0.1.
"""

from humanlayer_agent.testing.fake_slack.server import FakeSlack
from humanlayer_agent.testing.fake_slack.socket import Delivery
from humanlayer_agent.testing.fake_slack.world import APP, APP_TOKEN, BOT, BOT_TOKEN, CHANNEL, SIGNING_SECRET, TEAM

__all__ = ["APP", "APP_TOKEN", "BOT", "BOT_TOKEN", "CHANNEL", "SIGNING_SECRET", "TEAM", "Delivery", "FakeSlack"]

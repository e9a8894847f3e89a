"""What Slack says of people, and for how long it is believed."""

import pytest

from humanlayer_agent.channels.slack.people import CACHE_SECONDS, Directory
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.testing.fake_slack import TEAM

GROUP = f"slack-usergroup:{TEAM}/S0OPS"


@pytest.fixture
def now() -> list[float]:
    return [1000.0]


@pytest.fixture
def directory(slack, rig, now) -> Directory:
    slack.world.usergroups["S0OPS"] = ["U0ALICE"]
    return Directory(rig.api(), [f"{TEAM}/S0OPS", "T0OTHER/S0OPS"], clock=lambda: now[0])


def test_a_group_is_remembered_for_a_minute(slack, directory, now) -> None:
    assert directory.groups_of("U0ALICE", TEAM).groups == (GROUP,)
    slack.world.usergroups["S0OPS"] = ["U0BOB"]
    now[0] += CACHE_SECONDS - 1
    assert directory.groups_of("U0ALICE", TEAM).groups == (GROUP,)
    now[0] += 2
    assert directory.groups_of("U0ALICE", TEAM).groups == ()
    assert directory.groups_of("U0BOB", TEAM).groups == (GROUP,)
    assert slack.called("usergroups.users.list") == ["ok", "ok"], "of another team's group nothing is asked"


def test_an_error_is_not_remembered(slack, directory) -> None:
    slack.fault("usergroups.users.list", "http", status=500)
    found = directory.groups_of("U0ALICE", TEAM)
    assert (found.groups, bool(found.unknown)) == ((), True)
    assert directory.groups_of("U0ALICE", TEAM).groups == (GROUP,)


def test_what_was_remembered_of_a_group_is_not_used_after_an_error(slack, directory, now) -> None:
    assert directory.groups_of("U0ALICE", TEAM).groups == (GROUP,)
    now[0] += CACHE_SECONDS + 1
    slack.fault("usergroups.users.list", "error", error="missing_scope", count=2)
    assert directory.groups_of("U0ALICE", TEAM).groups == ()


def test_an_account_is_remembered_for_a_minute(slack, directory, now) -> None:
    assert directory.why_not("U0ALICE", TEAM) == ""
    slack.world.users["U0ALICE"]["is_restricted"] = True
    assert directory.why_not("U0ALICE", TEAM) == ""
    now[0] += CACHE_SECONDS + 1
    assert directory.why_not("U0ALICE", TEAM) == "a guest account"


def test_nobody_is_known_where_slack_does_not_say(slack, directory) -> None:
    slack.fault("users.info", "lost-response")
    with pytest.raises(ChannelError):
        directory.why_not("U0ALICE", TEAM)
    with pytest.raises(ChannelError):
        directory.why_not("U0NOBODY", TEAM)

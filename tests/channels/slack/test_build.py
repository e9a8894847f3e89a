"""From a channels file to a channel, and what docs/slack.md says of it."""

import re
from pathlib import Path

import pytest

from humanlayer_agent.channels import registry, settings
from humanlayer_agent.channels.slack.channel import SlackChannel
from humanlayer_agent.errors import ConfigError

ROOT = Path(__file__).parents[3]
TOKENS = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """The channels file of docs/slack.md."""
    found = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/slack.md").read_text(), re.DOTALL)
    assert found
    file = tmp_path / "channels.yaml"
    file.write_text("\n".join(line.removeprefix("   ") for line in found[1].splitlines()))
    return file


def test_the_channels_file_of_the_page_makes_a_channel(shown: Path) -> None:
    made = registry.build("slack", settings.load(file=shown), TOKENS)
    assert isinstance(made, SlackChannel)
    assert (made.name, made.pace, made.shows) == ("slack", 1.0, 2800)
    made.close()


def test_a_missing_token_is_named(shown: Path) -> None:
    with pytest.raises(ConfigError, match="SLACK_APP_TOKEN"):
        registry.build("slack", settings.load(file=shown), {"SLACK_BOT_TOKEN": "xoxb-1"})


def test_tokens_that_were_mixed_up_are_named(shown: Path) -> None:
    with pytest.raises(ConfigError, match="SLACK_BOT_TOKEN must hold the bot token"):
        registry.build("slack", settings.load(file=shown), dict(zip(TOKENS, reversed(TOKENS.values()), strict=True)))


@pytest.mark.parametrize(
    "setting",
    [
        'api_url: "https://slack.com.example.com/api/"',
        'api_url: "http://slack.com/api/"',
        'api_url: "http://127.0.0.1@example.com:80/api/"',
        "connections: 0",
        "connections: 11",
        "pace: -1",
        "bot_token_env: AWS_SECRET_ACCESS_KEY",
    ],
)
def test_settings_that_send_tokens_elsewhere_or_make_no_sense(shown: Path, setting: str) -> None:
    text = shown.read_text().replace("extends: [builtin:slack]\nset: {SLACK_CHANNEL: C0123456789}\n", "")
    channel = f"channels: {{terminal: {{type: terminal}}, slack: {{type: slack, post_to: C0123456789, {setting}}}}}\n"
    shown.write_text(text + "\n" + channel)
    with pytest.raises(ConfigError):
        settings.load(file=shown)


def test_the_manifest_is_shipped() -> None:
    from humanlayer_agent.locations import data_file

    assert data_file("channels", "slack-manifest.yaml").is_file()


def test_the_pictures_are_small() -> None:
    for name, page in (("terminal", "README.md"), ("slack", "docs/slack.md")):
        assert f"pictures/{name}.png" in (ROOT / page).read_text()
        assert 10_000 < (ROOT / "docs" / "pictures" / f"{name}.png").stat().st_size < 200 * 1024


def test_the_picture_of_the_message_is_drawn_from_the_real_one() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("render_pictures", ROOT / "docs" / "render_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    page = drawing.slack_page()
    for shown in (
        "rm -rf build /var/lib/app/cache",
        "high severity",
        '<div class="button primary">Approve</div>',
        "@alice",
    ):
        assert shown in page

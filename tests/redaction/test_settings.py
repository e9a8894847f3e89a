"""What is shown of settings of tools: all that works without a secret, and nothing of one."""

import pytest

from humanlayer_agent.redaction.redactor import settings_without_secrets

SECRET = "zq9KxW2pLm7"


@pytest.mark.parametrize(
    "line",
    [
        "//registry.npmjs.org/:_authToken=@", "//example.org/:_authToken = @", "_auth=@", "//example.org/:_password=@", "//example.org/:_authToken=${TOKEN}",
        '"//example.org/:_authToken" "@"', "npmAuthToken: @", 'npmAuthIdent: "u:@"', "index-url = https://u:@@example.org/simple", "    https://@@example.org/simple",
        'token = "@"', "GOPROXY=https://u:@@example.org,direct", "proxy=http://u:@@example.org:80", "secret-key=@", "passphrase: @", "signing.password=@",
        "extraHeader = Authorization: Basic @", "access_token=@", "PRIVATE_KEY=@", "POETRY_HTTP_BASIC_PASSWORD = @",
    ],
)  # fmt: skip
def test_the_line_of_a_secret_is_left_out_and_the_others_stay(line: str) -> None:
    others = "registry=https://example.org/\n[net]\ngit-fetch-with-cli = true\nextra-index-url = https://example.org/simple\n"
    assert settings_without_secrets(others + line.replace("@", SECRET, 1) + "\n" + others) == others * 2


@pytest.mark.parametrize(
    "text",
    [
        f"<settings>\n<password>{SECRET}</password>\n</settings>\n", f"_authToken=\n{SECRET}\n", f'token = """\n{SECRET}\n"""\n', f"token: |\n  {SECRET}\n",
        f"tokens = [\n  '{SECRET}',\n]\n", f"key = \\\n  {SECRET}\n", f"key=-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n",
        f"auth = '''\n{SECRET}'''", "x" * (1 << 17),
    ],
)  # fmt: skip
def test_what_can_not_be_taken_apart_is_not_shown(text: str) -> None:
    assert settings_without_secrets(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "registry=https://example.org/\n",
        "<settings>\n<offline>true</offline>\n</settings>\n",
        "[build]\r\njobs = 2\r\n",
    ],
)
def test_where_there_is_none_all_is_shown(text: str) -> None:
    assert settings_without_secrets(text) == text

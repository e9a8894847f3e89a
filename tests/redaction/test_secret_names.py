"""One list of secret names: the policies and the redactor read the same one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.kleene import YES
from humanlayer_agent.policy.conditions.operand_names import VariableNames
from humanlayer_agent.policy.director import Director
from humanlayer_agent.redaction.redactor import ERASED, redact
from humanlayer_agent.redaction.secret_names import is_secret_variable, secret_variables

LISTED = VariableNames(secret_variables())


@pytest.mark.parametrize(
    "name",
    [
        "API_TOKEN", "GITHUB_TOKEN", "token", "TOKEN_FILE", "NPM_TOKENS", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD_PASSWD",
        "SECRET", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "OPENAI_API_KEY", "apikey", "SSH_PRIVATE_KEY", "SIGNING_KEY",
        "SERVICE_KEY", "GOOGLE_CREDENTIALS", "DB_PASS", "GH_PAT", "BASIC_AUTH", "SENTRY_DSN", "DATABASE_URL", "authorization",
        "SESSION_COOKIE", "GPG_PASSPHRASE",
        # what only one of three lists knew
        "MYSQL_PWD", "SSHPASS", "REDISCLI_AUTH", "DB_PIN", "WIFI_PSK", "AUTHKEY", "npm_config__auth", "MONGODB_URI", "DB_PASS2",
        "PUBLIC_KEY_TOKEN", "TOKEN_PUBLIC_KEY", "KEY_PUBLIC_KEY", "PUBLIC_KEY_KEY", "accessToken", "dbPassword", "apiKey", "KEY", "SORT_KEYS",
    ],
)  # fmt: skip
def test_secret(name: str) -> None:
    assert LISTED.has(name) == YES


@pytest.mark.parametrize(
    "name",
    [
        "HOME", "PATH", "PWD", "OLDPWD", "KEYBOARD", "SSH_AUTH_SOCK", "AUTHOR", "GIT_AUTHOR_NAME", "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS", "NUM_INPUT_TOKENS", "PUBLIC_KEY", "PUBLIC_KEY_ID", "PASSED", "COMPASS", "PATH_INFO", "URL", "MONKEY", "GIT_ASKPASS",
        "VIRTUAL_ENV", "key", "keys", "1", "@", "",
    ],
)  # fmt: skip
def test_no_secret(name: str) -> None:
    assert LISTED.has(name) != YES


@pytest.mark.parametrize(
    "name", ["MYSQL_PWD", "GITHUB_PAT", "SENTRY_DSN", "DB_CREDS", "PROXY_AUTH", "API_TOKENS", "db_pat"]
)
def test_what_the_policies_ask_about_is_hidden(name: str) -> None:
    director = Director.load("default", project="/p", environ={"HOME": "/h"})
    assert director.evaluate(Action(f"echo ${name}", cwd="/p")).rule == "secret-variables"
    assert redact(f"export {name}=hunter22x").text == f"export {name}={ERASED}"
    assert redact(f"docker run -e {name}=hunter22x a").text == f"docker run -e {name}={ERASED} a"


PARTS = (
    "DB MY APP TOKEN SECRET PASSWORD PASSWD PASS PW PWD PIN KEY API ACCESS PRIVATE PSK CREDENTIAL CREDENTIALS AUTH PAT"
    " COOKIE DSN PUBLIC SORT CACHE FILE ID URL V RATE PASSPHRASE SSHPASS HOME PATH"
)
WORDS = st.sampled_from(PARTS.split())


@given(st.lists(WORDS, min_size=1, max_size=4).map("_".join), st.booleans())
def test_whatever_is_hidden_is_listed(name: str, small: bool) -> None:
    """What the log hides, `echo` must not show."""
    name = name.lower() if small else name
    if is_secret_variable(name):
        assert LISTED.has(name) == YES


@given(st.lists(WORDS, min_size=1, max_size=3).map("_".join))
def test_what_is_listed_is_hidden_but_for_what_is_beside_a_secret(name: str) -> None:
    beside = name.endswith(("FILE", "ID", "URL", "PATH")) or "SORT_KEY" in name or "CACHE_KEY" in name
    if LISTED.has(name) == YES and not beside:
        assert is_secret_variable(name)


def test_no_policy_has_a_list_of_its_own() -> None:
    policies = Path(__file__).parents[2] / "policies"
    assert [path.name for path in policies.glob("*.yaml") if "secret-variables:" in path.read_text()] == []

"""One certificate authority, and real mail servers, for all tests of a process."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import ApprovalRule
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.mail.message import Letterhead
from humanlayer_agent.channels.settings.schema import Server
from tests.support.certificates import Certificates, make_certificates
from tests.support.mail_servers import SmtpServer

SECRETS = {"SMTP_USER": "agents", "SMTP_PASSWORD": "not-a-real-password"}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def smtp(certificates: Certificates) -> Iterator[SmtpServer]:
    with SmtpServer.running(certificates) as server:
        yield server


@pytest.fixture
def smtp_settings(smtp: SmtpServer, certificates: Certificates) -> Server:
    return Server(
        host="localhost",
        port=smtp.port,
        ca=str(certificates.authority),
        user_env="SMTP_USER",
        password_env="SMTP_PASSWORD",
    )


@pytest.fixture
def letterhead() -> Letterhead:
    return Letterhead("agents@hub.test", "agents@hub.test", "https://hub.test/inbox/", Tokens(bytes(range(32))))


@pytest.fixture
def asked(make_request: Callable[..., ApprovalRequest]) -> Callable[..., ApprovalRequest]:
    """A request by a command, of a given severity, as a store would have it."""

    def build(command: str = "rm -rf build", severity: str = "medium", **changes: Any) -> ApprovalRequest:
        request = make_request(command)
        decision = replace(request.decision, severity=severity)
        rule = ApprovalRule("default", ("alice", "bob"), min_assurance="chat" if severity == "high" else "os")
        return replace(request, id="a1" * 16, decision=decision, rule=rule, **changes)

    return build

"""Somebody who answers, from elsewhere, what waits in a store: with a key that the user's channels file names."""

import os
import pwd
import threading
from typing import Any

from humanlayer_agent.approvals.model import AnswerKind, Approver
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.errors import StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import config_folder, default_store_path
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import answer
from humanlayer_agent.testing.patience import PATIENCE

BOB = Approver("email:bob@example.com", "web", "login")
_FILE = """\
version: 1
signers: ["KEY"]
people:
  me: {os_user: NAME}
  bob: {email: bob@example.com}
channels:
  inbox: {type: web}
routes:
  default: {approvers: [bob], steps: [{to: inbox}]}
"""


class RemoteHuman:
    """Bob. His channels file is the user's from here on."""

    def __init__(self) -> None:
        self._signer = Signer()
        config_folder().mkdir(parents=True, mode=0o700)
        path = config_folder() / "channels.yaml"
        path.write_text(
            _FILE.replace("NAME", pwd.getpwuid(os.getuid()).pw_name).replace("KEY", self._signer.fingerprint)
        )
        path.chmod(0o600)
        self.store = SQLiteStore(default_store_path())
        self.seen: set[str] = set()

    def next(self) -> Any:
        """Wait for the next question."""
        end = threading.Event()
        timer = threading.Timer(PATIENCE, end.set)
        timer.start()
        try:
            while not end.is_set():
                try:
                    for request in self.store.requests(state="pending"):
                        if request.id not in self.seen:
                            self.seen.add(request.id)
                            return request
                except StoreError:  # it is just being made
                    pass
                end.wait(0.02)
        finally:
            timer.cancel()
        raise AssertionError("nobody asked")

    def asked(self) -> list[Any]:
        """All questions so far, whatever has become of them."""
        try:
            return list(self.store.requests())
        except StoreError:  # it is just being made
            return []

    def answers(self, kind: AnswerKind, words: str = "", request: Any = None) -> Any:
        """Answer a question, the next one where none is given. Returns it."""
        authority, request = build_authority(), request or self.next()
        assert authority is not None
        given = {"edited": words} if kind == "edit" else {"comment": words}
        said = answer(request, kind, **given, approver=BOB)
        result = self.store.decide(request.id, said, authority, self._signer)
        assert result.outcome == "recorded", result
        return request

    def state_of(self, request_id: str, state: str) -> None:
        """Wait until a request has come to this state."""
        end = threading.Event()
        timer = threading.Timer(PATIENCE, end.set)
        timer.start()
        while (found := self.store.get(request_id)) is None or found.state != state:
            assert not end.wait(0.02), found
        timer.cancel()

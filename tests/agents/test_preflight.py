"""What is said of a model that can't be asked, and what mini still retries."""

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import tenacity

from humanlayer_agent.agents import preflight
from humanlayer_agent.agents.preflight import Endpoint, ModelUnusable, check_model, end_retries_early
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.testing.patience import PATIENCE, until


class Refusal(Exception):
    def __init__(self, status_code: int, text: str = "said so") -> None:
        super().__init__(text)
        self.status_code = status_code


class Version2:
    """Retries as version 2 does: by a loop around `_query`, but for `abort_exceptions`."""

    abort_exceptions: tuple[type[BaseException], ...] = (KeyboardInterrupt,)

    def __init__(self, *answers: Any) -> None:
        self.config = SimpleNamespace(model_name="openai/test", model_kwargs={})
        self.answers, self.asked = list(answers), 0

    def _query(self, messages: list[Any]) -> Any:
        return self._next()

    def _next(self) -> Any:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise RuntimeError("as litellm wraps it") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def query(self) -> Any:
        mendable = tenacity.retry_if_not_exception_type(tuple(self.abort_exceptions))
        for attempt in tenacity.Retrying(reraise=True, stop=tenacity.stop_after_attempt(9), retry=mendable):
            with attempt:
                answer = self._query([])
        return answer


class Version1(Version2):
    """Retries as version 1 does: `_query` is decorated."""

    @tenacity.retry(
        reraise=True, stop=tenacity.stop_after_attempt(9), retry=tenacity.retry_if_not_exception_type(KeyboardInterrupt)
    )
    def _query(self, messages: list[Any]) -> Any:
        return self._next()

    def query(self) -> Any:
        return self._query([])


@pytest.fixture(params=[Version1, Version2])
def version(request: pytest.FixtureRequest) -> Any:
    def make(*answers: Any) -> Any:
        model = request.param(*answers)
        end_retries_early(model)
        end_retries_early(model)  # a second run of the same agent
        return model

    return make


@pytest.fixture
def refused() -> OSError:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError) as raised:
            socket.create_connection(unheard.getsockname())
    return raised.value


class TestRetries:
    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (Refusal(401), "the key is refused (401: said so); set one that is valid there"),
            (Refusal(403), "may not be used for it (403"),
            (Refusal(404), "knows no such model (404"),
            (Refusal(400, "x is not a valid model ID"), "knows no such model (400"),
        ],
    )
    def test_what_is_refused_for_good_is_not_asked_again(self, version: Any, answer: Refusal, said: str) -> None:
        model = version(answer, "words")
        with pytest.raises(ModelUnusable) as raised:
            model.query()
        assert said in str(raised.value)
        assert model.asked == 1

    @pytest.mark.parametrize("answer", [Refusal(429), Refusal(503), Refusal(400, "no such tool"), TimeoutError()])
    def test_what_may_mend_itself_is(self, version: Any, answer: Exception) -> None:
        model = version(answer, answer, "words")
        assert model.query() == "words"
        assert model.asked == 3

    def test_a_refused_connection_is_not_tried_again(self, version: Any, refused: OSError) -> None:
        model = version(refused, "words")
        with pytest.raises(ModelUnusable, match="connection refused"):
            model.query()
        assert model.asked == 1

    def test_an_endpoint_that_answered_before_may_be_starting_again(self, version: Any, refused: OSError) -> None:
        model = version("one", refused, refused, refused, "two", *[refused] * 9)
        assert (model.query(), model.query()) == ("one", "two")
        with pytest.raises(ModelUnusable, match="connection refused"):
            model.query()
        assert model.asked == 5 + 4

    def test_what_an_endpoint_says_can_not_act_on_the_terminal(self, version: Any) -> None:
        model = version(Refusal(401, "a\x1b[2Jb" + "c" * 999))
        with pytest.raises(ModelUnusable) as raised:
            model.query()
        assert "\x1b" not in str(raised.value)
        assert len(str(raised.value)) < 400

    def test_models_without_retries_are_left_alone(self) -> None:
        model = SimpleNamespace(query=lambda messages: "words")
        end_retries_early(model)
        assert check_model(model) == ""
        assert vars(model).keys() == {"query"}


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who listens, and whose queue is full."""
    with socket.socket() as server, socket.socket() as waiting, socket.socket() as another:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for each in (waiting, another):
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


class TestReach:
    def test_nobody_listens(self) -> None:
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))
            url = f"http://user:secret@127.0.0.1:{unheard.getsockname()[1]}/v1?key=secret"
            with pytest.raises(ModelUnusable, match=r"127\.0\.0\.1.*refused.*correct \$OPENAI_BASE_URL") as raised:
                preflight._reach(Endpoint(url, "$OPENAI_BASE_URL"), "openai/test")
        assert "secret" not in str(raised.value)

    @pytest.mark.skipif(sys.platform != "linux", reason="others refuse where the queue is full")
    def test_who_does_not_answer_in_time_may_still_be_there(self, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preflight, "_PATIENCE", 0.05)
        assert "has not answered yet; going on" in preflight._reach(Endpoint(silent, "x"), "openai/test")

    @pytest.mark.skipif(sys.platform != "linux", reason="others refuse where the queue is full")
    def test_ctrl_c_does_not_wait_for_it(self, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preflight, "_PATIENCE", PATIENCE)

        def connecting() -> bool:
            return "preflight" in [thread.name for thread in threading.enumerate()]

        def interrupt() -> None:
            until(connecting, "the connection")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        until(lambda: not connecting(), "those of other tests to end")
        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            preflight._reach(Endpoint(silent, "x"), "openai/test")
        other.join()

    def test_a_proxy_is_asked_instead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "")
        assert preflight._reach(Endpoint("http://no-such-host.invalid/v1", "x"), "openai/test") == ""

    def test_nothing_is_sent(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
            assert preflight._reach(Endpoint(url, "x"), "openai/test") == ""
            accepted, _ = server.accept()
            with accepted:
                assert accepted.recv(100) == b""

    @pytest.mark.parametrize("url", ["http://127.0.0.1:port/v1", "http://[::1/v1"])
    def test_no_address(self, url: str) -> None:
        with pytest.raises(ConfigError, match=r"is no address; correct model\.model_kwargs\.api_base"):
            preflight._reach(Endpoint(url, "model.model_kwargs.api_base"), "openai/test")


def test_minis_own_classes_of_models() -> None:
    model = type("OpenRouterTextbasedModel", (), {"_api_key": "", "config": SimpleNamespace(model_name="x/y")})()
    with pytest.raises(ModelUnusable, match=r"x/y: there is no key, as \$OPENROUTER_API_KEY is not set"):
        check_model(model)

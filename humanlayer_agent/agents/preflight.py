"""Faults of a model that no waiting mends, said before the first step or at the first request, not after minutes of
retries: no key, an unknown provider or model, an endpoint where nothing listens, a key that is refused.

It is no wall: what can't be told lets the run go on, and nothing is sent. Only a connection is opened, to an endpoint
that the settings name, and closed again; what an endpoint says of key and model is read off the run's own requests.
"""

import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import typer

from humanlayer_agent.errors import ConfigError, did_you_mean
from humanlayer_agent.redaction.redactor import Redactor
from humanlayer_agent.safe_text import one_line

_PATIENCE = 3.0
"""Seconds to wait for a connection; whoever has not answered by then may still be there."""
_LATER_TRIES = 3
"""How often an endpoint that did answer before may be away: it may only be restarting."""
_SAID = 200
"""Characters of what an endpoint said."""
_KEYS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
}
"""Variables one of which must hold a key. Others know more ways to log in than can be told from here."""
_KEY_EVERYWHERE = frozenset({"openai", "anthropic"})
"""Providers for which litellm wants a key at endpoints of one's own as well."""
_BASES = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
}
_LOG_IN_BY_THEMSELVES = ("github_copilot", "chatgpt")
"""Providers that litellm would log in at if it was only asked for their name."""
_UNTOLD = frozenset({"client", "fallbacks", "mock_response", "model_list"})
"""Arguments of litellm's with which something else answers."""
_OWN_HEADERS = frozenset({"api_key", "headers", "extra_headers"})
_NO_SUCH_MODEL = re.compile(r"not a valid model|model\W.{0,80}not (exist|found)|(unknown|invalid|no such) model", re.I)


if TYPE_CHECKING:
    from typer.exceptions import TyperException as _OneSentence
else:
    _OneSentence = typer.BadParameter.__mro__[2]  # it had another place and name in each of typer's versions


class ModelUnusable(ConfigError, _OneSentence):
    """Raised where a model can't be asked, and waiting does not mend it.

    It is one of typer's errors too, so that mini's own program says it in one sentence, not by a traceback.
    """

    exit_code = 2


class Endpoint(NamedTuple):
    """Where a model is asked, and what says so: a setting, a variable, or "" for the provider's own."""

    url: str
    source: str


def check_model(model: Any) -> str:
    """Return "" or a note on what could not be told in time.

    Raises:
        ModelUnusable: the model can't be asked.
    """
    if getattr(model, "_api_key", None) == "":  # mini's own classes for openrouter and requesty
        provider = re.sub(r"(Textbased|Response(API)?)?Model$", "", type(model).__name__).upper()
        raise ModelUnusable(_no_key(_name(model), (f"{provider}_API_KEY",)))
    if not _asks_litellm(model):
        return ""
    provider = _provider(model)
    endpoint = _endpoint(model, provider)
    variables = _KEYS.get(provider, ())
    if variables and not _has_key(model, variables) and (not endpoint.source or provider in _KEY_EVERYWHERE):
        raise ModelUnusable(_no_key(_name(model), variables))
    return _reach(endpoint, _name(model)) if endpoint.url else ""


def end_retries_early(model: Any) -> None:
    """Have mini retry only what waiting can mend; anything else is raised at once, as `ModelUnusable`.

    Both versions of mini retry around the model's `_query`: version 1 by a decorator, version 2 in its caller, except
    for `abort_exceptions`.
    """
    if not hasattr(type(model), "_query"):  # nothing to ask, or a stand-in, which has every attribute
        return
    query: Any = model._query
    if isinstance(query, _EndingEarly):
        return
    if "litellm" in sys.modules:
        import litellm

        litellm.suppress_debug_info = True  # it prints where to ask for help, between what matters
    retrying = getattr(query, "retry", None)
    if retrying is None:
        model._query = _EndingEarly(model, query)
        model.abort_exceptions = [*getattr(model, "abort_exceptions", ()), ModelUnusable]
        return
    from tenacity import retry_if_not_exception_type

    mendable = retrying.retry & retry_if_not_exception_type(ModelUnusable)
    model._query = _EndingEarly(model, partial(query.__wrapped__, model), retrying.copy(retry=mendable))


class _EndingEarly:
    """The `_query` of `model`, which raises what no waiting mends as `ModelUnusable`, and is retried by `retrying`."""

    def __init__(self, model: Any, query: Callable[..., Any], retrying: Callable[..., Any] | None = None) -> None:
        self._model, self._query, self._retrying = model, query, retrying
        self._answered, self._away = False, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._asked(*args, **kwargs) if self._retrying is None else self._retrying(self._asked, *args, **kwargs)

    def _asked(self, *args: Any, **kwargs: Any) -> Any:
        try:
            answer = self._query(*args, **kwargs)
        except Exception as error:
            unreachable = _unreachable(error)
            self._away = self._away + 1 if unreachable else 0
            if unreachable and self._answered and self._away <= _LATER_TRIES:
                raise
            fault = _away(self._model, error) if unreachable else _refused(self._model, error, not self._answered)
            if fault:
                raise ModelUnusable(fault) from error
            raise
        self._answered, self._away = True, 0
        return answer


def _unreachable(error: BaseException) -> bool:
    return any(
        isinstance(each, ConnectionRefusedError)
        or (isinstance(each, socket.gaierror) and each.errno == socket.EAI_NONAME)
        for each in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _away(model: Any, error: BaseException) -> str:
    endpoint = _endpoint(model, _provider(model)) if _asks_litellm(model) else Endpoint("", "")
    why = "connection refused"
    if any(isinstance(each, socket.gaierror) for each in _causes(error)):
        why = "there is no such host"
    return _dead(_name(model), endpoint, why)


def _refused(model: Any, error: Exception, first: bool) -> str:
    """Return what an endpoint refuses for good; "" for anything else.

    Args:
        first: the model has not answered yet: then it is its name that a bad request may be about.
    """
    status, name = getattr(error, "status_code", None), _name(model)
    said = f"({status}: {_quoted(error)})" if status else f"({_quoted(error)})"
    variables = _KEYS.get(_provider(model), ()) if _asks_litellm(model) else ()
    key = f"the key in ${_held(variables) or variables[0]}" if variables else "the key"
    if status == 401 or "Authentication" in type(error).__name__:
        return f"{name}: {key} is refused {said}; set one that is valid there"
    if status == 403:
        return f"{name}: {key} may not be used for it {said}; use another key or model"
    if status == 404 or (status == 400 and first and _NO_SUCH_MODEL.search(str(error))):
        base = _endpoint(model, _provider(model)) if _asks_litellm(model) else Endpoint("", "")
        where = f", or {base.source}" if base.source else ""
        return f"{name}: the endpoint knows no such model {said}; correct the model's name{where}"
    return ""


def _quoted(error: Exception) -> str:
    said = str(error).partition(" You can permanently set your API key")[0]  # mini's, which leads elsewhere
    text = Redactor().text(" ".join(said.split())).text
    text = re.sub(r"^(litellm\.)?(\w+(Error|Exception): )+(\w+Exception - )?", "", text)
    return one_line(text if len(text) <= _SAID else text[:_SAID] + "…")


def _no_key(name: str, variables: tuple[str, ...]) -> str:
    first, others = variables[0], variables[1:]
    also = f" (nor ${' or $'.join(others)})" if others else ""
    return f"{name}: there is no key, as ${first} is not set{also}; export {first}=..., or name another model"


def _dead(name: str, endpoint: Endpoint, why: str) -> str:
    where = one_line(_without_secrets(endpoint.url)) or "its endpoint"
    source = f"correct {endpoint.source}" if endpoint.source else "look after the network"
    return f"{name}: nothing answers at {where} ({why}); start what should, or {source}"


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else ""


def _name(model: Any) -> str:
    return one_line(str(getattr(getattr(model, "config", None), "model_name", "") or type(model).__name__))


def _arguments(model: Any) -> dict[str, Any]:
    return dict(getattr(model.config, "model_kwargs", None) or {})


def _asks_litellm(model: Any) -> bool:
    """Tell whether mini asks litellm for this model, and litellm asks what the model's name and arguments say."""
    ours = any(kind.__module__.startswith("minisweagent.models.litellm_") for kind in type(model).__mro__)
    litellm = sys.modules.get("litellm")
    if not ours or litellm is None or _UNTOLD & set(_arguments(model)):
        return False
    name = str(model.config.model_name)
    own = litellm.custom_provider_map or name in litellm.model_alias_map
    return not own and not name.startswith(_LOG_IN_BY_THEMSELVES)


def _provider(model: Any) -> str:
    """Return litellm's word for who is asked for `model`.

    Raises:
        ModelUnusable: litellm knows nobody.
    """
    return _found(model)[0]


def _found(model: Any) -> tuple[str, str]:
    import litellm

    name, given = str(model.config.model_name), _arguments(model)
    try:
        _, provider, _, base = litellm.get_llm_provider(
            name,
            custom_llm_provider=given.get("custom_llm_provider"),
            api_base=given.get("api_base") or given.get("base_url"),
        )
    except litellm.exceptions.BadRequestError:
        prefix, slash, _ = name.partition("/")
        known = [str(getattr(each, "value", each)) for each in litellm.provider_list]
        if slash and prefix in known:
            return prefix, ""  # it is known, and something else was wrong
        hint = did_you_mean(prefix, known, others="") if slash else ""
        hint = hint or "write PROVIDER/MODEL, for example openai/gpt-5"
        what = f"litellm knows no provider {one_line(prefix)}" if slash else "no provider is known for it"
        raise ModelUnusable(f"{_name(model)}: {what}; {hint}") from None
    return str(provider), str(base or "")


def _endpoint(model: Any, provider: str) -> Endpoint:
    """Return where litellm will ask, as far as that can be told."""
    import litellm

    given = _arguments(model)
    for name in ("api_base", "base_url"):
        if given.get(name):
            return Endpoint(str(given[name]), f"model.model_kwargs.{name}")
    if litellm.api_base:
        return Endpoint(str(litellm.api_base), "litellm.api_base")
    if held := _held(_BASES.get(provider, ())):
        return Endpoint(os.environ[held], f"${held}")
    url, variable = _found(model)[1], f"{provider.upper()}_API_BASE"
    return Endpoint(url, f"${variable}" if os.environ.get(variable) or provider == "ollama" else "")


def _held(variables: tuple[str, ...]) -> str:
    return next((name for name in variables if os.environ.get(name)), "")


def _has_key(model: Any, variables: tuple[str, ...]) -> bool:
    import litellm

    own = any(getattr(litellm, name, None) for name in ("api_key", "openai_key", "anthropic_key", "openrouter_key"))
    own = own or bool(_OWN_HEADERS & set(_arguments(model))) or litellm.secret_manager_client is not None
    return own or bool(_held(variables))


def _reach(endpoint: Endpoint, name: str) -> str:
    """Open a connection to `endpoint`, and close it: nothing is sent. Returns a note where nobody answered in time.

    In a thread, because looking up a name can't be interrupted, nor be given a time.

    Raises:
        ModelUnusable: nothing listens there.
    """
    try:
        parts = urlsplit(endpoint.url)
        host, port = parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    except ValueError:
        raise ModelUnusable(f"{name}: {one_line(endpoint.url)} is no address; correct {endpoint.source}") from None
    if not host or not port or ({parts.scheme, "all"} & getproxies().keys() and not proxy_bypass(host)):
        return ""
    done, failed = threading.Event(), list[OSError]()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=_PATIENCE).close()
        except OSError as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=connect, daemon=True, name="preflight").start()
    in_time = done.wait(_PATIENCE)
    if failed and _unreachable(failed[0]):
        refused = isinstance(failed[0], ConnectionRefusedError)
        raise ModelUnusable(_dead(name, endpoint, "connection refused" if refused else "there is no such host"))
    if not in_time or failed:
        return f"{one_line(host)}:{port}, where {name} is to be asked, has not answered yet; going on"
    return ""

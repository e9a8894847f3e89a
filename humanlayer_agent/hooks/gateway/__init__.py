"""The MCP gateway: it stands between a client, which is an agent's, and one server, and judges what the client wants.

What the client may do is done by the server itself; everything else that both say to each other is passed on. Each call
waits in a thread of its own, so one that waits for a human keeps nothing else waiting. A human is asked by the channels
and never through the client (MCP's elicitation): that is the agent's side, and could answer by itself.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.denial_texts import denial_text
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Denial, Outcome, Permit
from humanlayer_agent.audit import events
from humanlayer_agent.errors import AgentsStopped, ChannelError, ConfigError, HumanlayerError
from humanlayer_agent.hooks.gateway.calls import (
    ANSWERS,
    CALL,
    CANCELLED,
    COMPLETE,
    LIST,
    NOTICES,
    Place,
    action_of,
    beyond_arguments,
    is_judged,
    protocol_of,
)
from humanlayer_agent.hooks.gateway.clients import Client
from humanlayer_agent.hooks.gateway.doubts import DoubtingDirector
from humanlayer_agent.hooks.gateway.messages import (
    LONGEST,
    NOT_A_REQUEST,
    REFUSED,
    WRONG_PARAMS,
    Id,
    Message,
    Unfit,
    error,
    from_client,
    written,
)
from humanlayer_agent.hooks.gateway.tool_lists import Noticed, ToolLists, digest_of
from humanlayer_agent.hooks.gateway.upstreams import ServerGone, Upstream
from humanlayer_agent.hooks.judge import Elsewhere, ToolGone
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.safe_text import one_line

MAX_WAITING = 64
"""So many calls are judged, or wait for a human, at the same time."""
MAX_OPEN = 1_024
"""So many requests of one side are open at the same time."""
LAST_S = 5.0
"""Seconds to withdraw what is left when the client has gone."""
_NOBODY = (
    "answers come from elsewhere here, and no channels file names a key that they are signed with: run hla init, which "
    "makes one"
)
_CHANGED = "what the server says of this tool changed while a human was asked: propose it again"
_EDITED = "what is called is what the client has sent, or nothing: propose the other call by itself"
_ENDED = "the server has ended, and nobody knows what became of it"


class Waiting(Elsewhere):
    """The channel of a gateway: answers come from elsewhere, where anybody could give one."""

    name = "mcp"

    def __init__(self) -> None:
        super().__init__()
        self.answerable = True

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> None:
        """Wait until somebody else has answered."""
        if not self.answerable:
            raise ChannelError(_NOBODY)
        super().ask(request, until=until, cancelled=cancelled)


@dataclass(slots=True, eq=False)
class _Call:
    """A request of the client that is open: it is judged, or the server has it (`sent`)."""

    request: Message
    key: str
    sent: bool = False
    gone: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    permit: Permit | None = None
    began: float = 0.0

    @property
    def id(self) -> Id:
        found: Id = self.request["id"]
        return found

    @property
    def method(self) -> str:
        return str(self.request["method"])

    @property
    def tool(self) -> str:
        """The tool that is called; "" where it is another request."""
        return str(self.request["params"]["name"]) if self.method == CALL else ""


class Gateway:
    """One client, one server, one run in the log.

    Args:
        gate: its director is `director`, and its asker `asker`.
        director: what speaks against a call is told to it.
        asker: waits for humans.
        place: which server it is.
        lists: the tools that it has shown.
        client: where its messages come from, and go to.
        ended: called when there is nothing more to do: the client or the server has gone.
        say: says a line to whoever reads the log of the client.
    """

    def __init__(
        self,
        gate: Gate,
        director: DoubtingDirector,
        asker: Waiting,
        place: Place,
        lists: ToolLists,
        client: Client,
        *,
        ended: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._gate, self._director, self._asker = gate, director, asker
        self._place, self._lists = place, lists
        self._ended, self._say = ended, say
        self._client = client
        self._upstream: Upstream | None = None
        self._lock = threading.Lock()  # for what follows
        self._calls: dict[Id, _Call] = {}  # what the client has asked, until it is answered
        self._asked: set[Id] = set()  # what the server has asked the client
        self._asked_back: deque[str] = deque(maxlen=MAX_OPEN)  # calls that the server wants to know more of
        self._judging: set[_Call] = set()
        self._keys = itertools.count(1)
        self._closed = False
        self.failed = ""
        """Why the server has gone before the client did."""

    def serve(self, upstream: Upstream) -> None:
        """Begin to pass on what both say; it goes on until `ended` is called."""
        self._upstream = upstream
        for each in (self._read_client, self._read_server):
            threading.Thread(target=each, daemon=True).start()

    def close(self) -> None:
        """Withdraw what waits, end the server, and record what nobody knows the end of."""
        with self._lock:
            self._closed = True
            judging = list(self._judging)
        for call in judging:
            call.gone.set()
        end = time.monotonic() + LAST_S
        for call in judging:
            if call.thread is not None and call.thread.is_alive():
                call.thread.join(max(0.0, end - time.monotonic()))
        if self._upstream is not None:
            self._upstream.close()
        self._drop_calls("the gateway ended before the server had answered")
        self._gate.close()

    # What the client says

    def _read_client(self) -> None:
        try:
            for line in self._client.received():
                if line is None:
                    self._tell(error(None, NOT_A_REQUEST, f"a message may have at most {LONGEST} bytes"))
                elif line.strip():
                    self._heard(line)
        except (OSError, ServerGone) as why:
            self.failed = self.failed or (str(why) if isinstance(why, ServerGone) else "")
        finally:
            self._ended()

    def _heard(self, line: bytes) -> None:
        try:
            message = from_client(line)
        except Unfit as why:
            self._tell(error(why.id, why.code, str(why)))
            return
        if "method" not in message:
            with self._lock:
                asked = message["id"] in self._asked
                self._asked.discard(message["id"])
            if asked:
                self._send(message)
            else:
                self._say("an answer of the client to what the server has not asked was not passed on")
        elif "id" not in message:
            self._notified(message)
        else:
            self._requested(message)

    def _notified(self, message: Message) -> None:
        method = message["method"]
        if method == CANCELLED:
            self._cancelled(message)
        elif method in NOTICES:
            self._send(message)
        else:
            self._say(f"a notification {one_line(method[:80])} of the client was not passed on")

    def _requested(self, message: Message) -> None:
        call = _Call(from_client(written(message)), f"mcp-{next(self._keys)}")
        try:
            judged = is_judged(call.request)
        except Unfit as why:
            self._tell(error(call.id, why.code, str(why)))
            return
        with self._lock:
            full = len(self._calls) >= MAX_OPEN or (judged and len(self._judging) >= MAX_WAITING)
            refused = "a request with this id is open" if call.id in self._calls else ""
            refused = refused or ("too many requests are open: wait for answers" if full else "")
            if not (refused or self._closed):
                self._calls[call.id] = call
                call.sent = not judged
                if judged:
                    self._judging.add(call)
        if refused:
            self._tell(error(call.id, REFUSED, refused))
        elif judged:
            call.thread = threading.Thread(target=self._judge, args=(call,), daemon=True)
            call.thread.start()
        else:
            self._send(call.request)

    def _cancelled(self, message: Message) -> None:
        """What waits for a human is withdrawn; what the server has is for the server to end."""
        id: Any = (message.get("params") or {}).get("requestId")
        with self._lock:
            call = self._calls.pop(id, None) if type(id) in (int, str) else None
            if call is None:
                return
            call.gone.set()
        if call.sent:
            self._finish(call, Outcome(None, "the client cancelled it, and nobody knows how far it came"))
            self._send(message)

    # Judging

    def _judge(self, call: _Call) -> None:
        try:
            answer = self._decided(call)
        except ToolGone:
            answer = None
        except Unfit as why:
            answer = self._refusal(call, f"Not executed: {why}", why.code)
        except HumanlayerError as why:
            answer = self._refusal(call, f"Not executed: {why}")
        except Exception as why:
            answer = self._refusal(call, f"Not executed: the gateway failed: {describe(why)}")
        finally:
            self._director.doubts.pop(call.key, None)
            with self._lock:
                self._judging.discard(call)
        if answer is not None:
            with self._lock:
                waited_for = self._calls.get(call.id) is call
                if waited_for:
                    del self._calls[call.id]
            if waited_for:
                self._tell(answer)

    def _decided(self, call: _Call) -> Message | None:
        """The answer that the client gets from us; None where the server has been asked, or nobody waits any more."""
        action, told, doubt = self._action(call), self._lists.doubt(call.tool), self._doubt(call)
        self._director.doubts[call.key] = doubt
        if call.method == COMPLETE and (answer := self._completed(call, action)):
            return answer
        self._asker.waits_while(call.gone.is_set)
        permit = self._gate.admit(action)
        if isinstance(permit, Denial):
            return self._refusal(call, denial_text(permit))
        if permit.action.content != action.content:
            return self._taken_back(call, permit, _EDITED, edited=permit.action.content)
        if self._doubt(call) != doubt:
            return self._taken_back(call, permit, _CHANGED)
        if not permit.started and (denial := self._gate.start(permit, self._action(call))):
            return self._refusal(call, denial_text(denial))
        answer = self._forwarded(call, permit)
        if answer is None and call.tool and permit.request_id and not permit.granted:
            self._accept(call.tool, told)
        return answer

    def _accept(self, tool: str, doubt: str) -> None:
        """Keep what the server says of a tool now: a human has seen it, and approved a call."""
        try:
            self._lists.accept(tool, doubt)
        except (OSError, ConfigError) as why:
            self._say(f"what it says of {tool} can't be kept: {describe(why)}")

    def _forwarded(self, call: _Call, permit: Permit) -> Message | None:
        with self._lock:
            withdrawn = call.gone.is_set() or self._closed
            if not withdrawn:
                call.permit, call.began, call.sent = permit, time.monotonic(), True
        if withdrawn:
            self._gate.finish(permit, Outcome(None, "the client cancelled it before it was sent", started=False))
            return None
        try:
            self._send(call.request)
        except ServerGone as why:
            self._finish(call, Outcome(None, f"not sent: {why}", started=False))
            return error(call.id, REFUSED, str(why))
        return None

    def _action(self, call: _Call) -> Action:
        """The action that is judged, made of the message that is sent.

        Raises:
            Unfit: it can't be judged, or a careless server could read it otherwise.
        """
        action = action_of(call.request, self._place, call.key)
        if call.tool:
            known = {each.casefold(): each for each in self._lists.properties(call.tool)}
            for each in call.request["params"].get("arguments") or {}:
                if known.get(each.casefold(), each) != each:
                    raise Unfit(
                        f"{ascii(each)[:60]} is no argument: it is written {known[each.casefold()]}", WRONG_PARAMS
                    )
        return action

    def _doubt(self, call: _Call) -> str:
        said = self._lists.doubt(call.tool) if call.tool else ""
        more = beyond_arguments(call.request)
        if _state(call.request) in self._asked_back:
            more -= ANSWERS
        if more:
            named = one_line(", ".join(sorted(more))[:200])
            said = f"{said} Besides its arguments the server gets {named}.".strip()
        return said

    def _completed(self, call: _Call, action: Action) -> Message | None:
        """The answer where a completion is not allowed: none is offered. Nobody is asked while somebody types."""
        decision = self._director.evaluate(action)
        if decision.verdict is Verdict.ALLOW or not decision.enforced:
            return None
        with suppress(AgentsStopped):  # then none is offered either
            self._gate.record(action, decision, denied="nobody is asked about completions")
        return self._result(call, {"completion": {"values": [], "total": 0, "hasMore": False}})

    def _taken_back(self, call: _Call, permit: Permit, why: str, *, edited: str = "") -> Message:
        """The refusal of what was permitted and is not to run."""
        if permit.started:
            self._gate.finish(permit, Outcome(None, why, started=False))
        else:
            self._gate.store.void(permit.id, why)
        by: Any = "human" if edited else "policy"
        denial = Denial(why, by=by, decision=permit.decision, request_id=permit.request_id, edited=edited)
        return self._refusal(call, denial_text(denial))

    def _refusal(self, call: _Call, text: str, code: int = REFUSED) -> Message:
        """What the client gets instead of a result: of a tool, words that the agent reads."""
        if call.method != CALL:
            return error(call.id, code, text)
        return self._result(call, {"content": [{"type": "text", "text": text}], "isError": True})

    def _result(self, call: _Call, result: Message) -> Message:
        kind = {"resultType": "complete"} if protocol_of(call.request) else {}
        return {"jsonrpc": "2.0", "id": call.id, "result": result | kind}

    # What the server says

    def _read_server(self) -> None:
        assert self._upstream is not None
        try:
            for message in self._upstream.received():
                if isinstance(message, Unfit):
                    self._say(f"what the server has sent is no message: {one_line(str(message)[:300])}")
                else:
                    self._told(message)
            why = "the server has ended"
        except (OSError, ServerGone) as error:
            why = str(error)
        except Exception as error:
            why = f"the gateway failed: {describe(error)}"
        if not self._closed:
            self.failed = self.failed or why
            self._drop_calls(_ENDED)
        self._ended()

    def _told(self, message: Message) -> None:
        id = message.get("id")
        if "method" in message:
            if id is not None and not self._may_ask(id):
                return
            if message["method"] == CANCELLED:
                params = message.get("params")
                ended = params.get("requestId") if isinstance(params, dict) else None
                with self._lock:
                    self._asked -= {ended} if type(ended) in (int, str) else set()
            self._tell(message)
            return
        with self._lock:
            call = self._calls.get(id) if id is not None else None
            if call is not None and call.sent:
                del self._calls[call.id]
        if call is None or not call.sent:
            self._say("an answer of the server to what it was not asked was not passed on")
            return
        if call.method == LIST and "result" in message:
            message = self._listed(call, message)
        result = message.get("result")
        if call.tool and isinstance(result, dict) and result.get("resultType") == "input_required":
            self._asked_back.append(_state(call.request, result.get("requestState")))
        self._finish(call, _outcome(message))
        self._tell(message)

    def _may_ask(self, id: Id) -> bool:
        with self._lock:
            again, full = id in self._asked, len(self._asked) >= MAX_OPEN
            if not (again or full):
                self._asked.add(id)
        if again or full:
            self._say(
                "a request of the server was not passed on: " + ("its id is in use" if again else "too many are open")
            )
        return not (again or full)

    def _listed(self, call: _Call, message: Message) -> Message:
        """Note a list of tools before the client sees it; an error in its place where that can't be."""
        result = message["result"]
        params = call.request.get("params") or {}
        try:
            tools = result["tools"]
            if not isinstance(tools, list):
                raise ValueError("tools is no list")
            noticed = self._lists.note(
                tools, begins=params.get("cursor") is None, ends=result.get("nextCursor") is None
            )
        except (KeyError, TypeError, ValueError, OSError, RecursionError, ConfigError) as why:
            return error(call.id, REFUSED, f"the list of tools can't be taken: {one_line(describe(why))}")
        if noticed:
            self._notice(noticed)
        return message

    def _notice(self, noticed: Noticed) -> None:
        kind = events.TOOLS_LISTED if noticed.first else events.TOOLS_CHANGED
        said = {
            "added": [one_line(each) for each in noticed.added],
            "changed": [one_line(each) for each in noticed.changed],
            "removed": [one_line(each) for each in noticed.removed],
        }
        self._gate.store.record(kind, run=self._gate.run_id, server=self._place.server, **said)
        if noticed.first:
            self._say(f"its tools are seen for the first time: {', '.join(said['added'])[:2_000]}")
        else:
            parts = [f"{name}: {', '.join(names)[:600]}" for name, names in said.items() if names]
            self._say(f"its tools are not those that were seen before ({'; '.join(parts)})")

    # Both

    def _finish(self, call: _Call, outcome: Outcome) -> None:
        """Record how what was permitted ended."""
        with self._lock:
            permit, call.permit = call.permit, None
        if permit is not None:
            took = int((time.monotonic() - call.began) * 1000)
            self._gate.finish(permit, Outcome(outcome.returncode, outcome.detail, took, started=outcome.started))

    def _drop_calls(self, why: str) -> None:
        """Answer what nobody answers any more."""
        with self._lock:
            left = [call for call in self._calls.values() if call.sent]
            for call in left:
                del self._calls[call.id]
        for call in left:
            self._finish(call, Outcome(None, why))
            if not self._closed:
                self._tell(error(call.id, REFUSED, why))

    def _send(self, message: Message) -> None:
        assert self._upstream is not None
        self._upstream.send(message)

    def _tell(self, message: Message) -> None:
        """Send a message to the client; where nobody reads it any more, there is nothing more to do."""
        try:
            self._client.send(message)
        except OSError:
            self._ended()


def _state(request: Message, *state: Any) -> str:
    """What a call and its continuation have in common: the tool, its arguments, and the state that the server gave."""
    params = request.get("params") or {}
    given = state[0] if state else params.get("requestState")
    return digest_of([params.get("name"), params.get("arguments") or {}, given])


def _outcome(response: Message) -> Outcome:
    """How a call ended, by what the server says."""
    if "error" in response:
        said = response["error"]
        code = said.get("code") if isinstance(said, dict) else None
        return Outcome(None, f"the server answered with an error ({one_line(str(code))[:20]})")
    result = response.get("result")
    if not isinstance(result, dict):
        return Outcome(None, "the server answered with no result")
    if result.get("isError"):
        return Outcome(1, "the tool says that it failed")
    kind = result.get("resultType", "complete")
    if kind != "complete" or "task" in result:
        return Outcome(None, "it goes on: the server did not answer with its end")
    return Outcome(0)

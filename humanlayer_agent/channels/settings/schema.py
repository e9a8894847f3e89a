"""The form of a channels file (`channels.yaml`), checked strictly: who may approve, over what, in which order."""

import re
from datetime import time
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyAddress,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from humanlayer_agent.policy.conditions.circumstances import zone
from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.field_types import DURATION_SCHEMA, UNITS, milliseconds
from humanlayer_agent.policy.language.yaml_positions import explained

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SlackUser = Annotated[str, Field(pattern=r"^T[A-Z0-9]{2,20}/[UW][A-Z0-9]{2,20}$")]
SlackGroup = Annotated[str, Field(pattern=r"^T[A-Z0-9]{2,20}/S[A-Z0-9]{2,20}$")]
Email = Annotated[str, Field(pattern=r"^[^\s@<>,;:\"()]{1,64}@[A-Za-z0-9.-]{1,190}$")]
OwnAddress = Annotated[str, Field(pattern=r"^[^\s@<>,;:\"()+]{1,16}@[A-Za-z0-9.-]{1,190}$")]
"""An address of ours: its local part is short, so that a plus sign and a token (48 characters) fit behind it."""
PublicUrl = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?$")]
OsUser = Annotated[str, Field(pattern=r"^([0-9a-f]{12}/)?[A-Za-z0-9_][A-Za-z0-9_.$-]{0,63}$")]
"""A name or a uid; after the name of a machine (`processes.identity.machine_name`), of that machine alone."""
AppUser = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}$")]
"""A user of a program that embeds a Gate and knows its users itself (`Gate.answer`)."""
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
Assurance = Literal["os", "mail-reply", "chat", "mail-link", "login", "terminal"]
_SLACK_API = r"^(https://(slack|slack-gov)\.com/api/|http://127\.0\.0\.1:[0-9]{1,5}/api/)$"
"""Slack, Slack for governments, or a fake one on this machine: nobody else gets the tokens."""


_WEBHOOK = re.compile(
    r"(https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|http://127\.0\.0\.1:[0-9]{1,5})"
    r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,1000}(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]{0,1000})?"
)


def _webhook_url(value: str) -> str:
    if not _WEBHOOK.fullmatch(value):
        raise ValueError(
            "url: expected https://HOST/PATH without a user or a fragment (http://127.0.0.1:PORT/ on this machine)"
        )
    return value


Duration = Annotated[int, BeforeValidator(milliseconds), WithJsonSchema(dict(DURATION_SCHEMA))]


Listen = Annotated[str, Field(pattern=r"^(\[[0-9a-fA-F:]+\]|[0-9.]+):[0-9]{1,5}$")]


def _is_own(listen: str) -> bool:
    """Tell whether an address and port to listen at can be reached from this machine alone."""
    address, _, port = listen.rpartition(":")
    try:
        own = ip_address(address.strip("[]")).is_loopback
    except ValueError as error:
        raise ValueError(f"listen: {error}") from None
    if not 0 < int(port) < 65536:
        raise ValueError(f"listen: {port} is no port")
    return own


if TYPE_CHECKING:
    from humanlayer_agent.channels.contract import Schedule

_T = TypeVar("_T")
_Some = Annotated[
    list[_T],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=_T | list[_T]),
]
"""A list, of which one may be written without brackets."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Person(_Strict):
    """The identities of one person. A display name is none: anybody can take it."""

    slack: SlackUser | None = None
    email: Email | None = None
    os_user: OsUser | None = None
    app: AppUser | None = None

    @model_validator(mode="after")
    def _known(self) -> "Person":
        if not (self.slack or self.email or self.os_user or self.app):
            raise ValueError("a person needs one of slack, email, os_user, app")
        return self


class UserGroup(_Strict):
    """A Slack user group; who is in it is asked of Slack each time."""

    slack_usergroup: SlackGroup


class Terminal(_Strict):
    """The terminal of the run. `bell` rings it once for each request."""

    type: Literal["terminal"]
    bell: bool = False


class Digest(_Strict):
    """A daily digest, in figures: at a time of day (`at`, as "09:00") in a zone (`tz`, as Europe/Berlin).

    `post_to` is the id of another conversation than the channel's own.
    """

    at: Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    tz: str = "UTC"
    post_to: Annotated[str, Field(pattern=r"^[CGD][A-Z0-9]{2,20}$")] | None = None

    @field_validator("tz")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            zone(value)
        except (ValueError, OSError, KeyError):
            raise ValueError(f"tz: {value!r} is no time zone, as Europe/Berlin is one") from None
        return value

    @property
    def schedule(self) -> "Schedule":
        """The time at which that is."""
        from humanlayer_agent.channels.contract import Schedule

        return Schedule(time.fromisoformat(self.at), self.tz)


class Slack(_Strict):
    """A Slack channel. With `mode: socket` the hub opens connections to Slack; with `mode: http` Slack sends requests
    to `listen` and `path` by way of a TLS proxy of yours, signed with the app's signing secret.

    `app_token_env` and `connections` are of the first mode alone, `signing_secret_env`, `listen`, `path` and `peers`
    (the addresses of a proxy that is not on this machine) of the second.
    """

    type: Literal["slack"]
    mode: Literal["socket", "http"] = "socket"
    post_to: Annotated[str, Field(pattern=r"^(\$\{[A-Z0-9_]+\}|[CGD][A-Z0-9]{2,20})$")]
    bot_token_env: Variable = "SLACK_BOT_TOKEN"
    app_token_env: Variable | None = None
    connections: Annotated[int, Field(ge=1, le=4)] = 2
    signing_secret_env: Variable | None = None
    listen: Listen = "127.0.0.1:8766"
    path: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._~/-]{0,200}$")] = "/slack"
    peers: Annotated[list[IPvAnyAddress], Field(max_length=16)] = []
    digest: Digest | None = None
    pace: Annotated[float, Field(ge=0, le=60)] = 1.0
    api_url: Annotated[str, Field(pattern=_SLACK_API)] = "https://slack.com/api/"

    @model_validator(mode="before")
    @classmethod
    def _by_mode(cls, value: Any) -> Any:
        """Name the variable of the secret that the mode takes; what belongs to the other mode is a mistake."""
        if not isinstance(value, dict):
            return value
        http = value.get("mode") == "http"
        for key in _OF_SOCKET_MODE if http else _OF_HTTP_MODE:
            if key in value:
                raise ValueError(f"{key} is of mode {_mode(not http)}, and this is mode {_mode(http)}")
        key, name = ("signing_secret_env", "SLACK_SIGNING_SECRET") if http else ("app_token_env", "SLACK_APP_TOKEN")
        return {key: name, **value}

    @model_validator(mode="after")
    def _private(self) -> "Slack":
        if not _is_own(self.listen) and not self.peers:
            raise ValueError(
                "listen: it has no TLS of its own, so it listens on 127.0.0.1 only, or behind a proxy: name its peers"
            )
        return self


_OF_SOCKET_MODE = ("app_token_env", "connections")
_OF_HTTP_MODE = ("signing_secret_env", "listen", "path", "peers")


def _mode(http: bool) -> str:
    return "http" if http else "socket"


class Server(_Strict):
    """A mail server. Passwords stand in the environment; the file names the variables only.

    There is no setting that leaves TLS out or takes a certificate unchecked; `ca` is the file of a certificate
    authority of your own (PEM). Without `tls`, ports 465 and 993 begin with it, others by STARTTLS.
    """

    host: Annotated[str, Field(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65535)]
    tls: Literal["starttls", "implicit"] | None = None
    ca: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    user_env: Variable | None = None
    password_env: Variable | None = None


class Mail(_Strict):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    type: Literal["email"]
    sender: Annotated[OwnAddress, Field(alias="from")]
    smtp: Server
    imap: Server | None = None
    reply_to: OwnAddress | None = None
    authserv_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,253}$")] | None = None
    public_url: PublicUrl | None = None
    heads_to: Email | None = None
    heads_every: Annotated[Duration, Field(ge=UNITS["h"])] = UNITS["d"]

    @model_validator(mode="after")
    def _answerable(self) -> "Mail":
        if self.imap and not self.authserv_id:
            raise ValueError(
                "replies need authserv_id: the name your mail server writes first in its Authentication-Results header"
            )
        if not self.imap and not self.public_url:
            raise ValueError("nobody could answer: give public_url (links to the web inbox), or imap (replies)")
        return self


class Proxy(_Strict):
    """A reverse proxy that has checked who somebody is, and says so in a header: their mail address.

    The header counts only in what comes from `peers`; the proxy must take away what others put into it.
    """

    peers: Annotated[list[IPvAnyAddress], Field(min_length=1, max_length=16)]
    header: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")] = "X-Forwarded-Email"

    @model_validator(mode="after")
    def _elsewhere(self) -> "Proxy":
        if any(peer.is_loopback or peer.is_unspecified for peer in self.peers):
            raise ValueError("peers: not on this machine, where an agent's commands could send the same header")
        return self


class Web(_Strict):
    """The web inbox. It listens on this machine alone, unless all that reaches it comes by a proxy."""

    type: Literal["web"]
    listen: Listen = "127.0.0.1:8765"
    public_url: PublicUrl | None = None
    hosts: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?$")]] = []
    proxy: Proxy | None = None

    @model_validator(mode="after")
    def _private(self) -> "Web":
        if not _is_own(self.listen) and self.proxy is None:
            raise ValueError(
                "listen: it has no TLS of its own, so it listens on 127.0.0.1 only, or behind a proxy: name its peers"
            )
        return self


class Webhook(_Strict):
    """Signed events to one address, for every other chat: CloudEvents by POST, as Standard Webhooks signs them.

    They can't be answered: each has a link to `inbox`, the name of a channel of type web. `ca` is the file of a
    certificate authority of your own (PEM).
    """

    type: Literal["webhook"]
    url: Annotated[str, AfterValidator(_webhook_url)]
    secret_env: Variable = "WEBHOOK_SECRET"
    inbox: Name = "web"
    ca: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    pace: Annotated[float, Field(ge=0, le=60)] = 0.2


Channel = Annotated[Terminal | Slack | Mail | Web | Webhook, Field(discriminator="type")]


OwnPath = Annotated[str, Field(pattern=r"^(/|~/)[^\x00\n]{1,1000}$")]


class OnCall(_Strict):
    """Who of a step's approvers is on call: names, one a line, in a file, or printed by a command.

    Paths are whole ones (`/` or `~/`): nobody's working directory may say which program runs.
    """

    file: OwnPath | None = None
    command: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None

    @model_validator(mode="after")
    def _one(self) -> "OnCall":
        if (self.file is None) == (self.command is None):
            raise ValueError("on_call needs file or command, one of them")
        if self.command and not self.command[0].startswith(("/", "~/")):
            raise ValueError("on_call: name the command by its whole path (/... or ~/...)")
        return self


class Step(_Strict):
    """One channel of a route, and how long after the request it is used."""

    to: Name
    after: Duration = 0
    approvers: list[str] | None = None
    on_call: OnCall | None = None


class Route(_Strict):
    approvers: list[str] = []
    quorum: Annotated[int, Field(ge=1, le=32)] = 1
    solo: bool = False
    min_assurance: Assurance = "os"
    usergroup_high: bool = False
    timeout: Duration = 3_600_000
    valid_for: Duration = 60_000
    slow_down: Duration | None = None
    second_after: Annotated[int, Field(ge=1, le=10_000)] | None = None
    steps: Annotated[list[Step], Field(min_length=1, max_length=16)]

    @model_validator(mode="after")
    def _answerable(self) -> "Route":
        if not self.approvers and not self.solo:
            raise ValueError("nobody could answer: name approvers, or say solo: true")
        if any(step.after >= self.timeout for step in self.steps):
            raise ValueError("a step comes after the timeout: nobody would be asked by it")
        return self


class Routing(_Strict):
    """The route of requests of some projects, severities or agents, for which a policy names none: all that is said
    here has to be so, and the first entry that fits counts.

    `project` are folders (`/` or `~/`): a project in or below one of them. `agent` are names, with `*` and `?`.
    """

    route: Name
    project: _Some[OwnPath] = []
    severity: _Some[Literal["low", "medium", "high", "critical"]] = []
    agent: _Some[Annotated[str, Field(min_length=1, max_length=100)]] = []

    @model_validator(mode="after")
    def _says_something(self) -> "Routing":
        if not (self.project or self.severity or self.agent):
            raise ValueError("routing needs project, severity or agent: for every request there is the route default")
        return self


_Place = Annotated[str, Field(max_length=2000, pattern=r"^(/|~/|https://|git\+https://|git\+file://)")]


class SignerSource(_Strict):
    """The signed list that signers are taken from: its name, whose keys may sign it, and where new ones come from (a
    file, `https://HOST/PATH`, or `git+https://HOST/REPOSITORY#BRANCH:PATH`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    fleet: Name
    signed_by: Annotated[_Some[Fingerprint], Field(min_length=1)]
    source: Annotated[_Place | None, Field(alias="from")] = None


class Profile(_Strict):
    """A channels file."""

    version: Literal[1]
    extends: Annotated[list[str], Field(max_length=8)] = []
    set: dict[Variable, str] = {}
    people: dict[Name, Person] = {}
    groups: dict[Name, Annotated[list[Name], Field(min_length=1)] | UserGroup] = {}
    channels: dict[Name, Channel] = {}
    routes: dict[Name, Route] = {}
    routing: Annotated[list[Routing], Field(max_length=64)] = []
    signers: list[Fingerprint] | SignerSource = []
    secrets: list[Variable] = []
    break_glass: list[Name] = []

    @field_validator("groups", mode="before")
    @classmethod
    def _groups(cls, value: Any) -> Any:
        return {k: [v] if isinstance(v, str) else v for k, v in value.items()} if isinstance(value, dict) else value


def check(document: yaml_positions.Document) -> Profile:
    """Check one document by itself. Raises PolicyError (a ConfigError) with file:line:column."""
    if not isinstance(document.data, dict):
        raise document.error((), "expected a mapping with the keys version, people, channels, routes")
    try:
        return Profile.model_validate(document.data)
    except ValidationError as error:
        raise explained(document, error, Profile) from None

"""Draws the pictures of our pages from the real program: the terminal prompt, the message in Slack, and their scopes.

    python docs/render_pictures.py [--into docs/pictures]

The prompt runs on a pseudo-terminal, and a terminal emulator (pyte) says what stands where. The message is what the
Slack channel posts to the fake Slack of `humanlayer_agent.testing`, drawn with HTML. A headless Chromium makes the
pictures. Needs `chromium` and the packages of the extra `test`. What is shown is judged by the shipped policy; nothing
is run.
"""

import argparse
import html
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pexpect
import pyte

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.model import ApprovalRequest, Approver
from humanlayer_agent.channels.contract import Audience
from humanlayer_agent.policy.director import Director
from humanlayer_agent.testing.fake_slack import APP_TOKEN, BOT_TOKEN, CHANNEL, TEAM, FakeSlack

COMMAND = """cd /srv/app && git status --short
rm -rf build /var/lib/app/cache
curl -fsS https://cache.example.com/warm -d @hosts.json"""
INTENT = "The build is stale: I remove it with the cache, and have the cache server warm up again."
FETCH = "curl -fsS https://cache.example.com/releases/8.json"
EARLIER = ("curl -fsS https://cache.example.com/releases/7.json", "curl -fsS https://mirror.example.org/8.json")
"""What more is allowed of, and what was asked about before."""
HELD = "rm -r old && sed -i s/8/9/ app/version.py"
"""What is run held before it is asked about, in a project of its own."""
HELD_FILES = {
    "app/version.py": 'NAME = "shop"\nVERSION = "8"\n',
    "old/notes.md": "Nobody has read these since the spring.\n" * 2,
}
HELD_POLICY = """\
version: 1
policy: shop
extends: builtin:default
rules:
  - id: deletes-are-tried-first
    decision: ask
    hold: true
    severity: medium
    reason: "{{ does }}."
    when: {effect: delete, paths: {any_within: ["${PROJECT}/**"]}}
    tests: {match: ["rm -r old"], not_match: [ls]}
"""
ROWS, COLUMNS = 36, 96
SCALE = 1.5
LARGEST = 200 * 1024
"""Bytes of a picture in the repository."""

_ASK = "import sys; sys.path.insert(0, sys.argv[1]); import render_pictures; render_pictures.ask(sys.argv[2])"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
COLOURS = {
    "black": "#1e1e2e", "red": "#f38ba8", "green": "#a6e3a1", "brown": "#f9e2af", "blue": "#89b4fa",
    "magenta": "#cba6f7", "cyan": "#94e2d5", "white": "#cdd6f4", "default": "#cdd6f4",
    "brightblack": "#7f849c", "brightred": "#f38ba8", "brightgreen": "#a6e3a1", "brightbrown": "#f9e2af",
    "brightblue": "#89b4fa", "brightmagenta": "#cba6f7", "brightcyan": "#94e2d5", "brightwhite": "#ffffff",
}  # fmt: skip
BACKGROUND = "#1e1e2e"


def request(command: str = COMMAND, intent: str = INTENT) -> ApprovalRequest:
    """A request as the shipped policy judges it."""
    action = Action(
        command,
        cwd="/srv/app",
        project="/srv/app",
        agent="mini-swe-agent",
        run_id="39a8845864a1",
        step=4,
        model_intent=intent,
    )
    decision = Director.load("default", project=Path(action.project), environ={}).evaluate(action)
    rule = ApprovalRule("default", ("alice",), solo=True, steps=(Step("slack"), Step("email", 900_000)))
    rule = Authority((Person("alice", ("os:1000",)),), {"default": rule}).rule_for(decision)
    now = time.time_ns() // 1_000_000
    return ApprovalRequest(
        "7f3a91c2" * 4, "k", "5d" * 32, {}, action, decision, "os:1000:alice", now, now + 600_000, 60_000, rule=rule
    )


def held_request() -> ApprovalRequest:
    """A request about what a real held run has changed."""
    from humanlayer_agent import ActionDenied, Gate
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.testing.approvers import ScriptedAsker

    # Not below a folder for temporary files: those the policy leaves to agents.
    above = "/srv" if os.access("/srv", os.W_OK) else pwd.getpwuid(os.getuid()).pw_dir
    with tempfile.TemporaryDirectory(prefix="app-", dir=above) as folder:
        project = Path(folder, "shop")
        for name, text in HELD_FILES.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        policy = Path(folder, "policy.yaml")
        policy.write_text(HELD_POLICY)
        store = Path(folder, "store.sqlite3")
        human = ScriptedAsker(["reject"], approver=Approver(os_user(), "terminal", "terminal"))
        settings: dict[str, Any] = {
            "policy": policy,
            "project": project,
            "confine": True,
            "store": store,
            "agent": "shop-api",
        }
        with Gate.from_config(user=human, **settings) as gate, suppress(ActionDenied):
            gate.run(HELD, cwd=str(project))
    (asked,) = human.asked
    return asked


# ---- the terminal -----------------------------------------------------------------------------------


def ask(command: str) -> None:
    """Put the request before whoever sits at this terminal. (Runs in a process of its own.)"""
    from humanlayer_agent.channels import terminal

    terminal.multiplexer = lambda: ""  # as in a terminal emulator: here it is this script that holds the terminal
    before = [replace(request(each), id=each, digest=each, state="approved") for each in EARLIER]
    asked = held_request() if command == HELD else request(command, "" if command == FETCH else INTENT)
    asked = replace(asked, earlier=lambda last: before)
    terminal.TerminalAsker().ask(asked, until=asked.expires - 9_000, cancelled=lambda: False)


def terminal_page(command: str = COMMAND, key: str = "") -> str:
    """What the prompt shows, after a key where there is one."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory() as home:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "XDG_STATE_HOME": home,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        arguments = ["-c", _ASK, str(Path(__file__).parent), command]
        child = pexpect.spawn(sys.executable, arguments, env=environ, dimensions=(ROWS, COLUMNS), timeout=30)
        end = time.monotonic() + 60
        quiet = 0  # since the prompt is there: it arms, and then it is drawn once a second
        while quiet < 12:
            with suppress(pexpect.TIMEOUT):
                stream.feed(child.read_nonblocking(65536, timeout=0.1))
            if time.monotonic() > end:
                raise SystemExit("the prompt never came")
            quiet += any(label in line for label in ("run once", "b back", "apply this") for line in screen.display)
            if key and _counts(screen, "y run once"):
                child.send(key)
                key, quiet = "", 0
        child.close(force=True)
    rows = [_row(screen, number) for number in range(ROWS)]
    while rows and not rows[-1].strip():
        rows.pop()
    while rows and not rows[0].strip():
        rows.pop(0)
    style = (
        f"body{{margin:0;background:{BACKGROUND};display:inline-block;padding:14px 18px}}"
        f"pre{{margin:0;color:{COLOURS['default']};font:14px/1.32 'Liberation Mono','DejaVu Sans Mono',monospace}}"
    )
    return _page(style, f"<pre>{chr(10).join(rows)}</pre>")


def _counts(screen: pyte.Screen, label: str) -> bool:
    """Tell whether a key is drawn as one that counts."""
    found = [(row, line.find(label)) for row, line in enumerate(screen.display) if label in line]
    return any(screen.buffer[row][column].bold for row, column in found)


def _row(screen: pyte.Screen, number: int) -> str:
    """One row of the screen as HTML."""
    found, cells = [], [screen.buffer[number][column] for column in range(COLUMNS)]
    while cells and cells[-1].data == " " and not cells[-1].reverse:
        cells.pop()
    for cell in cells:
        front, back = colour(cell.fg, "default"), colour(cell.bg, "")
        if cell.reverse:
            front, back = back or BACKGROUND, front
        style = f"color:{front}" + (f";background:{back}" if back else "")
        style += ";font-weight:bold" if cell.bold else ""
        style += ";text-decoration:underline" if cell.underscore else ""
        found.append(f'<span style="{style}">{html.escape(cell.data)}</span>')
    return "".join(found)


def colour(name: str, default: str) -> str:
    if name == "default":
        return COLOURS[default] if default else ""
    return COLOURS.get(name, f"#{name}")


# ---- Slack ------------------------------------------------------------------------------------------

_SLACK_STYLE = """
body{margin:0;background:#fff;color:#1d1c1d;font:15px/1.46 Lato,'Liberation Sans',Arial,sans-serif;width:660px}
.message{display:flex;padding:14px 18px;gap:10px}
.icon{width:36px;height:36px;border-radius:6px;background:#1d3557;color:#fff;flex:none;text-align:center;
font:bold 20px/36px 'Liberation Sans',sans-serif}
.body{flex:1;min-width:0} .name{font-weight:900} .app{background:#dddde1;color:#616061;font-size:10px;border-radius:3px;
padding:1px 3px;margin:0 5px;font-weight:bold} .time{color:#616061;font-size:12px}
.header{font-weight:900;font-size:18px;margin:6px 0 4px} .section{margin:6px 0;white-space:pre-wrap}
.context{color:#616061;font-size:13px;margin:6px 0;white-space:pre-wrap} .context span+span::before{content:"  ·  "}
pre{background:#f8f8f8;border:1px solid #ddd;border-radius:4px;padding:8px;margin:6px 0;white-space:pre-wrap;
word-break:break-word;font:12px/1.5 Monaco,'Liberation Mono',monospace}
.mention{background:#e8f5fa;color:#1264a3;border-radius:3px;padding:0 2px 1px}
.buttons{display:flex;flex-wrap:wrap;gap:8px;margin-top:10px}
.button{border:1px solid #bbb;border-radius:4px;padding:4px 12px;
font-weight:bold;font-size:15px;background:#fff;white-space:nowrap}
.primary{background:#007a5a;color:#fff;border-color:#007a5a}
.danger{background:#fff;color:#e01e5a;border-color:#e01e5a}
.modal{padding:20px 24px} .title{font-weight:900;font-size:22px;margin-bottom:12px}
hr{border:0;border-top:1px solid #ddd}
.beside{float:right;margin-left:12px}
.label{font-weight:bold;margin-top:14px} .end{justify-content:flex-end} .option{display:flex;gap:8px;margin:6px 0}
.option i{width:14px;height:14px;border:2px solid #868686;border-radius:50%;flex:none;margin-top:2px}
"""


def slack_page(asked: ApprovalRequest | None = None) -> str:
    """What the channel posts."""
    from humanlayer_agent.channels.slack.api import SlackApi
    from humanlayer_agent.channels.slack.channel import SlackChannel

    with FakeSlack() as slack:
        api = SlackApi(
            bot_token=BOT_TOKEN,
            app_token=APP_TOKEN,
            bot_variable="SLACK_BOT_TOKEN",
            app_variable="SLACK_APP_TOKEN",
            url=slack.api_url,
        )
        channel = SlackChannel("slack", api, CHANNEL)
        channel.deliver(asked or request(), Audience((Person("alice", (f"slack:{TEAM}/U0ALICE",)),)))
        posted = slack.messages()[-1]
        names = {user: str(info["name"]) for user, info in slack.world.users.items()}
    inner = "".join(_block(block, names) for block in posted["blocks"])
    stamp = time.strftime("%H:%M")
    head = f'<span class="name">humanlayer</span><span class="app">APP</span><span class="time">{stamp}</span>'
    body = f'<div class="message"><div class="icon">h</div><div class="body">{head}{inner}</div></div>'
    return _page(_SLACK_STYLE, body)


def slack_form_page() -> str:
    """The form that the channel opens where more than once may be approved."""
    from humanlayer_agent.approvals.grants import offers
    from humanlayer_agent.channels.offers import foresight
    from humanlayer_agent.channels.slack import forms, message

    asked = request(FETCH, "")
    before = [replace(request(each), id=each, digest=each, state="approved") for each in EARLIER]
    seen = {offer.name: foresight(asked, offer.name, before, redacted=True) for offer in offers(asked)}
    origin = forms.Origin(asked.id, "0" * 16, CHANNEL, "1.1")
    view = forms.scopes(message.shown(asked), seen, dict.fromkeys(seen, "0" * 16), origin)
    inner = "".join(_input(block) if block["type"] == "input" else _block(block, {}) for block in view["blocks"])
    title, submit, close = (html.escape(view[name]["text"]) for name in ("title", "submit", "close"))
    buttons = f'<div class="button">{close}</div><div class="button primary">{submit}</div>'
    body = f'<div class="modal"><div class="title">{title}</div>{inner}<div class="buttons end">{buttons}</div></div>'
    return _page(_SLACK_STYLE, body)


class _Desk:
    """The desk of a hub where alice may answer everything."""

    def person_of(self, principal: str) -> Person | None:
        return Person(principal.removeprefix("os:1000:"), (principal,)) if principal else None

    def may_answer(self, *who: object) -> bool:
        return True


def slack_home_page() -> str:
    """The home of the app, as alice sees it."""
    from humanlayer_agent.approvals.grants import Grant, offers
    from humanlayer_agent.approvals.model import Approver, Vote
    from humanlayer_agent.channels.contract import Outcome
    from humanlayer_agent.channels.slack import home
    from humanlayer_agent.channels.slack.seal import Seal

    asked, fetched = request(), request(FETCH, "")
    approver = Approver("os:1000:alice", "slack", "chat")
    now = fetched.created
    scope = replace(offers(fetched)[0].scope, until=now + 3_600_000).text()
    vote = Vote(fetched.id, "approve", approver, fetched.digest, "d", "", "click", now, person="alice", scope=scope)
    grant = Grant(fetched.id, fetched, now, now + 3_600_000, 3, 50, None, "", (vote,))
    decided = [
        Outcome(replace(request(command, ""), state=state, decided=now - ago, decided_by="os:1000:alice"), by=by)
        for command, state, ago, by in (
            (EARLIER[0], "approved", 3_000_000, "alice"),
            ("git push --force origin main", "rejected", 1_900_000, "bob"),
            ("terraform apply a.plan", "expired", 600_000, ""),
        )
    ]
    held = home.Held((Outcome(asked), Outcome(fetched)), (), tuple(decided), (grant,), "")
    view = home.view(_Desk(), held, home.Account("os:1000:alice", ()), Seal("x"))  # type: ignore[arg-type]
    body = "".join(_block(block, {}) for block in view["blocks"])
    body = body.translate(dict.fromkeys(map(ord, "✅⛔⌛")))  # few fonts have them
    return _page(_SLACK_STYLE, f'<div class="modal">{body}</div>')


def slack_digest_page() -> str:
    """The figures of a day."""
    from humanlayer_agent.channels.contract import DailyDigest
    from humanlayer_agent.channels.slack import message

    now = time.time_ns() // 1_000_000
    digest = DailyDigest(
        day=time.strftime("%Y-%m-%d"),
        since=now - 86_400_000,
        until=now,
        judged={"allow": 1834, "ask": 41, "deny": 17},
        endings={"approved": 29, "rejected": 8, "expired": 2, "answered": 2},
        waiting=3,
        oldest=now - 1_500_000,
        minutes=2.4,
        answered=[("alice", 27), ("bob", 12)],
        asked_by=[("delete-outside-project", 14), ("network", 11), ("git-push", 9)],
        denied_by=[("own-files", 9), ("history", 8)],
        grants=2,
        stopped="",
        more=False,
    )
    inner = "".join(_block(block, {}) for block in message.summary(digest).blocks)
    head = f'<span class="name">humanlayer</span><span class="app">APP</span><span class="time">09:00</span>{inner}'
    return _page(_SLACK_STYLE, f'<div class="message"><div class="icon">h</div><div class="body">{head}</div></div>')


def _input(block: dict[str, Any]) -> str:
    options = "".join(
        f'<div class="option"><i></i>{html.escape(each["text"]["text"])}</div>' for each in block["element"]["options"]
    )
    hint = html.escape(block["hint"]["text"])
    return f'<div class="label">{html.escape(block["label"]["text"])}</div>{options}<div class="context">{hint}</div>'


def _block(block: dict[str, Any], names: dict[str, str]) -> str:
    kind = block["type"]
    if kind == "divider":
        return "<hr>"
    if kind in ("header", "section"):
        beside = f'<div class="beside">{_button(block["accessory"])}</div>' if "accessory" in block else ""
        return f'<div class="{kind}">{beside}{html.escape(block["text"]["text"])}</div>'
    if kind == "context":
        spans = "".join(f"<span>{html.escape(each['text'])}</span>" for each in block["elements"])
        return f'<div class="context">{spans}</div>'
    if kind == "actions":
        return f'<div class="buttons">{"".join(map(_button, block["elements"]))}</div>'
    return "".join(_rich(element, names) for element in block["elements"])


def _button(button: dict[str, Any]) -> str:
    return f'<div class="button {button.get("style", "")}">{html.escape(button["text"]["text"])}</div>'


def _rich(element: dict[str, Any], names: dict[str, str]) -> str:
    inner = "".join(_inline(each, names) for each in element["elements"])
    return (
        f"<pre>{inner}</pre>" if element["type"] == "rich_text_preformatted" else f'<div class="section">{inner}</div>'
    )


def _inline(element: dict[str, Any], names: dict[str, str]) -> str:
    if element["type"] == "user":
        return f'<span class="mention">@{html.escape(names[element["user_id"]])}</span>'
    if element["type"] == "date":
        return time.strftime("%H:%M", time.localtime(element["timestamp"]))
    text = html.escape(element["text"])
    return f"<b>{text}</b>" if (element.get("style") or {}).get("bold") else text


# ---- pictures ---------------------------------------------------------------------------------------


def _page(style: str, body: str) -> str:
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style><body>{body}</body>'


def _browser() -> str:
    found: Iterator[str] = (path for name in _CHROMIUM if (path := shutil.which(name)))
    if path := next(found, ""):
        return path
    raise SystemExit(f"none of {', '.join(_CHROMIUM)} is installed: apt-get install chromium")


def draw(page: str, picture: Path, width: int) -> None:
    """Make a picture of a page, as high as the page is."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        source.write_text(page + "<script>document.title=document.documentElement.scrollHeight</script>")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ]
        browser = [_browser(), *options, f"--force-device-scale-factor={SCALE}"]

        def run(*more: str) -> str:
            done = subprocess.run([*browser, *more, source.as_uri()], capture_output=True, text=True, timeout=60)
            return done.stdout

        measured = run(f"--window-size={width},100", "--dump-dom")
        height = int(measured.partition("<title>")[2].partition("</title>")[0])
        run(f"--window-size={width},{height}", f"--screenshot={picture.absolute()}")
    if not 0 < picture.stat().st_size <= LARGEST:
        raise SystemExit(f"{picture} has {picture.stat().st_size} bytes, and may have {LARGEST}")


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "pictures")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    pages = (
        ("terminal", terminal_page(), 860),
        ("grant", terminal_page(FETCH, "a"), 860),
        ("slack", slack_page(), 660),
        ("slack-grant", slack_form_page(), 660),
        ("terminal-held", terminal_page(HELD), 860),
        ("slack-held", slack_page(held_request()), 660),
        ("slack-home", slack_home_page(), 660),
        ("slack-digest", slack_digest_page(), 660),
    )
    for name, page, width in pages:
        draw(page, options.into / f"{name}.png", width)
        print(options.into / f"{name}.png")


if __name__ == "__main__":
    main()

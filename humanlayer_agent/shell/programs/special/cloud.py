"""aws, gcloud, az, kubectl plug-ins: hundreds of sub-commands, told apart by their verb.

A verb that only reads gives a network effect; any other changes what the account holds (a system effect). Options are
not described one by one: their values are texts, but for those that name a local file.
"""

import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs.spec import Spec

_READS = re.compile(
    r"(describe|list|get|head|batch-get|lookup|search|filter|view|show|check|query|scan|tail|wait|info|ls|read"
    r"|list-[a-z-]+|get-[a-z-]+|describe-[a-z-]+|show-[a-z-]+|[a-z]+-show|exists)(-[a-z0-9-]+)?",
    re.ASCII,
)
_SECRETS = re.compile(r"secret|password|credential|access-token|token|key|session", re.ASCII)
_LOCAL = frozenset(
    {"configure", "config", "auth", "login", "logout", "init", "components", "account", "help", "version"}
)
_FLAG = re.compile(r"--?[a-z][A-Za-z0-9-]*", re.ASCII)


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the verb of a cloud command line, and the local files that it names."""
    program = run.command.program or ""
    words: list[str] = []
    option = ""
    for each in fields:
        text = each.text
        if text is None:
            run.doubt(each.word.raw)
            continue
        if _FLAG.match(text) and text.startswith("-"):
            option = text
            if option.partition("=")[0] in (
                "--cli-auto-prompt",
                "--endpoint-url",
                "--flags-file",
                "--file",
                "--template-file",
                "--ca-bundle",
            ):
                run.doubt(text)
            continue
        if text.startswith(("file://", "fileb://")):
            run.path("read", each.tail(text.index("//") + 2), role="option", origin=f"{program} {option}")
        elif text.startswith("@"):
            run.path("read", each.tail(1), role="option", origin=f"{program} {option}")
        elif not option:
            words.append(text)
    if run.command.argv[1:] and set(run.command.argv[1:]) <= {"--version", "--help", "-h", "help", "version"}:
        return
    run.command.subcommand = " ".join(words) or None
    _effects(run, program, words)


def _effects(run: Run, program: str, words: list[str]) -> None:
    span = run.command.span
    run.effect("network", "service", program, True, span, program)
    reads = any(_READS.fullmatch(w) for w in words[1:])
    if program == "aws" and words[:1] == ["s3"]:
        reads = words[1:2] == ["ls"]
        run.doubt("s3")  # local paths: copied from and to
    if not words or not reads or words[0] in _LOCAL:
        run.effect("system", "account", " ".join([program, *words]), True, span, program)
    if any(_SECRETS.search(w) for w in words):
        run.printed(" ".join(words), None, origin=program)


_GH_READS = frozenset(str.split("list view status diff checks show download"))


def gh(run: Run, spec: Spec, fields: list[Field]) -> None:
    """gh OBJECT VERB ...: verbs that only show something contact the service, others change what it holds."""
    parts = (run.command.subcommand or "").split()
    verb = fields[0].text if fields else None
    run.command.subcommand = " ".join([*parts, *([verb] if verb and not verb.startswith("-") else [])])
    run.effect("network", "service", "code hosting service", True, run.command.span, run.command.program or "gh")
    texts = [f.text or "" for f in fields]
    if any(f.text is None for f in fields):
        run.doubt(next(f.word.raw for f in fields if f.text is None))
    if parts == ["auth"] and verb in ("token", "status"):
        run.printed("token", None, origin="gh auth")
    if parts in (["extension"], ["alias"], ["codespace"], ["config"]) and verb not in ("list", "get"):
        run.code(None, what=run.command.text, role="extension", origin="gh", unread=False)
        run.doubt(run.command.text)
    if parts == ["status"] or (parts == ["search"]):
        return
    if verb == "download" or any(t in ("-D", "--dir", "-O", "--output", "-F", "--body-file", "--input") for t in texts):
        run.doubt("files")
    if verb not in _GH_READS or parts in (["api"], ["auth"], ["secret"]):
        operand = f"{run.command.program} {run.command.subcommand}"
        run.effect("system", "account", operand, True, run.command.span, run.command.program or "gh")

"""Slots that need more than one line: what a word in such a place does. `spec_reader.note` comes here for them."""

import posixpath
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import spec_reader

Noter = Callable[[Run, Field, str], None]

_WILD = re.compile(r"([*?\[\]\\])")
_ESCAPED = r"\\\1"
_JQ_ENVIRONMENT = re.compile(
    r"\$ENV\b|\$__prog_|(?<![.\w$\"])(?:env|strenv|envsubst|(?:str_?)?load\w*|import|include)\b", re.ASCII
)
"""What lets a filter of jq or yq print the environment or read other files."""


def note(run: Run, kind: str, word: Field, origin: str) -> None:
    """Note what giving `word` in a slot of this `kind` does; kinds without an effect are none of ours."""
    if kind in ("write-or-command", "checkpoint-action", "ssh-option"):
        _maybe_shell(run, kind, word, origin)
        return
    noter = _NOTERS.get(kind)
    if noter is not None:
        noter(run, word, origin)


_HARMLESS_SSH = frozenset(
    str.split(
        """
        stricthostkeychecking batchmode connecttimeout serveraliveinterval serveralivecountmax loglevel
        port user userknownhostsfile compression tcpkeepalive connectionattempts identitiesonly
        passwordauthentication pubkeyauthentication preferredauthentications requesttty addressfamily
        checkhostip numberofpasswordprompts visualhostkey hashknownhosts ciphers macs kexalgorithms
        hostkeyalgorithms forwardagent controlpersist
        """
    )
)
"""Settings of ssh that neither run a command nor open a file or connection of their own (ssh_config(5))."""


def _maybe_shell(run: Run, kind: str, word: Field, origin: str) -> None:
    """Texts of which a part may be a command."""
    text = word.text
    if text is None:
        run.doubt(word.word.raw)
        run.code(word, what=None, role="code", origin=origin)
    elif kind == "write-or-command":
        if text.startswith(("|", "!")):
            spec_reader.shell_text(run, word.tail(1), origin)
        else:
            run.path("write", word, role="option", origin=origin)
    elif kind == "checkpoint-action":
        if text.startswith("exec="):
            spec_reader.shell_text(run, word.tail(5), origin)
    else:
        name, _, value = text.replace(" ", "=", 1).partition("=")
        if name.lower() in ("proxycommand", "localcommand", "knownhostscommand") and value.strip() != "none":
            at = len(text) - len(value)
            spec_reader.shell_text(run, word.tail(at), origin)
        elif name.lower() not in _HARMLESS_SSH:
            run.doubt(word.word.raw)


def is_remote(text: str) -> bool:
    """True for `host:path` and URLs: what scp, rsync and git take as another machine."""
    return "://" in text or ":" in text.partition("/")[0]


def names_beginning(word: Field, text: str) -> Field:
    """A field for every file whose name begins with `text` (a literal)."""
    return Field(word.word, word.start, word.end, glob=_WILD.sub(r"\\\1", text) + "*", prefix=text)


_ORDINARY = re.compile(r"\*\.(?:json|ya?ml)", re.ASCII)
"""Patterns for files of data: secrets that they match as well are read by the same search without them."""
_SUFFIXES = re.compile(r"(?:\.\*)?\\?\.\(?([A-Za-z0-9|]+)\)?\$?", re.ASCII)
"""An expression for the ends of names: `\\.py$`, `.*\\.(js|ts)`."""


def _name_glob(run: Run, word: Field, origin: str) -> None:
    """A pattern for the files that are searched: those that it matches are looked for by their names."""
    from humanlayer_agent.shell.expansion.braces import Unknown, expand_braces
    from humanlayer_agent.shell.syntax.tree import Lit

    for text in word.texts or (word.glob,):  # no file is called `--include=...`
        try:
            variants = None if text is None else expand_braces([Lit(text.partition(":")[2] or text, False)])
        except Unknown:
            variants = None
        if variants is None:
            run.doubt(word.word.raw)
            continue
        for variant in variants:
            name = "".join(part.text for part in variant if isinstance(part, Lit))
            for spelled in dict.fromkeys((name, name.lower())):
                _searched(run, word, spelled, origin)


def _searched(run: Run, word: Field, pattern: str, origin: str) -> None:
    parts = [part for part in pattern.replace("\\", "").split("/") if part.strip("*")]
    if not parts or pattern.startswith("!") or _ORDINARY.fullmatch(parts[-1]):
        return
    name = f"**{parts[-1]}" if parts[-1][0] in "*?[" else parts[-1]
    for cwd in run.state.cwd or (None,):
        if cwd is None:
            run.path("read", Field(word.word, word.start, word.end), role="found", origin=origin)
            continue
        glob = f"{_WILD.sub(_ESCAPED, cwd).rstrip('/')}/**/{name}"
        run.path("read", replace(word, text=None, glob=glob, prefix="/"), role="found", origin=origin)
        for folder in (part for part in parts if part.startswith(".") and not _WILD.search(part)):
            place = f"{cwd.rstrip('/')}/{folder}/**"
            run.path("read", replace(word, text=place, prefix=place), role="found", origin=origin)


def _name_regex(run: Run, word: Field, origin: str) -> None:
    found = _SUFFIXES.fullmatch(word.text or "")
    if found is None:
        run.doubt(word.word.raw)
        return
    for suffix in found[1].split("|"):
        _searched(run, word, f"*.{suffix}", origin)


def _prefix(run: Run, word: Field, origin: str) -> None:
    target = word if word.text is None else names_beginning(word, word.text)
    if word.text is None and word.glob is None:
        target = Field(word.word, word.start, word.end, prefix=word.prefix)
    run.path("write", target, origin=origin)


def _template(run: Run, word: Field, origin: str) -> None:
    if word.text is not None and "XXX" in word.text:
        word = names_beginning(word, word.text.partition("XXX")[0])
    run.path("write", word, origin=origin)


def _remote_write(run: Run, word: Field, origin: str) -> None:
    _to_remote(run, word, origin, ("write",))


def _remote_sync(run: Run, word: Field, origin: str) -> None:
    _to_remote(run, word, origin, ("write", "delete"))


def _to_remote(run: Run, word: Field, origin: str, kinds: tuple[str, ...]) -> None:
    if word.text is not None and is_remote(word.text):
        run.host(word, origin=origin)
        return
    if word.text is None and not word.prefix.startswith(("/", "./", "../")):
        run.host(word, origin=origin)  # it may be either
    recursive = bool(run.command.flags & {"recursive", "archive"})
    for kind in kinds:
        run.path(kind, word, origin=origin, recursive=kind == "delete" or recursive)


def _printed(run: Run, word: Field, origin: str) -> None:
    run.printed(word.text, word, origin=origin)


def _git_remote(run: Run, word: Field, origin: str) -> None:
    from humanlayer_agent.shell.programs.special import git

    git.note_remote(run, word, origin)


def _go(name: str) -> Noter:
    def noter(run: Run, word: Field, origin: str) -> None:
        from humanlayer_agent.shell.programs.special import go

        (go.package if name == "go-package" else go.flags)(run, word, origin)

    return noter


_MODULE = re.compile(r"(?:@[\w-]+/)?[\w-]+(?:/register(?:/[\w-]+)?)?(?:,[\w-]+)*", re.ASCII)
"""A module of JavaScript by its name: what is installed."""


def _js_code(run: Run, word: Field, origin: str) -> None:
    if word.text is not None and word.text[:1] in ("{", "["):
        run.code(word, what=word.text, role="code", origin=origin)
        run.doubt(word.word.raw)
    elif word.text is None or not _MODULE.fullmatch(word.text):
        run.script(word, origin, language="")


def _delete_glob(run: Run, word: Field, origin: str) -> None:
    if word.text is not None and any(c in word.text for c in "*?[{!("):
        word = Field(word.word, word.start, word.end, glob=word.text, prefix=word.text)
        if any(c in (word.glob or "") for c in "{!("):
            run.doubt(word.word.raw)
    run.path("delete", word, origin=origin, recursive=True)


def _conda(run: Run, word: Field, origin: str) -> None:
    if word.text is None or "/" in word.text:
        span = run.span(word)
        run.effect("environment", "itself", "PATH", True, span, origin)


def _task(kind: str) -> Noter:
    def noter(run: Run, word: Field, origin: str) -> None:
        from humanlayer_agent.shell.programs.special import task_names

        (task_names.task if kind == "task" else task_names.setting)(run, word, origin)

    return noter


def _project(run: Run, word: Field, origin: str) -> None:
    path, separator, _ = (word.text or "").partition("::")
    if path.startswith("@"):
        run.doubt(path)  # a file of further words
    if "://" in path:
        run.host(word, origin=origin)
        run.doubt(path)
        return
    target = Field(word.word, word.start, word.end, text=path, prefix=path) if separator else word
    run.path("execute", target, role="project", origin=origin)


_PYTEST_SETTING = re.compile(
    r"(?:log_cli|log_cli_level|log_level|log_cli_format|xfail_strict|junit_family|console_output_style|asyncio_mode"
    r"|faulthandler_timeout|python_files|python_classes|python_functions|markers|filterwarnings|norecursedirs)=.*"
    r"|addopts=(?:\s*(?:-[vqxsl]+|-r[A-Za-z]*|--tb=\w+|--strict-markers|-p no:\w+))*\s*",
    re.ASCII | re.DOTALL,
)


def _pytest_setting(run: Run, word: Field, origin: str) -> None:
    if word.text is None or not _PYTEST_SETTING.fullmatch(word.text):
        run.doubt(word.word.raw)


def _report(run: Run, word: Field, origin: str) -> None:
    if word.text is None:
        run.doubt(word.word.raw)
    for each in (word.text or "").split(","):  # pylint takes several
        path = each.partition(":")[2]
        if path and not path.startswith("skip-covered"):
            named = replace(word, text=path, prefix=path)
            run.path("write", named, role="option", origin=origin)


_ELSEWHERE = re.compile(r"-{0,2}[A-Za-z][\w-]*=(?=/|~/|\.\./|[a-z]+://)", re.ASCII)
"""The name of an option or a variable before what lies elsewhere."""


def _test_name(run: Run, word: Field, origin: str) -> None:
    """A dotted name, or a path: what lies elsewhere runs from there."""
    text = word.text
    if text is not None and (found := _ELSEWHERE.match(text)) is not None:  # an option of what is run
        word, text = word.tail(found.end()), text[found.end() :]
    if text is not None and "://" in text:
        run.host(word, origin=origin)
    elif text is None or text.startswith(("/", "~/")) or ".." in text.split("/"):
        run.path("execute", word, role="project", origin=origin)


_PATHSPEC = re.compile(r":(?:\([a-z,]*\)|/)(?=.)", re.ASCII)
"""The beginning of a path that says how git looks for it: `:(top).env`, `:/.env`."""


def _revision_or_path(run: Run, word: Field, origin: str) -> None:
    text = word.text
    outside = text is not None and (text.startswith("/") or ".." in text.split("/"))
    if outside or (text is None and not word.prefix[:1].isalnum()):
        run.path("read", word, origin=origin)
    elif text is not None and ".." not in text and "." in (name := _PATHSPEC.sub("", text).rpartition(":")[2]):
        file = Field(word.word, word.start, word.end, text=name, prefix=name)  # `.env`, `HEAD:.env`
        if _WILD.search(name) and name.rpartition("/")[2].startswith("."):
            file = Field(word.word, word.start, word.end, glob=name, prefix=_WILD.split(name)[0])
        run.path("read", file, origin=origin)


def _pathspec(run: Run, word: Field, origin: str) -> None:
    """Files that nobody has put under version control: secrets are among them."""
    _revision_or_path(run, word, origin)
    name = _PATHSPEC.sub("", word.text or "")
    if _WILD.search(name):
        _name_glob(run, replace(word, text=name, prefix=name), origin)


def _staged(run: Run, word: Field, origin: str) -> None:
    """What is in git's index is shown by `git diff --cached`. What a repository leaves out holds its secrets."""
    here = spec_reader.implied(run.command, ".")  # the repository here, or at -C: it may be another project's
    if not any(effect.kind == "metadata" for effect in run.command.effects):
        run.path("metadata", here, origin=origin)
    name = posixpath.basename(word.text or "")
    if name.strip("."):
        _revision_or_path(run, word, origin)
    if "force" in run.command.flags and (not name.strip(".") or "." not in name or _WILD.search(name)):
        for cwd in run.state.cwd or (None,):
            run.effect("read", "found", cwd, False, run.span(word), origin, below=cwd is not None)


def _refspec(run: Run, word: Field, origin: str) -> None:
    if word.text is None and word.prefix[:1].isalnum():
        return
    if word.text is None or word.text.startswith(("+", ":")):
        span = run.span(word)
        run.effect("vcs-rewrite", "remote", word.text, word.text is not None, span, origin)


def _format(run: Run, word: Field, origin: str) -> None:
    if word.text is None or "." in word.text or "/" in word.text:
        run.script(word, origin, language="")


def reaches_out(text: str) -> bool:
    """May this filter of jq or yq print the environment, or read files other than its input?"""
    return _JQ_ENVIRONMENT.search(text) is not None


def _jq(run: Run, word: Field, origin: str) -> None:
    if word.text is None:
        run.doubt(word.word.raw)
    elif reaches_out(word.text):
        run.printed("environment", word, origin=origin)
        run.doubt(word.word.raw)


def _at_file(run: Run, word: Field, origin: str) -> None:
    if word.text is None and not word.prefix:
        run.doubt(word.word.raw)
    elif word.text is not None and word.text.startswith("@"):
        run.path("read", word.tail(1), role="option", origin=origin)
    elif "%output{" in (word.text or ""):
        run.doubt(word.word.raw)  # curl -w: what follows goes to that file


def _named_file(run: Run, word: Field, origin: str) -> None:
    if word.text is None:
        run.path("read", word, origin=origin)
        return
    name, equals, _ = word.text.partition("=")
    run.path("read", word.tail(len(name) + 1) if equals else word, role="option", origin=origin)


def _openssl_password(run: Run, word: Field, origin: str) -> None:
    kind, colon, _ = (word.text or "").partition(":")
    if word.text is None and not word.prefix:
        run.doubt(word.word.raw)
    elif kind == "file" and colon:
        run.path("read", word.tail(5), role="option", origin=origin)
    elif kind == "env" and colon:
        run.printed(word.tail(4).text, word, origin=origin)


def _credential(run: Run, word: Field, origin: str) -> None:
    run.path("read", word, role="credential", origin=origin)


def _cookie(run: Run, word: Field, origin: str) -> None:
    if word.text is None or "=" not in word.text:
        run.path("read", word, role="option", origin=origin)


def _plain(kind: str, role: str = "operand") -> Noter:
    def noter(run: Run, word: Field, origin: str) -> None:
        span = run.span(word)
        for text in (word.text,) if word.text is not None else word.choices or (None,):
            run.effect(kind, role, text, text is not None, span, origin)

    return noter


def _notebook(run: Run, word: Field, origin: str) -> None:
    from humanlayer_agent.shell.programs.special import notebooks

    notebooks.notebook(run, word, origin)
    if "inplace" in run.command.flags:
        run.path("write", word, origin=origin)
    if "kernel" in run.command.flags:
        run.doubt("kernel")


def _sql(run: Run, word: Field, origin: str) -> None:
    from humanlayer_agent.shell.programs.special import sqlite

    sqlite.statements(run, word.text, word)


_STREAMS = re.compile(r"/(?:dev|proc)/")


def _settings(run: Run, word: Field, origin: str) -> None:
    """A file of any name: what its settings name is done, once all is known that the action may write to it."""
    first = len(run.command.effects)
    if word.text is not None and "=" in word.text:  # ruff takes a setting itself, too
        from humanlayer_agent.shell.languages.code_effects import perform

        here = (run.state.cwd or ("/",))[0]
        behaviour = run.walk.code("settings", word.text, path=f"{here}/settings")
        if behaviour is not None:
            perform(run, behaviour, "settings")
    run.path("read", word, role="option", origin=origin)
    later = run.having(state=run.state.copy())
    if len(run.command.effects) == first and word.text != "/dev/null":
        _unread_settings(run, word)
    for effect in run.command.effects[first:]:
        run.walk.scripts.later(run.command, partial(_given_settings, later, effect, word))


_OF_FOLDERS = frozenset({"plantuml"})
"""Languages whose programs take a folder for all that is in it: what is no file may be one."""


def _given_settings(run: Run, effect: Effect, word: Field, language: str = "settings") -> None:
    from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Found
    from humanlayer_agent.shell.languages.code_effects import perform

    operand = effect.operand if effect.pattern is None and not effect.below else None
    path = plain_path(operand) if operand is not None and not _STREAMS.match(operand) else None
    found = run.walk.scripts.look(path) if path is not None else NOT_THERE if operand == "/dev/null" else Found(None)
    if language in _OF_FOLDERS and found == NOT_THERE:
        found = Found(None)
    if path is not None:
        run.walk.scripts.looked_into(run.command, effect, path, word, included=False)

    def included(path: str) -> Found:
        run.walk.scripts.looked_into(run.command, effect, path, word, included=True)
        return run.walk.scripts.look(path)

    for text in found.texts or () if not found.project else ():
        may = run.walk.scripts.spend((language, path, text), text)
        behaviour = run.walk.code(language, text, path=path, files=included) if may else None
        if behaviour is not None:
            perform(run, behaviour, language)
        elif may is False:
            found = Found(None)
    if found.texts is None and not found.project:
        _unread_settings(run, word)


def _including(language: str) -> Noter:
    """A file that is read, and what it includes, once all is known that the action may write to it."""

    def noter(run: Run, word: Field, origin: str) -> None:
        first = len(run.command.effects)
        run.path("read", word, origin=origin)
        later = run.having(state=run.state.copy())
        for effect in run.command.effects[first:]:
            run.walk.scripts.later(run.command, partial(_given_settings, later, effect, word, language))

    return noter


def _document(run: Run, word: Field, origin: str) -> None:
    if any("://" in text for text in word.texts or (word.prefix,)):
        spec_reader.note(run, "remote", word, origin=origin)
    else:
        _including("document")(run, word, origin)


def _manual_page(run: Run, word: Field, origin: str) -> None:
    known = word.texts
    if "local" in run.command.flags or not known or any("/" in text for text in known):
        _including("manual-page")(run, word, origin)
    else:
        spec_reader.note(run, "list", word, origin=origin)


def _unread_settings(run: Run, word: Field) -> None:
    run.code(word, what=word.text, role="setting", origin="settings", unread=True)
    run.doubt(word.word.raw)


_NOTERS: dict[str, Noter] = {
    "name-glob": _name_glob,
    "name-regex": _name_regex,
    "pathspec": _pathspec,
    "staged": _staged,
    "settings": _settings,
    "c-source": _including("c-source"),
    "env-file": _including("variables"),
    "document": _document,
    "diagram": _including("plantuml"),
    "manual-page": _manual_page,
    "notebook": _notebook,
    "sql": _sql,
    "go-package": _go("go-package"),
    "go-flags": _go("go-flags"),
    "conda-environment": _conda,
    "js-code": _js_code,
    "delete-glob": _delete_glob,
    "task": _task("task"),
    "build-setting": _task("build-setting"),
    "prefix": _prefix,
    "template": _template,
    "test-name": _test_name,
    "remote-write": _remote_write,
    "remote-sync": _remote_sync,
    "printed": _printed,
    "git-remote": _git_remote,
    "jq": _jq,
    "project": _project,
    "pytest-setting": _pytest_setting,
    "refspec": _refspec,
    "report": _report,
    "revision-or-path": _revision_or_path,
    "at-file": _at_file,
    "named-file": _named_file,
    "format": _format,
    "cookie": _cookie,
    "credential": _credential,
    "openssl-password": _openssl_password,
    "address": _plain("listen"),
    "system": _plain("system", "setting"),
    "service": _plain("system", "service"),
    "container": _plain("container"),
}

"""Variables by which people set up a machine for their tools, and which of them commands get."""

import os
import re

from humanlayer_agent.confine.confinement import is_below
from humanlayer_agent.confine.environment import leads_out
from humanlayer_agent.shell import selects_code

PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ"),
        *("TMPDIR", "TMP", "TEMP", "PAGER", "MANPAGER", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "NVM_DIR", "CARGO_HOME", "RUSTUP_HOME"),
        *("GOPATH", "GOROOT", "JAVA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    }
)
"""What a command gets of our environment: where things are and how to talk, never a credential."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FINDS = re.compile(
    r"PYTHON(?:PATH|WARNINGS|USERBASE|HOME)|NODE_(?:PATH|OPTIONS|EXTRA_CA_CERTS)|(?:LD_)?LIBRARY_PATH|CPATH|C(?:PLUS)?_INCLUDE_PATH"
    r"|PKG_CONFIG_(?:PATH|LIBDIR)|CMAKE_\w+|CC|CXX|CPP|AR|LD|(?:C|CXX|CPP|LD|RUST|GO|MAKE)FLAGS|PERL5LIB|RUBYLIB|GEM_(?:HOME|PATH)"
    r"|GO(?:PROXY|PRIVATE|BIN|TOOLCHAIN|NONOSUMDB|INSECURE)|CGO_\w+|CARGO_\w+|RUSTUP_TOOLCHAIN|_?JAVA_(?:TOOL_)?OPTIONS"
    r"|JDK_JAVA_OPTIONS|(?:MAVEN|GRADLE|SBT|ANT)_OPTS|CLASSPATH|PIP_\w+|UV_\w+|POETRY_\w+|CONDA_\w+|(?:NPM_CONFIG|npm_config)_\w+"
    r"|(?:REQUESTS|CURL)_CA_BUNDLE|GIT_SSL_CAINFO|AWS_(?:PROFILE|CA_BUNDLE)|EDITOR|VISUAL|MANPATH|TERMINFO(?:_DIRS)?"
    r"|PYTEST_ADDOPTS|TOX_\w+|NOX_\w+|(?:https?|all|ftp)_proxy|(?:HTTPS?|ALL|FTP)_PROXY",
    re.ASCII,
)
"""Names by which people set up a machine for their tools: which libraries, flags, certificates and caches there are."""
_FOLDERS = re.compile(r"\w*(?:PATH|LIB|LIBDIR)", re.ASCII)
_PIECES = re.compile(r"(?:(?<![^\s:;,='\"@])-[A-Za-z](?=[./]))?([^\s:;,='\"@]+)")
"""Parts of a value that can be a path, without the letter of an option before one (`-I./include`)."""
_OF_A_SHELL = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


def is_listed(name: str, value: str) -> bool:
    """Tell whether every supervised command gets a variable of this name."""
    return name in PASSED or name.startswith("LC_")


def is_inherited(name: str, value: str, project: str) -> bool:
    """Tell whether a confined command gets a variable of the environment of whoever started the agent.

    It gets most: what a project's programs do depends on them. Not where something outside is reached, nor what changes
    what words of a command mean; and what says where code is found only if that is nowhere an agent could put some.
    Whether it is a secret is not asked here.

    Args:
        project: the directory that the command works for.

    Example:
        >>> is_inherited("APP_MODE", "dev", "/srv/app"), is_inherited("TAR_OPTIONS", "-v", "/srv/app")
        (True, False)
        >>> is_inherited("PYTHONPATH", "/opt/x", "/srv/app"), is_inherited("PYTHONPATH", "/srv/app/lib", "/srv/app")
        (True, False)
    """
    if leads_out(name) or name in _OF_A_SHELL or name.startswith("HUMANLAYER_") or not _NAME.fullmatch(name):
        return False
    if not selects_code(name, value):
        return True
    return _FINDS.fullmatch(name) is not None and not _finds_the_agents(name, value, project)


def _finds_the_agents(name: str, value: str, project: str) -> bool:
    """Tell whether a program is led to a place that agents write: the project, one for temporary files, here."""
    if _FOLDERS.fullmatch(name) and not all(os.path.isabs(entry) for entry in value.split(os.pathsep)):
        return True
    theirs = {"/tmp", "/var/tmp", project, os.path.realpath(project)}
    for piece in _PIECES.findall(value):
        if piece in (".", "..") or piece.startswith(("./", "../")):
            return True
        places = (os.path.normpath(piece), os.path.realpath(piece)) if os.path.isabs(piece) else ()
        if any(is_below(place, each) for place in places for each in theirs):
            return True
    return False

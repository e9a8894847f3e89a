"""git's configuration: some keys are commands that git runs (git-config(1), version 2.39)."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell import touch
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk

_HARMLESS = re.compile(
    r"""(user\.(name|email)|author\.(name|email)|committer\.(name|email)|color\..*|advice\..*|column\..*|log\.(date|decorate|follow)
    |core\.(quotepath|autocrlf|eol|filemode|ignorecase|abbrev|safecrlf|precomposeunicode|whitespace|untrackedcache)
    |diff\.(renames|algorithm|context|mnemonicprefix|noprefix|colormoved|renamelimit)|status\.\w+|init\.defaultbranch
    |merge\.(conflictstyle|ff)|pull\.(rebase|ff)|push\.default|commit\.(gpgsign|verbose)|tag\.gpgsign|gc\.auto
    |grep\.\w+|rerere\.enabled|safe\.directory|http\.(postbuffer|version)|fetch\.prune)""",
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)


def note_setting(walk: "Walk", command: SimpleCommand, word: Field, kind: str, origin: str) -> None:
    """Note a setting given on the command line: harmless, or code that git will run."""
    if kind == "git-setting" and word.text is not None:
        key, _, value = word.text.partition("=")
        if _HARMLESS.fullmatch(key) or (key.lower() == "core.pager" and value in ("cat", "")):
            return
        touch.code(walk, command, word, what=value or word.text, role="setting", origin=origin, unread=False)
    else:
        touch.code(walk, command, word, what=word.text, role="setting", origin=origin, unread=False)
    command.doubt(word.shown)

"""Hooks that a human has set up in the project's repository: git runs them by itself, and they load what is there.

A hook is a person's own, like the Makefile: nobody reads it here. But `git commit` whose hook runs the tests loads what
`pytest` would, so what an agent has changed is judged before it.
"""

from collections.abc import Mapping

from humanlayer_agent.shell.program import Effect, Program
from humanlayer_agent.shell.reader import DiskLooks, Reader

_RUN_BY_ANY = frozenset({"post-index-change", "reference-transaction"})
"""Hooks that most of git's commands run, `git status` among them."""
_COMMIT = "pre-commit prepare-commit-msg commit-msg post-commit pre-auto-gc"
_OF_COMMANDS = {
    "commit": f"{_COMMIT} post-rewrite",
    "merge pull": f"{_COMMIT} pre-merge-commit post-merge post-checkout pre-rebase post-rewrite",
    "rebase cherry-pick revert": f"{_COMMIT} pre-rebase post-rewrite post-checkout",
    "checkout switch restore worktree clone stash bisect submodule": "post-checkout",
    "am": f"{_COMMIT} applypatch-msg pre-applypatch post-applypatch",
    "gc fetch": "pre-auto-gc",
    "push": "pre-push",
}
_HOOKS: Mapping[str, frozenset[str]] = {
    name: frozenset(hooks.split()) for names, hooks in _OF_COMMANDS.items() for name in names.split()
}
"""Which hooks git's commands run (githooks(5), version 2.39)."""
_ORIGIN = "git's hook "


def note_hooks(program: Program, reader: Reader | None) -> None:
    """Add that git's commands load the project, where a hook of its repository runs. Twice is as once.

    Args:
        program: all of an action.
        reader: looks for hooks; without one that can, nothing is known of them, and nothing added.
    """
    if not isinstance(reader, DiskLooks):
        return
    for command in program.commands:
        if command.program != "git" or command.subcommand is None:
            continue
        if any(effect.origin.startswith(_ORIGIN) for effect in command.effects):
            continue
        may = _HOOKS.get(command.subcommand.partition(" ")[0], frozenset()) | _RUN_BY_ANY
        for place in command.places or ():
            for hook in sorted(may & reader.git_hooks(place))[:1]:
                what = Effect("execute", "project", place, True, command.span, f"{_ORIGIN}{hook}")
                command.effects.append(what)

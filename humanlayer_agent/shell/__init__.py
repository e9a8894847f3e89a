"""Reads bash: what the text of a command would run, and what each of its commands does.

This is the package's one door, and all that is public of it; nothing here knows who judges or asks. The names are
imported when they are first used: who only needs an `Effect` does not load the interpreter.

Example:
    >>> from humanlayer_agent.shell import analyse
    >>> [(effect.kind, effect.operand) for effect in analyse("cd /srv && rm -r old", cwd="/").commands[1].effects]
    [('delete', '/srv/old')]
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import analyse
    from humanlayer_agent.shell.baseline import Baseline
    from humanlayer_agent.shell.builtins import BUILTINS
    from humanlayer_agent.shell.dataflow import WAYS, Flows, Reached, Way
    from humanlayer_agent.shell.dataflow.origins import Held, NotFollowed, Origin, Origins
    from humanlayer_agent.shell.disk_reader import DiskReader, GivenReader, baseline_of, file_time_ns, is_looked_at
    from humanlayer_agent.shell.environment.code_variables import keeps_ascii, selects_code
    from humanlayer_agent.shell.expansion.field import Field
    from humanlayer_agent.shell.expansion.output import REPEATERS
    from humanlayer_agent.shell.interpreter.code_cache import Remembered
    from humanlayer_agent.shell.paths import absolute_path, plain_path, takes_all
    from humanlayer_agent.shell.program import (
        EFFECT_KINDS,
        LOSS,
        ONCE,
        VERSION,
        WRITTEN,
        Effect,
        EffectKind,
        Program,
        SimpleCommand,
    )
    from humanlayer_agent.shell.programs import catalog
    from humanlayer_agent.shell.programs.catalog import Catalog
    from humanlayer_agent.shell.reader import MAX_TEXT, Reader, Source
    from humanlayer_agent.shell.repository.blast_radius import blast_radius
    from humanlayer_agent.shell.repository.checkout import (
        NOWHERE,
        Checkout,
        checkout_in,
        has_other_root,
        is_otherwise_next_time,
        places_asked,
    )
    from humanlayer_agent.shell.repository.index import index_meaning, index_names
    from humanlayer_agent.shell.repository.losses import Beginning, note_losses
    from humanlayer_agent.shell.repository.object_store import missing_objects
    from humanlayer_agent.shell.repository.work_tree import is_moved_by, note_versions
    from humanlayer_agent.shell.script_files.file_texts import WrittenText
    from humanlayer_agent.shell.syntax import tree as syntax_tree
    from humanlayer_agent.shell.syntax.dialects import unportable
    from humanlayer_agent.shell.syntax.fast_path import RESERVED
    from humanlayer_agent.shell.syntax.parse import Parse, parse
    from humanlayer_agent.shell.view import HOST, LASTING, TEMPORARY, View, folds_case
    from humanlayer_agent.shell.wildcards import FOLDER, known_by, listing_of

__all__ = [
    "BUILTINS",
    "EFFECT_KINDS",
    "FOLDER",
    "HOST",
    "LASTING",
    "LOSS",
    "MAX_TEXT",
    "NOWHERE",
    "ONCE",
    "REPEATERS",
    "RESERVED",
    "TEMPORARY",
    "VERSION",
    "WAYS",
    "WRITTEN",
    "Baseline",
    "Beginning",
    "Catalog",
    "Checkout",
    "DiskReader",
    "Effect",
    "EffectKind",
    "Field",
    "Flows",
    "GivenReader",
    "Held",
    "NotFollowed",
    "Origin",
    "Origins",
    "Parse",
    "Program",
    "Reached",
    "Reader",
    "Remembered",
    "SimpleCommand",
    "Source",
    "View",
    "Way",
    "WrittenText",
    "absolute_path",
    "analyse",
    "baseline_of",
    "blast_radius",
    "catalog",
    "checkout_in",
    "file_time_ns",
    "folds_case",
    "has_other_root",
    "index_meaning",
    "index_names",
    "is_looked_at",
    "is_moved_by",
    "is_otherwise_next_time",
    "keeps_ascii",
    "known_by",
    "listing_of",
    "missing_objects",
    "note_losses",
    "note_versions",
    "parse",
    "places_asked",
    "plain_path",
    "selects_code",
    "syntax_tree",
    "takes_all",
    "unportable",
]

_NAMES = {
    "analysis": ["analyse"],
    "baseline": ["Baseline"],
    "builtins": ["BUILTINS"],
    "dataflow": ["WAYS", "Flows", "Reached", "Way"],
    "dataflow.origins": ["Held", "NotFollowed", "Origin", "Origins"],
    "disk_reader": ["DiskReader", "GivenReader", "baseline_of", "file_time_ns", "is_looked_at"],
    "environment.code_variables": ["keeps_ascii", "selects_code"],
    "expansion.field": ["Field"],
    "expansion.output": ["REPEATERS"],
    "interpreter.code_cache": ["Remembered"],
    "paths": ["absolute_path", "plain_path", "takes_all"],
    "program": [
        *("EFFECT_KINDS", "LOSS", "ONCE", "VERSION", "WRITTEN"),
        *("Effect", "EffectKind", "Program", "SimpleCommand"),
    ],
    "programs.catalog": ["Catalog"],
    "reader": ["MAX_TEXT", "Reader", "Source"],
    "repository.blast_radius": ["blast_radius"],
    "repository.checkout": [
        "NOWHERE",
        "Checkout",
        "checkout_in",
        "has_other_root",
        "is_otherwise_next_time",
        "places_asked",
    ],
    "repository.index": ["index_meaning", "index_names"],
    "repository.losses": ["Beginning", "note_losses"],
    "repository.object_store": ["missing_objects"],
    "repository.work_tree": ["is_moved_by", "note_versions"],
    "script_files.file_texts": ["WrittenText"],
    "syntax.dialects": ["unportable"],
    "syntax.fast_path": ["RESERVED"],
    "syntax.parse": ["Parse", "parse"],
    "view": ["HOST", "LASTING", "TEMPORARY", "View", "folds_case"],
    "wildcards": ["FOLDER", "known_by", "listing_of"],
}
"""The names that each module gives."""
_WHERE = {name: module for module, names in _NAMES.items() for name in names}
_NAMESPACES = {"catalog": "programs.catalog", "syntax_tree": "syntax.tree"}
"""Modules that are public as a whole: the form of the catalog's entries, the classes of the syntax tree's nodes."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if (module := _NAMESPACES.get(name)) is not None:
        found: object = import_module(f"{__name__}.{module}")
    elif (module := _WHERE.get(name)) is not None:
        found = getattr(import_module(f"{__name__}.{module}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found  # asked for once
    return found

"""`hla policy fmt`: policy files in the one layout."""

import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from humanlayer_agent.cli.shared.file_replacement import replace_file
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.errors import ConfigError, HumanlayerError, PolicyError
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy_tools.yaml_layout import formatted
from humanlayer_agent.safe_text import one_line, visible

STDIN = "-"


def run_fmt(files: Sequence[str], *, check: bool) -> int:
    """Lay out policy files, or say how they would be.

    Args:
        files: their paths; "-" is standard input, of which the layout is printed.
        check: print the differences, and write nothing.

    Returns:
        The exit code: 0 all is well, 1 a file differs (`check`), 2 a file was refused; the others are laid out still.
    """
    if files.count(STDIN) > 1:
        raise ConfigError("-: standard input can be read once")
    if not check and any(file != STDIN for file in files):
        human_only("policy fmt", "writes policy files")
    code = 0
    for file in files:
        try:
            code = max(code, _fmt(file, check=check))
        except HumanlayerError as error:
            print(f"humanlayer-agent: {error}", file=sys.stderr)
            code = 2
    return code


def _fmt(file: str, *, check: bool) -> int:
    name = "standard input" if file == STDIN else file
    raw = sys.stdin.buffer.read(sources.MAX_BYTES + 1) if file == STDIN else sources.read(file)
    if len(raw) > sources.MAX_BYTES:
        raise PolicyError(f"{name}: too large: at most {sources.MAX_BYTES} bytes are read")
    try:
        before = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{name}: byte {error.start} is not UTF-8") from error
    after = formatted(before, name)
    if check:
        if before == after:
            return 0
        old, new = before.splitlines(), after.splitlines()
        for line in difflib.unified_diff(old, new, name, f"{name}, laid out", lineterm=""):
            print(visible(line, keep="\t"))
        if old == new:
            print(f"{one_line(name)}: the ends of lines differ")
        return 1
    if file == STDIN:
        sys.stdout.buffer.write(after.encode())
        sys.stdout.flush()
    elif before != after:
        replace_file(Path(os.path.realpath(file)), raw, after.encode())
        print(f"laid out {one_line(file)}")
    return 0

"""Lists, pipelines, groups, conditions: where control goes, and what is known where it arrives."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion import output, substitutions
from humanlayer_agent.shell.expansion.words import expand
from humanlayer_agent.shell.interpreter import redirects
from humanlayer_agent.shell.interpreter.context import Context, Ends, Stdin
from humanlayer_agent.shell.interpreter.state import State, join
from humanlayer_agent.shell.syntax.tree import Case, Group, If, Node, Pipeline, Sequence

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk


def sequence(walk: "Walk", node: Sequence, state: State, context: Context) -> Ends:
    """A list of and-or lists; one that ends in `&` runs beside, in a shell of its own."""
    ends: Ends = (state, None)
    current: State | None = state
    end = node.start
    lists = _and_or_lists(node)
    for chain, terminator in lists:
        if node is walk.unit and "\n" in walk.quote(end, chain[0][1].start):
            current, walk.aborted = join(current, walk.aborted), None
        # After `exit` nothing runs, but it is listed all the same.
        entry = current if current is not None else state.lost()
        if terminator == "&":
            aborted, frames = walk.aborted, walk.frames
            walk.frames = [*frames]
            _chain(walk, chain, entry.copy(), context.within("background"))
            walk.aborted, walk.frames = aborted, frames
            ends = (entry, None)
        else:
            ends = _chain(walk, chain, entry, context)
        if current is not None:  # behind the last one, only whether anything can come
            current = join(*ends) if chain is not lists[-1][0] else ends[0] or ends[1]
        end = chain[-1][1].end
    if current is None:
        return None, None
    return (ends[1], ends[0]) if node.negated else ends


def _chain(walk: "Walk", chain: list[tuple[str, Node]], state: State, context: Context) -> Ends:
    """`a && b || c`: each part starts from the success or the failure of what stands before it."""
    success, failure = walk.node(chain[0][1], state, context)
    for op, part in chain[1:]:
        entry = success if op == "&&" else failure
        won, lost = walk.node(part, entry if entry is not None else state.lost(), context)
        if entry is None:
            continue
        if op == "&&":
            success, failure = won, join(failure, lost)
        else:
            success, failure = join(success, won), lost
    return success, failure


def pipeline(walk: "Walk", node: Pipeline, state: State, context: Context) -> Ends:
    """Each part runs in a subshell of its own; the output of one is the input of the next."""
    stdin = context.stdin
    text: str | None = None
    bounds: list[int] = []
    for n, part in enumerate(node.parts):
        before = len(walk.program.commands)
        bounds.append(before)
        walk.subshell(part, state, context.fed(stdin))
        text = output.printed(part, state, expand, text) if n == 0 or text is not None else None
        clean = n < len(node.ops) and node.ops[n] == "|"
        producer = tuple(walk.program.commands[before:]) if clean else ()
        stdin = Stdin.of("pipe", text if clean else None, part.start, producer)
    walk.program.trace.append(("pipeline", tuple(bounds), bounds[0], bounds[0], len(walk.program.commands)))
    return state, state


def group(walk: "Walk", node: Group, state: State, context: Context) -> Ends:
    """`{ }` runs here, `( )` in a shell of its own."""
    redirected = walk.redirected(node.redirects, state, context)
    if node.subshell:
        walk.subshell(node.body, state, redirected)
        return state, state
    won, lost = walk.node(node.body, state, redirected)
    return won, join(lost, state) if redirects.may_fail(node.redirects) else lost


def conditional(walk: "Walk", node: If, state: State, context: Context) -> Ends:
    """`if`: each branch starts from its condition's success, the next from its failure."""
    after: State | None = state if redirects.may_fail(node.redirects) else None
    entry: State | None = state
    inner = walk.redirected(node.redirects, state, context)
    for condition, body in node.branches:
        start = entry.copy() if entry is not None else state.lost()
        won, lost = walk.node(condition, start, inner.around("condition"))
        done = join(*walk.node(body, won.copy() if won is not None else state.lost(), inner))
        after = join(after, done if won is not None else None)
        entry = lost if entry is not None else None
    if node.orelse is not None:
        done = join(*walk.node(node.orelse, entry.copy() if entry is not None else state.lost(), inner))
        after = join(after, done if entry is not None else None)
    else:
        after = join(after, entry)
    return after, after


def case(walk: "Walk", node: Case, state: State, context: Context) -> Ends:
    """`case`: any arm may run, or none."""
    substitutions.word(walk, node.subject, state, context)
    inner = walk.redirected(node.redirects, state, context)
    after: State | None = state
    for arm in node.arms:
        for pattern in arm.patterns:
            substitutions.word(walk, pattern, state, context)
        if arm.body is not None:
            # `;&` falls through: the arms before may have run.
            after = join(after, join(*walk.node(arm.body, (after or state).copy(), inner)))
    return after, after


def _and_or_lists(node: Sequence) -> list[tuple[list[tuple[str, Node]], str]]:
    """The and-or lists of `node`, each as (operator before it, part) pairs, with what ends it: `;` or `&`."""
    out: list[tuple[list[tuple[str, Node]], str]] = []
    chain: list[tuple[str, Node]] = []
    before = ""
    for n, part in enumerate(node.parts):
        chain.append((before, part))
        before = node.ops[n] if n < len(node.ops) else ";"
        if before not in ("&&", "||"):
            out.append((chain, before))
            chain = []
    if chain:
        out.append((chain, ";"))
    return out

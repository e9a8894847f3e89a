"""Lists, pipelines, groups, conditions: where control goes, and what is known where it arrives.

Loops: the body may run any number of times, so it starts from whatever an earlier round left behind.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.builtins import read
from humanlayer_agent.shell.dataflow import name_lists, name_sources
from humanlayer_agent.shell.expansion import output, substitutions, wildcard_names
from humanlayer_agent.shell.expansion.field import Field, Located
from humanlayer_agent.shell.expansion.words import expand
from humanlayer_agent.shell.interpreter import redirects
from humanlayer_agent.shell.interpreter.context import MAX_FOLLOWED, Context, Ends, Stdin
from humanlayer_agent.shell.interpreter.loop_effects import Changes, changes
from humanlayer_agent.shell.interpreter.state import MAX_CHOICES, Glob, State, Value, join, one
from humanlayer_agent.shell.syntax.tree import Case, Function, Group, If, Loop, Node, Pipeline, Sequence, Simple

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter


def sequence(walk: "Interpreter", node: Sequence, state: State, context: Context) -> Ends:
    """A list of and-or lists; one that ends in `&` runs beside, in a shell of its own."""
    ends: Ends = (state, None)
    current: State | None = state
    end = node.start
    lists = _and_or_lists(node)
    goes_on = walk.goes_on
    for chain, terminator in lists:
        walk.goes_on = goes_on or chain is not lists[-1][0]
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
    walk.goes_on = goes_on
    if current is None:
        return None, None
    return (ends[1], ends[0]) if node.negated else ends


def _chain(walk: "Interpreter", chain: list[tuple[str, Node]], state: State, context: Context) -> Ends:
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


def pipeline(walk: "Interpreter", node: Pipeline, state: State, context: Context) -> Ends:
    """Each part runs in a subshell of its own; the output of one is the input of the next."""
    stdin = context.stdin
    text: str | None = None
    bounds: list[int] = []
    beside = walk.beside
    made = [None] * len(node.parts) if walk.functions_defined else wildcard_names.made_beside(node.parts)
    for n, part in enumerate(node.parts):
        before = len(walk.program.commands)
        bounds.append(before)
        later = made[n]
        walk.beside = None if beside is None or later is None or walk.functions_defined else (*beside, *later)
        walk.subshell(part, state, context.fed(stdin))
        walk.beside = beside
        text = output.printed(part, state, expand, text) if n == 0 or text is not None else None
        clean = n < len(node.ops) and node.ops[n] == "|"
        producer = tuple(walk.program.commands[before:]) if clean or n == len(node.ops) else ()
        name_sources.note(walk, part, producer)
        name_lists.pass_on(part, stdin, producer)
        stdin = Stdin.of("pipe", text if clean else None, part.start, producer)
        if producer and n + 1 < len(node.parts) and isinstance(node.parts[n + 1], Loop):
            quiet = all(name_lists.use_names(each, meanwhile=True) for each in node.parts[n + 1 :])
            stdin = replace(stdin, names_of=producer if quiet else ())
    name_lists.doubt_made(walk.program.commands[bounds[0] :])
    walk.program.trace.append(("pipeline", tuple(bounds), bounds[0], bounds[0], len(walk.program.commands)))
    return state, state


def group(walk: "Interpreter", node: Group, state: State, context: Context) -> Ends:
    """`{ }` runs here, `( )` in a shell of its own."""
    redirected = walk.redirected(node.redirects, state, context)
    if node.subshell:
        walk.subshell(node.body, state, redirected)
        return state, state
    won, lost = walk.node(node.body, state, redirected)
    return won, join(lost, state) if redirects.may_fail(node.redirects) else lost


def conditional(walk: "Interpreter", node: If, state: State, context: Context) -> Ends:
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


def case(walk: "Interpreter", node: Case, state: State, context: Context) -> Ends:
    """`case`: any arm may run, or none."""
    substitutions.word(walk, node.subject, state, context)
    inner = walk.redirected(node.redirects, state, context)
    after: State | None = None
    for arm in node.arms:
        for pattern in arm.patterns:
            substitutions.word(walk, pattern, state, context)  # `state`: no arm has matched so far
        if arm.body is not None:
            # `;&` falls through: the arms before may have run.
            entry = join(after, state) or state
            after = join(after, join(*walk.node(arm.body, entry.copy(), inner)))
    after = join(after, state)
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


_MAX_ROUNDS = 4


def loop(walk: "Interpreter", node: Loop, state: State, context: Context) -> Ends:
    """The body may run any number of times: what it changes is unknown at its start."""
    redirected = walk.redirected(node.redirects, state, context)
    inner = redirected.around("loop")
    values: Value = None
    if node.words is not None:
        fields = [f for w in node.words for f in substitutions.expand(walk, w, state, context)]
        fields = wildcard_names.list_names(walk, fields, state, context, most=MAX_CHOICES)
        values = _loop_values(fields)
        if any(f.printed for f in fields) and (walk.functions_defined or not name_lists.use_names(node.body)):
            values = None  # by a later round the names may lead elsewhere
    elif node.kind == "for" and state.positional:
        each = [one(element) for element in state.positional]
        values = _distinct([value for found in each for value in found or ()]) if None not in each else None
    if node.head is not None:
        substitutions.word(walk, node.head, state, context)
    found = _changes(walk, node)
    entry = _entry(found, state)
    if node.name is not None and node.name.text is not None:
        # What `select` sets is up to who answers.
        walk.implicit(node.name.text, values if node.kind == "for" else None, entry, context, node.name.raw)
    read_names = _read_names(walk, node, state, redirected)
    for _ in range(_MAX_ROUNDS):
        after = _round(walk, node, entry, inner, read_names)
        # A function that was defined on the way (by eval) is known from the second round on.
        if after is None or not entry.learn(after):
            break
        entry.forget([name for name in found.names if name in entry.references])  # and what they stand for by now
    else:
        walk.program.doubt("a loop that keeps defining functions")
    out = join(join(state, entry), after)
    if out is not None and values is not None and any(isinstance(each, Located) for each in values) and node.name:
        out.assign(node.name.text or "", None)  # what follows may make something else of these names
    if found.anything or found.declared or redirected.stdin.whole is not None:
        _follow(walk, node, state, values, inner)
    return out, out


def _follow(walk: "Interpreter", node: Loop, state: State, values: Value, context: Context) -> None:
    """The first rounds as they run one after another, where of any number of them too little is known.

    What is seen here comes on top: how many rounds there are, and what is left afterwards, is not told.
    """
    current: State | None = state
    names = [(value,) for value in values] if values is not None else [None]
    inputs = _inputs(node, state, context)
    for n in range(len(names) if node.kind == "for" else len(inputs)):
        walk.rounds -= 1
        if current is None or walk.rounds < 0:
            return
        start = current.copy()
        if node.kind == "for" and node.name is not None and node.name.text is not None:
            start.assign(node.name.text, names[n])
        if node.condition is not None:
            condition, stdin = inputs[n]
            won, lost = walk.node(condition, start, context.around("condition").fed(stdin))
            passed = lost if node.kind == "until" else won
            if passed is None:
                return
            start = passed.copy()
        current = join(*walk.node(node.body, start, context))


def _inputs(node: Loop, state: State, context: Context) -> list[tuple[Node, Stdin]]:
    """The condition of each round, and what it reads: `while read -r line` takes one line after another."""
    condition, whole = node.condition or node.body, context.stdin.whole
    reads = condition.parts[0] if isinstance(condition, Sequence) and condition.ops[:1] == ["||"] else condition
    if whole is None or not isinstance(reads, Simple) or reads.redirects:
        return [(condition, context.stdin)]
    words = [f for word in reads.words for f in expand(word, state)]
    how = read.reading("read", words[1:]) if words and words[0].text == "read" else None
    if how is None:
        return [(condition, context.stdin)]
    texts = read.split(whole, how.delimiter)[:MAX_FOLLOWED]
    end = how.delimiter or "\0"
    rests = [end.join(texts[n:]) + end for n in range(len(texts))]
    return [(reads, Stdin.of(context.stdin.kind, rest)) for rest in rests]


def _read_names(walk: "Interpreter", node: Loop, state: State, context: Context) -> dict[str, Value]:
    """What the condition of `while read -r name` sets where its input is names that a program prints."""
    condition = node.condition
    if node.kind != "while" or not isinstance(condition, Simple) or condition.redirects or walk.functions_defined:
        return {}
    if any(each.name != "IFS" or each.value.raw for each in condition.assigns):
        return {}
    words = [f for word in condition.words for f in expand(word, state)]
    how = read.reading("read", words[1:]) if words and words[0].text == "read" else None
    if how is None or how.array is not None or len(how.names) != 1 or not how.flags <= {"r"}:
        return {}
    if not how.delimiter and not how.flags:
        return {}  # a backslash may stand in a name
    if how.names[0] in state.odd:
        return {}
    found = name_lists.printed_by(context.stdin.names_of, how.delimiter or "\0")
    if not found and node.redirects and how.delimiter and name_lists.use_names(node.body, meanwhile=True):
        found = name_sources.redirected(walk, node.redirects)
    return {how.names[0]: (Located(found[0], odd=not how.delimiter),)} if len(found) == 1 else {}


def _round(
    walk: "Interpreter", node: Loop, entry: State, context: Context, read_names: dict[str, Value]
) -> State | None:
    """One round of a loop. `read_names`: what its condition sets."""
    won: State | None = entry
    if node.condition is not None:
        won, lost = walk.node(node.condition, entry.copy(), context.around("condition"))
        won = lost if node.kind == "until" else won
    start = won.copy() if won is not None else entry.lost()
    for name, value in read_names.items():
        start.assign(name, value)
    after = join(*walk.node(node.body, start, context))
    for name in read_names:
        if after is not None:
            after.assign(name, None)
    return after


def _changes(walk: "Interpreter", node: Loop) -> Changes:
    """What a round of the loop may change."""
    known: dict[str, list[Function | None]] = {}
    for function in walk.functions_defined.values():
        known.setdefault(function.name.text or "", []).append(function)
    return changes(node, known)


def _entry(found: Changes, state: State) -> State:
    """`state`, or what any number of rounds that change what was `found` may have made of it."""
    entry = state.copy()
    if found.anything:
        entry.forget(None)
    else:
        numbers = {n for n in found.numbers if state.is_number(n)}
        for name in found.names:
            entry.assign(name, None, number=name in numbers)
        entry.own -= found.names - state.own  # before the first round has set them
    entry.odd |= found.declared
    entry.maybe_maps |= found.declared
    entry.maps -= found.declared | found.unset
    entry.unexport(found.declared | found.unset)
    entry.exported_functions |= found.declared
    for name in found.unset:
        if name in entry.functions:
            entry.define(name, None, certain=False)
    for name, functions in found.functions.items():
        for function in functions:
            entry.define(name, function, certain=False)
    entry.nullglob |= found.options
    if found.moves:
        entry.cwd = None
    if found.positional:
        entry.set_parameters(None)
    return entry


def _loop_values(fields: list[Field]) -> Value:
    """What the variable of a `for` loop may hold: texts, names that match a pattern, and names that were printed."""
    values: list[str] = []
    for f in fields:
        if f.printed:
            values.append(Located(f))
        elif f.many:
            return None
        elif f.texts or 0 < len(f.listed) <= MAX_CHOICES:
            values += f.texts or f.listed
        elif f.glob is not None and f.pathname:
            values.append(Glob(f.glob))
        else:
            return None
    return _distinct(values) if values else None


def _distinct(values: list[str]) -> Value:
    unique = tuple(dict.fromkeys(values))
    return unique if len(unique) <= MAX_CHOICES else None

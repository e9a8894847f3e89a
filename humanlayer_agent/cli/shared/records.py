"""The records that commands print for programs (`--format json` and `jsonl`): every field, its type and its meaning.

docs/output.md is made from these classes (`docs/make_output.py`). Times are milliseconds since the epoch, in UTC; null
stands for what was not there.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

Status = Literal["ok", "partial", "failed"]

# ---- check, parse, policy explain -------------------------------------------------------------------------


class EffectRecord(TypedDict):
    """One thing that a command does."""

    kind: Annotated[str, "What: read, write, delete, execute, network, privilege, persist and so on."]
    role: Annotated[str, "What the operand is to the command: operand, redirect, code and so on."]
    operand: Annotated[str | None, "A path, host or name; null where nobody can know it."]
    resolved: Annotated[bool, "Whether the operand is certain."]
    unread: Annotated[bool, "Whether this is code that nobody could read."]
    span: Annotated[list[int], "Where it stands in the command: [from, to) in Unicode code points."]


class FindingRecord(TypedDict):
    """One thing that speaks against a command."""

    text: Annotated[str, "What it is, in a sentence."]
    verdict: Annotated[str, "ask or deny: what it leads to."]
    rules: Annotated[list[str], "Ids of the rules that say so; empty where no rule allows it."]
    severity: Annotated[str, "low, medium, high or critical."]
    certain: Annotated[bool, "false where it only can't be ruled out."]


class ExcusedRecord(TypedDict):
    """A rule that would have applied, had not the policy made an exception."""

    rule: Annotated[str, "Its id."]
    by: Annotated[str, "Where the exception is written: file:line."]
    text: Annotated[str, "By what, why, and until when where that ends."]


class DecisionRecord(TypedDict):
    """The policy's answer to one command. A bad row on standard input is answered with `line` and `error`."""

    id: Annotated[NotRequired[str | None], "The row's own, where rows come by standard input."]
    line: Annotated[NotRequired[int], "Number of a bad row, from 1."]
    error: Annotated[NotRequired[str], "What is wrong with a bad row; it has none of the fields from rules to us."]
    verdict: Annotated[str, "allow, ask or deny: the answer."]
    rules: Annotated[NotRequired[list[str]], "Ids of the rules that decided, then of all others that were hit."]
    reason: Annotated[NotRequired[str], "What matters most, in a sentence for people: the deciding rule's."]
    findings: Annotated[NotRequired[list[FindingRecord]], "All that speaks against it, what matters most first."]
    severity: Annotated[NotRequired[str], "low, medium, high or critical."]
    suggestion: Annotated[NotRequired[str], "What the agent could do instead; empty where nothing is known."]
    parse: Annotated[str, "ok, partial or failed: how much of it was understood."]
    effects: Annotated[NotRequired[list[EffectRecord]], "Everything the command does."]
    us: Annotated[NotRequired[int], "Microseconds that judging it took."]
    enforced: Annotated[NotRequired[bool], "false while the policy is only observed; absent else."]
    confined: Annotated[NotRequired[str], "The confinement it would run in; absent where it has none."]
    excused: Annotated[NotRequired[list[ExcusedRecord]], "What exceptions took out of it; absent where none did."]


class SimpleCommandRecord(TypedDict):
    """One command that would run, at any depth."""

    program: Annotated[str | None, "Its name as the catalog knows it; null where it can't be known."]
    argv: Annotated[list[str], "The words after expansion."]
    resolved: Annotated[bool, "Whether all of them are known."]
    via: Annotated[list[str], "Programs that run it, such as sudo or xargs."]
    inside: Annotated[list[str], "Constructs around it, such as loop or substitution."]
    span: Annotated[list[int], "Where it stands: [from, to) in Unicode code points."]
    attributes: Annotated[dict[str, list[str | None]], "Account, cluster, place: its values by name; null: unknown."]


class ProgramRecord(TypedDict):
    """What a command line would run. A bad row on standard input is answered with `line` and `error` too."""

    id: Annotated[NotRequired[str | None], "The row's own, where rows come by standard input."]
    line: Annotated[NotRequired[int], "Number of a bad row, from 1."]
    error: Annotated[NotRequired[str], "What is wrong with a bad row."]
    status: Annotated[Status, "How much of it was understood."]
    reasons: Annotated[list[str], "What was not understood."]
    commands: Annotated[list[SimpleCommandRecord], "Every command, in the order of the text."]


class RuleHitRecord(TypedDict):
    """A rule that applies to a command or an effect."""

    rule: Annotated[str | None, "Its id; null for: no rule allows this."]
    verdict: Annotated[str, "allow, ask or deny: what it says."]
    certain: Annotated[bool, "false where it only can't be ruled out."]
    origin: Annotated[str | None, "File, line and column of the rule."]


class RuleMissRecord(TypedDict):
    """A rule that nearly applied."""

    rule: Annotated[str, "Its id."]
    decision: Annotated[str, "allow, ask or deny: what it would say."]
    because: Annotated[list[str], "What kept it from applying."]
    excused_by: Annotated[str | None, "File and line of the exception, or of the allow, that excuses from it; or null."]
    origin: Annotated[str, "File, line and column of the rule."]


class ExplainedRecord(TypedDict):
    """What was found about a command itself, or about one of its effects."""

    effect: Annotated[EffectRecord | None, "null: the command itself."]
    verdict: Annotated[str, "allow, ask or deny: the verdict on it."]
    hits: Annotated[list[RuleHitRecord], "The rules that apply."]
    missed: Annotated[list[RuleMissRecord], "The rules of its kind that do not; all of them."]


class ExplainedCommandRecord(TypedDict):
    """A simple command of an explanation."""

    command: Annotated[str, "Its text."]
    verdict: Annotated[str, "allow, ask or deny: the verdict on it, and all its effects."]
    via: Annotated[list[str], "Programs that run it."]
    inside: Annotated[list[str], "Constructs around it."]
    unresolved: Annotated[list[str], "What could not be known of it."]
    attributes: Annotated[dict[str, list[str | None]], "As hla parse has them."]
    found: Annotated[list[ExplainedRecord], "Of itself first, then of each effect."]


class ExplanationRecord(TypedDict):
    """A decision with all that led to it."""

    command: Annotated[str, "What was judged."]
    decision: Annotated[DecisionRecord, "As hla check has it."]
    spans: Annotated[list[list[int]], "The deciding parts of the command."]
    parts: Annotated[list[ExplainedCommandRecord], "Every simple command."]
    changes: Annotated[list[str], "With --why-not allow: what would be needed; else empty."]


# ---- doctor, channel, catalog ----------------------------------------------------------------------------


class DoctorRecord(TypedDict):
    """One finding of the doctor."""

    check: Annotated[str, "Name of the check."]
    group: Annotated[str, "The heading it stands under."]
    status: Annotated[Literal["ok", "warning", "failed"], "failed makes the exit code 1."]
    said: Annotated[str, "What was found."]
    todo: Annotated[str, "What to do; empty where nothing is to be done."]


class ChannelRecord(TypedDict):
    """A channel of the channels files."""

    channel: Annotated[str, "Its name."]
    type: Annotated[str, "terminal, slack, mail, web or a registered one."]
    routes: Annotated[list[str], "The routes that use it."]
    hub: Annotated[bool, "Whether hla hub serves it; false asks where the agent runs."]
    not_installed: Annotated[str | None, "What has to be installed for it, and how."]
    not_set: Annotated[list[str], "Environment variables that it needs, and that are not set here."]
    process: Annotated[int | None, "Process id of the hub that serves it now."]


class CatalogProgramRecord(TypedDict):
    """A program that the catalog describes."""

    program: Annotated[str, "Its name."]
    family: Annotated[str, "The file it stands in: the name of a shipped one, or the path of another."]


class CatalogOptionRecord(TypedDict):
    """An option of a program."""

    option: Annotated[str, "The catalog's name of it."]
    spellings: Annotated[list[str], "As it is written: -o, --output."]
    value: Annotated[
        Literal["none", "required", "attached"], "Whether a value follows; attached: only as --name=VALUE."
    ]
    kind: Annotated[str | None, "What the value is, as with operands."]
    does: Annotated[str | None, "An effect of the option itself."]


class CatalogOperandRecord(TypedDict):
    """An operand of a program."""

    kind: Annotated[str, "What it is: read, write, delete, host, command and so on."]
    repeat: Annotated[str, '"" one, "?" if given, "*" any number, "+" one or more.']
    with_options: Annotated[list[str], "Only with one of these options; empty: always."]


class CatalogEffectRecord(TypedDict):
    """An effect that no operand stands for."""

    kind: Annotated[str, "What it does."]
    operand: Annotated[str | None, "To what; . is the working directory."]
    with_options: Annotated[list[str], "Only with one of these options; empty: always."]
    without_options: Annotated[list[str], "But not with one of these."]


class CatalogExampleRecord(TypedDict):
    """A command, and what it does."""

    command: Annotated[str, "The command."]
    effects: Annotated[list[str], "Its effects, as kind and operand."]
    resolved: Annotated[bool, "Whether that is all it does, for certain."]


class CatalogRecord(TypedDict):
    """What the catalog knows of a program or sub-command."""

    program: Annotated[str, "The name, with its sub-commands."]
    about: Annotated[str, "What it is for."]
    grammar: Annotated[str | None, "The reader that knows more than stands here."]
    options: Annotated[list[CatalogOptionRecord], "Its options."]
    operands: Annotated[list[CatalogOperandRecord], "Its operands, in their order."]
    effects: Annotated[list[CatalogEffectRecord], "What it does by itself."]
    recursive: Annotated[list[str], "Options with which its operands mean everything below them, too."]
    subcommands: Annotated[list[str], "Its sub-commands."]
    service: Annotated[str | None, "The service that it talks to."]
    verb: Annotated[str | None, "read, change, delete, secrets, execute or local: what it asks of the service."]
    attributes: Annotated[list[str], "Options that say which account, cluster or place is meant."]
    examples: Annotated[list[CatalogExampleRecord], "Examples; each is tested."]


class CatalogRemarkRecord(TypedDict):
    """A remark on a catalog file: an example that does not hold, a likely mistake, what is not done yet."""

    path: Annotated[str, "The file."]
    line: Annotated[int | None, "The line; null where it is about the file as a whole."]
    text: Annotated[str, "What is said, for people."]
    wrong: Annotated[bool, "Whether it is wrong, and not only worth a look."]


# ---- requests --------------------------------------------------------------------------------------------


class RequestRecord(TypedDict):
    """A request: a question to humans whether a command may run."""

    id: Annotated[str, "Its id; commands take the beginning too."]
    state: Annotated[str, "pending, approved, rejected, expired, withdrawn and so on."]
    digest: Annotated[str, "SHA-256 of exactly what would run."]
    body: Annotated[Mapping[str, Any], "What that digest is over: command, cwd, and so on."]
    run: Annotated[str, "The run that asks."]
    requester: Annotated[str, "Who started it."]
    rules: Annotated[list[str], "The rules that made it ask."]
    reason: Annotated[str, "Why, for people."]
    created: Annotated[int, "When it was asked."]
    expires: Annotated[int, "Until when it waits."]
    decided: Annotated[int | None, "When it was settled."]
    decided_by: Annotated[str | None, "Who settled it."]
    comment: Annotated[str | None, "Words with the answer."]
    edited: Annotated[str | None, "The command that a human put in its place."]
    parent: Annotated[str | None, "The request that this one is an edit of."]
    route: Annotated[str, "The route it took."]
    needed: Annotated[int, "How many must approve it."]
    abandoned: Annotated[bool, "Whether the agent that asked is gone."]


class AnswersRecord(TypedDict):
    """How a person answers, or how what a rule asks is answered."""

    of: Annotated[str, "approver or rule."]
    name: Annotated[str, "Their name; of a rule its id, empty where no rule allows it."]
    asked: Annotated[int, "So many questions: that they answered, or that the rule asked."]
    answers: Annotated[dict[str, int], "So many answers of each kind."]
    percent_approved: Annotated[float, "Of the answers."]
    median_ms: Annotated[int | None, "Milliseconds from the question to the answer; null without answers."]
    percent_under_3_s: Annotated[float, "Of the answers: faster than anybody reads much."]


class GrantUseRecord(TypedDict):
    """One command that a grant has let run."""

    use: Annotated[int, "The how manieth use it is."]
    at: Annotated[int, "When."]
    run: Annotated[str, "The run that it belongs to."]
    agent: Annotated[str, "The agent whose command it was."]
    command: Annotated[str, "The command, without the secrets in it."]


class GrantRecord(TypedDict):
    """A grant: an approval that holds for more than once."""

    id: Annotated[str, "Its id, which is that of the request that was approved; commands take the beginning too."]
    state: Annotated[
        str, "active, revoked, expired, used up, run ended, or unproved: no key proves it, so it covers nothing."
    ]
    words: Annotated[str, "What it covers, in a line."]
    by: Annotated[list[str], "The people who gave it."]
    given: Annotated[int, "When."]
    until: Annotated[int, "When it ends."]
    uses: Annotated[int, "How many commands it has let run."]
    max_uses: Annotated[int, "How many it may."]
    project: Annotated[str, "The project that it is for."]
    agent: Annotated[str, "The agent that it is for; empty: any of the same user."]
    run: Annotated[str, "The run that it is for; empty: any."]
    policy: Annotated[str, "The digest of the policy that it was given under: under another it covers nothing."]
    revoked: Annotated[int | None, "When it was taken back."]
    revoked_by: Annotated[str | None, "Who did that."]
    used: Annotated[list[GrantUseRecord], "What it has let run, oldest first."]


class PersonRecord(TypedDict):
    """Somebody who may be asked."""

    id: Annotated[str, "Their name in the channels files."]
    identities: Annotated[list[str], "By which they are known."]
    routes: Annotated[list[str], "The routes by which they decide."]
    away_until: Annotated[int | None, "When they are back; null: they have not said that they are away."]
    away_to: Annotated[str | None, "Who is asked in their place."]
    not_counted: Annotated[str, "Why what they said does not count; empty where it does."]
    removed: Annotated[int | None, "When everything ended that they may do (`hla people remove`); null: it has not."]


class StoreRecord(TypedDict):
    """A store, and how much is in it."""

    location: Annotated[str, "Where it is: a path, or an address without its password."]
    kind: Annotated[str, "`sqlite` or `postgresql`."]
    version: Annotated[int, "Of its schema."]
    events: Annotated[int, "In its log."]
    waiting: Annotated[int, "Requests that wait for an answer."]
    runs: Annotated[int, "Runs of agents that go on."]
    leases: Annotated[list[str], "The channels that a process serves."]
    size: Annotated[int, "What it takes on the disk, in bytes."]


# ---- audit -----------------------------------------------------------------------------------------------


class EventRecord(TypedDict):
    """An event of the log. Each type has its own fields; in a pipe, jsonl is the very bytes that were hashed."""

    e: Annotated[dict[str, Any], "The event: seq, chain, link, at, type, and the fields of its type."]
    h: Annotated[str, "Its hash, which the next event of its chain holds as prev."]


class HeadRecord(TypedDict):
    """A signed head: how far the log goes."""

    head: Annotated[str, "The line to keep elsewhere; --head takes it."]
    store: Annotated[str, "Identifies the log."]
    seq: Annotated[int, "Number of the newest event."]
    hash: Annotated[str, "Its hash."]
    count: Annotated[int, "How many events there are."]
    time: Annotated[int, "When it was signed."]
    key: Annotated[Literal["user", "process"], "Whose key signed it."]
    signer: Annotated[str, "Fingerprint of that key."]
    signature: Annotated[str, "The signature, in hex."]
    root: Annotated[str, "The root of the tree over the newest events of all chains."]


class HoldRecord(TypedDict):
    """A legal hold that stands."""

    id: Annotated[str, "Names it."]
    run: Annotated[str | None, "The run that it keeps; null: not one run."]
    since: Annotated[int | None, "It keeps what happened from then on; null: from the beginning."]
    until: Annotated[int | None, "It keeps what happened until then; null: without an end."]
    at: Annotated[int, "When it was placed."]
    person: Annotated[str, "Who placed it."]
    reason: Annotated[str, "Their words."]
    note: Annotated[str, "Why a release that is there does not count; empty where there is none."]


class MarkedEventRecord(TypedDict):
    """An event in which a value stands."""

    seq: Annotated[int, "Its number."]
    at: Annotated[int, "When it was."]
    run: Annotated[str | None, "Of which run."]
    type: Annotated[str, "Its type."]


class MarkRecord(TypedDict):
    """Where a value was used."""

    mark: Annotated[str, "What stands in the log in its place."]
    events: Annotated[list[MarkedEventRecord], "The events in which it stands."]


class VerificationRecord(TypedDict):
    """What the verifier found."""

    result: Annotated[Literal["intact", "tampered", "gap", "torn"], "Exit codes: 0; 1; 5; 5."]
    events: Annotated[int, "So many are intact from the beginning on."]
    head: Annotated[str, "Hash of the last of them."]
    bad_event: Annotated[int | None, "Number of the first that is not what was written."]
    problem: Annotated[str, "What is wrong there; empty where nothing is."]
    not_read: Annotated[int, "With --since-checked: so many were verified before, and not read again."]
    last_head: Annotated[int | None, "Event up to which the newest signed head in it goes."]
    signers: Annotated[list[str], "Whose keys have signed heads in it."]
    witnessed: Annotated[int | None, "Event up to which a head that was kept elsewhere agrees; null: none was given."]


class ReportRecord(TypedDict):
    """The whole report on a log."""

    integrity: Annotated[dict[str, Any], "intact, events, head, problem, bad_seq, witnessed_event."]
    store: Annotated[str, "Identifies the log."]
    period: Annotated[dict[str, Any], "first, last, events."]
    event_types: Annotated[dict[str, int], "How many events of each type."]
    unreadable_events: Annotated[int, "So many could not be read."]
    verdicts: Annotated[dict[str, int], "How many decisions of each verdict."]
    days: Annotated[dict[str, dict[str, int]], "The same, by day."]
    policies: Annotated[list[dict[str, Any]], "policy, digest, first, last, decisions."]
    runs: Annotated[list[dict[str, Any]], "run, agent, requester, project, started, ended, status, verdicts."]
    rules: Annotated[list[dict[str, Any]], "rule, applied, decided, ended."]
    attention: Annotated[dict[str, Any], "How often people are asked, and how fast they answer."]
    requests: Annotated[list[dict[str, Any]], "Every question to a human, its votes and what became of it."]
    granted: Annotated[int, "How many asks a grant answered."]
    grants: Annotated[list[dict[str, Any]], "Every approval for more than once: by whom, words, uses, revocation."]
    away: Annotated[list[dict[str, Any]], "Who was away, until when, who was asked in their place, when that ended."]
    denials: Annotated[list[dict[str, Any]], "Every decision that denied."]
    observed: Annotated[list[dict[str, Any]], "Decisions that were only observed."]
    unknown_outcome: Annotated[list[dict[str, Any]], "Commands of which nobody knows how they ended."]
    swapped_files: Annotated[list[dict[str, Any]], "Files that became others between judging and running."]
    kept_files: Annotated[list[dict[str, Any]], "What was kept for hla undo, and what was put back."]
    votes_not_counted: Annotated[list[dict[str, Any]], "Answers that did not count, and why."]
    redactions: Annotated[dict[str, Any], "Commands with secrets taken out: commands, erased."]
    stops: Annotated[list[dict[str, Any]], "hla stop and hla resume: seq, at, type, by, words."]
    about_the_log: Annotated[list[dict[str, Any]], "Events about the log itself: seq, at, type, details."]


class EvidenceRecord(TypedDict):
    """What a log shows for the clauses of a law or a standard. The same log and times give the same record."""

    map: Annotated[str, "eu-ai-act, soc2 or iso42001."]
    title: Annotated[str, "Its name in short."]
    of: Annotated[str, "The law or the standard."]
    edition: Annotated[str, "Which edition the clauses are of."]
    source: Annotated[str, "Where it is published."]
    applies: Annotated[str, "Whom it is about, as far as that bears on the log."]
    notice: Annotated[str, "That it is evidence, and does not say that a clause is met."]
    integrity: Annotated[dict[str, Any], "reliable, headline, and intact, events, head and so on as in a report."]
    store: Annotated[str, "Identifies the log."]
    version: Annotated[str, "Of humanlayer-agent, by which this was made."]
    period: Annotated[dict[str, Any], "since, until (ISO 8601, UTC, as the commands take them), run, events."]
    unreadable_events: Annotated[int, "So many could not be read, and count nowhere."]
    clauses: Annotated[
        list[dict[str, Any]], "clause, about, shows, beyond (what no log shows), figures (their names), records."
    ]
    figures: Annotated[list[dict[str, Any]], "name, says, count, command (which prints the count)."]
    records: Annotated[dict[str, Any], "By name: title, commands, and rows, as a report has them."]


# ---- policy ----------------------------------------------------------------------------------------------


class LayerRecord(TypedDict):
    """A layer of the policies in force."""

    policy: Annotated[str, "Its name."]
    authority: Annotated[str, "machine, user, project, builtin or given."]
    trusted: Annotated[bool, "Whether its allows count."]
    observe: Annotated[bool, "Whether it is only observed."]
    defaults: Annotated[dict[str, Any], "What it says where no rule decides."]
    sources: Annotated[list[Any], "Its files, with their digests."]
    lists: Annotated[list[dict[str, Any]], "Its lists of names, by file: name and entries."]
    rules: Annotated[list[dict[str, Any]], "As written, with the exceptions to them, and in_force and notes."]
    exceptions: Annotated[list[dict[str, Any]], "Those to rules of layers above: as written, and in_force."]


class CatalogFileRecord(TypedDict):
    """A catalog file that does not ship."""

    path: Annotated[str, "Where it is."]
    owner: Annotated[Literal["machine", "user", "project"], "Whose it is."]
    sha256: Annotated[str, "SHA-256 of its bytes."]
    programs: Annotated[list[str], "The programs that it describes."]


class LayersRecord(TypedDict):
    """The policies in force."""

    digest: Annotated[str, "Identifies all of them together."]
    observe: Annotated[bool, "Whether they are only observed."]
    layers: Annotated[list[LayerRecord], "The highest first."]
    catalogs: Annotated[list[CatalogFileRecord], "The catalog files in force."]


class LayerStatusRecord(TypedDict):
    """What stands at a layer of the policies, whether it counts or not."""

    layer: Annotated[Literal["machine", "user", "project", "builtin"], "Whose it is."]
    file: Annotated[str, "The file: a policy, or a signed bundle."]
    policy: Annotated[str | None, "The policy's name."]
    sha256: Annotated[str | None, "SHA-256 of the file."]
    version: Annotated[int | None, "Of a bundle: its version."]
    signer: Annotated[str | None, "Of a bundle: the public key that has signed it."]
    expires: Annotated[str | None, "Of a bundle: the last day on which it holds, or the moment at which it ends."]
    fetched: Annotated[str | None, "Of a bundle: when the last one was put in force (UTC, ISO 8601)."]
    source: Annotated[str | None, "Of a bundle: where that came from."]
    problem: Annotated[str, "Why it does not count, or not wholly; empty where it does."]


class BundleRecord(TypedDict):
    """A policy bundle whose signature is good."""

    name: Annotated[str, "The policy's name."]
    version: Annotated[int, "Its version."]
    expires: Annotated[str, "The last day on which it holds, or the moment at which it ends (UTC)."]
    signer: Annotated[str, "The public key that has signed it."]
    sha256: Annotated[str, "SHA-256 of its bytes."]
    files: Annotated[list[str], "The names of its files."]
    unlocks: Annotated[list[str], "Locked rules of earlier versions that it may lack or change."]
    tests: Annotated[int | None, "How many tests in it have passed; null without --tests."]


class SignerListRecord(TypedDict):
    """A signer list whose signature is good."""

    name: Annotated[str, "Its name."]
    version: Annotated[int, "Its version."]
    expires: Annotated[str, "The last day on which it holds, or the moment at which it ends (UTC)."]
    signer: Annotated[str, "The public key that has signed it."]
    sha256: Annotated[str, "SHA-256 of its bytes."]
    signers: Annotated[dict[str, list[str]], "The public keys of each person or hub."]


class SignerRecord(TypedDict):
    """A key that a channels file names as a signer, or the signed list that one takes."""

    key: Annotated[str, "The public key."]
    name: Annotated[str, "Whose it is, as the list says; empty for one that a channels file names."]
    counts: Annotated[bool, "Whether what it has signed counts here."]
    mine: Annotated[bool, "Whether it is your own."]
    list: Annotated[str | None, "The signed list that it stands in, with its version."]
    expires: Annotated[str | None, "The last day on which that holds, or the moment at which it ends (UTC)."]
    fetched: Annotated[str | None, "When that was put in force (UTC, ISO 8601)."]
    source: Annotated[str | None, "Where that came from."]


class ExampleRecord(TypedDict):
    """An example of a rule, judged."""

    policy: Annotated[str, "The policy's name."]
    rule: Annotated[str, "The rule it stands in, or that the exception is to."]
    exception: Annotated[bool, "Whether it stands in an exception to that rule."]
    origin: Annotated[str, "File and line of the rule, or of the exception."]
    kind: Annotated[str, "match, maybe or not_match."]
    command: Annotated[str, "The command."]
    passed: Annotated[bool, "Whether it is as the rule says."]
    expected: Annotated[str, "What was expected."]
    verdict: Annotated[str, "allow, ask or deny: what the policy says of it."]
    rules: Annotated[list[str], "The rules that were hit."]


class RewritingRecord(TypedDict):
    """An example of a rule, judged again in other spellings."""

    policy: Annotated[str, "The policy's name."]
    rule: Annotated[str, "The rule it stands in."]
    origin: Annotated[str, "File, line and column of the rule."]
    kind: Annotated[str, "match, maybe or not_match."]
    command: Annotated[str, "The command."]
    rewritings: Annotated[int, "In so many other spellings it was judged."]
    passed: Annotated[bool, "Whether all were judged alike."]
    remembered: Annotated[bool, "Whether that is how it was judged before, and nothing has changed since."]
    failures: Annotated[list[dict[str, Any]], "transformations, expected, original, rewritten."]


class LintRecord(TypedDict):
    """Something that is wrong with a policy."""

    check: Annotated[str, "The check that found it; --explain says more."]
    level: Annotated[str, "error, warning or note."]
    unknown: Annotated[bool, "Whether the check could not tell."]
    ignored: Annotated[str | None, "The reason in a comment that hides it."]
    file: Annotated[str, "Where: the file."]
    line: Annotated[int, "The line, from 1."]
    column: Annotated[int, "The column, from 1."]
    about: Annotated[str, "The rule or key."]
    message: Annotated[str, "What is wrong."]
    witness: Annotated[dict[str, Any] | None, "A command that shows it: command, verdict, rules."]


class CheckPageRecord(TypedDict):
    """The documentation of a check of the linter."""

    check: Annotated[str, "Its name."]
    page: Annotated[str, "What it is about, in Markdown."]


class CoverageRecord(TypedDict):
    """What the tests of a policy show."""

    policy: Annotated[str, "Its name."]
    percent: Annotated[float, "How much of its rules and clauses a test shows."]
    shown: Annotated[int, "So many."]
    of: Annotated[int, "Of so many."]
    idle: Annotated[int, "So many make no difference to any command that was found."]
    rules: Annotated[list[dict[str, Any]], "rule, origin, matched, decided, clauses; log with --log."]


class ReplayRecord(TypedDict):
    """The figures of replayed runs."""

    policy: Annotated[str, "The policy that judged."]
    files: Annotated[list[str], "The logs."]
    formats: Annotated[list[str], "What they are."]
    other_files: Annotated[list[str], "Files in the folders that are no logs."]
    commands: Annotated[int, "How many commands were judged."]
    runs: Annotated[int, "Of how many runs."]
    runs_asked: Annotated[int, "In how many of them somebody would have been asked."]
    verdicts: Annotated[dict[str, int], "How many of each verdict."]
    unread: Annotated[dict[str, int], "How many of those run code that nobody could read."]
    confined: Annotated[dict[str, int], "How many are allowed in each confinement."]
    asks_per_100_commands: Annotated[float, "Questions to a human."]
    asks_per_run: Annotated[float, "Questions to a human."]
    parse: Annotated[dict[str, int], "How much was understood."]
    rules: Annotated[list[dict[str, Any]], "rule, decision, applied, decided."]
    never_hit: Annotated[list[str], "Rules that met nothing."]
    stopped: Annotated[list[dict[str, Any]], "What would be asked or denied, the most frequent first."]
    causes: Annotated[
        list[dict[str, Any]], "Why: kind, fault (log: files are missing), count, share, verdicts, example."
    ]
    missing: Annotated[list[dict[str, Any]], "Code of a checkout that is not there: code, count."]
    slowest: Annotated[list[dict[str, Any]], "us, command."]
    us: Annotated[dict[str, int], "Microseconds: p50, p99."]
    recorded: Annotated[dict[str, Any], "What the logs say was decided: rows, changed."]
    redacted: Annotated[int, "Commands with secrets taken out, judged without them."]
    tool_calls_without_command: Annotated[dict[str, int], "By tool."]
    unreadable: Annotated[dict[str, Any], "Rows that could not be replayed: count, rows."]
    grants: Annotated[NotRequired["SimulatedRecord"], "With --grant: what simulated approvers would have been asked."]


class SimulatedRecord(TypedDict):
    """The asks of replayed runs whose approvers approve more than once."""

    choice: Annotated[str, "narrowest, second or widest: which of the offered scopes they choose."]
    certain: Annotated[dict[str, int], "Asks of which something is certain: before, after."]
    others: Annotated[dict[str, int], "All other asks: before, after."]
    rules: Annotated[list[dict[str, Any]], "rule (null: none allows it), before, after."]
    runs: Annotated[list[dict[str, Any]], "run, before, after."]
    grants: Annotated[list[dict[str, Any]], "words, run, rule, command, answered: command, place, rule."]


class ReplayedRecord(TypedDict):
    """One replayed command."""

    source: Annotated[str, "The log."]
    place: Annotated[str, "Where in it."]
    run: Annotated[str, "Of which run."]
    id: Annotated[str, "The row's own id."]
    command: Annotated[str, "The command."]
    cwd: Annotated[str, "Where it started."]
    verdict: Annotated[str, "allow, ask or deny: what the policy says of it."]
    rules: Annotated[list[str], "The rules that were hit."]
    reason: Annotated[str, "Why, for people."]
    severity: Annotated[str, "low, medium, high or critical."]
    parse: Annotated[str, "ok, partial or failed."]
    unread: Annotated[bool, "Whether it runs code that nobody could read."]
    missing: Annotated[list[str], "What of that is of a checkout that is not there."]
    confined: Annotated[NotRequired[str], "The confinement it would run in; absent where it has none."]
    recorded: Annotated[str | None, "What the log says was decided."]
    us: Annotated[int, "Microseconds that judging it took."]


class PolicyDiffRecord(TypedDict):
    """What changes when one policy takes the place of another."""

    old: Annotated[str, "The one that was."]
    new: Annotated[str, "The one that is to be."]
    headline: Annotated[str, "equivalent (the rules are), no difference found, stricter, looser or mixed."]
    commands: Annotated[int, "How many were judged by both."]
    loosened: Annotated[int, "So many are looser, and nobody has accepted it."]
    accepted: Annotated[int, "So many are looser, and accepted."]
    tightened: Annotated[int, "So many are stricter."]
    same: Annotated[int, "So many are decided the same."]
    decided_by_another_rule: Annotated[int, "So many of those by another rule."]
    asked_with_less: Annotated[dict[str, int], "Asked by an easier route, by what is easier."]
    confined_otherwise: Annotated[dict[str, int], "Allowed as before, in another confinement."]
    no_longer_locked: Annotated[list[str], "What lower layers may weaken now."]
    loosened_clauses: Annotated[int, "So many changes in the rules loosen something that was found, and not accepted."]
    searched: Annotated[
        dict[str, Any] | None, "What was looked for: commands, complete, changed (rule, clause, change, found)."
    ]
    matrix: Annotated[dict[str, dict[str, int]], "Old verdict, new verdict, how many."]
    changes: Annotated[
        list[dict[str, Any]],
        "digest, command, loosened, accepted, count, shows, old, new, first; shows: the clause.",
    ]
    stale_acceptances: Annotated[list[dict[str, Any]], "digest, command, reason, why."]
    unreadable: Annotated[dict[str, Any], "Rows that could not be replayed: count, rows."]


# ---- undo ------------------------------------------------------------------------------------------------


class KeptRecord(TypedDict):
    """What was kept for a permit, for an undo, or once for a run."""

    run: Annotated[str, "The run."]
    permit: Annotated[str | None, "The permit, or the name of the undo; null where it was kept once for the run."]
    project: Annotated[str, "The directory it worked for."]
    at: Annotated[int, "When they were kept."]
    files: Annotated[int, "How many."]
    created: Annotated[int, "How many files, links and folders the command made."]
    changed: Annotated[int, "How many it changed."]
    deleted: Annotated[int, "How many it removed."]
    bytes: Annotated[int, "Size of what was kept."]
    left_out: Annotated[int, "How many were not kept."]
    undoable: Annotated[bool, "Whether it can be undone as a whole now."]
    why: Annotated[str, "Why not."]


class UndoStepRecord(TypedDict):
    """What an undo does to a file, or does not."""

    path: Annotated[str, "Where, from the project on."]
    undo: Annotated[
        Literal["delete", "restore", "change", "mode", "done", "refused", "committed", "stays", "not kept", "beyond"],
        "What it does; done: it is as it was; refused: see why; committed: git restore brings it back; stays: it is "
        "new, and not known to be of a command; not kept: see why; beyond: what no undo takes back, see why.",
    ]
    bytes: Annotated[int, "Its size afterwards."]
    why: Annotated[str, "Why it is not undone, or what is beyond."]


class DiffRecord(TypedDict):
    """What an undo changes of a text."""

    path: Annotated[str, "Where, from the project on."]
    diff: Annotated[str, "As diff -u has it, secrets hidden; empty where there is none."]
    why: Annotated[str, "Why there is none."]


class UndoneRecord(TypedDict):
    """What an undo did."""

    restored: Annotated[list[str], "Files and folders that are as they were."]
    deleted: Annotated[list[str], "Those that were new."]
    failed: Annotated[dict[str, str], "By path: why it can't be undone; then nothing was."]
    left: Annotated[list[str], "What could not be put back to how it was before, where it failed midway."]
    undo: Annotated[str | None, "What to name for taking this back; null where nothing was done."]

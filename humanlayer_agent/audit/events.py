"""The types of events in the audit log, in one table, each with a stable code.

Programs that read logs rely on names and codes: they are never changed or used again, new ones are added.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventType:
    """One kind of event: its name ("family.what"), its stable code, and what it says happened."""

    name: str
    code: int
    meaning: str


AUDIT_OPENED = EventType("audit.opened", 100, "a store was created: its log begins here")
AUDIT_HEAD = EventType("audit.head", 101, "so far goes the log: signed, to be kept elsewhere as a witness")
AUDIT_RECOVERED = EventType("audit.recovered", 102, "an export ended within a line: that was cut off, and written anew")
AUDIT_DEGRADED = EventType("audit.degraded", 103, "the log could not be written for a while: everything was denied")
AUDIT_CLOSED = EventType(
    "audit.closed",
    104,
    "the last run that was open has ended in order, and no channel is served: a signed head follows",
)

AUDIT_ANCHORED = EventType(
    "audit.anchored",
    105,
    "the log had no anchor beside the user's keys, and got one: it was lost, or another user or version wrote this",
)
AUDIT_LOSS_ACCEPTED = EventType(
    "audit.loss-accepted",
    106,
    "events that the anchor names are missing: a human goes on without them, and signed that",
)

STORE_LEFT = EventType(
    "store.left", 107, "the whole store is moved to another place (`target`): where this is the end, nothing goes on"
)
STORE_MOVED = EventType("store.moved", 108, "the store was moved, and goes on here")

AUDIT_READ = EventType(
    "audit.read",
    109,
    "somebody read the log by a role of its database that may only read (`by`: its login), with this `command`",
)

KEY_ROTATED = EventType("key.rotated", 150, "heads are signed with another key of the user from here on")
SIGNERS_CHANGED = EventType(
    "signers.changed", 151, "a process began whose channels files name other signers of answers than were named before"
)

RETENTION_PURGED = EventType(
    "retention.purged",
    160,
    "what was settled, old and exported was deleted from the tables; the log stays whole",
)

HOLD_PLACED = EventType(
    "hold.placed",
    161,
    "a legal hold: what it is about (a `run`, a time from `since` to `until`, or everything) is not "
    "deleted, and somebody signed that",
)
HOLD_LIFTED = EventType("hold.lifted", 162, "a legal hold (`hold`) is over, and signed by whoever may decide that")

POLICY_LOADED = EventType("policy.loaded", 200, "a policy is in force in a run")
POLICY_ERROR = EventType("policy.error", 201, "the Director failed on an action: denied")

RUN_STARTED = EventType("run.started", 300, "an agent's run began")
RUN_FINISHED = EventType("run.finished", 301, "a run ended, or its process is gone (state lost)")
RUN_STOPPED = EventType(
    "run.stopped", 302, "a run was stopped, by a human or its supervisor (`why`): nothing of it may run any more"
)

SUPERVISION_STOPPED = EventType(
    "supervision.stopped", 350, "a human stopped every agent of the store: nothing new runs until that is lifted"
)
SUPERVISION_RESUMED = EventType("supervision.resumed", 351, "a human lifted a stop (`halt`), and signed that")
SUPERVISION_REFUSED = EventType(
    "supervision.refused",
    352,
    "a stop, a resumption or (`refusal` is stopped) a call that no policy judges did not happen, and the code of why",
)

GLASS_BROKEN = EventType(
    "supervision.break-glass",
    353,
    "somebody who is named for emergencies approved a request (`request`), or lifted a stop (`halt`), outside of its "
    "route, with a reason; `done`: another one had, each signed with a key of their own, so it counts",
)

DECISION_EVALUATED = EventType("decision.evaluated", 400, "the Director judged an action")
DECISION_LEFT = EventType(
    "decision.left",
    401,
    "a call was left to a coding agent's own rules: no policy is about it, or another hook has told of it before",
)

COMMAND_HELD = EventType(
    "command.held",
    402,
    "a command was run held, for a human to look at what it changes (`layer`, if that can be applied)",
)

REQUEST_CREATED = EventType("request.created", 500, "a human is asked")
REQUEST_ADOPTED = EventType("request.adopted", 501, "a restarted run waits for the request of the run before it")
REQUEST_APPROVED = EventType("request.approved", 502, "approved: a permit may be issued")
REQUEST_REJECTED = EventType("request.rejected", 503, "a human refused the action")
REQUEST_EXPIRED = EventType("request.expired", 504, "nobody answered in time")
REQUEST_WITHDRAWN = EventType("request.withdrawn", 505, "nobody waits for the answer any more, or nobody can be asked")
REQUEST_TERMINATED = EventType("request.terminated", 506, "a human stopped the whole run")
REQUEST_LAPSED = EventType("request.lapsed", 507, "approved, but not used in time")
REQUEST_INVALIDATED = EventType("request.invalidated", 508, "approved, but something else was about to run")
REQUEST_SUPERSEDED = EventType("request.superseded", 509, "a human changed the command: it is judged anew as changed")
REQUEST_REVOKED = EventType("request.revoked", 510, "approved, and taken back by a human before it was used")
REQUEST_ANSWERED = EventType("request.answered", 511, "a human gave words to the model instead of letting it run")
REQUEST_ESCALATED = EventType("request.escalated", 512, "a human had the next audience asked; it goes on waiting")

VOTE_RECORDED = EventType("vote.recorded", 600, "one human's answer counted")
VOTE_REFUSED = EventType("vote.refused", 601, "an answer did not count; `refusal` is the stable code of why not")
VOTE_LATE = EventType("vote.late", 602, "an answer came after the request was settled")

GRANT_GIVEN = EventType(
    "grant.given",
    650,
    "an approval has a scope: more of the kind may be done without asking, `until` then and `max_uses` times",
)
GRANT_USED = EventType(
    "grant.used", 651, "an action ran without asking, because a grant covers it: the how manieth `use` of `max_uses`"
)
GRANT_REVOKED = EventType("grant.revoked", 652, "a human took a grant back: it lets nothing through from here on")

ABSENCE_SAID = EventType(
    "absence.said",
    660,
    "somebody (`person`) is away `until` then, and signed that another (`to`) is asked in their place",
)
ABSENCE_ENDED = EventType(
    "absence.ended", 661, "what somebody (`person`) has said of being away (`absences`) counts no more: they are asked"
)

PERSON_REMOVED = EventType(
    "person.removed",
    662,
    "somebody (`person`) has left: no answer by their `identities` counts from here on, nor what their `keys` sign; "
    "their `grants` and their approvals that were not used yet (`lapsed`) end with it",
)

TOOLS_LISTED = EventType(
    "tools.listed",
    670,
    "an MCP server (`server`) has shown its tools for the first time: what it says of each is kept, by hash",
)
TOOLS_CHANGED = EventType(
    "tools.changed",
    671,
    "an MCP server has other tools than before, or says something else of them: calls of what is `added` or `changed` "
    "are asked about until a human has approved one",
)

WALL_REFUSED = EventType(
    "wall.refused", 610, "what only humans run was started by a supervised command: it did nothing"
)

HOOK_UNPROVEN = EventType(
    "hook.unproven", 611, "who answered a hook gave no proof in the log and was not believed: another process judged"
)

HOOK_UNCONFINED = EventType(
    "hook.unconfined",
    612,
    "a coding agent's hook that is to have commands confined judges them as for an unconfined agent, and `why`; said "
    "once for each session and reason",
)
HOOK_REPORTED = EventType(
    "hook.reported", 613, "a coding agent said that a command ended: it is the one that its hook had answered"
)
HOOK_BYPASSED = EventType(
    "hook.bypassed",
    614,
    "a coding agent ran something else than its hook had answered, or used no permit: its session is denied all else",
)

LOGIN_REFUSED = EventType(
    "login.refused", 620, "a wrong login code was typed at the web inbox; `caller` says from where"
)

PERMIT_CONSUMED = EventType("permit.consumed", 700, "the right to run one action was used")
PERMIT_REFUSED = EventType("permit.refused", 701, "a permit could not be used: late, changed, used before, run over")
PERMIT_HANDED = EventType(
    "permit.handed", 702, "a coding agent was answered with a command that uses this permit, in the place of its own"
)

LIMIT_COUNTED = EventType(
    "limit.counted",
    703,
    "an action that is about to run was counted for limits of the policy: `amount` was added to a `counter`, which is "
    "`total` since the store has it, and `in_run` in the run; `time` never goes back",
)

EXEC_STARTED = EventType(
    "exec.started",
    800,
    "the action is about to run (written before it does); `confined`: what the kernel holds it to; "
    "`reduced`: what a backend holds it to that no verdict counts on",
)
EXEC_FINISHED = EventType(
    "exec.finished",
    801,
    "the action ended: exit code, or why there is none; `network`: how many connections were forwarded for it "
    "(`reached`), and how many were not (`refused`), by host; `files`: how many files of the project it made, changed "
    "and removed, with the SHA-256 of the list, where that is kept for an undo",
)
EXEC_UNKNOWN = EventType("exec.unknown", 802, "the supervisor died while the action ran: never run again by itself")
EXEC_CHANGED = EventType(
    "exec.changed",
    803,
    "files that the action was judged by became others before it ended (`files`): `refused`, it was not started; "
    "`own`, it may have changed them itself; else the run was ended with it",
)
EXEC_MOVED_ASIDE = EventType(
    "exec.moved_aside",
    804,
    "a confined command left files where they would be run later by themselves; `kept` is where they are now",
)

FILES_KEPT = EventType(
    "files.kept",
    850,
    "files of the project were kept: those that no commit has, before code ran confined that nobody had read; what the "
    "command of a `permit` may replace; or what an undo does. How many `files` and `bytes`, how many were `left_out`, "
    "and the SHA-256 of the list (`manifest`)",
)
FILES_UNKEPT = EventType(
    "files.unkept",
    851,
    "the files of the project could not be kept, and why: a human was asked about the action; or what the command of a "
    "`permit` replaced was not kept, and can't be undone",
)
FILES_RESTORED = EventType(
    "files.restored",
    852,
    "a human had files of a project put back as they were kept (written before it is done), of a `permit` or a run; "
    "what that overwrote was kept as `undo`",
)

PRESENTATION_DELIVERED = EventType("presentation.delivered", 900, "a channel shows a request to humans")
PRESENTATION_SETTLED = EventType("presentation.settled", 901, "what a channel shows was brought up to date")
PRESENTATION_FAILED = EventType(
    "presentation.failed", 902, "a request could not be shown, or what shows it not changed"
)
PRESENTATION_REMINDED = EventType("presentation.reminded", 903, "humans were told once more that a request waits")

PRESENTATION_TOLD = EventType(
    "presentation.told", 904, "where a request was shown it was told how it went, with a signed head of the log"
)

LEASE_TAKEN = EventType("lease.taken", 910, "a process began to serve a channel")
CHANNEL_FAILED = EventType("channel.failed", 911, "a channel does not work, and why")

ON_CALL_UNKNOWN = EventType(
    "on_call.unknown", 912, "it could not be found out who is on call, and `why`: all who may answer are told"
)

DIGEST_POSTED = EventType("digest.posted", 913, "a channel was posted its figures of a `day`")

EVENT_TYPES: Mapping[str, EventType] = {
    event.name: event for event in tuple(globals().values()) if isinstance(event, EventType)
}
"""Every event type by its name."""

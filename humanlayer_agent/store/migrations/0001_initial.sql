-- The store, version 1. Times are integer milliseconds since the epoch, UTC.
-- The triggers are the second wall: they hold even where a program with a bug writes to the file.
-- CHECKs name every state and answer of the design, because SQLite can't widen them later; the triggers say which are
-- reached today.

CREATE TABLE run (
    id        TEXT PRIMARY KEY CHECK (id <> ''),
    agent     TEXT NOT NULL,
    instance  TEXT NOT NULL,
    requester TEXT NOT NULL,
    project   TEXT NOT NULL,
    process   TEXT NOT NULL,
    started   INTEGER NOT NULL,
    ended     INTEGER,
    state     TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'terminated', 'finished', 'lost')),
    CHECK ((state = 'open') = (ended IS NULL))
) STRICT;

CREATE INDEX run_open ON run (id) WHERE state IN ('open', 'terminated');

CREATE TABLE request (
    id              TEXT PRIMARY KEY CHECK (length(id) = 32),
    run_id          TEXT NOT NULL REFERENCES run (id),
    idempotency_key TEXT NOT NULL CHECK (length(idempotency_key) = 64),
    digest          TEXT NOT NULL CHECK (length(digest) = 64),
    body            BLOB NOT NULL,
    action          TEXT NOT NULL,
    decision        TEXT NOT NULL,
    requester       TEXT NOT NULL,
    created         INTEGER NOT NULL,
    expires         INTEGER NOT NULL CHECK (expires > created),
    valid_for       INTEGER NOT NULL CHECK (valid_for > 0),
    state           TEXT NOT NULL DEFAULT 'pending' CHECK (state IN (
        'pending', 'approved', 'rejected', 'answered', 'expired', 'withdrawn', 'superseded', 'terminated', 'revoked',
        'lapsed', 'invalidated')),
    decided         INTEGER,
    CHECK ((state = 'pending') = (decided IS NULL))
) STRICT;

CREATE UNIQUE INDEX request_one_pending ON request (idempotency_key) WHERE state = 'pending';
CREATE INDEX request_unsettled ON request (state, created) WHERE state IN ('pending', 'approved');
CREATE INDEX request_run ON request (run_id);

CREATE TABLE vote (
    decision_id      TEXT PRIMARY KEY CHECK (decision_id <> ''),
    request_id       TEXT NOT NULL REFERENCES request (id),
    answer           TEXT NOT NULL CHECK (
        answer IN ('approve', 'reject', 'edit', 'respond', 'escalate', 'terminate')),
    principal        TEXT NOT NULL CHECK (principal <> ''),
    channel          TEXT NOT NULL,
    assurance        TEXT NOT NULL,
    presented_digest TEXT NOT NULL,
    comment          TEXT NOT NULL,
    input_mode       TEXT NOT NULL,
    at               INTEGER NOT NULL,
    pid              INTEGER NOT NULL,
    UNIQUE (request_id, principal)
) STRICT;

CREATE TABLE permit (
    id         TEXT PRIMARY KEY CHECK (length(id) = 32),
    run_id     TEXT NOT NULL REFERENCES run (id),
    request_id TEXT UNIQUE REFERENCES request (id),
    digest     TEXT NOT NULL CHECK (length(digest) = 64),
    issued     INTEGER NOT NULL,
    use_by     INTEGER NOT NULL CHECK (use_by > issued),
    state      TEXT NOT NULL DEFAULT 'issued' CHECK (state IN ('issued', 'consumed', 'void'))
) STRICT;

CREATE INDEX permit_issued ON permit (run_id) WHERE state = 'issued';

CREATE TABLE execution (
    permit_id  TEXT PRIMARY KEY REFERENCES permit (id),
    process    TEXT NOT NULL,
    started    INTEGER NOT NULL,
    finished   INTEGER,
    state      TEXT NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'finished', 'failed', 'unknown')),
    returncode INTEGER,
    CHECK ((state = 'started') = (finished IS NULL)),
    CHECK ((state = 'finished') = (returncode IS NOT NULL))
) STRICT;

CREATE INDEX execution_started ON execution (permit_id) WHERE state = 'started';

-- The body is the only truth: what queries use is computed from it, so that no column can tell another story.
CREATE TABLE audit_event (
    seq     INTEGER PRIMARY KEY,
    hash    TEXT NOT NULL CHECK (length(hash) = 64),
    body    TEXT NOT NULL,
    prev    TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.prev')) VIRTUAL,
    type    TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.type')) VIRTUAL,
    run     TEXT GENERATED ALWAYS AS (json_extract(body, '$.run')) VIRTUAL,
    request TEXT GENERATED ALWAYS AS (json_extract(body, '$.request')) VIRTUAL
) STRICT;

CREATE INDEX audit_event_type ON audit_event (type, seq);
CREATE INDEX audit_event_run ON audit_event (run, seq) WHERE run IS NOT NULL;
CREATE INDEX audit_event_request ON audit_event (request, seq) WHERE request IS NOT NULL;

-- Append-only, and every event continues the one before it.
CREATE TRIGGER audit_event_linked BEFORE INSERT ON audit_event
WHEN NEW.seq <> coalesce((SELECT max(seq) + 1 FROM audit_event), 0)
  OR NEW.prev <> coalesce((SELECT hash FROM audit_event ORDER BY seq DESC LIMIT 1), printf('%064d', 0))
BEGIN SELECT RAISE(ABORT, 'audit_event: not the next link of the chain'); END;
CREATE TRIGGER audit_event_no_update BEFORE UPDATE ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit_event is append-only'); END;
CREATE TRIGGER audit_event_no_delete BEFORE DELETE ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit_event is append-only'); END;

CREATE TRIGGER run_immutable BEFORE UPDATE OF id, agent, instance, requester, project, process, started ON run
BEGIN SELECT RAISE(ABORT, 'run is immutable'); END;
CREATE TRIGGER run_transition BEFORE UPDATE OF state ON run
WHEN NOT (OLD.state = 'open' AND NEW.state IN ('terminated', 'finished', 'lost')
       OR OLD.state = 'terminated' AND NEW.state IN ('finished', 'lost'))
BEGIN SELECT RAISE(ABORT, 'run: illegal transition'); END;
CREATE TRIGGER run_no_delete BEFORE DELETE ON run
BEGIN SELECT RAISE(ABORT, 'run: rows are kept'); END;

CREATE TRIGGER request_born_pending BEFORE INSERT ON request WHEN NEW.state <> 'pending'
BEGIN SELECT RAISE(ABORT, 'request: must begin as pending'); END;
CREATE TRIGGER request_immutable
BEFORE UPDATE OF id, idempotency_key, digest, body, action, decision, requester, created, expires, valid_for ON request
BEGIN SELECT RAISE(ABORT, 'request is immutable'); END;
CREATE TRIGGER request_owner BEFORE UPDATE OF run_id ON request WHEN OLD.state <> 'pending'
BEGIN SELECT RAISE(ABORT, 'request: only a pending one can be adopted'); END;
CREATE TRIGGER request_transition BEFORE UPDATE OF state ON request
WHEN NOT (OLD.state = 'pending' AND NEW.state IN ('approved', 'rejected', 'expired', 'withdrawn', 'terminated')
       OR OLD.state = 'approved' AND NEW.state IN ('lapsed', 'invalidated'))
BEGIN SELECT RAISE(ABORT, 'request: illegal transition'); END;
CREATE TRIGGER request_decided_once BEFORE UPDATE OF decided ON request WHEN OLD.state <> 'pending'
BEGIN SELECT RAISE(ABORT, 'request: decided only once'); END;
CREATE TRIGGER request_approved_by_vote BEFORE UPDATE OF state ON request
WHEN NEW.state = 'approved' AND (
    NOT EXISTS (SELECT 1 FROM vote WHERE request_id = NEW.id AND answer = 'approve' AND presented_digest = NEW.digest)
    OR EXISTS (SELECT 1 FROM vote WHERE request_id = NEW.id AND answer <> 'approve'))
BEGIN SELECT RAISE(ABORT, 'request: its votes do not approve it'); END;
CREATE TRIGGER request_no_delete BEFORE DELETE ON request
BEGIN SELECT RAISE(ABORT, 'request: rows are kept'); END;

CREATE TRIGGER vote_in_time BEFORE INSERT ON vote
WHEN NOT EXISTS (SELECT 1 FROM request WHERE id = NEW.request_id AND state = 'pending' AND expires > NEW.at)
BEGIN SELECT RAISE(ABORT, 'vote: the request does not wait for one'); END;
CREATE TRIGGER vote_no_update BEFORE UPDATE ON vote
BEGIN SELECT RAISE(ABORT, 'vote is immutable'); END;
CREATE TRIGGER vote_no_delete BEFORE DELETE ON vote
BEGIN SELECT RAISE(ABORT, 'vote: rows are kept'); END;

CREATE TRIGGER permit_born_issued BEFORE INSERT ON permit
WHEN NEW.state <> 'issued' OR NEW.request_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM request WHERE id = NEW.request_id AND state = 'approved' AND digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'permit: needs an approved request of the same digest'); END;
CREATE TRIGGER permit_immutable BEFORE UPDATE OF id, run_id, request_id, digest, issued, use_by ON permit
BEGIN SELECT RAISE(ABORT, 'permit is immutable'); END;
CREATE TRIGGER permit_transition BEFORE UPDATE OF state ON permit
WHEN NOT (OLD.state = 'issued' AND NEW.state IN ('consumed', 'void'))
BEGIN SELECT RAISE(ABORT, 'permit: illegal transition'); END;
CREATE TRIGGER permit_no_delete BEFORE DELETE ON permit
BEGIN SELECT RAISE(ABORT, 'permit: rows are kept'); END;

CREATE TRIGGER execution_of_consumed BEFORE INSERT ON execution
WHEN NEW.state <> 'started' OR NOT EXISTS (SELECT 1 FROM permit WHERE id = NEW.permit_id AND state = 'consumed')
BEGIN SELECT RAISE(ABORT, 'execution: needs a consumed permit'); END;
CREATE TRIGGER execution_immutable BEFORE UPDATE OF permit_id, process, started ON execution
BEGIN SELECT RAISE(ABORT, 'execution is immutable'); END;
CREATE TRIGGER execution_ended_once BEFORE UPDATE OF state, finished, returncode ON execution WHEN OLD.state <> 'started'
BEGIN SELECT RAISE(ABORT, 'execution: illegal transition'); END;
CREATE TRIGGER execution_no_delete BEFORE DELETE ON execution
BEGIN SELECT RAISE(ABORT, 'execution: rows are kept'); END;

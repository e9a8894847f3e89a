-- The store on PostgreSQL, version 1: the same tables as those of a SQLite file at version 13, with the same triggers.
-- Times are integer milliseconds since the epoch, UTC, by the database's clock.
--
-- Everything is in a schema of its own. Each function finds its tables there and nowhere else, whatever the path of the
-- session that makes it run: a temporary table called `vote` deceives none of them.

CREATE SCHEMA humanlayer;
SET LOCAL search_path = humanlayer, pg_catalog, pg_temp;

CREATE TABLE version (
    "only" BIGINT PRIMARY KEY CHECK ("only" = 1),
    number BIGINT NOT NULL
);

CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql
    SET search_path FROM CURRENT
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- One writer at a time, until the end of its transaction: the chain of the log has one end. Returns the time.
CREATE FUNCTION begin_write() RETURNS bigint LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    PERFORM pg_advisory_xact_lock(1212956977, 1);
    RETURN now_ms();
END $$;

-- What stands in a JSON text, as SQLite's function of this name has it. Escapes that are no text here read as U+FFFD.
CREATE FUNCTION json_extract(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$ SELECT regexp_replace(
        document,
        '\\u(0000|d[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})',
        '\\ufffd', 'gi'
    )::json ->> trim(BOTH '"' FROM substr(path, 3)) $$;

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = '23000';
END $$;

CREATE TABLE run (
    id        TEXT PRIMARY KEY CHECK (id <> ''),
    agent     TEXT NOT NULL,
    instance  TEXT NOT NULL,
    requester TEXT NOT NULL,
    project   TEXT NOT NULL,
    process   TEXT NOT NULL,
    started   BIGINT NOT NULL,
    ended     BIGINT,
    state     TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'terminated', 'finished', 'lost')),
    clock TEXT NOT NULL DEFAULT '',
    beat BIGINT NOT NULL DEFAULT 0,
    CHECK ((state = 'open') = (ended IS NULL))
);

CREATE TABLE request (
    id              TEXT PRIMARY KEY CHECK (length(id) = 32),
    run_id          TEXT NOT NULL REFERENCES run (id) DEFERRABLE,
    idempotency_key TEXT NOT NULL CHECK (length(idempotency_key) = 64),
    digest          TEXT NOT NULL CHECK (length(digest) = 64),
    body            BYTEA NOT NULL,
    action          TEXT NOT NULL,
    decision        TEXT NOT NULL,
    requester       TEXT NOT NULL,
    created         BIGINT NOT NULL,
    expires         BIGINT NOT NULL CHECK (expires > created),
    valid_for       BIGINT NOT NULL CHECK (valid_for > 0),
    state           TEXT NOT NULL DEFAULT 'pending' CHECK (state IN (
        'pending', 'approved', 'rejected', 'answered', 'expired', 'withdrawn', 'superseded', 'terminated', 'revoked',
        'lapsed', 'invalidated')),
    decided         BIGINT,
    parent TEXT REFERENCES request (id) DEFERRABLE,
    needed BIGINT NOT NULL DEFAULT 1 CHECK (needed >= 1),
    rule TEXT NOT NULL DEFAULT '',
    escalated BIGINT NOT NULL DEFAULT 0 CHECK (escalated >= 0),
    used BIGINT NOT NULL DEFAULT 0 CHECK (used IN (0, 1)),
    kept BOOLEAN NOT NULL DEFAULT false,
    CHECK ((state = 'pending') = (decided IS NULL)),
    rowid BIGINT GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE vote (
    decision_id      TEXT PRIMARY KEY CHECK (decision_id <> ''),
    request_id       TEXT NOT NULL REFERENCES request (id) DEFERRABLE,
    answer           TEXT NOT NULL CHECK (
        answer IN ('approve', 'reject', 'edit', 'respond', 'escalate', 'terminate', 'revoke')),
    principal        TEXT NOT NULL CHECK (principal <> ''),
    channel          TEXT NOT NULL,
    assurance        TEXT NOT NULL,
    presented_digest TEXT NOT NULL,
    comment          TEXT NOT NULL,
    input_mode       TEXT NOT NULL,
    at               BIGINT NOT NULL,
    pid              BIGINT NOT NULL,
    edited           TEXT NOT NULL DEFAULT '' CHECK ((edited <> '') = (answer = 'edit')),
    person           TEXT NOT NULL DEFAULT '',
    solo             BIGINT NOT NULL DEFAULT 0 CHECK (solo IN (0, 1)),
    signer           TEXT NOT NULL DEFAULT '',
    signature        TEXT NOT NULL DEFAULT '' CHECK (length(signature) IN (0, 128)),
    member_of TEXT NOT NULL DEFAULT '[]' CHECK (member_of::json IS NOT NULL),
    scope TEXT NOT NULL DEFAULT '',
    CHECK ((person = '') = (signature = '') AND (person = '') = (signer = '')),
    rowid BIGINT GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE permit (
    id         TEXT PRIMARY KEY CHECK (length(id) = 32),
    run_id     TEXT NOT NULL REFERENCES run (id) DEFERRABLE,
    request_id TEXT UNIQUE REFERENCES request (id) DEFERRABLE,
    digest     TEXT NOT NULL CHECK (length(digest) = 64),
    issued     BIGINT NOT NULL,
    use_by     BIGINT NOT NULL CHECK (use_by > issued),
    state      TEXT NOT NULL DEFAULT 'issued' CHECK (state IN ('issued', 'consumed', 'void'))
);

CREATE TABLE execution (
    permit_id  TEXT PRIMARY KEY REFERENCES permit (id) DEFERRABLE,
    process    TEXT NOT NULL,
    started    BIGINT NOT NULL,
    finished   BIGINT,
    state      TEXT NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'finished', 'failed', 'unknown')),
    returncode BIGINT,
    CHECK ((state = 'started') = (finished IS NULL)),
    CHECK ((state = 'finished') = (returncode IS NOT NULL))
);

CREATE TABLE audit_event (
    seq     BIGINT PRIMARY KEY,
    hash    TEXT NOT NULL CHECK (length(hash) = 64),
    body    TEXT NOT NULL,
    prev    TEXT NOT NULL,
    type    TEXT NOT NULL,
    run     TEXT,
    request TEXT
);

CREATE TABLE log_key (
    "only"  BIGINT PRIMARY KEY CHECK ("only" = 1),
    value BYTEA NOT NULL CHECK (length(value) = 32)
);

CREATE TABLE delivery (
    request_id TEXT NOT NULL REFERENCES request (id) DEFERRABLE,
    step       BIGINT NOT NULL CHECK (step >= 0),
    channel    TEXT NOT NULL CHECK (channel <> ''),
    state      TEXT NOT NULL DEFAULT 'sending' CHECK (state IN ('sending', 'delivered', 'failed')),
    attempts   BIGINT NOT NULL DEFAULT 1 CHECK (attempts >= 1),
    retry_at   BIGINT NOT NULL DEFAULT 0,
    why        TEXT NOT NULL DEFAULT '',
    at         BIGINT NOT NULL,
    PRIMARY KEY (request_id, step)
);

CREATE TABLE presentation (
    id               TEXT PRIMARY KEY CHECK (length(id) = 32),
    request_id       TEXT NOT NULL REFERENCES request (id) DEFERRABLE,
    channel          TEXT NOT NULL CHECK (channel <> ''),
    step             BIGINT NOT NULL CHECK (step >= 0),
    place            TEXT NOT NULL CHECK (place::json IS NOT NULL),
    presented_digest TEXT NOT NULL CHECK (length(presented_digest) = 64),
    complete         BIGINT NOT NULL CHECK (complete IN (0, 1)),
    at               BIGINT NOT NULL,
    shown            TEXT NOT NULL DEFAULT 'pending 0 0',
    reminded         BIGINT NOT NULL DEFAULT 0 CHECK (reminded >= 0),
    open             BIGINT NOT NULL DEFAULT 1 CHECK (open IN (0, 1)),
    UNIQUE (request_id, channel, place),
    rowid BIGINT GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE halt (
    id        TEXT PRIMARY KEY CHECK (length(id) = 32),
    at        BIGINT NOT NULL,
    principal TEXT NOT NULL CHECK (principal <> ''),
    reason    TEXT NOT NULL
);

CREATE TABLE resumption (
    id        TEXT PRIMARY KEY CHECK (length(id) = 32),
    halt      TEXT NOT NULL CHECK (halt <> ''),
    at        BIGINT NOT NULL,
    principal TEXT NOT NULL CHECK (principal <> ''),
    person    TEXT NOT NULL CHECK (person <> ''),
    channel   TEXT NOT NULL,
    assurance TEXT NOT NULL CHECK (assurance IN ('login', 'terminal')),
    comment   TEXT NOT NULL,
    signer    TEXT NOT NULL CHECK (signer <> ''),
    signature TEXT NOT NULL CHECK (length(signature) = 128)
);

CREATE TABLE purging (
    "only"    BIGINT PRIMARY KEY CHECK ("only" = 1),
    before  BIGINT NOT NULL,
    through BIGINT NOT NULL
);

CREATE TABLE silence (
    watcher TEXT NOT NULL,
    what    TEXT NOT NULL CHECK (what <> ''),
    clock   TEXT NOT NULL,
    beat    BIGINT NOT NULL,
    since   BIGINT NOT NULL,
    PRIMARY KEY (what, watcher)
);

CREATE TABLE lease (
    channel TEXT PRIMARY KEY CHECK (channel <> ''),
    holder  TEXT NOT NULL CHECK (holder <> ''),
    process TEXT NOT NULL,
    taken   BIGINT NOT NULL,
    clock   TEXT NOT NULL,
    beat    BIGINT NOT NULL,
    ttl     BIGINT NOT NULL CHECK (ttl BETWEEN 0 AND 60000)
);

CREATE TABLE given_grant (
    id         TEXT PRIMARY KEY REFERENCES request (id) DEFERRABLE,
    project    TEXT NOT NULL,
    policy     TEXT NOT NULL CHECK (length(policy) = 64),
    given      BIGINT NOT NULL,
    until      BIGINT NOT NULL CHECK (until > given),
    max_uses   BIGINT NOT NULL CHECK (max_uses > 0),
    uses       BIGINT NOT NULL DEFAULT 0 CHECK (uses BETWEEN 0 AND max_uses),
    revoked    BIGINT,
    revoked_by TEXT NOT NULL DEFAULT '',
    CHECK ((revoked IS NULL) = (revoked_by = '')),
    rowid BIGINT GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE grant_use (
    grant_id  TEXT NOT NULL REFERENCES given_grant (id) DEFERRABLE,
    permit_id TEXT NOT NULL REFERENCES permit (id) DEFERRABLE,
    use       BIGINT NOT NULL CHECK (use > 0),
    at        BIGINT NOT NULL,
    PRIMARY KEY (grant_id, use),
    UNIQUE (permit_id, grant_id)
);

CREATE INDEX run_open ON run (id) WHERE state IN ('open', 'terminated');
CREATE UNIQUE INDEX request_one_pending ON request (idempotency_key) WHERE state = 'pending';
CREATE INDEX request_run ON request (run_id);
CREATE INDEX permit_issued ON permit (run_id) WHERE state = 'issued';
CREATE INDEX execution_started ON execution (permit_id) WHERE state = 'started';
CREATE INDEX audit_event_type ON audit_event (type, seq);
CREATE INDEX audit_event_run ON audit_event (run, seq) WHERE run IS NOT NULL;
CREATE INDEX audit_event_request ON audit_event (request, seq) WHERE request IS NOT NULL;
CREATE UNIQUE INDEX request_one_child ON request (parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX vote_one_a_person ON vote (request_id, person)
WHERE person <> '' AND answer NOT IN ('escalate', 'revoke');
CREATE UNIQUE INDEX vote_one_an_identity ON vote (request_id, principal) WHERE answer NOT IN ('escalate', 'revoke');
CREATE INDEX vote_request ON vote (request_id);
CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';
CREATE INDEX presentation_open ON presentation (channel) WHERE open = 1;
CREATE INDEX resumption_halt ON resumption (halt);
CREATE INDEX request_state ON request (state, created);
CREATE INDEX request_created ON request (created);
CREATE INDEX request_unused ON request (state, run_id) WHERE state = 'approved' AND used = 0;
CREATE INDEX audit_event_instance ON audit_event (json_extract(body, '$.agent'), json_extract(body, '$.instance'), seq)
WHERE type = 'run.started';
CREATE INDEX given_grant_project ON given_grant (project, policy, until);
CREATE INDEX audit_event_grant ON audit_event (json_extract(body, '$.grant'), type)
WHERE type IN ('grant.used', 'grant.revoked');
CREATE INDEX audit_event_counted ON audit_event
(json_extract(body, '$.counter'), (json_extract(body, '$.time')::bigint), seq) WHERE type = 'limit.counted';
CREATE INDEX audit_event_counted_run ON audit_event (json_extract(body, '$.counter'), run, seq) WHERE type = 'limit.counted';
CREATE INDEX audit_event_at ON audit_event ((json_extract(body, '$.at')::bigint));
CREATE INDEX vote_person ON vote (person, answer, at);
CREATE INDEX request_kept ON request (run_id) WHERE kept;

-- The body is the only truth: what queries use is read from it, so that no column can tell another story.
CREATE FUNCTION audit_event_linked() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    NEW.prev := json_extract(NEW.body, '$.prev');
    NEW.type := json_extract(NEW.body, '$.type');
    NEW.run := json_extract(NEW.body, '$.run');
    NEW.request := json_extract(NEW.body, '$.request');
    IF NEW.seq <> coalesce((SELECT max(seq) + 1 FROM audit_event), 0)
        OR NEW.prev <> coalesce((SELECT hash FROM audit_event ORDER BY seq DESC LIMIT 1), repeat('0', 64)) THEN
        RAISE EXCEPTION 'audit_event: not the next link of the chain' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER audit_event_linked BEFORE INSERT ON audit_event
FOR EACH ROW EXECUTE FUNCTION audit_event_linked();
CREATE TRIGGER audit_event_no_update BEFORE UPDATE ON audit_event
FOR EACH ROW EXECUTE FUNCTION refuse('audit_event is append-only');
CREATE TRIGGER audit_event_no_delete BEFORE DELETE ON audit_event
FOR EACH ROW EXECUTE FUNCTION refuse('audit_event is append-only');
CREATE TRIGGER run_immutable BEFORE UPDATE OF id, agent, instance, requester, project, process, started ON run
FOR EACH ROW EXECUTE FUNCTION refuse('run is immutable');
CREATE FUNCTION run_transition() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT (OLD.state = 'open' AND NEW.state IN ('terminated', 'finished', 'lost')
        OR OLD.state = 'terminated' AND NEW.state IN ('finished', 'lost'))
    THEN
        RAISE EXCEPTION 'run: illegal transition' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_transition BEFORE UPDATE OF state ON run
FOR EACH ROW EXECUTE FUNCTION run_transition();
CREATE TRIGGER run_no_delete BEFORE DELETE ON run
FOR EACH ROW EXECUTE FUNCTION refuse('run: rows are kept');
CREATE FUNCTION request_born_pending() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state <> 'pending'
    THEN
        RAISE EXCEPTION 'request: must begin as pending' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_born_pending BEFORE INSERT ON request
FOR EACH ROW EXECUTE FUNCTION request_born_pending();
CREATE TRIGGER request_immutable
BEFORE UPDATE OF id, idempotency_key, digest, body, action, decision, requester, created, expires, valid_for ON request
FOR EACH ROW EXECUTE FUNCTION refuse('request is immutable');
CREATE FUNCTION request_decided_once() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.state <> 'pending'
    THEN
        RAISE EXCEPTION 'request: decided only once' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_decided_once BEFORE UPDATE OF decided ON request
FOR EACH ROW EXECUTE FUNCTION request_decided_once();
CREATE FUNCTION permit_born_issued() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state <> 'issued' OR NEW.request_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM request WHERE id = NEW.request_id AND state = 'approved' AND digest = NEW.digest)
    THEN
        RAISE EXCEPTION 'permit: needs an approved request of the same digest' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER permit_born_issued BEFORE INSERT ON permit
FOR EACH ROW EXECUTE FUNCTION permit_born_issued();
CREATE TRIGGER permit_immutable BEFORE UPDATE OF id, run_id, request_id, digest, issued, use_by ON permit
FOR EACH ROW EXECUTE FUNCTION refuse('permit is immutable');
CREATE FUNCTION permit_transition() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT (OLD.state = 'issued' AND NEW.state IN ('consumed', 'void'))
    THEN
        RAISE EXCEPTION 'permit: illegal transition' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER permit_transition BEFORE UPDATE OF state ON permit
FOR EACH ROW EXECUTE FUNCTION permit_transition();
CREATE FUNCTION execution_of_consumed() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state <> 'started' OR NOT EXISTS (SELECT 1 FROM permit WHERE id = NEW.permit_id AND state = 'consumed')
    THEN
        RAISE EXCEPTION 'execution: needs a consumed permit' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER execution_of_consumed BEFORE INSERT ON execution
FOR EACH ROW EXECUTE FUNCTION execution_of_consumed();
CREATE TRIGGER execution_immutable BEFORE UPDATE OF permit_id, process, started ON execution
FOR EACH ROW EXECUTE FUNCTION refuse('execution is immutable');
CREATE FUNCTION execution_ended_once() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.state <> 'started'
    THEN
        RAISE EXCEPTION 'execution: illegal transition' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER execution_ended_once BEFORE UPDATE OF state, finished, returncode ON execution
FOR EACH ROW EXECUTE FUNCTION execution_ended_once();
CREATE TRIGGER request_parent_immutable BEFORE UPDATE OF parent ON request
FOR EACH ROW EXECUTE FUNCTION refuse('request is immutable');
CREATE FUNCTION vote_signed() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.person = '' OR NEW.assurance NOT IN ('os', 'mail-reply', 'chat', 'mail-link', 'login', 'terminal')
    THEN
        RAISE EXCEPTION 'vote: whose it is must be known and signed' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER vote_signed BEFORE INSERT ON vote
FOR EACH ROW EXECUTE FUNCTION vote_signed();
CREATE FUNCTION vote_in_time() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM request
        WHERE id = NEW.request_id AND CASE NEW.answer
        WHEN 'revoke' THEN state = 'approved'
        AND NOT EXISTS (SELECT 1 FROM permit WHERE permit.request_id = request.id AND permit.state = 'consumed')
        ELSE state = 'pending' AND expires > NEW.at END)
    THEN
        RAISE EXCEPTION 'vote: the request does not wait for one' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER vote_in_time BEFORE INSERT ON vote
FOR EACH ROW EXECUTE FUNCTION vote_in_time();
CREATE TRIGGER vote_no_update BEFORE UPDATE ON vote
FOR EACH ROW EXECUTE FUNCTION refuse('vote is immutable');
CREATE TRIGGER request_rule_immutable BEFORE UPDATE OF needed, rule ON request
FOR EACH ROW EXECUTE FUNCTION refuse('request is immutable');
CREATE FUNCTION request_escalates() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.state <> 'pending' OR NEW.escalated <= OLD.escalated
    THEN
        RAISE EXCEPTION 'request: only a pending one escalates, and only further' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_escalates BEFORE UPDATE OF escalated ON request
FOR EACH ROW EXECUTE FUNCTION request_escalates();
CREATE FUNCTION request_child() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.parent IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM request AS parent JOIN vote ON vote.request_id = parent.id
        WHERE parent.id = NEW.parent AND parent.state = 'superseded' AND parent.run_id = NEW.run_id
        AND vote.answer = 'edit' AND vote.edited = json_extract(NEW.action, '$.content'))
    THEN
        RAISE EXCEPTION 'request: its parent was not edited to this' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_child BEFORE INSERT ON request
FOR EACH ROW EXECUTE FUNCTION request_child();
CREATE FUNCTION request_transition() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT (OLD.state = 'pending' AND NEW.state IN (
        'approved', 'rejected', 'answered', 'expired', 'withdrawn', 'superseded', 'terminated')
        OR OLD.state = 'approved' AND NEW.state IN ('revoked', 'lapsed', 'invalidated'))
    THEN
        RAISE EXCEPTION 'request: illegal transition' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_transition BEFORE UPDATE OF state ON request
FOR EACH ROW EXECUTE FUNCTION request_transition();
CREATE FUNCTION request_approved_by_vote() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state = 'approved' AND (
        NEW.needed > (SELECT count(DISTINCT person) FROM vote
        WHERE request_id = NEW.id AND answer = 'approve' AND presented_digest = NEW.digest AND person <> '')
        OR EXISTS (SELECT 1 FROM vote WHERE request_id = NEW.id AND answer NOT IN ('approve', 'escalate')))
    THEN
        RAISE EXCEPTION 'request: its votes do not approve it' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_approved_by_vote BEFORE UPDATE OF state ON request
FOR EACH ROW EXECUTE FUNCTION request_approved_by_vote();
CREATE FUNCTION request_settled_by_vote() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state IN ('rejected', 'answered', 'superseded', 'revoked') AND NOT EXISTS (
        SELECT 1 FROM vote WHERE request_id = NEW.id AND presented_digest = NEW.digest AND answer = CASE NEW.state
        WHEN 'rejected' THEN 'reject' WHEN 'answered' THEN 'respond' WHEN 'superseded' THEN 'edit' ELSE 'revoke' END)
    THEN
        RAISE EXCEPTION 'request: no vote has rejected, answered, edited or revoked it' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_settled_by_vote BEFORE UPDATE OF state ON request
FOR EACH ROW EXECUTE FUNCTION request_settled_by_vote();
CREATE FUNCTION permit_consumed_of_approved() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state = 'consumed' AND NEW.request_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM request
        WHERE id = NEW.request_id AND state = 'approved' AND digest = NEW.digest AND needed <= (
        SELECT count(DISTINCT person) FROM vote
        WHERE request_id = NEW.request_id AND answer = 'approve' AND presented_digest = NEW.digest AND person <> ''))
    THEN
        RAISE EXCEPTION 'permit: its request is not approved' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER permit_consumed_of_approved BEFORE UPDATE OF state ON permit
FOR EACH ROW EXECUTE FUNCTION permit_consumed_of_approved();
CREATE FUNCTION delivery_of_pending() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM request WHERE id = NEW.request_id AND state = 'pending')
    THEN
        RAISE EXCEPTION 'delivery: the request does not wait for anybody' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER delivery_of_pending BEFORE INSERT ON delivery
FOR EACH ROW EXECUTE FUNCTION delivery_of_pending();
CREATE TRIGGER delivery_immutable BEFORE UPDATE OF request_id, step, channel ON delivery
FOR EACH ROW EXECUTE FUNCTION refuse('delivery is immutable');
CREATE FUNCTION delivery_transition() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.attempts < OLD.attempts
        OR NOT (OLD.state = 'sending' OR OLD.state = 'delivered' AND NEW.state = 'failed')
    THEN
        RAISE EXCEPTION 'delivery: illegal transition' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER delivery_transition BEFORE UPDATE OF state ON delivery
FOR EACH ROW EXECUTE FUNCTION delivery_transition();
CREATE FUNCTION presentation_of_delivery() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM delivery WHERE request_id = NEW.request_id AND step = NEW.step AND channel = NEW.channel)
    THEN
        RAISE EXCEPTION 'presentation: nothing was delivered there' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER presentation_of_delivery BEFORE INSERT ON presentation
FOR EACH ROW EXECUTE FUNCTION presentation_of_delivery();
CREATE TRIGGER presentation_immutable
BEFORE UPDATE OF id, request_id, channel, step, place, presented_digest, complete, at ON presentation
FOR EACH ROW EXECUTE FUNCTION refuse('presentation: only what it shows changes');
CREATE FUNCTION presentation_reminded() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.reminded < OLD.reminded
    THEN
        RAISE EXCEPTION 'presentation: nobody is reminded less' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER presentation_reminded BEFORE UPDATE OF reminded ON presentation
FOR EACH ROW EXECUTE FUNCTION presentation_reminded();
CREATE TRIGGER log_key_no_update BEFORE UPDATE ON log_key
FOR EACH ROW EXECUTE FUNCTION refuse('log_key is immutable');
CREATE TRIGGER log_key_no_delete BEFORE DELETE ON log_key
FOR EACH ROW EXECUTE FUNCTION refuse('log_key: it is kept');
CREATE TRIGGER halt_no_update BEFORE UPDATE ON halt
FOR EACH ROW EXECUTE FUNCTION refuse('halt is immutable');
CREATE TRIGGER halt_no_delete BEFORE DELETE ON halt
FOR EACH ROW EXECUTE FUNCTION refuse('halt: rows are kept');
CREATE TRIGGER resumption_no_update BEFORE UPDATE ON resumption
FOR EACH ROW EXECUTE FUNCTION refuse('resumption is immutable');
CREATE TRIGGER resumption_no_delete BEFORE DELETE ON resumption
FOR EACH ROW EXECUTE FUNCTION refuse('resumption: rows are kept');
CREATE FUNCTION permit_consumed_while_halted() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state = 'consumed' AND EXISTS (
        SELECT 1 FROM halt WHERE NOT EXISTS (SELECT 1 FROM resumption WHERE resumption.halt = halt.id))
    THEN
        RAISE EXCEPTION 'permit: every agent is stopped' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER permit_consumed_while_halted BEFORE UPDATE OF state ON permit
FOR EACH ROW EXECUTE FUNCTION permit_consumed_while_halted();
CREATE FUNCTION request_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.state = 'pending' OR OLD.decided >= coalesce((SELECT before FROM purging), -1)
    THEN
        RAISE EXCEPTION 'request: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER request_no_delete BEFORE DELETE ON request
FOR EACH ROW EXECUTE FUNCTION request_no_delete();
CREATE FUNCTION vote_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.at >= coalesce((SELECT before FROM purging), -1)
    THEN
        RAISE EXCEPTION 'vote: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER vote_no_delete BEFORE DELETE ON vote
FOR EACH ROW EXECUTE FUNCTION vote_no_delete();
CREATE FUNCTION permit_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.issued >= coalesce((SELECT before FROM purging), -1)
    THEN
        RAISE EXCEPTION 'permit: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER permit_no_delete BEFORE DELETE ON permit
FOR EACH ROW EXECUTE FUNCTION permit_no_delete();
CREATE FUNCTION execution_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.state = 'started' OR OLD.finished >= coalesce((SELECT before FROM purging), -1)
    THEN
        RAISE EXCEPTION 'execution: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER execution_no_delete BEFORE DELETE ON execution
FOR EACH ROW EXECUTE FUNCTION execution_no_delete();
CREATE FUNCTION delivery_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM purging)
    THEN
        RAISE EXCEPTION 'delivery: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER delivery_no_delete BEFORE DELETE ON delivery
FOR EACH ROW EXECUTE FUNCTION delivery_no_delete();
CREATE FUNCTION presentation_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM purging)
    THEN
        RAISE EXCEPTION 'presentation: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER presentation_no_delete BEFORE DELETE ON presentation
FOR EACH ROW EXECUTE FUNCTION presentation_no_delete();
CREATE FUNCTION request_born_unused() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.used <> 0
    THEN
        RAISE EXCEPTION 'request: must begin unused' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_born_unused BEFORE INSERT ON request
FOR EACH ROW EXECUTE FUNCTION request_born_unused();
CREATE FUNCTION request_used() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.used <> (EXISTS (SELECT 1 FROM permit WHERE request_id = NEW.id AND state = 'consumed'))::int
    THEN
        RAISE EXCEPTION 'request: it is used when its permit is consumed' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_used BEFORE UPDATE OF used ON request
FOR EACH ROW EXECUTE FUNCTION request_used();
CREATE FUNCTION permit_uses_request() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state = 'consumed' AND NEW.request_id IS NOT NULL
    THEN
        UPDATE request SET used = 1 WHERE id = NEW.request_id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER permit_uses_request AFTER UPDATE OF state ON permit
FOR EACH ROW EXECUTE FUNCTION permit_uses_request();
CREATE FUNCTION lease_one_holder() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.channel <> OLD.channel
        OR NEW.holder = OLD.holder AND (NEW.taken <> OLD.taken OR NEW.process <> OLD.process)
    THEN
        RAISE EXCEPTION 'lease: only a new holder takes it anew' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER lease_one_holder BEFORE UPDATE OF channel, holder, process, taken ON lease
FOR EACH ROW EXECUTE FUNCTION lease_one_holder();
CREATE FUNCTION execution_of_its_run() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF EXISTS (
        SELECT 1 FROM permit JOIN run ON run.id = permit.run_id
        WHERE permit.id = NEW.permit_id AND permit.state = 'consumed' AND run.process <> NEW.process)
    THEN
        RAISE EXCEPTION 'execution: only the process of its run starts it' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER execution_of_its_run BEFORE INSERT ON execution
FOR EACH ROW EXECUTE FUNCTION execution_of_its_run();
CREATE FUNCTION vote_scope() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.scope <> '' AND (NEW.answer <> 'approve' OR NEW.assurance IN ('mail-reply', 'mail-link'))
    THEN
        RAISE EXCEPTION 'vote: only an approval has a scope, and none that came by mail' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER vote_scope BEFORE INSERT ON vote
FOR EACH ROW EXECUTE FUNCTION vote_scope();
CREATE FUNCTION given_grant_of_approved() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.uses <> 0 OR NEW.revoked IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM request WHERE id = NEW.id AND state = 'approved')
        OR EXISTS (SELECT 1 FROM vote WHERE request_id = NEW.id AND answer = 'approve' AND scope = '')
    THEN
        RAISE EXCEPTION 'grant: needs an approved request whose approvals all have a scope' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER given_grant_of_approved BEFORE INSERT ON given_grant
FOR EACH ROW EXECUTE FUNCTION given_grant_of_approved();
CREATE TRIGGER given_grant_immutable BEFORE UPDATE OF id, project, policy, given, until, max_uses ON given_grant
FOR EACH ROW EXECUTE FUNCTION refuse('grant is immutable');
CREATE FUNCTION given_grant_counts() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.uses <> OLD.uses + 1 OR OLD.revoked IS NOT NULL
    THEN
        RAISE EXCEPTION 'grant: uses are counted one by one, and none of what was revoked' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER given_grant_counts BEFORE UPDATE OF uses ON given_grant
FOR EACH ROW EXECUTE FUNCTION given_grant_counts();
CREATE FUNCTION given_grant_revoked_once() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.revoked IS NOT NULL
    THEN
        RAISE EXCEPTION 'grant: it stays revoked' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER given_grant_revoked_once BEFORE UPDATE OF revoked, revoked_by ON given_grant
FOR EACH ROW EXECUTE FUNCTION given_grant_revoked_once();
CREATE FUNCTION given_grant_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM purging)
    THEN
        RAISE EXCEPTION 'grant: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER given_grant_no_delete BEFORE DELETE ON given_grant
FOR EACH ROW EXECUTE FUNCTION given_grant_no_delete();
CREATE FUNCTION grant_use_counted() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM given_grant WHERE id = NEW.grant_id AND uses = NEW.use AND revoked IS NULL AND until > NEW.at)
    THEN
        RAISE EXCEPTION 'grant: this use was not counted' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER grant_use_counted BEFORE INSERT ON grant_use
FOR EACH ROW EXECUTE FUNCTION grant_use_counted();
CREATE TRIGGER grant_use_no_update BEFORE UPDATE ON grant_use
FOR EACH ROW EXECUTE FUNCTION refuse('grant_use is immutable');
CREATE FUNCTION grant_use_no_delete() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM purging)
    THEN
        RAISE EXCEPTION 'grant_use: rows are kept' USING ERRCODE = '23000';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER grant_use_no_delete BEFORE DELETE ON grant_use
FOR EACH ROW EXECUTE FUNCTION grant_use_no_delete();
CREATE FUNCTION permit_consumed_of_grant() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.state = 'consumed' AND EXISTS (
        SELECT 1 FROM grant_use JOIN given_grant ON given_grant.id = grant_id
        WHERE permit_id = NEW.id AND revoked IS NOT NULL)
    THEN
        RAISE EXCEPTION 'permit: the grant that it was issued by was revoked' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER permit_consumed_of_grant BEFORE UPDATE OF state ON permit
FOR EACH ROW EXECUTE FUNCTION permit_consumed_of_grant();
CREATE TRIGGER request_kept_immutable BEFORE UPDATE OF kept ON request
FOR EACH ROW EXECUTE FUNCTION refuse('request is immutable');
CREATE FUNCTION request_owner() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF OLD.state <> 'pending' AND NOT (OLD.state = 'approved' AND OLD.used = 0 AND OLD.kept)
    THEN
        RAISE EXCEPTION 'request: only a pending one, or an unused approval that is kept, can be adopted'
            USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER request_owner BEFORE UPDATE OF run_id ON request
FOR EACH ROW EXECUTE FUNCTION request_owner();

-- No table is emptied as a whole.
CREATE TRIGGER run_no_truncate BEFORE TRUNCATE ON run
FOR EACH STATEMENT EXECUTE FUNCTION refuse('run: rows are kept');
CREATE TRIGGER request_no_truncate BEFORE TRUNCATE ON request
FOR EACH STATEMENT EXECUTE FUNCTION refuse('request: rows are kept');
CREATE TRIGGER vote_no_truncate BEFORE TRUNCATE ON vote
FOR EACH STATEMENT EXECUTE FUNCTION refuse('vote: rows are kept');
CREATE TRIGGER permit_no_truncate BEFORE TRUNCATE ON permit
FOR EACH STATEMENT EXECUTE FUNCTION refuse('permit: rows are kept');
CREATE TRIGGER execution_no_truncate BEFORE TRUNCATE ON execution
FOR EACH STATEMENT EXECUTE FUNCTION refuse('execution: rows are kept');
CREATE TRIGGER audit_event_no_truncate BEFORE TRUNCATE ON audit_event
FOR EACH STATEMENT EXECUTE FUNCTION refuse('audit_event: rows are kept');
CREATE TRIGGER log_key_no_truncate BEFORE TRUNCATE ON log_key
FOR EACH STATEMENT EXECUTE FUNCTION refuse('log_key: rows are kept');
CREATE TRIGGER delivery_no_truncate BEFORE TRUNCATE ON delivery
FOR EACH STATEMENT EXECUTE FUNCTION refuse('delivery: rows are kept');
CREATE TRIGGER presentation_no_truncate BEFORE TRUNCATE ON presentation
FOR EACH STATEMENT EXECUTE FUNCTION refuse('presentation: rows are kept');
CREATE TRIGGER halt_no_truncate BEFORE TRUNCATE ON halt
FOR EACH STATEMENT EXECUTE FUNCTION refuse('halt: rows are kept');
CREATE TRIGGER resumption_no_truncate BEFORE TRUNCATE ON resumption
FOR EACH STATEMENT EXECUTE FUNCTION refuse('resumption: rows are kept');
CREATE TRIGGER given_grant_no_truncate BEFORE TRUNCATE ON given_grant
FOR EACH STATEMENT EXECUTE FUNCTION refuse('given_grant: rows are kept');
CREATE TRIGGER grant_use_no_truncate BEFORE TRUNCATE ON grant_use
FOR EACH STATEMENT EXECUTE FUNCTION refuse('grant_use: rows are kept');

-- Whoever waits is told at once. It is a hint and nothing else: they read again what stands there.
CREATE FUNCTION request_tells() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    PERFORM pg_notify('humanlayer', NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER request_tells AFTER INSERT OR UPDATE OF state, escalated ON request
FOR EACH ROW EXECUTE FUNCTION request_tells();

-- Seals an event whose body has the mark where its place and its time belong: see `audit.chain.unsealed`.
CREATE FUNCTION seal(given text, mark text, now bigint) RETURNS audit_event LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    newest audit_event;
    sealed audit_event;
BEGIN
    SELECT * INTO STRICT newest FROM audit_event ORDER BY seq DESC LIMIT 1;
    sealed.seq := newest.seq + 1;
    sealed.body := replace(given, '"' || mark || 'seq"', sealed.seq::text);
    sealed.body := replace(sealed.body, '"' || mark || 'prev"', '"' || newest.hash || '"');
    sealed.body := replace(sealed.body, '"' || mark || 'at"', now::text);
    sealed.hash := encode(sha256(convert_to(sealed.body, 'UTF8')), 'hex');
    INSERT INTO audit_event (seq, hash, body) VALUES (sealed.seq, sealed.hash, sealed.body);
    RETURN sealed;
END $$;

-- An allow of the policy's own in one round trip: its permit, consumed at once, and what the log says of it. It returns
-- nothing, and does nothing, where anything is out of the ordinary: the statements of `SQLStore.admit` decide that.
CREATE FUNCTION admit(
    admitted text, of_run text, of_process text, of_digest text, use_by_ms bigint, seen_seq bigint, seen_hash text,
    mark text, bodies text[], ends text, ends_with bigint
) RETURNS TABLE (moment bigint, last_seq bigint, last_hash text) LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    now bigint := begin_write();
    given text;
    sealed audit_event;
BEGIN
    IF EXISTS (SELECT 1 FROM halt) OR EXISTS (SELECT 1 FROM audit_event WHERE type = 'supervision.stopped')
        OR NOT EXISTS (SELECT 1 FROM audit_event WHERE seq = seen_seq AND hash = seen_hash)
        OR NOT EXISTS (SELECT 1 FROM run WHERE id = of_run AND state = 'open' AND process = of_process)
    THEN
        RETURN;
    END IF;
    INSERT INTO permit (id, run_id, digest, issued, use_by) VALUES (admitted, of_run, of_digest, now, now + use_by_ms);
    UPDATE permit SET state = 'consumed' WHERE id = admitted;
    INSERT INTO execution (permit_id, process, started) VALUES (admitted, of_process, now);
    IF ends <> '' THEN
        UPDATE execution SET state = ends, finished = now, returncode = ends_with WHERE permit_id = admitted;
    END IF;
    FOREACH given IN ARRAY bodies LOOP
        sealed := seal(given, mark, now);
    END LOOP;
    RETURN QUERY SELECT now, sealed.seq, sealed.hash;
END $$;

-- The end of an execution, in one round trip. Nothing is returned, and nothing done, where none of this permit goes on.
CREATE FUNCTION finish(
    permitted text, ends text, ends_with bigint, seen_seq bigint, seen_hash text, mark text, bodies text[]
) RETURNS TABLE (moment bigint, last_seq bigint, last_hash text) LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    now bigint := begin_write();
    given text;
    sealed audit_event;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM audit_event WHERE seq = seen_seq AND hash = seen_hash) THEN
        RETURN;
    END IF;
    UPDATE execution SET state = ends, finished = now, returncode = ends_with
    WHERE permit_id = permitted AND state = 'started';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH given IN ARRAY bodies LOOP
        sealed := seal(given, mark, now);
    END LOOP;
    RETURN QUERY SELECT now, sealed.seq, sealed.hash;
END $$;

INSERT INTO version ("only", number) VALUES (1, 1);
REVOKE ALL ON SCHEMA humanlayer FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA humanlayer FROM PUBLIC;

-- Version 3: several people may have to approve, answers are signed, may be given in words, may ask further people, and
-- an approval can be taken back. What a row says is never the proof: whoever runs the action counts signed votes again.

ALTER TABLE request ADD COLUMN needed INTEGER NOT NULL DEFAULT 1 CHECK (needed >= 1);
ALTER TABLE request ADD COLUMN rule TEXT NOT NULL DEFAULT '';
ALTER TABLE request ADD COLUMN escalated INTEGER NOT NULL DEFAULT 0 CHECK (escalated >= 0);

DROP TRIGGER request_child;
DROP TRIGGER request_transition;
DROP TRIGGER request_approved_by_vote;
DROP TRIGGER request_superseded_by_edit;

-- SQLite can't widen a CHECK or drop a UNIQUE: the table is made anew. Votes from before have no person and no signature.
CREATE TABLE signed_vote (
    decision_id      TEXT PRIMARY KEY CHECK (decision_id <> ''),
    request_id       TEXT NOT NULL REFERENCES request (id),
    answer           TEXT NOT NULL CHECK (
        answer IN ('approve', 'reject', 'edit', 'respond', 'escalate', 'terminate', 'revoke')),
    principal        TEXT NOT NULL CHECK (principal <> ''),
    channel          TEXT NOT NULL,
    assurance        TEXT NOT NULL,
    presented_digest TEXT NOT NULL,
    comment          TEXT NOT NULL,
    input_mode       TEXT NOT NULL,
    at               INTEGER NOT NULL,
    pid              INTEGER NOT NULL,
    edited           TEXT NOT NULL DEFAULT '' CHECK ((edited <> '') = (answer = 'edit')),
    person           TEXT NOT NULL DEFAULT '',
    solo             INTEGER NOT NULL DEFAULT 0 CHECK (solo IN (0, 1)),
    signer           TEXT NOT NULL DEFAULT '',
    signature        TEXT NOT NULL DEFAULT '' CHECK (length(signature) IN (0, 128)),
    CHECK ((person = '') = (signature = '') AND (person = '') = (signer = ''))
) STRICT;
INSERT INTO signed_vote (decision_id, request_id, answer, principal, channel, assurance, presented_digest, comment,
                         input_mode, at, pid, edited)
SELECT decision_id, request_id, answer, principal, channel, assurance, presented_digest, comment, input_mode, at, pid,
       edited
FROM vote ORDER BY rowid;
DROP TABLE vote;
ALTER TABLE signed_vote RENAME TO vote;

-- One answer a person, by whatever way. Who escalated may still decide, and who approved may take it back.
CREATE UNIQUE INDEX vote_one_a_person ON vote (request_id, person)
WHERE person <> '' AND answer NOT IN ('escalate', 'revoke');
CREATE UNIQUE INDEX vote_one_an_identity ON vote (request_id, principal) WHERE answer NOT IN ('escalate', 'revoke');
CREATE INDEX vote_request ON vote (request_id);

CREATE TRIGGER vote_signed BEFORE INSERT ON vote
WHEN NEW.person = '' OR NEW.assurance NOT IN ('os', 'mail-reply', 'chat', 'mail-link', 'login', 'terminal')
BEGIN SELECT RAISE(ABORT, 'vote: whose it is must be known and signed'); END;
CREATE TRIGGER vote_in_time BEFORE INSERT ON vote
WHEN NOT EXISTS (
    SELECT 1 FROM request
    WHERE id = NEW.request_id AND CASE NEW.answer
        WHEN 'revoke' THEN state = 'approved'
            AND NOT EXISTS (SELECT 1 FROM permit WHERE permit.request_id = request.id AND permit.state = 'consumed')
        ELSE state = 'pending' AND expires > NEW.at END)
BEGIN SELECT RAISE(ABORT, 'vote: the request does not wait for one'); END;
CREATE TRIGGER vote_no_update BEFORE UPDATE ON vote
BEGIN SELECT RAISE(ABORT, 'vote is immutable'); END;
CREATE TRIGGER vote_no_delete BEFORE DELETE ON vote
BEGIN SELECT RAISE(ABORT, 'vote: rows are kept'); END;

CREATE TRIGGER request_rule_immutable BEFORE UPDATE OF needed, rule ON request
BEGIN SELECT RAISE(ABORT, 'request is immutable'); END;
CREATE TRIGGER request_escalates BEFORE UPDATE OF escalated ON request
WHEN OLD.state <> 'pending' OR NEW.escalated <= OLD.escalated
BEGIN SELECT RAISE(ABORT, 'request: only a pending one escalates, and only further'); END;
CREATE TRIGGER request_child BEFORE INSERT ON request
WHEN NEW.parent IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM request AS parent JOIN vote ON vote.request_id = parent.id
    WHERE parent.id = NEW.parent AND parent.state = 'superseded' AND parent.run_id = NEW.run_id
      AND vote.answer = 'edit' AND vote.edited = json_extract(NEW.action, '$.content'))
BEGIN SELECT RAISE(ABORT, 'request: its parent was not edited to this'); END;
CREATE TRIGGER request_transition BEFORE UPDATE OF state ON request
WHEN NOT (OLD.state = 'pending' AND NEW.state IN (
            'approved', 'rejected', 'answered', 'expired', 'withdrawn', 'superseded', 'terminated')
       OR OLD.state = 'approved' AND NEW.state IN ('revoked', 'lapsed', 'invalidated'))
BEGIN SELECT RAISE(ABORT, 'request: illegal transition'); END;
CREATE TRIGGER request_approved_by_vote BEFORE UPDATE OF state ON request
WHEN NEW.state = 'approved' AND (
    NEW.needed > (SELECT count(DISTINCT person) FROM vote
                  WHERE request_id = NEW.id AND answer = 'approve' AND presented_digest = NEW.digest AND person <> '')
    OR EXISTS (SELECT 1 FROM vote WHERE request_id = NEW.id AND answer NOT IN ('approve', 'escalate')))
BEGIN SELECT RAISE(ABORT, 'request: its votes do not approve it'); END;
CREATE TRIGGER request_settled_by_vote BEFORE UPDATE OF state ON request
WHEN NEW.state IN ('rejected', 'answered', 'superseded', 'revoked') AND NOT EXISTS (
    SELECT 1 FROM vote WHERE request_id = NEW.id AND presented_digest = NEW.digest AND answer = CASE NEW.state
        WHEN 'rejected' THEN 'reject' WHEN 'answered' THEN 'respond' WHEN 'superseded' THEN 'edit' ELSE 'revoke' END)
BEGIN SELECT RAISE(ABORT, 'request: no vote has rejected, answered, edited or revoked it'); END;

CREATE TRIGGER permit_consumed_of_approved BEFORE UPDATE OF state ON permit
WHEN NEW.state = 'consumed' AND NEW.request_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM request
    WHERE id = NEW.request_id AND state = 'approved' AND digest = NEW.digest AND needed <= (
        SELECT count(DISTINCT person) FROM vote
        WHERE request_id = NEW.request_id AND answer = 'approve' AND presented_digest = NEW.digest AND person <> ''))
BEGIN SELECT RAISE(ABORT, 'permit: its request is not approved'); END;

-- Version 11: an approval may have a scope: more of the kind may be done, until a time, and so many times. What it gives
-- is in the signed votes, and counted from them at each use: the rows here find them, count, and say what was taken back.

ALTER TABLE vote ADD COLUMN scope TEXT NOT NULL DEFAULT '';

CREATE TRIGGER vote_scope BEFORE INSERT ON vote
WHEN NEW.scope <> '' AND (NEW.answer <> 'approve' OR NEW.assurance IN ('mail-reply', 'mail-link'))
BEGIN SELECT RAISE(ABORT, 'vote: only an approval has a scope, and none that came by mail'); END;

CREATE TABLE given_grant (
    id         TEXT PRIMARY KEY REFERENCES request (id),
    project    TEXT NOT NULL,
    policy     TEXT NOT NULL CHECK (length(policy) = 64),
    given      INTEGER NOT NULL,
    until      INTEGER NOT NULL CHECK (until > given),
    max_uses   INTEGER NOT NULL CHECK (max_uses > 0),
    uses       INTEGER NOT NULL DEFAULT 0 CHECK (uses BETWEEN 0 AND max_uses),
    revoked    INTEGER,
    revoked_by TEXT NOT NULL DEFAULT '',
    CHECK ((revoked IS NULL) = (revoked_by = ''))
) STRICT;

CREATE INDEX given_grant_project ON given_grant (project, policy, until);

CREATE TABLE grant_use (
    grant_id  TEXT NOT NULL REFERENCES given_grant (id),
    permit_id TEXT NOT NULL REFERENCES permit (id),
    use       INTEGER NOT NULL CHECK (use > 0),
    at        INTEGER NOT NULL,
    PRIMARY KEY (grant_id, use),
    UNIQUE (permit_id, grant_id)
) STRICT;

-- How often it was used, and that it was taken back, is read in the log as well: a row that was set back forgets neither.
CREATE INDEX audit_event_grant ON audit_event (json_extract(body, '$.grant'), type)
WHERE type IN ('grant.used', 'grant.revoked');

-- The end of a grant is over once the log has seen it, wherever a clock is set to afterwards.
CREATE INDEX audit_event_at ON audit_event (json_extract(body, '$.at'));

CREATE TRIGGER given_grant_of_approved BEFORE INSERT ON given_grant
WHEN NEW.uses <> 0 OR NEW.revoked IS NOT NULL
  OR NOT EXISTS (SELECT 1 FROM request WHERE id = NEW.id AND state = 'approved')
  OR EXISTS (SELECT 1 FROM vote WHERE request_id = NEW.id AND answer = 'approve' AND scope = '')
BEGIN SELECT RAISE(ABORT, 'grant: needs an approved request whose approvals all have a scope'); END;
CREATE TRIGGER given_grant_immutable BEFORE UPDATE OF id, project, policy, given, until, max_uses ON given_grant
BEGIN SELECT RAISE(ABORT, 'grant is immutable'); END;
CREATE TRIGGER given_grant_counts BEFORE UPDATE OF uses ON given_grant
WHEN NEW.uses <> OLD.uses + 1 OR OLD.revoked IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'grant: uses are counted one by one, and none of what was revoked'); END;
CREATE TRIGGER given_grant_revoked_once BEFORE UPDATE OF revoked, revoked_by ON given_grant
WHEN OLD.revoked IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'grant: it stays revoked'); END;
CREATE TRIGGER given_grant_no_delete BEFORE DELETE ON given_grant WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT RAISE(ABORT, 'grant: rows are kept'); END;

CREATE TRIGGER grant_use_counted BEFORE INSERT ON grant_use
WHEN NOT EXISTS (
    SELECT 1 FROM given_grant WHERE id = NEW.grant_id AND uses = NEW.use AND revoked IS NULL AND until > NEW.at)
BEGIN SELECT RAISE(ABORT, 'grant: this use was not counted'); END;
CREATE TRIGGER grant_use_no_update BEFORE UPDATE ON grant_use
BEGIN SELECT RAISE(ABORT, 'grant_use is immutable'); END;
CREATE TRIGGER grant_use_no_delete BEFORE DELETE ON grant_use WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT RAISE(ABORT, 'grant_use: rows are kept'); END;

CREATE TRIGGER permit_consumed_of_grant BEFORE UPDATE OF state ON permit
WHEN NEW.state = 'consumed' AND EXISTS (
    SELECT 1 FROM grant_use JOIN given_grant ON given_grant.id = grant_id
    WHERE permit_id = NEW.id AND revoked IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'permit: the grant that it was issued by was revoked'); END;

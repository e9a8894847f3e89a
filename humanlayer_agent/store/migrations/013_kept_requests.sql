-- Version 13: what is submitted, and not waited for, may stay when its run ends: a later run of the same agent comes for
-- the answer, and takes over an approval that came while nobody was there.

ALTER TABLE request ADD COLUMN kept INTEGER NOT NULL DEFAULT 0 CHECK (kept IN (0, 1));
CREATE TRIGGER request_kept_immutable BEFORE UPDATE OF kept ON request
BEGIN SELECT RAISE(ABORT, 'request is immutable'); END;
DROP TRIGGER request_owner;
CREATE TRIGGER request_owner BEFORE UPDATE OF run_id ON request
WHEN OLD.state <> 'pending' AND NOT (OLD.state = 'approved' AND OLD.used = 0 AND OLD.kept)
BEGIN SELECT RAISE(ABORT, 'request: only a pending one, or an unused approval that is kept, can be adopted'); END;
CREATE INDEX request_kept ON request (run_id) WHERE kept;

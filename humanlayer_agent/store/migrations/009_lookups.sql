-- Version 9: every look-up has an index, so that none takes longer the more a store holds.

-- SQLite could never use this one: it does not see that `state = 'pending'` implies `state IN (...)`.
DROP INDEX request_unsettled;
CREATE INDEX request_state ON request (state, created);
CREATE INDEX request_created ON request (created);

-- An approval stays 'approved' when it is used, so those that nobody has used yet could only be found among all of them.
ALTER TABLE request ADD COLUMN used INTEGER NOT NULL DEFAULT 0 CHECK (used IN (0, 1));
UPDATE request SET used = 1 WHERE id IN (SELECT request_id FROM permit WHERE state = 'consumed');
CREATE INDEX request_unused ON request (state, run_id) WHERE state = 'approved' AND used = 0;

CREATE TRIGGER request_born_unused BEFORE INSERT ON request WHEN NEW.used <> 0
BEGIN SELECT RAISE(ABORT, 'request: must begin unused'); END;
CREATE TRIGGER request_used BEFORE UPDATE OF used ON request
WHEN NEW.used <> EXISTS (SELECT 1 FROM permit WHERE request_id = NEW.id AND state = 'consumed')
BEGIN SELECT RAISE(ABORT, 'request: it is used when its permit is consumed'); END;
CREATE TRIGGER permit_uses_request AFTER UPDATE OF state ON permit
WHEN NEW.state = 'consumed' AND NEW.request_id IS NOT NULL
BEGIN UPDATE request SET used = 1 WHERE id = NEW.request_id; END;

-- The first run of one instance of an agent: who could sign when it began is what counts for all that follow.
CREATE INDEX audit_event_instance ON audit_event (json_extract(body, '$.agent'), json_extract(body, '$.instance'), seq)
WHERE type = 'run.started';

-- Version 2: a human may change a command. The request is superseded; what was made of it is judged anew, and where the
-- policy asks again, a request of its own (its child) is approved or not like any other.

ALTER TABLE vote ADD COLUMN edited TEXT NOT NULL DEFAULT '' CHECK ((edited <> '') = (answer = 'edit'));
ALTER TABLE request ADD COLUMN parent TEXT REFERENCES request (id);

CREATE UNIQUE INDEX request_one_child ON request (parent) WHERE parent IS NOT NULL;

CREATE TRIGGER request_parent_immutable BEFORE UPDATE OF parent ON request
BEGIN SELECT RAISE(ABORT, 'request is immutable'); END;
CREATE TRIGGER request_child BEFORE INSERT ON request
WHEN NEW.parent IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM request AS parent JOIN vote ON vote.request_id = parent.id
    WHERE parent.id = NEW.parent AND parent.state = 'superseded' AND parent.run_id = NEW.run_id
      AND vote.answer = 'edit' AND vote.edited = json_extract(NEW.action, '$.content'))
BEGIN SELECT RAISE(ABORT, 'request: its parent was not edited to this'); END;

DROP TRIGGER request_transition;
CREATE TRIGGER request_transition BEFORE UPDATE OF state ON request
WHEN NOT (OLD.state = 'pending'
            AND NEW.state IN ('approved', 'rejected', 'expired', 'withdrawn', 'superseded', 'terminated')
       OR OLD.state = 'approved' AND NEW.state IN ('lapsed', 'invalidated'))
BEGIN SELECT RAISE(ABORT, 'request: illegal transition'); END;
CREATE TRIGGER request_superseded_by_edit BEFORE UPDATE OF state ON request
WHEN NEW.state = 'superseded' AND NOT EXISTS (
    SELECT 1 FROM vote WHERE request_id = NEW.id AND answer = 'edit' AND presented_digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'request: no vote has edited it'); END;

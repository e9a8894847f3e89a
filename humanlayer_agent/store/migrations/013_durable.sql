-- Version 13: what a run has asked stays when its process ends, and a later run of the same agent collects the answer.

ALTER TABLE run ADD COLUMN durable INTEGER NOT NULL DEFAULT 0 CHECK (durable IN (0, 1));

-- An approval may come while nobody is there: the run that comes for it takes it over.
DROP TRIGGER request_owner;
CREATE TRIGGER request_owner BEFORE UPDATE OF run_id ON request
WHEN OLD.state <> 'pending'
    AND NOT (OLD.state = 'approved' AND OLD.used = 0 AND EXISTS (SELECT 1 FROM run WHERE id = OLD.run_id AND durable))
BEGIN SELECT RAISE(ABORT, 'request: only a pending one, or an unused approval of a durable run, can be adopted'); END;

-- Version 10: that a process lives is a lease. It says so from time to time, by a clock that nobody can set and that has a
-- name; where the name is another one than ours, its times mean nothing here, and we note since when they stay the same.

ALTER TABLE run ADD COLUMN clock TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN beat INTEGER NOT NULL DEFAULT 0;

-- Who watches (a clock), what, and since when (by that clock) its last sign of life has been the newest.
CREATE TABLE silence (
    watcher TEXT NOT NULL,
    what    TEXT NOT NULL CHECK (what <> ''),
    clock   TEXT NOT NULL,
    beat    INTEGER NOT NULL,
    since   INTEGER NOT NULL,
    PRIMARY KEY (what, watcher)
) STRICT;

DROP TABLE lease;
CREATE TABLE lease (
    channel TEXT PRIMARY KEY CHECK (channel <> ''),
    holder  TEXT NOT NULL CHECK (holder <> ''),
    process TEXT NOT NULL,
    taken   INTEGER NOT NULL,
    clock   TEXT NOT NULL,
    beat    INTEGER NOT NULL,
    ttl     INTEGER NOT NULL CHECK (ttl BETWEEN 0 AND 60000)
) STRICT;

CREATE TRIGGER lease_one_holder BEFORE UPDATE OF channel, holder, process, taken ON lease
WHEN NEW.channel <> OLD.channel OR (NEW.holder = OLD.holder AND (NEW.taken <> OLD.taken OR NEW.process <> OLD.process))
BEGIN SELECT RAISE(ABORT, 'lease: only a new holder takes it anew'); END;

CREATE TRIGGER execution_of_its_run BEFORE INSERT ON execution
WHEN EXISTS (
    SELECT 1 FROM permit JOIN run ON run.id = permit.run_id
    WHERE permit.id = NEW.permit_id AND permit.state = 'consumed' AND run.process <> NEW.process)
BEGIN SELECT RAISE(ABORT, 'execution: only the process of its run starts it'); END;

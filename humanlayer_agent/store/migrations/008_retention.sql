-- Version 8: what is settled, exported and old may be deleted, in one transaction that says so in the log. A row here
-- opens that; it never outlasts its transaction.

CREATE TABLE purging (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    before  INTEGER NOT NULL,
    through INTEGER NOT NULL
) STRICT;

DROP TRIGGER request_no_delete;
DROP TRIGGER vote_no_delete;
DROP TRIGGER permit_no_delete;
DROP TRIGGER execution_no_delete;
DROP TRIGGER delivery_no_delete;
DROP TRIGGER presentation_no_delete;

CREATE TRIGGER request_no_delete BEFORE DELETE ON request
WHEN OLD.state = 'pending' OR OLD.decided >= coalesce((SELECT before FROM purging), -1)
BEGIN SELECT RAISE(ABORT, 'request: rows are kept'); END;
CREATE TRIGGER vote_no_delete BEFORE DELETE ON vote
WHEN OLD.at >= coalesce((SELECT before FROM purging), -1)
BEGIN SELECT RAISE(ABORT, 'vote: rows are kept'); END;
CREATE TRIGGER permit_no_delete BEFORE DELETE ON permit
WHEN OLD.issued >= coalesce((SELECT before FROM purging), -1)
BEGIN SELECT RAISE(ABORT, 'permit: rows are kept'); END;
CREATE TRIGGER execution_no_delete BEFORE DELETE ON execution
WHEN OLD.state = 'started' OR OLD.finished >= coalesce((SELECT before FROM purging), -1)
BEGIN SELECT RAISE(ABORT, 'execution: rows are kept'); END;
CREATE TRIGGER delivery_no_delete BEFORE DELETE ON delivery WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT RAISE(ABORT, 'delivery: rows are kept'); END;
CREATE TRIGGER presentation_no_delete BEFORE DELETE ON presentation WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT RAISE(ABORT, 'presentation: rows are kept'); END;

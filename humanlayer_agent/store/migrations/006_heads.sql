-- Version 6: the key that secrets and digests are written with in the log (HMAC), so that nobody can guess them from an
-- export. It stands in no event. The file that holds it holds full commands too, and nobody else may read it.

CREATE TABLE log_key (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    value BLOB NOT NULL CHECK (length(value) = 32)
) STRICT;

CREATE TRIGGER log_key_no_update BEFORE UPDATE ON log_key
BEGIN SELECT RAISE(ABORT, 'log_key is immutable'); END;
CREATE TRIGGER log_key_no_delete BEFORE DELETE ON log_key
BEGIN SELECT RAISE(ABORT, 'log_key: it is kept'); END;

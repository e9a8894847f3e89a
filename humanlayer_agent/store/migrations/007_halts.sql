-- Version 7: a human stops every agent of the store at once, and one who can sign lets them go on. A stop needs no proof;
-- a resumption is signed, and whoever is about to run an action checks that: that a row stands here proves nothing.

CREATE TABLE halt (
    id        TEXT PRIMARY KEY CHECK (length(id) = 32),
    at        INTEGER NOT NULL,
    principal TEXT NOT NULL CHECK (principal <> ''),
    reason    TEXT NOT NULL
) STRICT;

-- `halt` refers to no row: a stop also holds where only the log still tells of it, and can be lifted then too.
CREATE TABLE resumption (
    id        TEXT PRIMARY KEY CHECK (length(id) = 32),
    halt      TEXT NOT NULL CHECK (halt <> ''),
    at        INTEGER NOT NULL,
    principal TEXT NOT NULL CHECK (principal <> ''),
    person    TEXT NOT NULL CHECK (person <> ''),
    channel   TEXT NOT NULL,
    assurance TEXT NOT NULL CHECK (assurance IN ('login', 'terminal')),
    comment   TEXT NOT NULL,
    signer    TEXT NOT NULL CHECK (signer <> ''),
    signature TEXT NOT NULL CHECK (length(signature) = 128)
) STRICT;

CREATE INDEX resumption_halt ON resumption (halt);

CREATE TRIGGER halt_no_update BEFORE UPDATE ON halt
BEGIN SELECT RAISE(ABORT, 'halt is immutable'); END;
CREATE TRIGGER halt_no_delete BEFORE DELETE ON halt
BEGIN SELECT RAISE(ABORT, 'halt: rows are kept'); END;
CREATE TRIGGER resumption_no_update BEFORE UPDATE ON resumption
BEGIN SELECT RAISE(ABORT, 'resumption is immutable'); END;
CREATE TRIGGER resumption_no_delete BEFORE DELETE ON resumption
BEGIN SELECT RAISE(ABORT, 'resumption: rows are kept'); END;

-- Also for a process that began with an older version of ours: it asks about no stop.
CREATE TRIGGER permit_consumed_while_halted BEFORE UPDATE OF state ON permit
WHEN NEW.state = 'consumed' AND EXISTS (
    SELECT 1 FROM halt WHERE NOT EXISTS (SELECT 1 FROM resumption WHERE resumption.halt = halt.id))
BEGIN SELECT RAISE(ABORT, 'permit: every agent is stopped'); END;

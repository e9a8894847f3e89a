-- Version 4: what the hub delivers, and which process serves a channel. None of it decides anything: it says who may be
-- asked to press a button, and where that button is.

-- One process serves a channel, until its time is over: another may take it then, or at once where that process is gone.
CREATE TABLE lease (
    channel TEXT PRIMARY KEY CHECK (channel <> ''),
    holder  TEXT NOT NULL CHECK (holder <> ''),
    process TEXT NOT NULL,
    taken   INTEGER NOT NULL,
    until   INTEGER NOT NULL CHECK (until >= taken)
) STRICT;

-- One step of a request's route. It begins as 'sending' before anything is sent: where a process dies then, nobody
-- knows whether it was delivered, and it is delivered again.
CREATE TABLE delivery (
    request_id TEXT NOT NULL REFERENCES request (id),
    step       INTEGER NOT NULL CHECK (step >= 0),
    channel    TEXT NOT NULL CHECK (channel <> ''),
    state      TEXT NOT NULL DEFAULT 'sending' CHECK (state IN ('sending', 'delivered', 'failed')),
    attempts   INTEGER NOT NULL DEFAULT 1 CHECK (attempts >= 1),
    retry_at   INTEGER NOT NULL DEFAULT 0,
    why        TEXT NOT NULL DEFAULT '',
    at         INTEGER NOT NULL,
    PRIMARY KEY (request_id, step)
) STRICT;

-- Where a request is shown. `place` is the channel's own (JSON); `shown` is what it showed when it was last settled.
CREATE TABLE presentation (
    id               TEXT PRIMARY KEY CHECK (length(id) = 32),
    request_id       TEXT NOT NULL REFERENCES request (id),
    channel          TEXT NOT NULL CHECK (channel <> ''),
    step             INTEGER NOT NULL CHECK (step >= 0),
    place            TEXT NOT NULL CHECK (json_valid(place)),
    presented_digest TEXT NOT NULL CHECK (length(presented_digest) = 64),
    complete         INTEGER NOT NULL CHECK (complete IN (0, 1)),
    at               INTEGER NOT NULL,
    shown            TEXT NOT NULL DEFAULT 'pending 0 0',
    reminded         INTEGER NOT NULL DEFAULT 0 CHECK (reminded >= 0),
    open             INTEGER NOT NULL DEFAULT 1 CHECK (open IN (0, 1)),
    UNIQUE (request_id, channel, place)
) STRICT;

CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';
CREATE INDEX presentation_open ON presentation (channel) WHERE open = 1;

CREATE TRIGGER lease_one_holder BEFORE UPDATE OF channel, holder, process, taken ON lease
WHEN NEW.channel <> OLD.channel OR (NEW.holder = OLD.holder AND (NEW.taken <> OLD.taken OR NEW.process <> OLD.process))
BEGIN SELECT RAISE(ABORT, 'lease: only a new holder takes it anew'); END;

CREATE TRIGGER delivery_of_pending BEFORE INSERT ON delivery
WHEN NOT EXISTS (SELECT 1 FROM request WHERE id = NEW.request_id AND state = 'pending')
BEGIN SELECT RAISE(ABORT, 'delivery: the request does not wait for anybody'); END;
CREATE TRIGGER delivery_immutable BEFORE UPDATE OF request_id, step, channel ON delivery
BEGIN SELECT RAISE(ABORT, 'delivery is immutable'); END;
-- What was delivered may come back: a bounce.
CREATE TRIGGER delivery_transition BEFORE UPDATE OF state ON delivery
WHEN NEW.attempts < OLD.attempts
  OR NOT (OLD.state = 'sending' OR OLD.state = 'delivered' AND NEW.state = 'failed')
BEGIN SELECT RAISE(ABORT, 'delivery: illegal transition'); END;
CREATE TRIGGER delivery_no_delete BEFORE DELETE ON delivery
BEGIN SELECT RAISE(ABORT, 'delivery: rows are kept'); END;

CREATE TRIGGER presentation_of_delivery BEFORE INSERT ON presentation
WHEN NOT EXISTS (
    SELECT 1 FROM delivery WHERE request_id = NEW.request_id AND step = NEW.step AND channel = NEW.channel)
BEGIN SELECT RAISE(ABORT, 'presentation: nothing was delivered there'); END;
CREATE TRIGGER presentation_immutable
BEFORE UPDATE OF id, request_id, channel, step, place, presented_digest, complete, at ON presentation
BEGIN SELECT RAISE(ABORT, 'presentation: only what it shows changes'); END;
CREATE TRIGGER presentation_reminded BEFORE UPDATE OF reminded ON presentation WHEN NEW.reminded < OLD.reminded
BEGIN SELECT RAISE(ABORT, 'presentation: nobody is reminded less'); END;
CREATE TRIGGER presentation_no_delete BEFORE DELETE ON presentation
BEGIN SELECT RAISE(ABORT, 'presentation: rows are kept'); END;

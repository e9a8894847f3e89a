-- Version 14: what has started is counted for the limits of policies, in the log. Each event has the total: how much was
-- used in a while is the difference of two of them, however much was done in it.

CREATE INDEX audit_event_counted ON audit_event (json_extract(body, '$.counter'), json_extract(body, '$.time'))
WHERE type = 'limit.counted';
CREATE INDEX audit_event_counted_run ON audit_event (json_extract(body, '$.counter'), run) WHERE type = 'limit.counted';

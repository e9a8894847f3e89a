-- Version 15: a chain for each run, beside that of the store. What stands in the log already is in the store's.

ALTER TABLE audit_event ADD COLUMN chain TEXT GENERATED ALWAYS AS (coalesce(json_extract(body, '$.chain'), '')) VIRTUAL;
ALTER TABLE audit_event ADD COLUMN link INTEGER GENERATED ALWAYS AS (coalesce(json_extract(body, '$.link'), seq)) VIRTUAL;
CREATE UNIQUE INDEX audit_event_chain ON audit_event (chain, link);

DROP TRIGGER audit_event_linked;
CREATE TRIGGER audit_event_linked BEFORE INSERT ON audit_event
WHEN NEW.seq IS NOT coalesce((SELECT max(seq) + 1 FROM audit_event), 0)
  OR NEW.link IS NOT coalesce(
    (SELECT link + 1 FROM audit_event WHERE chain = NEW.chain ORDER BY link DESC LIMIT 1), NEW.chain <> '')
  OR NEW.prev IS NOT coalesce(
    (SELECT hash FROM audit_event WHERE chain = NEW.chain ORDER BY link DESC LIMIT 1),
    (SELECT hash FROM audit_event WHERE run = NEW.chain AND +type = 'run.started' ORDER BY seq LIMIT 1),
    CASE WHEN NEW.chain = '' THEN printf('%064d', 0) END)
  OR NEW.chain <> '' AND (NEW.run IS NOT NEW.chain OR NEW.type IN ('run.started', 'run.finished')
    OR NOT EXISTS (SELECT 1 FROM run WHERE id = NEW.chain AND state IN ('open', 'terminated')))
BEGIN SELECT RAISE(ABORT, 'audit_event: not the next link of the chain'); END;

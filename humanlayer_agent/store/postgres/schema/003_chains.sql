-- Version 3: a chain for each run, beside that of the store. What an agent's own policy allows waits for no other run.

SET LOCAL search_path = humanlayer, pg_catalog, pg_temp;

DROP TRIGGER audit_event_linked ON audit_event;
ALTER TABLE audit_event DISABLE TRIGGER audit_event_no_update;
ALTER TABLE audit_event ADD COLUMN chain TEXT NOT NULL DEFAULT '', ADD COLUMN link BIGINT;
UPDATE audit_event SET link = seq;
ALTER TABLE audit_event ALTER COLUMN link SET NOT NULL, ALTER COLUMN chain DROP DEFAULT;
ALTER TABLE audit_event ENABLE TRIGGER audit_event_no_update;
CREATE UNIQUE INDEX audit_event_chain ON audit_event (chain, link);

-- The places of events in the log. One that is taken, and not used in the end, is missing: the links of chains are not.
CREATE SEQUENCE audit_event_place MINVALUE 0;
SELECT setval('audit_event_place', (SELECT max(seq) FROM audit_event)) WHERE EXISTS (SELECT 1 FROM audit_event);

-- The place of the next event. The first one of all is at 0, however often that failed.
CREATE FUNCTION next_place() RETURNS bigint LANGUAGE sql
    SET search_path FROM CURRENT
    AS $$ SELECT CASE WHEN EXISTS (SELECT 1 FROM audit_event)
        THEN nextval('audit_event_place') ELSE setval('audit_event_place', 0) END $$;

-- The newest event of a chain, and where it begins, that of the run that it is of.
CREATE FUNCTION tip(of_chain text, OUT place bigint, OUT link bigint, OUT hash text) LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    SELECT newest.seq, newest.link, newest.hash INTO place, link, hash FROM audit_event AS newest
    WHERE newest.chain = of_chain ORDER BY newest.link DESC LIMIT 1;
    IF NOT FOUND AND of_chain <> '' THEN
        SELECT begun.seq, 0, begun.hash INTO place, link, hash FROM audit_event AS begun
        WHERE begun.run = of_chain AND begun.type || '' = 'run.started' ORDER BY begun.seq LIMIT 1;
    ELSIF NOT FOUND THEN
        place := -1;
        link := -1;
        hash := repeat('0', 64);
    END IF;
END $$;

-- A JSON text whose escapes that are no text here read as U+FFFD: what `json_extract` looks into.
CREATE FUNCTION readable(document text) RETURNS json LANGUAGE sql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$ SELECT regexp_replace(
        document,
        '\\u(0000|d[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})',
        '\\ufffd', 'gi'
    )::json $$;
CREATE OR REPLACE FUNCTION json_extract(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$ SELECT readable(document) ->> trim(BOTH '"' FROM substr(path, 3)) $$;

-- The body is the only truth: what queries use is read from it, so that no column can tell another story. Nobody takes
-- a place to use it later: whatever is in the chain of the store was there before what has a higher place.
CREATE OR REPLACE FUNCTION audit_event_linked() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    said json := readable(NEW.body);
    before record;
BEGIN
    NEW.prev := said ->> 'prev';
    NEW.type := said ->> 'type';
    NEW.run := said ->> 'run';
    NEW.request := said ->> 'request';
    NEW.chain := coalesce(said ->> 'chain', '');
    NEW.link := (said ->> 'link')::bigint;
    before := tip(NEW.chain);
    IF NEW.seq <> currval('audit_event_place') OR NEW.seq <= greatest(before.place, (tip('')).place)
        OR before.hash IS NULL OR NEW.link IS DISTINCT FROM before.link + 1
        OR NEW.prev IS DISTINCT FROM before.hash OR NEW.chain <> '' AND (NEW.run IS DISTINCT FROM NEW.chain
            OR NEW.type IN ('run.started', 'run.finished')
            OR NOT EXISTS (SELECT 1 FROM run WHERE id = NEW.chain AND state IN ('open', 'terminated')))
    THEN
        RAISE EXCEPTION 'audit_event: not the next link of the chain' USING ERRCODE = '23000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER audit_event_linked BEFORE INSERT ON audit_event
FOR EACH ROW EXECUTE FUNCTION audit_event_linked();

-- One writer of a run at a time, beside those of other runs, and beside nobody who writes anything else: a stop, a vote
-- or a count is seen by everything that comes after it. Who waits for another of the same run keeps nobody else
-- waiting. Returns the time.
CREATE FUNCTION begin_write_of(of_run text) RETURNS bigint LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    PERFORM pg_advisory_xact_lock(1212956978, hashtext(of_run));
    PERFORM pg_advisory_xact_lock_shared(1212956977, 1);
    RETURN now_ms();
END $$;

-- The newest event before which no other can come any more: whoever was writing in the chain of a run then has ended. It
-- waits for that as long as for a lock.
CREATE FUNCTION settled() RETURNS bigint LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    newest bigint := coalesce((SELECT max(seq) FROM audit_event), -1);
    patience timestamptz := clock_timestamp() + current_setting('lock_timeout')::interval;
    writing text[];
    process int;
BEGIN
    LOOP
        SELECT array_agg(virtualtransaction), min(pid) INTO writing, process FROM pg_locks
        WHERE locktype = 'advisory' AND classid = 1212956977 AND objid = 1 AND mode = 'ShareLock' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (writing IS NULL OR virtualtransaction = ANY (writing));
        IF writing IS NULL THEN
            RETURN newest;
        ELSIF clock_timestamp() > patience THEN
            RAISE EXCEPTION 'process % of the server does not end what it writes in the log', process
                USING ERRCODE = '55P03', HINT = 'What comes after that is not told.';
        END IF;
        PERFORM pg_sleep(0.001);
    END LOOP;
END $$;

DROP FUNCTION admit(text, text, text, text, bigint, bigint, text, text, text[], text, bigint);
DROP FUNCTION finish(text, text, bigint, bigint, text, text, text[]);
DROP FUNCTION seal(text, text, bigint);

-- Seals an event whose body has the mark where its place and its time belong: see `audit.chain.unsealed`.
CREATE FUNCTION seal(given text, of_chain text, mark text, now bigint) RETURNS audit_event LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    before record := tip(of_chain);
    sealed audit_event;
BEGIN
    sealed.seq := nextval('audit_event_place');
    sealed.body := replace(given, '"' || mark || 'seq"', sealed.seq::text);
    sealed.body := replace(sealed.body, '"' || mark || 'link"', (before.link + 1)::text);
    sealed.body := replace(sealed.body, '"' || mark || 'prev"', '"' || before.hash || '"');
    sealed.body := replace(sealed.body, '"' || mark || 'at"', now::text);
    sealed.hash := encode(sha256(convert_to(sealed.body, 'UTF8')), 'hex');
    INSERT INTO audit_event (seq, hash, body) VALUES (sealed.seq, sealed.hash, sealed.body);
    RETURN sealed;
END $$;

-- An allow of the policy's own in one round trip: its permit, consumed at once, and what the log says of it. It returns
-- nothing, and does nothing, where anything is out of the ordinary: the statements of `SQLStore.admit` decide that.
CREATE FUNCTION admit(
    admitted text, of_run text, of_process text, of_digest text, use_by_ms bigint, seen_seq bigint, seen_hash text,
    mark text, bodies text[], ends text, ends_with bigint
) RETURNS TABLE (moment bigint, last_seq bigint, last_hash text) LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    now bigint := begin_write_of(of_run);
    given text;
    sealed audit_event;
BEGIN
    IF EXISTS (SELECT 1 FROM halt) OR EXISTS (SELECT 1 FROM audit_event WHERE type = 'supervision.stopped')
        OR NOT EXISTS (SELECT 1 FROM audit_event WHERE seq = seen_seq AND hash = seen_hash)
        OR NOT EXISTS (SELECT 1 FROM run WHERE id = of_run AND state = 'open' AND process = of_process)
    THEN
        RETURN;
    END IF;
    INSERT INTO permit (id, run_id, digest, issued, use_by) VALUES (admitted, of_run, of_digest, now, now + use_by_ms);
    UPDATE permit SET state = 'consumed' WHERE id = admitted;
    INSERT INTO execution (permit_id, process, started) VALUES (admitted, of_process, now);
    IF ends <> '' THEN
        UPDATE execution SET state = ends, finished = now, returncode = ends_with WHERE permit_id = admitted;
    END IF;
    FOREACH given IN ARRAY bodies LOOP
        sealed := seal(given, of_run, mark, now);
    END LOOP;
    RETURN QUERY SELECT now, sealed.seq, sealed.hash;
END $$;

-- The end of an execution, in one round trip. Nothing is returned, and nothing done, where none of this permit goes on,
-- or its run does not.
CREATE FUNCTION finish(
    permitted text, of_run text, ends text, ends_with bigint, seen_seq bigint, seen_hash text, mark text, bodies text[]
) RETURNS TABLE (moment bigint, last_seq bigint, last_hash text) LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ DECLARE
    now bigint := begin_write_of(of_run);
    given text;
    sealed audit_event;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM audit_event WHERE seq = seen_seq AND hash = seen_hash)
        OR NOT EXISTS (SELECT 1 FROM run JOIN permit ON run_id = run.id
            WHERE run.id = of_run AND permit.id = permitted AND run.state IN ('open', 'terminated'))
    THEN
        RETURN;
    END IF;
    UPDATE execution SET state = ends, finished = now, returncode = ends_with
    WHERE permit_id = permitted AND state = 'started';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH given IN ARRAY bodies LOOP
        sealed := seal(given, of_run, mark, now);
    END LOOP;
    RETURN QUERY SELECT now, sealed.seq, sealed.hash;
END $$;

-- The one thing that a role may write which else only reads: that it reads now, by which command. It makes the event
-- itself, of what the session is, so that nothing else can be written by it. (Keys stand in the order of canonical JSON.)
CREATE OR REPLACE FUNCTION audit_read(by_command text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$ DECLARE
    now bigint;
    before record;
    place bigint;
    said text;
BEGIN
    IF by_command IS NULL OR by_command !~ '^[a-z][a-z -]{0,63}$' THEN
        RAISE EXCEPTION 'audit_read: no command is called that' USING ERRCODE = '23000';
    END IF;
    now := begin_write();
    before := tip('');
    place := nextval('audit_event_place');
    said := format(
        '{"at":%s,"by":%s,"code":109,"command":"%s","link":%s,"pid":%s,"prev":"%s","seq":%s,"type":"audit.read","v":2}',
        now, to_json('db:' || session_user), by_command, before.link + 1, pg_backend_pid(), before.hash, place
    );
    INSERT INTO audit_event (seq, hash, body)
    VALUES (place, encode(sha256(convert_to(said, 'UTF8')), 'hex'), said);
    RETURN place;
END $$;

UPDATE version SET number = 3;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA humanlayer FROM PUBLIC;
REVOKE ALL ON SEQUENCE audit_event_place FROM PUBLIC;

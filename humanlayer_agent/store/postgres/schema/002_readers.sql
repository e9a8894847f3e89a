-- Version 2: who reads the log by the role of auditors is logged, and agents can't say that somebody has left.

SET LOCAL search_path = humanlayer, pg_catalog, pg_temp;

-- The one thing that a role may write which else only reads: that it reads now, by which command. It makes the event
-- itself, of what the session is, so that nothing else can be written by it. (Keys stand in the order of canonical JSON.)
CREATE FUNCTION audit_read(by_command text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$ DECLARE
    now bigint;
    newest audit_event;
    said text;
BEGIN
    IF by_command IS NULL OR by_command !~ '^[a-z][a-z -]{0,63}$' THEN
        RAISE EXCEPTION 'audit_read: no command is called that' USING ERRCODE = '23000';
    END IF;
    now := begin_write();
    SELECT * INTO STRICT newest FROM audit_event ORDER BY seq DESC LIMIT 1;
    said := format(
        '{"at":%s,"by":%s,"code":109,"command":"%s","pid":%s,"prev":"%s","seq":%s,"type":"audit.read","v":1}',
        now, to_json('db:' || session_user), by_command, pg_backend_pid(), newest.hash, newest.seq + 1
    );
    INSERT INTO audit_event (seq, hash, body)
    VALUES (newest.seq + 1, encode(sha256(convert_to(said, 'UTF8')), 'hex'), said);
    RETURN newest.seq + 1;
END $$;

-- That somebody has left ends what they may do, and can't be taken back: it takes a role that may record answers.
CREATE FUNCTION audit_event_of_approvers() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$ BEGIN
    IF NEW.type = 'person.removed' AND NOT has_table_privilege('humanlayer.vote', 'INSERT') THEN
        RAISE EXCEPTION 'permission denied: only who may record answers says that somebody has left'
            USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_event_of_approvers AFTER INSERT ON audit_event
FOR EACH ROW EXECUTE FUNCTION audit_event_of_approvers();

UPDATE version SET number = 2;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA humanlayer FROM PUBLIC;

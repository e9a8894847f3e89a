-- The logins of a fleet, each a member of one of the roles that `hla store init` has made. Run it by psql as the owner.
-- A password is read from a file, and changed where the login is there already.
\set ON_ERROR_STOP on
\set hub `cat "$HUB_PASSWORD_FILE"`
\set agents `cat "$AGENTS_PASSWORD_FILE"`
\set auditor `cat "$AUDITOR_PASSWORD_FILE"`
SELECT format('CREATE ROLE %I LOGIN IN ROLE %I', login, part)
FROM (VALUES ('hub', 'humanlayer_approvers'), ('agents', 'humanlayer_agents'), ('auditor', 'humanlayer_auditors'))
    AS wanted (login, part)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login)
\gexec
ALTER ROLE hub PASSWORD :'hub';
ALTER ROLE agents PASSWORD :'agents';
ALTER ROLE auditor PASSWORD :'auditor';

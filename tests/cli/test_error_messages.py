"""What is said where something is wrong: one sentence and what to do, never a traceback. `errors.golden` has it all.

Each entry of that file is a command (after `$`, with variables before it), what standard error says, and the exit code. All
run in one process without a terminal, in a folder with the files below. `HLA_GOLDEN=write` writes what is said today: read
the difference before you keep it.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children

ROOT = "Warning: agent commands can read the secrets of this process: it runs as root"
GOLDEN = Path(__file__).with_name("errors.golden")
RULE = "version: 1\npolicy: p\nrules:\n  - id: a\n    decision: deny\n    reason: R.\n    when: {program: curl}\n"
PEOPLE = "version: 1\nchannels: {terminal: {type: terminal}}\npeople: {alice: {email: a@example.org}}\n"
FILES = {
    "good.yaml": RULE,
    "key.yaml": RULE.replace("decision", "decison"),
    "condition.yaml": RULE.replace("program", "programm"),
    "word.yaml": RULE.replace("deny", "denny"),
    "extends.yaml": "version: 1\npolicy: p\nextends: [builtin:defalt]\nrules: []\n",
    "override.yaml": RULE.replace("rules:", "extends: [builtin:default]\nrules:").replace(
        "    reason", "    override: {rule: netwrk, reason: r, expires: 2999-12-31}\n    reason"
    ),
    "yaml.yaml": "version: 1\npolicy: p\nrules: [\n",
    "failing.yaml": RULE + "    tests: {match: [ls]}\n",
    "channel.yaml": "version: 1\nchannels: {team: {type: slak}}\n",
    "route.yaml": PEOPLE + "routes: {default: {approvers: [alice], steps: [{to: terminl}]}}\n",
    "nobody.yaml": PEOPLE + "routes: {default: {approvers: [alcie], steps: [{to: terminal}]}}\n",
    "person.yaml": "version: 1\npeople: {alice: {emial: a@example.org}}\n",
    "signer.yaml": 'version: 1\nsigners: ["not a key"]\n',
    "fleet.yaml": f"version: 1\nsigners: {{fleet: acme, signed_by: [{'a' * 64}], from: /nowhere/acme.signers}}\n",
    "fleets.yaml": f"version: 1\nsigners: {{fleet: acme, signedby: [{'a' * 64}]}}\n",
    "signers.yaml": "fleet: acme\nsigners: {alice: [abc]}\n",
    "runs.jsonl": '{"id": "1"}\n',
    "short.txt": "unlucky-13\n",
    "odd.txt": "unlucky\tpassphrase 13\n",
    "text.txt": "nothing of ours\n",
    "broken.sqlite3": "this is no database, " * 100,
}
RUN = """
import contextlib, io, json, os, shlex, sys
from humanlayer_agent.cli import main
usual = dict(os.environ)
for line in json.load(sys.stdin):
    words = shlex.split(line)
    os.environ.clear()
    os.environ.update(usual)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value
    sys.argv = words
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[1:])
    print(json.dumps([code, err.getvalue()]))
"""


@pytest.mark.long
def test_each_mistake_is_answered_as_it_is_written_down(tmp_path: Path, own_user: Path, compiled: None) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name, text in FILES.items():
        (here / name).write_text(text)
        (here / name).chmod(0o600)
    SQLiteStore(here / "store.sqlite3").close()
    lines = [line[2:] for line in GOLDEN.read_text().splitlines() if line.startswith("$ ")]
    assert len(lines) >= 60
    done = children.run(
        [sys.executable, "-c", RUN],
        input=json.dumps([line.replace("HOMEDIR", str(own_user)).replace("HERE", str(here)) for line in lines]),
        capture_output=True,
        text=True,
        cwd=here,
        start_new_session=True,
        check=True,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    said = [(code, "".join(each for each in err.splitlines(True) if not each.startswith(ROOT))) for code, err in said]
    found = "".join(
        f"$ {line}\n{err.replace(str(here), 'HERE').replace(str(own_user), 'HOMEDIR')}=> {code}\n\n"
        for line, (code, err) in zip(lines, said, strict=True)
    )
    if os.environ.get("HLA_GOLDEN") == "write":
        GOLDEN.write_text(found)
    assert "unlucky" not in found
    assert [line for line, (_, err) in zip(lines, said, strict=True) if "Traceback" in err or not err] == []
    assert found == GOLDEN.read_text()

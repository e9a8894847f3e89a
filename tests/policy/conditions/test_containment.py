"""What a confinement makes of doubt: unknown operands range over what it lets through, what is certain is judged as ever."""

import os
import pwd
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions import containment
from humanlayer_agent.policy.conditions.path_patterns import PathSet
from humanlayer_agent.policy.decision import HeldRun, PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.shell import HOST, DiskReader, Effect, View
from humanlayer_agent.store.rows import dump_decision, load_decision
from tests.support.extent import examples

PROJECT = "/nowhere/project"

POLICY = """
version: 1
policy: p
defaults: {{unmatched: ask, confine: project}}
confinements:
  project:
    read: ["/usr/**"]
    write: ["${{PROJECT}}/**"]
    protect: ["**/.git/**", "**/*.lock"]
    hide: ["**/.env"]
  repository: {{extends: project, protect: ["**/.git/hooks/**"]}}
  online: {{extends: project, network: host}}
rules:
  - {{id: files, decision: allow, when: {{effect: [read, write, append, delete], paths: {{all_within: ["${{PROJECT}}/**", "/tmp/**"]}}}}}}
  - {{id: harmless, decision: allow, when: {{resolved: true, effects: {{only: []}}}}}}
  - {{id: code, decision: allow, confined: project, when: {{effect: execute}}}}
{rules}
"""


def judged(folder: Path, command: str, rules: str = "", *, confined: bool = True) -> PolicyDecision:
    path = folder / "p.yaml"
    path.write_text(POLICY.format(rules=rules))
    director = Director(load(path), project=PROJECT, environ={"HOME": "/nowhere/home"}, confined=confined)
    return director.evaluate(Action(command, cwd=PROJECT))


ANY = "  - {id: doubt, decision: ask, confined: project, when: {resolved: false}}\n"


VARIABLE = "  - {id: set, decision: allow, when: {effect: environment}}\n"
MAKE = ANY + "  - {id: make, decision: ask, when: {program: make, operands: {any: [install]}}}\n  - {id: x, decision: allow, when: {program: x}}\n"  # fmt: skip
UNKNOWN = ANY + "  - {id: unknown, decision: ask, confined: project, when: {program: {resolved: false}}}\n"
NAMED = "  - {{id: r, decision: ask, when: {{{}program: node, argv: ['*', '...', x, '...']}}}}"


@pytest.mark.sample(32)
@pytest.mark.parametrize(
    ("command", "rule", "verdict"),
    [
        ("./a.out", "", "allow"),
        ("python x.py", "", "allow"),
        ('cat "$X"', ANY, "allow"),
        ('echo x > "$X"', "", "allow"),
        # Of a path nobody knows it can only be what can be written, or read.
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {none_within: ['${PROJECT}/**', /tmp/**]}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: [/srv/**]}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: ['**/.git/**']}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: ['**/.git/hooks/*']}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: ['${PROJECT}/.git/config']}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: ['**/*.lock', '**/.env']}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: ['**/*.py']}}}", "ask"),
        ('echo x > "$X"', "  - {id: r, decision: deny, when: {effect: write, paths: {any_within: ['/nowhere/**']}}}", "ask"),
        ('cat "$X"', ANY + "  - {id: r, decision: ask, when: {effect: read, paths: {any_within: ['**/.env']}}}", "allow"),
        ('cat "$X"', ANY + "  - {id: r, decision: ask, when: {effect: read, paths: {any_within: ['**/.git/**']}}}", "ask"),
        # Connections go nowhere, signals reach nobody, and what needs privileges does not happen unseen.
        ('curl "$X"', ANY + "  - {id: r, decision: ask, when: {effect: network}}", "allow"),
        ('pkill "$X"', ANY + "  - {id: r, decision: ask, when: {effect: process}}", "allow"),
        ("ls --frobnicate", ANY + "  - {id: r, decision: ask, when: {effects: {any: [privilege, network, system]}}}", "allow"),
        ("ls --frobnicate", ANY + "  - {id: r, decision: ask, when: {effects: {any: [persist, delete]}}}", "ask"),
        # What a command does that is not understood, it does there too.
        ("ls --frobnicate", ANY + "  - {id: r, decision: deny, when: {paths: {any_within: [/srv/**]}}}", "allow"),
        ("ls --frobnicate", ANY + "  - {id: r, decision: deny, when: {paths: {contents_of: [/srv]}}}", "allow"),
        ("ls --frobnicate", ANY + "  - {id: r, decision: deny, when: {paths: {any_within: ['**/*.py']}}}", "ask"),
        ("ls --frobnicate", ANY + "  - {id: r, decision: deny, when: {hosts: {any_in: [example.org]}}}", "allow"),
        # A place that can't be reached is surely not where it is.
        ('echo x > "$X"', "  - {id: r, decision: deny, when: {effect: write, paths: {all_within: [/srv/**]}}}", "allow"),
        ('echo x > "$X"', "  - {id: r, decision: deny, when: {effect: write, paths: {none_within: [/srv/**]}}}", "deny"),
        # Of what can't happen, nothing else needs to be allowed than what would be without a confinement.
        ('pkill "$X"', "  - {id: r, decision: allow, when: {effect: process}}", "allow"),
        ('pkill "$X"', "  - {id: r, decision: allow, when: {effect: privilege, role: x}}", "ask"),
        # What is certain is judged as ever.
        ("rm -rf /srv", "  - {id: a, decision: allow, when: {effect: delete, paths: {all_within: [/srv/**]}}}\n  - {id: r, decision: ask, when: {effect: delete, paths: {any_within: [/srv/data/**]}}}", "ask"),
        ("rm -rf .", "  - {id: r, decision: ask, when: {effect: delete, paths: {any_within: ['${PROJECT}/.git/**']}}}", "ask"),
        ("curl https://example.org", "", "ask"),
        ("rm -rf /srv/x", "", "ask"),
        ("cat .env", "  - {id: r, decision: deny, when: {effect: read, paths: {any_within: ['**/.env']}}}", "deny"),
        ("kill 1", "", "ask"),
        ("echo x > .git/hooks/pre-commit", "  - {id: r, decision: ask, when: {effect: write, paths: {any_within: ['**/.git/**']}}}", "ask"),
        # What is hidden, no wildcard reads; what nobody can reach, any variable may name.
        ("cat .e*", "  - {id: r, decision: deny, when: {effect: read, paths: {any_within: ['**/.env']}}}", "allow"),
        ("cat .*", "  - {id: r, decision: deny, when: {effect: read, paths: {any_within: ['**/.env', '**/.x']}}}", "ask"),
        ("cat ../.e*", "  - {id: r, decision: deny, when: {effect: read, paths: {any_within: ['**/.env']}}}", "ask"),
        ("rm .e*", "  - {id: r, decision: deny, when: {effect: delete, paths: {any_within: ['**/.env']}}}", "ask"),
        ("export PYTHONPATH=$X", VARIABLE + "  - {id: r, decision: deny, when: {env: {any: ['*'], value_in: [/srv/**]}}}", "allow"),
        ("export PYTHONPATH=$X", VARIABLE + "  - {id: r, decision: deny, when: {env: {any: ['*'], value_in: ['${PROJECT}/**']}}}", "ask"),
        ("export PYTHONPATH=/srv/x", VARIABLE + "  - {id: r, decision: deny, when: {env: {any: ['*'], value_in: [/srv/**]}}}", "deny"),
        # Of a makefile that nobody can read nothing is installed; of a word that nobody knows, perhaps.
        ("echo $(x) > Makefile; make html", MAKE, "allow"),
        ("echo $(x) > Makefile; make install", MAKE, "ask"),
        ('echo $(x) > Makefile; make "$X"', MAKE, "ask"),
        ('echo $(x) > Makefile; make "/$X"', MAKE, "ask"),
        ('echo $(x) > Makefile; make A="$X"', MAKE, "ask"),
        ("echo $(x) > Makefile; x | xargs make html", MAKE, "ask"),
        # Code that nobody has read does no more with a word that nobody knows than it may do without it.
        ('node a.js "$X"', ANY + NAMED.format("effect: execute, "), "allow"),
        ('node a.js -- x "$X"', ANY + NAMED.format("effect: execute, "), "ask"),
        ('node a.js "$X"', ANY + NAMED.format(""), "ask"),
        # Nor does a program of which nobody knows the name.
        ("$X -rf /srv", UNKNOWN + "  - {id: r, decision: deny, when: {program: [rm, git]}}", "allow"),
        ("$X -rf /srv", UNKNOWN + "  - {id: r, decision: deny, when: {program: {regex: 'r.*'}}}", "allow"),
        ("$X y > /srv/y", UNKNOWN + "  - {id: r, decision: deny, when: {program: [rm, git]}}", "ask"),
        # A deleting program that is known still meets rules about where it may be.
        ('rm -rf "$X"', ANY + "  - {id: r, decision: ask, when: {effect: delete, paths: {any_within: ['${PROJECT}']}}}", "ask"),
    ],
)  # fmt: skip
def test_doubt(tmp_path: Path, command: str, rule: str, verdict: str) -> None:
    decision = judged(tmp_path, command, rule)
    assert str(decision.verdict) == verdict, decision
    assert (decision.confinement is not None) == (verdict == "allow")


@pytest.mark.parametrize("command", ["./a.out", 'echo x > "$X"', 'cat "$X"', 'curl "$X"', 'pkill "$X"'])
def test_where_it_can_not_be_confined_it_asks(tmp_path: Path, command: str) -> None:
    decision = judged(tmp_path, command, ANY, confined=False)
    assert decision.verdict is Verdict.ASK
    assert judged(tmp_path, "echo a", confined=False).confinement is None


def wrote(name: str, text: str) -> str:
    return f"cat > {name} <<'EOF'\n{text}\nEOF\n"


GET = "import requests\nrequests.get('https://example.org')"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (wrote("x.py", GET), "allow"),
        (wrote("x.py", "import os\nos.kill(1, 9)"), "allow"),
        (wrote("x.sh", "curl https://example.org"), "allow"),
        (wrote("x.sh", "bash y.sh") + wrote("y.sh", "curl https://example.org"), "allow"),
        # It is asked about when it runs, also where the same action runs it.
        (wrote("x.py", GET) + "python x.py", "ask"),
        (wrote("x.sh", "curl https://example.org") + ". ./x.sh", "ask"),
        (wrote("x.sh", "python x.py") + wrote("x.py", GET) + "bash x.sh", "ask"),
        # What can't be read of it may be what is fetched.
        (wrote("x.sh", "curl https://example.org | sh"), "ask"),
        (wrote("x.py", f"{GET}\nexec(y)"), "ask"),
        (wrote("x.sh", "curl https://example.org") + wrote("y.sh", "./a.out"), "ask"),
        # What it does here, nothing holds.
        (wrote("x.py", "import os\nos.remove('/srv/x')"), "ask"),
        (wrote("x.sh", 'rm -rf "$X"'), "ask"),
        (wrote("x.sh", "pip install x"), "ask"),
    ],
)
def test_code_that_is_only_written_reaches_nobody(tmp_path: Path, command: str, verdict: str) -> None:
    rules = "  - {id: r, decision: ask, when: {effect: delete, paths: {any_within: ['${PROJECT}']}}}"
    decision = judged(tmp_path, command, rules)
    assert str(decision.verdict) == verdict, decision
    assert judged(tmp_path, command, confined=False).verdict is Verdict.ASK


MOCKED = f"from unittest.mock import patch\nwith patch('requests.get'):\n    pass\n{GET}"
"""It is gone again before the call."""


def test_a_connection_with_a_stand_in_is_held(tmp_path: Path) -> None:
    run = wrote("x.py", MOCKED) + "python x.py"
    decision = judged(tmp_path, run)
    assert names(decision) == ["project"]
    assert decision.confinement is not None
    assert decision.confinement.network == "none"
    unconfined = judged(tmp_path, run, confined=False)
    assert unconfined.verdict is Verdict.ASK
    assert any(effect.operand == "example.org" for effect in unconfined.effects)
    # Nothing but a connection is in doubt.
    for worse in (wrote("x.py", f"{MOCKED}\nimport os\nos.remove('/srv/x')") + "python x.py", f"{run}; rm -rf /srv/x"):
        assert judged(tmp_path, worse).verdict is Verdict.ASK


def names(decision: PolicyDecision) -> list[str]:
    assert decision.confinement is not None, decision.reason
    return [profile.name for profile in decision.confinement.profiles]


GIT = "  - {id: git, decision: allow, confined: repository, when: {program: git, subcommand: commit}}\n  - {id: history, decision: allow, confined: repository, when: {program: git, effect: metadata}}\n"  # fmt: skip
ASKED = "  - {id: server, decision: ask, confined: online, when: {effect: network, hosts: {any_in: [example.org]}}}\n"


def test_what_it_runs_in(tmp_path: Path) -> None:
    assert names(judged(tmp_path, "ls")) == ["project"]
    assert names(judged(tmp_path, "git commit -m x", GIT)) == ["repository"]
    assert names(judged(tmp_path, "git commit -m x && ls", GIT)) == ["repository", "project"]
    assert names(judged(tmp_path, "curl https://example.org", ASKED)) == ["online"]
    assert judged(tmp_path, "curl https://example.org", ASKED, confined=False).verdict is Verdict.ASK


def test_parts_are_judged_under_what_all_of_them_open(tmp_path: Path) -> None:
    """The binary would have the network that the other command was given."""
    rules = (
        ASKED
        + "  - {id: network, decision: ask, when: {effect: network}, unless: {hosts: {any_in: [example.org]}}}\n"
        + ANY
    )
    assert judged(tmp_path, 'curl "$X"', rules).verdict is Verdict.ALLOW
    both = judged(tmp_path, 'curl https://example.org; curl "$X"', rules)
    assert both.verdict is Verdict.ASK
    assert "network" in both.rules


def test_a_layer_that_may_not_allow_confines_nothing(tmp_path: Path) -> None:
    from humanlayer_agent.policy.layers import Layer

    path = tmp_path / "p.yaml"
    path.write_text(POLICY.format(rules="  - {id: secret, decision: ask, confined: project, when: {program: foo}}"))
    lower = load(path)
    base = tmp_path / "base.yaml"
    base.write_text(POLICY.format(rules="").replace("policy: p", "policy: base"))
    for trusted, verdict in ((False, "ask"), (True, "allow")):
        layers = [Layer(load(base), "user"), Layer(lower, "project", trusted=trusted)]
        decision = Director(layers, project=PROJECT, environ={"HOME": "/nowhere/home"}, confined=True).evaluate(
            Action("foo", cwd=PROJECT)
        )
        assert str(decision.verdict) == verdict


def test_what_is_not_allowed_confined_is_judged_by_the_machines_tmp_too(tmp_path: Path) -> None:
    """And the stricter of both holds, by the files and effects of what would run."""
    rules = (
        '  - {id: out, decision: ask, reason: "Deletes {{ paths }}.", when: {effect: delete, paths: {any_within: ["/srv/**"]}}}\n'
        '  - {id: never, decision: deny, when: {effect: delete, paths: {any_within: ["/etc/**"]}}}\n' + ANY
    )
    (tmp_path / "own").mkdir()
    machine = tmp_path / "machine.sh"
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.format(rules=rules))
    own = tmp_path / "own" / str(machine).removeprefix("/tmp/")
    if own.is_absolute() and not str(machine).startswith("/tmp/"):
        pytest.skip("temporary files are elsewhere")
    own.parent.mkdir(parents=True)
    view = View(str(tmp_path / "own"))
    director = Director(
        load(path), project=PROJECT, environ={"HOME": "/nowhere/home"}, confined=view, reader=DiskReader(PROJECT)
    )
    texts = {"allow": "echo x\n", "ask": "rm /srv/x\n", "deny": "rm /etc/x\n"}
    for inside, text in texts.items():
        own.write_text(text)
        for outside, other in texts.items():
            machine.write_text(other)
            decision = director.evaluate(Action(f"bash {machine}", cwd=PROJECT))
            confined, asked = inside == "allow", inside == "ask"
            assert str(decision.verdict) == (inside if confined else max(inside, outside, key=list(texts).index))
            # What is denied runs nowhere, so nobody looks what the machine has there.
            assert (decision.confinement is not None, decision.view == HOST) == (confined, asked)
            shown = machine if asked else own
            assert [(each.path, each.sha256) for each in decision.files] == [
                (str(machine), DiskReader.digest(str(shown)))
            ]
            assert ("confined commands see another file" in decision.reason) == (asked and inside != outside)


@pytest.mark.parametrize("wide", [("/tmp/{name}/**",), ()])
def test_what_one_confinement_shows_of_the_machines_tmp_and_another_does_not(
    tmp_path: Path, wide: tuple[str, ...]
) -> None:
    with TemporaryDirectory(dir="/tmp", prefix="hla-seen-") as name:
        wide = tuple(each.format(name=Path(name).name) for each in wide)
        one, other = Profile("one", read=(f"{name}/**", "/usr/**")), Profile("other", read=wide)
        view = containment.seen(View(str(tmp_path), shown=("/tmp/caches",)), [one, other])
        assert view.shown == (("/tmp/caches", name) if wide else ("/tmp/caches",))
        assert view.unknown == (() if wide else (name,))
    assert containment.seen(View(str(tmp_path)), [one, one]).unknown == (name,)  # it is not there


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("confinements: {a: {write: [x]}}", "'x': a path of a confinement begins with"),
        ("confinements: {a: {write: ['/srv/*/x']}}", "only its end may be a wildcard"),
        ("confinements: {a: {read: ['${NOTHING}/x']}}", "the variable NOTHING is not known"),
    ],
)
def test_path_sets_that_can_not_be_held_to(tmp_path: Path, wrong: str, says: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        f"version: 1\npolicy: p\n{wrong}\ndefaults: {{confine: a}}\nrules: [{{id: r, decision: ask, when: {{program: x}}}}]\n"
    )
    with pytest.raises(PolicyError, match=says.replace("$", r"\$")):
        Director.load(path, project=PROJECT)


def test_the_real_place_of_a_project_is_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    written = {"read": [], "write": ["${PROJECT}/**"], "protect": ["${PROJECT}/x"], "hide": [], "network": "none"}
    variables = {"PROJECT": f"{tmp_path}/link"}
    made = containment.situated(containment.profile("p", written, variables, reads=["/srv/lib/**"]))
    assert made.write == (f"{tmp_path}/real/**",)
    assert made.protect == (f"{tmp_path}/link/x", f"{tmp_path}/real/x")
    assert made.read == ("/srv/lib/**",)


NAMES = st.lists(st.sampled_from("abc"), max_size=4).map("/".join)
LINKS = st.sampled_from(["a", "b/c", "../b", "missing", ".", "{top}/c", "/usr"])


@settings(max_examples=examples(100))
@given(
    folders=st.lists(NAMES),
    links=st.lists(st.tuples(NAMES, LINKS)),
    paths=st.lists(NAMES, min_size=1),
    slash=st.booleans(),
)
def test_links_lead_where_the_system_says(
    folders: list[str], links: list[tuple[str, str]], paths: list[str], slash: bool
) -> None:
    with TemporaryDirectory() as top:
        for made in folders:
            (Path(top) / made).mkdir(parents=True, exist_ok=True)
        for name, target in links:
            with suppress(OSError):  # it is there already, or lies below a link that leads nowhere
                (Path(top) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(top) / name).symlink_to(target.format(top=top))
        entries = tuple(f"/{top}/{path}".rstrip("/") if slash else f"{top}/{path}".rstrip("/") for path in paths)
        real = tuple(dict.fromkeys(map(os.path.realpath, entries)))
        assert containment.situated(Profile("p", write=entries)).write == real


def test_where_the_supervisor_is_installed_is_never_written() -> None:
    """Also where that is below /tmp: what is written there is in a /tmp of the command's own, or protected."""
    written = {"read": [], "write": ["/p/**"], "protect": [], "hide": [], "network": "none", "hosts": []}
    variables = {"OWN_PROGRAMS": "/tmp/venv/bin", "PACKAGE": "/p/venv/lib/humanlayer_agent"}
    confinement = Confinement((containment.profile("p", written, variables),))
    effect = Effect("write", "operand", None, False, (0, 1))
    assert not containment.some(PathSet(["/tmp/venv/bin/python*", "/p/venv/lib/humanlayer_agent/**"], {}), effect, confinement)  # fmt: skip
    assert containment.some(PathSet(["/tmp/venv/**"], {}), effect, confinement)


def test_a_single_file_that_can_be_written_is_all_there_is() -> None:
    notes = Confinement((Profile("notes", write=("/p/notes",)),))
    assert containment.every(PathSet(["/p/notes", "/tmp/**"], {}), notes)
    assert not containment.every(PathSet(["/p/n*", "/p/other"], {}), notes)


def test_what_can_be_written_and_is_protected_as_a_whole_is_out_of_reach() -> None:
    confinement = Confinement((Profile("c", write=("/p/**", "/srv/x"), protect=("/srv/x",)),))
    effect = Effect("write", "operand", None, False, (0, 1))
    assert not containment.some(PathSet(["/srv/**"], {}), effect, confinement)
    assert containment.some(PathSet(["/p/a/**"], {}), effect, confinement)


_NAMES = st.sampled_from(["a", "b", ".git", "x.py", ".env"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(lambda parts: "/p/" + "/".join(parts))
_PATTERNS = st.sampled_from(
    [
        "/p/**",
        "/p/a/**",
        "**/.env",
        "**/.git/**",
        "**/*.py",
        "/p/a",
        "/p/*/b",
        "/srv/**",
        "**/a/x.py",
        "/p/a/*.py",
        "/p/?",
    ]
)


@settings(max_examples=examples(200, soak=20_000))
@given(path=_PATHS, patterns=st.lists(_PATTERNS, min_size=1, max_size=3), protect=st.lists(_PATTERNS, max_size=2), hide=st.lists(_PATTERNS, max_size=2))  # fmt: skip
def test_no_path_that_can_be_touched_is_left_out(
    path: str, patterns: list[str], protect: list[str], hide: list[str]
) -> None:
    """Whatever can be written or read within the confinement, and is in the set, is not ruled out."""
    rooted = [["/" + each if each.startswith("**") else each for each in entries] for entries in (protect, hide)]
    confinement = Confinement((Profile("c", write=("/p/**",), protect=tuple(rooted[0]), hide=tuple(rooted[1])),))
    paths = PathSet(patterns, {})
    for kind, touched in (("write", confinement.writes(path)), ("read", confinement.reads(path))):
        effect = Effect(kind, "operand", None, False, (0, 1))
        if touched and paths.has(path):
            assert containment.some(paths, effect, confinement)
        if touched and not paths.has(path):
            assert not containment.every(paths, confinement)


# ---- what an approved action runs in ----------------------------------------------------------------

APPROVED = """
  - {id: net, decision: ask, approved: online, when: {effect: network}}
  - {id: reads, decision: ask, approved: project, when: {effect: read, paths: {none_within: ["${PROJECT}/**", /tmp/**, /usr/**]}}}
  - {id: writes, decision: ask, approved: project, when: {effect: [write, append, delete, metadata], paths: {none_within: ["${PROJECT}/**", /tmp/**]}}}
  - {id: installs, decision: ask, when: {effect: package}}
  - {id: never, decision: deny, when: {effect: write, paths: {any_within: [/etc/**]}}}
"""


def approved(folder: Path, command: str, rules: str = APPROVED, *, confined: bool = True) -> PolicyDecision:
    path = folder / "p.yaml"
    path.write_text(POLICY.format(rules=rules))
    director = Director(load(path, tested=False), project=PROJECT, environ={"HOME": "/nowhere/home"}, confined=confined)
    return director.evaluate(Action(command, cwd=PROJECT))


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("curl https://example.org", "confined to project + online (the whole network of this machine)"),
        ("curl https://example.org; ./a.out", "confined to project + online (the whole network of this machine)"),
        ("cat {folder}/kept", "confined to project + reading {folder}/kept"),
        ("grep -r x {folder}", "confined to project + reading {folder}"),
        ("cat {folder}/kept; echo x > {folder}/kept", "confined to project + reading {folder}/kept and writing {folder}/kept"),
        ("find / -name x", "not confined"),  # inside there is another root, and other processes
        ("cat /proc/1/environ", "not confined"),
        ("cat '{folder}/*' '/srv/a?'", "not confined"),  # a name that would stand for others in a path set
        ("chmod 600 {folder}/kept", "not confined"),  # who knows whether it is replaced
        ("chmod 700 {folder}", "confined to project + writing {folder}"),
        ("echo x > {folder}/new", "not confined"),  # what is not there can't be mounted
        ("rm {folder}/kept", "not confined"),
        ("pip install x", "not confined"),  # its rule says nothing of it
        ("curl https://example.org; pip install x", "not confined"),
        ("git push", "not confined"),  # it logs in as somebody
        ("ssh example.org ls", "not confined"),
        ("ls a", "confined to project"),
    ],
)  # fmt: skip
def test_what_an_approved_action_runs_in(tmp_path: Path, command: str, runs: str) -> None:
    # Not where the policy lets everything be read, nor in what is the command's own.
    with TemporaryDirectory(dir=pwd.getpwuid(os.getuid()).pw_dir) as folder:
        Path(folder, "kept").write_text("x")
        assert approved(tmp_path, command.format(folder=folder)).runs == runs.format(folder=folder)


def test_a_host_that_is_allowed_opens_none_that_is_only_written(tmp_path: Path) -> None:
    rule = "  - {id: server, decision: allow, when: {effect: network, hosts: {any_in: [example.org]}}}\n"
    text = wrote("x.py", "import requests\nrequests.get('https://other.example')")
    for command in (f"{text}curl https://example.org", f"{text}curl https://example.org; ./a.out"):
        decision = judged(tmp_path, command, rule)
        assert decision.verdict is Verdict.ALLOW
        assert decision.confinement is not None
        assert not any("other.example" in host for host in decision.confinement.hosts)
        assert decision.confinement.network != "host"


@pytest.mark.parametrize("more", ["", "\nrequests.get = print"])
def test_of_what_is_opened_a_human_is_told_wherever_it_is_known(tmp_path: Path, more: str) -> None:
    """Something of the same action may run what it writes, and a stand-in may be none."""
    text = wrote("x.py", f"import requests\nrequests.get('https://other.example'){more}") + "python x.py; " * bool(more)
    assert approved(tmp_path, f"{text}ls").verdict is Verdict.ALLOW
    decision = approved(tmp_path, f"{text}curl https://example.org; ./a.out")
    assert decision.runs.startswith("confined to project + online")
    asked = [effect.operand for part in decision.parts if part.verdict is Verdict.ASK for effect in part.effects]
    assert {"example.org", "other.example"} <= set(asked)


def test_what_is_opened_is_open_and_nothing_beside_it(tmp_path: Path) -> None:
    decision = approved(tmp_path, "cat /etc/hostname; ./a.out")
    assert decision.verdict is Verdict.ASK
    confinement = decision.confinement
    assert confinement is not None
    assert confinement.reads("/etc/hostname")
    assert not confinement.reads("/etc/hosts")
    assert not confinement.writes("/etc/hostname")
    assert confinement.network == "none"


def test_what_is_denied_or_judged_for_what_is_not_confined_has_none(tmp_path: Path) -> None:
    assert approved(tmp_path, "echo x > /etc/hostname").confinement is None
    unconfined = approved(tmp_path, "curl https://example.org", confined=False)
    assert (unconfined.confinement, unconfined.confinable) == (None, False)


def test_what_is_protected_and_hidden_stays_so_below_a_folder_that_is_opened(tmp_path: Path) -> None:
    held = Confinement((Profile("p", protect=("/**/.git/**",), hide=(f"{tmp_path}/key", "/**/.env")),))
    both = Confinement((*held.profiles, *containment.opened([], [f"{tmp_path}", f"{tmp_path}/.git/config"], held)))
    assert both.writes(f"{tmp_path}/x")
    assert not both.writes(f"{tmp_path}/.git/hooks/pre-commit")
    assert both.writes(f"{tmp_path}/.git/config")  # it was named
    assert not both.reads(f"{tmp_path}/key")
    assert not both.reads(f"{tmp_path}/a/.env")
    assert Confinement((*held.profiles, *containment.opened([f"{tmp_path}/key"], [], held))).reads(f"{tmp_path}/key")


def test_only_a_rule_that_asks_says_what_an_approval_opens(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="only what a rule asks about is approved"):
        approved(tmp_path, "ls", "  - {id: x, decision: deny, approved: online, when: {effect: network}}")
    with pytest.raises(PolicyError, match="no confinement is called nothing"):
        approved(tmp_path, "ls", "  - {id: x, decision: ask, approved: nothing, when: {effect: network}}")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git push origin main", ("credentials",)),
        ("git status", ()),
        ("npm publish", ("credentials",)),
        ("npm install", ()),
        ("docker run x", ("daemon",)),
        ("apt-get install x", ("machine",)),
        ('"$X" y', ()),
    ],
)
def test_what_a_program_needs_besides_its_operands(command: str, found: tuple[str, ...]) -> None:
    director = Director.load("default", project=PROJECT, environ={"HOME": "/nowhere/home"})
    command_found = director.program(Action(command, cwd=PROJECT)).commands[0]
    assert containment.needs(command_found, director.catalogs.catalog) == found


def test_a_stored_decision_says_the_same(tmp_path: Path) -> None:
    decision = approved(tmp_path, "curl https://example.org; cat /etc/hostname")
    stored = load_decision(dump_decision(decision))
    assert (stored.confinement, stored.view) == (decision.confinement, decision.view)
    assert stored.view == View("")


@pytest.mark.parametrize(
    ("command", "read", "write", "network"),
    [
        ("cat a", ["/nowhere/project/a/**"], [], "none"),
        ("ls /usr/share", ["/usr/share"], [], "none"),
        ("cat a > /tmp/x; rm b", ["/nowhere/project/a/**"], ["/tmp/x", "/nowhere/project/b"], "none"),
        ("git log", [], [], "none"),
        # What code does is not known, and nobody was asked about it.
        ("make", ["/nowhere/project/**"], [], "host"),
        ("curl http://localhost:3000/", [], [], "host"),
        ('cat "$X"', ["/**"], [], "none"),
        ('for f in src/*; do cat "$f"; done', ["/nowhere/project/src/**"], [], "none"),
    ],
)
def test_what_is_reduced_lets_through_what_a_command_is_known_to_do(
    tmp_path: Path, command: str, read: list[str], write: list[str], network: str
) -> None:
    held = reduced(tmp_path, command)
    assert held is not None
    policies, own = held.profiles
    assert policies.write == (f"{PROJECT}/**",)
    assert (sorted(set(own.read)), list(own.write), held.network) == (read, write, network)
    assert held.name == "project"


@pytest.mark.parametrize("command", ["sudo ls", "docker run x", 'cat "$X"; echo x > "$X"; make'])
def test_what_would_break_is_not_reduced(tmp_path: Path, command: str) -> None:
    assert reduced(tmp_path, command) is None


def reduced(folder: Path, command: str) -> Confinement | None:
    """What a command is held to that is allowed, whatever it does."""
    path = folder / "p.yaml"
    path.write_text(POLICY.format(rules=""))
    director = Director(load(path), project=PROJECT, environ={"HOME": "/nowhere/home"})
    effects = [effect for each in director.program(Action(command, PROJECT)).commands for effect in each.effects]
    return containment.reduced(director.in_force().confinement("project"), effects)


def test_verdicts_do_not_count_on_what_is_reduced(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.format(rules=ANY))
    director = Director(load(path), project=PROJECT, environ={"HOME": "/nowhere/home"}, reduced=True)
    for command in ("./a.out", "python x.py", 'cat "$X"', "frobnicate"):
        decision = director.evaluate(Action(command, cwd=PROJECT))
        assert (decision.verdict, decision.reduced, decision.runs) == (Verdict.ASK, None, "not confined"), command
    assert director.evaluate(Action("cat a", cwd=PROJECT)).runs == "not confined (reduced: landlock)"


# ---- the network by a forwarder -----------------------------------------------------------------------------------

FORWARDED = """
version: 1
policy: p
defaults: {{unmatched: allow, confine: project}}
lists: {{mirrors: ["mirror.example:443"]}}
confinements:
  project: {{read: [/usr/**], write: ["${{PROJECT}}/**"]}}
  online: {{extends: project, network: forwarded, hosts: ["*", $mirrors]}}
  web: {{extends: project, network: forwarded}}
  all: {{extends: online, network: host}}
rules:
  - {{id: unread, decision: ask, confined: project, when: {{effect: execute, unread: true}}}}
  - {{id: ours, decision: allow, when: {{effect: network, hosts: {{any_in: [ours.example, localhost]}}}}}}
  - {{id: theirs, decision: ask, approved: {approved}, when: {{effect: network}}, unless: {{hosts: {{any_in: [ours.example, localhost]}}}}}}
  - {{id: serves, decision: ask, approved: {approved}, when: {{effect: listen}}}}
  - {{id: installs, decision: ask, approved: {approved}, when: {{effect: package}}}}
"""


def forwarded(folder: Path, command: str, approved: str = "online") -> PolicyDecision:
    path = folder / "p.yaml"
    path.write_text(FORWARDED.format(approved=approved))
    director = Director(load(path, tested=False), project=PROJECT, environ={"HOME": "/nowhere/home"}, confined=True)
    return director.evaluate(Action(command, cwd=PROJECT))


@pytest.mark.parametrize(
    ("command", "verdict", "hosts"),
    [
        ("curl https://a.example/x", "ask", ["a.example:443"]),
        ("curl http://a.example http://b.example:8080", "ask", ["a.example:80", "b.example:8080"]),
        ("curl a.example", "ask", ["a.example"]),
        ("echo x > /dev/tcp/a.example/25", "ask", ["a.example:25"]),
        ("curl http://0x7f.1:3000", "ask", ["127.0.0.1:3000"]),
        ("pip install x", "ask", ["*", "mirror.example:443"]),  # nobody knows from where
        ("pip install x; curl https://a.example", "ask", ["*", "a.example:443", "mirror.example:443"]),
        ("curl https://a.example; ./a.out", "ask", ["a.example:443"]),
        ("curl https://a.example https://ours.example", "ask", ["a.example:443", "ours.example:443"]),
        ("curl https://a.example; curl localhost:3000", "ask", ["a.example:443", "localhost:3000"]),
        ("curl https://a.example; curl localhost:3000; ./a.out", "ask", ["a.example:443"]),
        ("curl https://ours.example", "allow", ["ours.example:443"]),
        ("curl localhost:3000", "allow", ["localhost:3000"]),
        ("curl localhost", "allow", []),  # at which port is not known
        ("curl localhost:3000; ./a.out", "allow", []),  # the binary would have it
        ("npm start & curl localhost:3000", "allow", []),  # the project's own server is meant
        ("npm test; curl https://ours.example", "allow", ["ours.example:443"]),
        ("curl https://ours.example; ./a.out", "allow", []),
        ("curl https://ours.example | ./a.out", "allow", []),
        ("curl https://ours.example; frobnicate", "allow", []),
        ("curl https://ours.example; ls -l", "allow", ["ours.example:443"]),
        ("curl https://a.example; curl https://ours.example; frobnicate", "ask", ["a.example:443"]),
        ('curl https://ours.example; curl "$X"', "allow", []),
        ("./a.out", "allow", []),
        ('curl "$X"', "allow", []),
        ("python3 -m http.server 3000", "ask", []),  # who listens is reached by the same command alone
        ("python3 -m http.server 3000 & curl localhost:3000", "ask", []),
        ("# needs: network\n./a.out", "ask", ["*"]),
        ("# needs: network localhost:3000\n./a.out", "ask", ["localhost:3000"]),
        ("# needs: network a.example, network localhost:3000\nls", "ask", ["a.example", "localhost:3000"]),
    ],
)  # fmt: skip
def test_the_hosts_that_are_known_are_opened_and_no_others(
    tmp_path: Path, command: str, verdict: str, hosts: list[str]
) -> None:
    decision = forwarded(tmp_path, command)
    assert decision.confinement is not None
    assert (str(decision.verdict), sorted(decision.confinement.hosts)) == (verdict, hosts)
    assert decision.confinement.network == ("forwarded" if hosts else "none")


def test_what_is_approved_is_what_the_policy_says(tmp_path: Path) -> None:
    for approved, command, network, hosts in (
        ("web", "pip install x", "forwarded", ("*",)),
        ("project", "curl https://a.example", "none", ()),
        ("all", "curl https://a.example", "host", ()),
        ("all", "# needs: network a.example\ncurl https://a.example", "host", ()),
    ):
        confinement = forwarded(tmp_path, command, approved).confinement
        assert confinement is not None
        assert (confinement.network, confinement.hosts) == (network, hosts), command


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("network: none, hosts: [a]", "p.yaml:7:35: hosts are what `network: forwarded` leads to"),
        ("network: forwarded, hosts: ['a b']", "'a b' is neither a host nor a host and a port"),
        ("network: forwarded, hosts: ['a:99999']", "'a:99999' has no port"),
        ("network: forwarded, hosts: [$nothing]", "nothing"),
        ("network: some", "network"),
    ],
)
def test_hosts_that_are_none_are_errors_of_the_policy(tmp_path: Path, key: str, error: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(FORWARDED.format(approved="online").replace("project: {read", f"project: {{{key}, read"))
    with pytest.raises(PolicyError, match=error):
        load(path, tested=False)


def test_a_second_wall_leads_to_all_hosts(tmp_path: Path) -> None:
    """Landlock forwards nothing."""
    held = containment.reduced(Profile("web", network="forwarded", hosts=("*",)), [])
    assert held is not None
    assert (held.network, held.hosts) == ("host", ())


HOLDING = "  - {id: look, decision: ask, hold: true, when: {effect: delete}}\n" + ANY


@pytest.mark.parametrize(
    ("command", "can"),
    [
        ("rm a", True),
        ('rm "$X"', True),
        ("rm a; ./a.out", True),
        ("rm a /tmp/b", True),
        ("rm a; curl https://example.org", False),
        ("rm a; curl $HOST", True),  # it may be anything, and there is no network
        ("rm /srv/a", False),
        ("rm .git/HEAD", False),
        ("rm a; sudo ls", False),
        ("rm a; kill 7", False),
        ("rm a; docker ps", False),
        ("rm a; pip install x", False),
        ("rm a; crontab x", False),
        ("rm a; nc -l 80", False),
    ],
)
def test_what_can_be_run_held(tmp_path: Path, command: str, can: bool) -> None:
    decision = judged(tmp_path, command, HOLDING)
    assert (decision.verdict, decision.hold) == (Verdict.ASK, True)
    assert (decision.holds is not None) is can
    unconfined = judged(tmp_path, command, HOLDING, confined=False)
    assert unconfined.holds is None


@pytest.mark.parametrize("command", ["rm a; cat /srv/x/server.sock", "rm a; cat $X"])
def test_what_a_yes_would_open_is_not_open_before_it(tmp_path: Path, command: str) -> None:
    """There may be the socket of a server, and what it is told is in no layer."""
    opening = HOLDING.replace("hold: true", "hold: true, approved: project").replace(
        "{effect: delete}", "{effect: [delete, read]}"
    )
    decision = judged(tmp_path, command, opening)
    assert (decision.verdict, decision.hold) == (Verdict.ASK, True)
    assert decision.confinement is not None
    assert decision.confinement.reads("/srv/x/server.sock") is ("$X" not in command)
    assert decision.holds is None or not decision.holds.reads("/srv/x/server.sock")


def test_only_what_a_rule_asks_about_is_held(tmp_path: Path) -> None:
    assert not judged(tmp_path, "ls; rm a", "  - {id: x, decision: ask, hold: false, when: {effect: delete}}").hold
    for decision in ("allow", "deny"):
        rule = f"  - {{id: x, decision: {decision}, hold: true, when: {{effect: delete, paths: {{all_within: [/x]}}}}}}"
        with pytest.raises(PolicyError, match=r"p\.yaml:17:\d+: rule x: only what a rule asks about is held"):
            judged(tmp_path, "rm a", rule)


def test_a_stored_decision_says_what_a_held_run_changed(tmp_path: Path) -> None:
    held = HeldRun(True, "It ended.", ("deletes a",), 3, "--- a\n", "out", ("why",))
    decision = replace(judged(tmp_path, "rm a", HOLDING), held=held)
    stored = load_decision(dump_decision(decision))
    assert (stored.held, stored.holds, stored.hold) == (held, decision.holds, True)

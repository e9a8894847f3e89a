"""Catalog files that do not ship: who may write them, what they may say, and what becomes of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.configuration import build_director
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.layers import catalog_files, find_layers, trust
from humanlayer_agent.policy.layers.catalog_files import Catalogs, find_catalogs

FROB = """\
programs:
  frob:
    about: frobnicates files
    options:
      output: {names: [-o, --output], value: write}
      hook: {names: [--hook], value: shell}
    operands: ["read*"]
examples:
  - {command: "frob -o x a", effects: [write x, read a]}
  - {command: "frob --hook 'rm x' a", effects: [delete x, read a]}
"""


class Machine:
    """A machine, a user and a project, each of which may have catalog files."""

    def __init__(self, root: Path, home: Path) -> None:
        self.project = root / "project"
        self.settings = {
            "machine": root / "etc",
            "user": home / ".config" / "humanlayer-agent",
            "project": self.project / ".humanlayer",
        }
        self.project.mkdir()

    def write(self, owner: str, text: str = FROB, name: str = "frob.yaml") -> Path:
        folder = self.settings[owner] / "catalog"
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        path = folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def catalogs(self, *, layered: bool = False) -> Catalogs:
        layers = find_layers(self.project, machine=self.settings["machine"]) if layered else []
        return find_catalogs(self.project, layers, machine=self.settings["machine"])

    def director(self) -> Director:
        return Director.load("default", project=self.project, catalogs=self.catalogs())

    def judge(self, command: str) -> PolicyDecision:
        return self.director().evaluate(Action(command, cwd=str(self.project)))

    def verdict(self, command: str) -> str:
        return str(self.judge(command).verdict)

    def trust(self) -> None:
        found = catalog_files.project_contents(self.project)
        trust.record(self.project, catalog_files.digests(found), "-catalog")

    def locked(self, owner: str) -> None:
        path = self.settings[owner] / "policy.yaml"
        path.write_text("version: 1\npolicy: top\nextends: [builtin:default]\ndefaults: {locked: true}\n")
        path.chmod(0o600)


@pytest.fixture
def machine(tmp_path: Path, own_user: Path) -> Machine:
    return Machine(tmp_path, own_user)


@pytest.fixture
def refused(machine: Machine) -> Callable[[str], str]:
    """What is said of a file of the user's with this text."""

    def said(text: str) -> str:
        machine.write("user", text)
        with pytest.raises(PolicyError) as caught:
            machine.catalogs()
        return str(caught.value)

    return said


@pytest.mark.parametrize("owner", ["machine", "user"])
def test_a_program_that_is_described_is_judged_by_what_it_does(machine: Machine, owner: str) -> None:
    assert machine.verdict("frob a") == "ask"
    machine.write(owner)
    assert machine.verdict("frob -o x a") == "allow"
    assert machine.judge("frob -o /srv/x a").rule == "write-outside-project"
    assert machine.judge("frob --hook 'rm -rf ~' a").rule == "disaster"
    assert machine.judge("frob --other a").rule == "unresolved"


def test_by_its_name_and_not_by_a_path_of_the_project(machine: Machine) -> None:
    """`./frob` is a file that the agent may have written, whatever a tool of that name does."""
    machine.write("user")
    for command in ("./frob a", "bin/frob a", f"{machine.project}/frob a", "/opt/frob a", "bash frob"):
        assert machine.verdict(command) == "ask", command
    assert machine.verdict("/usr/local/bin/frob a") == "allow"
    assert machine.verdict("frob() { rm -rf /srv/x; }; frob a") == "ask"
    assert machine.verdict("alias frob='rm -rf /srv/x'\nfrob a") == "ask"
    assert machine.verdict("PATH=$PWD:$PATH frob a") == "ask"


@pytest.mark.long
def test_what_goes_by_its_name_elsewhere_is_another_program(machine: Machine) -> None:
    """A project's `[project.scripts]`, a package, a container and another machine may each have a `frob` of their own."""
    machine.write("user")
    for command in ("command frob a", "env frob a", "timeout 5 frob a", "bash -c 'frob a'", "time frob a"):
        assert machine.verdict(command) == "allow", command
    for runner in ("uv run", "poetry run", "npx", "pnpm exec", "uvx", "pipx run", "docker run x", "ssh h", "hatch run"):
        assert machine.verdict(f"{runner} frob a") == "ask", runner
    assert "unknown-program" in machine.judge("uv run frob a").rules


def test_what_its_environment_selects_is_not_known(machine: Machine) -> None:
    """An entry says nothing of variables: one that may name a file or a command is asked about."""
    machine.write("user")
    for given in ("FROB_PLUGIN=./x.so", "OTHER=./x", "LD_PRELOAD=./x.so", "PATH=$PWD"):
        assert machine.verdict(f"{given} frob a") == "ask", given
        assert machine.verdict(f"env {given} frob a") == "ask", given
    for given in ("FROB_LEVEL=3", "LC_ALL=C", "NO_COLOR=1"):
        assert machine.verdict(f"{given} frob a") == "allow", given


def test_a_project_has_a_say_once_exactly_its_files_are_trusted(machine: Machine) -> None:
    path = machine.write("project")
    assert machine.verdict("frob a") == "ask"
    (ignored,) = machine.catalogs().ignored
    assert "hla policy trust" in ignored[1]
    machine.trust()
    assert machine.verdict("frob a") == "allow"
    path.write_text(FROB.replace("write}", "text}"))
    assert machine.verdict("frob a") == "ask"
    path.write_text(FROB)
    assert machine.verdict("frob a") == "allow"
    machine.write("project", FROB.replace("frob", "grob"), "grob.yaml")
    assert machine.verdict("frob a") == "ask"  # a further file is another text


def test_a_project_that_nobody_trusts_can_break_nothing(machine: Machine) -> None:
    machine.write("project", "programs: [")
    assert machine.verdict("ls") == "allow"
    folder = machine.settings["project"] / "catalog"
    (folder / "link.yaml").symlink_to("/etc/passwd")
    assert machine.verdict("ls") == "allow"
    assert "is a link" in machine.catalogs().ignored[0][1]


def test_trust_in_a_policy_is_none_in_a_catalog(machine: Machine) -> None:
    machine.write("project")
    found = catalog_files.project_contents(machine.project)
    trust.record(machine.project, catalog_files.digests(found))
    assert machine.verdict("frob a") == "ask"
    machine.trust()
    assert machine.verdict("frob a") == "allow"
    assert trust.withdraw(machine.project, "-catalog")
    assert machine.verdict("frob a") == "ask"


@pytest.mark.parametrize("owner", ["machine", "user", "project"])
@pytest.mark.parametrize("name", ["rm", "kubectl", "kubectl frob", "git"])
def test_what_ships_is_described_by_nobody_else(machine: Machine, owner: str, name: str) -> None:
    """Not by the machine either: a harmless `rm` would pass rules that are locked in every policy."""
    first = name.partition(" ")[0]
    both = f"{{{name}: {{effects: []}}, {first}: {{effects: []}}}}" if " " in name else f"{{{name}: {{effects: []}}}}"
    machine.write(owner, f"programs: {both}\nexamples: [{{command: {first}, effects: []}}]\n")
    machine.trust()
    with pytest.raises(
        PolicyError, match=r"is described by the catalog that ships|only the catalog that ships"
    ) as caught:
        machine.catalogs()
    assert "frob.yaml:1" in str(caught.value)


def test_two_files_that_describe_the_same_are_an_error(machine: Machine) -> None:
    machine.write("machine")
    machine.write("user", "# mine\n" + FROB)
    with pytest.raises(
        PolicyError, match=r"catalog/frob\.yaml:3: frob is described by .*etc/catalog/frob\.yaml:2 already"
    ):
        machine.catalogs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("programs: {./frob: {effects: []}}", "1:12: a program goes by its name"),
        ("programs:\n  cd: {effects: []}\n", "2:3: cd is bash's own"),
        ("programs: {if: {effects: []}}", "if is bash's own"),
        ("programs: {python3.99: {effects: []}}", "runs, fetches or sends what it is given"),
        ("programs: {ld-linux-x86-64.so.2: {effects: []}}", "runs, fetches or sends"),
        ("programs: {'fr*b': {effects: []}}", "is not the name of a program"),
        ("programs: {frob: {about: x}}", "nothing says what frob does"),
        ("programs: {frob: {effects: []}}", "no example of frob"),
        ("programs: {frob: {grammar: xargs}}", "`grammar` names code of ours"),
        (
            "programs:\n  frob:\n    options:\n      out: {names: [-o], value: wrote}\n",
            "4:12: frob: out: 'wrote' is no slot",
        ),
        ("programs: {frob: {variants: [1]}}", "nothing says what frob does"),
        ("programs: {frob: {operands: [read], variants: [1]}}", "not in the form of an entry"),
        ("programs: {frob: {operands: 3}}", "not in the form of an entry"),
        ("programs: {frob: {effects: 3}}", "not in the form of an entry"),
        ("programs: {frob: {effects: []}, frob: {effects: []}}", "stands here twice"),
        ("programs: {'frob, frob': {effects: []}}", "described twice"),
        ("programs: {frob: {effects: []}}\nexamples: [{effects: []}]", "2:12: expected {command"),
        ("programs: {frob: {effects: []}}\nexamples: 3", "expected a list of examples"),
        ("program: {}", "expected `programs:`"),
        ("programs: {}\nprogram: {}", "2:1: unknown key program"),
        ("programs: {frob sub: {effects: []}}", "a sub-command stands in the file"),
        ("- 1", "expected `programs:`"),
        ("", "the file is empty"),
        ("{", "not YAML"),
        ("programs: !!python/object:os.system {}", "is not read here"),
    ],
)
def test_mistakes_are_named_with_their_place(refused: Callable[[str], str], text: str, message: str) -> None:
    said = refused(text)
    assert message in said
    assert "catalog/frob.yaml" in said


def test_a_draft_is_as_good_as_nothing(machine: Machine) -> None:
    machine.write("user", "programs: {frob: {draft: true, effects: []}}\n")
    assert machine.judge("frob a").rules == ("unknown-program", "unresolved")
    subcommands = FROB.replace('operands: ["read*"]', "subcommands: {x: {draft: true, effects: []}, y: {effects: []}}")
    machine.write("user", subcommands.partition("examples:")[0] + "examples: [{command: frob y, effects: []}]\n")
    assert machine.verdict("frob y") == "allow"
    assert machine.judge("frob x").rule == "unknown-program"


@pytest.mark.parametrize("owner", ["machine", "user"])
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_what_others_can_write_is_refused(machine: Machine, owner: str, mode: int) -> None:
    path = machine.write(owner)
    path.chmod(mode)
    with pytest.raises(PolicyError, match="writable by nobody else"):
        machine.catalogs()
    path.chmod(0o644)
    path.parent.chmod(mode | 0o111)
    with pytest.raises(PolicyError, match="writable by nobody else"):
        machine.catalogs()
    path.parent.chmod(0o755)
    path.parent.parent.chmod(0o777)
    with pytest.raises(PolicyError, match="writable by nobody else"):
        machine.catalogs()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("owner", ["machine", "user"])
def test_what_belongs_to_somebody_else_is_refused(machine: Machine, owner: str) -> None:
    path = machine.write(owner)
    os.chown(path, 12345, 12345)
    with pytest.raises(PolicyError, match="must belong to"):
        machine.catalogs()


@pytest.mark.parametrize("owner", ["machine", "user"])
def test_links_are_not_followed(machine: Machine, owner: str) -> None:
    """A link into the project would hand the catalog to the agent."""
    path = machine.write(owner)
    moved = path.rename(machine.project / "frob.yaml")
    path.symlink_to(moved)
    with pytest.raises(PolicyError, match="is a link"):
        machine.catalogs()
    path.unlink()
    folder = path.parent
    folder.rmdir()
    folder.symlink_to(machine.project)
    with pytest.raises(PolicyError, match=r"is no folder, or a link|lies in the project"):
        machine.catalogs()


@pytest.mark.parametrize("owner", ["machine", "user"])
def test_a_second_name_of_the_file_is_refused(machine: Machine, owner: str) -> None:
    path = machine.write(owner)
    os.link(path, machine.project / "notes.yaml")
    with pytest.raises(PolicyError, match="a hard link"):
        machine.catalogs()


def test_pipes_and_folders_are_no_files(machine: Machine) -> None:
    path = machine.write("user")
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(PolicyError, match="not a regular file"):
        machine.catalogs()


def test_settings_of_the_user_do_not_lie_in_the_project(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("user")
    folder = machine.project / "config" / "humanlayer-agent" / "catalog"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(machine.project / "config"))
    with pytest.raises(PolicyError, match="lies in the project"):
        machine.catalogs()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(machine.project.parent / "config"))
    assert machine.catalogs().files == ()


@pytest.mark.parametrize(
    ("locked", "counts"),
    [("machine", {"machine"}), ("user", {"machine", "user"}), ("project", {"machine", "user", "project"})],
)
def test_below_a_locked_policy_nothing_counts(machine: Machine, locked: str, counts: set[str]) -> None:
    for owner in ("machine", "user", "project"):
        machine.write(owner, FROB.replace("frob", f"{owner}-frob"), f"{owner}.yaml")
    machine.trust()
    machine.locked(locked)
    found = machine.catalogs(layered=True)
    assert {each.owner for each in found.files} == counts
    assert all("locked" in why for _, why in found.ignored)


def test_what_judges_is_in_the_digest(machine: Machine) -> None:
    """A permit is for exactly what judged, and a session notices another catalog by it."""
    plain = machine.director().digest
    assert Director.load("default", project=machine.project).digest == plain
    path = machine.write("user")
    first = machine.director().digest
    path.write_text(f"{FROB}# another text\n")
    assert len({plain, first, machine.director().digest}) == 3


def test_they_count_whatever_policy_is_named(machine: Machine) -> None:
    machine.write("user")
    for policy in (None, "default", "strict"):
        director = build_director(policy, project=machine.project)
        assert director.evaluate(Action("frob a", cwd=str(machine.project))).rule != "unknown-program"


def test_no_family_has_what_was_added(machine: Machine) -> None:
    """The name of a shipped file says what its programs never do. `text.yaml` of a user's is another file."""
    machine.write("user", name="text.yaml")
    known = machine.catalogs().catalog
    assert known.family("frob") is None
    assert known.family("rm") == "files"
    assert {"frob", "rm"} <= set(known.names())


def test_what_was_checked_is_kept_for_exactly_that_file(machine: Machine) -> None:
    """A broken file that was in order before is broken, and one in order is not checked twice."""
    path = machine.write("user")
    assert [each.examples[0].command for each in machine.catalogs().files] == ["frob -o x a"]
    assert [each.examples[0].command for each in machine.catalogs().files] == ["frob -o x a"]
    path.write_text(FROB.replace("value: write", "value: wrote"))
    with pytest.raises(PolicyError, match="is no slot"):
        machine.catalogs()
    path.write_text(FROB)
    assert machine.catalogs().files[0].example_lines == (9, 10)


OWN = [
    "echo x > ~/.config/humanlayer-agent/catalog/frob.yaml",
    "cp frob.yaml ~/.config/humanlayer-agent/catalog/",
    "mkdir -p ~/.config/humanlayer-agent/catalog",
    "ln -s $PWD ~/.config/humanlayer-agent/catalog",
    "mv ~/.config/humanlayer-agent/catalog /tmp/x",
    "sed -i s/write/text/ /etc/humanlayer-agent/catalog/frob.yaml",
    "tee .humanlayer/catalog/frob.yaml < x",
    "mkdir -p .humanlayer/catalog",
    "rm -rf .humanlayer/catalog",
    'python3 -c \'open(".humanlayer/catalog/x.yaml", "w").write("")\'',
    "hla catalog new frob",
]


@pytest.mark.sample(9)
@pytest.mark.parametrize("policy", ["default", "strict", "ci", "sandbox"])
@pytest.mark.parametrize("command", OWN)
def test_an_agent_writes_none(machine: Machine, policy: str, command: str) -> None:
    director = Director.load(policy, project=machine.project)
    assert str(director.evaluate(Action(command, cwd=str(machine.project))).verdict) == "deny"


def test_a_confined_command_writes_none(machine: Machine) -> None:
    """What nobody could read of it does not, either: the kernel holds it."""
    director = Director.load("default", project=machine.project, confined=True)
    profile = director.in_force().confine
    assert profile is not None
    for path in (f"{machine.settings['user']}/catalog/x.yaml", "/etc/humanlayer-agent/catalog/x.yaml"):
        assert not profile.writes(path)
    assert "/**/.humanlayer/**" in profile.protect

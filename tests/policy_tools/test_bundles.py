"""Policy bundles built, tried and put in force."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.layers import find_layers, machine_bundle
from humanlayer_agent.policy_tools import bundles
from tests.support.bundles import LOCKED, READS, Fleet, policy_text, resigned

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what is the machine's belongs to root")
STRICT = "{locked: true, unmatched: deny}"


@pytest.fixture
def fleet(tmp_path: Path, own_user: Path) -> Fleet:
    return Fleet(tmp_path)


def in_force(fleet: Fleet) -> list[str]:
    return [layer.policy.name for layer in find_layers(fleet.project, machine=fleet.folder)]


# ---- build -----------------------------------------------------------------------------------------------


def test_the_same_files_make_the_same_bytes(fleet: Fleet) -> None:
    assert fleet.build(7).text == fleet.build(7).text
    assert fleet.build(7).text != fleet.build(8).text


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda f: (f / "policy.yaml").unlink(), "is missing"),
        (lambda f: (f / "run.sh").write_text("id"), "nothing else"),
        (lambda f: (f / "b.yml").write_text("x"), "nothing else"),
        (lambda f: (f / "Other.yaml").write_text("x"), "extends it"),
        (lambda f: (f / "other.yaml").symlink_to("/etc/passwd"), "is a link"),
        (lambda f: (f / "folder").symlink_to("/etc"), "is a link"),
        (lambda f: (f / "other.yaml").write_text("version: 1\npolicy: o\nrules: []\n"), "no file of the bundle extends it"),
        (lambda f: os.link(f / "policy.yaml", f.parent / "second"), None),
        (lambda f: (f / "policy.yaml").write_bytes(b"\xff\xfe"), "UTF-8"),
        (lambda f: (f / "policy.yaml").write_text("a: [" * 50), "policy.yaml"),
        (lambda f: (f / "policy.yaml").write_text(policy_text("{id: a, decision: deny, when: {program: rm}, tests: {match: [ls]}}")), "expected"),
        (lambda f: (f / "policy.yaml").write_text(policy_text(READS, extends="[../outside.yaml]")), "outside|can't be read"),
        (lambda f: (f / "policy.yaml").write_text(policy_text(READS, extends="[/etc/passwd]")), "expected builtin"),
        (lambda f: (f / "policy.yaml").write_text("x" * 600_000), "too large"),
        (lambda f: os.mkfifo(f / "other.yaml"), "not a regular file"),
    ],
)  # fmt: skip
def test_what_does_not_belong_into_one_is_refused(
    fleet: Fleet, spoil: Callable[[Path], object], why: str | None
) -> None:
    folder = fleet.files(policy=policy_text(READS, LOCKED))
    (fleet.root / "outside.yaml").write_text(policy_text(READS, name="outside"))
    spoil(folder)
    if why is None:
        assert bundles.build(bundles.gathered(folder), version=1, expires="2999-12-31", signer=fleet.signer)
        return
    with pytest.raises(ConfigError, match=why):
        bundles.build(bundles.gathered(folder), version=1, expires="2999-12-31", signer=fleet.signer)


@pytest.mark.parametrize(
    ("expires", "why"),
    [("2001-01-01", "has expired"), ("soon", "expected a day"), ("2999-12-31T00:00:00", "time zone")],
)
def test_when_it_ends_is_said_and_lies_ahead(fleet: Fleet, expires: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        fleet.build(1, expires=expires)


def test_its_tests_run_also_where_it_comes_from_elsewhere(fleet: Fleet) -> None:
    good = fleet.build(1)
    failing = policy_text(READS, LOCKED.replace("rm x", "ls"))
    with pytest.raises(PolicyError, match=r"acme.bundle/policy.yaml:\d+:\d+: rule no-deletes"):
        bundles.install(resigned(good, fleet.signer, files={"policy.yaml": failing}), "x", folder=fleet.folder)
    assert not (fleet.folder / "policy.bundle").exists()


# ---- install ----------------------------------------------------------------------------------------------


def test_what_is_refused_changes_nothing(fleet: Fleet) -> None:
    fleet.install(good := fleet.build(7))
    before = {path.name: path.read_bytes() for path in fleet.folder.iterdir()}
    refused = {
        "older than 7": fleet.build(6),
        "another policy bundle was the version 7": resigned(good, fleet.signer, unlocks=["x"]),
        "changed after it was signed": good.text.replace(b'"version":7', b'"version":8'),
        "does not count here": resigned(good, Signer(), version=8),
        "cut short": good.text[:-5],
        "takes acme": resigned(good, fleet.signer, policy="other", version=8),
        "has expired": resigned(good, fleet.signer, expires="2001-01-01", version=8),
        "too large": b"[" * 5_000_000,
        "policy is called acme, the bundle": resigned(
            good, fleet.signer, version=8, files={"policy.yaml": policy_text(READS, LOCKED, name="acme2")}
        ),
    }
    for why, raw in refused.items():
        with pytest.raises(ConfigError, match="policy is called acme2" if "is called" in why else why):
            fleet.install(raw)
    assert {path.name: path.read_bytes() for path in fleet.folder.iterdir()} == before
    fleet.install(good)  # once more: nothing new, and it was looked at
    fleet.install(fleet.build(8))
    assert in_force(fleet) == ["acme@8"]


def test_the_mark_holds_where_the_bundle_is_gone(fleet: Fleet) -> None:
    old = fleet.build(7)
    fleet.install(fleet.build(8))
    (fleet.folder / "policy.bundle").unlink()
    with pytest.raises(PolicyError, match="older than 8"):
        fleet.install(old)
    (fleet.folder / "bundle-last.json").unlink()
    fleet.install(old)  # who can write there can do that: the mark is worth what the folder is


def test_what_was_locked_goes_by_name_alone(fleet: Fleet) -> None:
    fleet.install(fleet.build(1))
    weaker = LOCKED.replace("{effect: delete}", "{effect: delete, program: shred}").replace("rm x", "shred -u x")
    for rules in (
        (READS,),
        (READS, weaker),
        (READS, LOCKED.replace("locked: true, ", "")),
        (READS, LOCKED.replace("deny", "ask")),
    ):
        with pytest.raises(ConfigError, match=r"acme@1 has locked is gone or decides otherwise: no-deletes"):
            fleet.install(fleet.build(2, *rules))
    assert in_force(fleet) == ["acme@1"]
    fleet.install(fleet.build(2, READS, LOCKED.replace("locked: true", "locked: true, reason: 'Other words.'")))
    fleet.install(fleet.build(3, READS, unlocks=["no-deletes"]))
    assert in_force(fleet) == ["acme@3"]


def test_locked_defaults_and_enforcement_go_by_name_alone(fleet: Fleet) -> None:
    def built(version: int, **head: str) -> bytes:
        files = bundles.gathered(fleet.files(policy=policy_text(READS, **head)))
        return bundles.build(files, version=version, expires="2999-12-31", signer=fleet.signer)[0].text

    fleet.install(built(1, defaults=STRICT))
    for head, named in (({}, "defaults"), ({"defaults": STRICT, "observe": "true"}, "observe")):
        with pytest.raises(ConfigError, match=f"decides otherwise: {named}"):
            fleet.install(built(2, **head))


def test_a_list_that_a_locked_rule_names_is_part_of_it(fleet: Fleet) -> None:
    rule = "{id: hosts, decision: deny, locked: true, when: {hosts: {any_in: [$bad]}}}"

    def built(version: int, lists: str) -> bytes:
        files = bundles.gathered(fleet.files(policy=policy_text(rule, lists=lists)))
        return bundles.build(files, version=version, expires="2999-12-31", signer=fleet.signer)[0].text

    fleet.install(built(1, "{bad: [a.example, b.example]}"))
    with pytest.raises(ConfigError, match="decides otherwise: hosts"):
        fleet.install(built(2, "{bad: [a.example]}"))


@pytest.mark.parametrize(
    ("defaults", "rule", "named"),
    [
        ("{locked: true, confine: tight}", READS, "defaults"),
        ("{}", "{id: asked, decision: ask, locked: true, approved: tight, when: {effect: delete}}", "asked"),
        ("{}", "{id: asked, decision: ask, locked: true, confined: tight, when: {effect: delete}}", "asked"),
    ],
)
def test_a_confinement_that_something_locked_names_is_part_of_it(
    fleet: Fleet, defaults: str, rule: str, named: str
) -> None:
    def built(version: int, confinements: str, lists: str = "{where: ['${PROJECT}/**']}") -> bytes:
        text = policy_text(rule, defaults=defaults, lists=lists, confinements=confinements)
        files = bundles.gathered(fleet.files(policy=text))
        return bundles.build(files, version=version, expires="2999-12-31", signer=fleet.signer)[0].text

    tight = "{base: {network: none, write: [$where]}, tight: {extends: base}}"
    fleet.install(built(1, tight))
    fleet.install(built(2, "{other: {network: host}, " + tight[1:]))  # which nothing locked names
    for confinements, lists in (
        (tight.replace("none", "host"), "{where: ['${PROJECT}/**']}"),
        (tight, "{where: ['${PROJECT}/**', '/srv/**']}"),
    ):
        with pytest.raises(ConfigError, match=f"decides otherwise: {named}"):
            fleet.install(built(3, confinements, lists))


def test_locks_outlive_the_key_that_signed_them(fleet: Fleet) -> None:
    fleet.install(fleet.build(1))
    fleet.signer = Signer()
    fleet.write("bundle.yaml", f'bundle: acme\nsigners: ["{fleet.signer.fingerprint}"]\n')
    with pytest.raises(PolicyError, match="signature does not count here"):
        in_force(fleet)
    with pytest.raises(ConfigError, match="decides otherwise: no-deletes"):
        fleet.install(fleet.build(2, READS))
    fleet.install(fleet.build(2))


def test_one_that_can_no_longer_be_read_is_not_for_ever(fleet: Fleet) -> None:
    fleet.put(resigned(fleet.build(1), fleet.signer, files={"policy.yaml": "version: 2\n"}))
    with pytest.raises(PolicyError, match=r"policy.bundle/policy.yaml"):
        in_force(fleet)
    fleet.install(fleet.build(2))
    assert in_force(fleet) == ["acme@2"]


def test_one_at_a_time(fleet: Fleet) -> None:
    def at_once(step: str) -> None:
        with pytest.raises(ConfigError, match="another process"):
            fleet.install(fleet.build(8))

    bundles.install(fleet.build(7).text, "x", folder=fleet.folder, halt=at_once)
    assert in_force(fleet) == ["acme@7"]
    assert (fleet.folder / "policy.bundle.lock").stat().st_mode & 0o777 == 0o600  # nobody else can keep it


@pytest.mark.parametrize(("step", "wanted"), [("bundle", "acme@7"), ("mark", "acme@8")])
def test_killed_in_the_middle(fleet: Fleet, step: str, wanted: str) -> None:
    fleet.install(fleet.build(7))
    new = fleet.build(8)
    if (child := os.fork()) == 0:
        bundles.install(
            new.text,
            "x",
            folder=fleet.folder,
            halt=lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == step else None,
        )
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert in_force(fleet) == [wanted]
    fleet.write("policy.bundle.new", new.text[:50])  # of one that was killed while it wrote
    assert in_force(fleet) == [wanted]
    fleet.install(new)
    assert (in_force(fleet), machine_bundle.last(fleet.folder).version) == (["acme@8"], 8)  # type: ignore[union-attr]
    assert not (fleet.folder / "policy.bundle.new").exists()


def test_a_machine_that_takes_none_is_told_what_to_write(tmp_path: Path, own_user: Path) -> None:
    with pytest.raises(ConfigError, match=r"bundle.yaml: is missing. Root writes it"):
        bundles.install(b"", "x", folder=tmp_path)


def test_status(fleet: Fleet) -> None:
    assert next(row.problem for row in bundles.status(fleet.project, machine=fleet.folder)).endswith("bundle install")
    made = fleet.install(fleet.build(7))
    (row,) = bundles.status(fleet.project, machine=fleet.folder)
    assert (row.layer, row.policy, row.version, row.sha256) == ("machine", "acme", 7, made.digest)
    assert (row.signer, row.expires, row.source, row.problem) == (
        fleet.signer.fingerprint,
        "2999-12-31",
        "acme.bundle",
        "",
    )
    assert row.fetched is not None
    assert row.fetched[:2] == "20"
    folder = fleet.project / ".humanlayer"
    folder.mkdir()
    (folder / "policy.yaml").write_text(policy_text(READS, name="theirs"))
    assert [(each.layer, bool(each.problem)) for each in bundles.status(fleet.project, machine=fleet.folder)] == [
        ("machine", False),
        ("project", True),
    ]

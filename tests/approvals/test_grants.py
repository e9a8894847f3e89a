"""What a grant covers, in the words of a real policy: no more than who approved it can have meant."""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.approvals.grants import (
    HOUR_MS,
    Grant,
    GrantUse,
    Pattern,
    Scope,
    covered_before,
    exact_action,
    limits_of,
    offers,
    read_scope,
    why_never,
)
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.policy.decision import Ask, Limits, PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from tests.support.granting import asked, covering, director

# What a later command may differ in

COVERED = [
    ("cat /srv/data/x", "cat /srv/data/y"),
    ("cat /srv/data/x", "grep -rn word /srv/data"),
    ("cat /srv/data/x", "cp /srv/data/y ."),
    ("cat /srv/data/x", "ls ."),  # needs nothing
    ("cat /opt/tool/lib/a/b/c", "cat /opt/tool/lib/z"),
    ("ls -R /srv/data/x", "tree /srv/data/x/y"),
    ("cp a /opt/tool/b", "cp c /opt/tool/d/e"),
    ("cp a /opt/tool/", "cp c /opt/tool/"),
    ("cp a /opt/tool/b", "cp c /opt/tool/"),
    ("cat /srv/data/*.py", "cat /srv/data/x/*.c /srv/data/y"),
    ("gh pr list", "gh issue view 3"),
    ("git -C /srv/data/x log", "git -C /srv/data/x status"),
    ("echo x > /opt/tool/b", "echo y > /opt/tool/c"),
    ("chmod 644 /opt/tool/a", "chmod 644 /opt/tool/b"),
    ("curl https://example.org/a", "curl -s https://example.org/b/c"),
    ("curl https://example.org/a", "curl -sS -o page https://example.org/b"),
    ("curl -sSL https://example.org/a", "curl -fsL https://example.org/b"),
    ("curl https://example.org/a", "cd src && timeout 9 curl -s https://example.org/b | grep word"),
    ("git fetch origin", "git fetch -q origin"),
    ("git clone https://example.org/a", "git clone https://example.org/b"),
    ("pip install requests", "pip install -q 'flask[async]>=2,<3'"),
    ("npm install left-pad", "npm install @types/node@20.1"),
    ("go get example.org/a/b", "go get example.com/c@v1.2.3"),
    ("kubectl get pods", "kubectl get services"),
    ("cat /srv/data/x; curl https://example.org/a", "curl https://example.org/b"),
    # What is read by a pattern lies below its first part.
    ("cat /srv/data/x", "cat /srv/data/*.md"),
    ("cat /srv/data/*.md", "cat /srv/data/x"),
    ("cat /srv/data/x", "grep -rn --include='*.ts' word /srv/data"),
    ("ls /srv/data/x.png", "ls -la /srv/data/*.png"),
    ("cat /srv/data/x", "git -C /srv/data log --oneline"),
    # To name what may be read is less, by whichever rule it is asked about.
    ("cat /srv/data/x", "ls -la /srv/data/y"),
    ("cat /srv/data/x", "find /srv/data -name '*.md' | sort"),
    # To read from a service is to read from the same account.
    ("aws s3 ls", "aws cloudformation list-stacks --region us-east-1 --output json"),
    ("kubectl get pods", "kubectl describe pod a"),
    ("mv a.png /srv/images/", "mv b.png /srv/images/c.png"),
    ("pkill -f server.js", "pkill -9 -f server.js && make"),
    ("ping example.org", "timeout 3 ping example.org"),
]


@pytest.mark.parametrize(("before", "later"), COVERED)
def test_covered(before: str, later: str) -> None:
    request = asked(later)
    assert covering(asked(before), request) - {"action"} or request.decision.verdict is Verdict.ALLOW


UNCOVERED = {
    "elsewhere": [
        ("cat /srv/data/x", "cat /srv/other"),
        ("cat /srv/data/x", "cat /srv/data/../other"),
        ("cat /srv/data/x", "cat /srv/data/x /srv/other"),
        ("cat /srv/data/x", "cat /srv/database"),
        ("cat /opt/tool/lib/x", "ls -R /opt/tool"),
        ("cp a /opt/tool/b", "cp a /opt/c"),
        ("cat /etc/hosts", "cat /etc/fstab"),
        ("cat /home/bob/x", "cat /home/bob/y"),
        ("cat /srv/home/bob/x", "cat /srv/home/bob/y"),
        ("cat /root/x", "cat /root/y"),
    ],
    "the directory itself": [
        ("cp a /opt/tool/b", "cp -r a /opt/tool"),
        ("chmod 644 /opt/tool/a", "chmod 644 /opt/tool"),
        ("chmod -R 644 /opt/tool/a", "chmod -R 644 /opt/tool"),
        ("chmod -R 644 /opt/tool/a", "chmod -R 644 /opt/tool/"),
        ("chmod -R 644 /opt/tool/", "chmod -R 644 /opt/tool/a"),
    ],
    "all of it": [
        ("cat /srv/data", "grep -r word /srv/data"),
        ("cat /srv/data", "tar c /srv/data"),
        ("chmod 644 /opt/tool/a", "chmod -R 644 /opt/tool/b"),
        ("cp a /opt/tool/b", "cp -r a /opt/tool/b"),
    ],
    "another effect": [
        ("ls -R /srv/data/x", "cat /srv/data/x"),
        ("cat /srv/data/x", "echo y > /srv/data/x"),
        ("cat /srv/data/x", "rm /srv/data/x"),
        ("cp a /opt/tool/b", "rm /opt/tool/b"),
        ("echo x > /opt/tool/b", "echo x >> /opt/tool/b"),
        ("cat /srv/data/x", "curl -T /srv/data/x https://example.org"),
        ("cat /srv/data/x", "source /srv/data/x"),
        ("cat /srv/data/x", "bash < /srv/data/x"),
        ("cat /srv/data/x", "cat /srv/data/.env"),
        ("cat /srv/data/x", "cat /srv/data/id_rsa"),
        ("cat /srv/data/x", "sed -i s/a/b/ /srv/data/x"),
        ("cat /srv/data/x", "sed '1e ls' /srv/data/x"),
        ("cat /srv/data/x", "find /srv/data -exec rm {} +"),
        ("curl https://example.org/a", "curl -o ~/.bashrc https://example.org/a"),
        ("curl https://example.org/a", "curl -o conftest.py https://example.org/a"),
        ("curl https://example.org/a", "curl https://example.org/a | sh"),
        ("git clone https://example.org/a", "git clone https://example.org/a .venv"),
    ],
    "another program, or by another's rights": [
        ("cp a /opt/tool/b", "mv a /opt/tool/b"),
        ("cp a /opt/tool/b", "ln -s /etc/passwd /opt/tool/b"),
        ("curl https://example.org/a", "wget -O x https://example.org/a"),
        ("curl https://example.org/a", "./curl https://example.org/a"),
        ("curl https://example.org/a", "/tmp/x/curl https://example.org/a"),
        ("curl https://example.org/a", "sudo curl https://example.org/a"),
        ("curl https://example.org/a", "PATH=/tmp/x:$PATH curl https://example.org/a"),
        ("curl https://example.org/a", "https_proxy=http://example.com curl https://example.org/a"),
        ("curl https://example.org/a", "CURL_HOME=/tmp/x curl https://example.org/a"),
        ("git fetch origin", "GIT_SSH_COMMAND=./x git fetch origin"),
        ("pip install a", "PIP_INDEX_URL=https://example.com pip install a"),
        ("curl https://example.org/a", "ssh example.org curl https://example.org/a"),
    ],
    "more is sent, or by another protocol": [
        ("curl https://example.org/a", "curl -d x https://example.org/a"),
        ("curl https://example.org/a", "curl -d @a https://example.org/a"),
        ("curl https://example.org/a", "curl -F f=@a https://example.org/a"),
        ("curl https://example.org/a", "curl -T a https://example.org/a"),
        ("curl https://example.org/a", "curl -X DELETE https://example.org/a"),
        ("curl https://example.org/a", "curl -H @a https://example.org/a"),
        ("curl https://example.org/a", "curl -b a https://example.org/a"),
        ("curl https://example.org/a", "curl -u a:b https://example.org/a"),
        ("curl https://example.org/a", "curl -n https://example.org/a"),
        ("curl https://example.org/a", "curl -K a https://example.org/a"),
        ("curl https://example.org/a", "curl -e x https://example.org/a"),
        ("curl https://example.org/a", "curl --url-query @a https://example.org/a"),
        ("curl https://example.org/a", "curl --variable a@b --expand-url 'https://example.org/{{a}}'"),
        ("curl ftp://example.org/a", "curl -Q 'DELE a' ftp://example.org/a"),
        ("curl https://example.org/a", "curl telnet://example.org:443"),
        ("curl https://example.org/a", "curl gopher://example.org:443/_x"),
        ("curl https://example.org/a", "curl dict://example.org:443/x"),
        ("curl https://example.org/a", 'curl "https://example.org/?$(cat a)"'),
        ("curl https://example.org/a", "cat a | xargs curl https://example.org/a"),
        ("curl https://example.org/a", "wget --post-file=a https://example.org/a"),
    ],
    "another host": [
        ("curl https://example.org/a", "curl https://example.com/a"),
        ("curl https://example.org/a", "curl https://example.org/a https://example.com/a"),
        ("curl https://example.org/a", "curl https://example.org/a --next https://example.com/a"),
        ("curl https://example.org/a", "curl https://example.org:8443/a"),
        ("curl https://example.org/a", "curl https://example.org@example.com/a"),
        ("curl https://example.org/a", "curl -x example.com https://example.org/a"),
        ("curl https://example.org/a", "curl --connect-to ::example.com https://example.org/a"),
        ("curl https://example.org/a", "curl --resolve example.org:443:192.0.2.1 https://example.org/a"),
        ("curl https://example.org/a", "curl -L https://example.org/a"),
        ("curl https://example.org/a", "curl 'https://{example.org,example.com}/a'"),
        ("curl https://example.org/a", "curl https://example.org/a; curl https://example.com/a"),
        ("curl https://example.org/a", 'curl "$URL"'),
        ("git fetch origin", "git fetch other"),
        ("git fetch origin", "git fetch"),
        ("git fetch origin", "git -C sub fetch origin"),
        ("git fetch origin", "cd sub && git fetch origin"),
        ("git clone https://example.org/a", "git clone --recurse-submodules https://example.org/a"),
        (
            "git clone --recurse-submodules https://example.org/a",
            "git clone --recurse-submodules https://example.org/b",
        ),
        ("git clone https://example.org/a", "git clone --upload-pack=x https://example.org/a"),
        ("git clone https://example.org/a", "git -c http.proxy=x clone https://example.org/a"),
        ("git clone https://example.org/a", "git clone ext::sh"),
        ("kubectl get pods", "kubectl --context prod get pods"),
        ("kubectl get pods", "kubectl --server=https://example.com get pods"),
        ("aws s3 ls", "aws s3 ls --endpoint-url https://example.com"),
        ("gh api repos/o/r", "gh api repos/o/r --hostname example.com"),
    ],
    "more than to name": [
        ("ls /srv/data/x", "cat /srv/data/x"),
        ("cat /srv/data/x", "find /srv/data -name x -delete"),
        ("cat /srv/data/x", "find /srv -name x"),
    ],
    "other places of many": [
        ("cat /srv/data/x", "cat /srv/data2/*.md"),
        ("cat /srv/data/x", "cat /srv/*/x"),
        ("cat /srv/data/x", "cat /srv/data/*/../../other/x"),
        ("cat /srv/data/x.md", "cat /srv/other/*.md"),
        ("cat /srv/data/x", "KUBECONFIG=/srv/data/config kubectl get pods"),
        ("aws s3 ls", "aws --profile prod s3 ls"),
        ("aws s3 ls", "aws lambda get-function --function-name f"),
        ("kubectl get pods", "kubectl --context prod get pods"),
        ("kubectl get pods", "kubectl get secrets -o yaml"),
        ("gh pr view 1", "gh pr view 1 -R o/r"),
    ],
    "what is hidden": [
        ("cp a /opt/tool/b", "cp a /opt/tool/.profile"),
        ("echo x > /opt/tool/b", "echo x > /opt/tool/.git/hooks/pre-commit"),
    ],
    "other processes": [
        ("pkill -f server.js", "pkill -f node"),
        ("pkill server", "pkill -v server"),
        ("pkill server", "pkill -u root"),
        ("kill 123", "kill 124"),
        ("killall node", "killall -u alice"),
    ],
    "other statements": [
        ("sqlite3 /opt/tool/a.db 'select 1'", "sqlite3 /opt/tool/a.db '.shell id'"),
        ("sqlite3 /opt/tool/a.db 'select 1'", "sqlite3 /opt/tool/a.db \"attach '/opt/other/b.db' as b\""),
        ("sqlite3 /opt/tool/a.db 'select 1'", "sqlite3 -init /opt/x.sql /opt/tool/a.db 'select 1'"),
    ],
    "other words": [
        ("pip install --dry-run a", "pip install b"),
        ("npm install --ignore-scripts a", "npm install b"),
        ("apt-get install -s a", "apt-get install b"),
        ("pip install a", "pip install --pre b"),
        ("pip install a", "pip uninstall a"),
        ("chmod 644 /opt/tool/a", "chmod 755 /opt/tool/a"),
        ("chown ann /opt/tool/a", "chown bob /opt/tool/a"),
        ("cp a /opt/tool/b", "cp --remove-destination a /opt/tool/b"),
        ("kubectl get pods", "kubectl delete pods --all"),
        ("gh api repos/o/r", "gh api -X DELETE repos/o/r"),
        ("tee /opt/tool/a < x", "tee -a /opt/tool/a < x"),
    ],
    "no package of the registry": [
        ("pip install a", "pip install ./a"),
        ("pip install a", "pip install -e ."),
        ("pip install a", "pip install a.whl"),
        ("pip install a", "pip install git+https://example.com/a"),
        ("pip install a", "pip install 'a @ https://example.com/a'"),
        ("pip install a", "pip install -r a.txt"),
        ("pip install a", "pip install --index-url https://example.com b"),
        ("npm install a", "npm install o/r"),
        ("npm install a", "npm install a@npm:b"),
        ("npm install a", "npm install a@https://example.com/a"),
        ("npm install a", "npm install a.tgz"),
        ("npm install a", "npm install ../a"),
        ("npm install a", "npm install"),
        ("npm install a", "cd sub && npm install a"),
        ("go get example.org/a", "go get ./a"),
        ("npx a", "npx b"),
    ],
    "only known of that very command": [
        ("docker run alpine ls", "docker run alpine cat x"),
        ("kill 12", "kill 13"),
        ("psql -c 'select 1'", "psql -c 'select 2'"),
        ("kubectl apply -f a", "kubectl apply -f b"),
        ("git push origin main", "git push origin x"),
        ("npm publish", "npm publish --tag x"),
        ("cargo publish", "cargo publish --dry-run"),
        ("mvn deploy", "mvn deploy -DaltDeploymentRepository=x"),
        ("python3 -c \"open('/opt/tool/a', 'w')\"", "python3 -c \"open('/opt/tool/b', 'w')\""),
        ("rm /opt/tool/a", "rm /opt/tool/b"),
        ("echo x >> ~/.bashrc", "echo y >> ~/.bashrc"),
    ],
    "in doubt": [
        ("cat /srv/data/x", 'cat /srv/data/x "$F"'),
        ("cat /srv/data/x", "cat $(cat list)"),
        ("cat /srv/data/x", "cat /srv/data/x; frobnicate"),
        ("cat /srv/data/x", "xargs cat < list"),
        ("cat /srv/data/x", 'cd "$D"; cat x'),
        ("cat /srv/data/x", "cat /srv/data/x; ./run.sh"),
        ("cat /srv/data/x", "cat /srv/data/x ) ("),
        ("cp a /opt/tool/b", 'cp "$OPTION" a /opt/tool/b'),
    ],
}


@pytest.mark.sample(48)
@pytest.mark.parametrize(
    ("before", "later"), [pytest.param(*pair, id=f"{kind}-{pair[1]}") for kind in UNCOVERED for pair in UNCOVERED[kind]]
)
def test_uncovered(before: str, later: str) -> None:
    request = asked(later)
    assert request.decision.verdict is Verdict.ASK, "so it is asked about, or this says nothing"
    assert covering(asked(before), request) <= ({"action"} if before == later else set())


def test_the_same_command_is_covered_where_anything_is() -> None:
    for before in {pair[0] for pairs in UNCOVERED.values() for pair in pairs}:
        request = asked(before)
        names = {offer.name for offer in offers(request)}
        assert covering(request, asked(before)) == names, before
        assert ("action" in names) == (not why_never(request.decision)), before


# Links


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder at the top of the disk, since reads are granted for all below their third folder."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def disk(place: Path) -> Callable[[str], ApprovalRequest]:
    """A project on a disk, and places beside it."""
    for name in ("app", "data", "other"):
        (place / name).mkdir()
    for name in ("data/x", "data/y", "other/z", "app/notes"):
        (place / name).write_text("text\n")
    (place / "policy.yaml").write_text(
        "version: 1\npolicy: test\ndefaults: {unmatched: allow, maybe: ask}\nrules:\n  - id: outside\n    decision: ask\n"
        '    when: {effect: [read, write, delete], paths: {none_within: ["${PROJECT}/**"]}}\n'
    )
    environ = {"HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}
    judge = Director.load(str(place / "policy.yaml"), project=str(place / "app"), environ=environ)
    return lambda command: asked(command.replace("SRV", str(place)), judge)


def test_a_link_that_leads_out_is_not_below(disk: Callable[[str], ApprovalRequest], place: Path) -> None:
    before = disk("cat SRV/data/x")
    assert covering(before, disk("cat SRV/data/y")) == {"run", "hour"}
    (place / "data/link").symlink_to(place / "other")
    assert not covering(before, disk("cat SRV/data/link/z"))
    (place / "data/file").symlink_to(place / "other/z")
    assert not covering(before, disk("cat SRV/data/file"))
    assert not covering(disk("cp notes SRV/data/x"), disk("cp notes SRV/data/file"))


def test_a_link_that_leads_in_is_named_elsewhere(disk: Callable[[str], ApprovalRequest], place: Path) -> None:
    (place / "other/link").symlink_to(place / "data/x")
    assert not covering(disk("cat SRV/data/x"), disk("cat SRV/other/link"))
    assert {offer.name for offer in offers(disk("cat SRV/other/link"))} == {"action"}, "not certain enough to vary"


def test_the_same_text_is_another_action_once_a_link_leads_elsewhere(
    disk: Callable[[str], ApprovalRequest], place: Path
) -> None:
    out = place / "app/out"
    out.symlink_to(place / "data/x")
    before = disk("cp notes out")
    assert covering(before, disk("cp notes out")) == {"action"}
    out.unlink()
    out.symlink_to(place / "other/z")
    later = disk("cp notes out")
    assert later.digest == before.digest
    assert not covering(before, later)


def test_the_same_text_with_a_wildcard_is_another_action_once_its_folder_is_another(
    disk: Callable[[str], ApprovalRequest], place: Path
) -> None:
    (place / "app/out").symlink_to(place / "data")
    before = disk("rm -f out/*")
    assert covering(before, disk("rm -f out/*")) == {"action"}
    (place / "app/out").unlink()
    (place / "app/out").symlink_to(place / "other")
    assert not covering(before, disk("rm -f out/*"))


# What is never covered, and bounds


def decided(*asks: Ask, **fields: object) -> PolicyDecision:
    return PolicyDecision(Verdict.ASK, "asks", "test", "0" * 64, asks=asks, **fields)  # type: ignore[arg-type]


def request_of(decision: PolicyDecision) -> ApprovalRequest:
    return replace(asked("cat /srv/data/x"), decision=decision)


READ = Ask("r", "cat", "read", "operand", "/srv/data/x", places=("/srv/data/x",))
HOST = Ask("n", "curl", "network", "operand", "example.org", "443", verb=("",))


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (decided(), "it is not known what of it must be approved"),
        (decided(READ, severity="critical"), "it is of critical severity"),
        (decided(replace(READ, severity="critical")), "it is of critical severity"),
        (decided(READ, replace(HOST, severity="unheard of")), "it is of critical severity"),
        (decided(READ, replace(HOST, limits=Limits(()))), "rule n lets no approval be remembered"),
        (decided(READ, Ask("", "", "parse", limits=Limits(()))), "it is not fully understood"),
        (decided(replace(READ, unread=True)), "it runs code that nobody has read, and nothing holds it"),
        (decided(READ), ""),
    ],
)
def test_never(decision: PolicyDecision, why: str) -> None:
    assert why_never(decision) == why
    assert bool(offers(request_of(decision))) == (not why)


def test_high_severity_is_this_action_for_an_hour_and_ten_times() -> None:
    for decision in (decided(READ, severity="high"), decided(replace(READ, severity="high"), HOST)):
        (offer,) = offers(request_of(decision))
        assert (offer.name, offer.age, offer.scope.uses) == ("action", HOUR_MS, 10)
        assert limits_of(decision) == Limits(("action",), HOUR_MS, 10)


def test_high_severity_is_no_business_of_patterns_nor_of_wide_scopes() -> None:
    offer = offers(request_of(decided(READ)))[1]
    assert offer.scope.covers(READ, "")
    assert not offer.scope.covers(replace(READ, severity="high"), "")
    exact = Scope((), "a" * 64, "/p", "", "os:1", "0" * 64, "", 1, 50)
    assert exact.covers(READ, "a" * 64)
    assert not exact.covers(replace(READ, severity="high"), "a" * 64), "50 uses are more than it may have"
    assert replace(exact, uses=10).covers(replace(READ, severity="high"), "a" * 64)


@pytest.mark.parametrize(
    ("scopes", "names"),
    [
        (("action", "operand", "directory", "any"), ["action", "run", "hour"]),
        (("action",), ["action"]),
        (("operand",), ["run", "hour"]),
        (("action", "directory"), ["action"]),
        (("any",), []),
        (("operand", "directory"), ["run", "hour"]),
    ],
)
def test_the_rule_says_which_scopes_there_may_be(scopes: tuple[str, ...], names: list[str]) -> None:
    limited = (replace(each, limits=Limits(scopes, 60_000, 3)) for each in (READ, HOST))
    found = offers(request_of(decided(*limited)))
    assert [offer.name for offer in found] == names
    assert all((offer.age, offer.scope.uses) == (60_000, 3) for offer in found)


def test_without_a_directory_it_is_this_file() -> None:
    limits = Limits(("action", "operand"))
    (offer,) = [o for o in offers(request_of(decided(replace(READ, limits=limits)))) if o.name == "run"]
    assert offer.words == "reading /srv/data/x, in this run"
    assert not offer.scope.covers(replace(READ, operand="/srv/data/y", places=("/srv/data/y",)), "")


def test_a_scope_wider_than_the_rule_now_allows_covers_nothing() -> None:
    wide = offers(request_of(decided(READ)))[1].scope
    assert wide.covers(READ, "")
    assert not wide.covers(replace(READ, limits=Limits(max_uses=3)), "")
    assert not wide.covers(replace(READ, limits=Limits(("action", "operand"))), "")


def test_offers_are_three_in_words_from_narrow_to_wide() -> None:
    assert [offer.words for offer in offers(asked("pip install requests"))] == [
        "this exact command, in this run",
        "pip install of requests, in this run",
        "pip install of any package, in this run",
    ]
    assert [offer.words for offer in offers(asked("curl https://example.org/a"))] == [
        "this exact command, in this run",
        "curl contacting example.org:443, in this run",
        "curl contacting example.org:443, for 1 hour",
    ]
    assert [offer.words for offer in offers(asked("npm install"))][1:] == [
        "npm install, in this run",
        "npm install, for 1 hour",
    ]
    many = asked("cat /srv/a/x /srv/b/x /srv/c/x /srv/d/x")
    assert offers(many)[1].words == (
        "reading anything below /srv/a and reading anything below /srv/b and 2 more, in this run"
    )


def test_what_runs_unconfined_gets_patterns_for_what_is_certain_only() -> None:
    known = decided(READ, confinable=True)
    assert [offer.name for offer in offers(request_of(known))] == ["action", "run", "hour"]
    doubtful = decided(READ, replace(HOST, operand=None), confinable=True)
    assert [offer.name for offer in offers(request_of(doubtful))] == ["action"]


def test_a_name_that_is_no_unicode_is_not_offered() -> None:
    odd = replace(READ, operand="/srv/data\udcff/x", places=("/srv/data\udcff/x",))
    assert [offer.name for offer in offers(request_of(decided(odd)))] == ["action"]


def test_what_is_shown_can_do_nothing_to_the_terminal() -> None:
    odd = replace(READ, operand="/srv/a\nb/c\x1b[2J/x", places=("/srv/a\nb/c\x1b[2J/x",))
    words = offers(request_of(decided(odd)))[1].words
    assert "\n" not in words
    assert "\x1b" not in words


# Scopes as texts

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
PATTERNS = st.builds(
    Pattern,
    ANY_TEXT,
    ANY_TEXT,
    ANY_TEXT,
    st.sampled_from(["exact", "below", "any"]),
    *[ANY_TEXT] * 3,
    *[st.lists(ANY_TEXT, max_size=2).map(tuple)] * 2,
)
SCOPES = st.builds(
    Scope,
    st.lists(PATTERNS, max_size=2).map(tuple),
    *[ANY_TEXT] * 6,
    *[st.integers(1, 2**52)] * 3,
)


@given(SCOPES)
def test_a_scope_is_read_as_it_was_written(scope: Scope) -> None:
    assert read_scope(scope.text()) == scope


def scope() -> Scope:
    return replace(offers(asked("cat /srv/data/x"))[1].scope, until=HOUR_MS)


def changed(**fields: object) -> str:
    return json.dumps(json.loads(scope().text()) | fields, sort_keys=True, separators=(",", ":"))


def test_the_text_of_a_scope_is_what_these_tests_change() -> None:
    assert changed() == scope().text()


PATTERN = json.loads(scope().text())["patterns"][0]


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "[]", "null", "1", "{}", '"x"', "[" * 100_000,
        scope().text() + " ", scope().text().replace(",", ", ", 1), scope().text().replace('"uses":50', '"uses":50,"uses":50'),
        changed(more=1), changed(uses="50"), changed(uses=True), changed(uses=50.0), changed(uses=0), changed(uses=-1),
        changed(until=None), changed(until=0), changed(approvals=0), changed(project=None), changed(run=1),
        changed(patterns=None), changed(patterns=[1]), changed(patterns=[[]]), changed(patterns={}), changed(patterns=["x"]),
        changed(patterns=[{}]), changed(patterns=[PATTERN | {"more": ""}]), changed(patterns=[PATTERN | {"operand": None}]),
        changed(patterns=[PATTERN | {"operands": "all"}]), changed(patterns=[PATTERN | {"flags": [1]}]),
        changed(patterns=[PATTERN | {"flags": "x"}]), changed(patterns=[PATTERN | {"verb": None}]),
        changed(patterns=[{name: value for name, value in PATTERN.items() if name != "role"}]),
    ],
)  # fmt: skip
def test_what_is_no_scope_is_none(text: str) -> None:
    assert read_scope(text) is None


def test_a_pattern_of_nobody_covers_nothing() -> None:
    """As another version might sign it: what is too wide for this one."""
    package = Ask("p", "pip", "package", "operand", "flask", verb=("install",))
    assert Pattern("p", "package", "operand", "any", program="pip", verb=("install",)).covers(package)
    assert not Pattern("p", "package", "operand", "any").covers(package), "by any program"
    assert not Pattern("r", "read", "operand", "any").covers(READ), "any file"
    assert not Pattern("n", "network", "operand", "any", program="curl", verb=("",)).covers(HOST), "any host"
    assert not Pattern("n", "network", "operand", "below", "e", program="curl", verb=("",)).covers(HOST)
    unread = replace(READ, unread=True)
    assert not Pattern("r", "read", "operand", "exact", "/srv/data/x").covers(unread)
    code = replace(HOST, code=True)
    assert not Pattern("n", "network", "operand", "exact", "example.org", "443", "curl", ("",)).covers(code)
    execute = Ask("e", "bash", "execute", "script", "/srv/x", verb=("",))
    assert not Pattern("e", "execute", "script", "exact", "/srv/x", "", "bash", ("",)).covers(execute)


# Where a scope holds


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"now": HOUR_MS}, "it has expired"),
        ({"policy": "1" * 64}, "the policy has changed since"),
        ({"run": "run-2"}, "it was for another run"),
        ({"project": "/home/ann/other"}, "it was for another project"),
        ({"requester": "os:1000:bob"}, "it was for another agent"),
        ({"agent": "other"}, "it was for another agent"),
        ({"agent": ""}, "it was for another agent"),
    ],
)
def test_where_it_holds(fields: dict[str, str | int], why: str) -> None:
    request, mine = asked("cat /srv/data/x"), scope()
    said = {"requester": request.requester, "policy": mine.policy, "now": 0} | fields
    action = replace(
        request.action,
        run_id=str(said.get("run", "run-1")),
        project=str(said.get("project", request.action.project)),
        agent=str(said.get("agent", "agent")),
    )
    assert mine.why_not(action, str(said["requester"]), str(said["policy"]), int(said["now"])) == why


def test_the_hour_is_for_any_run_of_the_agent() -> None:
    request = asked("cat /srv/data/x")
    (hour,) = [offer.scope for offer in offers(request) if offer.name == "hour"]
    other = replace(request.action, run_id="run-2")
    assert replace(hour, until=1).why_not(other, request.requester, hour.policy, 0) == ""


# What it would have let through


def test_what_it_would_have_let_through() -> None:
    earlier = [asked(command) for command in ("cat /srv/data/y", "cat /srv/other", "rm /srv/data/x", "sudo ls")]
    elsewhere = replace(earlier[0], action=replace(earlier[0].action, project="/srv/other"))
    run = offers(asked("cat /srv/data/x"))[1].scope
    assert covered_before(run, [*earlier, elsewhere]) == earlier[:1]
    exact = offers(asked("cat /srv/data/y"))[0].scope
    assert covered_before(exact, [*earlier, elsewhere]) == earlier[:1]


def test_an_exact_action_is_its_digest_with_what_is_asked() -> None:
    one, two = decided(READ), decided(READ, HOST)
    assert exact_action(one, "a" * 64) == exact_action(replace(one, reason="other words"), "a" * 64)
    assert len({exact_action(one, "a" * 64), exact_action(two, "a" * 64), exact_action(one, "b" * 64)}) == 3


# In words


def test_a_use_in_words() -> None:
    assert str(GrantUse("1416" + "0" * 28, ("alice",), 12, 50)) == "grant 1416 by alice (12 of 50)"
    assert str(GrantUse("1416" + "0" * 28, ("alice", "bob"), 1, 1)) == "grant 1416 by alice and bob (1 of 1)"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "active"),
        ({"revoked": 5, "revoked_by": "os:1"}, "revoked"),
        ({"until": 10}, "expired"),
        ({"uses": 3}, "used up"),
        ({"uses": 3, "until": 10, "revoked": 5}, "revoked"),
    ],
)
def test_the_state_of_a_grant(fields: dict[str, int], state: str) -> None:
    grant = Grant("a" * 32, asked("cat /srv/data/x"), 0, 20, 0, 3, None, "", ())
    assert replace(grant, **fields).state(10) == state  # type: ignore[arg-type]


def test_the_shipped_policies_ask_in_a_way_that_can_be_granted() -> None:
    assert director("strict").evaluate(asked("cat /srv/data/x", director("strict")).action).verdict is Verdict.ASK
    assert offers(asked("cat /srv/data/x", director("strict")))

"""The readers for arguments that options and slots can't describe."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.program import Program
from humanlayer_agent.shell.programs.special.awk import NotUnderstood, program_effects

HERE = "/work"


def look(command: str) -> Program:
    return analyse(command, cwd=HERE, environ={"HOME": "/home/user"})


def effects(command: str) -> set[str]:
    """What a command does, as "kind operand" with paths relative to the working directory; "?" where unknown."""
    out = set()
    for each in (e for c in look(command).commands for e in c.effects):
        operand = each.pattern or each.operand or "?"
        out.add(f"{each.kind} {posixpath.relpath(operand, HERE) if operand.startswith(HERE) else operand}")
    return out


def resolved(command: str) -> bool:
    program = look(command)
    return program.status == "ok" and all(c.resolved for c in program.commands)


# ---- awk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "{print $1}",
        "NR > 5 {print}",
        "/a/ && $2 ~ /b|c>d/ {n++} END {print n/2}",
        "{print ($1 > 5)}",
        'BEGIN {FS = ":"; OFS = "|"} {print "a > b | c", $2}',
        "{sum += $1 / $2; print sum / NR}",
        "{print (a + b) / 2}",
        "# a > comment | sh\n{print}",
        '{x = "system(\\"ls\\")"; print x}',
        "{if ($1 >= 3) print; else print $2}",
        "/[a-z]>/ {print}",
        "{getline; print} END {getline x; print x}",
    ],
)
def test_awk_that_only_prints(program: str) -> None:
    assert program_effects(program) == []


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ('{print > "f"}', [("write", "f")]),
        ('{print $1, $2 >> "f"; print "x"}', [("append", "f")]),
        ('{printf("%s", $1) > "f"}', [("write", "f")]),
        ('{print $1,\n$2 > "f"}', [("write", "f")]),
        ("{print > $1}", [("write", None)]),
        ('{print > "f" ".txt"}', [("write", None)]),
        ('{print > ("f" $1)}', [("write", None)]),
        ('BEGIN {system("ls")}', [("execute", "ls")]),
        ("BEGIN {system(x)}", [("execute", None)]),
        ('BEGIN {system("ls" x)}', [("execute", None)]),
        ('BEGIN {print | "sh"}', [("execute", "sh")]),
        ("BEGIN {print | c}", [("execute", None)]),
        ('BEGIN {"ls" | getline x}', [("execute", "ls")]),
        ('BEGIN {x "ls" | getline}', [("execute", None)]),
        ('BEGIN {while (("ls" | getline l) > 0) print l}', [("execute", "ls")]),
        ('BEGIN {while ((getline l < "f") > 0) print l}', [("read", "f")]),
        ("{while ((getline l < $1) > 0) print l}", [("read", None)]),
        ('{getline a[1] < "f"}', [("read", "f")]),
        ('{print ENVIRON["A"]}', [("environment", "A")]),
        ("{for (k in ENVIRON) print k}", [("environment", "environment")]),
    ],
)
def test_awk_that_does_more(program: str, found: list[tuple[str, str | None]]) -> None:
    assert program_effects(program) == found


@pytest.mark.parametrize(
    "program",
    [
        '@load "x"; {print}',
        '@include "x"',
        "{@f()}",
        'BEGIN {ARGV[1] = "x"}',
        'BEGIN {print |& "sh"}',
        'BEGIN {print > "/inet/tcp/0/h/80"}',
        '{if ($1) /x/; print "/" > "f"}',
        "{x++ /a/ 2}",
        '{print "unterminated}',
        '{print > "\\163h"}',
        "{print `ls`}",
    ],
)
def test_awk_that_is_not_understood(program: str) -> None:
    with pytest.raises(NotUnderstood):
        program_effects(program)


@given(st.text(alphabet='{}()[]$/"\\ \n;|&><=~!,ab1#@printsystemgetline', max_size=40))
def test_awk_never_fails_otherwise(text: str) -> None:
    """Any text is understood or refused; one with a command or file in it never counts as print-only."""
    try:
        found = program_effects(text)
    except NotUnderstood:
        return
    assert all(kind in {"read", "write", "append", "execute", "environment"} for kind, _ in found)


@given(st.sampled_from(["", "a", "1", '"s"', "/r/", "$1", "(", ")", "{", "}", ";", "\n", ",", "&&", "||", "!", "?", ":"]).flatmap(
    lambda first: st.lists(st.sampled_from([first, "x", "print", "if (a)", "b / c", "/r/", '"q"', ";", "\n", "{", "}", ","]), max_size=6)
))  # fmt: skip
def test_awk_sees_a_command_after_anything(before: list[str]) -> None:
    """Whatever well-formed pieces stand before it, `system("rm x")` on a line of its own is seen or the text is refused."""
    text = " ".join(before) + '\nsystem("rm x")\n'
    try:
        found = program_effects(text)
    except NotUnderstood:
        return
    assert ("execute", "rm x") in found


# ---- archives -------------------------------------------------------------------------------------


def test_tar_old_and_new_spellings_are_the_same() -> None:
    spellings = [
        "tar czf a.tgz d",
        "tar -czf a.tgz d",
        "tar -c -z -f a.tgz d",
        "tar --create --gzip --file=a.tgz d",
        "tar cfz a.tgz d",
    ]
    assert {frozenset(effects(s)) for s in spellings} == {frozenset({"write a.tgz", "read d"})}


def test_tar_writes_below_the_directory_it_changes_to() -> None:
    assert effects("tar xf a.tar -C /srv") == {"read a.tar", "write /srv"}
    assert effects("tar x -C sub -f a.tar") == {"read a.tar", "write sub"}
    assert effects("tar xOf a.tar") == {"read a.tar"}
    assert "write ?" in effects("tar xf a.tar --transform s,x,/y,")


def test_tar_without_one_operation_is_not_resolved() -> None:
    assert not resolved("tar f a.tar")
    assert not resolved("tar ctf a.tar d")
    assert not resolved("tar xf a.tar $OPTIONS")


def test_compressors_name_what_they_make() -> None:
    assert effects("gzip -k a") == {"read a", "write a.gz"}
    assert effects("gunzip a.tgz") == {"read a.tgz", "delete a.tgz", "write a.tar"}
    assert effects("xz -dc a.xz") == {"read a.xz"}
    assert effects("zstd --rm a") == {"read a", "delete a", "write a.zst"}
    assert effects("gzip -r d") == {"read d", "delete d", "write d"}
    assert not resolved("gunzip a")


# ---- names ----------------------------------------------------------------------------------------


def test_a_symbolic_link_is_followed_from_where_it_stands() -> None:
    assert "read secret" in effects("ln -s ../../secret a/b/link")
    assert "write x" in effects("ln -s /srv/x")
    assert effects("ln -s /srv/a /srv/b d") == {"read /srv/a", "read /srv/b", "write d"}
    assert not resolved("ln -s ../x $D")


def test_split_and_rmdir() -> None:
    assert effects("split -b 1k a /srv/p") == {"read a", "write /srv/p*"}
    assert effects("csplit a /x/") == {"read a", "write xx*"}
    assert effects("rmdir -p a/b/c") == {"delete a/b/c", "delete a/b", "delete a"}


# ---- patch ----------------------------------------------------------------------------------------

DIFF = "--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def test_patch_reads_the_names_in_a_heredoc() -> None:
    assert effects(f"patch -p1 <<'EOF'\n{DIFF}EOF\n") == {"write src/x.py"}
    assert effects(f"git apply <<'EOF'\n{DIFF}EOF\n") == {"write src/x.py"}
    assert effects(f"patch -p0 <<'EOF'\n{DIFF}EOF\n") == {"write a/src/x.py", "write b/src/x.py"}


WRITTEN = f"cat > x.diff <<'EOF'\n{DIFF}EOF\n"


def test_patch_reads_the_names_in_a_file_that_was_written_before() -> None:
    assert effects(f"{WRITTEN}patch -p1 < x.diff") == {"write x.diff", "write src/x.py", "read x.diff"}
    assert resolved(f"{WRITTEN}patch -p1 < x.diff")


@pytest.mark.parametrize(
    "meanwhile", ["cp y.diff x.diff", "mv y.diff x.diff", "grep + y.diff >> x.diff", "rm -r x; tee x.diff < y"]
)
def test_patch_knows_nothing_of_a_file_that_may_have_changed_since(meanwhile: str) -> None:
    assert "write ." in effects(f"{WRITTEN}{meanwhile}\npatch -p1 < x.diff")


def test_patch_in_a_loop_may_be_given_what_a_later_round_writes() -> None:
    assert "write ." in effects(f"{WRITTEN}for i in 1 2; do patch -p1 < x.diff; echo '+++ /etc/x' > x.diff; done")


def test_patch_from_elsewhere_may_change_anything_below() -> None:
    for command in ("patch -p1 < x.diff", "git apply x.diff", f"patch -p1 <<'EOF'\n*** a\n--- b\n{DIFF}EOF\n"):
        assert "write ." in effects(command)
        assert not resolved(command)


# ---- wrappers and what is fed to shells -----------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "watch -n 1 rm -rf x",
        "watch 'rm -rf x'",
        "flock l -c 'rm -rf x'",
        "flock -x l rm -rf x",
        "script -qc 'rm -rf x' l",
        "su bob -c 'rm -rf x'",
        "su - bob --command='rm -rf x'",
        "runuser -u bob -- rm -rf x",
        "gosu bob rm -rf x",
        "entr -s 'rm -rf x'",
        "echo 'rm -rf x' | at now",
        "echo 'rm -rf x' | su bob",
        "ip netns exec n rm -rf x",
        "busybox rm -rf x",
        "chroot . rm -rf x",
        "prlimit --nofile=1 rm -rf x",
        "systemd-run --user rm -rf x",
        "ssh -oProxyCommand='rm -rf x' h",
        "scp -o 'ProxyCommand rm -rf x' a h:",
        "rsync -e 'rm -rf x' a h:b",
        "strace -o'|rm -rf x' ls",
        "tar cf a b --checkpoint-action='exec=rm -rf x'",
        "git -C . rebase -x 'rm -rf x'",
    ],
)
def test_the_command_below_a_wrapper_is_seen(command: str) -> None:
    assert "delete x" in effects(command)


@pytest.mark.parametrize(
    "command",
    [
        "watch $C",
        'su bob -c "$C"',
        "su bob",
        "parallel rm ::: a",
        "at -f s now",
        "ssh -F c h",
        "tclsh < s",
        "bash < s",
        "sftp -b s h",
    ],
)
def test_what_can_not_be_read_is_not_resolved(command: str) -> None:
    assert not resolved(command)


def test_variables_that_are_printed() -> None:
    for command in ("env", "env A=b", "printenv", "set", "export -p", "declare -p", "ps auxe", "jq -n env", "envsubst"):
        assert any(e.startswith("environment ") for e in effects(command)), command
    for command in ("env A=b ls", "set -e", "export A=b", "declare -f", "ps aux", "jq .env a"):
        assert not any(e.startswith("environment ") for e in effects(command)), command


# ---- the system -----------------------------------------------------------------------------------


def test_verbs_that_show_and_verbs_that_change() -> None:
    for command in (
        "systemctl status x",
        "service x status",
        "ip addr",
        "ip -4 route show",
        "date +%s",
        "mount",
        "sysctl -n a",
    ):
        assert effects(command) == set(), command
    for command in (
        "systemctl stop x",
        "service x stop",
        "ip addr add x dev y",
        "date 01010000",
        "mount a b",
        "sysctl a=1",
    ):
        assert any(e.startswith("system ") for e in effects(command)), command


def test_cloud_verbs() -> None:
    assert not any(e.startswith("system") for e in effects("aws ec2 describe-instances --region x"))
    for command in (
        "aws s3 rm s3://x",
        "gcloud compute instances delete x",
        "az group delete -n x",
        "gh repo delete x",
        "gh api x -f a=b",
        "aws secretsmanager get-secret-value --secret-id x",
    ):
        assert any(e.startswith("system ") for e in effects(command)), command
    assert "read a" in effects("aws lambda invoke --payload fileb://a out")


def test_compilers_and_make() -> None:
    assert effects("gcc -o out a.c") == {"read a.c", "write out"}
    assert effects("gcc a.c") == {"read a.c", "write a.out"}
    for command in (
        "gcc -fplugin=./x.so a.c",
        "gcc -Wl,-Map=x a.c",
        "gcc @x",
        "make CC='rm x;'",
        "make SHELL=./x",
        "make $T",
    ):
        assert not resolved(command), command
    assert "execute sub" in effects("make -C sub")

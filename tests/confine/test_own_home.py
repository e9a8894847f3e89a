"""The home folder of a confined command: it reads as the machine's does, and nothing that is made there gets out."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from tests.confine.attack_scene import NOBODY, readable_by_all

SETTINGS = b"registry=https://example.org/\n"


class Home:
    """A home folder with settings, tools and a project in it, and commands confined to that project."""

    def __init__(self, backend: Bubblewrap, base: Path, uid: int) -> None:
        self.base, self.path, self.outside = base, base / "home", base / "outside"
        self.project = self.path / "work/team/app"
        for each in (self.project / "src", self.path / ".tools/bin", self.path / ".config/app", self.outside):
            each.mkdir(parents=True)
        (base / "tmp").mkdir()
        for name, text in {".bashrc": "old\n", ".gitconfig": "[user]\n", ".npmrc": "secret\n", "notes": "x\n"}.items():
            (self.path / name).write_text(text)
        (self.path / ".tools/bin/tool").write_text("echo tool\n")
        self._backend = backend
        self._who = {} if uid == os.getuid() else {"user": uid, "group": uid, "extra_groups": []}
        for path in (base, *base.rglob("*")):
            os.chown(path, uid, -1)
        (base / "aside").mkdir(mode=0o711)  # it is ours, and each user has their own
        self.profile = Profile(
            "project",
            read=("/usr/**", "/bin", "/lib/**", "/lib64/**", f"{self.path}/.gitconfig", f"{self.path}/.tools/**"),
            write=(f"{self.project}/**",),
        )

    def run(self, command: str, home: str = "", **changes: tuple[str, ...]) -> str:
        """What a command prints, on both streams."""
        enclosure = Enclosure(
            self._backend,
            Confinement((replace(self.profile, **changes),)),  # type: ignore[arg-type]
            str(self.base / "tmp"),
            str(self.base / "aside"),
            settings={f"{self.path}/.npmrc": SETTINGS},
        )
        env = {b"PATH": b"/usr/bin:/bin", b"HOME": os.fsencode(home or str(self.path)), b"LC_ALL": b"C"}
        cwd, words = str(self.project), [b"bash", b"-c", os.fsencode(command)]
        with enclosure.opened(words, cwd=cwd, env=env) as (argv, descriptors):
            return subprocess.run(  # type: ignore[call-overload]
                argv, pass_fds=descriptors, env={}, cwd="/", stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self._who,
            ).stdout  # fmt: skip

    def state(self) -> dict[str, tuple[int, str]]:
        """What lies in the home folder and beside it, but for the project."""
        found = {}
        for path in sorted((*self.path.rglob("*"), *self.outside.rglob("*"))):
            if not path.is_relative_to(self.project):
                text = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
                found[str(path.relative_to(self.base))] = path.lstat().st_mode, text
        return found


@pytest.fixture(params=["ours", "nobody"])
def home(request: pytest.FixtureRequest, backend: Bubblewrap) -> Iterator[Home]:
    """Not in /tmp, which a confined command has of its own."""
    other = request.param == "nobody"
    if other and os.getuid() != 0:
        pytest.skip("allowed in CI: we are an ordinary user, so this is what the other one tests")
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-home-") as name:
        (base := Path(name)).chmod(0o755)
        (base / "program").mkdir()
        program = readable_by_all(backend, base / "program") if other else backend
        yield Home(program, base, NOBODY if other else os.getuid())


def test_tools_keep_their_state_there_and_it_is_gone_with_the_command(home: Home) -> None:
    before = home.state()
    made = "mkdir -p ~/.config/tool ~/.local/share/x && echo state > ~/.config/tool/kept && cat ~/.config/tool/kept"
    assert home.run(made) == "state\n"
    assert home.run("ls -A ~/.config ~/.local") == (
        "ls: cannot access '@/.config': No such file or directory\n"
        "ls: cannot access '@/.local': No such file or directory\n".replace("@", str(home.path))
    )
    assert home.state() == before


def test_it_reads_as_the_machines_does_as_far_as_it_may(home: Home) -> None:
    assert home.run("ls -A ~; cat ~/.gitconfig; bash ~/.tools/bin/tool; pwd") == (
        f".gitconfig\n.npmrc\n.tools\nwork\n[user]\ntool\n{home.project}\n"
    )


def test_settings_are_seen_as_they_are_given_and_can_not_be_changed(home: Home) -> None:
    assert home.run("cat ~/.npmrc; (echo x > ~/.npmrc) 2>/dev/null || mv ~/.npmrc ~/n 2>/dev/null || rm -f ~/.npmrc 2>/dev/null || echo held") == (
        SETTINGS.decode() + "held\n"
    )  # fmt: skip
    npmrc = f"{home.path}/.npmrc"
    assert home.run("cat ~/.npmrc", read=(*home.profile.read, npmrc)) == "secret\n"  # a human approved that
    assert "No such file" in home.run("cat ~/.npmrc", hide=(npmrc,))


def test_beside_the_project_nothing_is_made_that_would_be_gone(home: Home) -> None:
    said = home.run("mkdir ../other; echo x > ../../new; mv ../../../work ../../../w; echo x > ../app/made; cat made")
    assert said.count("Read-only file system") == 2
    assert "Device or resource busy" in said
    assert said.endswith("\nx\n")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "attack",
    [
        "echo evil >> ~/.bashrc", "echo evil > ~/.profile", "mkdir -p ~/.ssh && echo evil > ~/.ssh/authorized_keys",
        "git config --global core.pager evil", "mkdir -p ~/.config/git && echo evil > ~/.config/git/config",
        "echo evil > ~/.gitconfig", "mv ~/.gitconfig ~/g && echo evil > ~/.gitconfig", "rm -rf ~/.gitconfig ~/.tools",
        "ln -sf @OUT@ ~/.config && echo evil > ~/.config/planted", "ln -s @OUT@ ~/l && mkdir -p ~/l/new && echo evil > ~/l/x",
        "ln -s ../../oldroot@OUT@ ~/.config && echo evil > ~/.config/planted", "ln -s /proc/1/root@OUT@ ~/l && echo evil > ~/l/x",
        "mv ~/.tools ~/t && mkdir -p ~/.tools/bin && echo evil > ~/.tools/bin/tool", "mv ~/.tools/bin ~/b", "echo evil > ~/.tools/bin/tool",
        "mv ~ ~/../h && mkdir ~ && echo evil > ~/.bashrc", "umount ~; echo evil >> ~/.bashrc", "umount -l ~; echo evil >> ~/.bashrc",
        "mount -o remount,rw ~/work; echo evil > ~/work/new", "mount --bind / ~/m; echo evil > ~/m@OUT@/x", "mv ~/work ~/w; mkdir ~/work && echo evil > ~/work/new",
        "chmod -R 777 ~; chmod 777 ~/.tools ~/.gitconfig", "touch -d 2001-01-01 ~/.gitconfig ~/.tools/bin/tool", "ln ~/.gitconfig ~/hard; echo evil > ~/hard",
        "cat ~/notes ~/.bashrc > kept; ! grep . kept || exit; cat ~/../outside/* 2>/dev/null && echo evil > ~/../outside/x", "rm -rf ~/* ~/.[a-z]*",
    ],
)  # fmt: skip
def test_what_steers_other_programs_never_comes_out_of_it(home: Home, attack: str) -> None:
    """Nor is it there for the next command, which may have more than this one."""
    (home.outside / "canary").write_text("canary\n")
    listed = "find ~ -path ~/work -prune -o -type d -printf '%p %m\n' -o -printf '%p %m %s %T@ %l\n' | grep -v npmrc | sort; cat ~/.npmrc"
    before, fresh = home.state(), home.run(listed)
    home.run(attack.replace("@OUT@", str(home.outside)))
    assert home.state() == before
    assert home.run(listed) == fresh


@pytest.mark.sample(8)
@pytest.mark.parametrize("way", ["project", "readable", "of /tmp", "gone", "root", "relative", "system"])
def test_where_it_has_none_of_its_own(home: Home, way: str) -> None:
    """What can be read or written as a whole is as it is; and what is no home folder is none."""
    place, changes = str(home.path), {}
    if way == "project":
        place = str(home.project)
    elif way == "readable":
        changes = {"read": (*home.profile.read, f"{home.path}/**")}
    else:
        place = {"of /tmp": "/tmp", "gone": f"{home.base}/nobody", "root": "/", "relative": "src", "system": "/usr"}[
            way
        ]
    said = home.run("cd; ls -A . ; echo x > ~/made || echo held; cat ~/made", place, **changes)
    if way == "project":
        assert said == "src\nx\n"
    elif way == "readable":
        assert "notes" in said.split()
        assert "Read-only file system" in said
    elif way == "of /tmp":
        assert said == "x\n"
    else:
        assert "held" in said

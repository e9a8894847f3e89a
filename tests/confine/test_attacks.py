"""A program of its own that tries everything: none of it gets out, as whom we are and as an ordinary user."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

import pytest

from humanlayer_agent.confine.bubblewrap import Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.held_run import overlay, overlay_mount
from humanlayer_agent.confine.held_run.overlay import LayeredEnclosure, Over
from humanlayer_agent.confine.proof import interpreter_reads
from tests.confine.attack_scene import NOBODY, Scene, python_of, readable_by_all
from tests.confine.attacks import ATTACKS
from tests.support.enclosures import backend
from tests.support.rows import for_each

PROGRAM = Path(__file__).with_name("attacks.py")
CONTROLS = {
    *("append", "read", "list", "remove", "move in", "make a link there", "a hard link of what is outside"),
    *("rights", "times", "shorten", "read through a link", "through its own root", "up from where it is", "through memory"),
    *("run what is there", "a pipe that somebody reads", "a key", "keys that let others in", "a start-up file", "settings of git"),
    *("the store", "the signing key", "a hidden file", "a hidden file under another name", "a protected file", "a hidden folder"),
    *("a new file in a protected folder", "the times of a protected file", "a protected file opened again"),
    *("processes of others", "a process of the same user", "a signal", "a descriptor of a process", "the environment of a process"),
    *("the folder of a process", "the limits of a process", "the processors of a process", "shared memory", "a queue of messages"),
    *("semaphores", "TCP", "TCP to another address of this machine", "TCP to no address", "UDP", "a socket by its path"),
    *("a socket by a link", "a socket of datagrams", "a socket of packets", "a socket without a path", "a multiplexer of terminals"),
    *("a socket of datagrams without a path", "a socket in /tmp", "memory that others share", "the terminal of a human, read"),
}  # fmt: skip
"""What does succeed without a confinement, and harms nothing but canaries."""


@pytest.fixture(scope="module", params=["ours", "nobody", "ours, held", "nobody, held"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    whose, _, held = request.param.partition(", ")
    if whose == "nobody" and os.getuid() != 0:
        pytest.skip("allowed in CI: we are an ordinary user, so this is what the other one tests")
    backend()
    with ExitStack() as stack:
        made = Scene(stack, NOBODY if whose == "nobody" else os.getuid())
        made.is_held = bool(held)
        yield made


@pytest.fixture(scope="module")
def said(scene: Scene) -> tuple[dict[str, str | None], dict[str, object], dict[str, object]]:
    """What came of each attack, and the state before and after."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"))))
        place.chmod(0o755)
        python, project = python_of(scene.uid), scene.given["project"]
        shutil.copy(PROGRAM, place / "attacks.py")
        own = (
            ("/usr/**", "/bin", "/lib/**", "/lib64/**", "/etc/ld.so.cache")
            if scene.uid != os.getuid()
            else interpreter_reads()
        )
        profile = Profile(
            "attacked",
            read=(*own, f"{place}/**", "/etc/hosts", "/etc/passwd"),
            write=(f"{project}/**",),
            protect=(f"{project}/**/.git/hooks/**", f"{project}/**/.git/config"),
            hide=(f"{project}/**/.env", f"{project}/secrets/**"),
        )
        enclosure = Enclosure(
            readable_by_all(backend(), place),
            Confinement((profile,)),
            str(scene.base / "tmp"),
            str(scene.base / "aside"),
        )
        program = [python, "-I", "-S", str(place / "attacks.py"), json.dumps(scene.given)]
        os.mkdir(enclosure.aside)
        os.chmod(enclosure.aside, 0o711)  # it is ours, and each user has their own
        if scene.is_held:
            enclosure = layered(enclosure, scene, str(place), stack)
        before = scene.state()
        with enclosure.opened([os.fsencode(word) for word in program], cwd=project, env={}) as (argv, descriptors):
            confined = scene.run(argv, descriptors)
        after = scene.state()
        assert not isinstance(enclosure, LayeredEnclosure) or os.listdir(enclosure.layers[0].upper)
    return confined, before, after


def layered(enclosure: Enclosure, scene: Scene, place: str, stack: ExitStack) -> LayeredEnclosure:
    """The same, with layers over all that can be written."""
    script = shutil.copy(overlay_mount.__file__, place)
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(overlay, "_PYTHON", python_of(scene.uid))
    patched.setattr(overlay_mount, "__file__", script)
    layers = tuple(
        Over.made(folder, f"{place}/layers/{n}")
        for n, folder in enumerate((scene.given["project"], enclosure.temporary))
    )
    for above, folders, _ in os.walk(f"{place}/layers"):
        for each in (above, *(f"{above}/{name}" for name in folders)):
            os.chown(each, scene.uid, scene.uid)
    return LayeredEnclosure(**{each.name: getattr(enclosure, each.name) for each in fields(enclosure)}, layers=layers)


@for_each("attack", ATTACKS)
def test_it_is_held(said: tuple[dict[str, str | None], object, object], attack: str) -> None:
    assert said[0][attack] is not None


def test_nothing_outside_has_changed(said: tuple[object, dict[str, object], dict[str, object]]) -> None:
    assert said[2] == said[1]


def test_without_a_confinement_they_succeed(scene: Scene, said: object) -> None:
    """Where they harm nothing but canaries: else that they fail would tell nothing."""
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp")) as name:
        os.chmod(name, 0o755)
        shutil.copy(PROGRAM, f"{name}/attacks.py")
        only = [attack for attack in ATTACKS if attack in CONTROLS]
        given = json.dumps(scene.given | {"only": only})
        free = scene.run([python_of(scene.uid), "-I", "-S", f"{name}/attacks.py", given])
    assert {attack: said for attack, said in free.items() if said is not None} == {}
    assert set(free) == CONTROLS

"""The wheel carries everything it needs: it works outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout and unpacked where the checkout is not in sight."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            folder,
            ROOT,
        ],
        check=True,
        cwd=folder,
    )
    (wheel,) = folder.glob("humanlayer_agent-*.whl")
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run(unpacked: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the unpacked package's command line with the libraries of this environment."""
    code = (
        "import sys, humanlayer_agent; from humanlayer_agent.cli import main; "
        f"assert humanlayer_agent.__file__.startswith({str(unpacked)!r}), humanlayer_agent.__file__; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=unpacked.parent,
        env=os.environ | {"PYTHONPATH": str(unpacked)} | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.long
def test_it_holds_the_data_and_no_tests(unpacked: Path) -> None:
    names = {str(p.relative_to(unpacked)) for p in unpacked.rglob("*") if p.is_file()}
    assert {"humanlayer_agent/report/templates/style.css", "humanlayer_agent/report/templates/audit.html.j2"} <= names
    assert {"humanlayer_agent/py.typed", "humanlayer_agent/__init__.pyi"} <= names
    for shipped in sorted((ROOT / "policies").glob("*.yaml")):
        assert f"humanlayer_agent/_data/policies/{shipped.name}" in names
    assert "humanlayer_agent/_data/channels/terminal.yaml" in names
    assert any(n.startswith("humanlayer_agent/shell/programs/catalog/") and n.endswith(".yaml") for n in names)
    assert {n.partition("/")[0].partition("-")[0] for n in names} == {"humanlayer_agent"}


@pytest.mark.long
def test_check(unpacked: Path) -> None:
    done = run(unpacked, "check", "--project", "/nowhere/project", "rm -rf /srv/x")
    assert done.returncode == 4, done.stderr
    assert done.stdout.startswith("ask  (delete-outside-project")


@pytest.mark.long
def test_demo(unpacked: Path, tmp_path: Path) -> None:
    done = run(unpacked, "demo", HUMANLAYER_STORE=str(tmp_path / "store.sqlite3"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The run ended Submitted" in done.stdout

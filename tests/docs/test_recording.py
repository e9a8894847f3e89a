"""The recording of `hla demo`: the picture on our pages shows what was recorded, and it can be recorded again."""

import importlib.util
import json
import re
import sys
from types import ModuleType

import pytest

from tests.support.pages import ROOT

PICTURES = ROOT / "docs/pictures"


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_demo", ROOT / "docs/render_demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["render_demo"] = module
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_the_recording(recorder: ModuleType) -> None:
    head, *lines = map(json.loads, (PICTURES / "demo.cast").read_text().splitlines())
    recording = recorder.Recording([(at, text) for at, kind, text in lines])
    assert (head["width"], head["height"]) == (recorder.COLUMNS, recorder.ROWS)
    assert recorder.draw(list(recording.frames())) == (PICTURES / "demo.svg").read_text()
    assert recording.cast() == (PICTURES / "demo.cast").read_text()


@pytest.mark.parametrize("name", ["demo.cast", "demo.svg"])
def test_nothing_of_the_machine_is_in_it(name: str) -> None:
    text = (PICTURES / name).read_text()
    assert "/root" not in text
    assert "/home/" not in text
    assert str(ROOT) not in text


@pytest.mark.long
def test_it_can_be_recorded(recorder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "READ_S", 0.5)
    last = list(recorder.record().frames())[-1]
    shown = re.sub(r"<[^>]*>", "", "\n".join(last.rows))
    assert "The run ended Submitted" in shown
    assert "no scripts from the net" in shown
    assert recorder.draw([last]).startswith("<svg ")

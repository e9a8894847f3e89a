"""What the older humanlayer SDK's users look for: it is there, or says what is written in its place."""

import importlib
from pathlib import Path
from typing import Any

import pytest

import humanlayer_agent
from humanlayer_agent import Director, Gate, human_as_tool, require_approval
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker

pytestmark = pytest.mark.usefixtures("compiled")


def gate(tmp_path: Path, *script: Any) -> Gate:
    director = Director.load("default", project=tmp_path)
    return Gate(director, SQLiteStore(tmp_path / "store.db"), ScriptedAsker(script))


def test_a_human_answers(tmp_path: Path) -> None:
    ask = human_as_tool(gate=gate(tmp_path, ("respond", "2"), ("reject", "ask bob")), options=["main", "next"])
    assert ask("Which branch?").endswith('"next"')
    assert "ask bob" in ask("And when?")
    assert "Nobody" in ask("And who?")
    assert ask.__name__ == "contact_human"
    assert "question:" in (ask.__doc__ or ""), "frameworks show that to the model"


def test_no_question(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        human_as_tool(gate=gate(tmp_path))("")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: require_approval(contact_channel="slack"), "route: NAME"),  # type: ignore[call-overload]
        (lambda: require_approval(reject_options=["no"]), "ActionDenied.comment"),  # type: ignore[call-overload]
        (lambda: human_as_tool(contact_channel="slack"), "route: NAME"),  # type: ignore[arg-type]
        (lambda: human_as_tool(response_options=["no"]), "ask_human"),  # type: ignore[arg-type]
    ],
)
def test_what_stands_in_the_place_of_settings(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


@pytest.mark.parametrize("name", ["HumanLayer", "ContactChannel", "ResponseOption"])
def test_what_stands_in_the_place_of_names(name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name}'?: ") as raised:
        getattr(humanlayer_agent, name)
    assert len(str(raised.value)) > 80
    with pytest.raises(ImportError):
        importlib.import_module(f"humanlayer_agent.{name}")

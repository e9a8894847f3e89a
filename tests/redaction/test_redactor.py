"""What a Redactor remembers, keeps and puts together: over many commands and texts, and over the fields of an event."""

from collections.abc import Callable
from typing import Any

import pytest

from humanlayer_agent.redaction import redactor as module
from humanlayer_agent.redaction.redactor import ERASED, Redactor, redact, redactor
from humanlayer_agent.redaction.text_secrets import Span

SECRET = "hUnter22xQ"
KEY = b"k" * 32


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is searched, in order."""
    found: list[str] = []

    def noting(search: Callable[[str], Any]) -> Callable[[str], Any]:
        def search_and_note(text: str) -> Any:
            found.append(text)
            return search(text)

        return search_and_note

    for name in ("in_command", "in_text"):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    return found


def spans(monkeypatch: pytest.MonkeyPatch, *found: Span) -> None:
    """Let these be what is found in a command."""
    monkeypatch.setattr(module, "may_hold", lambda text: True)
    monkeypatch.setattr(module, "in_command", lambda text: list(found))


# Values that were secrets before


def test_every_secret_is_looked_for_from_then_on() -> None:
    redactor = Redactor()
    for number in range(3):
        redactor.command(f"mysql -p{SECRET}{number} db")
        assert redactor.text(f"{number}: {SECRET}{number}").text == f"{number}: {ERASED}"
    assert redactor.text(f"{SECRET}0 {SECRET}1 {SECRET}2").text == f"{ERASED} {ERASED} {ERASED}"


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_secrets_that_begin_alike_the_longer_one_goes_as_a_whole(order: int) -> None:
    redactor = Redactor()
    for secret in ("abcdef12", "abcdef1234")[::order]:
        redactor.command(f"mysql -p{secret} db")
    assert redactor.text("saw abcdef1234 and abcdef12").text == f"saw {ERASED} and {ERASED}"


@pytest.mark.parametrize(("secret", "shown"), [("hunt22", ERASED), ("hun22", "hun22")])
def test_a_value_as_short_as_a_word_is_not_looked_for(secret: str, shown: str) -> None:
    redactor = Redactor()
    assert redactor.command(f"mysql -p{secret} db").text == f"mysql -p{ERASED} db"
    assert redactor.text(f"saw {secret} there").text == f"saw {shown} there"


def test_the_newest_secrets_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    redactor = Redactor()
    for number in range(4):
        redactor.command(f"mysql -p{SECRET}{number} db")
    said = " ".join(f"{SECRET}{number}" for number in range(4))
    assert redactor.text(said).text == f"{SECRET}0 {SECRET}1 {ERASED} {ERASED}"


@pytest.mark.parametrize("between", [1, 2])
def test_a_command_that_is_given_again_is_remembered_again(between: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it is not read again: whether its secret was forgotten meanwhile, or is only the oldest."""
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    redactor = Redactor()
    again = f"mysql -p{SECRET}0 db"
    redactor.command(again)
    for number in range(1, between + 1):
        redactor.command(f"mysql -p{SECRET}{number} db")
    redactor.text(f"{SECRET}0")
    redactor.command(again)
    assert redactor.text(f"{SECRET}0").text == ERASED
    redactor.command(f"mysql -p{SECRET}3 db")
    said = " ".join(f"{SECRET}{number}" for number in range(4))
    shown = [ERASED if number in (0, 3) else f"{SECRET}{number}" for number in range(4)]
    assert redactor.text(said).text == " ".join(shown)


def test_of_two_secrets_that_overlap_nothing_is_left() -> None:
    redactor = Redactor()
    for secret in ("abcdef12", "ef12ghijkl"):
        redactor.command(f"mysql -p{secret} db")
    assert redactor.text("saw abcdef12ghijkl, and abcdef12abcdef12").text == f"saw {ERASED}, and {ERASED}{ERASED}"


@pytest.mark.parametrize("between", ["\n", "\\n", "\\\\n", "\r\n", '\\n" "'])
def test_each_line_of_a_key_is_remembered(between: str) -> None:
    redactor = Redactor()
    lines = [f"{letter}" + "q9Zx7WvK3mT5/bN+" * 4 for letter in "bnrt"]
    block = between.join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    assert "q9Zx7" not in redactor.command(f"x='{block}'; echo a").text
    for line in lines:
        assert redactor.text(f"bash: {line}: command not found").text == f"bash: {ERASED}: command not found"
    assert redactor.text("-----BEGIN and END").erased == ()


def test_a_secret_that_becomes_known_while_a_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread: what was found without it does not stand for the text any more."""
    redactor = Redactor()

    def meanwhile(text: str) -> list[Span]:
        redactor.command(f"mysql -p{SECRET} db")
        return []

    with monkeypatch.context() as patch:
        patch.setattr(module, "in_text", meanwhile)
        patch.setattr(redactor, "_remembered", lambda text: [])
        assert redactor.text(f"saw {SECRET}").text == f"saw {SECRET}"
    assert redactor.text(f"saw {SECRET}").text == f"saw {ERASED}"


def test_one_redactor_a_key_remembers_for_the_whole_process() -> None:
    redactor(b"a" * 32).command(f"mysql -p{SECRET} db")
    assert redactor(b"a" * 32).text(SECRET).erased == ("a secret of a command",)
    assert redactor(b"b" * 32).text(SECRET).erased == ()


# What is not read again


def test_the_same_command_is_not_read_again(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 2)
    redactor = Redactor()
    one, two, three = (f"mysql -p{SECRET}{number} db" for number in range(3))
    first = redactor.command(one)
    for command in (two, one, two):
        redactor.command(command)
    assert reads == [one, two]
    assert redactor.command(one) == first
    redactor.command(three)
    redactor.command(two)
    assert reads == [one, two, three], "the oldest makes room"
    redactor.command(one)
    assert reads == [one, two, three, one], "and no more are kept"


def test_the_same_text_is_not_read_again(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 2)
    redactor = Redactor()
    for text in ("one", "two", "one", "two"):
        assert redactor.text(text).text == text
    assert reads == ["one", "two"]
    for text in ("three", "three", "one"):
        redactor.text(text)
    assert reads == ["one", "two", "three", "one"], "no more are kept"


def test_a_secret_that_was_known_already_makes_no_text_be_read_again(reads: list[str]) -> None:
    redactor = Redactor()
    for command in ("mysql", "mariadb"):
        redactor.command(f"{command} -p{SECRET} db")
        redactor.text("one")
    assert reads.count("one") == 1


# Spans that touch each other


def test_what_overlaps_is_one_mark_and_has_the_first_name(monkeypatch: pytest.MonkeyPatch) -> None:
    spans(monkeypatch, Span(12, 18, "c"), Span(0, 2, "a"), Span(10, 15, "b"), Span(11, 13, "d"))
    made = redact("0123456789abcdefghij")
    assert made.text == f"{ERASED}23456789{ERASED}ij"
    assert made.erased == ("a", "b")
    assert made.spans == ((0, 2), (10, 18))
    assert made.marks == (ERASED, ERASED)


def test_what_only_touches_stays_two_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    spans(monkeypatch, Span(0, 3, "a"), Span(3, 6, "b"))
    made = redact("aaabbb", KEY)
    assert made.text == Redactor(KEY).mark("aaa") + Redactor(KEY).mark("bbb")


def test_an_empty_span_hides_nothing_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spans(monkeypatch, Span(2, 2, "nothing"), Span(5, 4, "less"), Span(6, 8, "a"))
    made = redact("0123456789")
    assert (made.text, made.erased) == (f"012345{ERASED}89", ("a",))


# The same again


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        # the name of a command is never hidden, wherever it stands
        ("abcd1234 x; PASSWORD=abcd1234 y", "abcd1234 x; PASSWORD=⟦erased⟧ y"),
        ("PASSWORD=abcd1234 y; abcd1234 x", "PASSWORD=⟦erased⟧ y; abcd1234 x"),
        ("PASSWORD=abcd1234 y | abcd1234 x", "PASSWORD=⟦erased⟧ y | abcd1234 x"),
        ("PASSWORD=abcd1234 y $( abcd1234 x)", "PASSWORD=⟦erased⟧ y $( abcd1234 x)"),
        ("PASSWORD=abcd1234 y; x abcd1234; z abcd1234", "PASSWORD=⟦erased⟧ y; x ⟦erased⟧; z ⟦erased⟧"),
        # of two that begin alike, the longer one as a whole
        (
            "PASSWORD=abcd1234 TOKEN=abcd123456 y; x abcd123456 abcd1234",
            "PASSWORD=⟦erased⟧ TOKEN=⟦erased⟧ y; x ⟦erased⟧ ⟦erased⟧",
        ),
    ],
)
def test_the_same_value_elsewhere_in_a_command(command: str, shown: str) -> None:
    assert redact(command).text == shown


def test_what_stands_there_again_has_a_name_of_its_own() -> None:
    made = redact(f"PASSWORD={SECRET} y; x {SECRET}")
    assert made.erased[1:] == ("the same again",)
    assert len(made.spans) == len(made.marks) == 2


# How much is searched


def test_the_longest_text_that_is_searched() -> None:
    longest = "x" * (1 << 18)
    assert redact(longest).text == longest
    made = redact(longest + "x")
    assert (made.text, made.erased) == (ERASED, ("everything (too long to be searched)",))
    assert made.spans == ((0, len(longest) + 1),)


# The fields of an event


def test_what_we_made_ourselves_stays() -> None:
    given = dict.fromkeys(("store", "run", "sha256", "policy_digest", "approver", "rules", "agent", "policy", "requester"), f"password={SECRET}")  # fmt: skip
    assert Redactor(KEY).fields(given) == given
    nested = {"rule": {"solo": True, "policy": f"password={SECRET}", "count": 3}, "notes": [{"run": f"token={SECRET}"}]}
    assert Redactor(KEY).fields(nested) == nested


def test_what_anything_else_says_is_redacted_to_its_depth() -> None:
    said = f"password={SECRET}"
    hidden = f"password={Redactor(KEY).mark(SECRET)}"
    given = {"reason": said, "details": {"why": said, "count": 3, "more": [said, 7, None, ""]}, "many": (said, said)}
    written = Redactor(KEY).fields(given)
    assert written["reason"] == hidden
    assert written["details"] == {"why": hidden, "count": 3, "more": [hidden, 7, None, ""]}
    assert list(written["many"]) == [hidden, hidden]
    names = {note.partition(":")[0] for note in written["erased"]}
    assert names == {"reason", "why", "more", "many"}
    assert written["erased"] == sorted(set(written["erased"]))
    assert written["exact"] == {"reason": Redactor(KEY).digest(said)}


def test_what_a_command_holds_is_looked_for_in_everything_else() -> None:
    given = {"reason": f"saw {SECRET}", "command": f"mysql -p{SECRET} db", "edited": f"psql; echo {SECRET}"}
    written = Redactor().fields(given)
    assert written["reason"] == f"saw {ERASED}"
    assert written["command"] == f"mysql -p{ERASED} db"


def test_no_field_keeps_another_from_being_redacted() -> None:
    numbers: dict[str, Any] = {f"number{n}": n for n in range(12)}
    nothing: dict[str, Any] = {f"nothing{n}": value for n, value in enumerate([None, "", (), {}] * 3)}
    said = {f"said{n}": f"password={SECRET}{n}" for n in range(12)}
    written = Redactor().fields(numbers | nothing | said)
    assert SECRET not in str(written)
    assert {name: written[name] for name in numbers | nothing} == numbers | nothing


def test_digests_are_keyed_and_are_no_text() -> None:
    given = {"digest": "d" * 64, "signature": "e" * 64, "reason": "fine"}
    written = Redactor(KEY).fields(given)
    assert written == {"digest": Redactor(KEY).digest("d" * 64), "signature": Redactor(KEY).digest("e" * 64), "reason": "fine"}  # fmt: skip
    assert Redactor().fields(given) == given
    both = Redactor(KEY).fields(given | {"reason": f"password={SECRET}"})
    assert set(both["exact"]) == {"reason"}


def test_where_only_parts_were_changed_there_is_no_digest_of_the_whole() -> None:
    written = Redactor(KEY).fields({"notes": [f"password={SECRET}"]})
    assert written["exact"] is None
    assert written["erased"]


def test_a_digest_without_a_key_stays() -> None:
    assert Redactor().digest("d" * 64) == "d" * 64
    assert Redactor().digest("") == ""
    assert Redactor(KEY).digest("hmac:" + "0" * 64) == "hmac:" + "0" * 64


def test_without_a_key_nothing_stands_for_what_was_erased() -> None:
    written = Redactor().fields({"reason": f"password={SECRET}", "command": f"mysql -p{SECRET}"})
    assert SECRET not in str(written)
    assert written["exact"] is None

"""The table of phrases, and the sentences that are made of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.policy import effect_phrases
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.effect_phrases import LONGEST, sentence, short, told_by, whole
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import EFFECT_KINDS, Effect, analyse


def said(text: str) -> list[str]:
    program = analyse(text, cwd="/srv/app", environ={"HOME": "/home/dev"}, catalog=CATALOG)
    return [whole(command) for command in program.commands]


def test_every_kind_of_effect_has_a_last_row_that_fits_all_of_it() -> None:
    table = effect_phrases._table()
    assert set(table) == set(EFFECT_KINDS)
    for kind, rows in table.items():
        assert rows[-1].fits(None, Effect(kind, "no such role", "x", True, (0, 1)))
        assert "{}" in rows[-1].say
    assert set(effect_phrases._unknown()) <= set(EFFECT_KINDS)


def test_a_row_names_only_what_it_can_fill_in() -> None:
    for rows in effect_phrases._table().values():
        for row in rows:
            assert ("{option}" in row.say) <= (row.option is not None), row
            assert ("{beside}" in row.say) <= (row.beside is not None), row


def test_what_one_sentence_tells_no_other_tells_again() -> None:
    command = analyse("scp a.txt web1.example.org:", cwd="/srv/app", catalog=CATALOG).commands[0]
    read = next(effect for effect in command.effects if effect.kind == "read")
    network = next(effect for effect in command.effects if effect.kind == "network")
    assert told_by(command, read) == [(command, network)]
    assert sentence([(command, read), (command, network)]) == (
        "Copies /srv/app/a.txt to web1.example.org: `scp a.txt web1.example.org:`"
    )
    assert sentence([(command, read)]) == "Copies from /srv/app/a.txt"  # alone it must tell of itself


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rm a b c d", "Deletes /srv/app/a, /srv/app/b, /srv/app/c and /srv/app/d."),
        ("rm a b c d e", "Deletes /srv/app/a, /srv/app/b, /srv/app/c and 2 more."),
        ('rm "$X" a', 'Deletes an unknown path ("$X") and /srv/app/a.'),
        ("rm {} '{}' '{words}'", "Deletes /srv/app/{} and /srv/app/{words}."),
        ("git branch -D '{}'", "Deletes the branch { }, merged or not."),
        ("rm $'a\\nWhy  Reads b'", r'Deletes "/srv/app/a\x0aWhy  Reads b".'),
        ("rm '/srv/x, which is a cache'", 'Deletes "/srv/x, which is a cache".'),
        ("rm '/srv/x\", which \"'", r'Deletes "/srv/x\", which \"".'),
        ("sudo -k ls '`. All is well'", r"Runs as root: `sudo -k ls '\`. All is well'`."),
        (
            "git push origin 'a), and no more (b'",
            'Pushes commits to a remote repository (origin "a), and no more (b").',
        ),
        ("node -e 'x. All is well'", 'Runs code that nobody has read: "x. All is well".'),
        ("rm '\u202egpj.exe'", r"Deletes /srv/app/\u{202e}gpj.exe."),
        ("true", "Changes nothing: `true`."),
    ],
)
def test_operands_are_named_or_counted_and_can_fake_nothing(text: str, expected: str) -> None:
    assert said(text)[0] == expected


def test_a_long_operand_is_shortened_between_words_and_counted() -> None:
    text = "echo " + " ".join(f"word{n}" for n in range(100))
    assert short(text).startswith("echo word0 ")
    assert short(text).endswith(f"word99 ({len(text)} characters)")
    token = "ghp_" + "x1Y2" * 100
    assert token[:30] not in short(token)  # half a secret would not be found by who hides them
    assert token[-30:] not in short(token)


@given(st.text())
def test_what_is_said_is_one_safe_line(text: str) -> None:
    assert one_line(short(text)) == short(text)
    assert len(short(text)) <= 16 * LONGEST
    effect = Effect("delete", "operand", text, True, (0, 1))
    assert one_line(sentence([(None, effect)])) == sentence([(None, effect)])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("rm {/etc/h<n> }", "Deletes /etc/h0, /etc/h1, /etc/h2 and 297 more"),
        ("cp {/etc/h<n> }/etc/x", "Copies /etc/h0, /etc/h1, /etc/h2 and 297 more to /etc/x"),
    ],
)
def test_of_many_effects_none_is_left_out_of_the_count(command: str, said: str) -> None:
    first, unit, last = command.replace("}", "{").split("{")
    text = first + "".join(unit.replace("<n>", str(n)) for n in range(300)) + last
    (found,) = analyse(text, cwd="/srv/app").commands
    assert sentence([(found, effect) for effect in found.effects]) == said
    assert whole(found) == f"{said}."


def test_what_is_like_nothing_before_it_is_told_all_the_same() -> None:
    (removed,) = analyse("rm " + " ".join(f"/etc/h{n}" for n in range(150)), cwd="/srv/app").commands
    (written,) = analyse("touch /etc/x", cwd="/srv/app").commands
    found = [(each, effect) for each in (removed, written) for effect in each.effects]
    assert sentence(found).startswith("Deletes /etc/h0, /etc/h1, /etc/h2 and 147 more, and ")
    assert "/etc/x" in sentence(found)

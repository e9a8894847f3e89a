"""A question of an agent on these pages: answered in words, and never in the list of several."""

from humanlayer_agent.action import QUESTION

WORDS = "Which branch?\n\n1. main\n2. next"


def test_it_is_answered_in_words(inbox, page) -> None:
    for command in ("make a", "make b"):
        inbox.deliver(inbox.ask(command))
    request = inbox.ask(WORDS, type=QUESTION, interpreter=(QUESTION,))
    inbox.deliver(request)
    alice = inbox.rig.alice()
    opened = page(alice.get(f"/r/{request.id}").text)
    assert [form["answer"] for form in opened.forms if "answer" in form][:2] == ["respond", "reject"]
    assert not {"approve", "grant", "edit"} & {form.get("answer") for form in opened.forms}
    for text in ("agent asks you something", "The question, whole", "1. main", "closed without an answer"):
        assert text in opened.text
    assert "run" not in opened.text.partition("Record")[0].replace("run run-1", "")

    listed = page(alice.get("/several").text)
    assert "it is no command" in listed.text
    assert len([form for form in listed.tags if form[1].get("type") == "checkbox"]) == 2

    reply = opened.form("respond")
    alice.post(f"/r/{request.id}", data=reply | {"answer": "approve"})
    alice.post(f"/r/{request.id}", data=reply | {"answer": "edit", "edited": "make"})
    assert (inbox.state(request), len(inbox.store.votes(request.id))) == ("pending", 0)
    again = page(alice.get(f"/r/{request.id}").text).form("respond")
    alice.post(f"/r/{request.id}", data=again | {"comment": "next"})
    assert (inbox.state(request), inbox.store.votes(request.id)[0].comment) == ("answered", "next")

"""Heads of the log that a hub posts verify the log later."""

from humanlayer_agent.audit import events
from humanlayer_agent.audit.heads import heads_in
from humanlayer_agent.hub.head_posts import witness
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import ScriptedChannel


def test_a_head_is_posted_where_there_is_something_new(store):
    posted, lines = [], []
    task = witness(store, posted.append, say=lines.append)
    task.run()
    task.run()
    assert len(posted) == len(lines) == 1
    (head,) = heads_in(posted[0])
    assert f"event {head.seq:,}" in lines[0]
    assert head.hash[:12] in lines[0]
    assert head.signer[:12] in lines[0]
    assert len(lines[0]) < 150
    assert heads_in(lines[0]) == []
    store.record(events.POLICY_LOADED, run="r")
    task.run()
    assert len(posted) == 2
    heads = [head for text in posted for head in heads_in(text)]
    assert len(heads) == 2
    assert store.verify(heads=heads).intact


def test_a_channel_posts_it_and_one_that_can_not_is_left_out(serve, store, monkeypatch):
    posted = []
    monkeypatch.setattr(ScriptedChannel, "post", lambda self, text: posted.append(text), raising=False)
    hub = serve()
    until(lambda: hub.serving, "the channel")
    witness(store, hub.post).run()
    until(lambda: posted, "the head")
    monkeypatch.delattr(ScriptedChannel, "post")
    store.record(events.POLICY_LOADED, run="r")
    witness(store, hub.post).run()
    (head,) = heads_in(posted[0])
    assert store.verify(heads=[head]).intact


def test_a_channel_that_fails_to_post_goes_on_serving(serve, store, monkeypatch):
    lines = []

    def fail(self, text):
        raise RuntimeError("no network")

    monkeypatch.setattr(ScriptedChannel, "post", fail, raising=False)
    hub = serve(say=lambda channel, line: lines.append(line))
    until(lambda: hub.serving, "the channel")
    witness(store, hub.post).run()
    until(lambda: any("could not be posted: RuntimeError: no network" in line for line in lines), "the line")
    assert hub.serving == ("board",)

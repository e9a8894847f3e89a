"""A seal stands for one request with one command, and tells nothing about it."""

from dataclasses import replace

from humanlayer_agent.channels.slack.seal import LENGTH, Seal
from tests.channels.slack.test_message import request_of


def test_it_is_that_of_one_request_and_one_digest() -> None:
    seal, request = Seal("xoxb-1"), request_of("ls")
    assert seal.fits(request, seal.of(request))
    assert Seal("xoxb-1").of(request) == seal.of(request)
    others = [replace(request, id="b2" * 16), replace(request, digest="e" * 64), replace(request, digest="")]
    assert not any(seal.fits(each, seal.of(request)) for each in others)
    assert not seal.fits(replace(request, digest=""), seal.of(replace(request, digest="")))
    assert Seal("xoxb-2").of(request) != seal.of(request)
    assert not any(seal.fits(request, made) for made in ("", request.digest[:LENGTH], "ä", seal.of(request)[:-1]))


def test_the_value_of_a_button() -> None:
    request = request_of("ls")
    identity, _, sealed = Seal("xoxb-1").value(request).partition("|")
    assert (identity, len(sealed)) == (request.id, LENGTH)
    assert sealed not in request.digest

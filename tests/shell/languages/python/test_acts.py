"""Which connections of a program are in doubt, because it puts something in their place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.languages.python import read
from tests.support.extent import examples

GET = "requests.get('http://example.org')"
OPEN = "urllib.request.urlopen('http://example.org')"

STAND_INS = [
    f"import requests\nfrom unittest.mock import patch\nwith patch('requests.get') as got:\n    {GET}",
    f"import requests\nfrom unittest import mock\n@mock.patch('app.client.requests.get')\ndef test_it(got):\n    {GET}",
    f"import requests\nfrom unittest import mock\nwith mock.patch.object(requests, 'get'):\n    {GET}",
    f"import requests\nfrom unittest.mock import patch\nwith patch.object(requests.Session, 'send'):\n    {GET}",
    f"import requests\ndef test_it(monkeypatch):\n    monkeypatch.setattr(requests, 'get', print)\n    {GET}",
    f"import requests\ndef test_it(monkeypatch):\n    monkeypatch.setattr('requests.get', print)\n    {GET}",
    f"import requests\ndef test_it(mocker):\n    mocker.patch('requests.get')\n    {GET}",
    f"import requests\ndef test_it(requests_mock):\n    requests_mock.get('http://example.org')\n    {GET}",
    f"import requests\nimport responses\n@responses.activate\ndef test_it():\n    {GET}",
    f"import requests as r, requests\nr.get = lambda url: 1\n{GET}",
    f"import requests\nrequests.Session = object\n{GET}",
    f"import socket, requests\nsocket.socket = object\n{GET}",
    f"import socket, requests\ns = setattr(socket, 'create_connection', print)\n{GET}",
    "import requests\ns = requests.Session()\ns.send = print\ns.get('http://example.org')",
    "import requests\nclass S(requests.Session):\n    if True:\n        def send(self, request, **kwargs):\n            pass\n    def request(self, *a):\n        pass\nrequests.Session().get('http://example.org')",
    "import requests\nfrom requests.adapters import HTTPAdapter as H\nclass A(H):\n    def send(self, request, **kwargs):\n        pass\ns = requests.Session()\ns.mount('http://', A())\ns.get('http://example.org')",
    "import httpx\nc = httpx.Client(transport=httpx.MockTransport(print))\nc.get('http://example.org')",
    f"import urllib.request\nfrom unittest.mock import patch\npatch('urllib.request.urlopen').start()\n{OPEN}",
    "import boto3\nfrom moto import mock_aws\nimport psycopg2\nfrom unittest.mock import patch\nwith patch('psycopg2.connect'):\n    psycopg2.connect(host='example.org')",
]  # fmt: skip
CERTAIN = [
    f"import requests\n{GET}",
    f"import requests\nfrom unittest.mock import patch\nwith patch('os.getcwd'):\n    {GET}",
    f"import requests\nfrom unittest.mock import patch, MagicMock\nx = MagicMock()\n{GET}",
    # It sends after all.
    "import requests\nclass S(requests.Session):\n    def send(self, request, **kwargs):\n        return super().send(request, **kwargs)\ns = S()\ns.get('http://example.org')",
    "import requests\nfrom requests.adapters import HTTPAdapter as H\nclass A(H):\n    def send(self, request, **kwargs):\n        return H.send(self, request, **kwargs)\ns = requests.Session()\ns.mount('http://', A())\ns.get('http://example.org')",
    # Settings are no stand-in.
    "import requests\ns = requests.Session()\ns.headers = {}\ns.verify = False\ns.auth = ('a', 'b')\ns.get('http://example.org')",
    f"import requests\nrequests.adapters.DEFAULT_RETRIES = 5\n{GET}",
    "import requests\nfrom requests.adapters import HTTPAdapter\ns = requests.Session()\ns.mount('http://', HTTPAdapter(max_retries=3))\ns.get('http://example.org')",
    "import requests\nclass View:\n    def send(self):\n        pass\n" + GET,
    # Something else is replaced.
    "import psycopg2\nfrom unittest.mock import patch\nwith patch('requests.get'):\n    psycopg2.connect(host='example.org')",
]  # fmt: skip


SESSION = "import requests\nclass S(requests.Session):\n    def send(self, request, **kwargs):\n        {}\n"
"""A session with a `send` of its own, by which all its other methods send."""


def sure(source: str) -> set[bool]:
    acts = [act for act in read(source).acts if act.kind == "network"]
    assert acts, source
    return {act.sure for act in acts}


@pytest.mark.parametrize("source", STAND_INS)
def test_a_connection_with_a_stand_in_is_in_doubt(source: str) -> None:
    assert sure(source) == {False}


@pytest.mark.parametrize("source", CERTAIN)
def test_every_other_one_is_certain(source: str) -> None:
    assert sure(source) == {True}


@pytest.mark.parametrize(
    "source",
    [
        SESSION.format("print(request.method)") + "s = S()\ns.request(method='GET', url='http://example.org')",
        SESSION.format("return requests.Response()") + "f = S().get\nf('http://example.org')",
    ],
)
def test_who_sends_by_a_method_of_its_own_contacts_nobody(source: str) -> None:
    assert "network" not in {act.kind for act in read(source).acts}


@pytest.mark.parametrize(
    ("body", "use", "acts"),
    [
        ("return super().send(request)", "S().get('http://example.org')", {("network", "http://example.org")}),
        ("open('/srv/x', 'w')", "S().get('http://example.org')", {("write", "/srv/x")}),
        ("pass", "S.send = requests.Session.send\nS().get('http://example.org')", {("network", "")}),
        (
            "pass",
            "s = S()\ns.send = requests.Session().send\ns.get('http://example.org')",
            {("network", "http://example.org")},
        ),
        ("pass", "requests.Session.get(S(), 'http://example.org')", {("network", "http://example.org")}),
        ("pass", "S().get('/', auth=lambda r: open('/srv/x', 'w'))", {("write", "/srv/x")}),
    ],
)
def test_what_the_method_of_its_own_does_is_read(body: str, use: str, acts: set[tuple[str, str]]) -> None:
    found = {
        (act.kind, choice)
        for act in read(SESSION.format(body) + use).acts
        for text in act.operands
        for choice in text.choices or ("",)
    }
    assert acts <= found, found


@pytest.mark.parametrize(
    "source",
    [
        "import yarl\nprint(yarl.URL('http://example.org/a').host)",
        "import httpx\nprint(httpx.URL('http://example.org/a').host)",
        "import hyperlink\nprint(hyperlink.parse('http://example.org/a').host)",
        "import rfc3986\nprint(rfc3986.urlparse('http://example.org/a').host)",
        "from urllib.parse import urlsplit\nprint(urlsplit('http://example.org/a').netloc)",
    ],
)
def test_who_reads_an_address_contacts_nobody(source: str) -> None:
    assert {act.kind for act in read(source).acts} <= {"execute"}


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("yarl.URL('http://example.org/a')", {("http://example.org/a",)}),
        ("yarl.URL('http://localhost/a').with_host('example.org')", set()),
        ("hyperlink.URL('http://localhost/a').replace(host='example.org').to_text()", set()),
        ("hyperlink.parse('http://example.org/a').to_text()", set()),
    ],
)
def test_who_is_given_what_was_read_of_it_contacts_it_or_somebody_unknown(address: str, hosts: set[tuple[str]]) -> None:
    (got,) = [
        act for act in read(f"import yarl, hyperlink, requests\nrequests.get({address})").acts if act.kind == "network"
    ]
    assert {tuple(text.choices) for text in got.operands} - {()} == hosts


@settings(max_examples=examples(60, soak=5_000), deadline=None)
@given(st.lists(st.sampled_from([*STAND_INS, *CERTAIN, "import os\nos.remove('/srv/x')", "import os\nos.system('curl x')"]), min_size=1, max_size=3))  # fmt: skip
def test_it_only_ever_doubts_connections(sources: list[str]) -> None:
    """A stand-in takes nothing away: each act is as it is without, but that a connection may be in doubt."""
    alone = [act for source in sources for act in read(source).acts]
    together = read("\n".join(sources)).acts
    assert all(act.sure for act in together if act.kind != "network")
    assert {(act.kind, act.operands) for act in alone} <= {(act.kind, act.operands) for act in together}
    doubted = {act.origin for act in alone if act.kind == "network" and not act.sure}
    assert all(not act.sure for act in together if act.kind == "network" and act.origin in doubted)

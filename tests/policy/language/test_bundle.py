"""The form of a policy bundle: one text, and nothing else is one."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.language.bundle import MAX_ENTRIES, Bundle, file_of
from humanlayer_agent.policy.language.release import MAX_RELEASE
from tests.support.bundles import resigned

SIGNER = Signer()


def signed(**changes: object) -> bytes:
    bundle = Bundle("acme", 1, "2999-12-31", {"policy.yaml": "x"}, SIGNER.fingerprint)
    return resigned(bundle, SIGNER, **changes)


RAW = signed()


def test_what_is_written_is_read() -> None:
    bundle = Bundle.parse(RAW, "x")
    assert (bundle.title, bundle.text, bundle.is_signed) == ("acme@1", RAW, True)
    assert bundle.end == "2999-12-31T24:00:00Z"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        RAW + b"\n",
        b" " + RAW,
        RAW[:-1],
        RAW[: len(RAW) // 2],
        RAW.replace(b'"files":{', b'"files":{"policy.yaml":"y",'),  # two entries of one name
        RAW.replace(b'{"expires"', b'{"version":9,"expires"'),
        RAW.replace(b'"version":1', b'"version":1.0'),
        RAW.replace(b"policy.yaml", b"polic\\u0079.yaml"),
        json.dumps(json.loads(RAW)).encode(),
        RAW.replace(b"policy bundle 1", b"policy bundle 2"),
        RAW.replace(b'"unlocks":[]', b'"unlocks":[],"hook":"x"'),
        b"[" * 100_000,
        b"PK\x03\x04" + RAW,
        b"\x1f\x8b" + RAW,
        RAW.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + RAW,
        b"x" * (MAX_RELEASE + 1),
        RAW.replace(b'"policy.yaml":"x"', b'"policy.yaml":"\\ud800"'),
        RAW.replace(b'"version":1', b'"version":1e400'),
        RAW.replace(b'"version":1', b'"version":' + b"9" * 5_000),
        RAW.replace(b'"version":1', b'"version":NaN'),
        signed(version=0),
        signed(version=True),
        signed(version="1"),
        signed(version=-3),
        signed(expires="never"),
        signed(expires="2999-12-31T00:00:00+01:00"),
        signed(expires=None),
        signed(policy="acme@9"),
        signed(policy="Ａcme"),
        signed(unlocks=[1]),
        signed(unlocks="x"),
        signed(files=[]),
        signed(files={}),
        signed(files={"policy.yaml": 1}),
        signed(files={"policy.yaml": "x", **{f"a{n}.yaml": "" for n in range(MAX_ENTRIES)}}),
    ],
    ids=range(39),
)
def test_nothing_else_is_one(raw: bytes) -> None:
    with pytest.raises(PolicyError, match=r"^here: (not a policy bundle|too large): ."):
        Bundle.parse(raw, "here")


@pytest.mark.parametrize(
    "name",
    [
        "../policy.yaml", "/etc/x.yaml", "a/../../x.yaml", "./x.yaml", "a//x.yaml", "Policy.yaml", "POLICY.YAML", "ſ.yaml",
        "polıcy.yaml", "a\\x.yaml", "x.sh", "x.yaml ", "x.yaml\n", "x\x00.yaml", "c:x.yaml", ".git/x.yaml", "x.yml", "",
        "a/b/c/d/e/f.yaml", f"{'a' * 200}.yaml", "caf\u00e9.yaml", "cafe\u0301.yaml", "\u202eyaml.yaml", "x.bundle/y.yaml",
    ],
)  # fmt: skip
def test_names_that_could_be_another_place_or_another_name_are_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="a file is called"):
        Bundle.parse(signed(files={"policy.yaml": "x", name: "y"}), "here")


@given(st.integers(0, len(RAW) - 1), st.binary(min_size=1, max_size=1))
def test_a_changed_byte_is_no_bundle_or_has_no_good_signature(place: int, byte: bytes) -> None:
    changed = RAW[:place] + byte + RAW[place + 1 :]
    if changed == RAW:
        return
    try:
        bundle = Bundle.parse(changed, "here")
    except PolicyError:
        return
    assert not bundle.is_signed


def test_a_signature_is_of_this_text_and_of_this_purpose() -> None:
    other = Bundle.parse(signed(files={"policy.yaml": "other"}), "x")
    assert not Bundle.parse(
        RAW.replace(Bundle.parse(RAW, "x").signature.encode(), other.signature.encode()), "x"
    ).is_signed
    for said in ({**json.loads(other.statement), "purpose": "humanlayer-agent vote 1"}, {"x": 1}):
        raw = canonical({**json.loads(other.statement), "signature": SIGNER.sign_text(canonical(said))})
        assert not Bundle.parse(raw, "x").is_signed
    assert not Bundle.parse(canonical({**json.loads(RAW), "signature": ""}), "x").is_signed


def test_its_files_are_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "acme.bundle"
    path.write_bytes(RAW)
    assert sources.read(path / "policy.yaml") == b"x"
    assert file_of(path / "policy.yaml") == str(path)
    for wrong in (path / "other.yaml", path / "policy.yaml/x", tmp_path / "none.bundle" / "policy.yaml"):
        with pytest.raises(PolicyError, match="can't be read"):
            sources.read(wrong)
    link = tmp_path / "link.bundle"
    link.symlink_to(path)
    with pytest.raises(PolicyError, match="can't be read"):
        sources.read(link / "policy.yaml")

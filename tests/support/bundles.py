"""A machine that takes signed policy bundles, and who signs them."""

import json
from pathlib import Path
from typing import Any

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.language.bundle import Bundle
from humanlayer_agent.policy_tools import bundles

READS = '{id: reads, decision: allow, when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}}}'
LOCKED = "{id: no-deletes, decision: deny, locked: true, when: {effect: delete}, tests: {match: [rm x]}}"


def policy_text(*rules: str, name: str = "acme", **head: str) -> str:
    """Return the text of a policy."""
    lines = "".join(f"{key}: {value}\n" for key, value in head.items())
    return f"version: 1\npolicy: {name}\n{lines}rules:\n" + "".join(f"  - {rule}\n" for rule in rules)


class Fleet:
    """The settings of a machine below `root`, and a key whose bundles it takes."""

    def __init__(self, root: Path) -> None:
        self.folder, self.project = root / "etc", root / "project"
        self.root, self.signer = root, Signer()
        self.folder.mkdir(mode=0o755)
        self.project.mkdir()
        self.write("bundle.yaml", f'bundle: acme\nsigners: ["{self.signer.fingerprint}"]\n')

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o644)
        return path

    def files(self, **texts: str) -> Path:
        """A folder with these files (`policy`, or `catalog__frob`)."""
        folder = self.root / "source"
        for old in sorted(folder.rglob("*.yaml")):
            old.unlink()
        for name, text in texts.items():
            path = folder / (name.replace("__", "/") + ".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    def build(self, version: int, *rules: str, expires: str = "2999-12-31", **more: Any) -> Bundle:
        """A signed bundle of a policy with these rules."""
        files = bundles.gathered(self.files(policy=policy_text(*(rules or (READS, LOCKED)))))
        return bundles.build(files, version=version, expires=expires, signer=more.pop("signer", self.signer), **more)[0]

    def install(self, bundle: Bundle | bytes) -> Bundle:
        raw = bundle if isinstance(bundle, bytes) else bundle.text
        return bundles.install(raw, "acme.bundle", folder=self.folder)[0]

    def put(self, bundle: Bundle | bytes) -> None:
        """Have it lie there, as whoever can write the folder could."""
        self.write("policy.bundle", bundle if isinstance(bundle, bytes) else bundle.text)


def resigned(bundle: Bundle, signer: Signer, **changes: Any) -> bytes:
    """A bundle that says something else, signed: what no honest program builds."""
    said = {**json.loads(bundle.statement), **changes, "signer": signer.fingerprint}
    return canonical({**said, "signature": signer.sign_text(canonical(said))})

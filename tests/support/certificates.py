"""A certificate authority for tests, and a certificate of `localhost` by it."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: `authority` is what clients are told to trust, `certificate` and `key` are the server's."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path, host: str = "localhost", *, hours: float = 24) -> Certificates:
    """Write a new authority and a certificate of `host` and 127.0.0.1, good for so many hours from now."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def begun(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named("tests"))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        start, end = now - datetime.timedelta(days=1), now + datetime.timedelta(hours=hours)
        return builder.not_valid_before(start).not_valid_after(end)

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    about = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    authority = (
        begun("tests", root)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(about, critical=False)
        .sign(root, hashes.SHA256())
    )
    names = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        begun(host, own)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(about), critical=False)
        .sign(root, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    found = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    pem = serialization.Encoding.PEM
    found.authority.write_bytes(authority.public_bytes(pem))
    found.certificate.write_bytes(server.public_bytes(pem))
    found.key.write_bytes(own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return found

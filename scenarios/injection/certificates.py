"""A certificate authority for one run: made anew, trusted by those who are told, and gone with its folder."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE: Final = datetime.timedelta(days=1)
_GRACE: Final = datetime.timedelta(hours=1)
"""Back from now, for a machine whose clock is a little behind."""
_SIGNS_CERTIFICATES: Final = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority, as a run needs it.

    certificate: the file that a client has to trust, for example as AWS_CA_BUNDLE. server: speaks TLS under a
    certificate for `localhost` and the loopback addresses.
    """

    certificate: Path
    server: ssl.SSLContext

    def trusting(self) -> ssl.SSLContext:
        """A client's side: this authority counts, and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))


def throwaway_authority(folder: Path, *, now_s: int) -> Authority:
    """Make an authority and a certificate of this machine. Its keys are in `folder`, which its owner alone can read.

    now_s: seconds since 1970; both are good for a day.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = _EPOCH + datetime.timedelta(seconds=now_s)
    key, own_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lockref throw-away authority")])
    authority = (
        _builder(name, name, key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # RFC 5280 wants it beside a path length. Python 3.13 and later check that by default.
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    loopback = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *(x509.IPAddress(each) for each in loopback)])
    certificate = (
        _builder(subject, name, own_key, now)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    trusted, chain = folder / "authority.pem", folder / "server.pem"
    trusted.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    chain.touch(mode=0o600)
    chain.write_bytes(
        own_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return Authority(certificate=trusted, server=context)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _GRACE)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )

"""https with real certificates: the device talks to the server it means, or not at all."""

import datetime
import ipaddress
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from loopback import ONCE, Server, campaign

from privquant.device import Ledger, Patience, Transport, TransportRefused, TryLater

NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "device tests")])


def certificate(folder, address: str, days: int = 1):
    """A self-signed certificate for an address: the file, and the server's context."""
    key = Ed25519PrivateKey.generate()
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, None)
    )
    file, secret = folder / "certificate.pem", folder / "key.pem"
    file.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return file, context


def test_a_server_with_a_trusted_certificate_is_answered(make_device, tmp_path):
    file, context = certificate(tmp_path, "127.0.0.1")
    trusting = Transport(ssl.create_default_context(cafile=str(file)))
    with Server(campaign(), tls=context) as server, trusting:
        for number in range(3):
            device = make_device(tmp_path / f"ledger {number}", transport=trusting)
            assert device.answer(server.invite(), 30).status == "counted"
        assert server.accepted == 1


@pytest.mark.parametrize("fault", ["unknown issuer", "another host", "expired"])
def test_a_certificate_that_is_not_right_is_refused_before_anything_is_said(make_device, tmp_path, ledger, fault):
    address = "127.0.0.2" if fault == "another host" else "127.0.0.1"
    file, context = certificate(tmp_path, address, days=-1 if fault == "expired" else 1)
    tls = ssl.create_default_context(cafile=None if fault == "unknown issuer" else str(file))
    with Server(campaign(), tls=context) as server, Transport(tls) as transport:
        with pytest.raises(TransportRefused, match="no valid certificate") as refusal:
            make_device(transport=transport).answer(server.invite(), 30)
        assert refusal.value.reason == "insecure"
        assert not server.requests
    assert Ledger(ledger).answers("steps") == ()


def test_without_a_context_the_systems_certificates_count(make_device, tmp_path):
    _, context = certificate(tmp_path, "127.0.0.1")
    with Server(campaign(), tls=context) as server, pytest.raises(TransportRefused) as refusal:
        make_device().answer(server.invite(), 30)
    assert refusal.value.reason == "insecure"


def test_a_handshake_that_never_ends_ends_at_the_deadline(make_device, server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        invite = server.campaign.invite(f"https://127.0.0.1:{silent.getsockname()[1]}").to_url()
        with pytest.raises(TryLater) as failure:
            make_device(patience=Patience(total=5, request=0.3, first_pause=30)).answer(invite, 30)
    assert failure.value.reason == "deadline"


def test_plain_text_where_tls_should_be_is_no_answer(make_device, server):
    def plain() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.sendall(b"HTTP/1.1 400 This is plain text\r\n\r\n")
            sock.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=plain, daemon=True).start()
        invite = server.campaign.invite(f"https://127.0.0.1:{listener.getsockname()[1]}").to_url()
        with pytest.raises(TryLater) as failure:
            make_device(patience=ONCE).answer(invite, 30)
    assert failure.value.reason == "unreachable"

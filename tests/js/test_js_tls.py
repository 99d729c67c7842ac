"""https with real certificates: Node talks to the server it means, or not at all, whatever its environment says."""

import json

import pytest
from loopback import Server, campaign
from nodejs import JS, run_node
from test_tls import certificate

CODE = """
const {{ Device, NodeTransport, Policy, NotAnswered }} = await import({module});
import fs from "node:fs";
const rule = {{ domain: {{ kind: "integers", low: 0, high: 100 }}, max_epsilon: 1 }};
const policy = new Policy({{ version: 1, measurements: {{ steps: rule }} }});
const transport = new NodeTransport({tls});
const patience = {{ total: 5, request: 2, firstPause: 30 }};
let found;
try {{
  found = await new Device(policy, {{ ledger: {ledger}, transport, patience }}).answer({invite}, 30);
}} catch (error) {{
  if (!(error instanceof NotAnswered)) throw error;
  found = {{ reason: error.reason, text: error.text }};
}}
transport.close();
console.log(JSON.stringify(found));
"""


def answer(server, ledger, ca=None, **environment) -> dict:
    code = CODE.format(
        module=json.dumps(JS.as_uri() + "/src/node.js"),
        tls=f"{{ tls: {{ ca: fs.readFileSync({json.dumps(str(ca))}) }} }}" if ca else "{}",
        ledger=json.dumps(str(ledger)),
        invite=json.dumps(server.invite()),
    )
    done = run_node("--input-type=module", "-", input=code, env=environment | {"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_server_with_a_trusted_certificate_is_answered(tmp_path, ledger):
    file, context = certificate(tmp_path, "127.0.0.1")
    with Server(campaign(), tls=context) as server:
        assert answer(server, ledger, file)["status"] == "counted"
        assert server.accepted == 1


@pytest.mark.parametrize("environment", [{}, {"NODE_TLS_REJECT_UNAUTHORIZED": "0"}], ids=["plain", "lax"])
@pytest.mark.parametrize("fault", ["unknown issuer", "another host", "expired"])
def test_a_certificate_that_is_not_right_is_refused_before_anything_is_said(tmp_path, ledger, fault, environment):
    address = "127.0.0.2" if fault == "another host" else "127.0.0.1"
    file, context = certificate(tmp_path, address, days=-1 if fault == "expired" else 1)
    with Server(campaign(), tls=context) as server:
        found = answer(server, ledger, None if fault == "unknown issuer" else file, **environment)
        assert found["reason"] == "insecure", found
        assert "no valid certificate" in found["text"]
        assert not server.requests


def test_a_proxy_of_the_environment_is_not_used(server, ledger):
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    assert answer(server, ledger, NODE_USE_ENV_PROXY="1", **proxies)["status"] == "counted"

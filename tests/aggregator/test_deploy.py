"""What is in deploy/: read, checked against the program, and as far as a machine without containers can, run."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from containerfile import Instruction, Root, parse
from fleet import Connection, Fleet
from scene import Scene

from privquant import wire
from privquant.aggregator.settings import Settings
from privquant.server.process import free_port

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
UNPRIVILEGED = 10001

PREFIX = Settings.PREFIX
SETTINGS = {PREFIX + field.name.upper() for field in fields(Settings)} | {
    PREFIX + "CONFIG",
    PREFIX + "SIGNING_KEYS",
}


# -- the image -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image() -> list[Instruction]:
    return parse((DEPLOY / "Containerfile").read_text())


def last(image: list[Instruction], name: str) -> Instruction:
    return [step for step in image if step.name == name][-1]


def test_the_image_runs_as_nobody_in_particular(image: list[Instruction]) -> None:
    user, _, group = last(image, "USER").value.partition(":")
    assert int(user) == int(group) == UNPRIVILEGED
    stages = [place for place, step in enumerate(image) if step.name == "FROM"]
    final = image[stages[-1] :]
    names = [step.name for step in final]
    assert names.index("USER") > max(place for place, name in enumerate(names) if name in ("RUN", "COPY"))
    assert last(image, "ENTRYPOINT").words + last(image, "CMD").words == ["privquant", "serve"]
    assert last(image, "VOLUME").value == "/data"


def test_the_image_names_only_what_there_is(image: list[Instruction]) -> None:
    for step in image:
        if step.name == "COPY" and not step.value.startswith("--from="):
            for source in step.value.split()[:-1]:
                assert (REPOSITORY / source).exists()
                assert f"!{source}" in (REPOSITORY / ".dockerignore").read_text().split()
        if step.name == "FROM":
            assert re.match(r"python:3\.\d+-slim( AS build)?$", step.value)
        if step.name == "ENV":
            assert set(re.findall(r"PRIVQUANT_\w+", step.value)) <= SETTINGS
    environment = dict(re.findall(r"(PRIVQUANT_\w+)=(\S+)", " ".join(s.value for s in image if s.name == "ENV")))
    settings = Settings.gather({}, environment | {"PRIVQUANT_PUBLIC_URL": "https://ask.example.org"})
    settings.check_reachable()
    assert {str(settings.port), str(settings.admin_port)} == set(last(image, "EXPOSE").value.split())
    assert f":{settings.admin_port}/readyz" in last(image, "HEALTHCHECK").value


def test_what_is_no_containerfile_is_found_out() -> None:
    with pytest.raises(ValueError, match="INSTALL"):
        parse("FROM x\nINSTALL privquant")


READ_ONLY = f"""
mount --bind "$0" "$0"
mount -o remount,bind,ro /
if touch /tmp/privquant-writable 2>/dev/null; then echo "the file system is not read-only"; exit 3; fi
exec setpriv --reuid={UNPRIVILEGED} --regid={UNPRIVILEGED} --clear-groups --no-new-privs "$@"
"""


@pytest.mark.full
def test_the_steps_of_the_image_make_a_server_that_runs_without_rights(
    image: list[Instruction], tmp_path: Path
) -> None:
    """Every step in a plain folder; then the entry point, which can write to /data and nowhere else.

    Where the tests run as root it is user 10001, and all file systems but /data are mounted read-only for it.
    """
    folder = Path("/tmp") / f"privquant-image-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        root = Root(folder, REPOSITORY)
        for step in image:
            root.do(step)
        ports = {"PRIVQUANT_PORT": str(free_port()), "PRIVQUANT_ADMIN_PORT": str(free_port())}
        environment = root.environment | ports
        environment |= {"PRIVQUANT_PUBLIC_URL": "https://ask.example.org", "HOME": "/nonexistent"}
        words = last(image, "ENTRYPOINT").words + last(image, "CMD").words
        words[0] = str(root.inside("/opt/privquant/bin/privquant"))
        if os.getuid() == 0:
            words = ["unshare", "--mount", "sh", "-ec", READ_ONLY, str(root.inside("/data")), *words]
        before = {str(place) for place in folder.rglob("*")}
        with (tmp_path / "log").open("wb") as log:
            server = subprocess.Popen(words, env=environment, cwd="/", stdout=log, stderr=log)
        try:
            give_up = time.monotonic() + 120
            while True:
                try:
                    address = f"http://127.0.0.1:{ports['PRIVQUANT_ADMIN_PORT']}/readyz"
                    assert urllib.request.urlopen(address, timeout=5).status == 200
                    break
                except OSError:
                    assert server.poll() is None, (tmp_path / "log").read_text()
                    assert time.monotonic() < give_up
                    time.sleep(0.2)
        finally:
            server.terminate()
            assert server.wait(60) == 0
        made = {str(place) for place in folder.rglob("*")} - before
        assert made
        assert all(place.startswith(str(root.inside("/data"))) for place in made)
    finally:
        shutil.rmtree(folder)


# -- compose, nginx, systemd ---------------------------------------------------------------------------------


def test_the_compose_file_publishes_nothing_but_tls_and_this_machine() -> None:
    form = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = form["services"]
    assert set(services) == {"privquant", "db", "proxy"}
    published = {name: each.get("ports", []) for name, each in services.items()}
    assert published == {"privquant": ["127.0.0.1:8471:8471"], "db": [], "proxy": ["443:443"]}
    assert form["networks"]["back"] == {"internal": True}
    assert services["db"]["networks"] == ["back"]
    assert services["proxy"]["networks"] == ["front"]
    server = services["privquant"]
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])
    assert set(server["environment"]) <= SETTINGS
    values = {name: re.sub(r"\$\{\w+:\?[^}]*\}", "x", value) for name, value in server["environment"].items()}
    Settings.gather({}, values | {"PRIVQUANT_HOST": "0.0.0.0"}).check_reachable()
    assert (
        DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]
    ).resolve() == DEPLOY / "Containerfile"
    for each in services.values():
        assert set(each["networks"]) <= set(form["networks"])
        assert set(each.get("depends_on", {})) <= set(services)
        assert each["logging"]["options"]["max-size"]  # what is on standard output is rotated
        for volume in each["volumes"]:
            source = volume.partition(":")[0]
            assert source in form["volumes"] or source == "./tls" or (DEPLOY / source).is_file()


def test_the_proxy_passes_on_to_devices_only_and_keeps_no_address() -> None:
    text = re.sub(r"#.*", "", (DEPLOY / "nginx.conf").read_text())
    assert text.count("{") == text.count("}")
    statements = [each.strip() for each in re.split(r"[;{}]", text)]
    assert "upstream aggregator" in statements
    assert [each for each in statements if each.startswith("server ")] == ["server privquant:8470"]
    assert "8471" not in text
    assert "access_log off" in statements
    assert "error_log stderr crit" in statements
    assert {"limit_req_status 429", "limit_conn_status 429"} <= set(statements)
    most = re.search(r"client_max_body_size (\d+)m", text)
    assert most is not None
    assert int(most[1]) << 20 == wire.MAX_BATCH_REQUEST


@pytest.fixture
def nginx() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        pytest.fail("nginx is not installed; scripts/system-packages.sh does it")
    return found


def test_devices_answer_through_the_proxy_and_a_flood_is_told_to_come_back(
    scene: Scene, nginx: str, tmp_path: Path
) -> None:
    """The recipe itself, with other ports, a certificate of its own, and paths in a folder."""
    port = free_port()
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    text = (DEPLOY / "nginx.conf").read_text()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    kept = "\n".join(f"    {kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    for old, new in (
        ("privquant:8470;", f"127.0.0.1:{scene.settings.port};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("        http2 on;\n", ""),  # a word of 1.25, which Debian's 1.22 does not know
        ("/etc/nginx/tls/", f"{tmp_path}/"),
        ("pid /run/nginx.pid;", f"pid {tmp_path}/pid; daemon off; master_process off;"),
        ("    server_tokens off;", f"    server_tokens off;\n{kept}"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "nginx.conf").write_text(text)
    command = [nginx, "-p", str(tmp_path), "-e", str(tmp_path / "error.log"), "-c", str(tmp_path / "nginx.conf")]
    proxy = subprocess.Popen(command, stderr=(tmp_path / "said").open("wb"))
    try:
        while True:
            assert proxy.poll() is None, (tmp_path / "said").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        found = asyncio.run(_through(scene, port))
    finally:
        proxy.terminate()
        proxy.wait(30)
    assert found["counted"] == 5
    assert found["admin"] == 404
    assert found["flood"] & {429}
    assert found["later"] == "5"
    said = (tmp_path / "said").read_text() + (tmp_path / "error.log").read_text()
    assert "127.0.0.1" not in said


async def _through(scene: Scene, port: int) -> dict[str, Any]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    campaign = scene.campaign()
    tokens = scene.tokens(campaign, 5)

    async def send(method: str, path: str, body: bytes = b"") -> tuple[int, str, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        head = [f"{method} {path} HTTP/1.1", "host: x", "connection: close", f"content-length: {len(body)}", "", ""]
        writer.write("\r\n".join(head).encode() + body)
        answer, _, found = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        later = re.search(rb"(?i)retry-after: (\S+)", answer)
        return int(answer.split()[1]), later[1].decode() if later else "", found

    counted = 0
    for token in tokens:
        status, _, found = await send("POST", wire.path_of(campaign, "query"), wire.query_request(token))
        assert status == 200
        report = wire.WireReport(token, wire.Ticket.parse(found).ticket, 1).to_bytes()
        counted += (await send("POST", wire.path_of(campaign, "reports"), report))[0] == 201
    admin = (await send("GET", "/metrics"))[0]
    flood = [await send("GET", wire.path_of(campaign, "manifest")) for _ in range(80)]
    return {
        "counted": counted,
        "admin": admin,
        "flood": {status for status, _, _ in flood},
        "later": next((later for status, later, _ in flood if status == 429), ""),
    }


def test_the_unit_is_one_systemd_takes(tmp_path: Path) -> None:
    text = (DEPLOY / "privquant.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert service["DynamicUser"] == "yes"
    assert service["ExecStart"].startswith("/opt/privquant/bin/privquant serve --config ")
    assert set(re.findall(r"PRIVQUANT_\w+", service["Environment"])) <= SETTINGS
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return  # where there is no systemd, what stands above is what can be said
    place = tmp_path / "privquant.service"
    place.write_text(text.replace("/opt/privquant/bin/privquant", "/bin/true"))
    done = subprocess.run([analyze, "verify", str(place)], capture_output=True, text=True, check=False)
    about_it = [line for line in done.stderr.splitlines() if "privquant" in line]
    assert (done.returncode, about_it) == (0, [])


# -- metrics -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(scene: Scene) -> str:
    """What /metrics says after devices have answered, one has been refused and one has answered twice."""
    campaign = scene.campaign(measurement="on-the-dashboard")
    tokens = scene.tokens(campaign, 70)
    asyncio.run(Fleet("127.0.0.1", scene.settings.port, campaign, tokens).run(8, replays=0.2))

    async def forge() -> None:
        line = Connection("127.0.0.1", scene.settings.port)
        body = wire.WireReport(wire.new_token(), "A" * 40, 1).to_bytes()
        assert (await line.request("POST", wire.path_of(campaign, "reports"), body))[0] == 403
        line.close()

    asyncio.run(forge())
    return str(scene.call("GET", "/metrics"))


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"privquant_\w+", expression))


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    alerts = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    found += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    assert len(found) > 15
    return found


def test_every_metric_of_the_dashboard_and_the_alerts_is_there(told: str) -> None:
    there = set(re.findall(r"^(privquant_\w+)[ {]", told, re.M))
    wanted = set().union(*[names_in(expression) for expression in expressions()])
    assert wanted <= there
    assert names_in("rate(privquant_no_such_total[5m])") - there  # the twin
    labels = {name: set(re.findall(rf"^{name}\{{(.*?)\}}", told, re.M)) for name in wanted}
    for expression in expressions():
        for name, label in re.findall(r"(privquant_\w+)\{(\w+)=", expression):
            assert any(f"{label}=" in each for each in labels[name]), (name, label)


def test_panels_do_not_lie_on_each_other() -> None:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    places = []
    for grid in (each["gridPos"] for each in panels):
        columns, rows = range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
        places += [(x, y) for x in columns for y in rows]
    assert len(places) == len(set(places))
    assert len({each["id"] for each in panels}) == len(panels)


def test_metrics_of_a_campaign_are_those_of_its_snapshot(told: str, scene: Scene) -> None:
    (heard,) = re.findall(r'^privquant_campaign_heard\{.*measurement="on-the-dashboard"\} (\S+)', told, re.M)
    assert 0 <= float(heard) <= 70 - 32
    assert re.search(r'^privquant_campaign_planned_users\{.*"on-the-dashboard"\} 100000\.0$', told, re.M)
    assert re.search(r'^privquant_campaign_alarms\{.*"on-the-dashboard"\} 0\.0$', told, re.M)
    assert re.search(r"^privquant_ready 1\.0$", told, re.M)
    for line in scene.call("GET", "/v1/campaigns"):
        assert line["id"] not in told

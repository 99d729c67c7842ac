"""A node: an organisation with many users in a file, or one person with one value.

Its folder (`folder` in the node's configuration; in simulation FOLDER/PARTITION-ID of the run's) has

    policy.toml    what may be asked here, as on a device: measurement, domain, epsilon
    values.csv     or values.parquet: one row a user, in the column named like the measurement
    value          or instead: one number, of one person

Flower keeps a node's state for one run only, so it is no ledger. The ledger is in the folder: nobody is asked
twice, whatever run, round or retry asks.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from privquant.device.policy import load_policy
from privquant.engines import KeptPartition, OneUser, Partition
from privquant.errors import InvalidInput, PrivquantError
from privquant_flower.messages import packed, questions, reply_form, unpacked

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    asked = unpacked(message.content)
    try:
        held = partition(folder_of(context), asked["measurement"])
        if asked["kind"] == "open":
            found: dict[str, object] = {"users": held.open(asked["campaign"])}
        else:
            answered = held.answer(asked["campaign"], int(asked["round"]), questions(asked["asked"]))
            found = {"answered": reply_form(answered)}  # type: ignore[arg-type]
    except PrivquantError as error:
        found = {"refused": str(error)}
    return Message(packed(found), reply_to=message)


def folder_of(context: Context) -> Path:
    named = context.node_config.get("folder")
    if named:
        return Path(str(named))
    root = context.run_config.get("folder")
    if not root:
        raise InvalidInput("this node has no folder: give one by --node-config 'folder=\"...\"'")
    return Path(str(root)) / str(context.node_config["partition-id"])


def partition(folder: Path, measurement: str) -> Partition:
    """What this node holds, under its own policy."""
    policy = load_policy(folder / "policy.toml")
    rule = policy.measurements.get(measurement)
    if rule is None:
        raise InvalidInput(f"this node's policy has no measurement {measurement!r}")
    if (folder / "value").exists():
        return OneUser(float((folder / "value").read_text()), policy, measurement)
    for name in ("values.parquet", "values.csv"):
        if (folder / name).exists():
            return KeptPartition.of_file(folder / name, measurement, rule)
    raise InvalidInput("this node's folder has neither values.parquet nor values.csv nor value")

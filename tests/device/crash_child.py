"""Runs devices that kill themselves: one real process and one real SIGKILL for each order read from standard input.

The device is the shipped one. Its system calls are counted from outside: before and after each of them, and in the
middle of each write, is a point at which the process may be told to die.
"""

import fcntl
import json
import os
import signal
import sys

from privquant.device import (
    Device,
    Ledger,
    Patience,
    Policy,
    Rule,
    ShuffleRule,
    client,
    ledger,
    transport,
    trust_models,
)
from privquant.device.answer_states import Event, State
from privquant.domain import Integers


class Countdown:
    """Dies at the given point; else counts them."""

    def __init__(self, kill_at):
        self.kill_at = kill_at
        self.points = []

    def point(self, name):
        self.points.append(name)
        if len(self.points) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def around(countdown, name, function):
    def call(*args, **kwargs):
        countdown.point(f"before {name}")
        result = function(*args, **kwargs)
        countdown.point(f"after {name}")
        return result

    return call


class System:
    """A module as the ledger sees it, with some functions replaced."""

    def __init__(self, module, **replaced):
        self._module = module
        vars(self).update(replaced)

    def __getattr__(self, name):
        return getattr(self._module, name)


def arm(countdown):
    def torn(file, data, place):
        half = len(data) // 2
        countdown.point("before write")
        os.pwrite(file, data[:half], place)
        countdown.point("within write")
        os.pwrite(file, data[half:], place + half)
        countdown.point("after write")
        return len(data)

    names = ("open", "close", "fsync", "ftruncate")
    wrapped = {name: around(countdown, name, getattr(os, name)) for name in names}
    ledger.os = System(os, pwrite=torn, **wrapped)
    ledger.fcntl = System(fcntl, flock=around(countdown, "lock", fcntl.flock))
    paced = transport._Paced
    paced.sendall = around(countdown, "send", paced.sendall)
    paced.receive_into = around(countdown, "receive", paced.receive_into)
    client.Coin.throw = around(countdown, "throw", client.Coin.throw)
    trust_models.wire.seal = around(countdown, "seal", trust_models.wire.seal)


class Forgetful(Ledger):
    """The mistake the harness must find: the bit is written down when it is acknowledged, not before it leaves."""

    def prepare(self, measurement, campaign, draw):
        self.drawn = draw(self.answers(measurement))
        return self.drawn

    def advance(self, answer, event):
        if event is Event.SEND:
            object.__setattr__(answer, "state", State.SENT)
            return answer
        super().prepare(answer.measurement, answer.campaign, lambda so_far: answer)
        super().advance(self.drawn, Event.SEND)
        return super().advance(self.drawn, Event.ACK)


def run(order) -> None:
    countdown = Countdown(order["kill_at"])
    arm(countdown)
    rule = Rule(Integers(0, 100), max_epsilon=40, shuffle=ShuffleRule(40, 1e-6))
    kind = Forgetful if order["forgetful"] else Ledger
    patience = Patience(total=20, request=10, first_pause=0.01)
    device = Device(Policy({"steps": rule}, order["ledger"]), ledger=kind(order["ledger"]), patience=patience)
    receipt = device.answer(order["invite"], order["value"])
    os.write(1, json.dumps({"points": countdown.points, "bit": receipt.bit}).encode() + b"\n")


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(json.loads(line))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.write(1, json.dumps({"killed": killed, "status": status}).encode() + b"\n")


if __name__ == "__main__":
    main()

// A device in Node that kills itself: one real process and one real SIGKILL for the order in its argument.
//
// The device is the shipped one. Its system calls are counted from outside: before and after each of them, and in the
// middle of each write, is a point at which the process may be told to die.

import child from "node:child_process";
import fs from "node:fs";
import net from "node:net";

import { SEND } from "../../js/src/answers.js";
import { Device, FileLedger, NodeTransport, Policy } from "../../js/src/node.js";

const order = JSON.parse(process.argv[2]);
const points = [];

function point(name) {
  points.push(name);
  if (points.length === order.kill_at) process.kill(process.pid, "SIGKILL");
}

function around(owner, method, name) {
  const bare = owner[method];
  owner[method] = function call(...args) {
    point(`before ${name}`);
    const result = bare.apply(this, args);
    point(`after ${name}`);
    return result;
  };
}

function arm() {
  const write = fs.writeSync;
  fs.writeSync = (file, bytes, from, length, place) => {
    const half = length >> 1;
    point("before write");
    write(file, bytes, from, half, place);
    point("within write");
    write(file, bytes, from + half, length - half, place + half);
    point("after write");
    return length;
  };
  around(fs, "openSync", "open");
  around(fs, "closeSync", "close");
  around(fs, "fsyncSync", "fsync");
  around(fs, "ftruncateSync", "ftruncate");
  around(child, "spawn", "lock");
  around(crypto, "getRandomValues", "throw");
  around(net.Socket.prototype, "write", "send");
  const { send } = NodeTransport.prototype;
  NodeTransport.prototype.send = async function receiving(...args) {
    const response = await send.apply(this, args);
    point("after receive");
    return response;
  };
}

/** The mistake the harness must find: the bit is written down when it is acknowledged, not before it leaves. */
class Forgetful extends FileLedger {
  async prepare(measurement, campaign, draw) {
    this.drawn = { ...draw(await this.answers(measurement)), state: "prepared" };
    return this.drawn;
  }

  async advance(answer, event) {
    if (event === SEND) return { ...answer, state: "sent" };
    await super.prepare(answer.measurement, answer.campaign, () => answer);
    await super.advance(this.drawn, SEND);
    return super.advance(this.drawn, event);
  }
}

const shuffle = { max_local_epsilon: 40, max_delta: "1e-6" };
const rule = { domain: { kind: "integers", low: 0, high: 100 }, max_epsilon: 40, shuffle };
const policy = new Policy({ version: 1, measurements: { steps: rule } });
const ledger = new (order.forgetful ? Forgetful : FileLedger)(order.ledger);
const patience = { total: 20, request: 10, firstPause: 0.01 };
const device = new Device(policy, { ledger, patience });
arm();
const receipt = await device.answer(order.invite, order.value);
fs.writeFileSync(1, JSON.stringify({ points, bit: receipt.bit }));

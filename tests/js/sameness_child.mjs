// Which code of the device runs for an answer, block by block, by V8's own count: for each order on standard input the
// bit and a line for each block with how often it ran.

import inspector from "node:inspector";
import readline from "node:readline";

import { Coin } from "../../js/src/coin.js";
import { Device, Policy } from "../../js/src/node.js";

if (process.argv[2] === "branching") {
  const { report } = Coin.prototype;
  Coin.prototype.report = function branching(bit, draw) {
    if (bit) return report.call(this, bit, draw);
    return report.call(this, 0, draw);
  };
}

const session = new inspector.Session();
session.connect();
const post = (method, params) =>
  new Promise((resolve, reject) => {
    session.post(method, params, (error, result) => (error ? reject(error) : resolve(result)));
  });

/** Every block and its count, but for reading from sockets, where how a message is cut is up to the network. */
async function blocks() {
  const { result } = await post("Profiler.takePreciseCoverage");
  const ours = result.filter(({ url }) => /\/js\/src\/|sameness_child/.test(url) && !url.includes("transport"));
  return ours.flatMap(({ url, functions }) =>
    functions.flatMap(({ functionName, ranges }) =>
      ranges.map(({ startOffset, endOffset, count }) => `${url} ${functionName} ${startOffset} ${endOffset} ${count}`),
    ),
  );
}

await post("Profiler.enable");
await post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
const shuffle = { max_local_epsilon: 5, max_delta: "1e-6" };
const rule = { domain: { kind: "integers", low: 0, high: 100 }, max_epsilon: 1, shuffle };
const policy = new Policy({ version: 1, measurements: { steps: rule } });
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { ledger, invite, value } = JSON.parse(line);
  const device = new Device(policy, { ledger });
  await blocks();
  const { bit } = await device.answer(invite, value);
  const ran = (await blocks()).sort(); // with those of count 0, by which V8 tells a branch that was not taken
  console.log(JSON.stringify({ bit, ran }));
}

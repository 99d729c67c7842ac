// Devices for the tests: an order a line on standard input, what came of it a line on standard output.

import readline from "node:readline";

import { Device, FetchTransport, InvalidInput, NodeTransport, NotAnswered, Policy } from "../../js/src/node.js";

const kind = process.argv[2] === "fetch" ? FetchTransport : NodeTransport;
const shared = new Map();

function transportOf(name) {
  if (name === null) return {};
  if (!shared.has(name)) shared.set(name, new kind());
  return { transport: shared.get(name) };
}

function valueOf(form) {
  if (form.whole !== undefined) return Number.isSafeInteger(Number(form.whole)) ? Number(form.whole) : BigInt(form.whole);
  return form.real === undefined ? form.other : Number(form.real);
}

async function answer(order) {
  try {
    const policy = Policy.parse(new TextEncoder().encode(order.policy));
    const { ledger, patience } = order;
    const options = { ledger, patience, makeTransport: () => new kind(), ...transportOf(order.transport) };
    const receipt = await new Device(policy, options).answer(order.invite, valueOf(order.value));
    return { receipt: { ...receipt, asked: typeof receipt.asked === "bigint" ? String(receipt.asked) : receipt.asked } };
  } catch (error) {
    if (error instanceof InvalidInput) return { kind: error.name, text: error.message };
    if (!(error instanceof NotAnswered)) return { kind: "crash", text: error.stack };
    const { name, reason, text, retryAfter = null } = error;
    return { kind: name, reason, text, retry_after: retryAfter };
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  answer(order).then((said) => process.stdout.write(`${JSON.stringify({ id: order.id, ...said })}\n`));
}
process.exit(0);

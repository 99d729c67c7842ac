// Throws the shipped coin for the audit: `node throw.mjs EPSILON INPUT DRAWS [BIAS]` prints one bit a line.
//
// BIAS is the twin that must be caught: every BIAS-th flip is left out, so that the coin is too honest.

import { Coin } from "../../js/src/coin.js";
import { respond } from "../../js/src/device.js";

const [epsilon, input, draws, bias] = process.argv.slice(2).map(Number);
const coin = Coin.of(epsilon);
const index = BigInt(input); // on one side of the threshold or the other
const honest = Number(index <= 50n);
let flips = 0;

function thrown() {
  const bit = respond(coin, index, 50n);
  if (bit === honest) return bit;
  flips += 1;
  return bias && flips % bias === 0 ? honest : bit;
}

const lines = [];
for (let k = 0; k < draws; k += 1) lines.push(thrown());
process.stdout.write(`${lines.join("\n")}\n`);

#!/usr/bin/env node
// `privquant-device answer`: answer one question about one value, from a shell or from cron.
//
// Exit codes: 0 answered (now or before), 2 wrong use, 3 refused, 4 try again later.

import fs from "node:fs";
import { parseArgs } from "node:util";

import { Device, InvalidInput, Integers, NotAnswered, TryLater, loadPolicy } from "../src/node.js";

const USAGE = `Usage: privquant-device answer INVITE [VALUE] [--policy policy.json] [--ledger FILE]
                               [--code CODE] [--patience SECONDS] [--json]

Answer the question of an invite with one bit, through a biased coin, if the policy allows it.
The value stays here; left out or '-', it is read from standard input.

Exit codes: 0 answered (now or before), 2 wrong use, 3 refused for good, 4 not now, try again later.`;

const WRONG_USE = 2;
const REFUSED = 3;
const TRY_LATER = 4;
const LONGEST_VALUE = 1000; // a value is one number; more than this is a mistake
const OPTIONS = {
  policy: { type: "string", default: process.env.PRIVQUANT_POLICY ?? "policy.json" },
  ledger: { type: "string", default: process.env.PRIVQUANT_LEDGER },
  code: { type: "string" },
  patience: { type: "string", default: "60" },
  json: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
};

/** A whole number exactly, whatever its size; anything else as a double. */
function numberOf(text) {
  const word = text.trim();
  if (word.length <= LONGEST_VALUE) {
    if (/^[+-]?[0-9]+$/.test(word)) return BigInt(word.replace("+", ""));
    if (/^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/.test(word)) return Number(word);
    if (/^[+-]?inf(inity)?$/i.test(word)) return word.startsWith("-") ? -Infinity : Infinity;
  }
  throw new InvalidInput(`the value must be one number, got ${JSON.stringify(word.slice(0, 60))}`);
}

/** The arguments, where a value such as -5 is a value and not an option. */
function argumentsOf(words) {
  const values = [];
  const rest = words.filter((word) => !(/^-[0-9.]/.test(word) && values.push(word)));
  const { values: options, positionals } = parseArgs({ args: rest, options: OPTIONS, allowPositionals: true });
  return { options, positionals: [...positionals, ...values] };
}

function sayIfClamped(value, domain) {
  if (!(domain instanceof Integers) || (value >= domain.low && value <= domain.high)) return;
  const end = value < domain.low ? domain.low : domain.high;
  console.error(`privquant: ${value} lies outside ${domain.low} .. ${domain.high} and was taken as ${end}`);
}

function sentNow(receipt) {
  return receipt.status === "counted" || receipt.status === "accepted";
}

function sentence(receipt) {
  const how = sentNow(receipt) ? "Answered" : "Answered before, and no further bit leaves";
  const more = receipt.shuffled;
  const sealed = more ? `, sealed to the issuer, in round ${more.round}` : "";
  const sums = more
    ? `epsilon ${receipt.spent} of ${receipt.lifetime}, delta ${more.spent_delta} of ${more.lifetime_delta}, ` +
      `local epsilon ${more.spent_local_epsilon} of ${more.lifetime_local_epsilon}`
    : `${receipt.spent} of ${receipt.lifetime}`;
  return (
    `${how}: is ${receipt.measurement} at most ${receipt.asked}? ` +
    `The one bit that left this device${sealed} is ${receipt.bit}. ${receipt.guarantee} ` +
    `Spent so far on this measurement: ${sums}.`
  );
}

/** JSON with whole numbers of any size: those beyond 2^53 stand there in full. */
function jsonOf(form) {
  const given = Object.entries(form).filter(([, value]) => value !== undefined);
  const fields = given.map(
    ([name, value]) => `${JSON.stringify(name)}: ${typeof value === "bigint" ? value : JSON.stringify(value)}`,
  );
  return `{${fields.join(", ")}}`;
}

function tellRefusal(refusal, asJson) {
  const later = refusal instanceof TryLater;
  const { reason, text } = refusal;
  if (asJson) {
    const form = { answered: false, final: !later, reason, text };
    console.log(jsonOf(later ? { ...form, retry_after: refusal.retryAfter } : form));
  } else {
    console.error(`privquant: ${later ? "try later" : "refused"} (${reason}): ${text}`);
  }
  return later ? TRY_LATER : REFUSED;
}

async function answer([invite, value], options) {
  const policy = loadPolicy(options.policy);
  const number = numberOf(value === undefined || value === "-" ? fs.readFileSync(0, "utf8") : value);
  const total = Number(options.patience);
  const patience = { total, request: Math.min(10, total) };
  const device = new Device(policy, { patience, ...(options.ledger ? { ledger: options.ledger } : {}) });
  try {
    const receipt = await device.answer(invite, number, { code: options.code ?? null });
    if (sentNow(receipt)) sayIfClamped(number, policy.measurements.get(receipt.measurement).domain);
    console.log(options.json ? jsonOf({ answered: true, ...receipt, shuffled: undefined, ...receipt.shuffled }) : sentence(receipt));
    return 0;
  } catch (error) {
    if (error instanceof NotAnswered) return tellRefusal(error, options.json);
    throw error;
  }
}

async function main(words) {
  try {
    const { options, positionals } = argumentsOf(words);
    if (options.help) {
      console.log(USAGE);
      return 0;
    }
    const [verb, ...rest] = positionals;
    if (verb !== "answer" || rest.length < 1 || rest.length > 2) throw new InvalidInput(USAGE);
    return await answer(rest, options);
  } catch (error) {
    const parsing = String(error.code).startsWith("ERR_PARSE_ARGS");
    if (!(error instanceof InvalidInput) && !parsing) throw error;
    console.error(error.message === USAGE ? USAGE : `privquant: ${error.message}`);
    return WRONG_USE;
  }
}

process.exitCode = await main(process.argv.slice(2));

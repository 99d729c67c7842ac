// The ledger in a browser: an IndexedDB database, one for each origin.
//
// Every step is one read-write transaction of strict durability, and the browser runs those one after another, in
// whatever tab they were begun. The coin is thrown inside the transaction that writes the bit down. What cannot be
// opened, read or understood refuses; nothing starts afresh. docs/device-js.md says what a browser cannot promise.

import { DRAW, UNDRAWN, checkAnswer, contradicted, sameAnswer, step } from "./answers.js";
import { LedgerRefused, NotAnswered, TryLater } from "./refusals.js";

const NAME = "privquant ledger";
const VERSION = 2;
const ANSWERS = "answers";
const SECRET = "secret";
const ANNOUNCED = "announced"; // since version 2: by campaign, a Map from rounds to thresholds

/** The ledger of this origin. patience: how many seconds to wait for another tab's step before giving up. */
export class IndexedDbLedger {
  constructor({ name = NAME, patience = 10 } = {}) {
    this.name = name;
    this.patience = patience;
  }

  /** Ask the browser to keep this origin's data when space runs short; whether it will. Some browsers ask the user. */
  static async persist() {
    return (await globalThis.navigator?.storage?.persist?.()) ?? false;
  }

  /** All answers about a measurement. */
  answers(measurement) {
    return this.#step((stores, done) => readAll(stores, (all) => done(of(all, measurement))));
  }

  /** The answer to this campaign, whatever measurement it was about, or null. */
  find(campaign) {
    return this.#step((stores, done) =>
      readAll(stores, (all) => done(all.find((answer) => answer.campaign === campaign) ?? null)),
    );
  }

  /** 32 bytes that are always the same for this ledger; on disk before they are returned. */
  secret() {
    return this.#step((stores, done) => {
      then(stores[SECRET].get(SECRET), (kept) => {
        if (kept !== undefined) {
          if (!(kept instanceof Uint8Array) || kept.length !== 32) throw corrupt("its secret is not 32 bytes");
          return done(kept);
        }
        const made = crypto.getRandomValues(new Uint8Array(32));
        return then(stores[SECRET].add(made, SECRET), () => done(made));
      });
    });
  }

  /** As FileLedger.prepare: the answer in the ledger or, if there is none, the one `draw` makes, at most once. */
  prepare(measurement, campaign, draw) {
    return this.#step((stores, done) => {
      readAll(stores, (all) => {
        const soFar = of(all, measurement);
        const known = soFar.find((answer) => answer.campaign === campaign);
        if (known !== undefined) return done(known);
        const answer = checkAnswer({ ...draw(soFar), state: step(UNDRAWN, DRAW) });
        return then(stores[ANSWERS].add(answer), () => done(answer));
      });
    });
  }

  /** As FileLedger.advance: the answer in the state it has after `event`. */
  advance(answer, event) {
    return this.#step((stores, done) => {
      readAll(stores, (all) => {
        const known = of(all, answer.measurement).find((each) => each.campaign === answer.campaign);
        if (known === undefined || !sameAnswer(known, answer)) {
          throw corrupt("it no longer holds an answer that it held before");
        }
        const after = checkAnswer({ ...known, state: step(known.state, event) });
        return then(stores[ANSWERS].put(after), () => done(after));
      });
    });
  }

  /** As FileLedger.noteRound: the first round that was announced to this device otherwise before, else undefined. */
  noteRound(campaign, thresholds) {
    return this.#step((stores, done) => {
      then(stores[ANNOUNCED].get(campaign), (kept = new Map()) => {
        if (!(kept instanceof Map)) throw corrupt("its rounds are not a Map");
        const other = contradicted(kept, thresholds);
        const last = thresholds.length - 1;
        if (other !== undefined || kept.has(last)) return done(other);
        return then(stores[ANNOUNCED].put(kept.set(last, thresholds[last]), campaign), () => done(undefined));
      });
    });
  }

  /** One transaction: `work` is given the stores and a function for its result. Resolved when it is on disk. */
  async #step(work) {
    const database = await this.#open();
    try {
      return await this.#transaction(database, work);
    } finally {
      database.close();
    }
  }

  #transaction(database, work) {
    return new Promise((resolve, reject) => {
      let result;
      let failure = null;
      const names = [ANSWERS, SECRET, ANNOUNCED];
      const transaction = database.transaction(names, "readwrite", { durability: "strict" });
      if (transaction.durability !== "strict") {
        transaction.abort();
        reject(new LedgerRefused("ledger-unwritable", "this browser cannot promise that what it stores is on disk"));
        return;
      }
      const fail = (error) => {
        failure ??= error;
        transaction.abort();
      };
      const timer = setTimeout(
        () => fail(new TryLater("ledger-busy", `another tab has held the ledger for ${this.patience} s`)),
        1000 * this.patience,
      );
      transaction.oncomplete = () => {
        clearTimeout(timer);
        resolve(result);
      };
      transaction.onabort = () => {
        clearTimeout(timer);
        reject(failure ?? unwritable(transaction.error));
      };
      const stores = {};
      for (const name of names) stores[name] = guarded(transaction.objectStore(name), fail);
      work(stores, (value) => {
        result = value;
      });
    });
  }

  #open() {
    return new Promise((resolve, reject) => {
      let request;
      try {
        request = indexedDB.open(this.name, VERSION);
      } catch (error) {
        reject(unreadable(error));
        return;
      }
      request.onupgradeneeded = ({ oldVersion }) => {
        if (oldVersion < 1) {
          request.result.createObjectStore(ANSWERS, { keyPath: ["measurement", "campaign"] });
          request.result.createObjectStore(SECRET);
        }
        request.result.createObjectStore(ANNOUNCED);
      };
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => {
        const newer = new LedgerRefused("ledger-version", `the ledger has a newer version than ${VERSION}`);
        reject(request.error.name === "VersionError" ? newer : unreadable(request.error));
      };
    });
  }
}

function corrupt(text) {
  return new LedgerRefused("ledger-corrupt", `the ledger is corrupt: ${text}`);
}

function unreadable(error) {
  return new LedgerRefused("ledger-unreadable", `the browser does not give access to its database: ${error.message}`, {
    cause: error,
  });
}

function unwritable(error) {
  return new LedgerRefused("ledger-unwritable", `the ledger cannot be written: ${error?.message ?? "given up"}`, {
    cause: error ?? undefined,
  });
}

/** A store whose requests carry the transaction's way to fail, so that an exception in a callback ends the step. */
function guarded(store, fail) {
  const carry = (method) => (...args) => Object.assign(store[method](...args), { fail });
  return { get: carry("get"), getAll: carry("getAll"), add: carry("add"), put: carry("put") };
}

/** Call `next` with the result of a request, inside the same transaction. */
function then(request, next) {
  request.onsuccess = () => {
    try {
      next(request.result);
    } catch (error) {
      request.fail(error);
    }
  };
}

function of(all, measurement) {
  return all.filter((answer) => answer.measurement === measurement);
}

function readAll(stores, next) {
  then(stores[ANSWERS].getAll(), (all) => next(all.map(checked)));
}

function checked(record) {
  try {
    return checkAnswer(record);
  } catch (error) {
    throw error instanceof NotAnswered ? error : corrupt(error.message);
  }
}

// The ledger in a file, for Node: what was drawn about each measurement, kept so that it is never drawn again.
//
// It promises what the Python device's ledger promises, on the same file:
// - before any byte of an answer leaves, the answer and the file it stands in will survive a power cut: SEND is
//   synced, and with it all that was written before; the first SEND also syncs the directory entry. DRAW and ACK need
//   no sync of their own: a power cut that takes back a DRAW takes back a bit that never left, one that takes back an
//   ACK costs one resend of the same bit;
// - steps are atomic: a process killed at any instruction leaves the step made or not made;
// - any number of processes may use one ledger, Python's among them: every step reads, checks and writes under an
//   exclusive flock, which is never held across a network call;
// - a ledger that cannot be read, understood, locked or written refuses; it never starts afresh.

import child from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import { DRAW, SEND, UNDRAWN, checkAnswer, contradicted, sameAnswer, step } from "./answers.js";
import { LARGEST, readLedger } from "./ledger-format.js";
import { LedgerRefused, TryLater } from "./refusals.js";

const LOCK_PAUSE = 20;
const { O_RDWR, O_CREAT, O_NONBLOCK, O_RDONLY, O_DIRECTORY } = fs.constants;

// Node has no flock of its own. A lock belongs to the open file and not to the process that took it, so that a child
// which is given the file can take the lock for its parent. Each ends with 0 (taken), 1 (another has it), else a fault.
const PERL = 'open(F, "+<&=", 3) or exit 2; exit(flock(F, 6) ? 0 : $!{EWOULDBLOCK} ? 1 : 2)';
const LOCKERS = [
  ["flock", ["-x", "-n", "3"]],
  ["perl", ["-MErrno", "-e", PERL]],
];

/**
 * The ledger in the file at `place`. makeDirectory: make the directory it lies in. Off by default: a directory that is
 * not there may be a disk that is not mounted, and a fresh ledger would forget what was already answered. patience:
 * how many seconds to wait for the lock before giving up.
 */
export class FileLedger {
  constructor(place, { makeDirectory = false, patience = 10 } = {}) {
    this.path = place;
    this.makeDirectory = makeDirectory;
    this.patience = patience;
  }

  /** All answers about a measurement in the order they were drawn. */
  answers(measurement) {
    return this.#locked(async (file) => (await read(file)).of(measurement));
  }

  /** The answer to this campaign, whatever measurement it was about, or null. */
  find(campaign) {
    return this.#locked(async (file) => {
      const found = (await read(file)).all().find((answer) => answer.campaign === campaign);
      return found ?? null;
    });
  }

  /** 32 bytes that are always the same for this ledger; on disk before they are returned. */
  secret() {
    return this.#locked(async (file) => {
      const book = await read(file);
      if (book.length === 0) {
        this.#write(file, book.length, await book.start());
        this.#sync(file, true);
      }
      return book.secret;
    });
  }

  /**
   * The answer to this campaign: the one in the ledger or, if there is none, the one `draw` makes. `draw` is given all
   * answers about the measurement so far. It runs under the lock, at most once, and may refuse by throwing, which
   * leaves the ledger as it was.
   */
  prepare(measurement, campaign, draw) {
    return this.#locked(async (file) => {
      const book = await read(file);
      const soFar = book.of(measurement);
      const known = soFar.find((answer) => answer.campaign === campaign);
      if (known !== undefined) return known;
      const answer = checkAnswer({ ...draw(soFar), state: step(UNDRAWN, DRAW) });
      this.#write(file, book.length, await book.append(DRAW, answer));
      return answer;
    });
  }

  /**
   * Record that `answer` is about to be sent, or that it was acknowledged; gives it in its new state. The state in the
   * ledger counts, not the one `answer` carries: another process may have gone further.
   */
  advance(answer, event) {
    return this.#locked(async (file) => {
      const book = await read(file);
      const known = book.answers.get(answer.measurement)?.get(answer.campaign);
      if (known === undefined || !sameAnswer(known, answer)) {
        throw new LedgerRefused("ledger-corrupt", "the ledger no longer holds an answer that it held before");
      }
      const after = checkAnswer({ ...known, state: step(known.state, event) });
      if (after.state !== known.state) {
        this.#write(file, book.length, await book.append(event, after));
        if (event === SEND) this.#sync(file, !book.hasSent);
      }
      return after;
    });
  }

  /**
   * Remember how rounds were announced; the first round that was announced to this device otherwise before, else
   * undefined. thresholds: of all rounds from 0 to the one that is asked.
   */
  noteRound(campaign, thresholds) {
    return this.#locked(async (file) => {
      const book = await read(file);
      const seen = book.announced.get(campaign) ?? new Map();
      const other = contradicted(seen, thresholds);
      const last = thresholds.length - 1;
      if (other === undefined && !seen.has(last)) {
        this.#write(file, book.length, await book.appendAnnounced(campaign, last, thresholds[last]));
      }
      return other;
    });
  }

  async #locked(work) {
    let file;
    try {
      if (this.makeDirectory) makeDirectories(path.dirname(path.resolve(this.path)));
      file = fs.openSync(this.path, O_RDWR | O_CREAT | O_NONBLOCK, 0o600);
    } catch (error) {
      throw this.#refused("ledger-unreadable", "opened for writing", error);
    }
    try {
      if (!fs.fstatSync(file).isFile()) {
        throw new LedgerRefused("ledger-unreadable", `the ledger ${this.path} is not a regular file`);
      }
      await this.#lock(file);
      return await work(file);
    } finally {
      fs.closeSync(file); // and with it the lock
    }
  }

  async #lock(file) {
    const giveUp = performance.now() + 1000 * this.patience;
    for (;;) {
      const code = await tryLock(file);
      if (code === 0) return;
      if (code !== 1) {
        throw new LedgerRefused(
          "ledger-unreadable",
          `the ledger ${this.path} cannot be locked: that needs the program flock or perl, ` +
            "and a file system with locks",
        );
      }
      if (performance.now() >= giveUp) {
        throw new TryLater("ledger-busy", `another process has held the ledger ${this.path} for ${this.patience} s`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOCK_PAUSE));
    }
  }

  #write(file, place, bytes) {
    try {
      fs.ftruncateSync(file, place); // what an unfinished append left behind
      if (fs.writeSync(file, bytes, 0, bytes.length, place) !== bytes.length) {
        throw new Error("the disk took only a part of the record");
      }
    } catch (error) {
      throw this.#refused("ledger-unwritable", "written", error);
    }
  }

  /** Make all that was written last; `fresh`: also the directory entry of a file that may be new. */
  #sync(file, fresh) {
    try {
      fs.fsyncSync(file);
      if (fresh) {
        const directory = path.dirname(fs.realpathSync(this.path)); // of the file itself, where the path is a link
        syncDirectory(directory);
        // A crash may have come between making the directory and syncing its own entry.
        if (this.makeDirectory) syncDirectory(path.dirname(directory));
      }
    } catch (error) {
      throw this.#refused("ledger-unwritable", "synced", error);
    }
  }

  #refused(reason, what, error) {
    return new LedgerRefused(reason, `the ledger ${this.path} cannot be ${what}: ${error.code ?? error.message}`, {
      cause: error,
    });
  }
}

async function tryLock(file) {
  for (const [program, args] of LOCKERS) {
    const code = await new Promise((resolve) => {
      const locker = child.spawn(program, args, { stdio: ["ignore", "ignore", "ignore", file] });
      locker.once("error", (error) => resolve(error.code === "ENOENT" ? null : 2));
      locker.once("exit", (status) => resolve(status ?? 2));
    });
    if (code !== null) return code;
  }
  return 2;
}

async function read(file) {
  let bytes;
  try {
    const { size } = fs.fstatSync(file);
    if (size > LARGEST) throw new LedgerRefused("ledger-corrupt", `the ledger is larger than ${LARGEST} bytes`);
    bytes = new Uint8Array(size);
    if (fs.readSync(file, bytes, 0, size, 0) !== size) throw new Error("its end is missing");
  } catch (error) {
    if (error instanceof LedgerRefused) throw error;
    throw new LedgerRefused("ledger-unreadable", `the ledger cannot be read: ${error.code ?? error.message}`, {
      cause: error,
    });
  }
  return readLedger(bytes);
}

function syncDirectory(directory) {
  const handle = fs.openSync(directory, O_RDONLY | O_DIRECTORY);
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

/** Make what is missing of a path, each new directory entry synced. */
function makeDirectories(directory) {
  if (fs.existsSync(directory)) return;
  makeDirectories(path.dirname(directory));
  try {
    fs.mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
  syncDirectory(path.dirname(directory));
}

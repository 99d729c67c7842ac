// The device in a browser or a web view: requests by fetch, the ledger in IndexedDB.

import { AnsweringDevice } from "./device.js";
import { IndexedDbLedger } from "./ledger-indexeddb.js";
import { FetchTransport } from "./transport-fetch.js";

export * from "./public.js";
export { IndexedDbLedger };

/** A device whose ledger is that of this page's origin. */
export class Device extends AnsweringDevice {
  constructor(policy, options = {}) {
    super(policy, { ledger: new IndexedDbLedger(), makeTransport: () => new FetchTransport(), ...options });
  }
}

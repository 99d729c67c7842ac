// What every platform's entry gives, whatever its ledger and its transport.

export { Coin, flipThreshold, realEpsilon } from "./coin.js";
export { Grid, Integers } from "./domain.js";
export { LogGrid } from "./domain-form.js";
export { InvalidInput, PrivquantError } from "./errors.js";
export { Invite } from "./invite.js";
export { whatIsMissing } from "./platform.js";
export { Policy, Rule } from "./policy.js";
export {
  InviteRefused,
  LedgerRefused,
  ManifestRefused,
  NotAnswered,
  PlatformRefused,
  PolicyRefused,
  QuestionRefused,
  Refused,
  ServerRefused,
  TransportRefused,
  TryLater,
} from "./refusals.js";
export { Patience } from "./retries.js";
export { FetchTransport } from "./transport-fetch.js";

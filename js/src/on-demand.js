// What only shuffled campaigns need is loaded when there is one: a page that asks locally stays small.

import { TryLater } from "./refusals.js";

/** A module that is being imported; TryLater if it does not come. */
export async function onDemand(module) {
  try {
    return await module;
  } catch (error) {
    throw new TryLater("unreachable", "a part of the device could not be loaded", null, { cause: error });
  }
}

// HPKE (RFC 9180) from both sides: `seal`, which is all that a device needs, and `open`.

import { KEY_BYTES, keySchedule, publicBytes, sharedSecret } from "./hpke-seal.js";
import { concat } from "./form.js";

export { makeKeyPair, seal } from "./hpke-seal.js";

/** What `seal` sealed to this key pair; rejects if a byte of it, of `info` or of `aad` is not as it was. */
export async function open(pair, info, aad, sealed) {
  const encapsulated = sealed.slice(0, KEY_BYTES);
  const context = concat(encapsulated, await publicBytes(pair.publicKey));
  const secret = await sharedSecret(pair.privateKey, encapsulated, context);
  const { key, nonce } = await keySchedule(secret, info, "decrypt");
  const options = { name: "AES-GCM", iv: nonce, additionalData: aad };
  return new Uint8Array(await crypto.subtle.decrypt(options, key, sealed.slice(KEY_BYTES)));
}

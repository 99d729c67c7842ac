// HPKE (RFC 9180) in WebCrypto: base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM.
//
// `seal` gives a message that only the holder of the recipient's private key can open, and that says nothing of its
// sender. It needs X25519 in the engine. One message a key: every call makes an ephemeral key of its own.

import { InvalidInput } from "./errors.js";
import { ascii, concat } from "./form.js";

const KEM = Uint8Array.of(0x00, 0x20);
const SUITE = concat(KEM, Uint8Array.of(0x00, 0x01), Uint8Array.of(0x00, 0x01));
const KEM_SUITE = concat(ascii("KEM"), KEM);
const HPKE_SUITE = concat(ascii("HPKE"), SUITE);
const BASE_MODE = Uint8Array.of(0);
const EMPTY = new Uint8Array(0);
export const KEY_BYTES = 32;
const CURVE = { name: "X25519" };

async function hmac(key, data) {
  // A key of no bytes and one of 32 zeros are the same to HMAC, and WebCrypto does not import the first.
  const raw = key.length > 0 ? key : new Uint8Array(32);
  const imported = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

function labeledExtract(suite, salt, label, secret) {
  return hmac(salt, concat(ascii("HPKE-v1"), suite, ascii(label), secret));
}

/** At most one block of HKDF-Expand: nothing here is longer than 32 bytes. */
async function labeledExpand(suite, secret, label, info, length) {
  const labeled = concat(Uint8Array.of(0, length), ascii("HPKE-v1"), suite, ascii(label), info);
  return (await hmac(secret, concat(labeled, Uint8Array.of(1)))).slice(0, length);
}

export async function sharedSecret(privateKey, publicBytes, context) {
  const publicKey = await importPublic(publicBytes);
  let dh;
  try {
    dh = new Uint8Array(await crypto.subtle.deriveBits({ ...CURVE, public: publicKey }, privateKey, 256));
  } catch (error) {
    throw new InvalidInput("this public key is of small order: it has no secret to share", { cause: error });
  }
  if (dh.every((byte) => byte === 0)) {
    throw new InvalidInput("this public key is of small order: it has no secret to share");
  }
  const extracted = await labeledExtract(KEM_SUITE, EMPTY, "eae_prk", dh);
  return labeledExpand(KEM_SUITE, extracted, "shared_secret", context, 32);
}

/** The AES-GCM key and nonce of the first and only message. */
export async function keySchedule(secret, info, usage) {
  const idHash = await labeledExtract(HPKE_SUITE, EMPTY, "psk_id_hash", EMPTY);
  const infoHash = await labeledExtract(HPKE_SUITE, EMPTY, "info_hash", info);
  const context = concat(BASE_MODE, idHash, infoHash);
  const extracted = await labeledExtract(HPKE_SUITE, secret, "secret", EMPTY);
  const raw = await labeledExpand(HPKE_SUITE, extracted, "key", context, 16);
  const nonce = await labeledExpand(HPKE_SUITE, extracted, "base_nonce", context, 12);
  return { key: await crypto.subtle.importKey("raw", raw, "AES-GCM", false, [usage]), nonce };
}

function importPublic(bytes) {
  if (!(bytes instanceof Uint8Array) || bytes.length !== KEY_BYTES) {
    throw new InvalidInput(`an X25519 public key has ${KEY_BYTES} bytes`);
  }
  return crypto.subtle.importKey("raw", bytes, CURVE, true, []);
}

export async function publicBytes(key) {
  return new Uint8Array(await crypto.subtle.exportKey("raw", key));
}

/** A fresh key pair; its private key cannot leave the engine. */
export function makeKeyPair() {
  return crypto.subtle.generateKey(CURVE, false, ["deriveBits"]);
}

/**
 * `plaintext` sealed to a public key of 32 bytes, bound to `info` and `aad`: the encapsulated key (32 bytes) and the
 * ciphertext (16 bytes longer than the plaintext), in one. `ephemeral` is for test vectors alone; a second message
 * under one would give both away.
 */
export async function seal(recipient, info, aad, plaintext, ephemeral = undefined) {
  const pair = ephemeral ?? (await makeKeyPair());
  const encapsulated = await publicBytes(pair.publicKey);
  const secret = await sharedSecret(pair.privateKey, recipient, concat(encapsulated, recipient));
  const { key, nonce } = await keySchedule(secret, info, "encrypt");
  const options = { name: "AES-GCM", iv: nonce, additionalData: aad };
  return concat(encapsulated, new Uint8Array(await crypto.subtle.encrypt(options, key, plaintext)));
}

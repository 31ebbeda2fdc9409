// Verify a bundle with @sigstore/verify and @sigstore/bundle.
//
// usage: verify_bundle.cjs BUNDLE.json PUBLIC_KEY.pem
//
// Exit 0: accepted. Exit 1: refused. Exit 2: the packages are not there.

const fs = require("node:fs");
const crypto = require("node:crypto");

let bundleFromJSON, Verifier, toSignedEntity, toTrustMaterial;
try {
  ({ bundleFromJSON } = require("@sigstore/bundle"));
  ({ Verifier, toSignedEntity, toTrustMaterial } = require("@sigstore/verify"));
} catch (missing) {
  console.log(`skipped: ${missing.message}`);
  process.exit(2);
}

const [bundlePath, keyPath] = process.argv.slice(2);
if (bundlePath === undefined) {
  process.exit(0); // asked only whether the packages are there
}
try {
  const bundle = bundleFromJSON(JSON.parse(fs.readFileSync(bundlePath, "utf8")));
  const publicKey = crypto.createPublicKey(fs.readFileSync(keyPath));
  const keyFor = () => ({ publicKey, validFor: () => true });
  const noRoots = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
  const trust = toTrustMaterial(noRoots, keyFor);
  const none = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };
  new Verifier(trust, none).verify(toSignedEntity(bundle));
  console.log("accepted");
} catch (reason) {
  console.log(`refused: ${reason.code ?? ""} ${reason.message}`);
  process.exit(1);
}

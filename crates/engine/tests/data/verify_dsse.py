"""Verify the DSSE envelope of a bundle with securesystemslib.

usage: verify_dsse.py BUNDLE.json PUBLIC_KEY.pem

Exit 0: the envelope is signed by the key. Exit 1: it is not. Any other exit: the verifier could not run.
"""

import json
import sys

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey


def main() -> int:
    bundle_path, key_path = sys.argv[1:]
    with open(bundle_path, "rb") as file:
        bundle = json.load(file)
    with open(key_path, "rb") as file:
        public_key = load_pem_public_key(file.read())
    key_id = bundle["verificationMaterial"]["publicKey"]["hint"]
    key = SSlibKey.from_crypto(public_key, keyid=key_id)
    envelope = Envelope.from_dict(bundle["dsseEnvelope"])
    try:
        accepted = envelope.verify([key], 1)
    except VerificationError as reason:
        print(f"refused: {reason}")
        return 1
    statement = json.loads(envelope.payload)
    print(f"accepted: {statement['predicateType']} by {', '.join(accepted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/bin/sh
# Prints verifying a receipt of a million records against jq; --short for smaller amounts.
cd "$(dirname "$0")/.." && exec cargo run --release --quiet --package xtask -- bench verify "$@"

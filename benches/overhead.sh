#!/bin/sh
# Prints overhead of an iteration against a shell loop, in memory and on a disk, and the files left; --short for smaller amounts.
cd "$(dirname "$0")/.." && exec cargo run --release --quiet --package xtask -- bench overhead "$@"

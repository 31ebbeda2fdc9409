#!/bin/sh
# Prints start-up against /bin/true; --short for smaller amounts.
cd "$(dirname "$0")/.." && exec cargo run --release --quiet --package xtask -- bench startup "$@"

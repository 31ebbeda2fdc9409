#!/bin/sh
# Prints saving the content of ten thousand files against git add; --short for smaller amounts.
cd "$(dirname "$0")/.." && exec cargo run --release --quiet --package xtask -- bench snapshot "$@"

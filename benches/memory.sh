#!/bin/sh
# Prints memory of the governor while a check prints 10 GiB; --short for smaller amounts.
cd "$(dirname "$0")/.." && exec cargo run --release --quiet --package xtask -- bench memory "$@"

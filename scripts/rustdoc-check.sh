#!/bin/sh
# Checks documentation without rendering it: all lints of rustdoc in a fifth of its time. `--check` is
# unstable.
RUSTC_BOOTSTRAP=1 exec rustdoc -Z unstable-options --check "$@"

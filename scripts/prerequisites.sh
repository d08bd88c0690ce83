#!/bin/sh
# Checks that what the build needs is there, and prints the Python to use; with the argument
# "compilers", it looks for those only. What is missing is named in one line.
set -eu

missing() {
    echo "outcrop: $1" >&2
    exit 1
}

find_python() {
    # The module ensurepip comes in a package of its own on some systems; without it there is no venv.
    fits='import sys, venv; assert sys.version_info >= (3, 11); import ensurepip'
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        # A name may be there and not run: a version manager's stand-in for a version not chosen.
        if "$candidate" -c "$fits" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    missing "Python 3.11 or newer, with its venv module, is needed (looked for ${PYTHON:-python3, python3.11 to 3.14}); make PYTHON=/path/to/python names one"
}

[ "${1:-}" = compilers ] || find_python

# As in Cargo.toml.
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null || missing "cargo is needed: Rust $needed or newer, from https://rustup.rs or your system's packages"
version=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) || version=
[ -n "$version" ] || missing "rustc does not run: Rust $needed or newer is needed"
oldest=$(printf '%s\n%s\n' "$needed" "$version" | sort -V | head -n 1)
[ "$oldest" = "$needed" ] || missing "Rust $needed or newer is needed, and rustc is $version ('rustup update' installs the newest)"

compiles() {
    command -v "${2%% *}" >/dev/null || missing "a $1 compiler is needed for the compression libraries (looked for $2), such as $3"
}
compiles C "${CC:-cc}" "gcc or clang"
compiles C++ "${CXX:-c++}" "g++ or clang++"

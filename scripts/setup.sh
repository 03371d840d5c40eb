#!/bin/sh
# Makes a fresh Debian, Ubuntu or Fedora-like machine able to build and test netloom.
#
#   setup.sh tools     compiler, Rust and the programs that the demo and the tests run
#   setup.sh packages  programs that pack and check packages
#   setup.sh peers     programs that tests and benches run beside netloom; what is not
#                      available is told and left out
#   setup.sh browser   a browser for tests of the page
#
# Says what is missing and why it is installed, then installs it (through sudo when not
# root). Silent and without any network access when nothing is missing.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The folders of system programs, which an ordinary user's PATH may lack.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        die "needs root and finds no sudo; as root, run: $*"
    fi
}

system() {
    if have apt-get; then echo apt
    elif have dnf; then echo dnf
    else echo unknown
    fi
}

# What tests/needs.txt lists. Peers are for all users: one in somebody's own folder does not count.
needs() {
    folders=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    case $* in *peers) ;; *) folders=$folders:$PATH ;; esac
    PATH=$folders sh "$root/tests/needs.sh" "$@"
}

# Python packages that need versions of their own, each in a virtual environment below this folder, where every
# user finds them; and what is unpacked and not installed.
environments=/usr/local/lib/netloom-peers

# Packages of `tools`, `peers` or `browser` that are missing, each told with its reason on stderr.
missing() {
    needs --missing "$1" | while IFS='|' read -r name apt dnf why; do
        case $(system) in apt) packages=$apt ;; *) packages=$dnf ;; esac
        # Those with a colon are not the distribution's to install.
        case $packages in '' | *:*) continue ;; esac
        say "missing: $name ($why): installing $packages" >&2
        printf '%s ' "$packages"
    done
}

install_packages() {
    case $(system) in
    apt)
        # Once a run: the lists take seconds each time.
        [ -n "${updated:-}" ] || as_root apt-get update -q
        updated=yes
        # Unattended upgrades of a fresh machine hold the lock for minutes.
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            -o DPkg::Lock::Timeout=600 "$@"
        ;;
    dnf) as_root dnf install -y -q "$@" ;;
    *) die "knows apt and dnf only; please install by hand: $*" ;;
    esac
}

# A disk that gets full in the middle of a build is told by whichever file came last.
setup_room() {
    [ ! -d "$root/target" ] && [ -z "${CARGO_TARGET_DIR:-}" ] || return 0
    free=$(df -Pk "$root" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "${free:-0}" -ge 1536 ] || die "$root: $free MiB are free; a first build takes 1.5 GiB, and the tests 8 GiB"
    [ "$free" -ge 8192 ] || say "$root: $free MiB are free; the tests take 8 GiB"
}

# All of `tools`, `packages` or `browser`.
setup_all() {
    wanted=$(missing "$1")
    # Unquoted on purpose: a list of packages.
    # shellcheck disable=SC2086
    [ -z "$wanted" ] || install_packages $wanted
}

# The rules of accessibility for tests of the page, in the version that web/package-lock.json pins. Without npm these tests are skipped.
setup_axe() {
    [ -z "$(needs --missing browser | grep '^axe-core|')" ] && return 0
    have npm || { say "axe-core: npm is missing (left out)"; return 0; }
    mkdir -p "$root/target/web"
    cp "$root/web/package.json" "$root/web/package-lock.json" "$root/target/web/"
    (cd "$root/target/web" && npm ci --ignore-scripts --no-audit --no-fund --silent) || say "axe-core: not available here (left out)"
}

setup_peers() {
    wanted=$(missing peers | tr ' ' '\n' | sort -u)
    # All at once, so that triggers of dpkg run once; one by one where the distribution lacks one, since the others are wanted.
    # shellcheck disable=SC2086
    if [ -n "$wanted" ] && ! install_packages $wanted; then
        for package in $wanted; do
            install_packages "$package" || say "not available here: $package (left out)"
        done
    fi
    for package in $wanted; do
        # Their programs are wanted, not a service of this machine's.
        case $package in frr | openvswitch-testcontroller | radvd) stop_service "$package" ;; esac
    done
    # What has a version or a content of its own looks itself whether it is there.
    for kind in venv unpack kernel cards; do
        needs --packages "$kind:" | while IFS='|' read -r name what _ why; do
            what=${what#*:}
            case $kind in
            venv) setup_environment "$name" "$what" "$why" ;;
            unpack) have "$name" || setup_unpacked "${what%% *}" "${what#* }" "$why" ;;
            kernel) setup_kernel "$what" "$why" ;;
            cards) setup_kernel_with_cards "$what" "$why" ;;
            esac </dev/null || say "not available here: $what (left out)"
        done
    done
}

# Servers that tests run, with the libraries that they lack: unpacked and not installed, so that this machine gets no
# service.
setup_unpacked() {
    folder=$environments/$1
    wanted=$2
    [ "$(cat "$folder/packages" 2>/dev/null)" != "$wanted" ] || return 0
    [ "$(system)" = apt ] && have dpkg-deb || return 1
    say "missing: $wanted ($3): unpacking into $folder"
    # Whole or not at all: the list of packages is written last. Those that are installed are not downloaded.
    # shellcheck disable=SC2016
    as_root sh -c 'umask 022
        rm -rf "$1" && mkdir -p "$1/archives/partial" && chmod 755 "$1" && cd "$1" &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends --download-only \
                -o Dir::Cache::archives="$1/archives" -o APT::Sandbox::User=root $2 &&
            for package in archives/*.deb; do
                [ ! -e "$package" ] || dpkg-deb -x "$package" . || exit 1
            done && rm -r archives && chmod 755 . && printf "%s\n" "$2" >packages || { rm -rf "$1"; exit 1; }' \
        sh "$folder" "$wanted"
}

# A kernel that guests of tests boot: the distribution's for clouds, unpacked and not installed.
setup_kernel() {
    folder=$environments/kernel
    [ ! -e "$folder/boot" ] || return 0
    [ "$(system)" = apt ] && have dpkg-deb || return 1
    say "missing: $1 ($2): unpacking it into $folder"
    package=$(kernel_of "$1")
    [ -n "$package" ] || return 1
    # Whole or not at all.
    # shellcheck disable=SC2016
    as_root sh -c 'umask 022
        rm -rf "$1" "$1.new" && mkdir -p "$1.new" && chmod 755 "$1.new" && cd "$1.new" && apt-get download -q "$2" &&
            dpkg-deb -x ./*.deb . && rm ./*.deb && chmod 755 . && mv "$1.new" "$1" || { rm -rf "$1.new"; exit 1; }' \
        sh "$folder" "$package"
}

# The distribution's other kernel, which has a driver for the Intel card that QEMU emulates: no more of it than guests load.
setup_kernel_with_cards() {
    folder=$environments/kernel-cards
    [ ! -e "$folder/boot" ] || return 0
    [ "$(system)" = apt ] && have dpkg-deb || return 1
    say "missing: $1 ($2): unpacking its kernel and one driver into $folder"
    package=$(kernel_of "$1")
    [ -n "$package" ] || return 1
    # shellcheck disable=SC2016
    as_root sh -c 'umask 022
        rm -rf "$1" "$1.new" && mkdir -p "$1.new" && chmod 755 "$1.new" && cd "$1.new" && apt-get download -q "$2" &&
            dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards "./boot/vmlinuz-*" "*/e1000.ko" &&
            rm ./*.deb && chmod 755 . && mv "$1.new" "$1" || { rm -rf "$1.new"; exit 1; }' \
        sh "$folder" "$package"
}

# The kernel's own package, which this one is about.
kernel_of() { apt-cache depends "$1" | sed -n 's/^ *Depends: //p' | head -n 1; }

stop_service() {
    if have systemctl; then
        as_root systemctl disable --now "$1" >/dev/null 2>&1 || :
    fi
    if have update-rc.d && have service; then
        as_root service "$1" stop >/dev/null 2>&1 || :
        as_root update-rc.d "$1" disable >/dev/null 2>&1 || :
    fi
}

# A virtual environment with these packages, recreated if it has others.
setup_environment() {
    folder=$environments/$1
    [ "$(cat "$folder/packages" 2>/dev/null)" != "$2" ] || return 0
    say "missing: $2 ($3): installing it into $folder"
    # The system's, which all users can run; another in PATH may be in somebody's home.
    python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        case $(system) in apt) install_packages python3-venv ;; *) install_packages python3-pip ;; esac || return 1
    fi
    # Whole or not at all: the list of packages is written last.
    # shellcheck disable=SC2016
    as_root sh -c 'umask 022
        rm -rf "$1" && mkdir -p "$1" && "$2" -m venv "$1" &&
            "$1/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check $3 &&
            printf "%s\n" "$3" >"$1/packages" || { rm -rf "$1"; exit 1; }' sh "$folder" "$python" "$2"
}

# Whether version $1 is at least $2 (numbers separated by dots).
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$2" ]
}

needed_rust() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1; }

present_rust() { rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p'; }

setup_rust() {
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    need=$(needed_rust)
    found=$(cd "$root" && present_rust)
    if have cargo && [ -n "$found" ] && at_least "$found" "$need"; then
        return 0
    fi
    say "missing: Rust $need or newer (found: ${found:-none}): installing it by rustup into ${CARGO_HOME:-$HOME/.cargo}"
    if have rustup; then
        rustup toolchain install stable --profile minimal --no-self-update
        rustup default stable
    else
        script=$(mktemp)
        curl --proto '=https' --tlsv1.2 -fsSL https://sh.rustup.rs -o "$script" ||
            { rm -f "$script"; die "cannot fetch rustup; install Rust $need or newer by hand"; }
        # The distribution's older rustc may stay in place: ours comes first in PATH.
        env RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$script" -y --profile minimal \
            --default-toolchain stable --no-modify-path || { rm -f "$script"; die "rustup failed"; }
        rm -f "$script"
    fi
    found=$(cd "$root" && present_rust)
    at_least "${found:-0}" "$need" || die "Rust is ${found:-absent} after installing; needs $need"
}

case ${1:-tools} in
tools) setup_room && setup_all tools && setup_rust ;;
packages) setup_all packages ;;
browser) setup_all browser && setup_axe ;;
peers) setup_peers ;;
*) die "usage: setup.sh tools|packages|peers|browser" ;;
esac

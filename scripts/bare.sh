#!/usr/bin/env bash
# `make demo` and `make test` in a clean clone of the commit, where nothing is installed:
#
#   bare.sh [SUITE [COMMAND]]   in a bare Debian of this suite (bookworm); COMMAND instead of the two
#   bare.sh --and-peers         then, outside and on the same build: `make peers`, the demo, the tests that need peers
#
# The bare root has Debian's required packages, git, make, certificates and sudo, from apt's own sources of this
# machine. It is kept in $cache under a hash of its recipe and unpacked for each run. Of this machine it has: the Rust
# toolchain and cargo's registry (what is written there is forgotten), /dev, /sys with the cgroups, the network, its
# proxies, names and certificates; and folders that NETLOOM_BARE_SHARE names (PATH:PATH). Nothing else; no variable of
# the caller's.
#
# Nothing is mounted in the machine's own namespace, and all processes end with this script, however that ends
# (contain.py). A killed run leaves a folder in $cache, which the next run removes.
#
# Where no root can be made, peers are hidden by PATH instead, and this is said.
set -euo pipefail

cache=${NETLOOM_BARE_CACHE:-/var/cache/netloom-bare}
[ -n "${NETLOOM_BARE_CACHE:-}" ] || [ "$(id -u)" -eq 0 ] || cache=${XDG_CACHE_HOME:-$HOME/.cache}/netloom-bare
# What a fresh machine's login has.
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
with=git,make,ca-certificates,sudo
certificates=/usr/local/share/ca-certificates
proxies=http_proxy,https_proxy,ftp_proxy,all_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,ALL_PROXY,NO_PROXY

say() { printf 'bare: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Tells how long the last phase took, and begins the next.
phase() {
    [ -z "${doing:-}" ] || say "$doing: $((SECONDS - began)) s" | tee -a "$RUN/times"
    doing=${1:-} began=$SECONDS
}

# --- The recipe -----------------------------------------------------------------------------------------------------

# Lines of sources for the suite: those of this machine's that are Debian's, with the suite in place of their own.
sources() {
    apt-get indextargets --format $'$(ORIGIN)\t$(CODENAME)\t$(REPO_URI)\t$(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk -F '\t' -v suite="$SUITE" '$1 == "Debian" { sub(/^[^-]*/, suite, $2); print "deb", $3, $2, $4 }' |
        awk '!seen[$0]++'
}

# How this machine's apt reaches its sources.
apt_options() {
    apt-config dump Acquire | grep -E '^Acquire::(http|https|ftp|Check-|Retries|ForceIP|Languages)' || :
}

mmdebstrap_options() {
    printf '%s\n' --mode=root --variant=minbase --format=tar "--include=$with" --dpkgopt=force-unsafe-io
    local file
    for file in "$certificates"/*.crt; do
        [ ! -e "$file" ] || printf '%s\n' "--customize-hook=copy-in $file $certificates"
    done
    printf '%s\n' "--customize-hook=chroot \"\$1\" update-ca-certificates"
}

# Everything that the root depends on, as text.
recipe() {
    sources
    apt_options
    mmdebstrap_options
    dpkg --print-architecture
    cat "$certificates"/*.crt 2>/dev/null || :
}

# Makes the root unless one of the same recipe is kept; sets `kept`.
make_root() {
    kept=$cache/$SUITE-$(recipe | sha256sum | cut -c 1-16).tar
    # Another run may be making it.
    exec 7>"$cache/lock"
    flock 7
    if [ ! -e "$kept" ]; then
        phase "a root of $SUITE"
        # In memory: dpkg waits for the disk after each file.
        mkdir "$RUN/making"
        mount -t tmpfs -o mode=755 bare "$RUN/making"
        sources >"$RUN/sources"
        apt_options >"$RUN/options"
        mapfile -t options < <(mmdebstrap_options)
        TMPDIR=$RUN/making mmdebstrap "${options[@]}" --aptopt="$RUN/options" \
            "$SUITE" "$RUN/made.tar" "$RUN/sources" </dev/null || die "no root of \`$SUITE\` could be made (above)"
        umount "$RUN/making"
        rm -f "$cache/$SUITE"-*.tar
        mv "$RUN/made.tar" "$kept"
    fi
    exec 7>&-
}

# --- Inside the root ------------------------------------------------------------------------------------------------

# Shows a file or folder of this machine at the same place of the root, for reading.
share() {
    [ -e "$1" ] || return 0
    if [ -d "$1" ]; then
        mkdir -p "$root$1"
    else
        mkdir -p "$root${1%/*}"
        : >"$root$1"
    fi
    mount --bind "$1" "$root$1"
    mount -o remount,bind,ro "$root$1"
}

# The toolchain without rustup, and cargo's registry under a layer of its own. Cargo's programs and logins stay outside.
share_rust() {
    [ -n "$SYSROOT" ] || return 0
    share "$SYSROOT"
    mkdir -p "$root$CARGO_HOME/bin" "$root$CARGO_HOME/registry" "$RUN/layer" "$RUN/work"
    ln -s "$SYSROOT"/bin/* "$root$CARGO_HOME/bin/"
    share "$CARGO_HOME/config.toml"
    [ -d "$CARGO_HOME/registry" ] || return 0
    mount -t overlay -o "lowerdir=$CARGO_HOME/registry,upperdir=$RUN/layer,workdir=$RUN/work" registry \
        "$root$CARGO_HOME/registry" 2>/dev/null || cp -a "$CARGO_HOME/registry" "$root$CARGO_HOME/"
}

kernel_folders() {
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --bind /dev "$root/dev"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
    mount -t tmpfs -o nosuid,nodev tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
    mkdir -m 1777 "$root/run/lock"
}

# In namespaces of its own: turns the folder into the root, and becomes the command.
enter() {
    local root=$RUN/root variables=(HOME=/root "PATH=$path" "TERM=${TERM:-dumb}") name
    echo bare >/proc/sys/kernel/hostname
    # pivot_root(2) wants a mount, and a kernel refuses user namespaces inside chroot(2).
    mount --bind "$root" "$root"
    kernel_folders
    share_rust
    local shared
    IFS=: read -r -a shared <<<"${NETLOOM_BARE_SHARE:-}"
    for name in ${shared[@]+"${shared[@]}"}; do
        share "$name"
    done
    for name in ${proxies//,/ }; do
        [ -z "${!name:-}" ] || variables+=("$name=${!name}")
    done
    [ -z "$SYSROOT" ] || variables+=("CARGO_HOME=$CARGO_HOME")
    mkdir "$root/old"
    cd "$root"
    pivot_root . old
    cd "$CLONE"
    umount --lazy /old
    rmdir /old
    exec env -i "${variables[@]}" sh -c "$COMMAND"
}

unpack() {
    local root=$RUN/root
    mkdir "$root"
    tar -x -C "$root" -f "$kept" --exclude='./dev/*'
    # The network of this machine, as its own programs reach it.
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    echo bare >"$root/etc/hostname"
    echo '127.0.1.1 bare' >>"$root/etc/hosts"
    # In the root's own file system, so that tests link what they stage, and at the path that it has outside later, so that
    # cargo builds nothing twice.
    git clone -q . "$root$CLONE"
}

# --- A run ----------------------------------------------------------------------------------------------------------

# Runs a phase; its output ends with totals, unless it fails before.
part() {
    local name=$1
    shift
    phase "$name"
    "$@" 2>&1 | tee "$RUN/said" || failed=1
    grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$RUN/said" | tail -n 1 >>"$RUN/totals" || :
}

# All of a run, in a mount namespace of its own where it may have one.
session() {
    failed=0
    if [ "$HIDE" = no ]; then
        make_root
        phase 'unpack, clone'
        unpack
        part "in the bare $SUITE" python3 -I scripts/contain.py 0 unshare --mount --uts --ipc bash "$self" --enter
        mv "$RUN/root$CLONE" "$CLONE"
    else
        phase 'clone'
        git clone -q . "$CLONE"
        hide "$RUN/programs"
        part 'with hidden peers' hidden sh -c "cd '$CLONE' && $COMMAND"
    fi
    if [ "$PEERS" = yes ]; then
        cd "$CLONE"
        part 'make peers' make peers
        part 'make demo, with peers' make demo
        part 'tests that need peers' cargo xtask test --peers required --only-peers
    fi
    phase
    exit "$failed"
}

# --- Without a root -------------------------------------------------------------------------------------------------

# A folder with the programs that a bare Debian has after `make setup`: of its required packages, of the tools' and of all
# that these depend on; and Rust.
hide() {
    local folder=$1 program
    have dpkg-query || die "cannot hide peers either: knows the packages of dpkg only"
    mkdir "$folder"
    # Unquoted on purpose: names of packages.
    # shellcheck disable=SC2046
    apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances apt ${with//,/ } $(awk -F ' *[|] *' '$2 == "tools" { print $3 }' tests/needs.txt) \
        $(dpkg-query -W -f '${Essential} ${Priority} ${Package}\n' | awk '$1 == "yes" || $2 == "required" { print $3 }') |
        grep '^[a-z0-9]' | sort -u | xargs dpkg-query -L 2>/dev/null | sed -nE 's,^(/usr)?(/s?bin/[^/]+)$,/usr\2,p' \
        >"$folder.files" || :
    # What a link of alternatives leads to counts.
    set -- /usr/bin/* /usr/sbin/*
    paste -d ' ' <(printf '%s\n' "$@") <(realpath -m -- "$@") |
        awk 'NR == FNR { own[$0]; next } $1 in own || $2 in own { print $1 }' "$folder.files" - |
        xargs ln -sf -t "$folder"
    for program in cargo rustc rustdoc rustup; do
        ! have "$program" || ln -sf "$(command -v "$program")" "$folder/"
    done
}

hidden() { PATH=$RUN/programs NETLOOM_TEST_PATH=$RUN/programs "$@"; }

install_mmdebstrap() {
    say "missing: mmdebstrap (makes a bare Debian): installing it"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=600 \
        mmdebstrap debian-archive-keyring
}

# Why no root can be made here; nothing if it can.
obstacle() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "this needs root, and sudo gives none"
    elif ! have apt-get; then
        echo "there is no apt-get, whose sources it would be made from"
    elif ! unshare --mount --uts --ipc true 2>/dev/null; then
        echo "this root may not make namespaces and mounts"
    elif ! { [ -n "$(sources)" ] || { apt-get update -q >&2 && [ -n "$(sources)" ]; }; }; then
        echo "apt's sources have no Debian"
    elif ! have mmdebstrap && ! install_mmdebstrap >&2; then
        echo "mmdebstrap cannot be installed"
    fi
}

# --- Begin and end --------------------------------------------------------------------------------------------------

# Becomes root where sudo can; sudo asks where there is a terminal.
as_root() {
    if [ "$(id -u)" -eq 0 ] || ! have sudo; then
        return 0
    fi
    if sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; then
        exec sudo --preserve-env="SYSROOT,CARGO_HOME,RUSTUP_HOME,NETLOOM_BARE_CACHE,NETLOOM_BARE_SHARE,$proxies" bash "$self" "$@"
    fi
}

# The toolchain that this folder's cargo uses, unless it is one of the distribution's packages.
find_rust() {
    export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
    PATH=$CARGO_HOME/bin:$PATH
    export SYSROOT=${SYSROOT-$(rustc --print sysroot 2>/dev/null || :)}
    case $SYSROOT in /usr | /usr/local) SYSROOT= ;; esac
}

# A folder for this run, locked as long as it lasts; those of runs that were killed go.
make_run_folder() {
    mkdir -p "$cache"
    chmod 700 "$cache"
    exec 7>"$cache/runs"
    flock 7
    local old
    for old in "$cache"/run-*; do
        # Inside a bare root, one of these is the clone.
        [ ! -e "$old/totals" ] || ! flock -n "$old" true || rm -rf --one-file-system "$old"
    done
    RUN=$(mktemp -d "$cache/run-XXXXXX")
    exec 8<"$RUN"
    flock 8
    : >"$RUN/totals"
    exec 7>&-
}

# Ends the run.
stop() {
    trap '' INT TERM HUP
    say "ends: $1" >&2
    kill -TERM "$child" 2>/dev/null || :
    wait "$child" || :
    exit "$2"
}

# Starts the session, which ends with this process even if that is killed.
start() {
    local own=(unshare --mount)
    "${own[@]}" true 2>/dev/null || own=()
    trap 'rm -rf --one-file-system "$RUN"' EXIT
    trap 'stop Ctrl-C 130' INT
    trap 'stop "told to" 143' TERM
    trap 'stop "its terminal is gone" 129' HUP
    # As a job, so that traps need not wait for it, and in a session of its own, so that signals come by this script alone.
    setsid python3 -I scripts/contain.py $$ "${own[@]}" bash "$self" --session </dev/null 8<&- &
    child=$!
    wait "$child" && status=0 || status=$?
}

# One line for all that ran, alone and last.
sum() {
    [ ! -e "$RUN/times" ] || cat "$RUN/times"
    awk '{ passed += $1; failed += $3; skipped += $5 }
        END { if (NR) printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$RUN/totals"
}

main() {
    PEERS=no
    [ "${1:-}" != --and-peers ] || PEERS=yes
    local rest=("$@")
    [ "$PEERS" = no ] || rest=("${@:2}")
    SUITE=${rest[0]:-bookworm}
    COMMAND=${rest[1]:-'make demo && demo=passed; make test && [ -n "$demo" ]'}
    case $SUITE in *[!a-z]*) die "usage: bare.sh [--and-peers] [SUITE [COMMAND]]; a suite is a name such as trixie" ;; esac
    find_rust
    as_root "$@"
    [ -n "$SYSROOT" ] || say "no Rust of rustup's to share: the set-up installs it"
    HIDE=no
    why=$(obstacle)
    if [ -n "$why" ]; then
        HIDE=yes
        say "no root of Debian can be made here: $why"
        say "peers are hidden by PATH instead; their libraries and files are not"
    fi
    have python3 || die "needs python3, which mmdebstrap and \`make setup\` install"
    make_run_folder
    CLONE=$RUN/netloom
    export RUN CLONE SUITE COMMAND PEERS HIDE
    start
    sum
    exit "$status"
}

self=$(realpath "$0")
cd "$(dirname "$self")/.."
case ${1:-} in
--session) session ;;
--enter) enter ;;
*) main "$@" ;;
esac

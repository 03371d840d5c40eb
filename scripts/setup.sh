#!/bin/sh
# Makes a fresh Debian, Ubuntu or Fedora-like machine able to build and test netloom.
#
#   setup.sh tools     compiler, Rust and the programs that the demo and the tests run
#   setup.sh peers     programs that tests and benches run beside netloom; what is not
#                      available is told and left out
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

# program or file | package in apt | package in dnf | what for
tools() {
    cat <<'LIST'
cc|gcc libc6-dev|gcc glibc-devel|links Rust programs
clang|clang|clang|compiles the BPF programs
/usr/include/linux/bpf.h|linux-libc-dev|kernel-headers|headers of the BPF programs
make|make|make|builds libbpf, which loads them
pkg-config|pkg-config|pkgconf-pkg-config|builds libbpf
/usr/include/libelf.h|libelf-dev|elfutils-libelf-devel|builds libbpf
/usr/include/zlib.h|zlib1g-dev|zlib-devel|builds libbpf
curl|curl|curl|downloads in the demo and the tests; fetches rustup
ip|iproute2|iproute|second opinion on links and routes in tests and benches
ping|iputils-ping|iputils|checks that nodes reach each other
python3|python3|python3|web server of the example lab
unshare|util-linux|util-linux|fresh namespaces for tests
git|git|git|version of what is built
tar|tar|tar|packs the tarball
LIST
}

peers() {
    cat <<'LIST'
iperf3|iperf3|iperf3|throughput in the demo, tests and benches
tcpdump|tcpdump|tcpdump|sees packets in tests
tshark|tshark|wireshark-cli|reads captures in tests and the demo
capinfos|wireshark-common|wireshark-cli|reads captures in tests
dumpcap|wireshark-common|wireshark-cli|peer in benches: captures
/usr/share/gocode/src/github.com/google/gopacket|golang-github-google-gopacket-dev|golang-github-google-gopacket-devel|captures that tests read
netsniff-ng|netsniff-ng|netsniff-ng|peer in benches: captures
trafgen|netsniff-ng|netsniff-ng|peer in benches: generates
scapy|python3-scapy|python3-scapy|reads captures in tests
/usr/lib/python3/dist-packages/jsonschema|python3-jsonschema|python3-jsonschema|validates lab files in tests
groff|groff|groff|checks manual pages in tests
mandoc|mandoc|mandoc|checks manual pages in tests
zsh|zsh|zsh|completions are tried in it
fish|fish|fish|completions are tried in it
mkfs.ext4|e2fsprogs|e2fsprogs|tests of full disks
nft|nftables|nftables|leftovers check and NAT tests
linux.uml|user-mode-linux||virtual machines in examples and tests
busybox|busybox|busybox|web server of a guest in examples
setpriv|util-linux|util-linux|tests as an ordinary user
mn|mininet|mininet|peer in benches
vde_switch|vde-switch|vde2|peer in benches: the switch of VDE
vde_plug|vdeplug|vde2|joins switches in tests, by libvdeplug
vde_plug2tap|vde2|vde2|joins switches in tests, by libvdeplug
vdens|vdens|vdens|joins switches in tests, by libvdeplug
qemu-system-x86_64|qemu-system-x86 ipxe-qemu|qemu-system-x86-core ipxe-roms-qemu|joins switches in tests, by libvdeplug
qemu-img|qemu-utils|qemu-img|checks the disks of virtual machines in tests
docker-registry|docker-registry|docker-distribution|a registry of images in tests
skopeo|skopeo|skopeo|copies images in tests
umoci|umoci|umoci|makes images in tests
pasta|passt|passt|internet in ordinary users' labs
slirp4netns|slirp4netns|slirp4netns|internet in ordinary users' labs, without pasta
htpasswd|apache2-utils|httpd-tools|logins of a registry in tests
vtysh|frr|frr|routing daemons in examples and tests
newuidmap|uidmap|shadow-utils|users in ordinary users' labs
ovs-ofctl|openvswitch-common|openvswitch|reads OpenFlow messages in tests
dnsmasq|dnsmasq-base|dnsmasq|DHCP and DNS server in examples
udhcpc|udhcpc|busybox|DHCP client in examples
radvd|radvd|radvd|advertises prefixes of IPv6 in tests
ovs-vsctl|openvswitch-switch|openvswitch|peer in benches and conformance tests: its userspace switch
ovs-testcontroller|openvswitch-testcontroller|openvswitch-testcontroller|controls our switches in tests
wget|wget|wget|runs with and without guard in tests
node|nodejs|nodejs|runs with and without guard in tests
nc|netcat-openbsd|nmap-ncat|runs with and without guard in tests
go|golang-go|golang|static programs that run with and without guard in tests
/usr/lib32/libc.so|gcc-multilib|glibc-devel.i686|programs of 32 bits that run with and without guard in tests
apt-ftparchive|apt-utils|apt|a source of packages for apt-get, with and without guard in tests
/usr/lib/python3/dist-packages/pip|python3-pip|python3-pip|runs with and without guard in tests
strace|strace|strace|peer in benches: intercepts by ptrace
bwrap|bubblewrap|bubblewrap|peer in benches: a sandbox
firejail|firejail|firejail|peer in benches: a sandbox
LIST
}

# Python packages that need versions of their own, each in a virtual environment below this folder, where every
# user finds them.
environments=/usr/local/lib/netloom-peers

# folder | packages | what for
python_peers() {
    cat <<'LIST'
os-ken|os-ken==4.2.2|its switch tests, and a controller in tests
faucet|faucet==1.10.12|controls our switches in tests
LIST
}

# Packages of the list on stdin whose program or file is missing, each told with its reason on stderr.
missing() {
    while IFS='|' read -r program apt dnf why; do
        case $program in
        /*) [ ! -e "$program" ] || continue ;;
        *) ! have "$program" || continue ;;
        esac
        case $1 in apt) packages=$apt ;; *) packages=$dnf ;; esac
        say "missing: $program ($why): installing $packages" >&2
        printf '%s ' "$packages"
    done
    # Certificates are files, not a program.
    if [ ! -e /etc/ssl/certs/ca-certificates.crt ] && [ ! -e /etc/pki/tls/certs/ca-bundle.crt ] &&
        [ ! -e /etc/ssl/cert.pem ]; then
        say "missing: CA certificates (checks what is downloaded): installing ca-certificates" >&2
        printf 'ca-certificates '
    fi
}

install_packages() {
    case $(system) in
    apt)
        as_root apt-get update -q
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

setup_tools() {
    wanted=$(tools | missing "$(system)")
    # Unquoted on purpose: a list of packages.
    # shellcheck disable=SC2086
    [ -z "$wanted" ] || install_packages $wanted
}

setup_peers() {
    wanted=$(peers | missing "$(system)")
    # One by one: a distribution may lack one of them, and the others are wanted all the same.
    for package in $wanted; do
        install_packages "$package" || say "not available here: $package (left out)"
        # Their programs are wanted, not a service of this machine's.
        case $package in frr | openvswitch-testcontroller | radvd) stop_service "$package" ;; esac
    done
    python_peers | while IFS='|' read -r folder packages why; do
        setup_environment "$folder" "$packages" "$why" </dev/null ||
            say "not available here: $packages (left out)"
    done
    setup_kernel || say "not available here: a kernel for guests (left out)"
    setup_kernel_with_cards || say "not available here: a kernel for guests with cards of computers (left out)"
    setup_unpacked services "nginx bird2 openssh-server" "they run in nodes in tests" ||
        say "not available here: nginx, BIRD and sshd (left out)"
    have dockerd || setup_unpacked docker "docker.io" "it gives its images to tests" ||
        say "not available here: docker.io (left out)"
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
    say "missing: linux-image-cloud-amd64 (guests of tests boot it): unpacking it into $folder"
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
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
    say "missing: linux-image-amd64 (guests of benches boot it): unpacking its kernel and this driver into $folder"
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
    [ -n "$package" ] || return 1
    # shellcheck disable=SC2016
    as_root sh -c 'umask 022
        rm -rf "$1" "$1.new" && mkdir -p "$1.new" && chmod 755 "$1.new" && cd "$1.new" && apt-get download -q "$2" &&
            dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards "./boot/vmlinuz-*" "*/e1000.ko" &&
            rm ./*.deb && chmod 755 . && mv "$1.new" "$1" || { rm -rf "$1.new"; exit 1; }' \
        sh "$folder" "$package"
}

stop_service() {
    if have systemctl; then
        as_root systemctl disable --now "$1" >/dev/null 2>&1 || :
    fi
    if have update-rc.d && have service; then
        as_root service "$1" stop >/dev/null 2>&1 || :
        as_root update-rc.d "$1" disable >/dev/null 2>&1 || :
    fi
}

# A virtual environment with these packages, made anew if it has others.
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
tools) setup_room && setup_tools && setup_rust ;;
peers) setup_peers ;;
*) die "usage: setup.sh tools|peers" ;;
esac

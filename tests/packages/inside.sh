#!/usr/bin/env bash
# Packages in a bare Debian, of which scripts/packages-test.sh makes one: inside.sh FOLDER, as root
#
# FOLDER has `now`, the packages to test, and `before`, those of an earlier version. Prints a line for each thing that is
# looked at, and last `N passed, N failed, N skipped`.
set -uo pipefail

# It installs and removes packages, and adds a user.
[ "$(cat /etc/hostname)" = bare ] || { echo 'inside.sh: this is not a root of scripts/bare.sh' >&2; exit 1; }

cd "$(dirname "$0")/../.."
now=$1/now before=$1/before
user=tester runtime=/run/user/4242
passed=0 failed=0
export DEBIAN_FRONTEND=noninteractive
two_sites=/usr/share/doc/netloom/examples/two-sites.yaml

# check NAME COMMAND...: the command must succeed; what it prints is shown when it does not.
check() {
    local name=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "ok: $name"
        passed=$((passed + 1))
    else
        echo "failed: $name: $*"
        printf '%s\n' "$said" | tail -n 40
        failed=$((failed + 1))
    fi
}

# check_says NAME TEXT COMMAND...: the output must have the text, however the command ends.
check_says() {
    local name=$1 text=$2
    shift 2
    says() {
        local printed
        printed=$("$@" 2>&1)
        printf '%s\n' "$printed"
        case $printed in *"$text"*) ;; *) return 1 ;; esac
    }
    check "$name" says "$@"
}

# Runs a command as an ordinary user who has just logged in.
as_user() {
    runuser -u "$user" -- env -i HOME="/home/$user" USER="$user" XDG_RUNTIME_DIR="$runtime" \
        PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin bash -c "cd && $1"
}

package() { printf '%s\n' "$1/$2"_*.deb; }
install() { apt-get install -y -q --no-install-recommends "$@"; }
# Of root's lab `office` and the user's lab `two-sites`: the processes that are to live on.
lab_process() { cat "$1/lab.pid"; }
alive() {
    local pid
    for pid; do
        kill -0 "$pid" || return 1
    done
}
# Whether these end, within a bound: who reaps them may be late.
end() {
    local pid end=$((SECONDS + 60))
    for pid; do
        while kill -0 "$pid" 2>/dev/null; do
            [ "$SECONDS" -lt "$end" ] || return 1
            sleep 0.1
        done
    done
}
# Inits of nodes that the installed program has made. Other processes of this machine can be seen here, too.
own_inits() {
    local pid
    for pid in $(pgrep -x netloom-init); do
        [ "$(readlink "/proc/$pid/exe")" != /usr/bin/netloom ] || echo "$pid"
    done
}

# --- Installed, used, removed ---------------------------------------------------------------------------------------

# What is installed, but for what packages themselves leave in caches and lists.
everything() {
    find /etc /lib /usr /opt /srv -xdev -not -path '/usr/share/doc/*' \
        -not -path '/etc/ld.so.cache' -not -path '*/__pycache__*' 2>/dev/null | sort
}

fresh_install() {
    check 'apt has its lists' apt-get update -q
    check 'what the sixty seconds run is there' install curl python3 python3-yaml iputils-ping procps sudo
    useradd --create-home --shell /bin/bash --uid 4242 "$user"
    mkdir -p "$runtime"
    chown "$user" "$runtime"
    chmod 700 "$runtime"
    everything >/tmp/before
    local began
    began=$(date +%s%N)
    check 'a fresh installation' install "$(package "$now" netloom)"
    check "an ordinary user's first lab" as_user "netloom up $two_sites"
    echo "figure: install to first up: $((($(date +%s%N) - began) / 1000000)) ms"
    check 'its end' as_user 'netloom down'
}

files() {
    check 'nothing of it belongs to the user who packed it' test -z \
        "$(dpkg -L netloom | xargs -d '\n' find 2>/dev/null -maxdepth 0 -not -user root)"
    check 'sums of all files' dpkg --verify netloom
    check 'the page of the manual' gzip -t /usr/share/man/man1/netloom.1.gz
    check 'the page of the lab file' gzip -t /usr/share/man/man5/netloom-lab.5.gz
    check 'the completion of bash' bash -c '. /usr/share/bash-completion/completions/netloom && complete -p netloom'
    check_says 'the plug-in of libvdeplug' libvdeplug_netloom.so dpkg -L netloom
    check_says 'labs of /etc have a folder' /etc/netloom dpkg -L netloom
    check_says 'doctor runs' namespaces as_user 'netloom doctor'
    check 'the sixty seconds of the README' as_user \
        "python3 $PWD/tests/packages/sixty_seconds.py /usr/share/doc/netloom"
}

bench() {
    check_says 'bench says how to get it' netloom-bench as_user 'netloom bench lab'
    check 'bench is installed' install "$(package "$now" netloom-bench)"
    check_says 'bench runs' 'netloom bench' as_user 'netloom bench --help'
    check 'bench is removed' apt-get purge -y -q netloom-bench
}

# The unit's commands are run by hand, since nothing here is systemd's.
unit() {
    check 'systemd is there' install systemd
    local file
    file=$(dpkg -L netloom | grep 'netloom@\.service$')
    check 'systemd reads the unit' systemd-analyze verify --man=no netloom@office.service
    check_says 'control groups below the unit are the lab'"'"'s' 'Delegate=yes' cat "$file"
    line() { sed -n "s/^$1=//p" "$file" | sed 's/%i/office/g'; }
    cp /usr/share/doc/netloom/examples/two-sites.yaml /etc/netloom/office.yaml
    check_says 'the unit brings a lab up' 'lab office: 5 nodes' sh -c "$(line ExecStart)"
    check_says 'its reload finds nothing to do' 'lab office' sh -c "$(line ExecReload)"
    check_says 'its stop takes the lab down' 'lab office: down' sh -c "$(line ExecStop)"
    rm /etc/netloom/office.yaml
}

profile() {
    local abi=/etc/apparmor.d/abi/4.0 profile=/etc/apparmor.d/netloom
    check 'no AppArmor: no profile' test ! -e "$profile"
    check 'AppArmor comes later' install apparmor
    if [ -e "$abi" ]; then
        check 'the profile follows' test -e "$profile"
        check 'AppArmor reads it' apparmor_parser --skip-kernel-load --skip-cache "$profile"
    else
        check 'an AppArmor without user namespaces gets none' test ! -e "$profile"
    fi
}

purge() {
    check 'purge' apt-get purge -y -q netloom
    apt-get purge -y -q systemd apparmor >/dev/null 2>&1
    apt-get autoremove --purge -y -q >/dev/null 2>&1
    everything >/tmp/after
    # Packages that came with systemd and AppArmor may leave files of their own.
    left() { ! comm -13 /tmp/before /tmp/after | grep -i netloom; }
    check 'nothing of it is left' left
}

# What SPECIFICATION.md promises.
figures() {
    echo "figure: $(basename "$(package "$now" netloom)"): $(stat -c %s "$(package "$now" netloom)") bytes"
    echo "figure: /usr/bin/netloom: $(stat -c %s /usr/bin/netloom) bytes"
    as_user "python3 - <<'END'
import statistics, subprocess, time
def once():
    begun = time.perf_counter()
    subprocess.run(['netloom', '--version'], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000
times = sorted(once() for _ in range(201))
print(f'figure: netloom --version: {statistics.median(times):.2f} ms (median of 201; the fastest {times[0]:.2f})')
END"
}

# --- Versions, with labs that run -----------------------------------------------------------------------------------

start_labs() {
    check 'the version before' install "$(package "$before" netloom)"
    version_before=$(netloom --version)
    cp "$two_sites" /root/two-sites.yaml
    cp "$two_sites" "/home/$user/two-sites.yaml"
    check "a lab of root" netloom -l office up /root/two-sites.yaml
    check "a lab of the user" as_user 'netloom up two-sites.yaml'
    as_user 'netloom exec h1 -- ping -i 0.2 web >ping.txt' &
    traffic=$!
    check 'traffic flows' flows
    inits=$(own_inits)
    check 'both labs have their nodes' test "$(echo "$inits" | wc -l)" -ge 10
    ours=$(lab_process /run/netloom/office)
    theirs=$(lab_process "$runtime/netloom/two-sites")
}

# How many requests were answered; none while the file is not there.
answers() {
    local count
    count=$(grep -c icmp_seq= "/home/$user/ping.txt" 2>/dev/null)
    echo "${count:-0}"
}

# Whether answers go on: more of them than when this was called.
flows() {
    local had end=$((SECONDS + 60))
    had=$(answers)
    while [ "$(answers)" -le "$had" ]; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# Numbers of ICMP that were answered, without a gap.
no_loss() {
    sed -n 's/.*icmp_seq=\([0-9]*\) .*/\1/p' "/home/$user/ping.txt" |
        awk '{ if ($1 != ++n) { print "answer", n, "is missing"; exit 1 } } END { exit n < 5 }'
}

# labs_live NAME: the labs of before, seen by the program that is installed now.
labs_live() {
    check "$1: the labs' processes live" alive "$ours" "$theirs"
    # One word each.
    # shellcheck disable=SC2086
    check "$1: all nodes live" alive $inits
    check_says "$1: status of root's lab" 'lab office: up, 5 nodes' netloom status office
    check_says "$1: status of the user's lab" 'lab two-sites: up, 5 nodes' as_user 'netloom status'
    check_says "$1: a program in a node" hello as_user 'netloom exec h1 -- curl -fsS http://web/'
    # The lab process of the version before starts helpers from a file that is gone.
    check "$1: a wire is added" as_user 'netloom link set r1:eth1 --delay 1ms'
    check "$1: and taken" as_user 'netloom link set r1:eth1 --clear'
    check "$1: traffic goes on" flows
}

# adopted NAME: other lab processes take the labs over.
adopted() {
    kill -KILL "$ours" "$theirs"
    check_says "$1: root's lab is adopted" 'adopted, 0 of 5 nodes recreated' netloom -l office up /root/two-sites.yaml
    check_says "$1: the user's lab is adopted" 'adopted, 0 of 5 nodes recreated' as_user 'netloom up two-sites.yaml'
    ours=$(lab_process /run/netloom/office)
    theirs=$(lab_process "$runtime/netloom/two-sites")
    labs_live "$1, adopted"
}

versions() {
    start_labs
    check 'half an upgrade: unpacked, not configured' dpkg --unpack "$(package "$now" netloom)"
    check_says 'half an upgrade: status' 'lab two-sites: up' as_user 'netloom status'
    check 'the upgrade' dpkg --configure netloom
    check 'it is another version' test "$(netloom --version)" != "$version_before"
    labs_live 'upgraded'
    adopted 'upgraded'
    check 'the downgrade' install --allow-downgrades "$(package "$before" netloom)"
    check 'it is the version before' test "$(netloom --version)" = "$version_before"
    labs_live 'downgraded'
    adopted 'downgraded'
    check_says 'removal names labs that stay' 'lab two-sites' apt-get remove -y -q netloom
    check 'removed: no program' test ! -e /usr/bin/netloom
    check "removed: the labs' processes live" alive "$ours" "$theirs"
    check 'removed: traffic goes on' flows
    check 'installed again' install "$(package "$now" netloom)"
    check 'no packet was lost in all of this' no_loss
    check_says "root's lab ends" 'lab office: down' netloom down office
    check_says "the user's lab ends" 'lab two-sites: down' as_user 'netloom down'
    wait "$traffic"
    # One word each.
    # shellcheck disable=SC2086
    check 'no node is left' end $inits
    check 'purge after all' apt-get purge -y -q netloom
}

# --- rpm ------------------------------------------------------------------------------------------------------------

# In a layer over this root, in which scripts of packages find a shell.
rpms() {
    check 'rpm is there' install rpm
    mkdir -p /mnt/layer
    mount -t tmpfs tmpfs /mnt/layer
    mkdir /mnt/layer/up /mnt/layer/work /mnt/layer/root
    mount -t overlay -o lowerdir=/,upperdir=/mnt/layer/up,workdir=/mnt/layer/work overlay /mnt/layer/root
    mount -t proc proc /mnt/layer/root/proc
    local files=("$now"/*.rpm) root=/mnt/layer/root missing there
    local shipped=$root/usr/share/netloom/apparmor/netloom profile=$root/etc/apparmor.d/netloom
    there=$(ldconfig -p)
    check 'rpm: sums and form' rpm -K --nosignature "${files[@]}"
    # Libraries that it names must be those that it needs; this root has no packages of rpm to give them.
    missing=$(rpm -qp --requires "${files[@]}" | grep -oE '^lib[a-z0-9_+-]+\.so\.[0-9]+' | sort -u |
        while read -r name; do case $there in *"$name"*) ;; *) echo "$name" ;; esac; done)
    check 'rpm: it names libraries that are there' test -z "$missing"
    check_says 'rpm: libelf is among them' 'libelf.so.1()(64bit)' rpm -qp --requires "$now"/netloom-[0-9]*.rpm
    check 'rpm: installed' rpm --root "$root" -i --nodeps "${files[@]}"
    check 'rpm: all files are as packed' rpm --root "$root" -V --nodeps netloom netloom-bench
    check_says 'rpm: the program runs' 'netloom ' chroot "$root" netloom --version
    check 'rpm: the older version is refused' refused rpm --root "$root" -U --nodeps "$before"/netloom-[0-9]*.rpm
    # As where AppArmor is.
    mkdir -p "$root/etc/apparmor.d/abi"
    : >"$root/etc/apparmor.d/abi/4.0"
    check 'rpm: downgraded on demand' rpm --root "$root" -U --nodeps --oldpackage "$before"/*.rpm
    check 'rpm: the profile is there' cmp "$shipped" "$profile"
    echo '# that of another version' >>"$shipped"
    cp "$shipped" "$profile"
    check 'rpm: upgraded' rpm --root "$root" -U --nodeps "${files[@]}"
    check 'rpm: a profile that nobody changed follows' cmp "$shipped" "$profile"
    echo '# changed' >>"$profile"
    check 'rpm: downgraded with a changed profile' rpm --root "$root" -U --nodeps --oldpackage "$before"/*.rpm
    check 'rpm: it stays' grep -q '# changed' "$profile"
    cp "$shipped" "$profile"
    check 'rpm: erased' rpm --root "$root" -e netloom netloom-bench
    nothing() { ! find /mnt/layer/up -not -type c -path '*netloom*' -not -type d | grep .; }
    check 'rpm: nothing is left' nothing
    umount /mnt/layer/root/proc /mnt/layer/root /mnt/layer
}

refused() { ! "$@"; }

# --- Continuous integration -----------------------------------------------------------------------------------------

ci() {
    echo "$user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/tester
    # Its own lines are the results.
    as_user "python3 $PWD/tests/packages/ci.py $(package "$now" netloom)" | tee /tmp/ci
    local sum
    sum=$(tail -n 1 /tmp/ci)
    case $sum in
    *' passed, '*' failed, '*)
        passed=$((passed + ${sum%% passed*}))
        sum=${sum#* passed, }
        failed=$((failed + ${sum%% failed*}))
        ;;
    *) check 'the steps of continuous integration' false ;;
    esac
}

fresh_install
files
figures
bench
unit
profile
purge
versions
rpms
ci
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]

#!/bin/sh
# Makes an image of FRR from this machine's packages, as an ordinary user, without Docker and without a registry:
#
#     sh examples/frr-image.sh frr.tar
#     netloom image load frr.tar --name lab/frr:1
#
# The archive holds a root file system: FRR's daemons and vtysh, a shell with a few tools, the libraries of all, and the
# users that FRR changes to. Needs FRR (Debian's package `frr`), iproute2, ping, tar.
set -eu

[ $# = 1 ] || { echo "usage: sh frr-image.sh FILE.tar" >&2; exit 2; }
daemons=$(dirname "$(ls /usr/lib/frr/zebra /usr/libexec/frr/zebra 2>/dev/null | head -n 1)")
[ "$daemons" != . ] || { echo "frr-image: no FRR here; on Debian: apt-get install frr" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM

# Puts a program there under the name that it has here, with the libraries that it needs.
add() {
    for file in "$1" $({ ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*'); do
        [ -e "$root$file" ] && continue
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
}

for part in bin sbin lib lib64; do
    [ -L "/$part" ] && mkdir -p "$root/usr/$part" && ln -s "usr/$part" "$root/$part"
done
mkdir -p "$root/etc/frr" "$root/tmp" "$root/var/tmp" "$root/var/log/frr" "$root/root"
ln -s ../run "$root/var/run"
chmod 1777 "$root/tmp" "$root/var/tmp"

for daemon in "$daemons"/*d "$daemons/zebra"; do
    case $daemon in */watchfrr | */frr-reload) ;; *) add "$daemon" ;; esac
done
for tool in vtysh sh cat sleep ls grep ip ping; do
    add "$(command -v "$tool")"
done

# vtysh asks PAM whether it may: it may.
for module in /lib/*/security/pam_permit.so /lib/security/pam_permit.so /lib64/security/pam_permit.so; do
    [ -e "$module" ] && add "$module"
done
mkdir -p "$root/etc/pam.d"
for kind in auth account session; do
    echo "$kind required pam_permit.so"
done >"$root/etc/pam.d/frr"
: >"$root/etc/frr/vtysh.conf"
cat >"$root/etc/passwd" <<END
root:x:0:0:root:/root:/bin/sh
frr:x:105:110::/:/bin/false
END
cat >"$root/etc/group" <<END
root:x:0:
frrvty:x:109:frr
frr:x:110:
END

tar -C "$root" --owner=0 --group=0 --numeric-owner -cf "$1" .

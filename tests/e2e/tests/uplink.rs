//! `internet` in labs of ordinary users: by pasta, by slirp4netns, and without either.
//!
//! Root makes the host, a network namespace, and becomes an ordinary user there: whether that user may make taps is up to
//! the machine otherwise.

use std::time::Duration;

use netloom_tests_e2e::{Run, machine, needs, root_only};

/// A host with an uplink to `far`, a user's folder `$own`, and `up`, `on`, `down` for this user. `far` answers requests of web pages
/// and names.
const HOST: &str = r#"
set -Eeu
trap 'echo "failed: $BASH_COMMAND" >&2' ERR
# Of this mount namespace alone.
mount -t tmpfs none /mnt
own=/mnt
cleanup() { kill $far $web $local $names 2>/dev/null || true; }
web=; local=; names=
ip link set lo up
unshare --net sleep 300 &
far=$!
trap cleanup EXIT
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do kill -0 $far; sleep 0.05; done
ip link add card type veth peer name far netns $far
nsenter -t $far -n sh -c 'ip addr add 203.0.113.9/24 dev far && ip addr add 2001:db8::9/64 dev far nodad &&
    ip link set far up && ip link set lo up'
ip addr add 203.0.113.1/24 dev card
ip addr add 2001:db8::1/64 dev card nodad
ip link set card up
ip route add default via 203.0.113.9
ip route add default via 2001:db8::9
echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range
mknod -m 666 "$own/tun" c 10 200
mount --bind "$own/tun" /dev/net/tun
cp -a /etc "$own/etc"
rm -f "$own/etc/resolv.conf"
echo nameserver 203.0.113.9 >"$own/etc/resolv.conf"
mount --bind "$own/etc" /etc
cp "$NETLOOM_BIN" "$own/netloom"
cat >"$own/serve.py" <<'END'
import http.server, socket, struct, sys
def names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('203.0.113.9', 53))
    while True:
        q, who = s.recvfrom(512)
        end = q.index(b'\0', 12) + 5
        kind = struct.unpack('>H', q[end - 4:end - 2])[0]
        answer = b'\xc0\x0c' + struct.pack('>HHIH', 1, 1, 9, 4) + bytes([203, 0, 113, 9]) if kind == 1 else b''
        s.sendto(q[:2] + b'\x81\x80\0\1' + (b'\0\1' if answer else b'\0\0') + b'\0\0\0\0' + q[12:end] + answer, who)
def pages(at):
    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())
        def log_message(self, *_): pass
    Server((at, 8080), Page).serve_forever()
names() if sys.argv[1] == 'names' else pages('::')
END
nsenter -t $far -n python3 "$own/serve.py" far &
web=$!
nsenter -t $far -n python3 "$own/serve.py" names &
names=$!
python3 "$own/serve.py" near &
local=$!
for at in 203.0.113.9 127.0.0.1; do
    until curl -s -o /dev/null http://$at:8080/; do kill -0 $web $local; sleep 0.05; done
done
install -d -m 700 -o 65533 -g 65533 "$own/run"
chmod 755 "$own"
cp "$1" "$own/lab.yaml"
chmod 644 "$own/lab.yaml"
user() { setpriv --reuid 65533 --regid 65533 --clear-groups env HOME="$own/run" NETLOOM_RUNTIME_DIR="$own/run" "$@"; }
on() { node=$1; shift; user "$own/netloom" exec "$node" -- "$@"; }
reaches() { [ "$(on "$1" curl -g -s -m 20 "http://$2:8080/")" = far ]; }
the() { pgrep -u 65533 -r D,R,S -x "$1"; }
soon() { until "$@"; do kill -0 $far; sleep 0.05; done; }
outside() { nsenter --net="/proc/$(the netloom-uplink)/root$own/run/out/uplink.net" "$@"; }
"#;

const LAB: &str = "
name: out
nodes: {a: {}, r: {forwarding: true}, b: {}}
links:
  - [a, r]
  - [r, internet]
  - [b, internet]
";

/// What both programs do. `$tool` is the name of the program's process.
const LEADS_OUT: &str = r#"
user "$own/netloom" up "$own/lab.yaml"
for node in a b; do
    reaches $node 203.0.113.9
    on $node ping -c 1 -W 20 203.0.113.9
    # By the host's name server.
    reaches $node somewhere.example
done
# What connections have in flight has room in the tap.
roomy() { outside ip link show uplink | grep -q 'qlen 10000'; }
soon roomy
# Not the host's loopback, by any address of the way out.
for at in 192.0.0.2 192.0.0.3 192.0.0.100; do
    [ -z "$(on b curl -s -m 2 http://$at:8080/)" ]
done
pid=$(the netloom-uplink)
grep -q 'NoNewPrivs:.1' /proc/$(pgrep -P $pid)/status || [ "$tool" = slirp4netns ]
# The program ends, and its process; each is started again.
kill -9 $(pgrep -P $pid)
soon reaches a 203.0.113.9
soon roomy
killed=$(the netloom-uplink)
kill -9 $killed
until pid=$(the netloom-uplink) && [ "$pid" != "$killed" ]; do kill -0 $far; sleep 0.05; done
soon reaches a 203.0.113.9
# The lab process ends: traffic goes on, and the next one takes the process over.
pid=$(the netloom-uplink)
kill -9 $(the netloom-lab)
user "$own/netloom" up "$own/lab.yaml"
[ $pid = $(the netloom-uplink) ]
reaches b 203.0.113.9
# Both end: the doors are recreated.
kill -9 $(the netloom-lab) $pid
user "$own/netloom" up "$own/lab.yaml"
reaches a 203.0.113.9
reaches b 203.0.113.9
kill -9 $(the netloom-lab)
user "$own/netloom" down
[ -z "$(ls "$own/run")" ]
until ! pgrep -u 65533 -r D,R,S . >/dev/null; do kill -0 $far; sleep 0.05; done
"#;

fn on_a_host(script: &str, file: &std::path::Path) -> Run {
    let script = format!("{HOST}{script}");
    // Seven seconds; each lost first packet of a connection costs one more, and programs share the machine.
    Run::new("unshare")
        .bound(Duration::from_secs(150))
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            // Nothing of it outlives a test that fails.
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
            &script,
            "bash",
        ])
        .args([file])
        .env("NETLOOM_BIN", netloom_kit::Binary::find().path())
}

#[test]
fn pasta_leads_out_of_an_ordinary_users_lab() {
    root_only!("makes a host of its own");
    needs!("pasta", "curl", "python3");
    let machine = machine!();
    let file = machine.file(LAB);
    let script = format!(
        "tool=pasta\n{LEADS_OUT}user \"$own/netloom\" up \"$own/lab.yaml\"\nreaches a '[2001:db8::9]'\n\
         user \"$own/netloom\" down\n"
    );
    on_a_host(&script, &file).finish().code(0);
}

/// The program gets no time until a sender has asked a second time.
const LATE: &str = r#"
user "$own/netloom" up "$own/lab.yaml"
pasta() { pgrep -P "$(the netloom-uplink)"; }
repeated() { on a awk '/^TcpExt/ && !n { for (i in F) delete F; n = split($0, F); next }
    /^TcpExt/ { for (i = 1; i <= n; i++) if (F[i] == "TCPSynRetrans") print $i }' /proc/net/netstat; }
# The tap's neighbours know each other then.
reaches a 203.0.113.9
stopped=$(pasta)
kill -STOP $stopped
on a curl -g -s -m 20 http://203.0.113.9:8080/ >"$own/page" &
asks=$!
until [ "$(repeated)" -ge 1 ]; do kill -0 $far; sleep 0.05; done
kill -CONT $stopped
"#;

#[test]
fn a_way_out_without_time_serves_who_waits() {
    root_only!("makes a host of its own");
    needs!("pasta", "curl", "python3");
    let machine = machine!();
    let file = machine.file(LAB);
    let script = format!(
        "{LATE}wait $asks\n[ \"$(cat $own/page)\" = far ]\n[ $stopped = $(pasta) ]\n\
         user \"$own/netloom\" down\n"
    );
    on_a_host(&script, &file).finish().code(0);
}

/// The program gets no time for longer than the kernel waits for a neighbour's answer.
const STOPPED: &str = r#"
kept() { [ -n "$(outside ip neigh show "$1" dev uplink nud permanent)" ]; }
user "$own/netloom" up "$own/lab.yaml"
program() { pgrep -P "$(the netloom-uplink)"; }
soon kept 192.0.0.2
for family in $families; do soon kept "$family"; done
stopped=$(program)
kill -STOP $stopped
# Five seconds: an unknown gateway is refused after three.
on a ping -n -c 5 -W 1 203.0.113.9 >"$own/pings" || true
cat "$own/pings"
kill -CONT $stopped
grep -q '5 packets transmitted' "$own/pings"
if grep -q -e Unreachable -e '+[0-9]* errors' "$own/pings"; then false; fi
reaches a 203.0.113.9
[ $stopped = $(program) ]
# The next program's gateway, too.
kill -9 $stopped
until next=$(program) && [ "$next" != $stopped ]; do kill -0 $far; sleep 0.05; done
soon kept 192.0.0.2
soon reaches a 203.0.113.9
user "$own/netloom" down
"#;

#[test]
fn a_way_out_without_time_stays_the_gateway() {
    root_only!("makes a host of its own");
    needs!("pasta", "slirp4netns", "curl", "python3");
    let machine = machine!();
    let file = machine.file(LAB);
    let pasta = format!("families=fd6e:6574:6c6f:6f6d::2\n{STOPPED}");
    on_a_host(&pasta, &file).finish().code(0);
    let slirp = format!("families=\nmount --bind /bin/false $(command -v pasta)\n{STOPPED}");
    on_a_host(&slirp, &file).finish().code(0);
}

#[test]
fn a_way_out_that_hangs_is_made_anew() {
    root_only!("makes a host of its own");
    needs!("pasta", "curl", "python3", "nft");
    let machine = machine!();
    let file = machine.file(LAB);
    // Requests that come again reach the program at once with the first one, from which the one of Debian 12 does not
    // return; others do.
    let script = LATE.replace(
        "kill -STOP",
        "outside nft insert rule inet netloom-outside forward accept\nkill -STOP",
    );
    let script = format!(
        "{script}soon reaches a 203.0.113.9\n\
         if grep -q 'does not rest' $own/run/out/lab.log; then [ $stopped != $(pasta) ]; fi\n\
         user \"$own/netloom\" down\n"
    );
    on_a_host(&script, &file).finish().code(0);
}

/// Doors come, change and go while the lab lives.
const APPLIED: &str = r#"
apply() { user "$own/netloom" apply --yes "$own/lab.yaml" >"$own/said"; user "$own/netloom" apply --check "$own/lab.yaml"; }
inits() { pgrep -u 65533 -x netloom-init | sort; }
no() { if "$@"; then return 1; fi; }
cp "$own/lab.yaml" "$own/doors.yaml"
sed /internet/d "$own/doors.yaml" >"$own/lab.yaml"
user "$own/netloom" up "$own/lab.yaml"
before=$(inits)
no the netloom-uplink
cp "$own/doors.yaml" "$own/lab.yaml"
apply
grep -q '^+ link r:eth1--internet' "$own/said"
for node in a b; do
    reaches $node 203.0.113.9
    reaches $node somewhere.example
done
# Behind a door that stays, too.
sed -i 's/b: {}}/b: {}, c: {}}/; s/  - \[b, internet\]/&\n  - [c, r]/' "$own/lab.yaml"
apply
no grep "internet recreated" "$own/said"
reaches c 203.0.113.9
reaches c somewhere.example
reaches a 203.0.113.9
sed -i '/c, r/d; s/, c: {}//' "$own/lab.yaml"
apply
sed -i '/b, internet/d' "$own/lab.yaml"
apply
grep -q '^! link r:eth1--internet recreated: doors changed' "$own/said"
reaches a 203.0.113.9
sed -i /internet/d "$own/lab.yaml"
apply
ended() { no the netloom-uplink; }
soon ended
[ -z "$(on a curl -s -m 2 http://203.0.113.9:8080/)" ]
on a ping -c 1 -W 20 r
[ "$before" = "$(inits)" ]
user "$own/netloom" down
"#;

#[test]
fn doors_of_an_ordinary_users_living_lab_come_and_go() {
    root_only!("makes a host of its own");
    needs!("pasta", "curl", "python3");
    let machine = machine!();
    let file = machine.file(LAB);
    on_a_host(APPLIED, &file).finish().code(0);
}

#[test]
fn slirp4netns_does_where_there_is_no_pasta_and_where_pasta_fails() {
    root_only!("makes a host of its own");
    needs!("pasta", "slirp4netns", "curl", "python3");
    let machine = machine!();
    let file = machine.file(LAB);
    let script =
        format!("tool=slirp4netns\nmount --bind /bin/false $(command -v pasta)\n{LEADS_OUT}");
    on_a_host(&script, &file).finish().code(0);
}

#[test]
fn what_is_missing_is_told_before_anything_is_made() {
    root_only!("makes a host of its own");
    needs!("pasta", "slirp4netns", "curl", "python3");
    let machine = machine!();
    let file = machine.file(LAB);
    let none =
        "for tool in pasta slirp4netns; do mount --bind /dev/null $(command -v $tool); done\n";
    let up = "user \"$own/netloom\" up \"$own/lab.yaml\" || exit $?\n";
    let told = on_a_host(&format!("{none}{up}"), &file).finish().code(3);
    assert!(
        told.errors().contains("neither pasta nor slirp4netns is installed"),
        "{}",
        told.errors()
    );
    let told = on_a_host(&format!("chmod 600 \"$own/tun\"\n{up}"), &file).finish().code(3);
    assert!(told.errors().contains("/dev/net/tun: Permission denied"), "{}", told.errors());
    let door = machine.file("name: out\nnodes: {a: {}}\nlinks: [[a, 'host:card']]\n");
    let told = on_a_host(up, &door).finish().code(3);
    assert!(told.errors().contains("the host's network belongs to root"), "{}", told.errors());
    // A program that works no longer is told with what it printed.
    let file = machine.file(LAB);
    let broken = "printf '#!/bin/sh\\necho no such luck >&2; exit 1\\n' >\"$own/fails\"; chmod 755 \"$own/fails\"\n\
                  for tool in pasta slirp4netns; do mount --bind \"$own/fails\" $(command -v $tool); done\n";
    let empty = "user \"$own/netloom\" up \"$own/lab.yaml\" && exit 9; [ -z \"$(ls \"$own/run\")\" ]; exit 7\n";
    let told = on_a_host(&format!("{broken}{empty}"), &file).finish().code(7);
    assert!(told.errors().contains("no such luck"), "{}", told.errors());
}

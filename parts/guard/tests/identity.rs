//! Who a guarded program is to others: a server of a UNIX socket, or the kernel's end of netlink, sees the program's user, and
//! never the supervisor's.

use super::redteam::python;

/// As another user connects, listens and sends to itself, and says which users it sees by `SO_PEERCRED` and
/// `SCM_CREDENTIALS`: of a message without credentials, with its own, with root's, and of a long one in parts. Then it raises an
/// interface of its network by a socket that root has opened, and says the error.
const SEEN: &str = "
import ctypes, errno, os, socket, struct, threading
ctypes.CDLL(None).unshare(0x40000000) # CLONE_NEWNET
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
NAME = '\\0netloom-identity-%d-' % os.getpid()
PASS, PEER, CREDENTIALS = 16, 17, 2
def ids(b): return struct.unpack('3i', b)[1:]
def seen(s): return ids(s.getsockopt(socket.SOL_SOCKET, PEER, 12))
def passing(s): s.setsockopt(socket.SOL_SOCKET, PASS, 1); return s
def received(s, n=99):
    data, controls, _, _ = s.recvmsg(n, 99)
    return len(data), ids(controls[0][2])
listener = socket.socket(socket.AF_UNIX); listener.bind(NAME + 'stream'); listener.listen()
client = socket.socket(socket.AF_UNIX); client.connect(NAME + 'stream')
server, _ = listener.accept()
print(seen(client), seen(server))
box = passing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)); box.bind(NAME + 'datagram')
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
out.sendto(b'a', NAME + 'datagram'); print(received(box))
out.sendmsg([b'ab'], [], 0, NAME + 'datagram'); print(received(box))
out.connect(NAME + 'datagram'); out.sendmsg([b'abc']); print(received(box))
for who in [65534, 0]:
    own = (socket.SOL_SOCKET, CREDENTIALS, struct.pack('3i', os.getpid(), who, who))
    fds = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack('i', 0))
    try: out.sendmsg([b'abcd'], [fds, own]); print(received(box)[0], end=' ')
    except OSError as e: print(errno.errorcode[e.errno])
    try: out.sendmsg([b'abcd'], [own]); print(received(box))
    except OSError as e: print(errno.errorcode[e.errno])
passing(server)
def send(): client.sendmsg([bytes(3 << 20)]); client.close()
sender = threading.Thread(target=send); sender.start()
total, users = 0, set()
while True:
    data, controls, _, _ = server.recvmsg(1 << 16, 99)
    if not data: break
    total += len(data); users.add(ids(controls[0][2]))
sender.join(); print(total, users)
# RTM_NEWLINK: the first interface, IFF_UP.
up = struct.pack('IHHIIBxHiII', 32, 16, 5, 1, 0, 0, 0, 1, 1, 1)
def refused(send): send(); return struct.unpack('i', route.recv(99)[16:20])[0]
print(*[refused(way) for way in [lambda: route.send(up), lambda: route.sendmsg([up]), lambda: route.sendto(up, (0, 0))]])
";

#[test]
fn who_gave_up_root_is_not_root_to_others() {
    netloom_kit::root_only!("runs programs of several users");
    let own = "(65534, 65534)";
    let expected = format!(
        "{own} {own}\n(1, {own})\n(2, {own})\n(3, {own})\n4 (4, {own})\nEPERM\nEPERM\n{} {{{own}}}\n-1 -1 -1\n",
        3 << 20
    );
    assert_eq!(python(SEEN, false), expected, "without guard");
    assert_eq!(python(SEEN, true), expected);
}

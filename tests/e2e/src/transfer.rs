//! A TCP transfer between two nodes, whose bytes are checked at its end.

use crate::Machine;
use crate::live::Held;

/// Sends this many KiB for each number it reads; at the end of its input it closes and prints the hash.
const SEND: &str = r#"
import hashlib, random, socket, sys
to = socket.create_connection((sys.argv[1], 5001))
print('connected', flush=True)
made, digest = random.Random(7), hashlib.sha256()
for line in sys.stdin:
    for _ in range(int(line)):
        block = made.randbytes(1024)
        digest.update(block)
        to.sendall(block)
    print('sent', flush=True)
to.close()
print(digest.hexdigest())
"#;

/// Takes one connection; says how many KiB have come, from time to time, and at its end the hash.
const TAKE: &str = r#"
import hashlib, socket
listener = socket.create_server(('0.0.0.0', 5001))
print('listens', flush=True)
taken, _ = listener.accept()
digest, count, told = hashlib.sha256(), 0, 0
while block := taken.recv(1 << 16):
    digest.update(block)
    count += len(block)
    if count >> 10 != told:
        told = count >> 10
        print(told, flush=True)
print(digest.hexdigest())
"#;

/// A transfer over TCP that goes on as it is told.
#[derive(Debug)]
pub struct Transfer {
    sender: Held,
    taker: Held,
    asked: u64,
}

impl Transfer {
    /// Starts it between two nodes of a lab and waits until they are connected; nothing is sent yet.
    pub fn start(machine: &Machine, from: &str, to: &str) -> Transfer {
        let mut taker = Held::start(machine.python(to, TAKE, &[]));
        assert_eq!(taker.line(), "listens");
        let mut sender = Held::start(machine.python(from, SEND, &[to]));
        assert_eq!(sender.line(), "connected");
        Transfer { sender, taker, asked: 0 }
    }

    /// Has more sent, and does not wait for it.
    pub fn more(&mut self, kib: u64) {
        use std::io::Write;
        let input = self.sender.child().stdin.as_mut().expect("stdin is piped");
        writeln!(input, "{kib}").expect("write to the sender");
        self.asked += kib;
    }

    /// Waits until all has come that was asked for.
    pub fn settle(&mut self) {
        while self.taker.line().parse::<u64>().expect("a number") < self.asked {}
    }

    /// Ends it and asserts that the same came that was sent.
    pub fn finish(self) {
        let sent = self.sender.rest();
        let came = self.taker.rest();
        let hash = |text: &str| text.lines().last().expect("a hash").to_owned();
        assert_eq!(hash(&sent).len(), 64, "{sent}");
        assert_eq!(hash(&sent), hash(&came));
    }
}

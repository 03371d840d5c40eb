//! `guard --in NODE`: destinations have the names of the node's own hosts file and name servers.

use netloom_tests_e2e::{Machine, machine, needs};

use crate::guard::alone;

/// Answers every question for an address of IPv4 with 10.9.0.3.
const RESOLVER: &str = r#"
import socket, struct, threading
def answer(q):
    at = 12
    while q[at]: at += 1 + q[at]
    end = at + 5
    kind, = struct.unpack('!H', q[at+1:at+3])
    record = b'\xc0\x0c' + struct.pack('!HHIH', 1, 1, 60, 4) + socket.inet_aton('10.9.0.3') if kind == 1 else b''
    return q[:2] + b'\x81\x80' + q[4:6] + struct.pack('!HHH', len(record) and 1, 0, 0) + q[12:end] + record
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 53))
t = socket.socket(); t.bind(('', 53)); t.listen()
def streams():
    while True:
        c, _ = t.accept()
        head = c.recv(2)
        if len(head) == 2:
            a = answer(c.recv(struct.unpack('!H', head)[0]))
            c.sendall(struct.pack('!H', len(a)) + a)
threading.Thread(target=streams, daemon=True).start()
while True:
    q, who = u.recvfrom(4096); u.sendto(answer(q), who)
"#;

/// A client whose name server is another node, and a web server.
fn lab(machine: &Machine) {
    let resolver: String = RESOLVER.lines().map(|line| format!("          {line}\n")).collect();
    machine.up(&format!(
        "name: named\nnodes:\n  client:\n    files: {{/etc/resolv.conf: \"nameserver 10.9.0.2\\n\"}}\n  \
         names:\n    files:\n      /srv/names.py:\n        text: |\n{resolver}    \
         run: [[python3, /srv/names.py]]\n    ready: {{tcp: 53}}\n  \
         web: {{run: [[python3, -m, http.server, \"80\", --directory, /srv]], files: {{/srv/index.html: \"hello\\n\"}}, ready: {{tcp: 80}}}}\n\
         switches: {{lan: {{}}}}\nlinks:\n  \
         - {{ends: [client, lan], addresses: {{client: 10.9.0.1/24}}}}\n  \
         - {{ends: [names, lan], addresses: {{names: 10.9.0.2/24}}}}\n  \
         - {{ends: [web, lan], addresses: {{web: 10.9.0.3/24}}}}\n"
    ));
}

#[test]
fn destinations_have_the_names_that_a_node_knows() {
    needs!("curl");
    needs!("python3");
    let machine = machine!();
    lab(&machine);
    let guard = |policy: &str, url: &str| {
        let policy = machine.scratch().file("p.yaml", policy);
        let policy = policy.to_string_lossy().into_owned();
        let args =
            ["guard", "--in", "client", "--policy", &policy, "--frozen", "--", "curl", "-sS4", url];
        alone(&machine, &args).finish()
    };
    // The hosts file's, of a node and by its address alike.
    let web = "default: deny\nrules: [{allow: out, to: web, port: 80}]";
    assert_eq!(guard(web, "http://web/").code(0).text(), "hello\n");
    assert_eq!(guard(web, "http://10.9.0.3/").code(0).text(), "hello\n");
    guard(web, "http://names:53/").code(4).says("to: resolver, port: 53");
    // The name server's, which is asked in the node's network.
    let looked_up = "default: deny\nrules: [{allow: out, to: names, port: 53}, {allow: out, to: www.example.org}]";
    assert_eq!(guard(looked_up, "http://www.example.org/").code(0).text(), "hello\n");
    guard(looked_up, "http://mail.example.org/")
        .code(4)
        .says("to: mail.example.org, protocol: dns");
    guard(looked_up, "http://web/").code(4).says("to: web, port: 80");
    // A connection to the name server is carried alike.
    let by_tcp = "import socket, struct\n\
        q = struct.pack('!HHHHHH', 7, 256, 1, 0, 0, 0) + b'\\3www\\7example\\3org\\0' + struct.pack('!HH', 1, 1)\n\
        s = socket.create_connection(('10.9.0.2', 53)); s.sendall(struct.pack('!H', len(q)) + q)\n\
        print(s.getsockname()[0], s.recv(512)[-4:])\n\
        print(socket.create_connection(('10.9.0.3', 80)).getpeername()[0])";
    let policy = machine.scratch().file("p.yaml", looked_up);
    let policy = policy.to_string_lossy().into_owned();
    let args =
        ["guard", "--in", "client", "--policy", &policy, "--frozen", "--", "python3", "-c", by_tcp];
    assert_eq!(
        alone(&machine, &args).finish().code(0).text(),
        "10.9.0.1 b'\\n\\t\\x00\\x03'\n10.9.0.3\n"
    );
    machine.down();
}

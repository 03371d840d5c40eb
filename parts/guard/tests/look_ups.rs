//! Which names programs may look up, and what names of an address say: as [`super::names`], with policies.

use std::process::Command;

use netloom_guard::{Log, Options, Rules};
use netloom_kit::{isolated, needs};
use netloom_policy::learn::Learned;
use netloom_policy::{Policy, read, write};

use super::names::{listener, python, run, serve, set_up, set_up_at, watched};
use super::redteam::compiled;

/// Asks by each way, and says the code of each answer: `ask(question)` of each of `WAYS`.
const WAYS: &str = "
import os
SERVER = ('127.0.0.53', 53)
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); return s
def code(a): return a[3] & 15
def by_sendto(q): s = udp(); s.sendto(q, SERVER); return code(s.recv(999))
def by_sendmsg(q): s = udp(); s.sendmsg([q[:5], q[5:]], [], 0, SERVER); return code(s.recv(999))
def by_send(q): s = udp(); s.connect(SERVER); s.send(q); return code(s.recv(999))
def by_write(q): s = udp(); s.connect(SERVER); os.write(s.fileno(), q); return code(s.recv(999))
def by_mapped(q):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(20)
    s.sendto(q, ('::ffff:127.0.0.53', 53)); return code(s.recv(999))
def by_stream(q):
    s = socket.create_connection(SERVER, 20)
    for b in struct.pack('!H', len(q)) + q: s.sendall(bytes([b]))
    return code(s.recv(999)[2:])
WAYS = [by_sendto, by_sendmsg, by_send, by_write, by_mapped, by_stream]
";

fn policy(text: &str) -> Policy {
    read("policy", text.as_bytes()).unwrap()
}

fn following(text: &str) -> Rules {
    Rules::new(policy(text), Options::default())
}

/// What a script says that has [`WAYS`].
fn asks(script: &str, port: u16, rules: &Rules) -> String {
    python(&format!("{WAYS}\n{script}"), port, rules).replace('\n', " ").trim_end().to_owned()
}

#[test]
fn a_name_that_the_policy_does_not_know_leaves_by_no_way() {
    isolated!({
        let (server, _folder) = set_up();
        let rules = following(
            "default: deny\nrules: [{allow: out, to: 127.0.0.53, port: 53}, {allow: out, to: web.test, port: 1}]",
        );
        let said = asks(
            "for way in WAYS: print(way(query('web.test')), way(query('secret.test')), way(query('a.web.test')))",
            1,
            &rules,
        );
        assert_eq!(said, "0 3 3 ".repeat(6).trim_end());
        assert_eq!(server.asked(), ["web.test"]);
        let missing = rules.missing().unwrap().policy;
        assert!(write(&missing).contains("secret.test"), "{}", write(&missing));
    });
}

#[test]
fn what_cannot_be_read_as_a_question_leaves_only_where_all_may() {
    isolated!({
        let (server, _folder) = set_up();
        let script = "
q = query('web.test')
def with_(at, b): return q[:at] + bytes(b) + q[at+len(b):]
def tries(q):
    s = udp(); s.settimeout(0.5); s.sendto(q, SERVER)
    try: s.recv(999)
    except TimeoutError: pass
# Another kind of message, a response, two questions, another class, other letters, and cut off.
two = with_(4, [0, 2]) + query('secret.test')[12:]
# Records of another name beside the question, and what is behind it.
more = with_(10, [0, 1]) + query('secret.test')[12:] + bytes([0, 0, 0, 9, 0, 0])
for odd in [with_(2, [0x29, 0]), with_(2, [0x81, 0x80]), two, with_(len(q) - 2, [0, 3]), with_(13, [0]), q[:20], b'', more, q + b'secret']:
    tries(odd)
print(by_sendto(q))";
        let known = "default: deny\nrules: [{allow: out, to: 127.0.0.53, port: 53}, {allow: out, to: web.test, port: 1}]";
        assert_eq!(asks(script, 1, &following(known)), "0");
        // Once, of the last question alone.
        assert_eq!(server.asked_often(), ["web.test"]);
    });
}

#[test]
fn options_of_a_query_reach_no_server() {
    isolated!({
        let (server, _folder) = set_up();
        let script = "
q = query('web.test')
options = struct.pack('!HH', 65281, 6) + b'secret'
q = q[:10] + bytes([0, 1]) + q[12:] + bytes([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, len(options)]) + options
for way in WAYS: print(way(q))";
        let known = "default: deny\nrules: [{allow: out, to: 127.0.0.53, port: 53}, {allow: out, to: web.test, port: 1}]";
        assert_eq!(asks(script, 1, &following(known)), "0 0 0 0 0 0");
        assert_eq!(server.asked_often(), ["web.test"; 6]);
    });
}

#[test]
fn messages_to_several_places_do_not_carry_a_query_past() {
    needs!("cc");
    isolated!({
        let (server, _folder) = set_up();
        let program = compiled("mixed", MIXED);
        let near = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        near.set_nonblocking(true).unwrap();
        let rules = following("default: deny\nrules: [{allow: out, to: 127.0.0.0/8}]");
        let mut command = Command::new(program);
        command.arg(near.local_addr().unwrap().port().to_string());
        let said = watched(command, &rules);
        assert_eq!(said, "1 1 1 1\n", "each call sends what goes to one place");
        super::peers::settle();
        let came = std::iter::from_fn(|| near.recv(&mut [0; 99]).ok()).count();
        assert_eq!((came, server.asked()), (2, vec![]));
    });
}

/// Sends a datagram and a query by one call, in both orders, until all of it is sent.
const MIXED: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
int main(int count, char **words) {
    static char query[] = "\0\7\1\0\0\1\0\0\0\0\0\0\6secret\4test\0\0\1\0\1";
    struct sockaddr_in near = {AF_INET, htons(atoi(words[1]))}, server = {AF_INET, htons(53)};
    struct iovec data = {"hello", 5}, asks = {query, sizeof query - 1};
    struct mmsghdr all[2], m = {.msg_hdr = {.msg_namelen = sizeof near, .msg_iovlen = 1}};
    inet_pton(AF_INET, "127.0.0.1", &near.sin_addr);
    inet_pton(AF_INET, "127.0.0.53", &server.sin_addr);
    for (int first = 0; first < 2; first++) {
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        for (int n = 0; n < 2; n++) {
            all[n] = m;
            all[n].msg_hdr.msg_name = n == first ? &near : &server;
            all[n].msg_hdr.msg_iov = n == first ? &data : &asks;
        }
        for (int sent = 0; sent < 2;) {
            int got = sendmmsg(fd, all + sent, 2 - sent, 0);
            if (got <= 0) break;
            printf(first || sent ? " %d" : "%d", got);
            sent += got;
        }
    }
    printf("\n");
}
"#;

#[test]
fn a_server_of_ipv6_is_asked_for_known_names_alone() {
    isolated!({
        let (server, _folder) = set_up_at("::1", "127.0.0.1 localhost\n");
        let rules = following(
            "default: deny\nrules: [{allow: out, to: \"::1\", port: 53}, {allow: out, to: web.test, port: 1}]",
        );
        let script = "
for n in ['web.test', 'secret.test']:
    try: print(socket.gethostbyname(n))
    except OSError as e: print(e.strerror)
def by_stream(q):
    s = socket.create_connection(('::1', 53), 20); s.sendall(struct.pack('!H', len(q)) + q); return s.recv(999)[5] & 15
print(by_stream(query('web.test')), by_stream(query('secret.test')))";
        let said = python(script, 1, &rules);
        assert_eq!(said, "127.1.0.1\nName or service not known\n0 3\n");
        assert_eq!(server.asked(), ["web.test"]);
    });
}

#[test]
fn each_program_looks_up_its_own_names() {
    needs!("cc");
    isolated!({
        let (server, folder) = set_up();
        let program = compiled("asks", ASKS);
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["one", "two"] {
            std::fs::copy(&program, at(name)).unwrap();
        }
        let text = format!(
            "default: deny\nrules: [{{allow: out, to: 127.0.0.53, port: 53}}, {{allow: out, program: {}, to: web.test}}, \
             {{allow: out, program: {}, to: other.test}}]",
            at("one").display(),
            at("two").display()
        );
        let said = |script: String| {
            let mut command = Command::new("sh");
            command.args(["-ec", &script]);
            watched(command, &following(&text))
        };
        let [one, two] = [at("one"), at("two")].map(|path| path.display().to_string());
        let said = said(format!("{one} web; {two} web; {one} other; {two} other"));
        assert_eq!(said, "0\n3\n3\n0\n");
        assert_eq!(server.asked(), ["other.test", "web.test"]);
    });
}

/// Asks for a name below `.test`, and says the answer's code.
const ASKS: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
int main(int count, char **words) {
    unsigned char query[99] = {0, 7, 1, 0, 0, 1}, answer[999];
    int length = strlen(words[1]), at = 12;
    query[at++] = length;
    memcpy(query + at, words[1], length);
    memcpy(query + at + length, "\4test\0\0\1\0\1", 10);
    struct sockaddr_in server = {AF_INET, htons(53)};
    inet_pton(AF_INET, "127.0.0.53", &server.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    connect(fd, (void *)&server, sizeof server);
    send(fd, query, at + length + 10, 0);
    if (recv(fd, answer, sizeof answer, 0) > 3) printf("%d\n", answer[3] & 15);
}
"#;

#[test]
fn each_look_up_is_a_line_of_the_log() {
    isolated!({
        let (_server, folder) = set_up();
        let path = folder.path().join("log");
        let options = Options { log: Some(Log::append(&path).unwrap()), ..Options::default() };
        let text = "default: deny\nrules: [{allow: out, to: 127.0.0.53, port: 53}, {allow: out, to: web.test, port: 1}]";
        let rules = Rules::new(policy(text), options);
        assert_eq!(
            asks("print(by_send(query('web.test')), by_stream(query('secret.test')))", 1, &rules),
            "0 3"
        );
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = lines.iter().filter(|line| line["protocol"] == "dns").collect();
        assert_eq!(names.len(), 2, "{text}");
        assert_eq!(
            (&names[0]["target"], &names[0]["answer"]),
            (&"web.test".into(), &"allow".into())
        );
        assert_eq!(names[0]["rule"], "{allow: out, to: web.test, port: 1}");
        assert_eq!(
            (&names[1]["target"], &names[1]["answer"]),
            (&"secret.test".into(), &"deny".into())
        );
        assert!(
            names.iter().all(|line| line["program"].as_str().unwrap().contains("python3")),
            "{text}"
        );
        assert!(names.iter().all(|line| line["pid"].as_i64().unwrap() > 0), "{text}");
    });
}

#[test]
fn what_is_learned_names_the_resolver_and_each_name_by_itself() {
    isolated!({
        let (server, _folder) = set_up();
        let (_held, port) = listener();
        let learn = |script: &str| {
            let options = Options { learn: Some(Learned::new(false)), ..Options::default() };
            let rules = Rules::new(Policy::default(), options);
            asks(script, port, &rules);
            rules.learned(&Policy::nothing()).unwrap().policy
        };
        let frozen = |policy: &Policy, script: &str| {
            let options = Options { frozen: true, ..Options::default() };
            let rules = Rules::new(policy.clone(), options);
            let said = asks(script, port, &rules);
            (said, rules.missing().map(|missing| write(&missing.policy)))
        };
        let script = "reach('web.test')\nfor n in ['n1.test', 'n2.test']: socket.gethostbyname(n)\nreach('n2.test')";
        let learned = learn(script);
        let text = write(&learned);
        let rules: Vec<&str> =
            text.lines().filter_map(|line| line.split_once(" to: ")).map(|(_, to)| to).collect();
        assert_eq!(
            rules,
            [
                &format!("[n2.test, web.test], port: {port}, protocol: tcp}}"),
                "resolver, port: 53, protocol: udp}",
                "n1.test, protocol: dns}",
            ],
            "{text}"
        );
        assert_eq!(frozen(&learned, script), ("yes yes".to_owned(), None));
        let before = server.asked();
        let (said, missing) = frozen(&learned, "print(by_send(query('secret.test')))");
        assert_eq!(said, "3");
        let missing = missing.unwrap();
        assert!(missing.contains("to: secret.test, protocol: dns}"), "{missing}");
        assert_eq!(server.asked(), before);
    });
}

#[test]
fn a_name_of_ones_own_does_not_open_a_denied_address() {
    isolated!({
        let _server = set_up();
        let (_held, port) = listener();
        let text =
            "default: allow\nrules: [{deny: out, to: other.test, port: 1-65535, protocol: tcp}]";
        let many = "socket.gethostbyname('other.test')\nfor n in range(64): socket.gethostbyname(f'n{n}.test')\n\
                    reach('127.1.0.4'); reach('n63.test'); reach('web.test')";
        assert_eq!(asks(many, port, &following(text)), "Permission denied Permission denied yes");
    });
}

#[test]
fn looked_up_names_stand_beside_those_of_the_file_of_hosts() {
    isolated!({
        let hosts: String = (0..20).map(|n| format!(" h{n}")).collect();
        let _server = set_up_at("127.0.0.53", &format!("10.66.0.1{hosts} db\n"));
        run("ip", &["address", "add", "10.66.0.1/32", "dev", "lo"]);
        let (_held, port) = listener();
        let script = "reach('far.test'); reach('10.66.0.1'); reach('db')";
        let denied = following("default: allow\nrules: [{deny: out, to: db}]");
        assert_eq!(asks(script, port, &denied), "Permission denied ".repeat(3).trim_end());
        // A name that is allowed is enough where no rule is about the others.
        let allowed = following(
            "default: deny\nrules: [{allow: out, to: 127.0.0.53, port: 53}, {allow: out, to: far.test}]",
        );
        assert_eq!(
            asks("reach('10.66.0.1'); reach('far.test')", port, &allowed),
            "Permission denied yes"
        );
    });
}

#[test]
fn a_server_that_is_asked_elsewhere_needs_a_rule_of_its_own() {
    isolated!({
        let (server, _folder) = set_up();
        let other = serve("127.0.0.66", "53");
        let rules = following(
            "default: deny\nrules: [{allow: out, to: resolver}, {allow: out, to: web.test}]",
        );
        let said = asks(
            "print(by_send(query('web.test')))\nSERVER = ('127.0.0.66', 53)\n\
             for way in [by_sendto, by_send, by_stream]:\n try: print(way(query('web.test')))\n \
             except OSError as e: print(e.strerror)",
            1,
            &rules,
        );
        assert_eq!(said, "0 Permission denied Permission denied Permission denied");
        assert_eq!((server.asked(), other.asked()), (vec!["web.test".to_owned()], vec![]));
    });
}

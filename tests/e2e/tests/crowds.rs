//! Connections of others, more than there is room for: active clients are served.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, machine, needs, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A wait that is long enough on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// Answers everybody in capitals, at the end of what is sent.
const SERVER: &str = "
import asyncio, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
async def answer(reader, writer):
    try:
        writer.write((await reader.read()).upper())
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(answer, '127.0.0.1', 80, backlog=4096)
    await server.serve_forever()
asyncio.run(main())
";

/// Lets this process open as many files as it may; this many connections are left of that, `most` at the most.
fn room(most: u64) -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("open more files");
    maximum.map_or(most, |maximum| most.min(maximum - 100))
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&at, LONG).expect("connect");
    stream.set_read_timeout(Some(LONG)).expect("a time limit");
    stream
}

/// What the server in the node answers.
fn answer(at: SocketAddr, asked: &[u8]) -> Vec<u8> {
    let mut stream = connect(at);
    stream.write_all(asked).expect("send");
    stream.shutdown(Shutdown::Write).expect("end");
    let mut answer = vec![];
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

#[test]
fn idle_connections_to_a_published_port_keep_no_new_one_out() {
    needs!("python3");
    let machine = machine!();
    let at = SocketAddr::from(([127, 0, 0, 1], netloom_kit::free_port()));
    std::fs::write(machine.scratch().path().join("server.py"), SERVER).expect("write the server");
    machine.up(&format!(
        "name: crowd\nnodes:\n  web:\n    files: {{/srv/server.py: {{from: server.py}}}}\n    ports: ['{at}:80']\n    \
         run: [[python3, /srv/server.py]]\n    ready: {{tcp: 80}}\n"
    ));
    assert_eq!(answer(at, b"alone"), b"ALONE");
    let process = super::ports::publisher(&machine);
    let threads =
        || std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads").count();
    let few = threads();
    let idle: Vec<TcpStream> = (0..room(6000)).map(|_| connect(at)).collect();
    assert_eq!(answer(at, b"in"), b"IN");
    // Nor do connections on which something was sent.
    for mut stream in &idle {
        // It may have given way already.
        let _ = stream.write_all(b"half");
    }
    assert_eq!(answer(at, b"again"), b"AGAIN");
    assert_eq!(threads(), few, "threads of the process, whose number connections do not change");
    drop(idle);
    machine.down();
}

/// A server for a lab on a port, and the header that lets its owner in.
fn serve(machine: &Machine) -> (Held, SocketAddr, String) {
    let mut held = Held::start(machine.netloom(["serve", "-l", "pair", "--listen", "127.0.0.1:0"]));
    let (serving, how) = (held.line(), held.line());
    let at = serving.strip_prefix("serving http://").and_then(|rest| rest.split('/').next());
    let at = at.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("says {serving:?}"));
    let header = how.split('\'').nth(1).unwrap_or_else(|| panic!("says {how:?}")).to_owned();
    (held, at, header)
}

#[test]
fn connections_without_the_token_delay_its_holder_by_less_than_100_ms() {
    let machine = machine!();
    machine.up(&netloom_tests_e2e::pair(""));
    let (held, at, header) = serve(&machine);
    let ask = || {
        let begun = Instant::now();
        let mut stream = connect(at);
        let request =
            format!("GET /v1/lab HTTP/1.1\r\nhost: {at}\r\n{header}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        begun.elapsed()
    };
    // What the machine does beside may delay some of them.
    let median = || {
        let mut all: Vec<Duration> = (0..21).map(|_| ask()).collect();
        all.sort();
        all[10]
    };
    let alone = median();
    for bytes in ["", "GET /v1/lab HTTP/1.1\r\nhost: 127.0.0.1\r\n"] {
        let crowd: Vec<TcpStream> = (0..250).map(|_| connect(at)).collect();
        for mut stream in &crowd {
            stream.write_all(bytes.as_bytes()).expect("send");
        }
        // A machine that others use more than before takes longer, too; a crowd that delays does so each time.
        wait_until("no delay by the crowd", LONG * 4, || {
            let among = median();
            eprintln!("{alone:?} alone, {among:?} among {bytes:?}");
            (among.saturating_sub(alone) < Duration::from_millis(100)).then_some(())
        });
    }
    drop(held);
    machine.down();
}

//! Any bytes to a policy of guard: errors with places, or rules that are written and read back alike, and decide
//! alike with and without their index.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_policy::{Direction, Indexed, Program, Protocol, Request, Target, read, words, write};

fuzz_target!(|bytes: &[u8]| {
    let policy = match read("fuzz", bytes) {
        Ok(policy) => policy,
        Err(errors) => {
            assert!(errors.list.iter().all(|e| e.line > 0 && e.column > 0));
            return;
        }
    };
    let text = write(&policy);
    let back = read("written", text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(back, policy, "{text}");
    let indexed = Indexed::new(policy.clone());
    let now = "2030-01-01T00:00:00Z".parse().expect("a time");
    let program = Program { path: "/usr/bin/curl".into(), sha256: None };
    for word in [
        "10.0.0.1:443",
        "deb.debian.org=10.0.0.1:443",
        "resolver:53",
        "/run/x",
        "unix:@x",
        "vsock:2:1",
    ] {
        let asked = words::request(program.clone(), &[word.to_owned()]).expect("a request");
        assert_eq!(indexed.decide(&asked.request, now), policy.decide(&asked.request, now));
        let listens = Request { direction: Direction::In, ..asked.request };
        assert_eq!(indexed.decide(&listens, now), policy.decide(&listens, now));
        assert_eq!(indexed.peers(&listens, now), policy.peers(&listens, now));
    }
    let looks_up = ["dns".to_owned(), "deb.debian.org".to_owned()];
    let looks_up = words::request(program.clone(), &looks_up).expect("a request").request;
    let hidden = Request { protocol: Protocol::Unix, target: Target::Hidden, ..looks_up.clone() };
    let opens = Request {
        program,
        direction: Direction::Open,
        protocol: Protocol::Raw,
        target: Target::Socket,
    };
    for request in [looks_up, hidden, opens] {
        assert_eq!(indexed.decide(&request, now), policy.decide(&request, now), "{request:?}");
    }
    let followed = policy.followed(|path| Some(format!("/real{path}")));
    let text = write(&followed);
    assert_eq!(read("followed", text.as_bytes()).ok(), Some(followed), "{text}");
});

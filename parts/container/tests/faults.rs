//! Registries that want tokens, stall, cut off, lie, and are busy.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use netloom_container::{Patience, Record, provide, unpack};

use super::support::server::{Request, Server, begin_of, say, send};
use super::support::{Scratch, Tar, owners, scratch};

/// That of a client whose server answers by itself, when it has a processor.
fn patient() -> Patience {
    let long = Duration::from_secs(30);
    Patience { connect: long, stall: long, tries: 3, pause: Duration::from_millis(10) }
}

/// That of one whose server does not.
fn hurried() -> Patience {
    Patience { stall: Duration::from_millis(500), ..patient() }
}

fn layers() -> Vec<Vec<u8>> {
    let text = "text".repeat(40_000);
    vec![
        Tar::new().dir("etc", 0o755).file("etc/a", 0o644, "a").end(),
        Tar::new().file("large", 0o644, &text).end(),
    ]
}

fn fetch(scratch: &Scratch, server: &Server) -> Result<Record, String> {
    fetch_with(patient(), scratch, server)
}

fn fetch_with(patience: Patience, scratch: &Scratch, server: &Server) -> Result<Record, String> {
    let fetched = provide::fetch(&scratch.store, &server.image(), patience);
    fetched.map_err(|e| netloom_sys::describe(&e))
}

/// An image that came, unpacked.
fn whole(scratch: &Scratch, server: &Server) {
    whole_with(patient(), scratch, server);
}

fn whole_with(patience: Patience, scratch: &Scratch, server: &Server) {
    let record = fetch_with(patience, scratch, server).unwrap();
    unpack::unpack(&scratch.store, &record, owners(), Default::default()).unwrap();
    let trees = unpack::trees(&scratch.store, &record.layers, owners()).unwrap();
    assert_eq!(std::fs::read(trees[1].join("large")).unwrap().len(), 160_000);
    let partial = std::fs::read_dir(scratch.store.root().join("partial")).unwrap().count();
    assert_eq!(partial, 0);
}

fn is_layer(request: &Request, which: usize) -> bool {
    let digest = netloom_oci::Digest::of(&layers()[which]).to_string();
    request.path.contains("/blobs/") && request.path.ends_with(&digest)
}

#[test]
fn a_registry_without_faults_is_asked_once_for_each_thing() {
    let server = Server::start(layers(), |_, _| false);
    let scratch = scratch();
    whole(&scratch, &server);
    assert_eq!((server.count("/manifests/"), server.count("/blobs/")), (1, 3));
    // Existing layers are not fetched again.
    fetch(&scratch, &server).unwrap();
    assert_eq!((server.count("/manifests/"), server.count("/blobs/")), (2, 4));
}

#[test]
fn tokens_are_fetched_once_and_not_given_to_others() {
    let elsewhere = Server::start(layers(), |_, _| false);
    let other = elsewhere.address.clone();
    let server = Server::start(layers(), move |request, socket| {
        if request.path.starts_with("/token?service=here&scope=repository%3Aa%2Fb%3Apull") {
            say(socket, "200 OK", "", b"{\"token\": \"secret\"}");
            return true;
        }
        if request.path != "/v2/" && request.get("authorization") != Some("Bearer secret") {
            let host = request.get("host").unwrap_or_default();
            let header = format!(
                "WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"here\",scope=\"repository:a/b:pull\"\r\n"
            );
            say(socket, "401 Unauthorized", &header, b"{}");
            return true;
        }
        if is_layer(request, 1) {
            let to = format!("Location: http://{other}{}\r\n", request.path);
            say(socket, "307 Temporary Redirect", &to, b"");
            return true;
        }
        false
    });
    whole(&scratch(), &server);
    assert_eq!(server.count("/token"), 1);
    let asked = elsewhere.asked.lock().unwrap();
    assert!(asked.iter().any(|r| is_layer(r, 1)));
    assert!(asked.iter().all(|r| r.get("authorization").is_none()), "{asked:?}");
}

#[test]
fn refusals_say_what_was_refused() {
    let status = |status: &'static str| {
        Server::start(layers(), move |request, socket| {
            let refuses = request.path.contains("/manifests/");
            if refuses {
                say(socket, status, "", b"{}");
            }
            refuses
        })
    };
    for (answer, part, tries) in [
        ("404 Not Found", " has no such image", 1),
        ("401 Unauthorized", " refuses it (401): it may not exist, or needs a login", 1),
        ("403 Forbidden", " refuses it (403)", 1),
        ("418 Teapot", ": manifest 1: it answers 418", 1),
        ("500 Oh", ": manifest 1: it answers 500 (3 tries)", 3),
        ("429 Busy", ": manifest 1: it answers 429: too many requests (3 tries)", 3),
    ] {
        let server = status(answer);
        let refused = fetch(&scratch(), &server).unwrap_err();
        assert!(refused.starts_with(&format!("image \"{}/a/b:1\": ", server.address)), "{refused}");
        assert!(refused.contains(part), "{part}: {refused}");
        assert_eq!(server.count("/manifests/"), tries, "{answer}");
    }
}

#[test]
fn a_busy_registry_is_asked_again_when_it_says() {
    let left = Arc::new(AtomicUsize::new(2));
    let count = left.clone();
    let server = Server::start(layers(), move |request, socket| {
        let refuses = request.path.contains("/manifests/")
            && count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if refuses {
            say(socket, "429 Busy", "Retry-After: 1\r\n", b"");
        }
        refuses
    });
    let begin = Instant::now();
    whole(&scratch(), &server);
    assert!(begin.elapsed() >= Duration::from_secs(2));
    // Nobody waits for an hour.
    let server = Server::start(layers(), |request, socket| {
        let refuses = request.path.contains("/manifests/");
        if refuses {
            say(socket, "503 Later", "Retry-After: 3600\r\n", b"");
        }
        refuses
    });
    let refused = fetch(&scratch(), &server).unwrap_err();
    assert!(refused.contains("it answers 503; it asks to wait 3600 s"), "{refused}");
}

#[test]
fn what_is_cut_off_goes_on_where_it_was() {
    for stalls in [false, true] {
        let server = Server::start(layers(), move |request, socket| {
            if !is_layer(request, 1) {
                return false;
            }
            let bytes = &layers()[1];
            let begin = begin_of(request).unwrap_or(0);
            if begin + 50_000 >= bytes.len() {
                send(socket, request, bytes);
                return true;
            }
            let part = &bytes[begin..begin + 50_000];
            let range =
                format!("Content-Range: bytes {begin}-{}/{}\r\n", bytes.len() - 1, bytes.len());
            let status = if begin == 0 { "200 OK" } else { "206 Partial Content" };
            let length = bytes.len() - begin;
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{range}\r\n");
            socket.write_all(head.as_bytes()).unwrap();
            socket.write_all(part).unwrap();
            if stalls {
                // Until the other side gives up.
                let _ = std::io::Read::read(socket, &mut [0; 1]);
            }
            true
        });
        whole_with(if stalls { hurried() } else { patient() }, &scratch(), &server);
        let asked = server.asked.lock().unwrap();
        let mut begins: Vec<_> = asked.iter().filter(|r| is_layer(r, 1)).map(begin_of).collect();
        if stalls {
            // A server that had no processor for that long is asked for the same again.
            begins.dedup();
        }
        assert_eq!(begins, [None, Some(50_000), Some(100_000), Some(150_000)]);
    }
}

#[test]
fn a_registry_that_never_answers_is_left() {
    let server = Server::start(layers(), |request, socket| {
        if request.path.contains("/manifests/") {
            let _ = std::io::Read::read(socket, &mut [0; 1]);
            return true;
        }
        false
    });
    let begin = Instant::now();
    let refused = fetch_with(hurried(), &scratch(), &server).unwrap_err();
    assert!(refused.contains("manifest 1: the server says nothing more (3 tries)"), "{refused}");
    // Three times its patience, and not the server's.
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// Sends some bytes for ever, with a pause that no wait is too short for.
fn for_ever(socket: &mut std::net::TcpStream, begin: &str, more: &str, pause: u64) -> bool {
    let mut sent = socket.write_all(begin.as_bytes());
    while sent.is_ok() {
        sent = socket.write_all(more.as_bytes());
        std::thread::sleep(Duration::from_millis(pause));
    }
    true
}

#[test]
fn an_answer_that_never_ends_is_left() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    for (begin, more, pause) in [
        ("HTTP/1.1 200 OK\r\nX: ", "x", 50),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", " ", 50),
        ("", hints, 0),
        ("", "HTTP/1.1 100 Continue\r\n\r\n", 50),
        (chunked, "X: y\r\n", 0),
    ] {
        let server = Server::start(layers(), move |request, socket| {
            request.path.contains("/manifests/") && for_ever(socket, begin, more, pause)
        });
        let (begun, scratch) = (Instant::now(), scratch());
        let refused = fetch_with(hurried(), &scratch, &server).unwrap_err();
        assert!(refused.contains("(3 tries)"), "{begin}{more}: {refused}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{begin}{more}: {refused}");
    }
}

#[test]
fn a_layer_that_comes_by_the_byte_is_left() {
    let server = Server::start(layers(), move |request, socket| {
        let begin = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
        is_layer(request, 0) && for_ever(socket, begin, " ", 50)
    });
    let scratch = scratch();
    let begun = Instant::now();
    let refused = fetch_with(hurried(), &scratch, &server).unwrap_err();
    assert!(refused.contains("(3 tries)"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{refused}");
}

#[test]
fn what_another_process_left_is_continued() {
    let server = Server::start(layers(), |_, _| false);
    let scratch = scratch();
    let bytes = &layers()[1];
    let digest = netloom_oci::Digest::of(bytes);
    let partial = scratch.store.root().join("partial").join(digest.hex());
    std::fs::write(&partial, &bytes[..70_000]).unwrap();
    whole(&scratch, &server);
    let asked = server.asked.lock().unwrap();
    let begins: Vec<_> = asked.iter().filter(|r| is_layer(r, 1)).map(begin_of).collect();
    assert_eq!(begins, [Some(70_000)]);
}

#[test]
fn what_another_process_left_wrong_is_fetched_anew() {
    let server = Server::start(layers(), |_, _| false);
    let scratch = scratch();
    let digest = netloom_oci::Digest::of(&layers()[1]);
    let partial = scratch.store.root().join("partial").join(digest.hex());
    std::fs::write(&partial, vec![7; 70_000]).unwrap();
    whole(&scratch, &server);
    let asked = server.asked.lock().unwrap();
    let begins: Vec<_> = asked.iter().filter(|r| is_layer(r, 1)).map(begin_of).collect();
    assert_eq!(begins, [Some(70_000), None]);
}

#[test]
fn content_that_is_not_what_it_is_called_is_refused() {
    for which in ["manifest", "config", "layer"] {
        let server = Server::start(layers(), move |request, socket| {
            let lies = match which {
                "manifest" => request.path.contains("/manifests/sha256:"),
                "config" => {
                    let is_layer = is_layer(request, 0) || is_layer(request, 1);
                    request.path.contains("/blobs/") && !is_layer
                }
                _ => is_layer(request, 1),
            };
            if lies {
                let mut bytes = layers()[1].clone();
                bytes[600] ^= 1;
                say(socket, "200 OK", "", if which == "layer" { bytes.as_slice() } else { b"{}" });
            }
            lies
        });
        let scratch = scratch();
        let refused = match which {
            "manifest" => {
                let (manifest, _) = super::support::server::documents(&layers());
                let digest = netloom_oci::Digest::of(manifest.as_bytes());
                let name = format!("{}/a/b@{digest}", server.address).parse().unwrap();
                provide::fetch(&scratch.store, &name, patient()).unwrap_err().to_string()
            }
            _ => fetch(&scratch, &server).unwrap_err(),
        };
        assert!(refused.contains(which) && refused.contains("its content is sha256:"), "{refused}");
        let digest = netloom_oci::Digest::of(&layers()[1]);
        assert!(!scratch.store.blob(&digest).exists() || which != "layer");
        let partial = scratch.store.root().join("partial").join(digest.hex());
        assert!(!partial.exists() || which != "layer");
    }
}

#[test]
fn a_layer_longer_than_it_is_said_to_be_ends() {
    let server = Server::start(layers(), |request, socket| {
        let is_it = is_layer(request, 1);
        if is_it {
            say(socket, "200 OK", "", &layers()[1].repeat(2));
        }
        is_it
    });
    let scratch = scratch();
    let refused = fetch(&scratch, &server).unwrap_err();
    assert!(refused.contains("layer 2 of 2, sha256:"), "{refused}");
    assert!(refused.contains("bytes come"), "{refused}");
    let partial = scratch.store.root().join("partial");
    assert_eq!(std::fs::read_dir(partial).unwrap().count(), 0);
}

/// Each answer brings bytes, but in turns the whole from its beginning and a part: nothing beyond the first 50,000.
#[test]
fn a_registry_that_begins_again_and_again_is_left() {
    let left = AtomicUsize::new(30);
    let server = Server::start(layers(), move |request, socket| {
        let goes_on =
            || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        // A client that keeps trying gets it in the end.
        if !is_layer(request, 1) || !goes_on() {
            return false;
        }
        let bytes = &layers()[1];
        let begin = begin_of(request).unwrap_or(0);
        let range = format!("Content-Range: bytes {begin}-{}/{}\r\n", bytes.len() - 1, bytes.len());
        let (status, from, end) = match begin {
            0 => ("200 OK", 0, 50_000),
            50_000 => ("200 OK", 0, 40_000),
            _ => ("206 Partial Content", begin, 50_000),
        };
        let length = bytes.len() - from;
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{range}\r\n");
        let _ =
            socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&bytes[from..end]));
        true
    });
    let refused = fetch(&scratch(), &server).unwrap_err();
    assert!(refused.contains("(3 tries)"), "{refused}");
    let asked = server.asked.lock().unwrap();
    let begins: Vec<_> = asked.iter().filter(|r| is_layer(r, 1)).map(begin_of).collect();
    assert_eq!(begins, [None, Some(50_000), Some(40_000)]);
}

/// A layer whose digest is right, and whose content is refused, is never used.
#[test]
fn the_packed_file_of_a_refused_layer_goes() {
    let bad = Tar::new().file("../x", 0o644, "x").end();
    let good = Tar::new().file("y", 0o644, "y").end();
    let all = vec![good.clone(), bad.clone()];
    let server = Server::start(all, |_, _| false);
    let scratch = scratch();
    let record = fetch(&scratch, &server).unwrap();
    let unpacked = unpack::unpack(&scratch.store, &record, owners(), Default::default());
    assert!(unpacked.unwrap_err().to_string().contains("its path has `..`"));
    let is_there = |bytes: &[u8]| scratch.store.blob(&netloom_oci::Digest::of(bytes)).exists();
    assert_eq!((is_there(&good), is_there(&bad)), (true, false));
}

/// A manifest that lies about a layer which a kept image has takes nothing from that.
#[test]
fn a_layer_that_a_kept_image_needs_stays() {
    let good = Tar::new().file("y", 0o644, "y").end();
    let server = Server::start(vec![good.clone()], |_, _| false);
    let scratch = scratch();
    let record = fetch(&scratch, &server).unwrap();
    provide::keep(&scratch.store, &record).unwrap();
    let mut lies = record.clone();
    lies.name = "lies:1".to_owned();
    lies.layers[0].diff_id = netloom_oci::Digest::of(b"another");
    let unpacked = unpack::unpack(&scratch.store, &lies, owners(), Default::default());
    assert!(unpacked.unwrap_err().to_string().contains("its content is sha256:"));
    assert!(scratch.store.blob(&netloom_oci::Digest::of(&good)).exists());
}

#[test]
fn a_closed_port_is_named() {
    // Bound, so that no other test gets its port, and not listened at.
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
    let held = rustix::net::socket(family, kind, None).unwrap();
    rustix::net::bind(&held, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let port = std::net::TcpListener::from(held);
    let name = format!("{}/a:1", port.local_addr().unwrap()).parse().unwrap();
    let refused = provide::fetch(&scratch().store, &name, patient()).unwrap_err();
    let words = netloom_sys::describe(&refused);
    assert!(words.contains("connect: Connection refused"), "{words}");
    assert!(words.contains("(3 tries)"), "{words}");
}

//! Start and end: stale sockets, second servers, threads and descriptors that must not stay.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use netloom_api::{Client, Error, serve};
use netloom_lab::calls::{Down, ReadLog, Status};

use super::fake::{Fake, PLAN, Served, status};

/// Names of this process's threads, by id.
fn threads() -> BTreeMap<String, String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let named = tasks.filter_map(|task| {
        let task = task.ok()?;
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        Some((task.file_name().into_string().ok()?, name.trim().to_owned()))
    });
    named.collect()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn stop_leaves_no_thread_no_descriptor_and_no_socket() {
    netloom_kit::isolated!({
        let (threads_before, open_before) = (threads(), descriptors());
        let Served { fake, server, folder } = Served::new();
        let client = Client::connect(folder.path()).unwrap();
        assert_eq!(client.call(&Status::whole()).unwrap(), status());
        drop(client.entry("h1").unwrap());
        assert!(threads().len() >= threads_before.len() + 2);
        server.stop();
        drop(client);
        netloom_kit::wait_until("threads end", Duration::from_secs(20), || {
            (threads() == threads_before).then_some(())
        });
        assert_eq!(descriptors(), open_before);
        for name in ["api.sock", "handles.sock"] {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
        let error = Client::connect(folder.path()).unwrap_err();
        assert!(matches!(error, Error::NotRunning(_)), "{error}");
        assert_eq!(Arc::strong_count(&fake), 1);
    });
}

#[test]
fn the_client_starts_no_thread() {
    netloom_kit::isolated!({
        let served = Served::new();
        let foreign = || {
            let all = threads();
            all.into_iter().filter(|(_, name)| !name.starts_with("netloom-")).collect::<Vec<_>>()
        };
        // A thread names itself, a little after it was started.
        netloom_kit::wait_until("server's threads", Duration::from_secs(20), || {
            let named = |name: &str| threads().values().any(|n| n == name);
            (named("netloom-api") && named("netloom-entries")).then_some(())
        });
        let before = foreign();
        let client = served.client();
        client.call(&Status::whole()).unwrap();
        client.call(&PLAN).unwrap();
        client.call(&ReadLog::of("h1", 0, Duration::from_millis(1))).unwrap();
        client.entry("h1").unwrap();
        assert_eq!(foreign(), before);
    });
}

#[test]
fn stop_ends_waiting_calls_with_an_answer() {
    let served = Served::new();
    let client = served.client();
    let waiting =
        std::thread::spawn(move || client.call(&ReadLog::of("h1", 1, Duration::from_secs(60))));
    netloom_kit::wait_until("call arrives", Duration::from_secs(20), || {
        (!served.fake.asked.lock().unwrap().is_empty()).then_some(())
    });
    served.server.stop();
    assert_eq!(waiting.join().unwrap().unwrap(), []);
}

#[test]
fn a_folder_is_served_once() {
    let served = Served::new();
    let fake = Arc::new(Fake::new(served.path()));
    let error = serve(served.path(), fake).unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error}");
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
    served.client().entry("h1").unwrap();
}

#[test]
fn a_killed_server_s_sockets_are_replaced_and_nobody_listens_on_them() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["api.sock", "handles.sock"] {
        drop(UnixListener::bind(folder.path().join(name)).unwrap());
    }
    let error = Client::connect(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NotRunning(_)), "{error}");
    let fake = Arc::new(Fake::new(folder.path()));
    let server = serve(folder.path(), fake).unwrap();
    let client = Client::connect(folder.path()).unwrap();
    assert_eq!(client.call(&Status::whole()).unwrap(), status());
    drop(server);
    assert!(matches!(client.call(&Status::whole()).unwrap_err(), Error::NotRunning(_)));
    assert!(matches!(client.entry("h1").unwrap_err(), Error::NotRunning(_)));
}

#[test]
fn what_fails_to_start_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Something that is not a socket is not removed.
    std::fs::create_dir(folder.path().join("handles.sock")).unwrap();
    let serve = |path: &std::path::Path| serve(path, Arc::new(Fake::new(path))).unwrap_err();
    let error = serve(folder.path());
    assert!(matches!(error, Error::Failed(_) | Error::Busy(_)), "{error}");
    assert!(!folder.path().join("api.sock").exists());
    let long = folder.path().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    assert!(serve(&long).to_string().contains("use as the path of a socket"));
    assert!(matches!(serve(&folder.path().join("none")), Error::Failed(_)));
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
}

#[test]
fn a_lab_process_that_ends_in_a_call_is_told_from_one_that_was_never_there() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("api.sock")).unwrap();
    let killed = std::thread::spawn(move || {
        // The look of connect(), then the call.
        drop(listener.accept().unwrap());
        drop(listener.accept().unwrap());
    });
    let client = Client::connect(folder.path()).unwrap();
    let error = client.call(&Down {}).unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error}");
    killed.join().unwrap();
}

/// What a client tells of a lab process that answers this, whatever it is asked.
fn told_of(answer: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("api.sock")).unwrap();
    let answer = answer.to_owned();
    let served = std::thread::spawn(move || {
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 4096];
        assert!(stream.read(&mut asked).unwrap() > 0);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let client = Client::connect(folder.path()).unwrap();
    let told = client.call(&Status::whole()).unwrap_err().to_string();
    served.join().unwrap();
    told
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

#[test]
fn a_lab_process_of_another_version_is_told_where_it_is_not_understood() {
    let hint = "; the lab process is of an earlier version of netloom than this command";
    let unknown = r#"{"error":"\"/v1/new\": no such route","object":null}"#;
    let told = told_of(&answer(404, "", unknown));
    assert!(told.starts_with(&format!("\"/v1/new\": no such route{hint}")), "{told}");
    let unknown =
        r#"{"error":"parameter \"tail\": is not known here; it has after","object":null}"#;
    let told = told_of(&answer(400, "netloom-api: 1\r\n", unknown));
    assert!(told.contains(hint), "{told}");
    let told = told_of(&answer(200, "netloom-api: 99\r\n", "{}"));
    assert!(told.contains("missing field") && told.contains("is of a later version"), "{told}");
    let unknown = r#"{"error":"old","detail":"\"/v1/new\": no such route","code":"no_such_route"}"#;
    let told = told_of(&answer(404, "netloom-api: 2\r\n", unknown));
    assert!(told.starts_with(&format!("\"/v1/new\": no such route{hint}")), "{told}");
    let other = r#"{"error":"node \"x\": not in lab \"l\"","object":null}"#;
    assert_eq!(told_of(&answer(404, "", other)), "node \"x\": not in lab \"l\"");
    let told = told_of(&answer(200, "netloom-api: 3\r\n", "{}"));
    assert!(told.contains("missing field") && !told.contains("version"), "{told}");
}

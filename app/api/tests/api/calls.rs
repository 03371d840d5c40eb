//! The client's calls: what arrives, what comes back, and how refusals read.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use netloom_api::{Client, Error};
use netloom_lab::call::Within;
use netloom_lab::calls::{Down, Ping, PingPair, ReadLog, ShowLayout, ShowNode, Status};
use netloom_lab::values::{Families, Whole};
use netloom_lab::view::Repaired;
use netloom_node::ping::Pace;
use serde::{Serialize, Serializer};

use super::fake::{Fake, PLAN, REPAIR, Served, pair_reachability, plan, reachability, status};
use crate::handler::{Encoded, Lab};

fn ping(families: &[u8], timeout_ms: u64) -> Ping {
    let family = Families(families.to_vec());
    Ping { family, timeout_ms: Whole(timeout_ms), among: Within::ALL }
}

#[test]
fn each_call_arrives_and_its_answer_comes_back_whole() {
    let served = Served::new();
    let client = served.client();
    assert_eq!(client.call(&Status::whole()).unwrap(), status());
    assert_eq!(client.call(&PLAN).unwrap(), plan());
    let positions = client.call(&ShowLayout { of: Within::ALL }).unwrap();
    assert_eq!(positions, netloom_model::drawing::positions(&plan()));
    assert_eq!(client.call(&ShowNode { node: "r 1/x".into() }).unwrap(), status().nodes[1]);
    assert_eq!(
        client.call(&REPAIR).unwrap(),
        Repaired {
            nodes: vec!["h1".into()],
            troubles: vec!["t".into()],
            notes: vec!["n".into()],
            drift: vec![],
        }
    );
    assert_eq!(client.call(&ping(&[6], 250)).unwrap(), reachability());
    let (interval, timeout) = (Duration::from_millis(20), Duration::from_millis(30));
    let pace = Pace { count: 10, interval, timeout };
    assert_eq!(client.call(&PingPair::of("h1", "r 1/x", &[4], pace)).unwrap(), pair_reachability());
    served.fake.write(7, "first");
    served.fake.write(8, "second \"line\"");
    let records = client.call(&ReadLog::of("r 1/x", 7, Duration::ZERO)).unwrap();
    let texts: Vec<_> =
        records.iter().map(|r| (r.record.time_ns, r.record.text.as_str())).collect();
    assert_eq!(texts, [(8, "second \"line\"")]);
    assert_eq!(client.call(&ReadLog::of("h1", 8, Duration::ZERO)).unwrap(), []);
    client.without_timeout().call(&Down {}).unwrap();
    let asked = served.fake.asked.lock().unwrap().join(", ");
    let pings = "ping 6 250, ping_pair h1 r 1/x 4 10 20 30";
    let logs = "log r 1/x 7, log h1 8";
    let expected = format!("status, plan, layout, node r 1/x, repair, {pings}, {logs}, down");
    assert_eq!(asked, expected);
}

#[test]
fn refusals_keep_status_and_words() {
    let served = Served::new();
    let client = served.client();
    let refused = |error: Error| match error {
        Error::Refused { status, error } => (status, error),
        other => panic!("{other}"),
    };
    *served.fake.fail.lock().unwrap() = Some(netloom_lab::Error::Conflict {
        lab: "fake".into(),
        reason: "being taken down".into(),
    });
    let words = "lab \"fake\": being taken down".to_owned();
    assert_eq!(refused(client.call(&REPAIR).unwrap_err()), (409, words));
    let words = "node \"h2\": not in lab \"fake\"; did you mean \"h1\"".to_owned();
    let read = client.call(&ReadLog::of("h2", 0, Duration::ZERO));
    assert_eq!(refused(read.unwrap_err()), (404, words.clone()));
    assert_eq!(refused(client.entry("h2").unwrap_err()), (404, words));
    let words = "node \"dead\": its init has ended; `netloom up` of the same file recreates it";
    assert_eq!(refused(client.entry("dead").unwrap_err()), (409, words.to_owned()));
    let (status, words) = refused(client.call(&ping(&[], 1000)).unwrap_err());
    assert_eq!((status, words.as_str()), (400, "parameter \"family\": takes 4, 6 or 4,6"));
}

#[test]
fn a_fault_in_a_call_answers_500_and_the_server_goes_on() {
    let served = Served::new();
    let client = served.client();
    *served.fake.panics.lock().unwrap() = true;
    for error in [client.call(&REPAIR).unwrap_err(), client.entry("fault").unwrap_err()] {
        assert!(matches!(error, Error::Refused { status: 500, .. }), "{error}");
    }
    *served.fake.panics.lock().unwrap() = false;
    client.call(&REPAIR).unwrap();
    assert_eq!(client.call(&Status::whole()).unwrap(), status());
    client.entry("h1").unwrap();
}

#[test]
fn a_waiting_log_call_is_woken_by_the_next_line() {
    let served = Served::new();
    let client = served.client();
    let waiting =
        std::thread::spawn(move || client.call(&ReadLog::of("h1", 1, Duration::from_secs(60))));
    netloom_kit::wait_until("call arrives", Duration::from_secs(20), || {
        (!served.fake.asked.lock().unwrap().is_empty()).then_some(())
    });
    served.fake.write(2, "now");
    let records = waiting.join().unwrap().unwrap();
    assert_eq!(records.iter().map(|r| r.record.text.as_str()).collect::<Vec<_>>(), ["now"]);
}

#[test]
fn fifty_clients_at_once_are_all_served() {
    let served = Served::new();
    let (folder, expected) = (served.path(), status());
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let client = Client::connect(folder).unwrap();
                    assert_eq!(client.call(&Status::whole()).unwrap(), expected);
                    assert_eq!(client.entry("h1").unwrap().node, "h1");
                    client.call(&ReadLog::of("h1", 0, Duration::from_millis(1))).unwrap()
                })
            })
            .collect();
        assert!(clients.into_iter().all(|c| c.join().unwrap().is_empty()));
    });
    assert_eq!(served.fake.asked.lock().unwrap().iter().filter(|a| *a == "status").count(), 50);
}

/// Notes who encodes it.
struct Noted(Arc<Mutex<Option<ThreadId>>>);

impl Serialize for Noted {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        *self.0.lock().unwrap() = Some(std::thread::current().id());
        to.serialize_unit()
    }
}

#[test]
fn an_answer_is_not_encoded_by_the_thread_of_the_connections() {
    let folder = tempfile::tempdir().unwrap();
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    let lab = Lab::new(Arc::new(Fake::new(folder.path())), stopping, Duration::from_secs(20));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let noted = Arc::<Mutex<Option<ThreadId>>>::default();
    let answer = Noted(Arc::clone(&noted));
    assert!(runtime.block_on(lab.call(move |_| Encoded::of(&answer))).is_ok());
    let by = noted.lock().unwrap().expect("nobody encoded it");
    assert_ne!(by, std::thread::current().id());
}

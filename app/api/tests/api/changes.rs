//! Calls that change a running lab: names and bodies arrive whole, refusals keep their words.

use std::time::Duration;

use netloom_api::{Client, Error, Result};
use netloom_flow::control::requests::TraceWhat;
use netloom_lab::calls::{
    AskSwitch, CreateLink, CreateNode, CreateSwitch, DeleteLink, DeleteNode, DeleteSwitch, Move,
    MoveControl, NoteFates, ReadFates, SetLink, SetNode, ShowLink, ShowOpenflow, ShowSlices,
    Status, TraceFrame,
};
use netloom_lab::values::Whole;
use netloom_lab::view::{
    Changed, LinkSettings, MoveInterface, NewLink, NewNode, NewSwitch, NodeSettings,
};
use netloom_switch::control::requests::{Answer, PortChange, Request};

use super::fake::{Served, fate, status};
use super::http::request_with;

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn asked(served: &Served) -> Vec<String> {
    std::mem::take(&mut served.fake.asked.lock().unwrap())
}

fn delete(node: &str, force: bool) -> DeleteNode {
    DeleteNode { node: node.into(), force }
}

fn delete_switch(force: bool) -> DeleteSwitch {
    DeleteSwitch { switch: "s 1".into(), force }
}

fn ask(switch: &str, request: Request) -> AskSwitch {
    AskSwitch { switch: switch.into(), request }
}

fn set(link: &str, change: LinkSettings) -> SetLink {
    SetLink { link: link.into(), change }
}

fn note(link: &str, keep: u64) -> NoteFates {
    NoteFates { link: link.into(), keep: Whole(keep) }
}

fn read_fates(end: u64, after: Option<u64>, wait: Duration) -> ReadFates {
    let link = "t/a:eth0".into();
    ReadFates { link, end: Whole(end), after, wait_ms: Whole::of(wait) }
}

#[test]
fn changes_of_nodes_arrive_and_their_notes_come_back() {
    let served = Served::new();
    let client = served.client();
    let changed = |name: &str| Changed {
        name: name.into(),
        notes: vec!["3 processes run, 2 are allowed".into()],
    };
    let settings = pairs(&[("cpu", "50%"), ("memory", "\"ü\n")]);
    let new = NewNode { name: "t/ü %2F?#".into(), settings, root: Some("/r".into()) };
    assert_eq!(client.call(&CreateNode { new }).unwrap(), changed("t/ü %2F?#"));
    let change = NodeSettings { settings: pairs(&[("sockets", "none")]) };
    assert_eq!(client.call(&SetNode { node: "r 1/x".into(), change }).unwrap(), changed("r 1/x"));
    let request = MoveInterface {
        interface: "h1:eth0".into(),
        to: "r 1/x".into(),
        name: Some("eth7".into()),
        carry: true,
    };
    assert_eq!(client.call(&Move { request }).unwrap(), changed("eth7"));
    assert_eq!(client.call(&MoveControl { node: "r 1/x".into() }).unwrap(), changed("r 1/x"));
    assert_eq!(client.call(&delete("r 1/x", true)).unwrap(), changed("r 1/x"));
    let expected = [
        r#"create_node {"name":"t/ü %2F?#","settings":[["cpu","50%"],["memory","\"ü\n"]],"root":"/r"}"#,
        r#"set_node r 1/x {"settings":[["sockets","none"]]}"#,
        r#"move_interface {"interface":"h1:eth0","to":"r 1/x","name":"eth7","carry":true}"#,
        "move_control r 1/x",
        "delete_node r 1/x true",
    ];
    assert_eq!(asked(&served), expected);
}

#[test]
fn links_are_found_by_name_and_by_end_and_changed() {
    let served = Served::new();
    let client = served.client();
    for name in ["t/a:eth0--s 1", "t/a:eth0"] {
        assert_eq!(client.call(&ShowLink { link: name.into() }).unwrap(), status().links[1]);
    }
    asked(&served);
    let settings = pairs(&[("delay", "1ms")]);
    let change = LinkSettings { end: Some(1), clear: true, settings, up: None };
    assert_eq!(client.call(&set("t/a:eth0", change)).unwrap(), status().links[1]);
    let change = LinkSettings { up: Some(false), ..LinkSettings::default() };
    client.call(&set("t/a:eth0", change)).unwrap();
    let new = NewLink {
        a: "a".into(),
        b: "b:x".into(),
        name: Some("l".into()),
        addresses: pairs(&[("a", "10.0.0.1/24")]),
        macs: pairs(&[("a", "02:00:00:00:00:01")]),
        settings: pairs(&[("mtu", "1400")]),
    };
    assert_eq!(client.call(&CreateLink { new }).unwrap().name, "a:eth0--b:eth0");
    assert_eq!(client.call(&DeleteLink { link: "t/a:eth0".into() }).unwrap().name, "t/a:eth0");
    client.call(&note("t/a:eth0--s 1", 9)).unwrap();
    client.call(&note("t/a:eth0--s 1", 0)).unwrap();
    served.fake.write(3, "sent");
    served.fake.write(4, "queue");
    let fates = |after, wait| client.call(&read_fates(1, after, wait)).unwrap().fates;
    assert_eq!(fates(None, Duration::ZERO), [fate(3, 1, "sent"), fate(4, 1, "queue")]);
    assert_eq!(fates(Some(3), Duration::from_secs(60)), [fate(4, 1, "queue")]);
    assert_eq!(fates(Some(4), Duration::ZERO), []);
    let expected = [
        r#"set_link t/a:eth0 {"end":1,"clear":true,"settings":[["delay","1ms"]],"up":null}"#,
        r#"set_link t/a:eth0 {"end":null,"clear":false,"settings":[],"up":false}"#,
        concat!(
            r#"create_link {"a":"a","b":"b:x","name":"l","addresses":[["a","10.0.0.1/24"]],"#,
            r#""macs":[["a","02:00:00:00:00:01"]],"settings":[["mtu","1400"]]}"#
        ),
        "delete_link t/a:eth0",
        "note_fates t/a:eth0--s 1 9",
        "note_fates t/a:eth0--s 1 0",
        "fates t/a:eth0 1",
        "fates t/a:eth0 1 3 60000",
        "fates t/a:eth0 1 4",
    ];
    assert_eq!(asked(&served), expected);
}

#[test]
fn switches_are_made_asked_and_removed() {
    let served = Served::new();
    let client = served.client();
    let new = NewSwitch { name: "s/ü".into(), settings: pairs(&[("mode", "660")]) };
    assert_eq!(client.call(&CreateSwitch { new }).unwrap().name, "s/ü");
    let Answer::Shown(shown) = client.call(&ask("s 1", Request::Show)).unwrap() else {
        panic!("how it is")
    };
    assert_eq!((shown.ports.len(), shown.mirrors.len()), (3, 1));
    let change = PortChange { uid: Some(None), learn: Some(false), ..PortChange::default() };
    let set = Request::SetPort { port: "p".into(), change };
    assert_eq!(client.call(&ask("s 1", set)).unwrap(), Answer::Done);
    assert_eq!(client.call(&ShowOpenflow { switch: "s 1".into() }).unwrap().entries, 3);
    assert_eq!(client.call(&ShowSlices {}).unwrap().pid, 9);
    let what = TraceWhat::Match("in_port=1,arp".into());
    assert_eq!(client.call(&TraceFrame { switch: "s 1".into(), what }).unwrap().port, 7);
    assert_eq!(client.call(&delete_switch(true)).unwrap().name, "s 1");
    let expected = [
        r#"create_switch {"name":"s/ü","settings":[["mode","660"]]}"#,
        r#"ask_switch s 1 "show""#,
        r#"ask_switch s 1 {"set-port":{"port":"p","change":{"uid":null,"learn":false}}}"#,
        "show_openflow s 1",
        "show_slices",
        r#"trace_frame s 1 {"match":"in_port=1,arp"}"#,
        "delete_switch s 1 true",
    ];
    assert_eq!(asked(&served), expected);
}

#[test]
fn refused_changes_keep_status_and_words() {
    fn refused<T: std::fmt::Debug>(result: Result<T>) -> (u16, String) {
        match result.unwrap_err() {
            Error::Refused { status, error } => (status, error),
            other => panic!("{other}"),
        }
    }
    let served = Served::new();
    let client = served.client();
    let busy = refused(client.call(&delete("r 1/x", false)));
    assert_eq!(busy, (409, "node \"r 1/x\": it has 1 process: sleep (7)".into()));
    let change = NodeSettings { settings: pairs(&[("cpu", "wrong")]) };
    let wrong = refused(client.call(&SetNode { node: "h1".into(), change }));
    assert_eq!(wrong, (400, "node \"h1\": cpu: takes a number".into()));
    let words = "link \"none\": not in lab \"fake\"";
    let hint = "; `netloom link list` shows them";
    assert_eq!(
        refused(client.call(&ShowLink { link: "none".into() })),
        (404, format!("{words}{hint}"))
    );
    let change = LinkSettings::default();
    assert_eq!(refused(client.call(&set("none", change))), (404, format!("{words}{hint}")));
    assert_eq!(refused(client.call(&note("none", 0))), (404, format!("{words}{hint}")));
    let none = refused(client.call(&ask("none", Request::Show)));
    assert_eq!(none, (404, "switch \"none\": not in lab \"fake\"".into()));
    let busy = refused(client.call(&delete_switch(false)));
    assert_eq!(busy, (409, "switch \"s 1\": ports are on it: p".into()));
    let wrong = refused(client.call(&ask("s 1", Request::DeleteMirror { mirror: 7 })));
    assert_eq!(wrong, (409, "switch \"s 1\": mirror 7: there is none".into()));
    let wrong = refused(client.call(&ask("s 1", Request::Stop)));
    assert_eq!(wrong, (400, "switch \"s 1\": it ends with its lab".into()));
}

#[test]
fn wrong_bodies_are_refused_with_the_field_and_change_nothing() {
    let served = Served::new();
    let deep = "[".repeat(60_000);
    let cases = [
        ("POST", "/v1/nodes", "", "EOF"),
        ("POST", "/v1/nodes", "name=a", "expected"),
        ("POST", "/v1/nodes", "{}", "missing field `name`"),
        ("POST", "/v1/nodes", r#"{"name": "a", "nmae": "b"}"#, "unknown field `nmae`"),
        ("POST", "/v1/nodes", r#"{"name": 5}"#, "name: invalid type"),
        ("POST", "/v1/nodes", r#"{"name": "a", "settings": [["cpu"]]}"#, "settings[0]"),
        ("POST", "/v1/nodes", r#"{"name": "a"} x"#, "trailing"),
        ("POST", "/v1/nodes", &deep, "body: "),
        ("PATCH", "/v1/nodes/h1", "{}", "missing field `settings`"),
        ("PATCH", "/v1/nodes/h1", r#"{"settings": {"cpu": "1"}}"#, "settings: invalid type"),
        ("POST", "/v1/interfaces/move", r#"{"interface": "a:b"}"#, "missing field `to`"),
        ("POST", "/v1/links", r#"{"a": "x"}"#, "missing field `b`"),
        ("PATCH", "/v1/links/t%2Fa%3Aeth0", r#"{"end": -1}"#, "end: invalid value"),
        ("PATCH", "/v1/links/t%2Fa%3Aeth0", r#"{"delay": "1ms"}"#, "unknown field `delay`"),
    ];
    for (method, uri, body, words) in cases {
        let (status, answer) = request_with(served.path(), method, uri, body);
        let shown = &body[..body.len().min(40)];
        assert_eq!(status, 400, "{method} {uri} {shown}: {answer}");
        assert!(answer.contains(words), "{method} {uri} {shown}: {answer}");
    }
    assert_eq!(asked(&served), [""; 0]);
}

#[test]
fn a_second_folder_serves_another_view_at_the_same_time() {
    let (lab, scope) = (Served::new(), Served::new());
    let new = |name: &str| CreateNode { new: NewNode { name: name.into(), ..NewNode::default() } };
    lab.client().call(&new("a")).unwrap();
    scope.client().call(&new("b")).unwrap();
    assert_eq!(asked(&lab), [r#"create_node {"name":"a","settings":[],"root":null}"#]);
    lab.server.stop();
    assert!(matches!(Client::connect(lab.folder.path()), Err(Error::NotRunning(_))));
    assert_eq!(asked(&scope), [r#"create_node {"name":"b","settings":[],"root":null}"#]);
    assert_eq!(scope.client().call(&Status::whole()).unwrap(), status());
}

#[test]
fn a_waiting_call_for_fates_is_woken_by_the_next_packet_and_by_the_end() {
    let served = Served::new();
    let (client, other) = (served.client(), served.client());
    let minute = Duration::from_secs(60);
    let waiting = std::thread::spawn(move || client.call(&read_fates(0, None, minute)));
    netloom_kit::wait_until("call arrives", Duration::from_secs(20), || {
        (!served.fake.asked.lock().unwrap().is_empty()).then_some(())
    });
    served.fake.write(2, "loss");
    assert_eq!(waiting.join().unwrap().unwrap().fates, [fate(2, 0, "loss")]);
    asked(&served);
    let waiting = std::thread::spawn(move || other.call(&read_fates(0, Some(2), minute)));
    netloom_kit::wait_until("call arrives", Duration::from_secs(20), || {
        (!served.fake.asked.lock().unwrap().is_empty()).then_some(())
    });
    served.server.stop();
    assert_eq!(waiting.join().unwrap().unwrap().fates, []);
}

//! What a person sees at 80x24 and 200x60, and what keys do.

use netloom_lab::view::{LabEvent, LinkSettings};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::super::model::{Effect, Message};
use super::*;

fn node(name: &str, program: &str) -> Value {
    json!({
        "name": name, "alive": true, "state": "up", "pid": 7, "forwarding": false, "parent": null, "children": null,
        "cpu_ns": 5, "load": null, "memory": 2_097_152, "processes": 2, "sockets": 1, "sockets_counted": null,
        "sockets_refused": null, "limits": {}, "protect": null, "drops": [], "addresses": ["10.0.0.1/24"],
        "programs": [{"command": [program, "-x"], "pid": 9, "exit_code": null, "restarts": 2}], "interfaces": [],
    })
}

fn link(name: &str, down: bool) -> Value {
    json!({"name": name, "ends": ["a:eth0", "b:eth0"], "up": !down, "down": down, "wire": null})
}

fn event(value: Value) -> Box<LabEvent> {
    Box::new(serde_json::from_value(value).unwrap())
}

/// A lab with these nodes and links, in which link `l7` has sent a megabit in the last second.
fn shown(nodes: Vec<Value>, links: Vec<Value>, size: (u16, u16)) -> Model {
    let mut model = Model::default();
    model.open("x".to_owned());
    model.update(Message::Rows(size.1));
    let counters = |bytes: u64| json!({"links": [{"name": "l7", "packets": [0, 0], "bytes": [bytes, 0], "lost": [0, bytes / 10_000]}]});
    model.update(Message::Event(event(json!({
        "id": "1.1", "kind": "snapshot", "time_ns": 1_000_000_000_u64, "nodes": nodes, "links": links,
        "lab": {"name": "x", "state": "up", "pid": 1, "since": 1}, "counters": counters(0),
        "switches": [{"name": "s", "kind": "kernel", "bridge": "br", "links": ["l7"]}],
    }))));
    model.update(Message::Event(event(json!({
        "id": "1.2", "kind": "change", "time_ns": 2_000_000_000_u64, "counters": counters(125_000),
    }))));
    model
}

fn several(links: usize, size: (u16, u16)) -> Model {
    let all = (0..links).map(|n| link(&format!("l{n}"), n == 3)).collect();
    shown(vec![node("a", "sh"), node("b", "ping")], all, size)
}

fn screen(model: &Model, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            letter => KeyCode::Char(letter),
        };
        effects.extend(model.update(Message::Key(KeyEvent::new(code, KeyModifiers::NONE))));
    }
    effects
}

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);

#[test]
fn links_are_sorted_by_rate_and_fit() {
    for size in [SMALL, LARGE] {
        let model = several(1000, size);
        let seen = screen(&model, size);
        assert_eq!(seen[0], "lab x: up, 2 nodes, 1000 links");
        assert!(
            seen[1].starts_with(" 1 labs  2 nodes  3 links  4 switches  5 programs   by rate"),
            "{seen:#?}"
        );
        for part in ["l7 ", " up ", " 1.0M ", " 12 "] {
            assert!(seen[3].contains(part), "{part:?}: {:?}", seen[3]);
        }
        let last = usize::from(size.1) - 1;
        assert!(seen[last].contains("?keys /filter"), "{seen:#?}");
        assert!(!seen[last - 1].is_empty(), "the table has all room");
        assert!(seen[2].ends_with(&format!(" 1-{} of 1000", last - 3)), "{:?}", seen[2]);
    }
}

#[test]
fn the_chosen_row_is_seen_wherever_it_is() {
    let mut model = several(1000, SMALL);
    press(&mut model, "oo");
    assert_eq!(model.chosen().as_deref(), Some("l0"));
    for (key, chosen, place) in [
        (KeyCode::End, "l999", "981-1000 of 1000"),
        (KeyCode::Up, "l998", "981-1000 of 1000"),
        (KeyCode::Home, "l0", "1-20 of 1000"),
        (KeyCode::PageDown, "l116", "2-21 of 1000"),
    ] {
        model.update(Message::Key(KeyEvent::new(key, KeyModifiers::NONE)));
        assert_eq!(model.chosen().as_deref(), Some(chosen));
        assert!(
            screen(&model, SMALL)[2].contains(place),
            "{key:?}: {:?}",
            screen(&model, SMALL)[2]
        );
    }
    // It stays chosen where the order is another one.
    press(&mut model, "o");
    assert_eq!(model.chosen().as_deref(), Some("l116"));
}

#[test]
fn a_filter_leaves_rows_with_its_text() {
    let mut model = several(100, SMALL);
    press(&mut model, "/99");
    assert!(screen(&model, SMALL)[23].starts_with("/99_"));
    press(&mut model, "\n");
    assert_eq!(model.rows(), ["l99"]);
    assert!(screen(&model, SMALL)[1].contains("with \"99\""));
    press(&mut model, "/x");
    assert!(screen(&model, SMALL)[3].contains("nothing has this text"));
    assert_eq!(press(&mut model, "\u{1b}"), []);
    assert_eq!(model.rows().len(), 100);
    assert_eq!(press(&mut model, "q"), [Effect::Quit]);
}

#[test]
fn keys_do_what_they_say() {
    let mut model = several(5, SMALL);
    press(&mut model, "oo");
    let set =
        |link: &str, change| Effect::Set { lab: "x".to_owned(), link: link.to_owned(), change };
    let run = |line: &str| Effect::Run(line.split(' ').map(str::to_owned).collect());
    let up = |up| LinkSettings { up: Some(up), ..LinkSettings::default() };
    assert_eq!(press(&mut model, "d"), [set("l0", up(false))]);
    assert_eq!(press(&mut model, "jjjd"), [set("l3", up(true))]);
    let settings =
        [("delay", "10ms"), ("loss", "1%")].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    let change = LinkSettings { settings, ..LinkSettings::default() };
    assert_eq!(press(&mut model, "idelay=10mss\u{8} loss=1%\n"), [set("l3", change)]);
    let none = LinkSettings { clear: true, ..LinkSettings::default() };
    assert_eq!(press(&mut model, "inone\n"), [set("l3", none)]);
    assert_eq!(press(&mut model, "idelay\n"), []);
    assert!(model.note.contains("write KEY=VALUE"), "{}", model.note);
    assert_eq!(press(&mut model, "i\u{1b}s"), []);
    assert!(model.note.contains("not for links"), "{}", model.note);
    assert_eq!(press(&mut model, "c\n"), [run("-l x capture link:l3 -w x.pcapng")]);
    assert_eq!(press(&mut model, "2s"), [run("-l x shell a")]);
    assert_eq!(press(&mut model, "l"), [run("-l x logs -f a")]);
    assert_eq!(press(&mut model, "5js"), [run("-l x shell b")]);
    press(&mut model, "?");
    assert!(screen(&model, SMALL).iter().any(|line| line.contains("a shell in the node")));
    assert_eq!(press(&mut model, "q"), [], "the keys are left");
    assert_eq!(press(&mut model, "q"), [Effect::Quit]);
}

#[test]
fn a_row_is_opened_and_left() {
    let mut model = several(9, SMALL);
    press(&mut model, "\n");
    let seen = screen(&model, SMALL).join("\n");
    for part in
        ["from a:eth0", "1.0Mbit/s, 0 packets/s, 0 packets, 122.1 KiB, 0 lost", "from b:eth0"]
    {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    press(&mut model, "q2\n");
    let seen = screen(&model, SMALL).join("\n");
    for part in ["addresses", "10.0.0.1/24", "sh -x: runs as 9"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert_eq!(press(&mut model, "q"), []);
    assert_eq!(press(&mut model, "4"), []);
    assert!(screen(&model, SMALL)[3].starts_with("s "));
}

#[test]
fn hostile_names_change_no_terminal() {
    let hostile = "\u{1b}[2J\u{9b}31m\u{202e}\u{7}\r\nx";
    let mut model = shown(vec![node(hostile, hostile)], vec![link(hostile, false)], SMALL);
    model.update(Message::Standing(Standing::Trouble(hostile.to_owned())));
    for keys in ["2", "\n", "3", "\n", "5", "i", "\u{1b}c", "\u{1b}"] {
        press(&mut model, keys);
        model.update(Message::Note(hostile.to_owned()));
        let seen = screen(&model, SMALL).concat();
        let bad = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!seen.contains(bad), "{keys:?}: {seen:?}");
    }
    assert!(!text(&mut model).contains(|c: char| c.is_control() && c != '\n'));
}

#[test]
fn what_is_not_heard_is_said_and_comes_back() {
    let mut model = several(9, SMALL);
    model.update(Message::Standing(Standing::NoProcess));
    let seen = screen(&model, SMALL);
    assert!(
        seen[0].starts_with("lab x: its process has ended; `netloom up` adopts it"),
        "{}",
        seen[0]
    );
    assert!(!seen.join("\n").contains(" 1.0M "), "a rate is of now");
    model.update(Message::Standing(Standing::NoLab));
    assert!(screen(&model, SMALL)[0].starts_with("lab x: not up; waiting for it"));
    model.update(Message::Event(event(json!({
        "id": "2.1", "kind": "snapshot", "missed": true, "time_ns": 9, "nodes": [node("new", "sh")],
        "lab": {"name": "x", "state": "degraded", "pid": 1, "since": 1},
    }))));
    assert_eq!(screen(&model, SMALL)[0], "lab x: degraded, 1 node, 0 links");
    assert_eq!(model.update(Message::End), [Effect::Quit]);
}

#[test]
fn without_a_lab_one_is_chosen() {
    let mut model = Model::default();
    model.update(Message::Rows(24));
    model.update(Message::Labs(vec![]));
    assert!(screen(&model, SMALL)[3].contains("no lab is running"));
    let lab = |name: &str| json!({"name": name, "state": "up", "nodes": 2, "links": 1, "pid": 3, "since": 1});
    let labs = ["one", "two"].map(|name| serde_json::from_value(lab(name)).unwrap()).to_vec();
    model.update(Message::Labs(labs));
    assert_eq!(press(&mut model, "j\n"), [Effect::Open("two".to_owned())]);
    assert!(screen(&model, SMALL)[0].contains("lab two: waiting for it"));
    // A terminal that is too small for anything.
    for size in [(1, 1), (3, 2), (0, 0)] {
        model.update(Message::Rows(size.1));
        screen(&model, size);
    }
}

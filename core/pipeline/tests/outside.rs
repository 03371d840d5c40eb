//! What must hold for any messages and frames: shared by the tests and the fuzz target.

use netloom_openflow::stream::Stream;
use netloom_openflow::{Hello, Message, PortNumber, Version, encode};
use netloom_pipeline::{ConnectionId, Options, Outputs, Switch};

use super::bench::port;

/// A switch with a controller of each version.
pub fn small_switch() -> Switch {
    let options = Options { tables: 4, max_entries: 50, ..Options::default() };
    let mut switch = Switch::new(options);
    let mut out = Outputs::default();
    for number in 1..=3 {
        switch.set_port(port(number), &[1], 0, &mut out);
    }
    for (id, version) in [(1, Version::V10), (4, Version::V13)] {
        switch.connect(ConnectionId(id), None, &mut out);
        let hello =
            encode(version, 1, &Message::Hello(Hello::offering(&[version]))).expect("hello");
        switch.message(ConnectionId(id), &hello, 0, &mut out);
    }
    switch
}

/// Messages, each from the controller of its version; what is left is a frame. Nothing panics, every message can be
/// sent, and the tables answer.
pub fn try_switch(bytes: &[u8]) {
    let mut switch = small_switch();
    let mut out = Outputs::default();
    let mut stream = Stream::default();
    stream.push(bytes);
    let mut now = 0;
    while let Ok(Some(message)) = stream.next_message() {
        let id = ConnectionId(u64::from(message.first().copied().unwrap_or(0)));
        switch.message(id, message, now, &mut out);
        now += 1_000_000_000;
        switch.tick(now, &mut out);
    }
    let frame = bytes.get(bytes.len() - stream.waiting()..).unwrap_or(&[]);
    let (foreseen, _) = switch.explain(PortNumber(1), frame, now);
    let trace = switch.frame(PortNumber(1), frame, now, &mut out);
    assert_eq!(foreseen, trace);
    assert_eq!(out.lost, 0);
    for step in &trace.steps {
        if let Some(rule) = step.rule.and_then(|id| switch.rule(id)) {
            assert!(rule.pattern.matches(&step.key));
        }
    }
    switch.tick(u64::MAX, &mut out);
    assert!(switch.rules().all(|rule| rule.idle_timeout == 0 && rule.hard_timeout == 0));
}

//! Replays cases of another project's switch tests, written to a file for the comparison.
//!
//! A line is `VERSION|NAME|MESSAGE,MESSAGE|FRAME|KIND|EXPECTED`, bytes in hexadecimal: the messages are accepted,
//! the frame comes in by port 1, and then by KIND: `egress`: this frame leaves by port 2; `packet-in`: the controller
//! gets it; `miss`: a table of this list has no entry for it; `install`: nothing more.
//!
//! `NETLOOM_SWITCH_CASES=FILE cargo test -p netloom-pipeline replay -- --ignored --nocapture`

use netloom_openflow::multipart::FlowRequest;
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::{
    Match, Message, MultipartReply, MultipartRequest, PortNumber, Reply, Request, Version, decode,
};

use super::bench::{Bench, CONTROLLER, messages};

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Why a case is not as expected.
fn replay(line: &str) -> Result<(), String> {
    let [version, _, sent, frame, kind, expected] =
        line.split('|').collect::<Vec<_>>().try_into().map_err(|_| "line".to_owned())?;
    let version = if version == "1" { Version::V10 } else { Version::V13 };
    let mut bench = Bench::new(version);
    for message in sent.split(',').filter(|message| !message.is_empty()) {
        let message = bytes(message);
        let out = bench.bytes(CONTROLLER, &message);
        if let Some(answer) = messages(&out, CONTROLLER).first() {
            return Err(format!("refused: {answer:?}"));
        }
        if let Ok((_, Message::FlowMod(change))) = decode(&message) {
            installed(&mut bench, &change)?;
        }
    }
    if kind == "install" {
        return Ok(());
    }
    let (trace, out) = bench.frame(1, &bytes(frame));
    match kind {
        "egress" => {
            let sent = out.frames.iter().find(|frame| frame.port == PortNumber(2));
            let sent = sent.ok_or_else(|| format!("nothing leaves: {trace:?}"))?;
            same(&sent.bytes, &bytes(expected))
        }
        "packet-in" => {
            let told = messages(&out, CONTROLLER).into_iter().find_map(|message| match message {
                Message::PacketIn(packet) if packet.reason == PacketInReason::Action => {
                    Some(packet.data)
                }
                _ => None,
            });
            same(&told.ok_or_else(|| format!("no packet-in: {trace:?}"))?, &bytes(expected))
        }
        "miss" => {
            let missed = |table: &str| {
                let table = table.parse().ok();
                trace.steps.iter().any(|step| Some(step.table) == table && step.rule.is_none())
            };
            if expected.split(',').any(missed) {
                Ok(())
            } else {
                Err(format!("no miss: {trace:?}"))
            }
        }
        other => Err(format!("kind {other}")),
    }
}

/// The entry is reported as it was sent.
fn installed(bench: &mut Bench, change: &netloom_openflow::FlowMod) -> Result<(), String> {
    let any = match bench.version {
        Version::V10 => Match::V10(Default::default()),
        Version::V13 => Match::default(),
    };
    let body = Request::Flow(FlowRequest::new(any));
    let request = Message::MultipartRequest(MultipartRequest { flags: 0, body });
    let told = bench.say(CONTROLLER, &request).into_iter().any(|answer| match answer {
        Message::MultipartReply(MultipartReply { body: Reply::Flow(flows), .. }) => {
            flows.iter().any(|flow| {
                flow.matching == change.matching && flow.instructions == change.instructions
            })
        }
        _ => false,
    });
    if told { Ok(()) } else { Err("the entry is not reported".to_owned()) }
}

fn same(sent: &[u8], expected: &[u8]) -> Result<(), String> {
    if sent == expected {
        return Ok(());
    }
    let at = sent.iter().zip(expected).position(|(a, b)| a != b);
    Err(format!("differs at {at:?}:\n    {sent:02x?}\n    {expected:02x?}"))
}

#[test]
#[ignore = "helper: reads cases that another program wrote"]
fn replay_cases() {
    let Some(path) = std::env::var_os("NETLOOM_SWITCH_CASES") else { return };
    let text = std::fs::read_to_string(path).expect("cases");
    let (mut all, mut failed) = (0, 0);
    for line in text.lines() {
        all += 1;
        if let Err(why) = replay(line) {
            failed += 1;
            println!("{}: {why}", line.split('|').nth(1).unwrap_or(""));
        }
    }
    println!("{all} cases, {failed} failed");
    assert_eq!(failed, 0);
}

//! Open vSwitch's `ovs-ofctl ofp-print` reads every message that we encode, and says what we meant.

#[path = "../../../core/openflow/tests/samples.rs"]
#[allow(unreachable_pub, reason = "also read as a module of another crate")]
mod samples;
#[path = "../../../core/openflow/tests/texts.rs"]
#[allow(unreachable_pub, reason = "also read as a module of another crate")]
mod texts;

use netloom_kit::{Run, needed};
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::text::flow;
use netloom_openflow::{Message, Version, encode};

#[test]
fn ovs_ofctl_reads_every_message() {
    let ofctl = needed!("ovs-ofctl");
    let mut wrong = vec![];
    for sample in samples::samples() {
        // Nothing is claimed about what that program does not know.
        if sample.words.is_empty() {
            continue;
        }
        let bytes = encode(sample.version, 1, &sample.message).expect(&sample.name);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let said = Run::new(&ofctl).args(["ofp-print", &hex]).finish().stdout;
        let said = String::from_utf8_lossy(&said);
        for words in sample.words {
            if !said.contains(words) {
                wrong.push(format!("{}: `{words}` is not in:\n{said}", sample.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What it says about our flow modifications reads back as the same modifications.
#[test]
fn ovs_ofctl_says_the_flow_that_was_meant() {
    let ofctl = needed!("ovs-ofctl");
    for version in [Version::V10, Version::V13] {
        for text in texts::texts(version) {
            let change = flow(FlowCommand::Add, text, version).expect(text);
            let bytes = encode(version, 1, &Message::FlowMod(change.clone())).expect(text);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let said = Run::new(&ofctl).args(["ofp-print", &hex]).finish().stdout;
            let said = String::from_utf8_lossy(&said);
            let back = said.split_once(": ADD").map(|(_, flow)| flow.trim());
            let back = back.unwrap_or_else(|| panic!("{text}: {said}"));
            // Its text leaves out masks of cookies that only filter.
            let back = flow(FlowCommand::Add, back, version);
            assert_eq!(back.as_ref(), Ok(&change), "{text}\n{said}");
        }
    }
}

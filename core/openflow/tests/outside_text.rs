//! What must hold for any text: shared by the tests and the fuzz target.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::MeterCommand;
use netloom_openflow::text::{flow, group, meter, print_flow, print_group, print_meter};
use netloom_openflow::{Message, Version, encode};

/// A parsed flow, group or meter reads back as the same from its printed text, and can be encoded.
pub fn try_text(text: &str) {
    for version in [Version::V10, Version::V13] {
        if let Ok(change) = flow(FlowCommand::Add, text, version) {
            let printed = print_flow(&change);
            assert_eq!(
                flow(FlowCommand::Add, &printed, version).as_ref(),
                Ok(&change),
                "{printed}"
            );
            // A port that 1.0 has no number for, or more than a message can hold.
            let _ = encode(version, 1, &Message::FlowMod(change));
        }
    }
    if let Ok(change) = group(GroupCommand::Add, text) {
        let printed = print_group(&change);
        assert_eq!(group(GroupCommand::Add, &printed), Ok(change), "{printed}");
    }
    if let Ok(change) = meter(MeterCommand::Add, text) {
        let printed = print_meter(&change);
        assert_eq!(meter(MeterCommand::Add, &printed), Ok(change), "{printed}");
    }
}

//! Prompts: how to go about a task with these tools.

use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};

/// What is offered.
pub(crate) fn all() -> Vec<Prompt> {
    let argument = |name: &str, about: &str, needed| {
        PromptArgument::new(name).with_description(about).with_required(needed)
    };
    let fault = vec![
        argument("from", "The node whose packets do not arrive", true),
        argument("to", "The node or address that they are for", true),
        argument("lab", "The lab, if several run", false),
    ];
    let tour = vec![argument("lab", "The lab, if several run", false)];
    vec![
        Prompt::new(
            "find_the_fault",
            Some("Find out why packets do not arrive, and mend it"),
            Some(fault),
        )
        .with_title("Find the fault"),
        Prompt::new(
            "explain_the_lab",
            Some("Describe a running lab to somebody new to it"),
            Some(tour),
        )
        .with_title("Explain the lab"),
    ]
}

/// The text of a prompt. Names that the client gives are quoted as data.
pub(crate) fn get(name: &str, arguments: &Map<String, Value>) -> Option<GetPromptResult> {
    let given =
        |name: &str| arguments.get(name).and_then(Value::as_str).map(|text| format!("{text:?}"));
    let lab = given("lab").map_or_else(String::new, |lab| format!(" of lab {lab}"));
    let text = match name {
        "find_the_fault" => {
            let (from, to) = (given("from")?, given("to")?);
            format!(
                "Packets from {from} to {to}{lab} do not arrive. Call `status` for the state of the lab, then `why` with \
                 these two as `from` and `to` of its body; it answers the way hop by hop, the place where the probe was lost, the cause with \
                 its evidence, and a mend as a command. If it says that the cause is not known, read what it says is missing, and \
                 look there with `exec` (`ip -d route`, `ip neigh`, `nft list ruleset`, `ss -lntu`) or `capture`. Tell what the \
                 cause is and which evidence shows it. Change nothing before you have said what you would change; afterwards call \
                 `ping_pair` to show that it helped."
            )
        }
        "explain_the_lab" => format!(
            "Describe the running lab{lab}: read the resource netloom://LAB/file, call `status`, and `ping` to see which nodes \
             reach which. Name each node's purpose as far as the file shows it, the networks between them, and what is not as it \
             should be."
        ),
        _ => return None,
    };
    Some(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

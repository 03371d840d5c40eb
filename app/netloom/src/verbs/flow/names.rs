//! Names of ports in flow entries: the ports are asked for only if a text names one.

use anyhow::{Result, bail};
use netloom_flow::Names;
use netloom_ofconn::client::Client;
use netloom_openflow::multipart::{Reply, Request};
use netloom_openflow::{Message, Port, Version};

use super::lines::Line;

/// The ports of the switch by name; none, if no text names one.
pub(super) fn of(client: &mut Client, lines: &[Line]) -> Result<Names> {
    if !lines.iter().any(|line| Names::are_in(&line.text)) {
        return Ok(Names::default());
    }
    let name = |port: &Port| (port.name.text().into_owned(), port.number.0);
    Ok(ports(client)?.iter().map(name).collect())
}

/// The ports of a switch.
pub(super) fn ports(client: &mut Client) -> Result<Vec<Port>> {
    if client.version() == Version::V13 {
        let Reply::PortDesc(ports) = client.request(Request::PortDesc)? else {
            bail!("unexpected reply from the switch");
        };
        return Ok(ports);
    }
    match client.ask(&Message::FeaturesRequest)? {
        Message::FeaturesReply(features) => Ok(features.ports),
        _ => bail!("unexpected reply from the switch"),
    }
}

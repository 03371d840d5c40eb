//! About how long a plan is as JSON, without writing it.

use super::{Plan, PlannedNode};
use crate::lab::FileContent;

impl Plan {
    /// About how long it is as JSON, in bytes.
    pub fn weight(&self) -> usize {
        let words = |all: &[String]| all.iter().map(|word| word.len() + 4).sum::<usize>();
        let of_node = |node: &PlannedNode| {
            let routes = node.routes.iter().map(|route| 100 + 60 * route.also.len());
            let env = node.env.iter().chain(&node.sysctls).map(|(a, b)| a.len() + b.len() + 8);
            let files = node.files.iter().map(|file| match &file.content {
                FileContent::Text(text) => 128 + text.len(),
                FileContent::From(_) => 256,
            });
            let commands = node.run.iter().map(|program| 64 + words(&program.command));
            let setup = node.setup.iter().map(|command| words(command));
            let parts = routes.chain(env).chain(files).chain(commands).chain(setup);
            1024 + 256 * node.interfaces.len() + parts.sum::<usize>()
        };
        let nodes: usize = self.nodes.iter().map(of_node).sum();
        let file = self.scheme.as_ref().and_then(|scheme| scheme.file.as_ref());
        let file = file.map_or(0, |text| text.len());
        file + nodes + 512 * (self.links.len() + self.switches.len()) + self.hosts.len()
    }
}

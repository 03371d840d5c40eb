//! netloom-lab(5): the lab file, key by key, from the parser's own table.

use clap_mangen::roff::{Roff, bold, italic, roman};
use netloom_model::reference::{Keys, reference};

use super::{append, code, paragraphs, tagged, term, terms, title};

const DESCRIPTION: &str = "A lab file says which network netloom up is to make: nodes, switches and the links between \
them. It is YAML 1.2 with anchors and the merge key <<, one document a file, without tags. A key that is not listed here \
is an error, so that a misspelt one is never ignored.\n\
Addresses, routes and names that the file does not give are decided from names alone: the same file gives the same \
network on every machine. netloom check shows all errors of a file at once.";

const EXAMPLE: &str = "\
name: small
nodes:
  client: {}
  gate: {forwarding: true}
  server:
    run: [[python3, -m, http.server, \"80\", --directory, /srv]]
    files: {/srv/index.html: \"hello\\n\"}
    ready: {tcp: 80}
switches:
  lan: {}
links:
  - [client, lan]
  - [gate, lan]
  - {ends: [gate, server], delay: 10ms, loss: 0.1%}";

const ENDS: &[(&str, &str)] = &[
    ("NODE", "The node's next interface: eth0, eth1 and so on, in the order of the links."),
    ("NODE:IFACE", "An interface of this name."),
    ("PARENT/NODE", "A node in another one."),
    ("SWITCH", "A port of the switch."),
    ("host:IFACE", "An interface of the host, bridged in."),
    ("internet", "The host's network, by NAT."),
];

const REPEATING: &str = "An entry of nodes, switches or links with for is made once for each combination of its indices: \
for: {x: 0..3, y: [a, b]}. {expression} in its texts, its name included, is filled in; {{ and }} are braces. Expressions \
have + - * / %, parentheses, == != < <= > >=, and, or, not, and text in quotes. With if, only combinations are kept for \
which that expression is true.";

const FILES: &[(&str, &str)] =
    &[("netloom schema", "Prints the JSON Schema of this file, for editors and validators.")];

/// The page.
pub(super) fn page() -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]).text([roman("netloom-lab - the lab file of netloom")]);
    roff.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut roff, DESCRIPTION);
    roff.control("SH", ["EXAMPLES"]);
    code(&mut roff, EXAMPLE);
    terms(&mut roff, "ENDS OF LINKS", ENDS);
    roff.control("SH", ["FOR AND IF"]);
    paragraphs(&mut roff, REPEATING);
    roff.control("SH", ["KEYS"]);
    reference().iter().for_each(|map| keys(&mut roff, map));
    terms(&mut roff, "FILES", FILES);
    let also = "netloom(1), netloom-up(1), netloom-check(1), netloom-schema(1)";
    roff.control("SH", ["SEE ALSO"]).text([roman(also)]);
    let mut text = title("netloom-lab", "5");
    append(&mut text, &roff.render());
    text
}

fn keys(roff: &mut Roff, map: &Keys) {
    roff.control("SS", [format!("Keys of {}", map.of).as_str()]);
    paragraphs(roff, map.about);
    for key in &map.keys {
        let required = if key.required { ", required" } else { "" };
        let tag = [bold(key.name), roman(": "), italic(key.value.as_str()), roman(required)];
        tagged(roff, &tag, key.about);
    }
    if map.of == "lab" {
        term(roff, "other x-...", "Ignored: a home for YAML anchors.");
    }
}

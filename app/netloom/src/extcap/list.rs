//! The interfaces that Wireshark is told of, and what one of them means.
//!
//! They come from the labs' files of names alone: no lab process is asked, and what cannot be read has no interfaces. An
//! interface is `netloom:LAB` for all links, or `netloom:LAB/TARGET` with a target of `netloom capture`. Names of interfaces
//! may have braces, which Wireshark takes for its own; they are written as in a URL.

use std::fmt::Write as _;

use anyhow::Result;
use netloom_lab::names::Names;
use netloom_lab::{Folder, runtime_dir};

/// Most interfaces of a lab: Wireshark starts a process for each when it starts.
const MOST: usize = 200;

const PREFIX: &str = "netloom:";

/// What Wireshark may ask its user for.
pub(super) const CONFIG: &str = "\
arg {number=0}{call=--snaplen}{display=Bytes of each frame}{type=unsigned}{default=0}{tooltip=How many bytes of each frame are kept; 0 keeps all}
arg {number=1}{call=--direction}{display=Direction}{type=selector}{tooltip=As the interface sees it}
value {arg=1}{value=both}{display=Both}{default=true}
value {arg=1}{value=in}{display=What it receives}{default=false}
value {arg=1}{value=out}{display=What it sends}{default=false}
arg {number=2}{call=--own}{display=What netloom itself sends, too}{type=boolflag}{default=false}{tooltip=Probes of netloom why, and their answers}
";

/// Wireshark's toolbar while it captures from one of these.
const CONTROLS: &str = "\
control {number=0}{type=string}{display=Delay}{tooltip=How long the link delays each frame: 50ms; empty: not at all}{placeholder=50ms}
control {number=1}{type=string}{display=Loss}{tooltip=The share of frames that the link loses: 1%; empty: none}{placeholder=1%}
";

/// An interface as Wireshark names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    lab: String,
    /// A target of `netloom capture`; `None` for all links.
    target: Option<String>,
}

impl Named {
    /// Reads a name; `None` if it is not one of netloom's.
    pub(super) fn read(text: &str) -> Option<Named> {
        let (lab, target) = match text.strip_prefix(PREFIX)?.split_once('/') {
            Some((lab, target)) => (lab, Some(decoded(target)?)),
            None => (text.strip_prefix(PREFIX)?, None),
        };
        let good = netloom_model::lab_name_problem(lab).is_none() && target.as_deref() != Some("");
        good.then(|| Named { lab: lab.to_owned(), target })
    }

    fn value(&self) -> String {
        let target = self.target.as_deref().map(|target| format!("/{}", encoded(target)));
        format!("{PREFIX}{}{}", self.lab, target.unwrap_or_default())
    }

    /// The lab.
    pub(super) fn lab(&self) -> &str {
        &self.lab
    }

    /// The target of a capture; `None` for all links.
    pub(super) fn target(&self) -> Option<String> {
        self.target.clone()
    }

    /// What it is.
    pub(super) fn words(&self) -> String {
        self.target.clone().unwrap_or_else(|| "all links".to_owned())
    }

    /// The lab's folder.
    pub(super) fn folder(&self) -> Result<Folder> {
        let folder = Folder::new(&runtime_dir()?, &self.lab);
        match folder.exists()? {
            true => Ok(folder),
            false => Err(netloom_lab::Error::NoLab(self.lab.clone()).into()),
        }
    }
}

/// A text that ends no value of Wireshark's grammar.
fn encoded(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '{' | '}' | '%' | '\\' => _ = write!(all, "%{:02X}", u32::from(letter)),
            letter => all.push(letter),
        }
    }
    all
}

/// The text that [`encoded`] wrote; `None` for what it does not write.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        let code = u8::from_str_radix(code, 16).ok().filter(u8::is_ascii)?;
        all.push(code.into());
        all.push_str(rest);
    }
    Some(all)
}

/// All interfaces of all labs of this user, in Wireshark's grammar.
pub(super) fn interfaces() -> String {
    let head = format!("extcap {{version={}}}{{display=netloom}}\n", env!("CARGO_PKG_VERSION"));
    let labs = runtime_dir().ok().and_then(|runtime| Folder::all(&runtime).ok());
    let labs = labs.unwrap_or_default();
    let mut text: String = labs
        .iter()
        // A node's view has no process of its own to ask.
        .filter(|folder| {
            !folder.is_scope() && netloom_model::lab_name_problem(folder.name()).is_none()
        })
        .map(|folder| of_lab(folder.name(), &Names::of(folder)))
        .collect();
    if !text.is_empty() {
        text.push_str(CONTROLS);
    }
    head + &text
}

fn of_lab(lab: &str, names: &Names) -> String {
    let nodes = names.nodes.iter().map(|node| (node.clone(), format!("node {node}")));
    let ends = names.interfaces.iter().map(|end| (end.clone(), end.clone()));
    let switches =
        names.switches.iter().map(|(name, _)| (format!("switch:{name}"), format!("switch {name}")));
    let ports = names.ports.iter().map(|(switch, port)| {
        (format!("switch:{switch}/{port}"), format!("switch {switch}, port {port}"))
    });
    // The most useful ones first, since a long list is cut.
    let mut all: Vec<(String, String)> = nodes.chain(switches).chain(ends).chain(ports).collect();
    let left_out = all.len().saturating_sub(MOST);
    all.truncate(MOST);
    let more = match left_out {
        0 => String::new(),
        many => format!(" ({many} interfaces are not listed)"),
    };
    let mut text =
        sentence(&Named { lab: lab.to_owned(), target: None }, &format!("all links{more}"));
    for (target, shown) in all {
        text += &sentence(&Named { lab: lab.to_owned(), target: Some(target) }, &shown);
    }
    text
}

fn sentence(named: &Named, shown: &str) -> String {
    let (value, lab) = (named.value(), &named.lab);
    format!("interface {{value={value}}}{{display=netloom {lab}: {}}}\n", encoded(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            nodes: vec!["a".to_owned(), "a/x".to_owned()],
            interfaces: vec!["a:eth0".to_owned(), "a:}{value=y}\\%".to_owned()],
            links: vec!["a:eth0--s".to_owned()],
            switches: vec![("s".to_owned(), false)],
            ports: vec![("s".to_owned(), "a:eth0".to_owned())],
        }
    }

    #[test]
    fn each_end_node_and_switch_is_an_interface() {
        let expected = "\
interface {value=netloom:x}{display=netloom x: all links}
interface {value=netloom:x/a}{display=netloom x: node a}
interface {value=netloom:x/a/x}{display=netloom x: node a/x}
interface {value=netloom:x/switch:s}{display=netloom x: switch s}
interface {value=netloom:x/a:eth0}{display=netloom x: a:eth0}
interface {value=netloom:x/a:%7D%7Bvalue=y%7D%5C%25}{display=netloom x: a:%7D%7Bvalue=y%7D%5C%25}
interface {value=netloom:x/switch:s/a:eth0}{display=netloom x: switch s, port a:eth0}
";
        assert_eq!(of_lab("x", &names()), expected);
    }

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for target in [None, Some("a"), Some("a/x:eth0"), Some("switch:s/a:eth0"), Some("a:}{%\\")]
        {
            let named = Named { lab: "x".to_owned(), target: target.map(str::to_owned) };
            assert_eq!(Named::read(&named.value()), Some(named));
        }
        for wrong in [
            "",
            "eth0",
            "netloom:",
            "netloom:x/",
            "netloom:../x",
            "netloom:x/a%",
            "netloom:x/a%zz",
            "netloom:x/%ff",
        ] {
            assert_eq!(Named::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_list_of_a_large_lab_is_short_and_says_so() {
        let nodes = (0..1000).map(|number| format!("n{number}")).collect();
        let text = of_lab("x", &Names { nodes, ..Names::default() });
        assert_eq!(text.lines().count(), MOST + 1);
        assert!(text.starts_with(
            "interface {value=netloom:x}{display=netloom x: all links (800 interfaces are not listed)}\n"
        ));
    }
}

//! Resources: a running lab's file, its graph, and the output of its nodes.

use std::path::Path;
use std::time::Duration;

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

use crate::program::{self, Limits};
use crate::{Result, Scope, verbs};

/// Limits on reading one, and the lines of a log.
const LIMITS: Limits = Limits::read(Duration::from_secs(60));
const LINES: &str = "200";

/// What stands before a lab's name.
const SCHEME: &str = "netloom://";

/// The resources of the running labs.
///
/// # Errors
/// Labs cannot be listed.
pub(crate) fn all(scope: &Scope) -> Result<Vec<Resource>> {
    let labs = match &scope.lab {
        Some(lab) => vec![lab.clone()],
        None => names(&scope.program)?,
    };
    let of_lab = |lab: &String| {
        let one = |what: &str, title: String, kind: &str| {
            Resource::new(format!("{SCHEME}{lab}/{what}"), format!("{lab}/{what}"))
                .with_title(title)
                .with_mime_type(kind)
        };
        [
            one(
                "file",
                format!("The lab file of {lab}, with changes made by hand"),
                "application/yaml",
            ),
            one(
                "graph",
                format!("The topology of {lab} as a graph of Graphviz"),
                "text/vnd.graphviz",
            ),
        ]
    };
    Ok(labs.iter().flat_map(of_lab).collect())
}

fn names(program: &Path) -> Result<Vec<String>> {
    let labs = verbs::labs(program)?;
    let names = labs.as_array().into_iter().flatten().filter_map(|lab| lab["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The resources that have a name in them.
pub(crate) fn templates(scope: &Scope) -> Vec<ResourceTemplate> {
    let lab = scope.lab.as_deref().unwrap_or("{lab}");
    let one = |path: String, name: &str, about: &str| {
        ResourceTemplate::new(format!("{SCHEME}{lab}/{path}"), name).with_description(about)
    };
    vec![
        one("log/{node}".to_owned(), "log", "The last output of a node's programs"),
        one("file".to_owned(), "file", "The lab file of a running lab, with changes made by hand"),
        one("graph".to_owned(), "graph", "The topology as a graph of Graphviz"),
    ]
}

/// Reads a resource; `None` if there is none of this address.
///
/// # Errors
/// The lab refuses, in its own words.
pub(crate) fn read(scope: &Scope, address: &str) -> Result<Option<ResourceContents>> {
    let Some((lab, what)) = address.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'))
    else {
        return Ok(None);
    };
    let is_reached = scope.lab.as_ref().is_none_or(|only| only == lab);
    // Names of labs and nodes begin with a letter or digit; nothing here may be taken for a flag.
    let is_name = |name: &str| name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !is_reached || !is_name(lab) {
        return Ok(None);
    }
    let (args, kind) = match what.split_once('/') {
        None if what == "file" => (vec!["-l", lab, "export", "lab"], "application/yaml"),
        None if what == "graph" => (vec!["-l", lab, "graph", "--dot"], "text/vnd.graphviz"),
        Some(("log", node)) if is_name(node) => {
            (vec!["-l", lab, "logs", "-n", LINES, "--", node], "text/plain")
        }
        _ => return Ok(None),
    };
    let text = program::run(&scope.program, &args, None, LIMITS)?.good()?;
    let text = netloom_config::printable::lines(&text).into_owned();
    Ok(Some(ResourceContents::text(text, address).with_mime_type(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(lab: Option<&str>) -> Scope {
        Scope {
            program: "/bin/echo".into(),
            connect: |_| Err("none".to_owned()),
            lab: lab.map(str::to_owned),
            read_only: true,
        }
    }

    #[test]
    fn addresses_lead_to_verbs_and_to_no_flags() {
        let read = |lab, address: &str| {
            super::read(&scope(lab), address).unwrap().map(|contents| match contents {
                ResourceContents::TextResourceContents { text, .. } => text,
                _ => String::new(),
            })
        };
        assert_eq!(read(None, "netloom://x/file").as_deref(), Some("-l x export lab\n"));
        assert_eq!(read(None, "netloom://x/log/h1").as_deref(), Some("-l x logs -n 200 -- h1\n"));
        assert_eq!(read(Some("x"), "netloom://x/graph").as_deref(), Some("-l x graph --dot\n"));
        for none in [
            "netloom://y/file",
            "netloom://x/log/--help",
            "netloom://-h/file",
            "file:///etc/passwd",
            "netloom://x/log",
            "",
        ] {
            assert_eq!(read(Some("x"), none), None, "{none}");
        }
        assert_eq!(read(None, "netloom://--help/file"), None);
    }
}

//! XML as a tree like that of YAML: an element is a map of its attributes (`@name`), its elements by name, each a list,
//! and its text (`#text`).

use netloom_config::{Entry, Kind, Node, Place};
use roxmltree::{Document, Node as Xml, ParsingOptions};

use crate::{Error, Result, wrong};

/// Most elements and attributes of a file.
const MOST_NODES: u32 = 1_000_000;

/// How deep elements may be nested.
const DEEPEST: usize = 60;

/// Reads a document; the tree is its root element's.
pub(super) fn parse(file: &str, content: &[u8]) -> Result<Node> {
    let not_text = || Error::Unreadable { file: file.to_owned(), problem: "not UTF-8 text" };
    let text = std::str::from_utf8(content).map_err(|_| not_text())?;
    // In a tree each element takes far more memory than its letters in the file.
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| wrong(file, error.pos().row.max(1), format!("not valid XML: {error}")))?;
    let lines = Lines::new(text);
    element(document.root_element(), &lines, 0)
        .ok_or_else(|| wrong(file, 1, format!("elements nested more than {DEEPEST} deep")))
}

/// Where lines begin, in bytes.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Lines {
        Lines(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at).collect())
    }

    fn place(&self, at: usize) -> Place {
        let before = self.0.partition_point(|newline| *newline < at);
        let start = before.checked_sub(1).map_or(0, |line| self.0[line] + 1);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: number(before + 1), column: number(at - start + 1) }
    }
}

fn text_node(place: Place, text: &str) -> Node {
    Node { place, kind: Kind::Str, text: text.to_owned() }
}

fn element(xml: Xml<'_, '_>, lines: &Lines, depth: usize) -> Option<Node> {
    if depth > DEEPEST {
        return None;
    }
    let place = lines.place(xml.range().start);
    let mut entries: Vec<Entry> = vec![];
    for attribute in xml.attributes() {
        let place = lines.place(attribute.range().start);
        let key = format!("@{}", attribute.name());
        entries.push(Entry { key, place, value: text_node(place, attribute.value()) });
    }
    for child in xml.children().filter(Xml::is_element) {
        let node = element(child, lines, depth + 1)?;
        let (key, place) = (child.tag_name().name().to_owned(), node.place);
        match entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value.kind) {
            // Elements of one name become one list, wherever they stand, so that keys stay unique.
            Some(Kind::Seq(items)) => items.push(node),
            _ => {
                let value = Node { place, kind: Kind::Seq(vec![node]), text: String::new() };
                entries.push(Entry { key, place, value });
            }
        }
    }
    let text: String =
        xml.children().filter(Xml::is_text).filter_map(|child| child.text()).collect();
    if !text.trim().is_empty() {
        entries.push(Entry { key: "#text".into(), place, value: text_node(place, &text) });
    }
    if entries.is_empty() {
        return Some(Node::null(place));
    }
    Some(Node { place, kind: Kind::Map(entries), text: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_become_maps() {
        let tree = parse("f", b"<a x='1'>\n <b/><b y=\"2\">t</b>\n</a>").unwrap();
        assert_eq!(tree.get("@x").unwrap().text, "1");
        let items = tree.get("b").unwrap().items().unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!(items[1].get("#text").unwrap().text, "t");
        assert_eq!(items[1].get("@y").unwrap().place, Place { line: 2, column: 9 });
    }

    #[test]
    fn what_is_no_xml_is_refused() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        let bomb = "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>";
        for text in ["<a>\n</b>", "", "<a", &deep, bomb] {
            let error = parse("f", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("f:"), "{error}");
        }
    }
}

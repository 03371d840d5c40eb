//! Groups of nodes: their members by name, by pattern and of other groups, and the order in which they give attributes.

use std::collections::BTreeSet;

use crate::at::At;

/// A group.
pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    pub(super) at: At<'a>,
    /// Names of nodes and groups, and patterns.
    pub(super) members: Vec<&'a str>,
}

/// Reads all groups.
pub(super) fn read<'a>(root: &At<'a>) -> Vec<Group<'a>> {
    let mut groups = vec![];
    for (name, at) in root.get("groups").iter().flat_map(At::entries) {
        if name.starts_with('_') {
            continue;
        }
        // A list is that of its members.
        let list = if at.node.items().is_some() { Some(at.clone()) } else { at.get("members") };
        let mut members = vec![];
        for item in list.iter().flat_map(At::items) {
            match item.text() {
                Some(name) if Pattern::of(name).is_none_or(|pattern| pattern.is_known()) => {
                    members.push(name);
                    item.carried();
                }
                Some(_) => item.left_out("a pattern of a kind that netloom does not read"),
                None => item.odd("the name of a node"),
            }
        }
        groups.push(Group { name, at, members });
    }
    groups
}

/// The groups in the order in which they give attributes: by name, those that others have as members first.
pub(super) fn sorted<'g, 'a>(groups: &'g [Group<'a>]) -> Vec<&'g Group<'a>> {
    let mut left: Vec<&Group<'_>> = groups.iter().collect();
    left.sort_by_key(|group| group.name);
    let mut names: BTreeSet<&str> = left.iter().map(|group| group.name).collect();
    let mut order = vec![];
    while !left.is_empty() {
        let before = left.len();
        left.retain(|group| {
            let waits = group.members.iter().any(|name| names.contains(name));
            if !waits {
                names.remove(group.name);
                order.push(*group);
            }
            waits
        });
        if left.len() == before {
            // Groups that have each other as members: netlab refuses them.
            order.append(&mut left);
        }
    }
    order
}

/// Whether a node is in a group. `device` is the node's, `own` are the groups that it names itself.
pub(super) fn has(
    groups: &[Group<'_>],
    group: &Group<'_>,
    (node, device, own): (&str, Option<&str>, &[&str]),
) -> bool {
    if group.name == "all" || device == Some(group.name) || own.contains(&group.name) {
        return true;
    }
    // Groups may have each other as members; each is looked at once.
    let (mut open, mut seen) = (vec![group], BTreeSet::new());
    while let Some(group) = open.pop() {
        if !seen.insert(group.name) {
            continue;
        }
        for member in &group.members {
            if *member == node || Pattern::of(member).is_some_and(|pattern| pattern.matches(node)) {
                return true;
            }
            open.extend(groups.iter().filter(|group| group.name == *member));
        }
        if own.contains(&group.name) {
            return true;
        }
    }
    false
}

/// One place of a pattern: characters, and whether there may be none, and more.
struct Part {
    inverse: bool,
    ranges: Vec<(char, char)>,
    none: bool,
    more: bool,
}

/// A pattern of names: `h*`, `h?`, `h[12]`, or a regular expression after `~`.
pub(super) struct Pattern(Option<Vec<Part>>);

impl Pattern {
    /// `None` for a plain name.
    pub(super) fn of(text: &str) -> Option<Pattern> {
        match text.strip_prefix('~') {
            Some(text) => Some(Pattern(parts(text, true))),
            None if text.contains(['[', ']', '*', '?', '!', '.']) => {
                Some(Pattern(parts(text, false)))
            }
            None => None,
        }
    }

    fn is_known(&self) -> bool {
        self.0.is_some()
    }

    fn matches(&self, name: &str) -> bool {
        let Some(parts) = &self.0 else { return false };
        let skip = |places: &mut Vec<bool>| {
            for n in 0..parts.len() {
                places[n + 1] |= places[n] && parts[n].none;
            }
        };
        // Where in the pattern what has been read so far may end.
        // All places at once: to try them one after the other could take exponential time.
        let mut places = vec![false; parts.len() + 1];
        places[0] = true;
        skip(&mut places);
        for c in name.chars() {
            let mut next = vec![false; parts.len() + 1];
            for (n, part) in parts.iter().enumerate() {
                let within = part.ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                if within != part.inverse {
                    next[n + 1] |= places[n];
                    next[n + 1] |= part.more && places[n + 1];
                }
            }
            skip(&mut next);
            places = next;
        }
        places[parts.len()]
    }
}

fn parts(text: &str, is_regex: bool) -> Option<Vec<Part>> {
    let any = |none, more| Part { inverse: true, ranges: vec![], none, more };
    let mut parts: Vec<Part> = vec![];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '[' => {
                let sign = if is_regex { '^' } else { '!' };
                let inverse = chars.next_if_eq(&sign).is_some();
                let mut ranges = vec![];
                loop {
                    let from = chars.next()?;
                    // A `]` that comes first is one of the characters (glob(7)).
                    if from == ']' && !ranges.is_empty() {
                        break;
                    }
                    let is_range = chars.peek() == Some(&'-') && chars.clone().nth(1) != Some(']');
                    let to = if is_range { chars.nth(1)? } else { from };
                    ranges.push((from, to));
                }
                parts.push(Part { inverse, ranges, none: false, more: false });
            }
            '*' if !is_regex => parts.push(any(true, true)),
            '?' if !is_regex => parts.push(any(false, false)),
            '.' if is_regex => parts.push(any(false, false)),
            '*' | '+' | '?' if is_regex => {
                let last = parts.last_mut().filter(|part| !part.none && !part.more)?;
                (last.none, last.more) = (c != '+', c != '?');
            }
            '\\' if is_regex && chars.next_if_eq(&'d').is_some() => {
                parts.push(Part {
                    inverse: false,
                    ranges: vec![('0', '9')],
                    none: false,
                    more: false,
                });
            }
            '(' | ')' | '{' | '}' | '|' | '\\' | '^' | '$' if is_regex => return None,
            c => {
                parts.push(Part { inverse: false, ranges: vec![(c, c)], none: false, more: false })
            }
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_netlab() {
        let matches = |pattern: &str, name: &str| Pattern::of(pattern).unwrap().matches(name);
        for (pattern, name, want) in [
            ("h*", "h12", true),
            ("h*", "ah", false),
            ("h?", "h12", false),
            ("h[1-3]", "h2", true),
            ("h[!1]", "h1", false),
            ("~h[0-9]+", "h12", true),
            ("~h[0-9]", "h12", false),
            ("~.*x?", "", true),
            ("~r\\d", "r7", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
        assert!(Pattern::of("h1").is_none());
        assert!(!Pattern::of("~(a|b)").unwrap().is_known());
    }
}

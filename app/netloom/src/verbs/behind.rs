//! What is behind, in lines.

use netloom_lab::view::BehindView;

use crate::output::utc;

/// Most lines; the latest come first.
const MOST: usize = 8;

/// A line for each, and how many there are more.
pub(super) fn lines(all: &[BehindView]) -> String {
    let told = all.iter().take(MOST).map(BehindView::words);
    let more = all.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {more} more"));
    told.chain(more).collect::<Vec<_>>().join("\n")
}

/// A mark for a result that was made while something was late; `None` if nothing was.
pub(super) fn mark(all: &[BehindView]) -> Option<String> {
    let lines = lines(all);
    let marked = lines.lines().map(|line| format!("measured while {line}"));
    (!all.is_empty()).then(|| marked.collect::<Vec<_>>().join("\n"))
}

/// Lines of `status`, each with since when; empty if nothing is behind.
pub(super) fn status(all: &[BehindView]) -> String {
    let line = |behind: &BehindView| {
        let since = behind.since_ns.map(|ns| format!(", since {}", utc(ns)));
        format!("behind: {}{}\n", behind.words(), since.unwrap_or_default())
    };
    let told = all.iter().take(MOST).map(line);
    let more = all.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("behind: and {more} more\n"));
    told.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use netloom_lab::view::BehindKind;

    use super::*;

    fn node(name: usize) -> BehindView {
        BehindView {
            kind: BehindKind::Node,
            name: format!("n{name}"),
            cause: netloom_lab::view::BehindCause::Waits,
            late_ns: Some(20_000_000),
            count: 3,
            since_ns: Some(0),
            ..BehindView::default()
        }
    }

    #[test]
    fn output_is_bounded() {
        let all: Vec<BehindView> = (0..20).map(node).collect();
        assert_eq!(lines(&all).lines().count(), MOST + 1);
        assert!(lines(&all).ends_with("\nand 12 more"));
        assert_eq!(status(&all).lines().count(), MOST + 1);
        assert!(status(&all[..MOST]).lines().all(|line| !line.contains("more")));
    }

    #[test]
    fn nothing_is_said_of_what_keeps_up() {
        assert_eq!((mark(&[]), status(&[]), lines(&[])), (None, String::new(), String::new()));
        let line = "node n1 waited 20.0 ms for a processor on average (3 turns)";
        assert_eq!(mark(&[node(1)]), Some(format!("measured while {line}")));
        let since = "1970-01-01T00:00:00.000000Z";
        assert_eq!(status(&[node(1)]), format!("behind: {line}, since {since}\n"));
    }
}

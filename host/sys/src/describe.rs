//! Errors in words: the one form in which a failure and its causes are shown.

use std::error::Error;
use std::iter::successors;

/// An error and all its causes, `error: cause: cause`. A cause that the words before it show already, as those of
/// `"{object}: {source}"` do, is not repeated.
pub fn describe(error: &(dyn Error + '_)) -> String {
    let mut text = error.to_string();
    for cause in successors(error.source(), |cause| (**cause).source()) {
        let words = cause.to_string();
        if !shows(&text, &words) {
            text.push_str(": ");
            text.push_str(&words);
        }
    }
    text
}

/// Whether `words` stand in a text as a part of their own: after its beginning or a colon, and up to its end or a
/// mark between sentences.
fn shows(text: &str, words: &str) -> bool {
    let begins = |at: usize| at == 0 || text[..at].ends_with(": ");
    let ends = |at: usize| at == text.len() || text[at..].starts_with([':', ';', ',', ')', '\n']);
    words.is_empty()
        || text.match_indices(words).any(|(at, _)| begins(at) && ends(at + words.len()))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Inner {
        #[error("file {0:?}: write")]
        Bare(&'static str, #[source] io::Error),
        #[error(transparent)]
        Clear(#[from] io::Error),
    }

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("node {node:?}: start")]
        Bare { node: &'static str, source: Inner },
        #[error("node {node:?}: start: {source}")]
        Shown { node: &'static str, source: Inner },
        #[error("node {node:?}: start: {source}; try again")]
        Within { node: &'static str, source: Inner },
        #[error(transparent)]
        Clear(#[from] Inner),
    }

    fn full() -> io::Error {
        io::Error::other("disk full")
    }

    #[test]
    fn every_cause_follows_its_error() {
        let error = Outer::Bare { node: "a", source: Inner::Bare("f", full()) };
        assert_eq!(describe(&error), r#"node "a": start: file "f": write: disk full"#);
        assert_eq!(describe(&full()), "disk full");
    }

    #[test]
    fn a_cause_that_is_shown_already_is_not_repeated() {
        let nested = || Inner::Bare("f", full());
        let shown = Outer::Shown { node: "a", source: nested() };
        assert_eq!(describe(&shown), r#"node "a": start: file "f": write: disk full"#);
        let within = Outer::Within { node: "a", source: full().into() };
        assert_eq!(describe(&within), r#"node "a": start: disk full; try again"#);
    }

    #[test]
    fn transparent_errors_are_their_causes() {
        assert_eq!(describe(&Outer::Clear(full().into())), "disk full");
        let nested = Outer::Clear(Inner::Bare("f", full()));
        assert_eq!(describe(&nested), r#"file "f": write: disk full"#);
        let below = Outer::Bare { node: "a", source: full().into() };
        assert_eq!(describe(&below), r#"node "a": start: disk full"#);
    }

    #[test]
    fn words_that_happen_to_stand_in_a_name_are_no_cause() {
        let error = Inner::Bare("disk full", io::Error::other("disk full"));
        assert_eq!(describe(&error), r#"file "disk full": write: disk full"#);
        let error = Inner::Bare("f", io::Error::other("write to"));
        assert_eq!(describe(&error), r#"file "f": write: write to"#);
        let error = Inner::Bare("f", io::Error::other(""));
        assert_eq!(describe(&error), r#"file "f": write"#);
    }
}

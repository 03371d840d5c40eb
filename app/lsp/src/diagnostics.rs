//! What is wrong in a file: the words of `netloom check`, at their places.

use std::collections::{HashMap, HashSet};

use lsp_types::{Diagnostic, DiagnosticSeverity, NumberOrString, Range};
use netloom_config::{Diagnostics, cursor, printable};
use netloom_model::plan;

use crate::Compiled;
use crate::document::Document;
use crate::names::Names;

/// How many warnings are shown.
const MOST_WARNINGS: usize = 100;

/// Checks a document if it has changed: keeps its plan if it is good, and what is not.
pub(crate) fn refresh(document: &mut Document) {
    if std::mem::take(&mut document.is_changed) {
        document.found = check(document);
        document.is_told = false;
    }
}

/// What is wrong in another text of a document, without expressions of `drop`.
pub(crate) fn messages(document: &Document, text: &str) -> Vec<String> {
    let lab = match netloom_model::parse(&document.name(), text.as_bytes(), &document.stem()) {
        Ok(lab) => lab,
        Err(told) => return told.list.iter().map(words).collect(),
    };
    match plan::plan(&lab) {
        Ok(_) => {
            let hints = plan::hints_on_nodes(&lab);
            hints.iter().map(|hint| printable::line(&hint.words).into_owned()).collect()
        }
        Err(error) => vec![printable::lines(&error.to_string()).into_owned()],
    }
}

fn check(document: &mut Document) -> Vec<Diagnostic> {
    let (name, stem) = (document.name(), document.stem());
    if let Some(length) = document.too_long {
        let told = netloom_model::too_large(&name, length as u64);
        return told.map(|told| errors(document, &told)).unwrap_or_default();
    }
    let lab = match netloom_model::parse(&name, document.text.as_bytes(), &stem) {
        Ok(lab) => lab,
        Err(told) => return errors(document, &told),
    };
    let plan = match plan::plan(&lab) {
        Ok(plan) => plan,
        // It is about several places.
        Err(error) => {
            return vec![at_start(document, &error.to_string(), DiagnosticSeverity::ERROR)];
        }
    };
    let mut found = warnings(document, &plan::hints_on_nodes(&lab));
    match (document.compiler)(&plan) {
        Compiled::Good => {}
        Compiled::Not(words) => {
            let words = format!("expressions of `drop` are not checked: {words}");
            found.push(at_start(document, &words, DiagnosticSeverity::WARNING));
        }
        Compiled::Wrong(words) => {
            let range = first_drop(document).unwrap_or_else(|| first_line(document));
            return vec![diagnostic(range, &words, DiagnosticSeverity::ERROR)];
        }
    }
    (document.last_plan, document.is_planned) = (Some(plan), true);
    found
}

/// An error's text as it is shown, with its help.
fn words(error: &netloom_config::Diagnostic) -> String {
    let message = printable::line(&error.message);
    match &error.help {
        Some(help) => format!("{message}\nhelp: {}", printable::line(help)),
        None => message.into_owned(),
    }
}

fn errors(document: &Document, told: &Diagnostics) -> Vec<Diagnostic> {
    let wanted: HashSet<(usize, usize)> = told.list.iter().map(place).collect();
    let mut ranges = HashMap::new();
    cursor::words(&document.text, |word, _| {
        if wanted.contains(&(word.line, word.column)) {
            let range = document.lines.range(&document.text, word);
            ranges.entry((word.line, word.column)).or_insert(range);
        }
    });
    let one = |error: &netloom_config::Diagnostic| {
        let (line, column) = place(error);
        let rest = || document.lines.rest_of_line(&document.text, line, column);
        let range = ranges.get(&(line, column)).copied().unwrap_or_else(rest);
        diagnostic(range, &words(error), DiagnosticSeverity::ERROR)
    };
    told.list.iter().map(one).collect()
}

/// The line and the column of an error, from 0.
fn place(error: &netloom_config::Diagnostic) -> (usize, usize) {
    let from_0 = |number: u32| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    (from_0(error.line), from_0(error.column))
}

fn warnings(document: &Document, hints: &[plan::Hint]) -> Vec<Diagnostic> {
    if hints.is_empty() {
        return vec![];
    }
    let names = Names::of(document);
    let one = |hint: &plan::Hint| {
        let range = names.find(&hint.node).map(|name| name.range(document));
        let range = range.unwrap_or_else(|| first_line(document));
        diagnostic(range, &printable::line(&hint.words), DiagnosticSeverity::WARNING)
    };
    hints.iter().take(MOST_WARNINGS).map(one).collect()
}

fn first_drop(document: &Document) -> Option<Range> {
    let mut found = None;
    cursor::words(&document.text, |word, _| {
        if word.is_key && word.text == "drop" && found.is_none() {
            found = Some(document.lines.range(&document.text, word));
        }
    });
    found
}

fn first_line(document: &Document) -> Range {
    document.lines.rest_of_line(&document.text, 0, 0)
}

fn at_start(document: &Document, words: &str, severity: DiagnosticSeverity) -> Diagnostic {
    diagnostic(first_line(document), &printable::lines(words), severity)
}

fn diagnostic(range: Range, words: &str, severity: DiagnosticSeverity) -> Diagnostic {
    Diagnostic {
        range,
        severity: Some(severity),
        code: None::<NumberOrString>,
        source: Some("netloom".to_owned()),
        message: words.to_owned(),
        ..Diagnostic::default()
    }
}

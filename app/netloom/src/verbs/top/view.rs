//! Draws what can be seen of a model. What others have named changes no terminal.

use netloom_config::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Row, Table};

use super::columns::{cells, detail, heads};
use super::model::{Mode, Model, Prompt, Standing, Tab};
use crate::output;
use crate::verbs::list;

/// The keys, with what they do.
const KEYS: [(&str, &str); 15] = [
    ("1 2 3 4 5, Tab", "labs, nodes, links, switches, programs"),
    ("up, down, PgUp, PgDn", "choose a row"),
    ("/", "show only rows with this text; Esc shows all"),
    ("o", "sort by rate, loss or name"),
    ("Enter", "open: all about the row, or the lab"),
    ("s", "a shell in the node"),
    ("l", "the output of the node's programs, until Ctrl-C"),
    ("c", "capture into a file, until Ctrl-C"),
    ("i", "impairments of the link, as delay=10ms loss=1%"),
    ("d", "the link's cable out, or in again"),
    ("?", "these keys"),
    ("q, Esc", "back; in a table: end"),
    ("", ""),
    ("THERE, BACK", "bits that the first end sends in a second, and the second"),
    ("LOST", "frames since the link was made"),
];

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws it all.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let line = Constraint::Length(1);
    let [head, tabs, body, last] =
        Layout::vertical([line, line, Constraint::Min(0), line]).areas(frame.area());
    frame.render_widget(Paragraph::new(safe(&title(model))).style(BOLD), head);
    frame.render_widget(Paragraph::new(tab_line(model)), tabs);
    match &model.mode {
        Mode::Help => keys(frame, body),
        Mode::Detail => all_about(frame, body, model),
        _ => table(frame, body, model),
    }
    let (text, style) = last_line(model);
    frame.render_widget(Clear, last);
    frame.render_widget(Paragraph::new(safe(&text)).style(style), last);
}

/// Text of others in one line.
fn safe(text: &str) -> String {
    printable::line(text).into_owned()
}

/// The lab, and how it is heard.
fn title(model: &Model) -> String {
    let Some(name) = &model.lab else { return "netloom: choose a lab".to_owned() };
    let (nodes, links) = (model.picture.nodes.len(), model.picture.links.len());
    let size = format!("{}, {}", output::count(nodes, "node"), output::count(links, "link"));
    match (&model.standing, &model.picture.lab) {
        (Standing::Heard, Some(lab)) => {
            format!("lab {name}: {}, {size}", list::state(lab.state))
        }
        (Standing::Heard | Standing::Waiting, _) => format!("lab {name}: waiting for it"),
        (Standing::NoProcess, _) => {
            format!("lab {name}: its process has ended; `netloom up` adopts it; as it was: {size}")
        }
        (Standing::NoLab, _) => format!("lab {name}: not up; waiting for it; as it was: {size}"),
        (Standing::Trouble(why), _) => format!("lab {name}: {why}"),
    }
}

fn tab_line(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for tab in Tab::ALL {
        let style = if tab == model.tab { REVERSED } else { Style::new() };
        spans.push(Span::styled(format!(" {} {} ", tab.index() + 1, tab.title()), style));
    }
    let filter = match (&model.mode, model.filter.is_empty()) {
        (Mode::Filter, _) | (_, true) => String::new(),
        (_, false) => format!("  with {:?}", model.filter),
    };
    spans.push(Span::raw(safe(&format!("  by {}{filter}", model.order.word()))));
    Line::from(spans)
}

fn last_line(model: &Model) -> (String, Style) {
    match &model.mode {
        Mode::Filter => (format!("/{}_", model.filter), Style::new()),
        Mode::Prompt(Prompt::Impair(link), text) => {
            (format!("impair {link} (delay=10ms loss=1%, none): {text}_"), Style::new())
        }
        Mode::Prompt(Prompt::Capture(target), text) => {
            (format!("capture {target} into: {text}_"), Style::new())
        }
        _ if !model.note.is_empty() => (model.note.clone(), BOLD),
        _ => {
            let keys = "?keys /filter o:order s:shell l:logs c:capture i:impair d:cable q:back";
            (keys.to_owned(), Style::new().add_modifier(Modifier::DIM))
        }
    }
}

/// The rows that fit, and no others.
fn table(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let height = usize::from(area.height.saturating_sub(1));
    let (first, keys, all) = model.window(height);
    let chosen = model.chosen();
    let heads = heads(model.tab);
    let widths = heads.iter().map(|(_, width)| *width);
    let rows = keys.iter().map(|key| {
        let style = if Some(key) == chosen.as_ref() { REVERSED } else { Style::new() };
        Row::new(cells(model, key).iter().map(|cell| safe(cell)).collect::<Vec<_>>()).style(style)
    });
    let head = Row::new(heads.iter().map(|(head, _)| *head)).style(BOLD);
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(1), area);
    if all > height {
        let place = format!(" {}-{} of {all} ", first + 1, first + keys.len());
        let width = u16::try_from(place.len()).unwrap_or(area.width).min(area.width);
        let corner = Rect { x: area.right().saturating_sub(width), width, height: 1, ..area };
        frame.render_widget(Paragraph::new(place).style(BOLD), corner);
    }
    if all == 0 && area.height > 2 {
        let words = match (model.tab, model.filter.is_empty()) {
            (_, false) => "nothing has this text",
            (Tab::Labs, _) => "no lab is running; bring one up with `netloom up FILE`",
            _ => "none",
        };
        let at = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(Paragraph::new(words), at);
    }
}

fn all_about(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(key) = model.chosen() else { return table(frame, area, model) };
    let lines = detail(model, &key);
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).min(30);
    let line = |(label, value): &(String, String)| {
        Line::from(vec![
            Span::styled(safe(&format!("{label:<width$}  ")), BOLD),
            Span::raw(safe(value)),
        ])
    };
    frame.render_widget(Paragraph::new(lines.iter().map(line).collect::<Vec<_>>()), area);
}

fn keys(frame: &mut Frame<'_>, area: Rect) {
    let line = |(key, does): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:<22}"), BOLD), Span::raw(*does)])
    };
    frame.render_widget(Paragraph::new(KEYS.iter().map(line).collect::<Vec<_>>()), area);
}

/// All tables of a lab as text.
pub(super) fn text(model: &mut Model) -> String {
    let mut text = format!("{}\n", safe(&title(model)));
    for tab in [Tab::Nodes, Tab::Links, Tab::Switches, Tab::Programs] {
        model.tab = tab;
        let rows: Vec<Vec<String>> = model.rows().iter().map(|key| cells(model, key)).collect();
        if !rows.is_empty() {
            let heads: Vec<&str> = heads(tab).iter().map(|(head, _)| *head).collect();
            text += &format!("\n{}", output::table(&heads, rows));
        }
    }
    text
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

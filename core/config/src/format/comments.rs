//! Comments at the ends of lines: neighbours that stood below each other still do.

/// A line, and the comment at its end with the column in which that stood.
#[derive(Default)]
pub(super) struct Line<'t> {
    pub text: String,
    /// Characters of the text.
    pub width: usize,
    pub comment: Option<(usize, &'t str)>,
}

/// Blanks before a comment that must move.
const GAP: usize = 2;

/// The text of lines. Comments keep their column; where a text has grown into it, all neighbours move.
pub(super) fn text(lines: Vec<Line<'_>>) -> String {
    let mut out = String::new();
    let column = |line: &Line<'_>| line.comment.map(|(column, _)| column);
    for group in lines.chunk_by(|a, b| a.comment.is_some() && column(a) == column(b)) {
        let widest = group.iter().map(|line| line.width).max().unwrap_or(0);
        let stood = group.first().and_then(column).unwrap_or(0);
        let column = if widest < stood { stood } else { widest + GAP };
        for line in group {
            out.push_str(&line.text);
            if let Some((_, comment)) = line.comment {
                out.push_str(&" ".repeat(column - line.width));
                out.push_str(comment);
            }
            out.push('\n');
        }
    }
    out
}

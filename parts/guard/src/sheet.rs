//! What of a question is shown on a screen of some size: all that a person decides about, or nothing. Pure.
//!
//! A program chooses its path and its destinations, and terminals let it change their size: what it says must push no
//! part of the question off the screen.

use rustix::termios::Winsize;

/// Before each line.
const MARGIN: &str = "  ";
const TITLE: &str = "netloom guard";

/// A screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sheet {
    rows: usize,
    columns: usize,
}

impl Sheet {
    /// Of a terminal's size; one that does not tell it shows all.
    pub(crate) fn of(size: Option<Winsize>) -> Sheet {
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) =
            size.map_or((usize::MAX, usize::MAX), |size| (size.ws_row.into(), size.ws_col.into()));
        Sheet { rows, columns }
    }

    /// Whether a question and its keys have room.
    pub(crate) fn holds(self, lines: &[String], menu: &[String]) -> bool {
        self.needed(lines, menu) <= self.rows
    }

    /// The text that has room beside them, its end cut.
    pub(crate) fn beside(
        self,
        lines: &[String],
        menu: &[String],
        more: Vec<String>,
    ) -> Vec<String> {
        let (mut left, mut shown) = (self.rows.saturating_sub(self.needed(lines, menu)), vec![]);
        for line in more {
            let height = self.height(&line);
            if height > left {
                shown.extend((left > 0).then(|| self.cut(&line, left)));
                break;
            }
            left -= height;
            shown.push(line);
        }
        shown
    }

    /// What stands in the place of a question that has no room.
    pub(crate) fn too_small(self, lines: &[String], menu: &[String]) -> Vec<String> {
        let needed = self.needed(lines, menu);
        vec![format!("a question needs {needed} rows of {} columns; n denies", self.columns)]
    }

    /// The text from the top of the screen, of which no row is scrolled away if it has room.
    pub(crate) fn text(self, lines: &[String], menu: &[String]) -> String {
        let all = self.all(lines, menu);
        all.map(|line| if line.is_empty() { String::new() } else { format!("{MARGIN}{line}") })
            .collect::<Vec<_>>()
            .join("\r\n")
    }

    fn all<'l>(self, lines: &'l [String], menu: &'l [String]) -> impl Iterator<Item = &'l str> {
        let gap = (!menu.is_empty()).then_some("");
        let (lines, menu) = (lines.iter().map(String::as_str), menu.iter().map(String::as_str));
        ["", TITLE, ""].into_iter().chain(lines).chain(gap).chain(menu)
    }

    fn needed(self, lines: &[String], menu: &[String]) -> usize {
        self.all(lines, menu).map(|line| self.height(line)).sum()
    }

    /// Rows of a line.
    fn height(self, line: &str) -> usize {
        (MARGIN.len() + line.chars().map(width).sum::<usize>()).div_ceil(self.columns).max(1)
    }

    /// As much of a line as some rows have room for.
    fn cut(self, line: &str, rows: usize) -> String {
        let mut left = rows.saturating_mul(self.columns).saturating_sub(MARGIN.len() + 2);
        let fits = |letter: &char| {
            let fits = width(*letter) <= left;
            left = left.saturating_sub(width(*letter));
            fits
        };
        let begin: String = line.chars().take_while(fits).collect();
        format!("{begin}…")
    }
}

/// Columns of a letter, at most: terminals differ about others than those of ASCII.
fn width(letter: char) -> usize {
    if letter.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(rows: u16, columns: u16) -> Sheet {
        Sheet::of(Some(Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }))
    }

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_question_is_shown_whole_or_not_at_all() {
        let (question, menu) = (lines(&["who", "wants what"]), lines(&["y  yes", "n  no"]));
        let text = sheet(8, 20).text(&question, &menu);
        assert_eq!(
            text,
            "\r\n  netloom guard\r\n\r\n  who\r\n  wants what\r\n\r\n  y  yes\r\n  n  no"
        );
        assert!(sheet(8, 20).holds(&question, &menu) && !sheet(7, 20).holds(&question, &menu));
        // Lines are as long as the screen is wide, and then longer.
        assert!(sheet(8, 15).holds(&question, &menu) && !sheet(8, 11).holds(&question, &menu));
        assert!(!sheet(8, 15).holds(&lines(&["who", "wants whäteve"]), &menu));
        let small = sheet(7, 20);
        assert_eq!(
            small.text(&small.too_small(&question, &menu), &[]),
            "\r\n  netloom guard\r\n\r\n  a question needs 8 rows of 20 columns; n denies"
        );
        assert!(sheet(0, 0).holds(&question, &menu));
    }

    #[test]
    fn more_is_shown_where_there_is_room() {
        let (question, menu) = (lines(&["who"]), lines(&["y"]));
        let more = || lines(&["first", "second is a longer one", "third"]);
        let beside = |rows| sheet(rows, 12).beside(&question, &menu, more());
        assert!(beside(7).is_empty() && beside(8) == lines(&["first"]));
        assert_eq!(beside(9), lines(&["first", "second i…"]));
        assert_eq!(beside(10), more()[..2]);
        assert_eq!(beside(11), more());
        assert_eq!(sheet(0, 0).beside(&question, &menu, more()), more());
    }
}

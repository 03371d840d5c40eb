//! Words of a command line, as a POSIX shell separates and unquotes them (POSIX.1-2017, XCU 2.2 and 2.3), without expansion.
//!
//! Callers differ in what else of a shell they take, so [`split`] asks about each character that no quote protects.

/// Where a character stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside of quotes, where a word would begin.
    Start,
    /// Outside of quotes, in a word.
    Inside,
    /// Between double quotes, in which a shell still expands.
    Quoted,
}

/// What a character means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It is a part of the word.
    Letter,
    /// It separates words.
    Blank,
    /// Nothing more of this line counts.
    Comment,
}

/// Why a line has no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken<E> {
    /// This quote is not closed.
    Quote(char),
    /// A backslash ends the line.
    Backslash,
    /// The caller refuses a character.
    Refused(E),
}

/// Splits a line into words, quotes removed.
///
/// # Errors
/// [`Broken`].
pub fn split<E>(
    line: &str,
    mut meaning: impl FnMut(char, Place) -> Result<Meaning, E>,
) -> Result<Vec<String>, Broken<E>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let place = if word.is_none() { Place::Start } else { Place::Inside };
        match c {
            '\'' => single(&mut rest, word.get_or_insert_default())?,
            '"' => double(&mut rest, word.get_or_insert_default(), &mut meaning)?,
            '\\' => word.get_or_insert_default().push(rest.next().ok_or(Broken::Backslash)?),
            _ => match meaning(c, place).map_err(Broken::Refused)? {
                Meaning::Letter => word.get_or_insert_default().push(c),
                Meaning::Blank => words.extend(word.take()),
                Meaning::Comment => while rest.next_if(|c| *c != '\n').is_some() {},
            },
        }
    }
    words.extend(word);
    Ok(words)
}

fn single<E>(rest: &mut impl Iterator<Item = char>, word: &mut String) -> Result<(), Broken<E>> {
    loop {
        match rest.next().ok_or(Broken::Quote('\''))? {
            '\'' => return Ok(()),
            c => word.push(c),
        }
    }
}

fn double<E>(
    rest: &mut impl Iterator<Item = char>,
    word: &mut String,
    meaning: &mut impl FnMut(char, Place) -> Result<Meaning, E>,
) -> Result<(), Broken<E>> {
    const OPEN: char = '"';
    loop {
        match rest.next().ok_or(Broken::Quote(OPEN))? {
            '"' => return Ok(()),
            // Before other characters a backslash stays (XCU 2.2.3).
            '\\' => match rest.next().ok_or(Broken::Quote(OPEN))? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => {
                meaning(c, Place::Quoted).map_err(Broken::Refused)?;
                word.push(c);
            }
        }
    }
}

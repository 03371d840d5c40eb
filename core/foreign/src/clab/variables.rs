//! Variables of the environment in a topology: `$NAME`, `${NAME}`, `${NAME:-text}` and the like; `$$` is `$`.
//!
//! A variable that is not set and has no text of its own stays as it is written.

use crate::{Job, MOST_BYTES, Result, Verdict, wrong};

/// The text with its variables filled in; each is an item of the account.
pub(crate) fn expand(job: &Job<'_>, text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut line = 1;
    while let Some(at) = rest.find('$') {
        line += newlines(&rest[..at]);
        out.push_str(&rest[..at]);
        let used = one(job, &rest[at..], line, &mut out);
        line += newlines(&rest[at..at + used]);
        rest = &rest[at + used..];
        if out.len() as u64 > MOST_BYTES {
            return Err(wrong(job.file, line, "with its variables the text exceeds 8 MiB"));
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn newlines(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

/// Writes what begins at a `$`; returns how many bytes that took.
fn one(job: &Job<'_>, text: &str, line: u32, out: &mut String) -> usize {
    if text.starts_with("$$") {
        out.push('$');
        return 2;
    }
    let braced = text.starts_with("${");
    let start = if braced { 2 } else { 1 };
    let name = name(&text[start..]);
    let after = start + name.len();
    let end = match (braced, text[after..].find(['}', '\n'])) {
        _ if name.is_empty() => None,
        (false, _) => Some(after),
        (true, Some(at)) if text[after + at..].starts_with('}') => Some(after + at + 1),
        (true, _) => None,
    };
    let Some(end) = end else {
        out.push('$');
        return 1;
    };
    let form = if braced { &text[after..end - 1] } else { "" };
    let item = || job.ledger.enter(job.file, line, &text[..end]);
    match value(job.options.env.get(name).map(String::as_str), form) {
        Some(value) => {
            out.push_str(&value);
            job.ledger.say(item(), Verdict::Changed("its value at the import".into()));
        }
        None => {
            out.push_str(&text[..end]);
            // A `$` that is no variable may be part of a command.
            if braced {
                job.ledger.say(item(), Verdict::Changed("not set: stays as it is written".into()));
            }
        }
    }
    end
}

fn name(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let name = &text[..end];
    if name.starts_with(|c: char| c.is_ascii_digit()) { "" } else { name }
}

/// The value of a variable by what follows its name in braces.
fn value(set: Option<&str>, form: &str) -> Option<String> {
    let (empty_counts, form) = match form.strip_prefix(':') {
        Some(form) => (false, form),
        None => (true, form),
    };
    let set = set.filter(|text| empty_counts || !text.is_empty());
    let (sign, other) = form.split_at(form.chars().next().map_or(0, char::len_utf8));
    match sign {
        "" => set.map(str::to_owned),
        "-" | "=" => Some(set.unwrap_or(other).to_owned()),
        "+" => Some(if set.is_some() { other.to_owned() } else { String::new() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::{Memory, Options};

    fn expanded(text: &str) -> String {
        let env = [("A", "1"), ("EMPTY", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let options = Options { env: env.into(), ..Options::default() };
        let (ledger, files) = (Ledger::default(), Memory::default());
        let job = Job {
            files: &files,
            file: "f",
            options: &options,
            ledger: &ledger,
            ports: Default::default(),
        };
        expand(&job, text).unwrap()
    }

    #[test]
    fn variables_as_envsubst_has_them() {
        for (text, want) in [
            ("$A ${A} $$A", "1 1 $A"),
            ("${B:=x} ${B:-y} ${B-z} ${EMPTY:-e} ${EMPTY-e}", "x y z e "),
            ("${A:+set} ${B:+set}", "set "),
            ("$B ${B} $1 $ ${", "$B ${B} $1 $ ${"),
            ("${A", "${A"),
            ("${A\n}", "${A\n}"),
        ] {
            assert_eq!(expanded(text), want, "{text}");
        }
    }
}

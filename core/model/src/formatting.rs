//! A lab file in netloom's style: the text changes, the lab does not.

use netloom_config::{Diagnostics, Place, Report};

use crate::parse::parse;

/// The text of a lab file in one style, with its comments; see [`netloom_config::format()`]. Parameters as for [`parse`].
///
/// # Errors
/// All errors of the file; or what in it cannot be kept, with its line. Then the file stays as it is.
pub fn format(file: &str, text: &[u8], default_name: &str) -> Result<String, Diagnostics> {
    let lab = parse(file, text, default_name)?;
    let formatted = netloom_config::format(file, text)?;
    match parse(file, formatted.as_bytes(), default_name) {
        Ok(again) if again == lab => Ok(formatted),
        _ => {
            let mut report = Report::new(file);
            let message = "formatted, this would be another lab; the file stays as it is";
            report.error(Place::START, message);
            Err(report.finish())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn yaml_files(folder: &str) -> Vec<(String, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|e| e == "yaml"));
        let read =
            |path: std::path::PathBuf| (path.display().to_string(), fs::read(&path).unwrap());
        paths.map(read).collect()
    }

    #[test]
    fn the_examples_are_in_this_style() {
        let files = yaml_files("examples");
        assert!(files.len() > 20, "{}", files.len());
        for (name, text) in files {
            let text = String::from_utf8(text).unwrap();
            let formatted = format(&name, text.as_bytes(), "t").unwrap_or_else(|e| panic!("{e}"));
            for (number, (own, other)) in text.lines().zip(formatted.lines()).enumerate() {
                assert_eq!(own, other, "{name}:{}", number + 1);
            }
            assert_eq!(text, formatted, "{name}");
        }
    }

    #[test]
    fn an_example_in_another_style_comes_back() {
        for (name, text) in yaml_files("examples") {
            let text = String::from_utf8(text).unwrap();
            let deeper = |line: &str| match line.starts_with(' ') {
                true => format!("   {line}"),
                false => line.to_owned(),
            };
            let other: Vec<String> = text.lines().map(deeper).collect();
            let other = other.join("\r\n");
            let formatted = format(&name, other.as_bytes(), "t").unwrap_or_else(|e| panic!("{e}"));
            let starts = |text: &str| {
                let starts = text.lines().map(|line| line.len() - line.trim_start().len());
                starts.collect::<Vec<_>>()
            };
            assert_eq!(starts(&formatted), starts(&text), "{name}");
            // Comments at the ends of lines keep the column that they were moved to.
            let words = |text: &str| {
                let lines =
                    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
                lines.collect::<Vec<_>>()
            };
            assert_eq!(words(&formatted), words(&text), "{name}");
        }
    }

    #[test]
    fn a_file_with_errors_stays_as_it_is() {
        for (name, text) in yaml_files("tests/e2e/bad") {
            let (told, wanted) = (format(&name, &text, "t"), parse(&name, &text, "t"));
            if let Err(wanted) = wanted {
                assert_eq!(told.unwrap_err(), wanted, "{name}");
            }
        }
        let told = format("f", b"nodes:\n  ? a\n  : {}\n", "t").unwrap_err().to_string();
        assert!(told.starts_with("f:2:3: error: a key behind \"?\" cannot be formatted"), "{told}");
    }
}

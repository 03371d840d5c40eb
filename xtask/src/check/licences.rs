//! Checks the licences of all dependencies, as SPDX expressions, against a list of permissive ones.

use serde_json::Value;

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().filter_map(judge).collect()
}

fn judge(package: &Value) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    match package["license"].as_str() {
        None => Some(format!("{name}: states no licence")),
        Some(expression) if allowed(expression) => None,
        Some(expression) => Some(format!("{name}: licence `{expression}` is not in the list")),
    }
}

/// Whether listed licences satisfy the expression; the old style `A/B` means `A OR B`.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at).is_some_and(|good| good && at == words.len())
}

/// Parses `all OR all ...`; `None` for invalid syntax.
fn any(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut good = all(words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        good |= all(words, at)?;
    }
    Some(good)
}

/// Parses `one AND one ...`.
fn all(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut good = one(words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        good &= one(words, at)?;
    }
    Some(good)
}

/// Parses a licence, a licence with an exception, or an expression in parentheses.
fn one(words: &[&str], at: &mut usize) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let good = any(words, at)?;
        *at += 1;
        return (words.get(*at - 1) == Some(&")")).then_some(good);
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1)?;
        *at += 2;
        return Some(ALLOWED.contains(&format!("{word} WITH {exception}").as_str()));
    }
    Some(ALLOWED.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn one_good_choice_is_enough() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "LGPL-2.1-only OR BSD-2-Clause",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(allowed(good), "{good}");
        }
    }

    #[test]
    fn a_needed_bad_one_is_told() {
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0", "", "MIT AND", "(MIT", "MIT )", "EUPL-1.2"]
        {
            assert!(!allowed(bad), "{bad}");
        }
    }
}

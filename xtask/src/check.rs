//! `check`: rules that the compiler does not enforce. Prints every finding; fails if one is forbidden.
//!
//! Forbidden: a dependency against the layers, modules that import each other in a cycle, a module without a
//! `//!` header, a licence that is not listed, `unsafe` outside `host/` and `parts/vdeplug`, `eprintln!` in
//! code that serves, a test file that no executable lists, a missing test that the guide names, words that stop a
//! reader. Only reported: long files and functions.

mod circles;
mod english;
mod layers;
mod licences;
mod listed;
mod modules;
mod shown;
mod source;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::workspace;

/// All Rust sources below a folder, in order of their names.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    source::files(folder)
}

pub(crate) fn run() -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut wrong = layers::check(&metadata)?;
    wrong.extend(licences::check(&metadata));
    let sources = source::check(&workspace::root())?;
    wrong.extend(sources.wrong);
    wrong.extend(listed::check(&workspace::root())?);
    wrong.extend(circles_of_all()?);
    wrong.extend(shown::check(&workspace::root())?);
    wrong.extend(english::check(&workspace::root())?);
    for long in &sources.long {
        println!("long: {long}");
    }
    for finding in &wrong {
        println!("wrong: {finding}");
    }
    if !wrong.is_empty() {
        bail!("{} findings", wrong.len());
    }
    println!("check: layers, headers, licences and unsafe are as they should be");
    Ok(())
}

/// Module cycles in every crate.
fn circles_of_all() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut wrong = vec![];
    for folder in listed::crates(&root)? {
        for file in ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)) {
            if file.exists() {
                wrong.extend(circles::check(&root, &file)?);
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_workspace_is_as_it_should_be() {
        super::run().unwrap();
    }
}

//! Verbs that need no running lab: `check`, `schema`, `graph` of a file, completions, man pages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap_complete::Shell;
use netloom_lab::call::Within;
use netloom_lab::calls::ShowPlan;
use netloom_model::{Plan, drawing};

use crate::command_line::command;
use crate::flags::{Check, Graph};
use crate::labs::Wish;
use crate::{Usage, completing, labs, man, output, source, whole_file};

/// `netloom check`
pub(crate) fn check(args: &Check) -> Result<i32> {
    let mut code = 0;
    for path in &args.files {
        match source::checked(path) {
            Ok((_, plan, hints)) => {
                output::print(&good(path, &plan))?;
                output::warnings(&hints);
            }
            Err(error) => {
                wrong(&error)?;
                code = 2;
            }
        }
    }
    Ok(code)
}

/// A line about a file without errors.
pub(super) fn good(path: &Path, plan: &Plan) -> String {
    format!(
        "{}: good: {}, {}, {}\n",
        source::shown(path),
        output::count(plan.nodes.len(), "node"),
        output::count(plan.switches.len(), "switch"),
        output::count(plan.links.len(), "link")
    )
}

/// Prints what is wrong with a file.
pub(super) fn wrong(error: &anyhow::Error) -> Result<()> {
    match error.downcast_ref::<netloom_config::Diagnostics>() {
        Some(diagnostics) => output::print(&format!("{diagnostics}\n")),
        None => {
            tell_line!("netloom: {}", netloom_sys::describe(&**error));
            Ok(())
        }
    }
}

/// `netloom schema`
pub(crate) fn schema() -> Result<i32> {
    output::print(&format!("{:#}\n", netloom_model::schema()))?;
    Ok(0)
}

/// Endings of pictures that others make of Graphviz' format. A file of that format under such a name opens nowhere.
const PICTURES: [&str; 7] = ["png", "jpg", "jpeg", "gif", "webp", "pdf", "ps"];

fn refuse_picture(path: &Path) -> Result<()> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_lowercase();
    match PICTURES.contains(&ending.as_str()) {
        true => Err(Usage(format!(
            "{path:?}: netloom draws SVG; name a file .svg, or write netloom graph | dot -T{ending} -o FILE"
        ))
        .into()),
        false => Ok(()),
    }
}

/// `netloom graph`
pub(crate) fn graph(wish: &Wish, args: &Graph) -> Result<i32> {
    let asked = wish.or(args.name.as_deref())?;
    if let Some(path) = args.output.as_deref().filter(|_| !args.svg && !args.dot) {
        refuse_picture(path)?;
    }
    let file = match (&args.file, args.name.as_deref()) {
        (Some(file), _) => Some(file.clone()),
        // A running lab comes before a file of the same name.
        (None, Some(name)) if !labs::runs(name)? && Path::new(name).exists() => Some(name.into()),
        (None, _) => None,
    };
    let plan = match &file {
        Some(file) => source::plan(file, None)?,
        None => labs::connect(asked)?.call(&ShowPlan { of: Within::ALL })?,
    };
    let named_svg =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    let is_svg = args.svg || !args.dot && args.output.as_ref().is_some_and(named_svg);
    let text = if is_svg { drawing::svg(&plan) } else { drawing::dot(&plan) };
    match &args.output {
        Some(path) => {
            whole_file::write(path, &text)
                .with_context(|| format!("{path:?}: write the picture"))?;
        }
        None => output::print(&text)?,
    }
    Ok(0)
}

/// `netloom completions`
pub(crate) fn completions(shell: Shell) -> Result<i32> {
    let text = match shell {
        Shell::Bash => completing::BASH.to_owned(),
        Shell::Zsh => completing::ZSH.to_owned(),
        Shell::Fish => completing::FISH.to_owned(),
        other => definitions(other),
    };
    output::print(&text)?;
    Ok(0)
}

/// A script from the definitions alone, which calls nothing.
fn definitions(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "netloom", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// `netloom complete-words`
pub(crate) fn complete_words(words: &[String]) -> Result<i32> {
    let lines: String =
        completing::candidates(words).iter().map(|line| format!("{line}\n")).collect();
    output::print(&lines)?;
    Ok(0)
}

/// `netloom man`
pub(crate) fn man(folder: &Path) -> Result<i32> {
    for (name, page) in man::pages() {
        let path = folder.join(name);
        std::fs::write(&path, page).with_context(|| format!("{path:?}: write a manual page"))?;
    }
    Ok(0)
}

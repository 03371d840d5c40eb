//! `import` and `export`: labs of other programs from files to files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use netloom_foreign::{Exported, Item, Verdict};
use serde_json::{Value, json};

use crate::flags::{ExportTopology, Import};
use crate::{Usage, foreign, input, output, source, whole_file};

/// `netloom import`
pub(crate) fn import(args: &Import) -> Result<i32> {
    let Some(lab) = foreign::find(&args.from) else {
        // Standard input has no path, but reading it may fail.
        match args.from == Path::new(input::STDIN) {
            true => input::read().map(drop)?,
            false => {
                let shown = || format!("{:?}", args.from);
                let unreadable =
                    |source| input::Unreadable { shown: shown(), operation: "open", source };
                fs::metadata(&args.from).map_err(unreadable)?;
            }
        }
        let what = "no lab of containerlab, Kathara, Mininet, GNS3, CORE, IMUNES or netlab";
        let own = match args.from.is_file() && source::lab(&args.from, None).is_ok() {
            true => "; it is a lab file already: `netloom up` takes it as it is",
            false => "",
        };
        return Err(Usage(format!("{:?}: {what}{own}", source::shown(&args.from))).into());
    };
    let base = match &args.output {
        Some(output) => base(output, &lab.folder),
        None => String::new(),
    };
    let import = match lab.import(&base, args.name.as_deref(), &args.importing) {
        Ok(import) => import,
        Err(error) => return Err(incomplete(error, args)),
    };
    let mut text = import.lab.clone();
    if let Some(name) = &args.name {
        text = renamed(&text, name)?;
    }
    if let Some(output) = &args.output {
        write(output, &text, args.force)?;
    }
    if args.json {
        let mut report = json!({
            "format": import.format.name(),
            "file": lab.path().trim_start_matches("./"),
            "carried": import.items.len() - import.changed().count() - import.left_out().count(),
            "changed": import.changed().count(),
            "left_out": import.left_out().count(),
            "items": items(&import.items),
        });
        if args.output.is_none() {
            report["lab"] = Value::String(text);
        }
        output::print_json(&report)?;
        return Ok(0);
    }
    let report = foreign::fully(&lab, &import);
    match &args.output {
        Some(_) => output::print(&report)?,
        None => {
            output::print(&text)?;
            tell!("{report}");
        }
    }
    Ok(0)
}

/// Writes what there is of a lab that cannot be planned, so that it can be mended by hand.
fn incomplete(error: anyhow::Error, args: &Import) -> anyhow::Error {
    let Some(foreign::Refused::Import(netloom_foreign::Error::NoLab { lab, .. })) =
        error.downcast_ref()
    else {
        return error;
    };
    match args.output.as_ref().map(|output| (output, write(output, lab, args.force))) {
        None => error,
        Some((_, Err(failed))) => failed,
        Some((output, Ok(()))) => error.context(format!("{output:?}: written as far as it goes")),
    }
}

/// Items for programs.
fn items(items: &[Item]) -> Vec<Value> {
    let one = |item: &Item| {
        let (verdict, why) = match &item.verdict {
            Verdict::Carried => ("carried", None),
            Verdict::Changed(why) => ("changed", Some(why)),
            Verdict::LeftOut(why) => ("left_out", Some(why)),
        };
        let line = (item.line > 0).then_some(item.line);
        json!({"file": item.file, "line": line, "item": item.item, "verdict": verdict, "why": why})
    };
    items.iter().map(one).collect()
}

/// The lab file with another name.
fn renamed(text: &str, name: &str) -> Result<String> {
    if let Some(problem) = netloom_model::lab_name_problem(name) {
        return Err(Usage(problem).into());
    }
    let line = |line: &str| match line.starts_with("name: ") {
        true => format!("name: {name:?}\n"),
        false => format!("{line}\n"),
    };
    Ok(text.lines().map(line).collect())
}

/// What stands before paths of the other lab's files in a lab file that is elsewhere: nothing in the same folder, a
/// relative path from a folder above, else an absolute one.
fn base(output: &Path, folder: &Path) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let clean = |path: PathBuf| path.components().collect::<PathBuf>();
    let folder = clean(absolute(folder));
    let home = absolute(output).parent().map(Path::to_owned).unwrap_or_default();
    let below = folder.strip_prefix(clean(home)).unwrap_or(&folder);
    below.to_string_lossy().into_owned()
}

/// Writes a file as a whole.
pub(crate) fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    if !force && path.exists() && whole_file::is_replaced(path) {
        return Err(Usage(format!("{path:?} is there already; --force replaces it")).into());
    }
    whole_file::write(path, text).with_context(|| format!("{path:?}: write"))
}

/// `netloom export containerlab`
pub(crate) fn export(args: &ExportTopology) -> Result<i32> {
    let plan = source::plan(&args.file, None)?;
    let file = source::shown(&args.file);
    exported(args, netloom_foreign::export(&plan, &file, &args.image))
}

/// `netloom export c9s`
pub(crate) fn export_c9s(args: &ExportTopology) -> Result<i32> {
    let plan = source::plan(&args.file, None)?;
    let file = source::shown(&args.file);
    let base = source::base(&args.file);
    let read = |path: &Path| {
        let mut bytes = vec![];
        let file = netloom_sys::setup::open_of_lab(&base.join(path))?;
        // What does not fit is not read to its end.
        file.take(netloom_foreign::c9s::LARGEST_FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    exported(args, netloom_foreign::c9s::export(&plan, &file, &args.image, &read))
}

/// Writes what was exported, and the account of it.
fn exported(args: &ExportTopology, exported: Exported) -> Result<i32> {
    if let Some(output) = &args.output {
        write(output, &exported.text, true)?;
    }
    if args.json {
        let mut report = json!({"items": items(&exported.items)});
        if args.output.is_none() {
            report["topology"] = Value::String(exported.text);
        }
        output::print_json(&report)?;
        return Ok(0);
    }
    let report: String = exported.items.iter().map(|item| format!("{item}\n")).collect();
    match &args.output {
        Some(_) => output::print(&report)?,
        None => {
            output::print(&exported.text)?;
            tell!("{report}");
        }
    }
    Ok(0)
}

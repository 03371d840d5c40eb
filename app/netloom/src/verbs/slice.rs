//! `slice`: shows slices and what they use, checks files of slices, runs a slicer that is in no lab.
//!
//! A slicer is asked over its control socket: a lab's is in the lab's folder, another's in a folder named after its file.
//! [`text`] formats output.

mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use netloom_lab::runtime_dir;
use netloom_model::slices::{PolicyFile, policy};
use netloom_ofconn::{Controller, Tls};
use netloom_slice::control::{self, Connection, Shown};
use netloom_slice::{Application, Policy};
use netloom_sys::trusted::TrustedDir;

use crate::Usage;
use crate::flags::{Slice, SliceCheck, SliceRun, SliceShow};
use crate::output::{self, print, print_json};
use crate::{labs, source};

/// Where slicers that are in no lab have their folders, in the folder of labs.
const FOLDERS: &str = ".slices";

/// Where switches connect if nothing is said.
const DEFAULT: &str = "ptcp:6653:127.0.0.1";

/// `netloom slice`
pub(crate) fn slice(lab: Option<&str>, verb: Slice) -> Result<i32> {
    match verb {
        Slice::Show(args) => show(lab, &args),
        Slice::Stats(args) => stats(lab, &args),
        Slice::Check(args) => check(&args),
        Slice::Run(args) => run(&args),
    }
}

fn show(lab: Option<&str>, args: &SliceShow) -> Result<i32> {
    let shown = ask(lab, args)?;
    if args.json {
        print_json(&shown)?
    } else {
        print(&text::shown(&shown))?
    }
    Ok(0)
}

fn stats(lab: Option<&str>, args: &SliceShow) -> Result<i32> {
    let shown = ask(lab, args)?;
    if args.json {
        print_json(&shown.slices)?
    } else {
        print(&text::stats(&shown))?
    }
    Ok(0)
}

fn ask(lab: Option<&str>, args: &SliceShow) -> Result<Shown> {
    let (file, slice) = match args.what.as_deref() {
        Some(what) if is_slice(what) => (None, what.to_str()),
        what => (what, None),
    };
    let (socket, whose) = match file {
        Some(file) => (folder_of(file)?.join("control"), format!("{file:?}")),
        None => {
            let folder = labs::chosen(lab)?;
            (folder.slicer_control(), format!("lab {:?}", folder.name()))
        }
    };
    match Connection::open(&socket)? {
        Some(connection) => only(connection.show()?, slice, &whose),
        None if file.is_some() => {
            bail!("{whose}: no slicer runs with this file; `netloom slice run FILE` starts one")
        }
        None => bail!("{whose} has no slicer: its file has no `slices`"),
    }
}

/// Whether a word is a slice's name: no path, no file that is there, and none whose slicer runs.
fn is_slice(what: &Path) -> bool {
    let is_word = what.extension().is_none() && what.components().count() == 1;
    is_word && !what.exists() && folder_of(what).is_ok_and(|folder| !folder.exists())
}

/// What is shown, of this slice alone if one is named.
fn only(mut shown: Shown, slice: Option<&str>, whose: &str) -> Result<Shown> {
    let Some(name) = slice else { return Ok(shown) };
    let all: Vec<String> = shown.slices.iter().map(|slice| slice.name.clone()).collect();
    shown.slices.retain(|slice| slice.name == name);
    if shown.slices.is_empty() {
        let all = all.join(", ");
        return Err(Usage(format!("slice {name:?}: {whose} has {all}; or name a file")).into());
    }
    Ok(shown)
}

/// The folder of a slicer with this file.
fn folder_of(file: &Path) -> Result<PathBuf> {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(problem) = netloom_model::lab_name_problem(&stem) {
        return Err(Usage(format!("{file:?}: {problem}; rename the file")).into());
    }
    Ok(runtime_dir()?.join(FOLDERS).join(stem))
}

fn read(path: &Path) -> Result<PolicyFile> {
    let text = source::read(path)?;
    let mut file = policy(&source::shown(path), &text)?;
    let base = source::base(path);
    let tls = file.slices.iter_mut().filter_map(|slice| slice.tls.as_mut());
    for path in tls.flat_map(netloom_model::kinds::openflow::TlsFiles::paths_mut) {
        *path = base.join(&*path);
    }
    Ok(file)
}

fn check(args: &SliceCheck) -> Result<i32> {
    let mut code = 0;
    for path in &args.files {
        match read(path) {
            Ok(file) => output::print(&format!(
                "{}: good: {}, {}\n",
                path.display(),
                output::count(file.slices.len(), "slice"),
                output::count(file.switches.len(), "switch"),
            ))?,
            Err(error) => {
                match error.downcast_ref::<netloom_config::Diagnostics>() {
                    Some(diagnostics) => print(&format!("{diagnostics}\n"))?,
                    None => tell_line!("netloom: {}", netloom_sys::describe(&*error)),
                }
                code = 2;
            }
        }
    }
    Ok(code)
}

fn run(args: &SliceRun) -> Result<i32> {
    let policy = Policy::from(read(&args.file)?);
    let switches = match args.switches.as_slice() {
        [] => vec![DEFAULT.to_owned()],
        given => given.to_vec(),
    };
    let target = |text: &String| match text.parse() {
        Ok(target) => Ok(Controller { target, namespace: None }),
        Err(_) => Err(Usage(format!(
            "--switch {text}: none of tcp:ADDRESS[:PORT], tls:ADDRESS[:PORT], unix:PATH, ptcp:[PORT][:ADDRESS], \
             ptls:[PORT][:ADDRESS]"
        ))),
    };
    let switches = switches.iter().map(target).collect::<Result<Vec<_>, _>>()?;
    let tls = args.authorities.clone().map(|authorities| Tls {
        authorities,
        certificate: args.certificate.clone(),
        key: args.key.clone(),
        name: None,
    });
    if let Some(tls) = &tls {
        tls.check().map_err(|e| Usage(e.to_string()))?;
    }
    for slice in &policy.slices {
        if let Some(tls) = &slice.tls {
            tls.check().map_err(|e| Usage(format!("slice {:?}: {e}", slice.slice.name)))?;
        }
    }
    let folder = folder_of(&args.file)?;
    make_folder(&folder)?;
    let socket = folder.join("control");
    if Connection::open(&socket)?.is_some() {
        bail!("{:?}: a slicer with this file is already running", args.file);
    }
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let application = Application {
        switches,
        tls,
        services: Some(folder.clone()),
        memory: Some(folder.clone()),
        ..Application::new(&name.unwrap_or_default(), policy)
    };
    let listener = control::listen(&socket)?;
    // Its files go also after a failure, which is reported below.
    let ended = netloom_slice::serve(listener, &folder, &application);
    let _ = std::fs::remove_file(&socket);
    // What it knows of its switches stays for the next one; without any, the folders go.
    let _ = std::fs::remove_dir(&folder);
    let _ = folder.parent().map(std::fs::remove_dir);
    ended?;
    Ok(0)
}

/// The folder, for this user alone.
fn make_folder(folder: &Path) -> Result<()> {
    let made = TrustedDir::make(folder).map(drop);
    made.with_context(|| format!("{folder:?}: make the slicer's folder"))
}

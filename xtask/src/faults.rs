//! `faults`: plants faults in labs, asks `netloom why` about a flow that suffers, and compares what it says with what was planted.
//!
//! Labs and faults are data, in `tests/faults`: a lab file, and a list of faults beside it ([`list`]). Each fault has a lab of its
//! own, as root and as an ordinary user. Nothing waits for a time: a fault is planted when its commands have ended and what
//! it says about the lab's state holds.

mod list;
mod plant;
mod score;
mod table;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::test::skips::Judge;
use crate::test::stage::Stage;
use crate::test::user::{Rights, User};
use crate::workspace;
use list::Fault;
use score::Row;

const HELP: &str = "\
usage: cargo xtask faults [--root | --user] [--only TEXT] [--lab LAB] [--write]

  --root, --user  only as this user
  --only TEXT     only faults with this in their name; may be repeated
  --lab LAB       only those of tests/faults/LAB.txt
  --netloom FILE  with this binary instead of one that is built
  --show          prints what `why` answers in full
  --write         puts the table into docs/results/faults.md
";

/// Where the table goes.
const PAGE: &str = "docs/results/faults.md";

#[derive(Debug, Default)]
struct Chosen {
    only: Vec<String>,
    lab: Option<String>,
    netloom: Option<PathBuf>,
    users: Vec<User>,
    show: bool,
    write: bool,
}

impl Chosen {
    fn parse(args: &[String]) -> Result<Chosen> {
        let mut chosen = Chosen::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().cloned().with_context(|| format!("{arg} needs a word"));
            match arg.as_str() {
                "--only" => chosen.only.push(value()?),
                "--lab" => chosen.lab = Some(value()?),
                "--netloom" => chosen.netloom = Some(value()?.into()),
                "--root" => chosen.users.push(User::Root),
                "--user" => chosen.users.push(User::Ordinary),
                "--show" => chosen.show = true,
                "--write" => chosen.write = true,
                other => bail!("no option `{other}`\n{HELP}"),
            }
        }
        if chosen.users.is_empty() {
            chosen.users = vec![User::Root, User::Ordinary];
        }
        Ok(chosen)
    }

    fn has(&self, fault: &Fault) -> bool {
        let named = self.only.is_empty() || self.only.iter().any(|text| fault.name.contains(text));
        named && self.lab.as_ref().is_none_or(|lab| *lab == fault.lab)
    }
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    let chosen = Chosen::parse(args)?;
    let faults: Vec<Fault> = read()?.into_iter().filter(|fault| chosen.has(fault)).collect();
    if faults.is_empty() {
        bail!("no fault of tests/faults is called so");
    }
    let binary = chosen.netloom.clone().map_or_else(|| workspace::netloom(false), Ok)?;
    let stage = Stage::new()?;
    stage.add_binary(&binary)?;
    let judge = Judge::new(&stage, false)?;
    let mut users = chosen.users.clone();
    if stage.rights() == Rights::NoRoot {
        users.retain(|user| *user != User::Root);
    }
    let mut labs: Vec<String> = faults.iter().map(|fault| fault.lab.clone()).collect();
    labs.dedup();
    let rows = Mutex::new(Vec::new());
    let one = |user: User, lab: &str| -> Result<()> {
        for (at, fault) in faults.iter().enumerate().filter(|(_, fault)| fault.lab == lab) {
            let row = one_fault(&stage, &judge, user, (at, fault), chosen.show)?;
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.push((at, row));
            if chosen.write {
                // Each time: a run takes long, and one that is interrupted leaves what it had.
                put(&rows)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let each = users.iter().flat_map(|user| labs.iter().map(move |lab| (*user, lab)));
        let one = &one;
        let running: Vec<_> = each.map(|(user, lab)| scope.spawn(move || one(user, lab))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no fault panics"))
    })?;
    println!(
        "{}",
        table::totals(&sorted(&rows.into_inner().unwrap_or_else(PoisonError::into_inner)))
    );
    Ok(())
}

/// In the order of the lists, root first.
fn sorted(rows: &[(usize, Row)]) -> Vec<Row> {
    let mut rows: Vec<&(usize, Row)> = rows.iter().collect();
    rows.sort_by_key(|(at, row)| (*at, row.user != User::Root));
    rows.into_iter().map(|(_, row)| row.clone()).collect()
}

fn put(rows: &[(usize, Row)]) -> Result<()> {
    let path = workspace::root().join(PAGE);
    fs::write(&path, table::page(&sorted(rows))).with_context(|| format!("write {PAGE}"))
}

/// All faults, by lab.
fn read() -> Result<Vec<Fault>> {
    let folder = workspace::root().join("tests/faults");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("list {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let lab = file.file_stem().map(|name| name.to_string_lossy().into_owned());
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let found = list::parse(&lab.unwrap_or_default(), &text);
        all.extend(found.with_context(|| format!("read {}", file.display()))?);
    }
    Ok(all)
}

/// Plants one fault; what came of it.
fn one_fault(
    stage: &Stage,
    judge: &Judge<'_>,
    user: User,
    (at, fault): (usize, &Fault),
    show: bool,
) -> Result<Row> {
    for need in &fault.needs {
        if !judge.is_there(user, need)? {
            return Ok(Row::skipped(fault, user, format!("{need} is not installed")));
        }
    }
    if fault.root_only && user != User::Root {
        return Ok(Row::skipped(fault, user, "only root can plant it".into()));
    }
    let row = match plant::ask(stage, user, at, fault, show) {
        Ok(answers) => score::row(fault, user, &answers),
        Err(error) => Row::failed(fault, user, format!("{error:#}")),
    };
    println!("{}", table::line(&row));
    Ok(row)
}

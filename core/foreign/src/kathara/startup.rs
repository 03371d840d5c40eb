//! `DEVICE.startup` and `shared.startup`: scripts that a shell runs when a device starts, never fatal.

use crate::draft::{Content, File, Node};
use crate::kathara::{beside, traffic};
use crate::{Job, Verdict, service, source};

/// Keys of a direction, by interface.
pub(super) type Shaping = Vec<(String, Vec<(&'static str, String)>)>;

/// Has a node run a script, if it is there. Lines that shape traffic are taken out of it.
/// `shell` is the one that the device names.
pub(super) fn read(
    job: &Job<'_>,
    (name, shell): (&str, Option<&str>),
    node: &mut Node,
    shaping: &mut Shaping,
) {
    let file = beside(job, name);
    let what = "a script that starts a device";
    let Some(text) = source::text_or_tell(job, &file, what) else { return };
    let id = job.ledger.enter(&file, 0, what);
    let mut found = false;
    let mut lines = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        match traffic::shaping(line.trim()) {
            Some((iface, keys)) => {
                found = true;
                let id = job.ledger.enter(&file, number, line.trim());
                job.ledger
                    .say(id, Verdict::Changed(format!("an impairment of the link of {iface}")));
                shaping.push((iface, keys));
                // `:` does nothing: later lines keep their numbers,
                // and the trace of `-x` still has this one.
                lines.push(format!(": {}", line.trim()));
            }
            None => lines.push(line.to_owned()),
        }
    }
    let content = match found || text.contains('\r') || text.starts_with('\u{feff}') {
        true => Content::Text(lines.join("\n").trim_start_matches('\u{feff}').to_owned() + "\n"),
        false => Content::From(file.clone()),
    };
    let path = format!("/run/netloom-import/{name}");
    node.setup.push(run(&path, shell));
    node.files.push(File { path, content, mode: 0o755 });
    // Images of Kathara have a stand-in of their own.
    if service::speaks(&text) && !node.has_image() {
        service::stand_in(node);
    }
    job.ledger.say(id, Verdict::Carried);
}

/// Runs a script by the shell that its writer has had in mind, whatever comes of it.
fn run(path: &str, shell: Option<&str>) -> Vec<String> {
    let by = if shell.is_some() { "\"$0\"" } else { "$(command -v bash || command -v sh)" };
    let script = format!("cd /; {by} -x {path} || echo \"exit code $?: {path}\" >&2");
    // The shell's name is handed over as `$0`, so no character of it means anything to `sh`.
    let words = ["sh", "-c", &script].into_iter().chain(shell);
    words.map(str::to_owned).collect()
}

/// A script for the end of a device.
pub(super) fn shutdown(job: &Job<'_>, name: &str) {
    let file = beside(job, name);
    if job.files.look(&file).is_some() {
        let id = job.ledger.enter(&file, 0, "a script that ends a device");
        job.ledger.say(id, Verdict::LeftOut("a node runs nothing when it ends".into()));
    }
}

//! What Kathara puts into a device: its folder, the folder that all share, and volumes.

use crate::draft::{Bind, Content, File, Node};
use crate::kathara::beside;
use crate::source::{Found, clean, join, refusal, text, walk};
use crate::{Job, MOST_FILES, Verdict, closed};

/// The folder that all devices and the host share.
pub(super) fn share(job: &Job<'_>, node: &mut Node) {
    let folder = beside(job, "shared");
    let what = "a folder that devices share";
    if is_folder(job, &folder, what) {
        let id = job.ledger.enter(&folder, 0, what);
        job.ledger.say(id, Verdict::Carried);
        node.binds.push(Bind { path: "/shared".into(), from: folder, writable: true });
    }
}

/// Whether a folder is there. Anything else of its name is left out, and says why.
fn is_folder(job: &Job<'_>, path: &str, what: &str) -> bool {
    let found = job.files.look(path);
    if found.is_some() && found != Some(Found::Folder) {
        let id = job.ledger.enter(path, 0, what);
        let why = match found {
            Some(Found::File { .. }) => "it is not a folder".to_owned(),
            _ => refusal(job.files, path),
        };
        job.ledger.say(id, Verdict::LeftOut(why));
    }
    found == Some(Found::Folder)
}

/// Copies a device's folder onto its root, if it is there.
pub(super) fn copy(job: &Job<'_>, name: &str, node: &mut Node) {
    let folder = beside(job, name);
    if !is_folder(job, &folder, "a device's folder") {
        return;
    }
    let found = walk(job.files, &folder, MOST_FILES);
    // All or nothing: half of a device's files would start another device than the lab's.
    if found.len() > MOST_FILES {
        let id = job.ledger.enter(&folder, 0, "a folder");
        return job.ledger.say(id, Verdict::LeftOut(format!("more than {MOST_FILES} files")));
    }
    for below in found {
        let file = join(&folder, &below.path);
        let id = job.ledger.enter(&file, 0, "a file of a device");
        let verdict = match below.found {
            _ if file.ends_with("/.DS_Store") => Verdict::Changed("Kathara leaves it, too".into()),
            Found::File { mode } => {
                let path = format!("/{}", below.path);
                let (content, told) = lines(job, file);
                // Kathara unpacks folders with `--no-same-permissions`: nobody but root writes there.
                put(File { path, content, mode: mode & 0o755 }, node)
                    .or(told)
                    .unwrap_or(Verdict::Carried)
            }
            _ if below.empty => Verdict::LeftOut("an empty folder".into()),
            _ => Verdict::LeftOut(refusal(job.files, &file)),
        };
        job.ledger.say(id, verdict);
    }
    as_kathara_has_them(node);
}

/// A file's content, with the ends of lines that Kathara gives texts of Windows.
fn lines(job: &Job<'_>, file: String) -> (Content, Option<Verdict>) {
    let strange = |text: &String| text.starts_with('\u{feff}') || text.contains("\r\n");
    match text(job.files, &file).filter(|text| strange(text) && !text.contains('\0')) {
        Some(text) => {
            let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
            let told = Verdict::Changed("with the ends of lines of Linux, as in Kathara".into());
            (Content::Text(text), Some(told))
        }
        None => (Content::From(file), None),
    }
}

/// Puts a file into a node; says so if a command has to.
fn put(mut file: File, node: &mut Node) -> Option<Verdict> {
    let waits = closed::waits(node, &mut file);
    if waits && !node.setup.contains(&closed::command()) {
        node.setup.push(closed::command());
    }
    node.files.retain(|known| known.path != file.path);
    node.files.push(file);
    waits.then(|| Verdict::Changed(closed::WHY.into()))
}

/// What Kathara does with some files before startup files run. Of the host's FRR its `frr.conf` hides files of single
/// daemons, which Kathara's image does not have.
fn as_kathara_has_them(node: &mut Node) {
    let has = |start: &str| node.files.iter().any(|file| file.path.starts_with(start));
    let mut script = String::new();
    if has("/var/www/") {
        script.push_str("chmod -R 777 /var/www/*\n");
    }
    let single = |file: &File| file.path.starts_with("/etc/frr/") && file.path.ends_with("d.conf");
    let single = node.files.iter().any(single) || has("/etc/frr/zebra.conf");
    if !node.has_image() && single && !has("/etc/frr/frr.conf") {
        script.push_str("rm -f /etc/frr/frr.conf\n");
    }
    for name in ["quagga", "frr"] {
        if has(&format!("/etc/{name}/")) {
            script.push_str(&format!(
                "chown -R {name}:{name} /etc/{name}; chmod 640 /etc/{name}/*\n"
            ));
        }
    }
    if !script.is_empty() {
        // Ends well whatever came of them: Kathara does not look, either.
        script.push_str(":\n");
        node.setup.push(["sh", "-c", &script].map(str::to_owned).to_vec());
    }
}

/// The parts of a volume: `HOST|DEVICE[|MODE]`, of which empty ones do not count.
pub(super) fn parts(value: &str) -> Vec<&str> {
    value.split('|').filter(|part| !part.is_empty()).collect()
}

/// A volume, which a device may write only by the mode `rw`.
pub(super) fn volume(job: &Job<'_>, value: &str, node: &mut Node) -> Verdict {
    let left_out = |why: &str| Verdict::LeftOut(why.to_owned());
    let parts = parts(value);
    let (source, target, mode) = match parts.as_slice() {
        [source, target] => (source, *target, "ro"),
        [source, target, mode @ ("ro" | "rw" | "rx")] => (source, *target, *mode),
        _ => return left_out("expected HOST|DEVICE or HOST|DEVICE|MODE, the mode ro, rw or rx"),
    };
    if clean(target).is_none_or(|path| path.is_empty()) || !target.starts_with('/') {
        return left_out("expected an absolute path in the device, not the root itself");
    }
    let Some(path) = clean(source).filter(|_| !source.starts_with('/')) else {
        return left_out("it is outside of the lab's folder");
    };
    let path = beside(job, &path);
    let target = target.trim_end_matches('/').to_owned();
    match job.files.look(&path) {
        Some(Found::File { .. } | Found::Folder)
            if node.has_image() || !closed::is_closed(&target) =>
        {
            node.binds.push(Bind { path: target, from: path, writable: mode == "rw" });
            let why = "from the lab's folder; Kathara takes it from where it is called";
            return Verdict::Changed(why.into());
        }
        Some(Found::File { mode }) => {
            put(File { path: target, content: Content::From(path), mode: mode & 0o777 }, node);
        }
        Some(Found::Folder) => {
            for below in walk(job.files, &path, MOST_FILES) {
                let file = join(&path, &below.path);
                if let Found::File { mode } = below.found {
                    let path = format!("{target}/{}", below.path);
                    put(File { path, content: Content::From(file), mode: mode & 0o777 }, node);
                } else if !below.empty {
                    let id = job.ledger.enter(&file, 0, "a file of a device");
                    job.ledger.say(id, Verdict::LeftOut(refusal(job.files, &file)));
                }
            }
        }
        Some(_) => return Verdict::LeftOut(refusal(job.files, &path)),
        None => return left_out("no such file or folder beside the lab"),
    }
    Verdict::Changed("a copy of what is there now".into())
}

//! A process that fetches an image or imports a lab is killed at each step: nothing half-made is used, the next one finishes, and
//! leftovers are removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use netloom_kit::Run;
use netloom_tests_e2e::images::{self, archive, kill_unpacker, unpacked};
use netloom_tests_e2e::live::gone;
use netloom_tests_e2e::{Machine, descendants, kill, machine, needs, wait_until};
use serde_json::json;

use server::{Request, Server, begin_of};

#[path = "../../../parts/container/tests/support/server.rs"]
mod server;

/// How long a step of a pull may take on a busy machine.
const BOUND: Duration = Duration::from_secs(180);

/// Where a registry holds, and whether it got there.
#[derive(Default)]
struct Gate {
    state: Mutex<(Option<Step>, bool)>,
    opened: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The manifest is asked for.
    Manifest,
    /// The manifest is fetched, the configuration asked for.
    Config,
    /// Half of the last layer has come.
    HalfLayer,
}

impl Gate {
    fn close(&self, step: Step) {
        *self.state.lock().unwrap() = (Some(step), false);
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = None;
        self.opened.notify_all();
    }

    fn holds(&self, step: Step) -> bool {
        self.state.lock().unwrap().0 == Some(step)
    }

    /// Holds while the gate is closed at this step.
    fn pass(&self, step: Step) {
        let mut state = self.state.lock().unwrap();
        if state.0 == Some(step) {
            state.1 = true;
            drop(self.opened.wait_while(state, |state| state.0 == Some(step)));
        }
    }

    fn wait_for_it(&self) {
        wait_until("the step", BOUND, || self.state.lock().unwrap().1.then_some(()));
    }
}

/// Layers of busybox, of many files, and of one large one.
fn layers(machine: &Machine) -> Vec<Vec<u8>> {
    let many = (0..1500)
        .map(|n| json!({"path": format!("d{}/f{n}", n % 100), "mode": 0o644, "text": "x"}));
    let large = json!([{"path": "large", "mode": 0o644, "text": "0123456789", "times": 400_000}]);
    let layers = json!([many.collect::<Vec<_>>(), large]);
    let path = archive(machine.scratch(), "box.tar", &layers, &json!({}));
    let folder = machine.scratch().path().join("box");
    fs::create_dir(&folder).unwrap();
    let words = ["-xf".as_ref(), path.as_os_str(), "-C".as_ref(), folder.as_os_str()];
    Run::new("tar").args(words).finish().code(0);
    (0..3).map(|n| fs::read(folder.join(format!("{n}/layer.tar"))).unwrap()).collect()
}

/// A registry with that image, which holds where the gate says.
fn registry(layers: Vec<Vec<u8>>, gate: &Arc<Gate>) -> Server {
    let (gate, own) = (gate.clone(), layers.clone());
    let digests: Vec<_> =
        layers.iter().map(|bytes| netloom_oci::Digest::of(bytes).to_string()).collect();
    Server::start(layers, move |request: &Request, socket| {
        if request.path.contains("/manifests/") {
            gate.pass(Step::Manifest);
            return false;
        }
        let which = digests.iter().position(|digest| request.path.ends_with(digest.as_str()));
        if request.path.contains("/blobs/") && which.is_none() {
            gate.pass(Step::Config);
        }
        if which != Some(2) || !gate.holds(Step::HalfLayer) || begin_of(request).is_some() {
            return false;
        }
        let bytes = &own[2];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
        let half = &bytes[..bytes.len() / 2];
        let sent = std::io::Write::write_all(socket, head.as_bytes())
            .and_then(|()| std::io::Write::write_all(socket, half));
        if sent.is_ok() {
            gate.pass(Step::HalfLayer);
        }
        true
    })
}

fn store(machine: &Machine) -> PathBuf {
    machine.scratch().path().join("data/images")
}

fn names_in(folder: &Path) -> Vec<String> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Kills the process, or the one that unpacks for it; waits until both have ended, and let go what they hold.
fn end(mut child: Child, unpacker: bool, then: impl FnOnce()) {
    let pid = i32::try_from(child.id()).unwrap();
    let all = descendants(pid);
    match unpacker {
        true => kill_unpacker(pid),
        false => kill(pid),
    }
    then();
    let _ = child.wait();
    wait_until("all has ended", BOUND, || all.iter().all(|pid| gone(*pid)).then_some(()));
}

/// Nothing is there that is not whole.
fn nothing_is_half_made(machine: &Machine) {
    for layer in unpacked(&machine.scratch().path().join("data")) {
        assert!(layer.join("about.json").exists(), "{layer:?}");
    }
    for blob in names_in(&store(machine).join("blobs")) {
        let bytes = fs::read(store(machine).join("blobs").join(&blob)).unwrap();
        assert_eq!(netloom_oci::Digest::of(&bytes).hex(), blob);
    }
}

/// The same command finishes, and a lab runs the image.
fn finishes(machine: &Machine, image: &str) {
    machine.netloom(["image", "pull", image]).bound(BOUND).finish().code(0);
    assert!(names_in(&store(machine).join("partial")).is_empty());
    machine
        .up(&format!("name: whole\nnodes: {{a: {{image: \"{image}\", pull: never, run: []}}}}\n"));
    let size = machine.exec("a", &["stat", "-c", "%s", "/large", "/d99/f1499"]).ok();
    assert_eq!(size, "4000000\n1\n");
    machine.netloom(["down"]).finish().code(0);
}

/// The image goes, and what was left behind.
fn prune(machine: &Machine) {
    machine.netloom(["image", "prune", "--all"]).finish().code(0);
    for folder in fs::read_dir(store(machine)).unwrap().flatten() {
        if folder.path().is_dir() {
            assert_eq!(names_in(&folder.path()), Vec::<String>::new(), "{folder:?}");
        }
    }
}

#[test]
fn a_pull_that_is_killed_at_a_step_is_finished_by_the_next() {
    needs!("python3", "busybox", "tar");
    let machine = machine!();
    let gate = Arc::new(Gate::default());
    let layers = layers(&machine);
    let half = netloom_oci::Digest::of(&layers[2]).to_string();
    let server = registry(layers, &gate);
    let image = server.image().to_string();
    let refused = format!("name: not\nnodes: {{a: {{image: \"{image}\", pull: never}}}}\n");
    let file = machine.scratch().file("not.yaml", refused);
    for (step, unpacker) in [
        (Step::Manifest, false),
        (Step::Config, false),
        (Step::HalfLayer, false),
        (Step::HalfLayer, true),
    ] {
        gate.close(step);
        let child = machine.netloom(["image", "pull", &image]).spawn();
        gate.wait_for_it();
        if step == Step::HalfLayer {
            // Meanwhile the layer of many files is being unpacked.
            wait_until("unpacking", BOUND, || {
                let begun = names_in(&store(&machine).join("staging"));
                let done = unpacked(&machine.scratch().path().join("data")).len() > 1;
                (done || begun.iter().any(|name| name.starts_with("layer-"))).then_some(())
            });
            let pid = i32::try_from(child.id()).unwrap();
            assert!(images::unpacker(pid).is_some(), "a process unpacks");
        }
        end(child, unpacker, || gate.open());
        nothing_is_half_made(&machine);
        let listed = machine.netloom(["image", "list", "--json"]).finish().code(0).json();
        assert_eq!(listed, json!([]));
        let up = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
        up.says("is not here");
        let before = server.count("/blobs/");
        finishes(&machine, &image);
        // Downloaded parts of a layer are not fetched again.
        let asked = server.asked.lock().unwrap();
        let later = asked.iter().filter(|request| request.path.contains("/blobs/")).skip(before);
        // Asked for from where the first pull ended, each time that it is asked for.
        let of_half = later.filter(|request| request.path.ends_with(&half));
        let begins: Vec<_> = of_half.map(begin_of).collect();
        let goes_on = !begins.is_empty() && begins.iter().all(Option::is_some);
        assert!(step != Step::HalfLayer || unpacker || goes_on, "{step:?}: {begins:?}");
        drop(asked);
        prune(&machine);
    }
    machine.untouched();
}

#[test]
fn a_pull_that_is_killed_at_any_moment_leaves_nothing_half_made() {
    needs!("python3", "busybox", "tar");
    let machine = machine!();
    let server = registry(layers(&machine), &Arc::default());
    let image = server.image().to_string();
    let begin = Instant::now();
    machine.netloom(["image", "pull", &image]).finish().code(0);
    let whole = begin.elapsed();
    for turn in 0..6_u32 {
        prune(&machine);
        let child = machine.netloom(["image", "pull", &image]).spawn();
        // At any moment: nothing tells when it is where it may be killed.
        std::thread::park_timeout(whole * turn / 6);
        end(child, turn % 2 == 1, || ());
        nothing_is_half_made(&machine);
    }
    finishes(&machine, &image);
    prune(&machine);
    machine.untouched();
}

#[test]
fn an_import_that_is_killed_leaves_a_whole_file_or_none() {
    let machine = machine!();
    let folder = machine.scratch().path().join("import");
    fs::create_dir(&folder).unwrap();
    let nodes: String = (0..2000)
        .map(|n| format!("    n{n}: {{kind: linux, image: \"alpine:3\", exec: [\"echo {n}\"]}}\n"))
        .collect();
    let from = machine
        .scratch()
        .file("many.clab.yml", format!("name: many\ntopology:\n  nodes:\n{nodes}"));
    let out = folder.join("lab.yaml");
    let words = ["import", "--force", "--mgmt", "none", "-o"].map(AsRef::<std::ffi::OsStr>::as_ref);
    let words = || words.into_iter().chain([out.as_os_str(), from.as_os_str()]);
    let begin = Instant::now();
    machine.netloom(words()).finish().code(0);
    let took = begin.elapsed();
    let whole = fs::read(&out).unwrap();
    for turn in 0..24_u32 {
        let old: &[u8] = if turn % 2 == 0 { b"" } else { b"name: old\n" };
        let _ = fs::remove_file(&out);
        if !old.is_empty() {
            fs::write(&out, old).unwrap();
        }
        let mut child = machine.netloom(words()).spawn();
        drop(child.stdout.take());
        std::thread::park_timeout(took * turn / 24);
        end(child, false, || ());
        let found = fs::read(&out).unwrap_or_default();
        assert!(found == old || found == whole, "turn {turn}: {} bytes", found.len());
        let left: Vec<String> = names_in(&folder);
        assert!(left.iter().all(|name| name == "lab.yaml"), "{left:?}");
    }
    machine.netloom(words()).finish().code(0);
    assert_eq!(fs::read(&out).unwrap(), whole);
    machine.untouched();
}

//! The steps that make a node's root, as a recorder sees them.

use netloom_model::lab::Bind;
use netloom_sys::setup::{Access, Recorder};

use super::*;

fn steps(user: bool, trees: Vec<Tree>, refuse: &[&str]) -> Vec<String> {
    let shared = Shared::with_trees("/b".into(), user, trees);
    let refuse = refuse.iter().map(PathBuf::from).collect();
    let mut recorder = Recorder::default();
    recorder.refuse = refuse;
    let mut spec = NodeSpec::core(7, "h1");
    let text = FileContent::Text("hello".into());
    spec.files = vec![FileSpec::new("/srv/nowhere/index.html", text)];
    shared.enter(&recorder, &spec).unwrap();
    let figures = [("uptime", PathBuf::from("/proc/self/fd/9"))];
    shared.finish(&recorder, false, &figures).unwrap();
    recorder.steps()
}

fn position(steps: &[String], start: &str) -> usize {
    let found = steps.iter().position(|s| s.starts_with(start));
    found.unwrap_or_else(|| panic!("no step {start:?} in {steps:#?}"))
}

#[test]
fn as_root_files_are_placed_then_one_overlay_then_the_root_then_faces_of_processes() {
    let home = Tree::Overlay("/home".into(), Access::root(0o755));
    let steps = steps(false, vec![home], &[]);
    let order = [
        "mount tmpfs /b/7 mode=0755,size=25%",
        "write /b/7/u0/srv/nowhere/index.html 5 bytes",
        "mount overlay /b/merged lowerdir=/b/shared:/,upperdir=/b/7/u0,workdir=/b/7/w0",
        "mount overlay /b/merged/home lowerdir=/home,",
        "bind /b/7/dev /b/merged/dev",
        "mount sysfs /b/merged/sys",
        "root /b/merged",
        "mount proc /proc",
        "bind /proc/self/fd/9 /proc/uptime",
        "read-only /proc/uptime",
        "read-only /proc/sys",
        "read-write /proc/sys/net",
    ];
    let at: Vec<usize> = order.iter().map(|s| position(&steps, s)).collect();
    assert!(at.is_sorted(), "{steps:#?}");
}

#[test]
fn what_cannot_be_a_layer_is_shown_read_only() {
    let trees = vec![Tree::Overlay("/home".into(), Access::root(0o755))];
    let steps = steps(false, trees, &["/b/merged/home"]);
    let bound = position(&steps, "bind /home /b/merged/home");
    assert_eq!(steps[bound + 1], "read-only /b/merged/home");
}

#[test]
fn what_can_only_be_read_has_a_scratch_directory_of_the_nodes_own() {
    let trees = || {
        let open = Access::root(0o1777);
        let var = Tree::Overlay("/var".into(), Access::root(0o755));
        vec![Tree::Overlay("/tmp".into(), open), var]
    };
    let all = steps(true, trees(), &["/b/merged/tmp", "/b/merged/var"]);
    for (step, next) in [
        ("show /tmp /b/merged /tmp ro", None),
        ("show /var /b/merged /var ro", None),
        ("mkdir /b/7/u1 1777", Some("bind /b/7/u1 /b/merged/tmp")),
        ("mkdir /b/7/u2/tmp 1777", Some("bind /b/7/u2/tmp /b/merged/var/tmp")),
    ] {
        // A layer's own directory is made before, too.
        let at = all.iter().rposition(|s| s == step).expect(step);
        assert!(next.is_none_or(|next| all[at + 1] == next), "{step}: {all:#?}");
    }
    // What can be written is as the host's.
    let all = steps(true, trees(), &["/b/merged/var"]);
    assert!(!all.iter().any(|s| s == "bind /b/7/u1 /b/merged/tmp"), "{all:#?}");
    // As root, where the host's own is read-only.
    let all = steps(false, vec![Tree::Bind("/tmp".into())], &[]);
    position(&all, "bind /b/7/scratch0 /b/merged/tmp");
}

#[test]
fn a_user_gets_an_overlay_for_each_directory_and_programs_read_only() {
    let trees = vec![
        Tree::Link("/bin".into(), "usr/bin".into()),
        Tree::Overlay("/etc".into(), Access::root(0o755)),
        Tree::Own("/root".into()),
        Tree::Overlay("/srv".into(), Access::root(0o755)),
        Tree::Bind("/usr".into()),
    ];
    let steps = steps(true, trees, &[]);
    for step in [
        "bind /b/7/root /b/merged",
        "symlink /b/merged/bin -> usr/bin",
        "mount overlay /b/merged/etc lowerdir=/b/shared/etc:/etc,",
        "mkdir /b/merged/root",
        "show /usr /b/merged /usr ro",
    ] {
        position(&steps, step);
    }
    let placed = position(&steps, "write /b/7/u2/nowhere/index.html");
    let shown = position(&steps, "mount overlay /b/merged/srv");
    assert!(placed < shown, "{steps:#?}");
    assert!(!steps.iter().any(|s| s.contains("proc/sys")), "{steps:#?}");
    // Mounting a new /proc requires that the host's is visible.
    let proc = position(&steps, "mount proc /b/merged/proc");
    let shown = "/b/merged/proc/uptime";
    let figures = [format!("bind /proc/self/fd/9 {shown}"), format!("read-only {shown}")];
    assert_eq!(steps[proc + 1..proc + 3], figures);
    assert_eq!(steps[proc + 3..], ["root /b/merged"]);
}

#[test]
fn binds_are_shown_when_all_the_nodes_own_is_there_and_before_it_is_the_root() {
    let shared = Shared::with_trees("/b".into(), false, vec![]);
    let bind = |to: &str, write| Bind { to: to.into(), from: "/host/x".into(), write };
    let mut spec = NodeSpec::core(7, "h1");
    spec.binds = vec![bind("/srv", false), bind("/srv/data", true)];
    let recorder = Recorder::default();
    shared.enter(&recorder, &spec).unwrap();
    let steps = recorder.steps();
    let order = [
        "bind /b/7/run /b/merged/run",
        "show /host/x /b/merged /srv ro",
        "show /host/x /b/merged /srv/data rw",
        "root /b/merged",
    ];
    let at: Vec<usize> = order.iter().map(|s| position(&steps, s)).collect();
    assert!(at.is_sorted(), "{steps:#?}");
}

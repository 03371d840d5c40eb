//! Nodes whose roots are images: loaded from archives, shared by labs, kept whole by kills.

use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use netloom_tests_e2e::given::Given;
use netloom_tests_e2e::images::{archive, kill_unpacker, unpacked};
use netloom_tests_e2e::{Machine, machine, needs, skip};
use serde_json::json;

/// Loads an image of busybox and these layers as `lab/box:1`.
fn load(machine: &Machine, layers: serde_json::Value, config: serde_json::Value) {
    let path = archive(machine.scratch(), "box.tar", &layers, &config);
    let path = path.to_string_lossy().into_owned();
    machine.netloom(["image", "load", &path, "--name", "lab/box:1"]).finish().code(0);
}

#[test]
fn an_image_gives_files_program_environment_and_user() {
    needs!("python3", "busybox");
    let machine = machine!();
    let layers = json!([
        [{"path": "srv", "uid": 33}, {"path": "srv/page", "mode": 0o644, "uid": 33, "text": "page\n"}],
        [{"path": "srv/.wh.page", "text": ""}, {"path": "srv/other", "mode": 0o600, "text": "other\n"}],
    ]);
    let settings = json!({
        "Env": ["COLOUR=blue", "SHAPE=round"], "Cmd": ["httpd", "-f", "-p", "80"],
        "WorkingDir": "/srv", "StopSignal": "SIGQUIT",
    });
    load(&machine, layers, settings);
    machine.up(
        "name: box\nnodes:\n  web: {image: \"lab/box:1\", pull: never, env: {SHAPE: square}, ready: {tcp: 80}}\n  \
         user: {image: \"lab/box:1\", pull: never, run: [], files: {/etc/own/x: \"own\\n\"}}\n  plain: {}\n\
         links: [[web, user], [user, plain]]\n",
    );
    assert_eq!(
        machine.exec("user", &["wget", "-q", "-O", "-", "http://web/other"]).ok(),
        "other\n"
    );
    let env = machine.exec("web", &["env"]).ok();
    assert!(env.contains("COLOUR=blue\n") && env.contains("SHAPE=square\n"), "{env}");
    assert!(!machine.exec("user", &["cat", "/srv/page"]).finish().errors().is_empty());
    assert_eq!(machine.exec("user", &["cat", "/etc/own/x"]).ok(), "own\n");
    assert_eq!(machine.exec("user", &["stat", "-c", "%a", "/tmp"]).ok(), "1777\n");
    assert!(machine.exec("user", &["cat", "/etc/hosts"]).ok().contains("\tweb\n"));
    // What a node writes is its own.
    machine.exec("user", &["touch", "/srv/mine"]).ok();
    assert!(!machine.exec("web", &["ls", "/srv"]).ok().contains("mine"));
    let log = machine.netloom(["status"]).finish().code(0).text();
    assert!(log.contains("1 of 1 run"), "{log}");
    // The image is pinned, and what it said is in the plan: the same file is the same lab.
    let remove = || machine.netloom(["image", "remove", "lab/box:1"]).finish();
    remove().code(1).says("lab \"box\" uses it");
    let again = machine.netloom(["up", "lab.yaml"]).finish().code(0).text();
    assert_eq!(again, "lab box: already running\n");
    machine.netloom(["down"]).finish().code(0);
    assert!(remove().code(0).text().starts_with("removed 1 image, 3 layers"));
    assert!(unpacked(&machine.scratch().path().join("data")).is_empty());
    machine.down();
}

/// Docker 28 and podman make an image's directory where no layer has it, and start its program there.
#[test]
fn a_directory_that_no_layer_has_is_made() {
    needs!("python3", "busybox");
    let machine = machine!();
    let settings = json!({
        "Cmd": ["sh", "-c", "pwd; echo made > here; sleep 1000"], "WorkingDir": "/srv/of no/layer",
    });
    load(&machine, json!([]), settings);
    machine.up("name: box\nnodes:\n  a: {image: \"lab/box:1\", pull: never}\n");
    let bound = std::time::Duration::from_secs(60);
    netloom_tests_e2e::wait_until("the image's program runs in its directory", bound, || {
        let said = machine.exec("a", &["cat", "/srv/of no/layer/here"]).finish().text();
        (said == "made\n").then_some(())
    });
    let log = machine.netloom(["logs", "a"]).finish().code(0).text();
    assert!(log.contains("/srv/of no/layer"), "{log}");
    machine.down();
}

#[test]
fn an_image_that_is_not_here_is_not_fetched_when_the_lab_says_never() {
    let machine = machine!();
    let file = machine.file("name: none\nnodes: {a: {image: none, pull: never}}\n");
    let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    refused.says("image \"none:latest\": is not here; get it with: netloom image pull none:latest");
    // Of several all are named at once, with what else can be done.
    let file = machine.file(
        "name: none\nnodes: {a: {image: none, pull: never}, b: {image: other, pull: never}, c: {image: none, pull: never}}\n",
    );
    let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    refused
        .says("\"none:latest\": is not here")
        .says("; not here either: \"other:latest\"; `netloom image load");
    machine.untouched();
}

#[test]
fn an_archive_is_loaded_by_a_lab_file_s_words_under_its_own_name() {
    needs!("python3", "busybox");
    let machine = machine!();
    let path = archive(machine.scratch(), "box.tar", &json!([]), &json!({}));
    let names = || {
        let all = machine.netloom(["image", "list", "--json"]).finish().code(0).json();
        let all = all.as_array().expect("a list").clone();
        all.iter()
            .map(|image| image["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let prefixed = format!("docker-archive:{}", path.display());
    for (words, loaded) in [
        (vec![prefixed.clone()], "test/box:1"),
        (vec![path.display().to_string()], "test/box:1"),
        (vec!["docker-archive:box.tar:test/box:1".to_owned()], "test/box:1"),
        (
            vec![
                prefixed.clone(),
                "--select".into(),
                "test/box:1".into(),
                "--name".into(),
                "own:2".into(),
            ],
            "own:2",
        ),
    ] {
        let told = machine.netloom(["image", "load"].map(str::to_owned).into_iter().chain(words));
        let told = told.finish().code(0).text();
        assert!(told.starts_with(&format!("{loaded}  ")), "{told}");
    }
    assert_eq!(names(), ["own:2", "test/box:1"]);
    // What it lacks to start a program is named.
    machine.up("name: lack\nnodes:\n  a: {image: \"own:2\", run: [], files: {/bin/odd: {text: \"#!/bin/ash4\\n\", mode: '0755'}}}\n");
    let refused = machine.exec("a", &["odd"]).finish().code(127);
    refused.says("/bin/odd is there, and /bin/ash4, which runs it, is not");
    machine.netloom(["down"]).finish().code(0);
    let words = ["image", "load", "docker-archive:box.tar:test/box:1", "--select", "x"];
    machine.netloom(words).finish().code(2).says("leave --select out");
    machine.down();
}

#[test]
fn labs_share_what_is_unpacked_once() {
    needs!("python3", "busybox");
    let machine = machine!();
    load(&machine, json!([]), json!({}));
    let data = machine.scratch().path().join("data");
    let inode = || unpacked(&data).iter().map(|p| p.metadata().unwrap().ino()).collect::<Vec<_>>();
    let before = inode();
    assert_eq!(before.len(), 1);
    for name in ["one", "two"] {
        let text = format!("name: {name}\nnodes: {{a: {{image: \"lab/box:1\", run: []}}}}\n");
        machine.up(&text);
        machine.netloom(["-l", name, "exec", "a", "--", "true"]).finish().code(0);
    }
    assert_eq!(inode(), before);
    let all = machine.netloom(["image", "list", "--json"]).finish().code(0).json();
    assert_eq!(all[0]["labs"], json!(["one", "two"]));
    machine.down();
}

#[test]
fn many_layers_are_one_root() {
    needs!("python3", "busybox");
    let machine = machine!();
    let layer = |n: usize| json!([{"path": format!("srv/{n}"), "mode": 0o644, "text": "x"}]);
    load(&machine, (0..129).map(layer).collect(), json!({}));
    machine.up("name: deep\nnodes: {a: {image: \"lab/box:1\", run: []}}\n");
    let shown = machine.exec("a", &["ls", "/srv"]).ok();
    assert_eq!(shown.lines().count(), 129, "{shown}");
    machine.down();
}

#[test]
fn a_hostile_image_gets_nothing_of_the_host() {
    needs!("python3", "busybox");
    let machine = machine!();
    let outside = machine.scratch().path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let to = outside.to_string_lossy().into_owned();
    // Where netloom mounts and writes, there are links to the host.
    let links = ["proc", "sys", "dev", "run", "conf", "etc/file"];
    let layer: Vec<_> = links.iter().map(|path| json!({"path": path, "link": to})).collect();
    load(&machine, json!([layer]), json!({}));
    machine.up(
        "name: hostile\nnodes: {a: {image: \"lab/box:1\", run: [], files: {/conf/x: x, /etc/file: y, /run/z: z}}}\n",
    );
    assert_eq!(machine.exec("a", &["cat", "/etc/file"]).ok(), "y");
    assert_eq!(machine.exec("a", &["cat", "/run/z"]).ok(), "z");
    assert!(machine.exec("a", &["ls", "/proc/self/status"]).ok().contains("status"));
    machine.netloom(["down"]).finish().code(0);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    machine.down();
}

#[test]
fn owners_are_the_image_s_where_a_user_has_many_ids() {
    needs!("python3", "busybox");
    let given = match Given::new() {
        Ok(given) => given,
        Err(why) => skip!("{why}"),
    };
    let layers = json!([
        [{"path": "srv", "uid": 33}, {"path": "srv/page", "mode": 0o600, "uid": 33, "text": "page\n"}],
    ]);
    let path = archive(given.scratch(), "box.tar", &layers, &json!({"User": "web"}));
    let path = path.to_string_lossy().into_owned();
    given.netloom(["image", "load", &path, "--name", "lab/box:1"]).finish().code(0);
    given.up(
        "name: ids\nnodes:\n  real: {image: \"lab/box:1\", run: [[sh, -c, \"cat page; id -u; sleep 1000\"]]}\n  \
         fake: {image: \"lab/box:1\", run: [], ids: fake}\n",
    );
    assert_eq!(given.exec("real", &["stat", "-c", "%u %g", "/srv/page"]).ok(), "33 33\n");
    assert_eq!(given.exec("fake", &["cat", "/srv/page"]).ok(), "page\n");
    given.netloom(["down"]).finish().code(0);
    // A lab with one id unpacks once more, for itself.
    given.up("name: one\nids: fake\nnodes: {a: {image: \"lab/box:1\", pull: never, run: []}}\n");
    assert_eq!(given.exec("a", &["stat", "-c", "%u %g", "/srv/page"]).ok(), "0 0\n");
    given.netloom(["down"]).finish().code(0);
    let pruned = given.netloom(["image", "prune", "--all"]).finish().code(0).text();
    assert!(pruned.starts_with("removed 1 image, 4 layers"), "{pruned}");
    given.down();
}

#[test]
fn whoever_is_killed_leaves_nothing_half_made() {
    needs!("python3", "busybox");
    let machine = machine!();
    let many = (0..100)
        .map(|n| json!({"path": format!("d{n}/f"), "mode": 0o644, "text": "x".repeat(2000)}));
    let layers = json!([many.collect::<Vec<_>>(), [{"path": "big", "text": "0123456789", "times": 800_000}]]);
    let path = archive(machine.scratch(), "box.tar", &layers, &json!({}));
    let path = path.to_string_lossy().into_owned();
    let words = ["image", "load", &path, "--name", "lab/box:1"];
    let begin = Instant::now();
    machine.netloom(words).finish().code(0);
    let whole = begin.elapsed();
    let data = machine.scratch().path().join("data");
    assert_eq!(unpacked(&data).len(), 3);
    for turn in 0..8_u32 {
        machine.netloom(["image", "prune", "--all"]).finish().code(0);
        let mut child = machine.netloom(words).spawn();
        // At any moment: nothing tells when it is where it may be killed.
        std::thread::park_timeout(whole * turn / 8);
        // It, or the process that unpacks for it.
        let pid = i32::try_from(child.id()).unwrap();
        match turn % 2 {
            1 => kill_unpacker(pid),
            _ => netloom_tests_e2e::kill(pid),
        }
        let _ = child.wait();
        for layer in unpacked(&data) {
            assert!(layer.join("about.json").exists(), "{layer:?}");
        }
    }
    machine.netloom(words).finish().code(0);
    machine.up("name: whole\nnodes: {a: {image: \"lab/box:1\", pull: never, run: []}}\n");
    let size = machine.exec("a", &["stat", "-c", "%s", "/big", "/d99/f"]).ok();
    assert_eq!(size, "8000000\n2000\n");
    machine.netloom(["down"]).finish().code(0);
    let staging = machine.scratch().path().join("data/images/staging");
    machine.netloom(["image", "prune"]).finish().code(0);
    let left: Vec<_> = std::fs::read_dir(staging).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    machine.down();
}

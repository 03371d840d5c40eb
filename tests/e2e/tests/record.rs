//! `netloom record` and `netloom packets`: every link of a lab on disk, searched while it is recorded and later.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use netloom_kit::{done, rounds};
use netloom_tests_e2e::capturing::read_pcapng;
use netloom_tests_e2e::live::{SOON, gone, kill_and_wait};
use netloom_tests_e2e::{Machine, machine, needs, wait_until};
use serde_json::Value;

/// Two hosts at a switch, and a server behind a router. Nobody speaks IPv6, so that little is sent that is not asked for.
const LAB: &str = "
name: past
pool: {ipv6: none}
nodes:
  h1: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  h2: {sysctls: *quiet}
  r: {forwarding: true, sysctls: *quiet}
  web: {sysctls: *quiet}
switches: {s: {}}
links: [[h1, s], [h2, s], [s, r], [r, web]]
";

/// The links on the way from `h1` to `web`.
const WAY: [&str; 3] = ["h1:eth0--s", "s--r:eth0", "r:eth1--web:eth0"];

fn status(machine: &Machine) -> Value {
    machine.ok("record status --json").json()
}

/// The recorder's process.
fn recorder(machine: &Machine) -> i32 {
    let pid = status(machine)["pid"].as_i64().expect("a recorder");
    i32::try_from(pid).expect("a pid")
}

/// What `packets` finds, as JSON.
fn packets(machine: &Machine, words: &[&str]) -> Vec<Value> {
    let words = ["packets", "--json"].iter().chain(words);
    let text = machine.netloom(words).finish().code(0).text();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A number that JSON has as text.
fn exact(value: &Value) -> u64 {
    value.as_str().expect("text").parse().expect("a number")
}

/// Waits until at least `count` packets are found.
fn until(machine: &Machine, words: &[&str], count: usize) -> Vec<Value> {
    wait_until(&format!("{count} packets of {words:?}"), SOON, || {
        let found = packets(machine, words);
        (found.len() >= count).then_some(found)
    })
}

/// Asserts that books close.
fn closes(told: &Value) {
    let books = &told["books"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let lost = ["ring", "memory", "disk"].map(|place| number(&books["dropped"][place]));
    let known = number(&books["stored"]) + number(&books["again"]) + lost.iter().sum::<u64>();
    assert_eq!(number(&books["seen"]), known, "{told:#}");
    assert_eq!(told["difference"], 0, "{told:#}");
    assert_eq!(told["ended"], true, "{told:#}");
}

#[test]
fn a_flow_is_found_on_each_link_while_it_is_recorded_and_later() {
    needs!("python3", "curl");
    let machine = machine!();
    machine.up(LAB);
    machine.answers("h1", "web");
    let told = machine.ok("record start --keep 64MiB").text();
    assert!(told.contains("recording 4 links"), "{told}");
    machine.refused("record start", 1, &["recorded already by process", "record stop"]);
    // Each question is answered by what is so then, not by what was said up to a second before.
    for _ in 0..3 {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        assert!(u128::from(exact(&status(&machine)["told_ns"])) >= since.as_nanos());
    }
    machine.datagrams("h1", "web", 0, 50);
    let told = status(&machine);
    assert!(told["difference"].as_i64() >= Some(0), "what was stored was seen: {told:#}");
    let flow = ["h1", "web", "9/udp", "--last", "5m"];
    let found = until(&machine, &flow, 150);
    assert_eq!(found.len(), 150);
    let mut ways = BTreeMap::<u64, Vec<&str>>::new();
    for packet in &found {
        let id = exact(&packet["packet"]);
        ways.entry(id).or_default().push(packet["link"].as_str().expect("a link"));
    }
    // Each is one packet, stored once, which passed the links in their order.
    assert_eq!(ways.len(), 50);
    assert!(ways.values().all(|way| way == &WAY), "{ways:?}");
    let times: Vec<u64> = found.iter().map(|p| exact(&p["time_ns"])).collect();
    assert!(times.is_sorted());
    assert!(found[0]["summary"].as_str().expect("text").ends_with(":9 udp"), "{}", found[0]);
    // Less of it, and something else.
    let of = |words: &[&str]| packets(&machine, words).len();
    assert_eq!(of(&["h1", "web", "9/udp", "--last", "5m", "--link", "s--r:eth0"]), 50);
    assert_eq!(of(&["h1", "web", "9/udp", "--last", "5m", "--link", "s,r"]), 50);
    assert_eq!(of(&["h2", "--last", "5m", "--link", "r:eth1--web:eth0"]), 0);
    assert_eq!(of(&["h1", "web", "9/tcp", "--last", "5m"]), 0);
    let between = |from: u64, to: u64| {
        let moment = |ns: u64| {
            let out = Command::new("date")
                .args([
                    "-u",
                    "-d",
                    &format!("@{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
                    "+%Y-%m-%dT%H:%M:%S.%NZ",
                ])
                .output();
            String::from_utf8(out.expect("date").stdout).expect("text").trim().to_owned()
        };
        of(&["h1", "web", "9/udp", "--since", &moment(from), "--until", &moment(to)])
    };
    assert_eq!(
        between(times[30], times[60]),
        times.iter().filter(|t| (times[30]..times[60]).contains(t)).count()
    );
    api(&machine);
    let ended = machine.ok("record stop --json").json();
    closes(&ended);
    assert!(ended["books"]["again"].as_u64() >= Some(100), "{ended:#}");
    assert_eq!(ended["books"]["dropped"]["disk"], 0, "{ended:#}");
    assert_eq!(packets(&machine, &flow), found);
    machine.ok("packets h1 web 9/udp --last 5m -w out.pcapng");
    let contents = read_pcapng(&machine.scratch().path().join("out.pcapng"));
    for link in WAY {
        assert_eq!(contents.numbers(link), (0..50).collect::<Vec<_>>(), "{link}");
    }
    machine.refused("record stop", 1, &["it is not recorded"]);
    machine.down();
}

/// Asks the running lab.
fn api(machine: &Machine) {
    let socket = machine.scratch().runtime_dir().join("past/api.sock");
    let ask = |body: &str| {
        let words = [
            "-s",
            "-X",
            "POST",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
            "--unix-socket",
        ];
        let out =
            Command::new("curl").args(words).arg(&socket).arg("http://lab/v1/packets").output();
        serde_json::from_slice::<Value>(&out.expect("curl").stdout).expect("JSON")
    };
    let found = ask(r#"{"what": ["h1", "web", "9/udp"], "last_ms": 600000, "most": 40}"#);
    assert_eq!(found["packets"].as_array().map(Vec::len), Some(40), "{found:#}");
    assert_eq!(found["more"], true);
    assert_eq!(found["packets"][0]["link"], WAY[0]);
    let first = &found["packets"][0]["time_ns"];
    let part = ask(&format!(
        r#"{{"what": ["9/udp"], "since_ns": {first}, "until_ns": "{}"}}"#,
        exact(first) + 1
    ));
    assert_eq!(part["packets"].as_array().map(Vec::len), Some(1), "{part:#}");
    assert_eq!(part["packets"][0], found["packets"][0]);
    let body = r#"{"what": ["9/udp"], "last_ms": 600000, "links": ["h1,s"]}"#;
    let found = ask(body)["packets"].as_array().map(Vec::len);
    assert_eq!(found, Some(50));
    let unknown = ask(r#"{"last_ms": 600000, "links": ["h1--web"]}"#);
    assert_eq!(
        (&unknown["status"], &unknown["code"]),
        (&400.into(), &"invalid".into()),
        "{unknown}"
    );
    let refused = ask(r#"{"what": ["h1"]}"#);
    assert_eq!(
        (&refused["status"], &refused["code"]),
        (&400.into(), &"invalid".into()),
        "{refused}"
    );
}

/// How often each thread of a process has slept, by its id.
fn sleeps(pid: i32) -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let of = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
        Some((task.file_name().into_string().ok()?, line.trim().parse().ok()?))
    };
    tasks.filter_map(of).collect()
}

#[test]
fn a_recorder_of_links_on_which_nothing_passes_sleeps() {
    let machine = machine!();
    machine.up(LAB);
    machine.answers("h1", "web");
    machine.ok("record start --keep 64MiB");
    let pid = recorder(&machine);
    // Neighbours ask for one another some seconds after the answers.
    wait_until("a second in which no thread woke more than 15 times", SOON, || {
        let (before, began) = (sleeps(pid), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let (after, seconds) = (sleeps(pid), began.elapsed().as_secs() + 1);
        assert!(after.len() > 4, "a thread for each link: {after:?}");
        after.iter().all(|(id, n)| n - before.get(id).unwrap_or(&0) <= 15 * seconds).then_some(())
    });
    // And is awake at once.
    machine.datagrams("h1", "web", 0, 50);
    assert_eq!(until(&machine, &["h1", "web", "9/udp", "--last", "5m"], 150).len(), 150);
    machine.ok("record stop");
    closes(&status(&machine));
    machine.down();
}

#[test]
fn questions_without_a_time_and_wrong_ones_say_what_to_write() {
    let machine = machine!();
    machine.up(LAB);
    machine.refused("packets h1 --last 10s", 1, &["nothing of it was recorded", "record start"]);
    machine.refused("record status", 1, &["nothing of it was recorded"]);
    machine.ok("record start");
    machine.refused("packets h1", 2, &["--last 10s", "--since 12:30:00"]);
    machine.refused("packets nobody h1 --last 1s", 2, &["\"nobody\"", "in quotes"]);
    machine.refused("packets h1 h2 0/tcp --last 1s", 2, &["80/tcp"]);
    machine.refused("packets h1 --since soon", 2, &["in UTC"]);
    machine.refused(
        "packets h1 --since 2026-01-02T00:00:00Z --until 2026-01-01T00:00:00Z",
        2,
        &["exchange"],
    );
    machine.refused("packets --link h1--web --last 1s", 2, &["link \"h1--web\"", "\"h1:eth0--s\""]);
    machine.refused("packets h1 --last 1s --since 12:00", 2, &["cannot be used with"]);
    machine.refused("record start --keep 1MiB", 2, &["4MiB"]);
    machine.refused("record delete", 1, &["recorded already"]);
    machine.ok("record stop");
    // A recording of another lab of this name stays that one's as long as it is there.
    let told = status(&machine)["folder"].as_str().expect("a folder").to_owned() + "/status.json";
    let other = machine.scratch().path().join("elsewhere/past");
    std::fs::create_dir_all(&other).expect("a folder");
    let content = std::fs::read(&told).expect("a status");
    let mut of_other: Value = serde_json::from_slice(&content).expect("JSON");
    of_other["runtime"] = other.to_str().expect("text").into();
    std::fs::write(&told, of_other.to_string()).expect("write");
    machine.refused("record start", 1, &["another lab of this name", "elsewhere/past"]);
    std::fs::remove_dir(&other).expect("remove");
    machine.ok("record start");
    machine.ok("record stop");
    machine.ok("record delete");
    machine.refused("packets h1 --last 1s", 1, &["nothing of it was recorded"]);
    machine.down();
}

#[test]
fn links_and_nodes_that_come_and_go_are_recorded() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    machine.answers("h1", "web");
    machine.ok("record start");
    let links = |count: usize| {
        wait_until(&format!("{count} recorded links"), SOON, || {
            let told = status(&machine);
            (told["links"].as_array().map(Vec::len) == Some(count)).then_some(())
        });
    };
    machine.ok("link create h1 web");
    links(5);
    machine.ok("link set h2:eth0--s --down");
    machine.ok("link set h2:eth0--s --up");
    machine.answers("h2", "web");
    machine.datagrams("h2", "web", 0, 20);
    until(&machine, &["h2", "web", "9/udp", "--last", "5m", "--link", "h2:eth0--s"], 20);
    let later = ["--last", "5m", "--link", "h1:eth1--web:eth1"];
    wait_until("the new link is found in the recording", SOON, || {
        machine.exec("h1", &["ping", "-c1", "-W1", "-I", "eth1", "web"]).finish();
        (!packets(&machine, &later).is_empty()).then_some(())
    });
    // Its end is another process now, with another network. What passes before the recorder has found it is not recorded.
    let pings = ["h2", "web", "icmp", "--last", "5m", "--link", "h2:eth0--s"];
    for _ in 0..2 {
        kill_and_wait(machine.init("h2"));
        machine.netloom(["up".as_ref(), machine.file(LAB).as_os_str()]).finish().code(0);
        // Frames of the node before may reach the disk later than this.
        let since = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970").as_nanos();
        wait_until("the link of the recreated node is recorded", SOON, || {
            machine.exec("h2", &["ping", "-c1", "-W1", "web"]).finish();
            let is_new = |packet: &Value| u128::from(exact(&packet["time_ns"])) > since;
            packets(&machine, &pings).iter().any(is_new).then_some(())
        });
    }
    links(5);
    machine.datagrams("h2", "web", 100, 20);
    let of_h2 = ["h2", "web", "9/udp", "--last", "5m", "--link", "h2:eth0--s"];
    until(&machine, &of_h2, 40);
    // A node that is gone has been there. The socket that the recorder has in it, in an ordinary user's lab, keeps nobody from it.
    machine.ok("node delete h2");
    links(4);
    assert_eq!(packets(&machine, &of_h2).len(), 40);
    machine.ok("record stop");
    machine.ok("record start");
    assert_eq!(packets(&machine, &of_h2).len(), 40);
    let ended = machine.ok("record stop --json").json();
    closes(&ended);
    machine.down();
}

#[test]
fn a_recorder_ends_with_its_lab_and_what_it_has_stays() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    machine.answers("h1", "web");
    machine.ok("record start");
    let pid = recorder(&machine);
    machine.datagrams("h1", "web", 0, 30);
    until(&machine, &["h1", "web", "9/udp", "--last", "5m"], 90);
    machine.ok("down");
    assert!(gone(pid), "the recorder ends with its lab");
    let told = machine.ok("record status -l past --json").json();
    closes(&told);
    assert_eq!(told["recording"], false);
    assert_eq!(told["trouble"], Value::Null, "a lab that is taken down is none");
    let found = packets(&machine, &["h1", "web", "9/udp", "--last", "5m", "-l", "past"]);
    assert_eq!(found.len(), 90);
    for verb in ["packets h1 --last 5m", "record status", "record delete"] {
        machine.refused(verb, 2, &["no lab is running; recorded: past; name one with -l LAB"]);
    }
    machine.ok("record delete -l past");
    machine.refused("packets h1 --last 5m", 1, &["no lab is running, and none was recorded"]);
    machine.untouched();
}

#[test]
fn a_lab_that_only_a_test_had_leaves_no_recording() {
    let machine = machine!();
    let expects = "expect: [{reaches: {from: h1, to: web, family: ipv4}}]\n";
    let file = machine.file(&format!("{}{expects}", recorded("true")));
    machine.netloom(["test".as_ref(), file.as_os_str()]).finish().code(0);
    machine.refused("record status", 1, &["none was recorded"]);
    machine.untouched();
}

/// The lab, with what its file says of a recording. A program of `h1` sends when it starts.
fn recorded(how: &str) -> String {
    let host = "h1: {exec: [[ping, -c1, -W5, web]], ";
    format!("{}record: {how}\n", LAB.replace("h1: {", host))
}

#[test]
fn a_lab_whose_file_says_so_is_recorded_while_it_is_up() {
    let machine = machine!();
    machine.up(&recorded("true"));
    // What the program sent when the lab came up has passed each link, there and back.
    until(&machine, &["h1", "web", "icmp", "--last", "5m"], 6);
    let told = status(&machine);
    assert_eq!((&told["recording"], &told["keep"]), (&true.into(), &(2_u64 << 30).into()));
    assert_eq!(told["links"].as_array().map(Vec::len), Some(4), "{told:#}");
    machine.refused("record start", 1, &["recorded already"]);
    let first = recorder(&machine);
    // A lab that lives on without its process has its recorder, too.
    kill_and_wait(machine.lab_process());
    machine.up(&recorded("true"));
    assert_eq!(recorder(&machine), first);
    // It can be ended by hand; the file brings it back.
    machine.ok("record stop");
    assert!(gone(first));
    let file = machine.file(&recorded("true"));
    let on_file = |words: &[&str]| {
        let words = words.iter().map(std::ffi::OsStr::new).chain([file.as_os_str()]);
        machine.netloom(words).finish()
    };
    let line = "~ recording past: running, was none (changed by hand)";
    let check = on_file(&["apply", "--check"]).code(4).text();
    assert!(check.contains(line), "{check}");
    let kept = on_file(&["up", "--keep-drift"]).code(0).text();
    assert!(kept.contains(&format!("kept: {line}")), "{kept}");
    assert_eq!(status(&machine)["recording"], false);
    let mended = on_file(&["up"]).code(0).text();
    assert!(mended.contains(&format!("mended: {line}")), "{mended}");
    on_file(&["apply", "--check"]).code(0);
    // The status knows when both ran.
    let told = machine.ok("record status").text();
    assert!(told.contains("\nrecorded before from 20"), "{told}");
    let second = recorder(&machine);
    machine.answers("h1", "web");
    machine.down();
    assert!(gone(second));
}

#[test]
fn a_file_that_is_applied_adds_changes_and_ends_a_recording() {
    let machine = machine!();
    machine.up(LAB);
    let apply = |text: &str| {
        let file = machine.file(text);
        machine.netloom(["apply".as_ref(), file.as_os_str()]).finish().code(0).text()
    };
    let told = apply(&format!("{LAB}record: {{keep: 64MiB}}\n"));
    assert!(told.contains("+ recording past"), "{told}");
    assert_eq!(status(&machine)["keep"], 64 << 20);
    let first = recorder(&machine);
    machine.answers("h1", "web");
    // A recording of another bound goes on in the same ring.
    let file = machine.file(&format!("{LAB}record: true\n"));
    let up = ["up".as_ref(), file.as_os_str()];
    let refused = machine.netloom(up).finish().code(1).errors();
    assert!(refused.contains("recording past: keep 2GiB, was 64MiB"), "{refused}");
    let told = apply(&format!("{LAB}record: true\n"));
    assert!(told.contains("~ recording past: keep 2GiB, was 64MiB"), "{told}");
    assert!(gone(first));
    let second = recorder(&machine);
    until(&machine, &["h1", "web", "icmp", "--last", "5m"], 6);
    // One that was started by hand goes on.
    let told = apply(LAB);
    assert!(told.contains("- recording past"), "{told}");
    assert!(gone(second));
    closes(&status(&machine));
    machine.ok("record start");
    let third = recorder(&machine);
    apply(&LAB.replace("  h2:", "  h3: {sysctls: *quiet}\n  h2:"));
    assert_eq!(recorder(&machine), third);
    // The next lab of this name is recorded by its own.
    let file = machine.file(&recorded("true"));
    let up = ["up".as_ref(), "--replace".as_ref(), file.as_os_str()];
    machine.netloom(up).finish().code(0);
    assert!(gone(third));
    until(&machine, &["h1", "web", "icmp", "--last", "5m"], 12);
    assert_ne!(recorder(&machine), third);
    machine.down();
}

#[test]
fn a_lab_that_cannot_be_recorded_comes_up_and_says_so() {
    let machine = machine!();
    let place = machine.scratch().path().join("no-folder");
    std::fs::write(&place, "").expect("a file");
    let file = machine.file(&recorded("true"));
    let up = [Path::new("up"), &file];
    let run = machine.netloom(up).env("NETLOOM_DATA_DIR", &place).finish().code(1);
    let told = run.errors();
    assert!(told.contains("lab \"past\" is up, but not recorded as its file says"), "{told}");
    assert!(told.contains("recording: ") && told.contains("no-folder"), "{told}");
    machine.answers("h1", "web");
    machine.down();
}

#[test]
fn a_recording_in_an_ordinary_users_home_is_found_by_the_lab() {
    netloom_kit::ordinary_only!("its recordings are in its home");
    needs!("python3", "curl");
    let machine = machine!();
    let home = machine.scratch().path().join("home");
    let ok = |words: &[&str]| {
        // Empty is as good as not set.
        let run = machine.netloom(words).env("NETLOOM_DATA_DIR", "").env("XDG_DATA_HOME", &home);
        run.finish().code(0)
    };
    let file = machine.file(LAB);
    ok(&["up", file.to_str().expect("a path")]);
    machine.answers("h1", "web");
    ok(&["record", "start"]);
    machine.datagrams("h1", "web", 0, 50);
    ok(&["record", "stop"]);
    assert!(home.join("netloom/records/past/status.json").is_file());
    api(&machine);
    ok(&["record", "delete"]);
    machine.down();
}

#[test]
fn a_recorder_whose_folder_is_removed_ends() {
    let machine = machine!();
    machine.up(LAB);
    machine.ok("record start");
    let first = recorder(&machine);
    let folder = status(&machine)["folder"].as_str().expect("a folder").to_owned();
    std::fs::remove_dir_all(folder).expect("remove");
    wait_until("the end of a recorder that nobody would find", SOON, || gone(first).then_some(()));
    machine.refused("record status", 1, &["nothing of it was recorded"]);
    machine.ok("record start");
    machine.down();
}

#[test]
fn a_killed_recorder_loses_nothing_that_was_found_before() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    machine.answers("h1", "web");
    // Longer than many rounds take.
    let flow = ["h1", "web", "9/udp", "--last", "24h"];
    let kills = rounds(2);
    for round in 0..kills {
        machine.ok("record start");
        machine.datagrams("h1", "web", round * 40, 40);
        let before = until(&machine, &flow, (round as usize + 1) * 120);
        kill_and_wait(recorder(&machine));
        let told = machine.ok("record status").text();
        assert!(told.contains("not recording: the recorder was killed"), "{told}");
        assert_eq!(packets(&machine, &flow), before, "round {round}");
    }
    done("kills of a lab's recorder", kills);
    machine.down();
}

//! A lab as Prometheus reads it: on its socket and on a port with a token, counters that go on, and Prometheus itself.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, Run, machine, needs, pair, wait_until, workspace_root};
use serde_json::Value;

/// Where `make peers` unpacks Prometheus.
const UNPACKED: &str = "/usr/local/lib/netloom-peers/prometheus/usr/bin";

/// A program of Prometheus's package.
fn program(name: &str) -> PathBuf {
    netloom_tests_e2e::program(name).unwrap_or_else(|| Path::new(UNPACKED).join(name))
}

/// The metrics on the socket of lab `pair`.
fn told(machine: &Machine) -> String {
    let socket = machine.scratch().runtime_dir().join("pair/api.sock");
    let curl = Run::new("curl").args(["-sf", "--unix-socket"]).args([socket.as_os_str()]);
    curl.args(["http://lab/metrics"]).ok()
}

/// The values of all series.
fn values(text: &str) -> BTreeMap<&str, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series, value.parse().expect("a number"))
        })
        .collect()
}

const UP: &str = "netloom_node_up{lab=\"pair\",node=\"b\"}";
const RECEIVED: &str = "netloom_interface_receive_packets_total{lab=\"pair\",node=\"b\",\
                        interface=\"eth0\",link=\"a:eth0--b:eth0\"}";

/// Waits until a series has a value that is wanted; the whole text then.
fn until(machine: &Machine, what: &str, series: &str, wanted: impl Fn(f64) -> bool) -> String {
    wait_until(what, SOON, || {
        let text = told(machine);
        values(&text).get(series).copied().is_some_and(&wanted).then_some(text)
    })
}

fn nothing_fell(before: &str, after: &str) {
    let after = values(after);
    for (series, value) in
        values(before).into_iter().filter(|(series, _)| series.contains("_total{"))
    {
        let later = after.get(series);
        assert!(later.is_some_and(|later| *later >= value), "{series}: {value}, then {later:?}");
    }
}

/// As on a full disk: they are answered, and say that they would not be gone on with.
#[test]
fn metrics_that_cannot_be_kept_are_answered_all_the_same() {
    needs!("curl");
    let machine = machine!();
    machine.up(&pair(""));
    let totals = machine.scratch().runtime_dir().join("pair/totals.json");
    std::fs::create_dir(&totals).expect("a folder in the file's place");
    let kept = "netloom_metrics_kept{lab=\"pair\"}";
    let text = told(&machine);
    assert_eq!((values(&text)[kept], values(&text)[UP]), (0.0, 1.0), "{text}");
    let log = std::fs::read_to_string(machine.scratch().runtime_dir().join("pair/lab.log"));
    let log = log.expect("the lab process's log");
    assert_eq!(log.matches("metrics are answered and cannot be kept").count(), 1, "{log}");
    std::fs::remove_dir(&totals).expect("remove it");
    machine.answers("a", "b");
    until(&machine, "they are kept again", kept, |kept| kept > 0.0);
    machine.down();
}

#[test]
fn counters_go_on_whatever_is_recreated() {
    let machine = machine!();
    let file = machine.file(&pair("run: [[sleep, inf]]"));
    machine.up_file(&file);
    machine.netloom(["link", "set", "a:eth0--b:eth0", "--delay", "1ms"]).ok();
    machine.answers("a", "b");
    machine.exec("a", &["ping", "-c", "20", "-i", "0.01", "b"]).ok();
    let first = until(&machine, "frames are counted", RECEIVED, |frames| frames >= 20.0);

    // The node's interface begins again at nothing.
    kill_and_wait(machine.init("b"));
    let dead = until(&machine, "the node is dead", UP, |up| up == 0.0);
    nothing_fell(&first, &dead);
    machine.up_file(&file);
    machine.answers("a", "b");
    machine.exec("a", &["ping", "-c", "3", "-i", "0.01", "b"]).ok();
    let before = values(&dead)[RECEIVED];
    let mended = until(&machine, "it counts on", RECEIVED, |frames| frames >= before + 3.0);
    nothing_fell(&dead, &mended);
    let own = machine.node("b")["interfaces"][0]["traffic"]["rx_packets"].as_u64();
    let total = values(&mended)[RECEIVED];
    assert!(own.is_some_and(|own| (own as f64) < total), "{own:?} of {total}");

    // What only the lab process knew is known to the next one.
    kill_and_wait(machine.lab_process());
    machine.up_file(&file);
    let adopted = until(&machine, "the lab is adopted", UP, |up| up == 1.0);
    nothing_fell(&mended, &adopted);
    machine.down();
}

#[test]
fn nodes_are_not_told_of_metrics() {
    let machine = machine!();
    machine.up("name: pair\nnodes:\n  a: {children: {limit: 2}}\n");
    let ask = "curl -s --unix-socket /run/netloom/a/api.sock http://lab/metrics";
    let told = machine.exec("a", &["sh", "-c", ask]).ok();
    assert!(told.contains("metrics are told outside of nodes"), "{told}");
    machine.down();
}

/// The expressions of the dashboard for Grafana, without its variables.
fn expressions() -> Vec<String> {
    let text = std::fs::read_to_string(workspace_root().join("examples/grafana.json")).expect("it");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets
        .map(|target| {
            let expression = target["expr"].as_str().expect("an expression");
            expression.replace("$lab", "pair").replace("$__rate_interval", "10s")
        })
        .collect()
}

#[test]
fn prometheus_reads_a_lab_on_a_port() {
    needs!("prometheus");
    let machine = machine!();
    // The name of a program may be anything.
    let hostile = machine.scratch().path().join("\"} 1\n# x");
    std::os::unix::fs::symlink("/bin/sleep", &hostile).expect("make a link");
    let command = serde_json::json!([hostile, "inf"]);
    machine.up(&pair(&format!("run: [{command}]")));
    let token = machine.scratch().file("token", "0123456789abcdef-0123\n");
    Run::new("chmod").args(["600"]).args([&token]).ok();
    let words = ["-l", "pair", "serve", "--listen", "127.0.0.1:0", "--token-file"].map(Into::into);
    let words = words.into_iter().chain([token.clone().into_os_string()]);
    let mut serving = Held::start(machine.netloom(words));
    let address = serving.line().split('/').nth(2).expect("an address").to_owned();
    let url = format!("http://{address}/metrics");
    Run::new("curl").args(["-sf", &url]).finish().code(22);

    let header =
        Run::new("curl").args(["-sfH", "Authorization: Bearer 0123456789abcdef-0123", &url]);
    let text = header.ok();
    assert!(text.contains("/\\\"} 1\\\\n# x\"} 1\n"), "{text}");
    let checked =
        Run::new(program("promtool")).args(["check", "metrics"]).input(text).finish().code(0);
    assert_eq!((checked.text(), checked.errors()), (String::new(), String::new()));

    let folder = machine.scratch().path().to_owned();
    let at = |name: &str| folder.join(name).display().to_string();
    let token = token.display();
    let configuration = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: netloom\n    authorization: {{credentials_file: \
         {token}}}\n    static_configs: [{{targets: [\"{address}\"]}}]\n"
    );
    machine.scratch().file("prometheus.yml", &configuration);
    let run = Run::new(program("prometheus")).args([
        format!("--config.file={}", at("prometheus.yml")),
        format!("--storage.tsdb.path={}", at("tsdb")),
        "--web.listen-address=127.0.0.1:0".to_owned(),
    ]);
    let mut prometheus = Held::start(run);
    let mut log =
        BufReader::new(prometheus.child().stderr.take().expect("stderr is piped")).lines();
    let port = log.find_map(|line| {
        let line = line.expect("a line");
        let (_, rest) = line.split_once("address=127.0.0.1:")?;
        let port: u16 = rest.split_whitespace().next()?.parse().ok()?;
        (port > 0).then_some(port)
    });
    // It writes on.
    let rest = std::thread::spawn(move || log.for_each(drop));
    let server = format!("http://127.0.0.1:{}", port.expect("it listens"));
    // It listens before it can answer.
    wait_until("Prometheus is ready", SOON, || {
        let ready = Run::new("curl").args(["-sf", &format!("{server}/-/ready")]).finish();
        ready.status.success().then_some(())
    });
    let ask = |expression: &str| {
        let run = Run::new(program("promtool")).args(["query", "instant", &server, expression]);
        run.finish().code(0).text()
    };
    wait_until("Prometheus has the nodes", SOON, || {
        ask("sum(netloom_node_up{lab=\"pair\"})").contains("=> 2 @").then_some(())
    });
    // It goes on: on a busy machine Prometheus misses looks at the lab, and a rate is that of the last seconds.
    let pinging = Held::start(machine.exec("a", &["ping", "-q", "-i", "0.2", "b"]));
    wait_until("Prometheus has a rate", SOON, || {
        let told = ask(
            "sum(rate(netloom_link_sent_packets_total{link=\"a:eth0--b:eth0\"}[10s])) > bool 0",
        );
        told.contains("=> 1 @").then_some(())
    });
    drop(pinging);
    // All that the dashboard asks for can be asked, and its map has the link with its ends.
    let edge = |told: &&String| {
        ["id=\"a:eth0--b:eth0\"", "source=\"a\"", "target=\"b\""]
            .iter()
            .all(|part| told.contains(part))
    };
    wait_until("the map has the link", SOON, || {
        let asked: Vec<String> = expressions().iter().map(|expression| ask(expression)).collect();
        asked.iter().any(|told| edge(&told)).then_some(())
    });
    drop(prometheus);
    rest.join().expect("its log ends");
    drop(serving);
    machine.down();
}

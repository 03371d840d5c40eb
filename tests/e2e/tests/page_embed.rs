//! `<netloom-map>`: a lab on a web page that is not netloom's, in Chromium.

use netloom_tests_e2e::browser::Browser;
use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, machine, needs};

use super::page_browser::Page;

const LAB: &str = "
name: office
nodes: {h1: {}, h2: {}, r1: {forwarding: true}, web: {}}
switches: {s1: {}}
links: [[h1, s1], [h2, s1], [s1, r1], [r1, web]]
";

/// A web page of somebody else with the map of a lab in it, served until the test ends.
struct Guest {
    address: String,
}

impl Guest {
    /// Serves these files, by path and with their type, to one connection after the other.
    fn of(files: Vec<(&'static str, &'static str, Vec<u8>)>) -> Guest {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/", listener.local_addr().expect("its address"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A browser may close what it opened ahead.
                drop(answer(stream, &files));
            }
        });
        Guest { address }
    }
}

fn answer(mut stream: std::net::TcpStream, files: &[(&str, &str, Vec<u8>)]) -> std::io::Result<()> {
    use std::io::{BufRead, BufReader, Write};
    stream.set_read_timeout(Some(std::time::Duration::from_secs(2)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines.by_ref() {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let found = files.iter().find(|(name, ..)| *name == path);
    let (status, kind, bytes) = found
        .map_or(("404 Not Found", "text/plain", &b""[..]), |(_, kind, bytes)| {
            ("200 OK", *kind, bytes.as_slice())
        });
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        bytes.len()
    )?;
    stream.write_all(bytes)
}

#[test]
fn a_lab_is_shown_on_somebody_elses_page() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(LAB);
    machine.netloom(["link", "set", "r1:eth1--web:eth0", "--delay", "30ms"]).ok();
    let mut events = Held::start(machine.netloom(["events", "--json"]));
    let snapshot = events.line();
    drop(events);
    let page = Page::of(&machine);
    let own = page.link.split('#').next().expect("an address");
    let script = ureq::get(&format!("{own}netloom-map.js")).call().expect("the file");
    assert_eq!(script.headers()["content-type"], "text/javascript; charset=utf-8");
    let script = script.into_body().read_to_vec().expect("its bytes");
    drop(page);
    machine.down();
    // The lab is gone: what is shown is a file.
    let machine = Machine::new();
    let html = r#"<!doctype html><html lang="en"><title>Elsewhere</title><link rel="icon" href="data:,">
        <meta http-equiv="content-security-policy" content="default-src 'self'; img-src data:">
        <script type="module" src="netloom-map.js"></script>
        <netloom-map src="lab.jsonl" theme="dark"></netloom-map><netloom-map src="gone.jsonl"></netloom-map></html>"#;
    let guest = Guest::of(vec![
        ("/", "text/html; charset=utf-8", html.as_bytes().to_vec()),
        ("/netloom-map.js", "text/javascript; charset=utf-8", script),
        ("/lab.jsonl", "application/json", snapshot.into_bytes()),
    ]);
    let browser = Browser::start(machine.scratch(), (900, 900));
    browser.open(&guest.address);
    let inside = "document.querySelector('netloom-map').shadowRoot";
    browser.until(&format!("{inside}.querySelectorAll('.vertex').length === 5"));
    let pill = format!(
        "{inside}.querySelector(\"[data-link='r1:eth1--web:eth0'] .pill text\").textContent"
    );
    browser.until(&format!("{pill} === '30ms'"));
    assert_eq!(
        browser.value(&format!("{inside}.querySelector('.map').getAttribute('aria-label')")),
        "Map of the lab office: 4 nodes, 4 links"
    );
    // Its style comes with it, also where a page forbids styles within.
    assert_eq!(
        browser.value("getComputedStyle(document.querySelector('netloom-map')).getPropertyValue('--map').trim()"),
        "#0d1218"
    );
    browser.until("document.querySelectorAll('netloom-map')[1].shadowRoot.querySelector('.why').textContent === 'gone.jsonl: 404 Not Found'");
    // A press tells the page around it what was chosen.
    browser
        .run("addEventListener('netloom-choose', (event) => { window.chosen = event.detail; });");
    let middle = format!(
        "(() => {{ const b = {inside}.querySelector(\"[data-key='node web'] .shape\").getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
    );
    browser.click_at(&middle);
    browser.until("window.chosen?.kind === 'node' && window.chosen.name === 'web'");
    assert!(browser.requested().iter().all(|url| url.starts_with(&guest.address)));
    let mut complaints = browser.logged();
    complaints.retain(|line| !line.contains("gone.jsonl"));
    assert_eq!(complaints, [""; 0]);
    drop(browser);
    machine.untouched();
}

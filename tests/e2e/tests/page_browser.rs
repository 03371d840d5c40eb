//! The lab's page in Chromium: seen, used, left alone while its lab dies and comes again, and given hostile text.

use netloom_tests_e2e::browser::Browser;
use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, kill, machine, needs, pair, workspace_root};

const LINK: &str = "a:eth0--b:eth0";

/// A lab's page that is served.
pub(crate) struct Page {
    _held: Held,
    pub(crate) link: String,
}

impl Page {
    pub(crate) fn of(machine: &Machine) -> Page {
        Page::with(machine, &[])
    }

    /// With these flags.
    pub(crate) fn with(machine: &Machine, flags: &[&str]) -> Page {
        let args = [&["serve", "--page", "--listen", "127.0.0.1:0"], flags].concat();
        let mut held = Held::start(machine.netloom(args));
        let (_serving, _how, page) = (held.line(), held.line(), held.line());
        let link = page.strip_prefix("page ").expect("a link").to_owned();
        Page { _held: held, link }
    }

    /// Opens it and waits until it hears the lab and has drawn it.
    pub(crate) fn open(&self, browser: &Browser) {
        browser.open(&self.link);
        browser.until("document.body.dataset.hearing === 'live'");
        browser.until("document.querySelector('#map > svg, #map > canvas')");
    }

    /// Chromium has complained of answers with these statuses since the last look, and of nothing else.
    pub(crate) fn refused(&self, browser: &Browser, statuses: &[u16]) {
        let all = complaints(browser);
        for status in statuses {
            let words = format!("the server responded with a status of {status}");
            assert!(all.iter().any(|line| line.contains(&words)), "{status}: {all:?}");
        }
        let known = |line: &String| {
            let own = self.link.split('#').next().expect("an address");
            line.contains(own)
                && statuses.iter().any(|status| line.contains(&format!("a status of {status}")))
        };
        assert!(all.iter().all(known), "{all:?}");
    }

    /// Nothing was asked for elsewhere, and nothing is complained of.
    pub(crate) fn is_clean(&self, browser: &Browser) {
        let own = self.link.split('#').next().expect("an address");
        let asked = browser.requested();
        assert!(asked.len() >= 4, "{asked:?}");
        assert!(asked.iter().all(|url| url.starts_with(own)), "{asked:?}");
        assert_eq!(complaints(browser), [""; 0]);
    }
}

/// What Chromium complains of: errors, warnings and reports of the policy.
fn complaints(browser: &Browser) -> Vec<String> {
    let mut all = browser.logged();
    // A lab process that offers no layout: the page has its own.
    all.retain(|line| !(line.contains("/v1/lab/layout") && line.contains("404")));
    all
}

/// The shortest round trip that ping saw, in milliseconds.
fn fastest(machine: &Machine, from: &str, to: &str) -> f64 {
    machine.answers(from, to);
    let text = machine
        .exec(from, &["ping", "-4", "-q", "-c", "3", "-i", "0.2", to])
        .finish()
        .code(0)
        .text();
    let times = text.split("min/avg/max/mdev = ").nth(1).unwrap_or_else(|| panic!("{text}"));
    times.split('/').next().and_then(|time| time.parse().ok()).expect("a time")
}

/// Waits until the first element that the selector means has this text: the page is drawn some time after an event.
pub(crate) fn shows(browser: &Browser, selector: &str, text: &str) {
    browser.until(&format!("document.querySelector('{selector}')?.innerText === '{text}'"));
}

/// Fills in the delay and applies it.
fn set_delay(browser: &Browser, delay: &str) {
    browser.type_into("input[name=delay]", delay);
    let command = format!("netloom -l pair link set {LINK} --delay {delay}");
    shows(browser, "#equal-command", &command);
    browser.click(".impair button[type=submit]");
}

#[test]
fn a_link_that_is_clicked_gets_50_ms_and_ping_shows_it() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(&pair("run: [[sh, -c, 'echo ready; exec sleep 100000']]"));
    machine.answers("a", "b");
    let page = Page::of(&machine);
    let browser = Browser::start(machine.scratch(), (1440, 900));
    page.open(&browser);
    assert_eq!(
        browser.value("location.href.includes('#')"),
        false,
        "the token stays in the address"
    );
    assert_eq!(browser.text("h1"), "pair");
    assert!(fastest(&machine, "a", "b") < 50.0);
    browser.click(&format!("[data-link='{LINK}'] .line"));
    shows(&browser, "aside h2", LINK);
    set_delay(&browser, "50ms");
    browser.until(&format!(
        "document.querySelector(\"[data-link='{LINK}'] .pill\").textContent === '50ms'"
    ));
    assert!(fastest(&machine, "a", "b") >= 100.0, "both ways");
    // What ping sent is drawn, and the plots have it.
    browser.until("document.querySelectorAll('aside .plot canvas').length === 2");
    machine.netloom(["link", "set", LINK, "--clear"]).ok();
    browser.until(&format!("!document.querySelector(\"[data-link='{LINK}'].wired\")"));
    browser.click("#cable");
    browser.until(&format!("document.querySelector(\"[data-link='{LINK}'].down\")"));
    assert_eq!(machine.link(LINK)["down"], true);
    browser.click("#cable");
    browser.until(&format!("!document.querySelector(\"[data-link='{LINK}'].down\")"));
    assert_eq!(machine.link(LINK)["down"], false);
    // What the lab refuses is said in its words.
    browser.type_into("input[name=delay]", "soon");
    browser.click(".impair button[type=submit]");
    browser.until("document.querySelector('aside .trouble')?.innerText.includes('delay')");
    let refused = complaints(&browser);
    assert!(
        refused.len() == 1 && refused[0].contains("the server responded with a status of 400"),
        "{refused:?}"
    );
    // The same by keys alone: search, and the list.
    browser.press("\u{e00c}");
    browser.click("header h1");
    browser.press("/");
    for key in ["b", "\u{e007}"] {
        browser.press(key);
    }
    shows(&browser, "aside h2", "b");
    browser.click("header h1");
    browser.press("l");
    browser.until("document.querySelectorAll('main table').length === 2");
    let rows =
        browser.value("[...document.querySelectorAll('main tbody th')].map((e) => e.innerText)");
    assert_eq!(rows, serde_json::json!(["a", "b", LINK]));
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn a_page_that_stays_open_sees_its_lab_die_and_come_again() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    let file = machine.file(&pair(""));
    machine.up_file(&file);
    let page = Page::of(&machine);
    let browser = Browser::start(machine.scratch(), (1200, 800));
    page.open(&browser);
    kill(machine.lab_process());
    browser.until("document.body.dataset.hearing === 'away'");
    assert!(browser.text(".banner").starts_with("The lab does not answer"));
    machine.up_file(&file);
    browser.until("document.body.dataset.hearing === 'live' && !document.querySelector('.banner')");
    browser.until("document.querySelector('.notes')?.innerText.includes('adopted')");
    machine.netloom(["down"]).finish().code(0);
    browser.until("document.body.dataset.hearing === 'away'");
    machine.up(&pair("").replace("[a, b]\n", "[a, b]\n  - [a, b]\n"));
    browser.until("document.body.dataset.hearing === 'live'");
    browser.until("document.querySelectorAll('#map .link').length === 2");
    // Without its server it says so; with a token of another one it gives up.
    drop(page);
    browser.until("document.body.dataset.hearing === 'unreachable'");
    let page = Page::of(&machine);
    let other = page.link.split('#').next().expect("an address").to_owned();
    browser.open(&format!("{other}#0123456789abcdef0123456789abcdef"));
    browser.until("document.body.dataset.hearing === 'refused'");
    shows(&browser, "h1", "This link does not open a lab");
    drop(browser);
    drop(page);
    machine.down();
}

/// A program whose name and output are markup, and which would turn a terminal red.
const HOSTILE: &str = r#"
name: hostile
nodes:
  a:
    run:
      - [sh, -c, "printf '<img src=x onerror=alert(1)> \\033[31mred\\033[0m\\342\\200\\256 turned\\n'; exec sleep 100000", "<img src=x onerror=alert(2)>"]
  b: {}
links:
  - [a, b]
"#;

#[test]
fn hostile_text_stays_text() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(HOSTILE);
    let page = Page::of(&machine);
    let browser = Browser::start(machine.scratch(), (1200, 800));
    page.open(&browser);
    browser.click("[data-key='node a'] .shape");
    browser.until("document.querySelector('.log div')");
    let log = browser.value("document.querySelector('.log div span').textContent");
    assert_eq!(log, "<img src=x onerror=alert(1)> red\\u{202e} turned");
    let command = browser.text(".programs code");
    assert!(command.contains("'<img src=x onerror=alert(2)>'"), "{command}");
    assert_eq!(
        browser.value("document.querySelectorAll('img:not([src=\"/icon.svg\"])').length"),
        0
    );
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

/// Two core routers, four for buildings, and switches with hosts: 40 nodes.
const CAMPUS: &str = r#"
name: campus
nodes:
  "core{c}": {for: {c: 2}, forwarding: true}
  "bld{b}": {for: {b: 4}, forwarding: true}
  "h{b}-{n}": {for: {b: 4, n: 8}}
  dns: {}
  web: {}
switches:
  "sw{b}": {for: {b: 4}}
  srv: {}
links:
  - [core0, core1]
  - {for: {c: 2, b: 4}, ends: ["core{c}", "bld{b}"]}
  - {for: {b: 4}, ends: ["bld{b}", "sw{b}"]}
  - {for: {b: 4, n: 8}, ends: ["h{b}-{n}", "sw{b}"]}
  - [core0, srv]
  - [core1, srv]
  - [dns, srv]
  - [web, srv]
"#;

/// A ring of ten routers with three switches each, and nine hosts at each of these: 280 nodes and 30 switches.
pub(crate) const REGION: &str = r#"
name: region
nodes:
  "r{i}": {for: {i: 10}, forwarding: true}
  "h{i}-{s}-{n}": {for: {i: 10, s: 3, n: 9}}
switches:
  "s{i}-{s}": {for: {i: 10, s: 3}}
links:
  - {for: {i: 9}, ends: ["r{i}", "r{i + 1}"]}
  - [r9, r0]
  - {for: {i: 10, s: 3}, ends: ["r{i}", "s{i}-{s}"]}
  - {for: {i: 10, s: 3, n: 9}, ends: ["h{i}-{s}-{n}", "s{i}-{s}"]}
"#;

/// Shows a lab in both themes, and takes pictures.
fn pictured<T>(name: &str, text: &str, nodes: usize, live: impl FnOnce(&Machine, &Browser) -> T) {
    let machine = Machine::new();
    machine.up(text);
    let page = Page::of(&machine);
    let browser = Browser::start(machine.scratch(), (1440, 900));
    page.open(&browser);
    browser.until(&format!(
        "document.querySelector('header .counts').innerText.startsWith('{nodes} node')"
    ));
    // What it returns goes on until the pictures are taken.
    let lives = live(&machine, &browser);
    for theme in ["light", "dark"] {
        browser.until(&format!("document.documentElement.dataset.theme === '{theme}' || document.querySelector('header button[title^=Dark]').click()"));
        // Two frames: a canvas is painted in the second.
        browser.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
        let path = browser.picture(machine.scratch(), &format!("page-{name}-{theme}"));
        assert!(std::fs::metadata(path).expect("the picture").len() > 10_000, "{name} {theme}");
    }
    drop(lives);
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn labs_of_any_size_are_shown_in_both_themes() {
    needs!("chromium", "chromedriver");
    netloom_tests_e2e::needs_namespaces!();
    pictured("1", "name: one\nnodes: {lonely: {}}\n", 1, |_, _| {});
    let two_sites = std::fs::read_to_string(workspace_root().join("examples/two-sites.yaml"));
    pictured("5", &two_sites.expect("the example"), 5, |machine, browser| {
        machine.netloom(["link", "set", "r1:eth1", "--delay", "20ms", "--loss", "1%"]).ok();
        machine.answers("h1", "web");
        browser.until("document.querySelector('.link.wired')");
        browser.click("[data-link='r1:eth1--r2:eth0'] .line");
        browser.until("document.querySelectorAll('aside .plot canvas').length === 2");
    });
    pictured("40", CAMPUS, 40, |machine, browser| {
        browser.until("document.querySelectorAll('#map > svg .vertex').length === 45");
        machine.netloom(["record", "start"]).ok();
        machine.answers("h0-1", "h3-5");
        let ping = Held::start(machine.exec("h0-1", &["ping", "-4", "-i", "0.2", "h3-5"]));
        browser.type_into("#marker", "h0-1 h3-5\u{e007}");
        // To the building's router, by a core router there and maybe by the other back, and to the other host.
        browser.until("document.querySelectorAll('#map .link.marked').length >= 6");
        ping
    });
    pictured("300", REGION, 280, |_, browser| {
        browser.until("document.querySelector('#map > canvas')");
    });
}

//! Tools of the lab's page in Chromium: switches, markers, the recording, `why`, slices, additions and removals; and what axe says.

use netloom_tests_e2e::browser::Browser;
use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{
    Machine, machine, needs, needs_namespaces, root_only, wait_until, with_command_line,
    workspace_root,
};

use super::page_browser::{Page, REGION, shows};

/// A host at a switch, and a server behind a router; nobody speaks with h2.
const OFFICE: &str = r#"
name: office
pool: {ipv6: none}
nodes:
  h1: {}
  h2: {}
  r1: {forwarding: true}
  web: {}
switches: {s1: {}}
links: [[h1, s1], [h2, s1], [s1, r1], [r1, web]]
"#;

/// Switches in shared memory with VLANs, and of OpenFlow with slices.
const SWITCHES: &str = r#"
name: switches
nodes: {red: {}, rose: {}, blue: {}, h1: {}, h2: {}, h3: {}, h4: {}}
switches:
  s1: {kind: shm, ports: {red: {vlan: 10}, rose: {vlan: 10}, blue: {vlan: 20}}}
  of: {kind: openflow}
links: [[red, s1], [rose, s1], [blue, s1], [h1, of], [h2, of], [h3, of], [h4, of]]
slices:
  left: {switches: {of: {ports: [h1, h2]}}}
  right: {switches: {of: {ports: [h3, h4]}}}
"#;

/// What axe-core finds wrong with the page as it is now, in both themes.
fn violations(browser: &Browser, place: &str) {
    let axe = workspace_root().join("target/web/node_modules/axe-core/axe.min.js");
    browser.run(&std::fs::read_to_string(axe).expect("its probe has found it"));
    for theme in ["light", "dark"] {
        browser.until(&format!("document.documentElement.dataset.theme === '{theme}' || document.querySelector('header button[title^=Dark]').click()"));
        let found = browser.value(
            "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map(({id, nodes}) => \
             id + ': ' + nodes.map(({target}) => target.join(' ')).join(', ')))",
        );
        assert_eq!(found, serde_json::json!([]), "{place}, {theme}");
    }
}

fn opened(machine: &Machine) -> (Page, Browser) {
    let page = Page::of(machine);
    let browser = Browser::start(machine.scratch(), (1440, 900));
    page.open(&browser);
    (page, browser)
}

/// Waits until just these links are marked.
fn marked(browser: &Browser, links: &[&str]) {
    let links = serde_json::json!(links);
    browser.until(&format!(
        "JSON.stringify([...document.querySelectorAll('#map .link.marked')].map((e) => e.dataset.link).sort()) === JSON.stringify({links}.sort())"
    ));
}

/// The number of arrowheads on a link.
fn arrows(link: &str) -> String {
    format!(
        "document.querySelector(\"[data-link='{link}'] .heads\").getAttribute('d').split('M').length - 1"
    )
}

const WAY: [&str; 3] = ["h1:eth0--s1", "s1--r1:eth0", "r1:eth1--web:eth0"];

#[test]
fn a_filter_lights_the_links_that_its_packets_cross() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(OFFICE);
    machine.answers("h1", "web");
    let (page, browser) = opened(&machine);
    // Without a recording it says what to do.
    browser.type_into("#marker", "h1 web icmp\u{e007}");
    browser.until(
        "document.querySelector('.marker .trouble')?.innerText.includes('netloom record start')",
    );
    machine.netloom(["record", "start"]).ok();
    let ping = Held::start(machine.exec("h1", &["ping", "-4", "-i", "0.2", "web"]));
    marked(&browser, &WAY);
    for link in WAY {
        browser.until(&format!("{} === 2", arrows(link)));
    }
    browser.until("document.querySelector('.marker p').innerText.endsWith('in the last 3 s')");
    browser.click("#unmark");
    marked(&browser, &[]);
    // The packets of a link, and the way of one of them: one direction.
    browser.click("[data-link='r1:eth1--web:eth0'] .line");
    browser.click("#packets-on");
    browser.click("#packets .pick");
    marked(&browser, &WAY);
    for link in WAY {
        browser.until(&format!("{} === 1", arrows(link)));
    }
    assert!(browser.text(".marker p").contains("icmp echo"), "{}", browser.text(".marker p"));
    drop(ping);
    // Now nothing passes, and the slider finds what passed.
    browser.click(".marker button[type=submit]");
    browser.until("document.querySelector('.marker p').innerText.startsWith('No such packet')");
    marked(&browser, &[]);
    browser.until(
        "(() => { if (document.querySelectorAll('#map .link.marked').length === 3) return true; \
         const when = document.querySelector('#when'); window.back = (window.back ?? 0) + 1; \
         when.value = String(when.max - window.back); when.dispatchEvent(new Event('input')); })()",
    );
    browser.until("/ in 3 s until \\d\\d:/.test(document.querySelector('.marker p').innerText)");
    page.refused(&browser, &[409]);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn why_names_the_link_that_loses_a_flow_and_ping_tells_times() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(OFFICE);
    machine.answers("h1", "web");
    let (page, browser) = opened(&machine);
    browser.click("[data-key='node h1'] .shape");
    browser.until("document.querySelector('#reach')");
    browser.type_into("#reach input[name=target]", "web");
    browser.click("#ask-ping");
    browser.until("document.querySelector('#pinged')?.innerText.includes(' ms')");
    shows(&browser, "#reach .command code", "netloom -l office why h1 web");
    browser.click("#ask-why");
    shows(&browser, "#why .badge", "arrives, and is answered");
    marked(&browser, &WAY);
    machine.netloom(["link", "set", "r1:eth1", "--drop", "icmp"]).ok();
    browser.click("#ask-why");
    shows(&browser, "#why .badge", "does not arrive");
    browser.until("document.querySelector('.causes b')?.innerText === 'link r1:eth1--web:eth0'");
    browser.until("document.querySelector(\"[data-link='r1:eth1--web:eth0'].marked.lost\")");
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn fates_tell_what_a_wire_does_and_a_known_lab_is_laid_out_once() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(OFFICE);
    machine.netloom(["link", "set", "r1:eth1", "--delay", "5ms", "--drop", "udp"]).ok();
    machine.answers("h1", "web");
    let (page, browser) = opened(&machine);
    let layouts = || {
        let asked = browser.requested();
        asked.iter().filter(|url| url.ends_with("/v1/lab/layout")).count()
    };
    assert_eq!(layouts(), 1);
    browser.run("location.reload()");
    browser.until("document.body.dataset.hearing === 'live'");
    browser.until("document.querySelectorAll('#map > svg .vertex').length === 5");
    assert_eq!(layouts(), 0);
    browser.click("[data-link='r1:eth1--web:eth0'] .line");
    browser.click("#fates-on");
    let ping = Held::start(machine.exec("h1", &["ping", "-4", "-i", "0.2", "web"]));
    browser.until("document.querySelector('#fates')?.innerText.includes('held ')");
    let datagram =
        "import socket, sys; socket.socket(2, 2).sendto(b'x', (socket.gethostbyname('web'), 9))";
    machine.python("h1", datagram, &[]).finish().code(0);
    browser.until("document.querySelector('#fates .bad')?.innerText.includes('lost: drop')");
    browser.until("document.querySelector('aside').innerText.includes('1 lost by drop')");
    browser.click("#fates-on");
    drop(ping);
    // The button back by hand forgets what is known.
    browser.requested();
    browser.click("button[title='Undo moves by hand']");
    wait_until("the layout is asked for", SOON, || (layouts() == 1).then_some(()));
    // Where everything stands is a part of a lab file.
    browser.click("#places");
    browser.until("document.querySelector('#places-text')");
    let lines = "[...document.querySelectorAll('#places-text > div')].map((e) => e.textContent).join('\\n')";
    let places = browser.value(lines);
    let places = places.as_str().expect("a text");
    assert!(places.starts_with("x-layout:\n") && places.contains("\n  web: ["), "{places}");
    let file = machine.file(&format!("{}{places}\n", OFFICE.replace("office", "placed")));
    machine.netloom([std::ffi::OsStr::new("check"), file.as_os_str()]).ok();
    page.refused(&browser, &[]);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn a_measurement_goes_on_hop_by_hop_on_the_map() {
    needs!("chromium", "chromedriver");
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(OFFICE);
    machine.answers("h1", "web");
    // From the first block on: a wire that comes meanwhile is a point that no block has.
    machine.netloom(["link", "set", "r1:eth1", "--delay", "1ms"]).ok();
    let ping = Held::start(machine.exec("h1", &["ping", "-4", "-q", "-i", "0.05", "web"]));
    let (page, browser) = opened(&machine);
    browser.click("[data-key='node h1'] .shape");
    browser.until("document.querySelector('#reach')");
    browser.type_into("#reach input[name=target]", "web");
    browser.click("#ask-measure");
    marked(&browser, &WAY);
    let label =
        |link: &str| format!("document.querySelector(\"[data-link='{link}'] .rate\").textContent");
    for link in WAY {
        browser.until(&format!("{} === 2", arrows(link)));
        browser.until(&format!("/^\\d.* ms \\/ \\d.* ms$/.test({})", label(link)));
    }
    let rows = "document.querySelectorAll('#hops tbody tr').length";
    browser.until(&format!("{rows} === 12"));
    let lossy = WAY[2];
    machine.netloom(["link", "set", "r1:eth1", "--drop", "icmp"]).ok();
    browser.until(&format!("/−\\d/.test({})", label(lossy)));
    browser.until(&format!("document.querySelector(\"[data-link='{lossy}'].marked.lost\")"));
    browser.until("[...document.querySelectorAll('#hops .bad')].length === 1");
    browser.picture(machine.scratch(), "page-measured");
    let measures = || {
        let runtime = machine.scratch().runtime_dir().display().to_string();
        let is_own = |pid: &i32| {
            let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&all).contains(&runtime)
        };
        with_command_line("measure-process").iter().filter(|pid| is_own(pid)).count()
    };
    assert_eq!(measures(), 1);
    browser.click("#stop-measure");
    browser.until("document.querySelector('#ask-measure:enabled')");
    wait_until("it ends", SOON, || (measures() == 0).then_some(()));
    drop(ping);
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

/// Keeps the texts that are painted on a canvas, which has no elements to ask.
const PAINTED: &str = "
window.painted = new Set();
const own = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  window.painted.add(text);
  return own.call(this, text, ...where);
};
";

#[test]
fn a_large_map_tells_delays_and_rates_at_its_links() {
    needs!("chromium", "chromedriver");
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(REGION);
    machine.answers("h0-0-0", "h0-0-1");
    let ping = Held::start(machine.exec("h0-0-0", &["ping", "-4", "-q", "-i", "0.05", "h0-0-1"]));
    let (page, browser) = opened(&machine);
    browser.until("document.querySelector('#map > canvas')");
    browser.run(PAINTED);
    let says = |what: &str| {
        browser.until(&format!("[...window.painted].some((text) => {what}.test(text))"))
    };
    // Rates have room where links are long.
    (0..12).for_each(|_| browser.click("[aria-label='Zoom in']"));
    says("/bit\\/s$/");
    browser.press("/");
    browser.keys("h0-0-0\u{e007}");
    browser.until("document.querySelector('#reach')");
    browser.type_into("#reach input[name=target]", "h0-0-1");
    browser.click("#ask-measure");
    says("/^\\d.* ms \\/ \\d.* ms$/");
    browser.click("#stop-measure");
    browser.until("document.querySelector('#ask-measure:enabled')");
    drop(ping);
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn a_switch_shows_its_ports_addresses_traces_and_slices() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(SWITCHES);
    machine.answers("red", "rose");
    let (page, browser) = opened(&machine);
    browser.click("[data-key='switch s1'] .shape");
    browser.until("[...document.querySelectorAll('#ports tbody tr')].map((e) => [...e.cells].slice(0, 3).map((c) => c.innerText).join(' ')).join() === '1 blue:eth0 20,2 red:eth0 10,3 rose:eth0 10'");
    // What red sent is known where it goes to, and in its VLAN.
    browser.until("[...document.querySelectorAll('#macs tbody tr')].some((e) => e.cells[1].innerText === '10' && e.cells[2].innerText === 'red:eth0')");
    browser.click("[data-key='switch of'] .shape");
    browser.until("document.querySelector('#trace')");
    machine.ok("flow add of in_port=1,icmp,actions=output:2");
    browser.click("#trace button[type=submit]");
    browser.until("document.querySelector('.traced')?.innerText.includes('Leaves by 2 h2:eth0')");
    // Its entries, until there are none like that.
    let entry = "[...document.querySelectorAll('#flows tbody tr')].some((e) => e.cells[2].innerText.includes('icmp') && \
                 e.cells[3].innerText.includes('output:2'))";
    browser.until(entry);
    machine.ok("flow del of icmp");
    browser.until(&format!("!{entry}"));
    let status = |name: &str| {
        let headers = "{headers: {authorization: `Bearer ${sessionStorage['netloom-token']}`}}";
        browser.value(&format!(
            "fetch('/v1/switches/{name}/flows', {headers}).then(({{status}}) => status)"
        ))
    };
    // None of the lab, and none that is asked over OpenFlow.
    assert_eq!(["of", "nothing", "tcp:127.0.0.1:1", "s1"].map(status), [200, 404, 404, 400]);
    page.refused(&browser, &[404, 400]);
    browser.click("#slices");
    browser.until("document.querySelector('.slices-box')?.innerText === 'left\\nright'");
    let colours = "['h1', 'h2', 'h3', 'h4'].map((n) => document.querySelector(`[data-link='${n}:eth0--of'] .tints path`)?.style.stroke.slice(-2, -1)).join('')";
    browser.until(&format!("{colours} === '0011'"));
    assert_eq!(
        browser
            .value("document.querySelectorAll(\"[data-link='red:eth0--s1'] .tints path\").length"),
        0
    );
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn nodes_and_links_are_added_and_deleted_by_hand() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(OFFICE);
    let (page, browser) = opened(&machine);
    browser.press("a");
    browser.until("document.querySelector('dialog[open] input[name=add-name]')");
    browser.type_into("input[name=add-name]", "h3");
    shows(&browser, "#add-command", "netloom -l office node create h3");
    browser.click("dialog button[type=submit]");
    browser.until("document.querySelector(\"[data-key='node h3']\")");
    browser.click("dialog .switcher button:last-child");
    browser.type_into("input[name=add-a]", "h3");
    browser.type_into("input[name=add-b]", "s1");
    browser.type_into("input[name=add-settings]", "delay=1ms");
    shows(&browser, "#add-command", "netloom -l office link create h3 s1 --delay 1ms");
    browser.click("dialog button[type=submit]");
    browser.until("document.querySelector(\"[data-link='h3:eth0--s1']\")");
    machine.answers("h3", "h1");
    // What the lab refuses is said in its words.
    browser.type_into("input[name=add-a]", "h3");
    browser.type_into("input[name=add-b]", "nobody");
    browser.click("dialog button[type=submit]");
    browser.until("document.querySelector('dialog .trouble')?.innerText.includes('nobody')");
    page.refused(&browser, &[404]);
    browser.press("\u{e00c}");
    browser.until("!document.querySelector('dialog')");
    // Deleting tells what goes with it, and its command, and waits for a second press.
    browser.click("[data-key='node h3'] .shape");
    browser.click("#remove");
    browser.until("document.querySelector('#remove-now')");
    let words = browser.text("aside .section:last-child");
    assert!(words.contains("With it go 1 link (h3:eth0--s1)."), "{words}");
    assert!(words.contains("netloom -l office node delete h3"), "{words}");
    assert_eq!(machine.node("h3")["state"], "up");
    browser.click("#remove-now");
    browser.until("!document.querySelector(\"[data-key='node h3']\")");
    browser.until("!document.querySelector(\"[data-link='h3:eth0--s1']\")");
    machine.netloom(["node", "show", "h3"]).finish().code(1);
    // The panel may have waited for output of the node that went.
    let left = browser.logged();
    assert!(
        left.iter().all(|line| line.contains("/v1/nodes/h3") && line.contains("404")),
        "{left:?}"
    );
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn axe_finds_nothing_wrong_in_either_theme() {
    needs!("chromium", "chromedriver", "axe-core");
    needs_namespaces!();
    let machine = Machine::new();
    machine.up(SWITCHES);
    machine.answers("red", "rose");
    machine.netloom(["link", "set", "red:eth0", "--delay", "20ms", "--loss", "1%"]).ok();
    let (page, browser) = opened(&machine);
    browser.until("document.querySelector('.link.wired')");
    violations(&browser, "overview");
    for (selector, shown) in [
        ("[data-key='node red'] .shape", "aside #reach"),
        ("[data-link='red:eth0--s1'] .line", "aside .plot canvas"),
        ("[data-key='switch s1'] .shape", "aside #macs"),
        ("[data-key='switch of'] .shape", "aside #trace"),
    ] {
        browser.click(selector);
        browser.until(&format!("document.querySelector('{shown}')"));
        violations(&browser, selector);
    }
    browser.click("#trace button[type=submit]");
    browser.until("document.querySelector('.traced')");
    browser.click("#slices");
    browser.until("document.querySelector('.slices-box')");
    browser.click("#remove");
    violations(&browser, "trace, slices, delete");
    browser.click("[data-key='node red'] .shape");
    browser.click("#enter");
    browser.until("document.querySelector('.terminal-state')?.innerText === ''");
    browser.until("document.querySelector('.xterm-rows > div')");
    violations(&browser, "terminal");
    browser.click("#terminal-close");
    browser.click("header h1");
    for (key, shown) in [
        ("a", "dialog #add-title"),
        ("f", "dialog #file-command"),
        ("?", "dialog #keys-title"),
        ("l", "main table"),
    ] {
        browser.press(key);
        browser.until(&format!("document.querySelector('{shown}')"));
        violations(&browser, key);
        browser.press("\u{e00c}");
        browser.until("!document.querySelector('dialog')");
    }
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

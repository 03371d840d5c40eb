//! A real browser: Chromium without a window, driven by its chromedriver over HTTP (W3C WebDriver).
//!
//! It resolves no name and has no proxy, so it reaches nothing but this machine. What it logs and what it asks for over the
//! network is kept for the test to look at. It ends with the [`Browser`].

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::Duration;

use netloom_kit::{Run, Scratch, program, wait_until};
use serde_json::{Value, json};

use crate::live::SOON;
use crate::{descendants, live};

/// Names of the browser in distributions.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The key of an element's reference in answers (WebDriver, section 12).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Flags: no window, no sandbox of its own (root has none), nothing in the background, nothing beyond this machine.
const FLAGS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A browser with one window.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    /// Chromedriver goes on writing, and must be able to.
    _output: BufReader<ChildStdout>,
    agent: ureq::Agent,
    session: String,
    downloads: PathBuf,
}

impl Browser {
    /// Starts one with a window of this size and its files in the folder.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(scratch: &Scratch, (width, height): (u32, u32)) -> Browser {
        let home = scratch.path().join("browser");
        std::fs::create_dir_all(&home).expect("make its folder");
        let (driver, output, port) = started(&home);
        let config = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(SOON))
            .build();
        let mut browser = Browser {
            driver,
            _output: output,
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
            downloads: home.join("downloads"),
        };
        let binary = NAMES.into_iter().find_map(program).expect("its probe has found it");
        let answer = browser.post("", &capabilities(&binary, &home, width, height));
        let id = answer["sessionId"].as_str().expect("a session").to_owned();
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    /// One command; its value.
    fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let sent = self.agent.post(&url).content_type("application/json").send(body.to_string());
        let text = sent.and_then(|mut answer| answer.body_mut().read_to_string());
        let text = text.unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut answer: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let value = answer["value"].take();
        assert!(value["error"].is_null(), "{path} {body}: {value}");
        value
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    pub fn value(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": format!("return ({script});"), "args": []}))
    }

    /// Runs statements in the page, whatever its policy says of scripts.
    pub fn run(&self, script: &str) {
        self.post("/execute/sync", &json!({"script": script, "args": []}));
    }

    /// Waits until an expression in the page is true.
    pub fn until(&self, script: &str) {
        wait_until(&format!("{script} in the page"), SOON, || {
            (self.value(&format!("Boolean({script})")) == true).then_some(())
        });
    }

    /// The text of the first element that the selector means; it has to come.
    pub fn text(&self, selector: &str) -> String {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})"));
        let text = self.value(&format!("document.querySelector({selector}).innerText"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses and releases the mouse in the middle of what the selector means, whatever is there.
    ///
    /// # Panics
    /// When it is not to be seen.
    pub fn click(&self, selector: &str) {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})"));
        self.click_at(&format!(
            "(() => {{ const e = document.querySelector({selector}); e.scrollIntoView({{block: 'nearest'}}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ));
    }

    /// Presses and releases the mouse at a place in the window: an expression with both coordinates.
    ///
    /// # Panics
    /// The window does not have that place.
    pub fn click_at(&self, place: &str) {
        let middle = self.value(place);
        let at = |index: usize| middle[index].as_f64().expect("a place").round();
        self.post(
            "/actions",
            &json!({"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
                {"type": "pointerMove", "duration": 0, "x": at(0), "y": at(1)},
                {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
            ]}]}),
        );
    }

    /// Types into what the selector means.
    ///
    /// # Panics
    /// When there is no such element.
    pub fn type_into(&self, selector: &str, text: &str) {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        let id = found[ELEMENT].as_str().expect("an element");
        self.post(&format!("/element/{id}/value"), &json!({"text": text}));
    }

    /// Presses a key, wherever the focus is.
    pub fn press(&self, key: &str) {
        let both = ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key}));
        self.post(
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": both}]}),
        );
    }

    /// Presses and releases the mouse twice at a place in the window: an expression with both coordinates.
    ///
    /// # Panics
    /// The window does not have that place.
    pub fn double_click_at(&self, place: &str) {
        let middle = self.value(place);
        let at = |index: usize| middle[index].as_f64().expect("a place").round();
        let [down, up] =
            ["pointerDown", "pointerUp"].map(|kind| json!({"type": kind, "button": 0}));
        let to = json!({"type": "pointerMove", "duration": 0, "x": at(0), "y": at(1)});
        let acts = json!([to, down, up, down, up]);
        self.post(
            "/actions",
            &json!({"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": acts}]}),
        );
    }

    /// Presses the keys of a text one after the other, wherever the focus is.
    pub fn keys(&self, text: &str) {
        let both = |key: char| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key}));
        let all: Vec<Value> = text.chars().flat_map(both).collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": all}]}));
    }

    /// The folder of files that pages save.
    pub fn downloads(&self) -> &Path {
        &self.downloads
    }

    /// What the page has logged since the last look: errors, warnings, reports of its policy.
    pub fn logged(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().expect("a list").iter();
        entries.map(|entry| format!("{} {}", entry["level"], entry["message"])).collect()
    }

    /// The addresses of all requests to servers since the last look; a browser's own pages are none.
    ///
    /// # Panics
    /// When the log has another form.
    pub fn requested(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "performance"}));
        let url = |entry: &Value| {
            let text = entry["message"].as_str().expect("a text");
            let told: Value = serde_json::from_str(text).expect("JSON");
            let is_request = told["message"]["method"] == "Network.requestWillBeSent";
            let url = told["message"]["params"]["request"]["url"].as_str().unwrap_or_default();
            let to_server = !["chrome:", "data:", "about:"].iter().any(|own| url.starts_with(own));
            (is_request && to_server).then(|| url.to_owned())
        };
        entries.as_array().expect("a list").iter().filter_map(url).collect()
    }

    /// A picture of the window: a PNG file in the folder that `NETLOOM_SCREENSHOTS` names, else beside the test's files.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn picture(&self, scratch: &Scratch, name: &str) -> PathBuf {
        let url = format!("{}/screenshot", self.session);
        let text = self.agent.get(&url).call().and_then(|mut answer| {
            answer.body_mut().with_config().limit(64 << 20).read_to_string()
        });
        let answer: Value = serde_json::from_str(&text.expect("a picture")).expect("JSON");
        let bytes = decoded(answer["value"].as_str().expect("a text"));
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "not a PNG");
        let folder = std::env::var_os("NETLOOM_SCREENSHOTS").map(PathBuf::from);
        let path = folder.unwrap_or_else(|| scratch.path().to_owned()).join(format!("{name}.png"));
        std::fs::write(&path, bytes).expect("write the picture");
        path
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let own = descendants(self.driver.id().cast_signed());
        let end = self.agent.delete(&self.session);
        // What has not ended by itself is killed.
        drop(end.config().timeout_global(Some(Duration::from_secs(20))).build().call());
        for pid in own.into_iter().rev() {
            if !live::gone(pid)
                && let Some(pid) = rustix::process::Pid::from_raw(pid)
            {
                // It may end meanwhile.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        drop(self.driver.wait());
    }
}

/// chromedriver, and the port that it listens on. It takes a free port of IPv6 and then the same of IPv4, which somebody else may
/// have (ChromeDriver 156): another one takes another.
fn started(home: &Path) -> (Child, BufReader<ChildStdout>, u16) {
    loop {
        let run = Run::new(program("chromedriver").expect("its probe has found it"));
        let mut driver = run.args(["--port=0"]).env("HOME", home).env("TMPDIR", home).spawn();
        let mut output = BufReader::new(driver.stdout.take().expect("stdout is piped"));
        match port(&mut output) {
            Ok(port) => return (driver, output, port),
            Err(said) => {
                assert!(said.contains("port not available"), "chromedriver ended: {said}");
                driver.wait().expect("its end");
            }
        }
    }
}

/// The port that chromedriver says it listens on, or all that it said.
fn port(output: &mut impl BufRead) -> Result<u16, String> {
    let mut all = String::new();
    while output.read_line(&mut all).expect("its output") > 0 {
        let words = all.rsplit_once("started successfully on port ").map(|(_, rest)| rest);
        let digits = words.map(|rest| rest.trim().trim_end_matches('.'));
        if let Some(port) = digits.and_then(|digits| digits.parse().ok()) {
            return Ok(port);
        }
    }
    Err(all)
}

fn capabilities(binary: &Path, home: &Path, width: u32, height: u32) -> Value {
    let mut args: Vec<String> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
    args.push(format!("--window-size={width},{height}"));
    args.push(format!("--user-data-dir={}", home.join("data").display()));
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "goog:chromeOptions": {"binary": binary, "args": args, "prefs": {
            "download.default_directory": home.join("downloads"),
            "download.prompt_for_download": false,
        }},
    }}})
}

/// What base64 stands for (RFC 4648, section 4).
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [0_u8; 256];
    for (value, letter) in (0_u8..).zip(LETTERS) {
        values[usize::from(*letter)] = value;
    }
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let group = |four: &[u8]| {
        let bits =
            four.iter().fold(0_u32, |bits, byte| bits << 6 | u32::from(values[usize::from(*byte)]));
        let bits = bits << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

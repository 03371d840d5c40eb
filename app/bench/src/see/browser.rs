//! Chromium without a window, driven by its chromedriver (W3C WebDriver, over HTTP).
//!
//! It resolves no name and has no proxy, so it reaches nothing but this machine, and ends with the value.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::processes;

/// Names of the browser in distributions.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at the page.
const LOOK: Duration = Duration::from_millis(10);

/// Flags: no window, no sandbox of its own (root has none), nothing in the background, nothing beyond this machine.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// The version of the browser, if it and its driver are installed.
pub(super) fn version() -> Option<String> {
    output(Command::new("chromedriver").arg("--version")).ok()?;
    NAMES.iter().find_map(|name| {
        let told = output(Command::new(name).args(["--version", "--no-sandbox"])).ok()?;
        told.split_whitespace().find(|word| word.contains('.')).map(str::to_owned)
    })
}

/// A browser with one window.
pub(super) struct Browser {
    agent: ureq::Agent,
    session: String,
    /// Ends last; the browser ends with it.
    driver: Daemon,
}

impl Browser {
    /// Starts one with a window of this size, and a script that every page begins with.
    pub(super) fn start(driver: &Driver, size: (u32, u32), first: &str) -> Result<Browser> {
        let home = driver.folder().join("browser");
        std::fs::create_dir_all(&home).with_context(|| format!("make {}", home.display()))?;
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").env("HOME", &home).env("TMPDIR", &home);
        let daemon = Daemon::start(driver, &mut command, "chromedriver")?;
        let daemon = daemon.until(|daemon| port(&daemon.said()).is_some())?;
        let port = port(&daemon.said()).context("chromedriver: no port")?;
        let config = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        let session = format!("http://127.0.0.1:{port}/session");
        let mut browser = Browser { agent: config.into(), session, driver: daemon };
        let answer = browser.post("", &capabilities(&home, size))?;
        let id = answer["sessionId"].as_str().context("chromedriver: no session")?;
        browser.session = format!("{}/{id}", browser.session);
        let script = json!({"source": first});
        let command = json!({"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": script});
        browser.post("/goog/cdp/execute", &command)?;
        Ok(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.session);
        let sent = self.agent.post(&url).content_type("application/json").send(body.to_string());
        let text = sent.and_then(|mut answer| answer.body_mut().read_to_string());
        let text = text.with_context(|| format!("ask chromedriver for {path}"))?;
        let mut answer: Value = serde_json::from_str(&text).context("read its answer")?;
        let value = answer["value"].take();
        match value["error"].is_null() {
            true => Ok(value),
            false => bail!("chromedriver: {path}: {value}"),
        }
    }

    /// Opens a page.
    pub(super) fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({"url": url})).map(drop)
    }

    /// Runs statements in the page; what they return.
    pub(super) fn run(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression in the page is neither false nor null; its value.
    pub(super) fn until(&self, script: &str) -> Result<Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            let value = self.run(&format!("return ({script}) || null;"))?;
            if !value.is_null() {
                return Ok(value);
            }
            if Instant::now() > end {
                bail!("the page: not in {PATIENCE:?}: {script}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Moves the mouse to a place in the window, presses and releases it.
    pub(super) fn click(&self, [x, y]: [f64; 2]) -> Result<()> {
        let acts = json!([
            {"type": "pointerMove", "duration": 0, "x": x.round(), "y": y.round()},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]);
        let mouse = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": acts});
        self.post("/actions", &json!({"actions": [mouse]})).map(drop)
    }

    /// All processes of the browser, its driver not among them.
    pub(super) fn pids(&self) -> Vec<u32> {
        processes::tree(self.driver.pid()).into_iter().skip(1).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let left = self.pids();
        // Without an answer it is ended with the driver, or here.
        let _ = self.agent.delete(&self.session).call();
        let end = Instant::now() + Duration::from_secs(10);
        while left.iter().any(|pid| lives(*pid)) && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        for pid in left.into_iter().filter(|pid| lives(*pid)) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

fn lives(pid: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    line.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The port that chromedriver says it listens on.
fn port(said: &str) -> Option<u16> {
    let rest = said.rsplit_once("started successfully on port ")?.1;
    rest.lines().next()?.trim().trim_end_matches('.').parse().ok()
}

fn capabilities(home: &Path, (width, height): (u32, u32)) -> Value {
    let mut args: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    args.push(format!("--window-size={width},{height}"));
    args.push(format!("--user-data-dir={}", home.join("data").display()));
    let found: Option<PathBuf> = NAMES.iter().find_map(|name| program(name));
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": found, "args": args},
    }}})
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_once_it_is_told_whole() {
        let said = "Starting ChromeDriver\nChromeDriver was started successfully on port 4711.\n";
        assert_eq!(port(said), Some(4711));
        assert_eq!(port("Starting ChromeDriver\nOnly local connections\n"), None);
    }
}

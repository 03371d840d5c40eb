//! The page of `netloom serve --page` in Chromium: what it costs while it is open, and how soon it is there and answers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::daemon::Daemon;
use crate::driver::Driver;
use crate::see::Spent;
use crate::see::browser::Browser;

/// The window.
const SIZE: (u32, u32) = (1440, 900);
/// After a page is there: what its loading costs is not what it costs to be open.
const SETTLE: Duration = Duration::from_secs(3);
/// How long CPU time is counted.
const WINDOW: Duration = Duration::from_secs(5);

/// Notes when the frame after the map is shown.
const FIRST: &str = "
const seen = new MutationObserver(() => {
  if (!document.querySelector('#map > svg .vertex, #map > canvas')) return;
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.mapDrawn = performance.now(); }));
});
seen.observe(document, { childList: true, subtree: true });
";

/// Looks for places on the map where something is, far from each other, as a pointer would find them.
const PLACES: &str = "
const box = document.querySelector('#map');
const { left, top, width, height } = box.getBoundingClientRect();
const found = [];
for (let row = 1; row < 8; row += 1) {
  for (let column = 0; column < 10; column += 1) {
    const middle = left + width * (0.15 + column * 0.07);
    const clientY = top + height * (0.15 + row * 0.08);
    for (let clientX = middle; clientX < middle + 40; clientX += 4) {
      box.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY, bubbles: true }));
      if (!box.classList.contains('over') || document.elementFromPoint(clientX, clientY)?.closest('#map') !== box) continue;
      found.push([clientX, clientY]);
      break;
    }
  }
}
return found;
";

/// Notes how long after the release of the mouse a frame with the panel of what was clicked is shown.
const WATCH: &str = "
window.answered = null;
let released = 0;
addEventListener('pointerup', (event) => { released = event.timeStamp; }, { capture: true, once: true });
const seen = new MutationObserver(() => {
  if (released === 0 || !document.querySelector('aside .close')) return;
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.answered = performance.now() - released; }));
});
seen.observe(document.body, { childList: true, subtree: true });
";

/// Closes the panel.
const CLOSE: &str = "document.querySelector('aside .close')?.click();";

/// A lab's page that is served.
pub(super) struct Page {
    browser: Browser,
    server: Daemon,
    link: String,
}

/// A round: percentages of a core, and milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Open {
    pub(super) lab: f64,
    pub(super) server: f64,
    pub(super) browser: f64,
    pub(super) paint_ms: f64,
    pub(super) map_ms: f64,
}

impl Page {
    pub(super) fn of(driver: &Driver, lab: &str) -> Result<Page> {
        let mut command = driver.command();
        command.args(["-l", lab, "serve", "--page", "--listen", "127.0.0.1:0"]);
        let server = Daemon::start(driver, &mut command, &format!("serve-{lab}"))?;
        let server = server.until(|server| link(&server.said()).is_some())?;
        let link = link(&server.said()).context("netloom serve: no link")?;
        let browser = Browser::start(driver, SIZE, FIRST)?;
        Ok(Page { browser, server, link })
    }

    /// Opens it, from the start or again, and waits for the map.
    fn open(&self) -> Result<[f64; 2]> {
        self.browser.open("about:blank")?;
        self.browser.open(&self.link)?;
        let map = self.browser.until("window.mapDrawn")?.as_f64().context("no time")?;
        let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        let paint = self.browser.until(paint)?.as_f64().context("no time")?;
        Ok([paint, map])
    }

    /// What it costs to be open.
    pub(super) fn cost(&self, lab_pid: u32) -> Result<Open> {
        let [paint_ms, map_ms] = self.open()?;
        std::thread::sleep(SETTLE);
        let all = [vec![lab_pid], vec![self.server.pid()], self.browser.pids()];
        let (spent, start) = (all.map(Spent::begin), Instant::now());
        std::thread::sleep(WINDOW);
        let took = start.elapsed();
        let [lab, server, mut browser] = spent;
        // It may have started another process meanwhile.
        browser.also(self.browser.pids());
        let [lab, server, browser] = [lab, server, browser].map(|spent| spent.percent(took));
        Ok(Open { lab, server, browser, paint_ms, map_ms })
    }

    /// Milliseconds from clicks on the map until their panels are shown, one after the other.
    pub(super) fn clicks(&self, count: usize) -> Result<Vec<f64>> {
        self.open()?;
        std::thread::sleep(SETTLE);
        let places: Vec<[f64; 2]> =
            serde_json::from_value(self.browser.run(PLACES)?).context("read places")?;
        if places.len() < count {
            bail!(
                "something is at {} places of the map, and {count} are to be clicked",
                places.len()
            );
        }
        // All over the map.
        let step = places.len() / count;
        let clicked = places.into_iter().step_by(step).take(count);
        clicked.map(|place| self.answered(place)).collect()
    }

    fn answered(&self, place: [f64; 2]) -> Result<f64> {
        self.browser.run(WATCH)?;
        self.browser.click(place)?;
        let ms = self.browser.until("window.answered")?.as_f64().context("no time")?;
        self.browser.run(CLOSE)?;
        self.browser.until("!document.querySelector('aside .close')")?;
        Ok(ms)
    }
}

/// The link in what the server says.
fn link(said: &str) -> Option<String> {
    let line = said.lines().find_map(|line| line.strip_prefix("page "))?;
    said.contains(&format!("{line}\n")).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_once_its_line_is_whole() {
        let said = "serving lab x\nhow\npage http://127.0.0.1:1/#abc";
        assert_eq!(link(said), None);
        assert_eq!(link(&format!("{said}\n")).as_deref(), Some("http://127.0.0.1:1/#abc"));
    }
}

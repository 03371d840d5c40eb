//! Frames between processes: throughput, latency, and the memory of an additional edge.

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_shm::name;
use serde_json::Value;

use crate::driver::Driver;
use crate::running::{Running, number};
use crate::vde::VdeSwitch;

/// Name of netloom's switch.
const SWITCH: &str = "bench";
/// The plug-in for libvdeplug, in the binary's folder.
const PLUGIN: &str = "libvdeplug_netloom.so";
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Seconds before frames are counted.
const SKIP: f64 = 0.2;
/// Time for announcements, and for frames on their way.
const SETTLE: Duration = Duration::from_millis(100);
/// Bytes of a ping-pong frame.
pub(super) const BALL: u32 = 60;

/// How programs join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Joining {
    /// netloom's switch, through libvdeplug and netloom's plug-in.
    Plugin,
    /// vde_switch, through libvdeplug.
    Vde,
    /// netloom's switch, through libvdeplug and the folder of vde_switch.
    Folder,
    /// netloom's switch, through its library, publishing every frame at once.
    Library,
    /// netloom's switch, through its library, publishing in batches of 64.
    Batches,
}

impl Joining {
    pub(super) const ALL: [Joining; 5] =
        [Joining::Plugin, Joining::Vde, Joining::Folder, Joining::Library, Joining::Batches];

    pub(super) fn title(self) -> &'static str {
        match self {
            Joining::Plugin => "netloom",
            Joining::Vde => "vde_switch",
            Joining::Folder => "netloom, vde_switch's clients",
            Joining::Library => "netloom library",
            Joining::Batches => "netloom library, batches",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Joining::Plugin => "libvdeplug with netloom's plug-in; poll, then drain",
            Joining::Vde => "libvdeplug, vde_switch -n 32; sender blocks; poll, then drain",
            Joining::Folder => "libvdeplug, `vde: true`; sender blocks; poll, then drain",
            Joining::Library => "Rust library; poll, then drain",
            Joining::Batches => "Rust library, 64 frames a flush; poll, then drain",
        }
    }
}

/// How a ping-pong waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    /// In poll(2), both ends sharing one core: where a scheduler, unless busy, puts processes that wake each
    /// other.
    Block,
    /// In poll(2), each end on its own core.
    Apart,
    /// Polling without sleep.
    Spin,
    /// As netloom's library does: polls for some microseconds, then sleeps.
    Wait,
}

impl How {
    /// Its name in the rows.
    pub(super) fn title(self) -> &'static str {
        match self {
            How::Block => "asleep between, one core",
            How::Apart => "asleep between, two cores",
            How::Spin => "spinning",
            How::Wait => "waiting as the library does",
        }
    }

    /// Cores that the two ends are pinned to.
    fn cores(self) -> [&'static [&'static str]; 2] {
        match self {
            How::Block => [&["on", "0"], &["on", "0"]],
            How::Apart => [&["on", "0"], &["on", "1"]],
            How::Spin | How::Wait => [&[], &[]],
        }
    }

    /// Its word for the peer programs.
    fn word(self) -> &'static str {
        match self {
            How::Block | How::Apart => "block",
            How::Spin => "spin",
            How::Wait => "wait",
        }
    }
}

/// Result of a measurement of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub(super) mpps: f64,
    pub(super) gbps: f64,
    /// Share of frames received with another length.
    pub(super) cut: f64,
}

/// Result of sending to a station that announced itself before the sender joined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Announced {
    /// Frames that came.
    pub(super) mpps: f64,
    /// Frames that the sender's switch took, in percent, and that did not come.
    pub(super) lost: f64,
    /// Frames that came to a bystander.
    pub(super) elsewhere: f64,
}

/// The switches to join; stopped when dropped.
pub(super) struct Switches<'a> {
    driver: &'a Driver,
    vde: Option<VdeSwitch>,
    plugins: PathBuf,
}

impl<'a> Switches<'a> {
    pub(super) fn start(driver: &'a Driver, vde: bool) -> Result<Switches<'a>> {
        driver.time(&["switch", "create", SWITCH, "vde=true"])?;
        let vde = vde.then(|| VdeSwitch::start(driver, "vde-frames")).transpose()?;
        let plugins = driver.exe().parent().context("the binary lies nowhere")?.to_owned();
        Ok(Switches { driver, vde, plugins })
    }

    /// Why this way is unavailable; `None` if it is available.
    pub(super) fn missing(&self, way: Joining) -> Option<String> {
        match way {
            // It has libvdeplug with it.
            Joining::Folder | Joining::Vde if self.vde.is_none() => {
                Some("no vde_switch".to_owned())
            }
            Joining::Plugin if !self.plugins.join(PLUGIN).exists() => {
                Some(format!("no {PLUGIN} in {}", self.plugins.display()))
            }
            _ => None,
        }
    }

    pub(super) fn flow(&self, way: Joining, bytes: u32, window: f64) -> Result<Flow> {
        let (bytes, skip, window) = (bytes.to_string(), SKIP.to_string(), window.to_string());
        let line = self.line(way)?;
        let sender = self.peer(way, &["port-send", &line, &bytes, MOST])?.ready()?;
        let receiver = self.peer(way, &["port-receive", &line, &bytes, &skip, &window])?;
        let got = receiver.ready()?.result()?;
        sender.end()?;
        flow(&got)
    }

    /// Sends to a station that the sender has not heard of, with a bystander on the switch.
    pub(super) fn announced(&self, way: Joining, window: f64) -> Result<Announced> {
        let (line, bytes, window) = (self.line(way)?, BALL.to_string(), window.to_string());
        let bystander = self.peer(way, &["port-station", &line, MOST])?.ready()?;
        let station = self.peer(way, &["port-station", &line, MOST])?.ready()?;
        sleep(SETTLE);
        let process = station.pid().to_string();
        let sent = self.peer(way, &["port-send-to", &line, &bytes, &process, &window])?.result()?;
        sleep(SETTLE);
        let (got, others) = (station.end()?, bystander.end()?);
        announced(&sent, &got, &others)
    }

    /// Median and 99th percentile of round trips in microseconds.
    pub(super) fn ping(&self, way: Joining, how: How, window: f64) -> Result<(f64, f64)> {
        let (bytes, window) = (BALL.to_string(), window.to_string());
        let (line, [asker, answerer], how) = (self.line(way)?, how.cores(), how.word());
        let ping = ["port-ping", &line, &bytes, how, &window];
        let asking = self.peer(way, &[asker, &ping].concat())?.ready()?;
        let echo = ["port-echo", &line, how, MOST];
        let answering = self.peer(way, &[answerer, &echo].concat())?.ready()?;
        let seen = asking.result()?;
        answering.end()?;
        Ok((number(&seen, "p50_us")?, number(&seen, "p99_us")?))
    }

    /// The same for two threads that only wake each other, on one core or two.
    pub(super) fn bells(&self, how: How, window: f64) -> Result<(f64, f64)> {
        let window = window.to_string();
        let words: &[&str] = match how {
            How::Apart => &["bells-apart", &window],
            _ => &["on", "0", "bells", &window],
        };
        let seen = self.peer(Joining::Library, words)?.result()?;
        Ok((number(&seen, "p50_us")?, number(&seen, "p99_us")?))
    }

    /// KiB of an additional edge after it has been used in full.
    pub(super) fn edge(&self) -> Result<f64> {
        number(
            &self.peer(Joining::Library, &["port-edges", SWITCH, "8"])?.result()?,
            "kib_per_edge",
        )
    }

    fn line(&self, way: Joining) -> Result<String> {
        Ok(match way {
            Joining::Plugin => format!("vde:netloom://{SWITCH}"),
            Joining::Vde => {
                let vde = self.vde.as_ref().context("no vde_switch")?;
                format!("vde:{}", vde.address()?)
            }
            Joining::Folder => {
                let socket = name::socket(&self.driver.runtime(), name::DEFAULT_LAB, SWITCH);
                format!("vde:{}.vde", socket.display())
            }
            Joining::Library => format!("shm:{SWITCH}"),
            Joining::Batches => format!("shm-batch:{SWITCH}"),
        })
    }

    /// Runs on the host. Only [`Joining::Plugin`] sets the plug-in path, because libvdeplug then finds no other
    /// plug-in.
    fn peer(&self, way: Joining, words: &[&str]) -> Result<Running> {
        let mut command: Command = self.driver.peer_command();
        command.args(words);
        if way == Joining::Plugin {
            command.env("VDEPLUGIN_PATH", &self.plugins);
        }
        Running::start(&mut command, &words.join(" "))
    }
}

impl Drop for Switches<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.driver.time(&["-l", "default", "switch", "delete", SWITCH]) {
            progress!("bench switch: delete the switch: {}", netloom_sys::describe(&*error));
        }
        // A process just stopped may still hold its folder.
        sleep(Duration::from_millis(10));
    }
}

fn flow(got: &Value) -> Result<Flow> {
    let (frames, bytes) = (number(got, "frames")?, number(got, "bytes")?);
    let (cut, seconds) = (number(got, "cut")?, number(got, "seconds")?.max(1e-9));
    Ok(Flow {
        mpps: frames / seconds / 1e6,
        gbps: bytes * 8e-9 / seconds,
        cut: cut / (frames + cut).max(1.0),
    })
}

fn announced(sent: &Value, got: &Value, others: &Value) -> Result<Announced> {
    let (taken, frames) = (number(sent, "taken")?, number(got, "frames")?);
    // Of the bystander's frames one is the station's announcement.
    let elsewhere = (number(others, "cut")? - 1.0).max(0.0);
    Ok(Announced {
        mpps: frames / number(got, "seconds")?.max(1e-9) / 1e6,
        lost: 100.0 * (taken - frames) / taken.max(1.0),
        elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_of_whole_frames() {
        let got = json!({"frames": 3_000_000, "bytes": 180_000_000, "cut": 1_000_000,
            "seconds": 2.0});
        let flow = flow(&got).unwrap();
        assert!((flow.mpps - 1.5).abs() < 1e-9 && (flow.gbps - 0.72).abs() < 1e-9, "{flow:?}");
        assert!((flow.cut - 0.25).abs() < 1e-9);
        assert!(super::flow(&json!({"frames": 1})).is_err());
        let sent = json!({"taken": 4_000_000, "lost": 5});
        let others = json!({"frames": 0, "cut": 3});
        let announced = super::announced(&sent, &got, &others).unwrap();
        assert!((announced.mpps - 1.5).abs() < 1e-9 && (announced.lost - 25.0).abs() < 1e-9);
        assert!((announced.elsewhere - 2.0).abs() < 1e-9);
    }
}

//! Frames from one process to another: how many, how fast, and what one more edge weighs.

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::driver::Driver;
use crate::running::{Running, number};
use crate::vde::VdeSwitch;

/// Name of the switch that is ours.
const SWITCH: &str = "bench";
/// The plug-in that libvdeplug loads; it lies beside the binary.
const PLUGIN: &str = "libvdeplug_netloom.so";
/// What serves longer than this has been forgotten.
const MOST: &str = "60";
/// Before frames are counted, in seconds.
const SKIP: f64 = 0.2;
/// A frame of a ping-pong, in bytes.
pub(super) const BALL: u32 = 60;

/// How programs join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Our switch, through libvdeplug and our plug-in.
    Plugin,
    /// vde_switch, through libvdeplug.
    Vde,
    /// Our switch, through our library, every frame published by itself.
    Library,
    /// The same, published in batches of 64.
    Batches,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::Plugin, Way::Vde, Way::Library, Way::Batches];

    pub(super) fn title(self) -> &'static str {
        match self {
            Way::Plugin => "netloom",
            Way::Vde => "vde_switch",
            Way::Library => "netloom library",
            Way::Batches => "netloom library, batches",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Way::Plugin => "libvdeplug with netloom's plug-in; poll, then drain",
            Way::Vde => "libvdeplug, vde_switch -n 32; sender blocks; poll, then drain",
            Way::Library => "Rust library; poll, then drain",
            Way::Batches => "Rust library, 64 frames a flush; poll, then drain",
        }
    }
}

/// How a ping-pong waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    /// In poll(2), both ends on one core, of which each needs half: where a scheduler puts those that wake each
    /// other, unless it is busy.
    Block,
    /// In poll(2), each end on a core of its own.
    Apart,
    /// Looking again and again.
    Spin,
    /// As our library does: it looks for some microseconds, then sleeps.
    Wait,
}

impl How {
    /// What the rows say of it.
    pub(super) fn title(self) -> &'static str {
        match self {
            How::Block => "asleep between, one core",
            How::Apart => "asleep between, two cores",
            How::Spin => "spinning",
            How::Wait => "waiting as the library does",
        }
    }

    /// Which cores the two ends are kept on.
    fn cores(self) -> [&'static [&'static str]; 2] {
        match self {
            How::Block => [&["on", "0"], &["on", "0"]],
            How::Apart => [&["on", "0"], &["on", "1"]],
            How::Spin | How::Wait => [&[], &[]],
        }
    }

    /// As the peers take it.
    fn word(self) -> &'static str {
        match self {
            How::Block | How::Apart => "block",
            How::Spin => "spin",
            How::Wait => "wait",
        }
    }
}

/// What one measurement of frames gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub(super) mpps: f64,
    pub(super) gbps: f64,
    /// Share of frames that came with another length than they were sent with.
    pub(super) cut: f64,
}

/// The switches that are joined; gone when it is dropped.
pub(super) struct Switches<'a> {
    driver: &'a Driver,
    vde: Option<VdeSwitch>,
    plugins: PathBuf,
}

impl<'a> Switches<'a> {
    pub(super) fn start(driver: &'a Driver, vde: bool) -> Result<Switches<'a>> {
        driver.time(&["switch", "create", SWITCH])?;
        let vde = vde.then(|| VdeSwitch::start(driver, "vde-frames")).transpose()?;
        let plugins = driver.exe().parent().context("the binary lies nowhere")?.to_owned();
        Ok(Switches { driver, vde, plugins })
    }

    /// Why one cannot be joined that way; `None` when it can.
    pub(super) fn missing(&self, way: Way) -> Option<String> {
        match way {
            Way::Vde if self.vde.is_none() => Some("no vde_switch".to_owned()),
            Way::Plugin if !self.plugins.join(PLUGIN).exists() => {
                Some(format!("no {PLUGIN} in {}", self.plugins.display()))
            }
            _ => None,
        }
    }

    pub(super) fn flow(&self, way: Way, bytes: u32, window: f64) -> Result<Flow> {
        let (bytes, skip, window) = (bytes.to_string(), SKIP.to_string(), window.to_string());
        let line = self.line(way)?;
        let sender = self.peer(way, &["port-send", &line, &bytes, MOST])?.ready()?;
        let receiver = self.peer(way, &["port-receive", &line, &bytes, &skip, &window])?;
        let got = receiver.ready()?.result()?;
        sender.end()?;
        flow(&got)
    }

    /// Median and 99th percentile of round trips in microseconds.
    pub(super) fn ping(&self, way: Way, how: How, window: f64) -> Result<(f64, f64)> {
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

    /// The same of two threads that wake each other and do nothing else, on one core.
    pub(super) fn bells(&self, window: f64) -> Result<(f64, f64)> {
        let seen = self.peer(Way::Library, &["on", "0", "bells", &window.to_string()])?.result()?;
        Ok((number(&seen, "p50_us")?, number(&seen, "p99_us")?))
    }

    /// KiB that one more edge takes once it has been used all through.
    pub(super) fn edge(&self) -> Result<f64> {
        number(&self.peer(Way::Library, &["port-edges", SWITCH, "8"])?.result()?, "kib_per_edge")
    }

    fn line(&self, way: Way) -> Result<String> {
        Ok(match way {
            Way::Plugin => format!("vde:netloom://{SWITCH}"),
            Way::Vde => {
                let vde = self.vde.as_ref().context("no vde_switch")?;
                format!("vde:{}", vde.address()?)
            }
            Way::Library => format!("shm:{SWITCH}"),
            Way::Batches => format!("shm-batch:{SWITCH}"),
        })
    }

    /// On the host; only ours finds our plug-in, as libvdeplug then finds no other.
    fn peer(&self, way: Way, words: &[&str]) -> Result<Running> {
        let mut command: Command = self.driver.command();
        command.arg("bench-peer").args(words);
        if way == Way::Plugin {
            command.env("VDEPLUGIN_PATH", &self.plugins);
        }
        Running::start(&mut command, &words.join(" "))
    }
}

impl Drop for Switches<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.driver.time(&["-l", "default", "switch", "delete", SWITCH]) {
            eprintln!("bench switch: delete the switch: {error:#}");
        }
        // One that has just been told to end may still hold its folder.
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
    }
}

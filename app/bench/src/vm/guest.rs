//! A virtual machine driven over its console.
//!
//! KVM is not taken: without vmx or svm it may open and then emulate.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::image::Image;

pub(crate) const QEMU: &str = "qemu-system-x86_64";
pub(crate) const UML: &str = "linux.uml";
/// Lines for the host begin with this; the rest is the kernel's.
const MARK: &str = "@@";
/// Longest wait for a guest that boots, and for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running machine, killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Guest {
    /// Starts QEMU; `enter` runs a program where the card's other side is, `card` are the words of `-netdev` and `-chardev`.
    pub(super) fn qemu(
        image: &Image,
        mut enter: Command,
        own: &str,
        number: usize,
        card: &[String],
    ) -> Result<Guest> {
        let (kernel, _) = image.kernel.as_ref().map_err(|why| anyhow!(why.clone()))?;
        let append = format!("console=ttyS0 quiet panic=-1 no_timer_check own={own}");
        // QEMU 7.2 under TCG loses interrupts of a vhost-user card by MSI-X, so no card has it.
        let device =
            format!("virtio-net-pci,netdev=n,romfile=,vectors=0,mac=52:54:00:00:00:{number:02x}");
        enter.args(["--pdeathsig", "KILL", "--", QEMU]);
        enter.args(["-accel", "tcg", "-nodefaults", "-display", "none", "-no-reboot", "-m", "192"]);
        enter.args(["-object", "memory-backend-memfd,id=m,size=192M,share=on"]);
        enter.args(["-machine", "pc,memory-backend=m", "-serial", "stdio"]);
        enter.arg("-kernel").arg(kernel).arg("-initrd").arg(&image.initrd);
        enter.args(["-append", &append, "-device", &device]).args(card);
        Guest::start(enter)
    }

    /// Starts User-mode Linux in a node, with which it ends: alone, its other processes would outlive it.
    pub(super) fn uml(
        image: &Image,
        mut exec: Command,
        own: &str,
        number: usize,
        card: &str,
    ) -> Result<Guest> {
        exec.args(["env", "TMPDIR=/dev/shm", UML, "mem=192M", "con=null", "con0=fd:0,fd:1"]);
        exec.arg(format!("initrd={}", image.initrd.display()));
        exec.args(["quiet", "panic=-1", "uml_dir=/tmp/uml", card]);
        exec.args([format!("umid=g{number}"), format!("own={own}")]);
        Guest::start(exec)
    }

    /// Starts a machine, or a program that leads to one, whose console is its standard input and output.
    pub(crate) fn start(mut enter: Command) -> Result<Guest> {
        enter.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = enter.spawn().with_context(|| format!("start {enter:?}"))?;
        let (input, printed) = (child.stdin.take(), child.stdout.take());
        let (input, printed) = input.zip(printed).context("a guest without a console")?;
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(printed).split(b'\n').map_while(Result::ok) {
                let _ = said.send(String::from_utf8_lossy(&line).trim().to_owned());
            }
        });
        Ok(Guest { child, input, lines })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its next line for us.
    pub(crate) fn hear(&mut self) -> Result<String> {
        let (until, mut last) = (Instant::now() + PATIENCE, String::new());
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) => match line.find(MARK) {
                    Some(at) => return Ok(line[at + MARK.len()..].trim().to_owned()),
                    None => last = line,
                },
                Err(error) => bail!("a guest said nothing: {error}; its last line: {last:?}"),
            }
        }
    }

    /// Runs commands in it, which say something with [`MARK`] if that is to be heard.
    pub(crate) fn tell(&mut self, commands: &str) -> Result<()> {
        writeln!(self.input, "{commands}").context("write to a guest's console")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! `netloom top` on a terminal: what is seen, what keys do, and the terminal as it was before, however it ends.

use std::path::Path;
use std::time::Duration;

use netloom_kit::{Binary, Terminal};
use netloom_tests_e2e::{Machine, descendants, kill, machine, pair, signal, wait_until};
use rustix::process::Signal;

/// What a terminal is told at the beginning and at the end: the alternate screen, and back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

const LINK: &str = "a:eth0--b:eth0";

/// `netloom top` on a terminal.
struct Top {
    terminal: Terminal,
    size: (usize, usize),
}

impl Top {
    fn start(machine: &Machine, args: &[&str]) -> Top {
        let runtime = machine.scratch().runtime_dir();
        let args: Vec<&str> = ["top"].iter().chain(args).copied().collect();
        let env: [(&str, &Path); 2] =
            [("NETLOOM_RUNTIME_DIR", &runtime), ("SHELL", Path::new("/bin/sh"))];
        Top { terminal: Terminal::start(Binary::find().path(), &args, &env), size: (80, 24) }
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns, rows);
        self.size = (columns.into(), rows.into());
    }

    fn press(&mut self, keys: &str) {
        self.terminal.type_text(keys);
    }

    /// The lines that a person sees: what is drawn is only what is different.
    fn lines(&self) -> Vec<String> {
        let (columns, rows) = self.size;
        let mut lines = vec![vec![' '; columns]; rows];
        let (mut x, mut y) = (0, 0);
        let text = self.terminal.screen();
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            match letter {
                '\u{1b}' if rest.clone().next() == Some('[') => {
                    let mut told = String::new();
                    let ended = rest.by_ref().skip(1).find(|c| {
                        told.extend(Some(*c).filter(|c| !c.is_ascii_alphabetic()));
                        c.is_ascii_alphabetic()
                    });
                    match ended {
                        Some('H') => {
                            let mut at =
                                told.split(';').map(|n| n.parse::<usize>().unwrap_or(1) - 1);
                            (y, x) = (at.next().unwrap_or(0), at.next().unwrap_or(0));
                        }
                        Some('J') => lines.iter_mut().for_each(|line| line.fill(' ')),
                        _ => {}
                    }
                }
                '\r' => x = 0,
                '\n' => y += 1,
                letter => {
                    if let Some(cell) = lines.get_mut(y).and_then(|line| line.get_mut(x)) {
                        *cell = letter;
                    }
                    x += 1;
                }
            }
        }
        lines.into_iter().map(|line| line.into_iter().collect()).collect()
    }

    /// Waits until a line has this text.
    fn sees(&self, text: &str) {
        wait_until(&format!("{text:?} is seen"), Duration::from_secs(60), || {
            self.lines().iter().any(|line| line.contains(text)).then_some(())
        });
    }

    /// Ends it by `q`.
    fn quit(mut self) {
        self.press("q");
        self.terminal.expect(LEAVE);
        assert!(self.terminal.finish().success());
    }
}

#[test]
fn links_are_seen_changed_and_captured_at_both_sizes() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let mut terminal = Top::start(&machine, &[]);
    terminal.terminal.expect(ENTER);
    terminal.sees("lab pair: up, 2 nodes, 1 link");
    terminal.sees(LINK);
    // The cable, and impairments.
    terminal.press("d");
    terminal.sees("cut");
    terminal.press("d");
    terminal.press("idelay=7ms\r");
    terminal.sees("delay 7ms");
    terminal.press("inonsense=1\r");
    wait_until("a refusal is seen", Duration::from_secs(60), || {
        let last = terminal.lines().swap_remove(23);
        (last.contains("nonsense") && !last.starts_with("impair")).then_some(())
    });
    // All of a larger terminal is used.
    terminal.resize(200, 60);
    wait_until("the last line is at the end", Duration::from_secs(60), || {
        terminal.lines()[59].contains("nonsense").then_some(())
    });
    terminal.press("2");
    terminal.sees("PROGRAMS");
    terminal.sees("1 of 1 run");
    terminal.press("\r");
    terminal.sees("addresses");
    terminal.press("q5");
    terminal.sees("tail -f /dev/null");
    terminal.quit();
    machine.down();
}

#[test]
fn a_shell_has_the_terminal_and_gives_it_back() {
    let machine = machine!();
    machine.up(&pair(""));
    let mut terminal = Top::start(&machine, &["pair"]);
    terminal.sees(LINK);
    terminal.press("2s");
    terminal.terminal.expect(LEAVE);
    terminal.press("echo in-$((40 + 2)); hostname\n");
    terminal.terminal.expect("in-42");
    terminal.press("exit\n");
    terminal.terminal.expect_times(ENTER, 2);
    // Ctrl-C ends what runs there, and not this.
    terminal.press("l");
    terminal.terminal.expect_times(LEAVE, 2);
    // Before, nobody but `top` would hear it.
    wait_until("it runs", Duration::from_secs(60), || {
        (descendants(terminal.terminal.pid()).len() > 1).then_some(())
    });
    terminal.press("\x03");
    terminal.terminal.expect_times(ENTER, 3);
    terminal.quit();
    machine.down();
}

#[test]
fn the_terminal_is_given_back_after_a_signal() {
    let machine = machine!();
    machine.up(&pair(""));
    for ends in [Signal::TERM, Signal::INT, Signal::HUP] {
        let terminal = Top::start(&machine, &[]);
        terminal.sees(LINK);
        signal(terminal.terminal.pid(), ends);
        terminal.terminal.expect(LEAVE);
        assert!(terminal.terminal.finish().success(), "{ends:?}");
    }
    machine.down();
}

/// A reader of keys that does not see the end of a terminal takes a processor for ever.
#[test]
fn a_terminal_that_is_closed_ends_it() {
    let machine = machine!();
    // In a list and in a lab.
    let terminal = Top::start(&machine, &[]);
    terminal.sees("no lab is running");
    terminal.terminal.hang_up();
    machine.up(&pair(""));
    let terminal = Top::start(&machine, &["pair"]);
    terminal.sees(LINK);
    terminal.terminal.hang_up();
    machine.down();
}

#[test]
fn a_lab_is_watched_while_its_process_is_killed_adopted_and_taken_down_and_up() {
    let machine = machine!();
    let file = machine.file(&pair(""));
    machine.up_file(&file);
    let terminal = Top::start(&machine, &["pair"]);
    terminal.sees("lab pair: up");
    let pid = machine.status()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    kill(pid.expect("a pid"));
    terminal.sees("its process has ended");
    machine.up_file(&file);
    terminal.sees("lab pair: up, 2 nodes, 1 link");
    machine.netloom(["down", "pair"]).finish().code(0);
    terminal.sees("not up; waiting for it");
    machine.up_file(&file);
    terminal.sees("lab pair: up, 2 nodes, 1 link");
    terminal.quit();
    machine.down();
}

#[test]
fn without_a_lab_the_list_waits_and_one_of_several_is_opened() {
    let machine = machine!();
    let mut terminal = Top::start(&machine, &[]);
    terminal.sees("no lab is running");
    machine.up(&pair(""));
    machine.up(&pair("").replace("name: pair", "name: other"));
    terminal.sees("other");
    terminal.sees("pair");
    terminal.press("\r");
    terminal.sees("lab other: up, 2 nodes, 1 link");
    terminal.quit();
    machine.down();
}

#[test]
fn once_prints_tables_and_needs_no_terminal() {
    let machine = machine!();
    machine.netloom(["top", "--once"]).finish().code(1).says("no lab is running");
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let text = machine.netloom(["top", "--once"]).ok();
    assert!(text.starts_with("lab pair: up, 2 nodes, 1 link\n"), "{text}");
    for part in ["NODE ", "LINK ", LINK, "PROGRAM", "tail -f /dev/null"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    machine.netloom(["top"]).finish().code(1).says("netloom top --once");
    machine.down();
}

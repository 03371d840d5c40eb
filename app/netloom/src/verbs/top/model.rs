//! What `top` knows and what is chosen, and what messages do to it. No terminal, no lab.

use std::cmp::Ordering;

use netloom_lab::stream::Picture;
use netloom_lab::view::{LabEvent, LabSummary, LinkSettings};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rates::Rates;

/// What may change the model.
#[derive(Debug)]
pub(super) enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The terminal has this many rows.
    Rows(u16),
    /// Something happened in the lab.
    Event(Box<LabEvent>),
    /// Nothing has happened in it for a while.
    Quiet,
    /// How the lab is heard.
    Standing(Standing),
    /// The labs that there are.
    Labs(Vec<LabSummary>),
    /// What came of something that was started.
    Note(String),
    /// A signal says to end.
    End,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// End.
    Quit,
    /// Listen to this lab.
    Open(String),
    /// Run this program with these arguments on the terminal.
    Run(Vec<String>),
    /// Change a link.
    Set {
        /// The lab.
        lab: String,
        /// The link.
        link: String,
        /// What to change.
        change: LinkSettings,
    },
}

/// How the lab is heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing has come yet.
    #[default]
    Waiting,
    /// Its lab process answers.
    Heard,
    /// Its lab process has ended.
    NoProcess,
    /// It is not up.
    NoLab,
    /// It cannot be heard.
    Trouble(String),
}

/// The tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    Labs,
    Nodes,
    #[default]
    Links,
    Switches,
    Programs,
}

impl Tab {
    /// In the order of their keys.
    pub(super) const ALL: [Tab; 5] =
        [Tab::Labs, Tab::Nodes, Tab::Links, Tab::Switches, Tab::Programs];

    /// Its title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Labs => "labs",
            Tab::Nodes => "nodes",
            Tab::Links => "links",
            Tab::Switches => "switches",
            Tab::Programs => "programs",
        }
    }

    /// Its place.
    pub(super) fn index(self) -> usize {
        Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0)
    }
}

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Bits a second, or the share of a processor.
    #[default]
    Rate,
    /// What was lost in the last second, then all that was lost.
    Loss,
    Name,
}

impl Order {
    /// In a word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Order::Rate => "rate",
            Order::Loss => "loss",
            Order::Name => "name",
        }
    }
}

/// What keys are meant for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Table,
    /// All about the chosen row.
    Detail,
    /// The keys.
    Help,
    /// The filter is being typed.
    Filter,
    /// A line is being typed.
    Prompt(Prompt, String),
}

/// What a line is typed for, and for which link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// Impairments.
    Impair(String),
    /// The file of a capture, and the target.
    Capture(String),
}

/// What is known and chosen.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) labs: Vec<LabSummary>,
    /// The lab that is shown.
    pub(super) lab: Option<String>,
    pub(super) standing: Standing,
    pub(super) picture: Picture,
    pub(super) rates: Rates,
    pub(super) tab: Tab,
    pub(super) mode: Mode,
    pub(super) order: Order,
    pub(super) filter: String,
    /// What was said last.
    pub(super) note: String,
    /// By tab: the key of the chosen row.
    chosen: [Option<String>; 5],
    /// By tab: the first row that is seen.
    first: [usize; 5],
    /// Rows of a table that can be seen.
    height: usize,
}

/// Rows of the terminal around those of a table: the head, the tabs, the columns, and the last line.
pub(super) const AROUND: u16 = 4;

impl Model {
    /// Shows a lab from now on.
    pub(super) fn open(&mut self, lab: String) -> Effect {
        (self.picture, self.rates) = (Picture::default(), Rates::default());
        self.standing = Standing::Waiting;
        if self.tab == Tab::Labs {
            self.tab = Tab::Links;
        }
        self.lab = Some(lab.clone());
        Effect::Open(lab)
    }

    /// Takes a message in.
    pub(super) fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Key(key) => return self.key(key),
            Message::Rows(height) => {
                self.height = usize::from(height.saturating_sub(AROUND)).max(1);
            }
            Message::Event(event) => {
                self.standing = Standing::Heard;
                self.rates.event(&self.picture, &event);
                self.picture.apply(*event);
            }
            Message::Quiet => self.rates.quiet(),
            Message::Standing(standing) => {
                if standing != Standing::Heard {
                    self.rates.quiet();
                }
                self.standing = standing;
            }
            Message::Labs(labs) => {
                if self.lab.is_none() {
                    self.tab = Tab::Labs;
                }
                self.labs = labs;
            }
            Message::Note(note) => self.note = note,
            Message::End => return vec![Effect::Quit],
        }
        self.keep_seen();
        vec![]
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return vec![Effect::Quit];
        }
        let effects = match self.mode.clone() {
            Mode::Filter => self.filter_key(key.code),
            Mode::Prompt(prompt, text) => self.prompt_key(key.code, prompt, text),
            Mode::Help => {
                self.mode = Mode::Table;
                vec![]
            }
            Mode::Table | Mode::Detail => self.table_key(key.code),
        };
        self.keep_seen();
        effects
    }

    fn filter_key(&mut self, code: KeyCode) -> Vec<Effect> {
        match code {
            KeyCode::Esc => (self.filter, self.mode) = (String::new(), Mode::Table),
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        vec![]
    }

    fn prompt_key(&mut self, code: KeyCode, prompt: Prompt, mut text: String) -> Vec<Effect> {
        match code {
            KeyCode::Esc => self.mode = Mode::Table,
            KeyCode::Enter => {
                self.mode = Mode::Table;
                return self.entered(&prompt, text.trim());
            }
            KeyCode::Backspace => {
                text.pop();
                self.mode = Mode::Prompt(prompt, text);
            }
            KeyCode::Char(letter) => {
                text.push(letter);
                self.mode = Mode::Prompt(prompt, text);
            }
            _ => {}
        }
        vec![]
    }

    /// A line was typed.
    fn entered(&mut self, prompt: &Prompt, text: &str) -> Vec<Effect> {
        let Some(lab) = self.lab.clone() else { return vec![] };
        match prompt {
            Prompt::Capture(_) if text.is_empty() => vec![],
            Prompt::Capture(target) => {
                let words = ["-l", &lab, "capture", target, "-w", text];
                vec![Effect::Run(words.map(str::to_owned).to_vec())]
            }
            Prompt::Impair(link) => match settings(text) {
                Ok(change) => vec![Effect::Set { lab, link: link.clone(), change }],
                Err(why) => {
                    self.note = why;
                    vec![]
                }
            },
        }
    }

    fn table_key(&mut self, code: KeyCode) -> Vec<Effect> {
        let page = self.height.cast_signed();
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return self.back(),
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('o') => {
                self.order = match self.order {
                    Order::Rate => Order::Loss,
                    Order::Loss => Order::Name,
                    Order::Name => Order::Rate,
                };
            }
            KeyCode::Char(digit @ '1'..='5') => {
                self.show(Tab::ALL[usize::from(digit as u8 - b'1')]);
            }
            KeyCode::Tab | KeyCode::Right => self.show(Tab::ALL[(self.tab.index() + 1) % 5]),
            KeyCode::BackTab | KeyCode::Left => self.show(Tab::ALL[(self.tab.index() + 4) % 5]),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(page),
            KeyCode::PageUp => self.step(-page),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter if self.tab == Tab::Labs => {
                return self.chosen().map(|lab| self.open(lab)).into_iter().collect();
            }
            KeyCode::Enter if self.chosen().is_some() => self.mode = Mode::Detail,
            KeyCode::Char(letter) => return self.verb(letter),
            _ => {}
        }
        vec![]
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.mode) = (tab, Mode::Table);
    }

    /// One step back; from a table without a filter to the end.
    fn back(&mut self) -> Vec<Effect> {
        match (&self.mode, self.filter.is_empty()) {
            (Mode::Detail, _) => self.mode = Mode::Table,
            (_, false) => self.filter.clear(),
            _ => return vec![Effect::Quit],
        }
        vec![]
    }

    /// A key that does something with the chosen row.
    fn verb(&mut self, letter: char) -> Vec<Effect> {
        let (Some(lab), Some(key)) = (self.lab.clone(), self.chosen()) else { return vec![] };
        self.note.clear();
        let run = |words: &[&str]| {
            let words = ["-l", lab.as_str()].into_iter().chain(words.iter().copied());
            vec![Effect::Run(words.map(str::to_owned).collect())]
        };
        match (letter, self.tab) {
            ('s', Tab::Nodes | Tab::Programs) => run(&["shell", node_of(&key)]),
            ('l', Tab::Nodes | Tab::Programs) => run(&["logs", "-f", node_of(&key)]),
            ('c', Tab::Nodes | Tab::Links | Tab::Switches) => {
                let target = match self.tab {
                    Tab::Links => format!("link:{key}"),
                    Tab::Switches => format!("switch:{key}"),
                    _ => key,
                };
                self.mode = Mode::Prompt(Prompt::Capture(target), format!("{lab}.pcapng"));
                vec![]
            }
            ('i', Tab::Links) => {
                self.mode = Mode::Prompt(Prompt::Impair(key), String::new());
                vec![]
            }
            ('d', Tab::Links) => {
                let Some((link, _)) = self.picture.links.get(&key) else { return vec![] };
                let change = LinkSettings { up: Some(link.down), ..LinkSettings::default() };
                vec![Effect::Set { lab, link: key, change }]
            }
            ('s' | 'l' | 'c' | 'i' | 'd', tab) => {
                self.note = format!("{letter}: not for {}; ? shows the keys", tab.title());
                vec![]
            }
            _ => vec![],
        }
    }

    /// The key of the chosen row: what was chosen, or the first one.
    pub(super) fn chosen(&self) -> Option<String> {
        let rows = self.rows();
        let wanted = self.chosen[self.tab.index()].as_ref();
        wanted.filter(|key| rows.contains(key)).or(rows.first()).cloned()
    }

    /// The rows that can be seen: the first one's place, their keys, and how many there are in all.
    pub(super) fn window(&self, height: usize) -> (usize, Vec<String>, usize) {
        let rows = self.rows();
        let all = rows.len();
        let first = self.first[self.tab.index()].min(all.saturating_sub(height));
        (first, rows.into_iter().skip(first).take(height).collect(), all)
    }

    fn step(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let chosen = self.chosen();
        let at = rows.iter().position(|key| Some(key) == chosen.as_ref()).unwrap_or(0);
        let next = at.saturating_add_signed(by).min(last);
        self.chosen[self.tab.index()] = rows.get(next).cloned();
    }

    /// Keeps the chosen row where it is seen.
    fn keep_seen(&mut self) {
        let rows = self.rows();
        let wanted = self.chosen[self.tab.index()].as_ref();
        let at = wanted.and_then(|wanted| rows.iter().position(|key| key == wanted)).unwrap_or(0);
        let height = self.height.max(1);
        let first = &mut self.first[self.tab.index()];
        *first = (*first).min(at).max((at + 1).saturating_sub(height));
    }

    /// Keys of all rows of the table that the filter lets through, in their order.
    pub(super) fn rows(&self) -> Vec<String> {
        let passes = |text: &str| self.filter.is_empty() || text.contains(&self.filter);
        let picture = &self.picture;
        match self.tab {
            Tab::Labs => {
                self.labs.iter().map(|lab| lab.name.clone()).filter(|name| passes(name)).collect()
            }
            Tab::Nodes => {
                let cpu = |name: &str| self.rates.cpu(name).unwrap_or(0.0);
                let all = picture.nodes.iter().filter(|(name, _)| passes(name));
                self.sorted(all.map(|(name, (_, c))| (name, cpu(name), 0.0, c.lost)))
            }
            Tab::Links => {
                let all = picture.links.iter().filter(|(name, _)| passes(name));
                self.sorted(all.map(|(name, (_, counters))| {
                    let rate = self.rates.link(name);
                    let lost = counters.lost.iter().fold(0_u64, |all, n| all.saturating_add(*n));
                    (name, rate.bits.iter().sum(), rate.lost.iter().sum(), lost)
                }))
            }
            Tab::Switches => picture.switches.keys().filter(|name| passes(name)).cloned().collect(),
            Tab::Programs => {
                let of = |(name, (node, _)): (&String, &(netloom_lab::view::NodeStatus, _))| {
                    let programs = node.programs.iter().enumerate();
                    programs
                        .filter(|(_, program)| passes(name) || passes(&program.command.join(" ")))
                        .map(|(at, _)| format!("{name} {at}"))
                        .collect::<Vec<_>>()
                };
                picture.nodes.iter().flat_map(of).collect()
            }
        }
    }

    /// Names by what they do, lose now and have lost; equal ones by name.
    fn sorted<'n>(&self, all: impl Iterator<Item = (&'n String, f64, f64, u64)>) -> Vec<String> {
        let mut all: Vec<_> = all.collect();
        let most = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
        match self.order {
            Order::Name => {}
            Order::Rate => all.sort_by(|a, b| most(a.1, b.1)),
            Order::Loss => all.sort_by(|a, b| most(a.2, b.2).then(b.3.cmp(&a.3))),
        }
        all.into_iter().map(|(name, ..)| name.clone()).collect()
    }
}

/// The node of a row of programs, whose key is the node and the place; of a node, the node.
pub(super) fn node_of(key: &str) -> &str {
    key.split_once(' ').map_or(key, |(node, _)| node)
}

/// Impairments as they are typed: `delay=10ms loss=1%`, or `none` to take all away.
fn settings(text: &str) -> Result<LinkSettings, String> {
    if text == "none" {
        return Ok(LinkSettings { clear: true, ..LinkSettings::default() });
    }
    let pairs = text.split_whitespace().map(|word| match word.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{word:?}: write KEY=VALUE, as delay=10ms loss=1%, or none")),
    });
    let settings = pairs.collect::<Result<Vec<_>, String>>()?;
    match settings.is_empty() {
        true => Err("nothing is changed; write KEY=VALUE, as delay=10ms, or none".to_owned()),
        false => Ok(LinkSettings { settings, ..LinkSettings::default() }),
    }
}

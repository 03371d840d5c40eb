//! Takes the steps of a lab: looks again and again whether an expectation holds, until it does or its time is over, and
//! performs the actions.
//!
//! Questions that only a node can answer are put to this program in the node (`netloom probe`), entered as `netloom exec`
//! enters it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netloom_api::Client;
use netloom_lab::calls::{PingPair, SetLink, ShowNode};
use netloom_lab::view::LinkSettings;
use netloom_model::Plan;
use netloom_model::expect::{
    Action, Between, Loss, Output, Pairs, Rate, Route, RouteTarget, Step, What, bits, share,
};
use netloom_model::lab::Via;
use netloom_node::ping::Pace;
use netloom_session::probe::{Answer, Egress, Question, Received};

use super::command::{Cut, Done, Running, pause, run};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// How long one look waits for an answer to an echo request, at most.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a command in a node may take, where its step says nothing longer.
const COMMAND: Duration = Duration::from_secs(30);

/// How long the question of a probe may take beside what it is about.
const PROBE: Duration = Duration::from_secs(20);

/// Bytes of UDP content that measure a rate, and those that measure loss.
const LARGE: usize = 1400;
const SMALL: usize = 100;

/// Whether an expectation holds, and what was seen.
type Seen = (bool, String);

/// What takes steps.
pub(crate) struct Checker<'a> {
    client: &'a Client,
    plan: &'a Plan,
    signals: &'a OwnedFd,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(client: &'a Client, plan: &'a Plan, signals: &'a OwnedFd) -> Checker<'a> {
        Checker { client, plan, signals }
    }

    /// Takes a step.
    ///
    /// # Errors
    /// This process was told to end, or the step cannot be taken.
    pub(crate) fn take(&self, step: &Step) -> Result<Seen, Cut> {
        if let What::Do(action) = &step.what {
            return Ok((true, self.act(action)?));
        }
        let until = Instant::now() + step.within;
        loop {
            // What cannot be seen now may be later.
            let seen = match self.look(&step.what, until) {
                Err(Cut::Failed(words)) => (false, words),
                seen => seen?,
            };
            if seen.0 || Instant::now() >= until {
                return Ok(seen);
            }
            let left = until.saturating_duration_since(Instant::now());
            pause(self.signals, LOOK.min(left))?;
        }
    }

    fn look(&self, what: &What, until: Instant) -> Result<Seen, Cut> {
        match what {
            What::Reaches(pairs) => self.reach(pairs, true, until),
            What::CannotReach(pairs) => self.reach(pairs, false, until),
            What::Route(route) => self.route(route),
            What::NoRoute(route) => self.route(route).map(|(holds, seen)| (!holds, seen)),
            What::Loss(loss) => self.loss(loss),
            What::Rate(rate) => self.rate(rate),
            What::Output(output) => self.output(output, until),
            // Judged by who knows when the one before was.
            What::Fidelity(_) | What::Do(_) => Ok((true, String::new())),
        }
    }

    /// Does something; returns what was done in words.
    fn act(&self, action: &Action) -> Result<String, Cut> {
        let set = |link: &str, change: LinkSettings| {
            self.client.call(&SetLink { link: link.into(), change }).map_err(|e| failed(&e))?;
            Ok("done".to_owned())
        };
        match action {
            Action::Down(link) => set(link, LinkSettings { up: Some(false), ..Default::default() }),
            Action::Up(link) => set(link, LinkSettings { up: Some(true), ..Default::default() }),
            Action::Set(link, settings) => {
                set(link, LinkSettings { settings: settings.clone(), ..Default::default() })
            }
            Action::Wait(time) => pause(self.signals, *time).map(|()| "done".to_owned()),
            Action::Exec(node, command) => {
                let done = self.exec(node, command, COMMAND)?;
                if done.code == Some(0) {
                    Ok("done".to_owned())
                } else {
                    Err(Cut::Failed(ending(&done)))
                }
            }
        }
    }

    /// All pairs are asked; the first that is not as expected is what was seen.
    fn reach(&self, pairs: &Pairs, wanted: bool, until: Instant) -> Result<Seen, Cut> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = left.clamp(Duration::from_millis(200), ANSWER);
        let mut asked = 0;
        let mut slowest = 0;
        for from in &pairs.from {
            for to in pairs.to.iter().filter(|to| *to != from) {
                let answers = self.answers(from, to, pairs.only, timeout)?;
                asked += answers.len();
                if answers.is_empty() {
                    return Ok((!wanted, format!("{from} and {to} have no address of one family")));
                }
                let wrong = answers.iter().find(|(_, time)| time.is_some() != wanted);
                if let Some((address, time)) = wrong {
                    return Ok((false, answer_words(from, to, address, *time)));
                }
                slowest = answers.iter().filter_map(|(_, time)| *time).fold(slowest, u32::max);
            }
        }
        let words = match wanted {
            true => {
                format!("{asked} answered, the slowest after {:.2} ms", f64::from(slowest) / 1000.0)
            }
            false => format!("no answer, {asked} asked"),
        };
        Ok((true, words))
    }

    /// By address that was asked: how long its answer took, in microseconds.
    fn answers(
        &self,
        from: &str,
        to: &str,
        only: Option<u8>,
        timeout: Duration,
    ) -> Result<Vec<(String, Option<u32>)>, Cut> {
        if let Ok(address) = to.parse::<IpAddr>() {
            let asked = Question::Ping { to: address, timeout_ms: milliseconds(timeout) };
            return match self.ask(from, &asked, timeout)? {
                Answer::Ping(time) => Ok(vec![(to.to_owned(), time)]),
                other => Err(odd(&other)),
            };
        }
        let families: &[u8] = match only {
            Some(4) => &[4],
            Some(_) => &[6],
            None => &[4, 6],
        };
        let pace = Pace { count: 2, interval: timeout / 2, timeout };
        let found =
            self.client.call(&PingPair::of(from, to, families, pace)).map_err(|e| failed(&e))?;
        let best = |times: &[Option<u32>]| times.iter().flatten().min().copied();
        Ok(found.families.into_iter().map(|of| (of.address, best(&of.rtt_us))).collect())
    }

    fn route(&self, route: &Route) -> Result<Seen, Cut> {
        let asked: Vec<Question> = match &route.to {
            RouteTarget::Address(address) => vec![Question::Egress(*address)],
            RouteTarget::Prefix(prefix) => vec![Question::Entries(*prefix)],
            RouteTarget::Node(node) => {
                let own = self.addresses(&route.node)?;
                let theirs = self.addresses(node)?;
                let both = [4, 6].into_iter().filter(|v| own.iter().any(|a| is_of(a, *v)));
                let both = both.filter_map(|v| theirs.iter().find(|a| is_of(a, v)));
                both.map(|address| Question::Egress(*address)).collect()
            }
        };
        if asked.is_empty() {
            return Ok((false, "they have no address of one family".to_owned()));
        }
        let hops = match &route.via {
            None => None,
            Some(Via::Address(address)) => Some(vec![*address]),
            Some(Via::Node(node)) => Some(self.all_addresses(node)?),
        };
        let fits = |way: &Egress| {
            let via =
                hops.as_ref().is_none_or(|hops| way.via.is_some_and(|via| hops.contains(&via)));
            via && route.dev.as_ref().is_none_or(|dev| way.dev == *dev)
        };
        let mut seen = Vec::new();
        let mut holds = true;
        for question in &asked {
            let ways = match self.ask(&route.node, question, Duration::ZERO)? {
                Answer::Ways(ways) => ways,
                Answer::Here => vec![Egress { via: None, dev: "lo".to_owned() }],
                other => return Err(odd(&other)),
            };
            holds &= ways.iter().any(fits);
            seen.push(way_words(&ways));
        }
        Ok((holds, seen.join("; ")))
    }

    fn loss(&self, loss: &Loss) -> Result<Seen, Cut> {
        let (sent, received) = self.send(&loss.between, SMALL, loss.packets.into())?;
        let lost = sent.saturating_sub(received.packets);
        // Both are far below 2^32.
        let parts =
            u32::try_from(lost.saturating_mul(1_000_000_000) / sent.max(1)).unwrap_or(u32::MAX);
        let holds =
            loss.below.is_none_or(|of| parts < of) && loss.above.is_none_or(|of| parts > of);
        Ok((holds, format!("{} lost, {lost} of {sent} packets", share(parts))))
    }

    fn rate(&self, rate: &Rate) -> Result<Seen, Cut> {
        // More is offered than is asked for, so that what is between the two decides.
        let most = rate.above.max(rate.below).unwrap_or(1);
        let offered = most.saturating_add(most / 4);
        let frame = (LARGE as u64 + 62) * 8;
        let (_, received) = self.send(&rate.between, LARGE, offered / frame + 1)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate of bits"
        )]
        let found = received.bits_per_second.max(0.0) as u64;
        let holds =
            rate.above.is_none_or(|of| found > of) && rate.below.is_none_or(|of| found < of);
        Ok((holds, format!("{} arrived, {} offered", bits(found), bits(offered))))
    }

    /// Sends UDP packets from one node to another; returns how many, and what arrived.
    fn send(&self, between: &Between, size: usize, rate: u64) -> Result<(u64, Received), Cut> {
        let to = self.address_between(between)?;
        let mut command = self.probe(&between.to, &Question::Receive(to));
        command.stdin(Stdio::piped());
        let mut receiver = Running::start(command)?;
        let line = receiver.first_line(PROBE, self.signals)?;
        let Ok(Answer::Port(port)) = serde_json::from_str(&line) else {
            return Err(Cut::Failed(line));
        };
        let lasting_ms = milliseconds(between.lasting);
        let asked = Question::Send { to: SocketAddr::new(to, port), size, rate, lasting_ms };
        let sent = match self.ask(&between.from, &asked, between.lasting * 2)? {
            Answer::Sent(sent) => sent,
            other => return Err(odd(&other)),
        };
        let done = receiver.end(PROBE, self.signals)?;
        match last_answer(&done)? {
            Answer::Received(received) => Ok((sent, received)),
            other => Err(odd(&other)),
        }
    }

    /// The address of the receiver, of the first family that both have.
    fn address_between(&self, between: &Between) -> Result<IpAddr, Cut> {
        let own = self.addresses(&between.from)?;
        let theirs = self.addresses(&between.to)?;
        let of = |version: &u8| {
            let both = own.iter().any(|a| is_of(a, *version));
            theirs.iter().find(|a| both && is_of(a, *version)).copied()
        };
        let versions = [4, 6].into_iter().filter(|v| between.only.is_none_or(|only| only == *v));
        let found = versions.into_iter().find_map(|version| of(&version));
        found.ok_or_else(|| {
            Cut::Failed(format!(
                "{} and {} have no address of one family",
                between.from, between.to
            ))
        })
    }

    fn output(&self, output: &Output, until: Instant) -> Result<Seen, Cut> {
        let left = until.saturating_duration_since(Instant::now());
        let done = self.exec(&output.node, &output.command, left.max(COMMAND))?;
        let out = String::from_utf8_lossy(&done.out);
        let all = format!("{out}{}", String::from_utf8_lossy(&done.err));
        let lacking = output.contains.iter().find(|text| !all.contains(text.as_str()));
        let unwanted = output.lacks.iter().find(|text| all.contains(text.as_str()));
        let same = output.equals.as_ref().is_none_or(|text| out.trim() == text);
        let holds =
            done.code == Some(output.code) && lacking.is_none() && unwanted.is_none() && same;
        if holds {
            return Ok((true, "as expected".to_owned()));
        }
        Ok((false, ending(&done)))
    }

    /// Runs a command in a node, as `netloom exec`.
    fn exec(&self, node: &str, command: &[String], timeout: Duration) -> Result<Done, Cut> {
        let mut exec = self.netloom();
        exec.args(["exec", node, "--"]).args(command);
        exec.stdout(Stdio::piped()).stderr(Stdio::piped());
        run(exec, timeout, self.signals)
    }

    fn netloom(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["-l", &self.plan.lab]);
        command
    }

    /// This program in a node, with a question.
    fn probe(&self, node: &str, asked: &Question) -> Command {
        let mut command = self.netloom();
        command.arg("exec");
        let planned = self.plan.nodes.iter().find(|planned| planned.name == node);
        // The caller's files are shown to no node that others manage: there its own have to do.
        if planned.is_some_and(|node| node.parent.is_none() && node.children.is_none()) {
            command.arg("--no-root");
        }
        // It consists of texts and numbers.
        let asked = serde_json::to_string(asked).unwrap_or_default();
        command.args([node, "--", "/proc/self/exe", "probe", &asked]);
        command
    }

    fn ask(&self, node: &str, asked: &Question, takes: Duration) -> Result<Answer, Cut> {
        let done = run_piped(self.probe(node, asked), PROBE + takes, self.signals)?;
        last_answer(&done)
    }

    /// A node's addresses now, the first of each family what its name stands for.
    fn addresses(&self, node: &str) -> Result<Vec<IpAddr>, Cut> {
        let status = self.client.call(&ShowNode { node: node.into() }).map_err(|e| failed(&e))?;
        let address = |text: &String| text.split('/').next()?.parse().ok();
        Ok(status.addresses.iter().filter_map(address).collect())
    }

    /// The same, with link-local ones, by which others may route.
    fn all_addresses(&self, node: &str) -> Result<Vec<IpAddr>, Cut> {
        let mut all = self.addresses(node)?;
        let done = self.ask(node, &Question::Own, Duration::ZERO)?;
        if let Answer::Own(own) = done {
            all.extend(own);
        }
        Ok(all)
    }
}

fn run_piped(mut command: Command, timeout: Duration, signals: &OwnedFd) -> Result<Done, Cut> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    run(command, timeout, signals)
}

/// The last line that a probe wrote.
fn last_answer(done: &Done) -> Result<Answer, Cut> {
    let out = String::from_utf8_lossy(&done.out);
    let last = out.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match (last, done.code) {
        (Some(answer), Some(0)) => Ok(answer),
        _ => Err(Cut::Failed(ending(done))),
    }
}

fn is_of(address: &IpAddr, version: u8) -> bool {
    address.is_ipv4() == (version == 4)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn failed(error: &netloom_api::Error) -> Cut {
    Cut::Failed(netloom_sys::describe(error))
}

fn odd(answer: &Answer) -> Cut {
    Cut::Failed(format!("an answer to something else: {answer:?}"))
}

fn answer_words(from: &str, to: &str, address: &str, time: Option<u32>) -> String {
    let of = if to == address { String::new() } else { format!(" ({address})") };
    match time {
        None => format!("{from} has no answer of {to}{of}"),
        Some(time) => format!("{to}{of} answers {from} after {:.2} ms", f64::from(time) / 1000.0),
    }
}

fn way_words(ways: &[Egress]) -> String {
    let word = |way: &Egress| match way.via {
        Some(via) => format!("via {via} dev {}", way.dev),
        None => format!("dev {}", way.dev),
    };
    if ways.is_empty() {
        return "there is none".to_owned();
    }
    ways.iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// How a command ended, with the last lines of its output.
fn ending(done: &Done) -> String {
    const LINES: usize = 8;
    let mut text = match done.code {
        Some(code) => format!("exited {code}"),
        None => "it took too long".to_owned(),
    };
    for stream in [&done.out, &done.err] {
        let all = String::from_utf8_lossy(stream);
        let lines: Vec<&str> = all.lines().collect();
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            text.push('\n');
            text.push_str(line);
        }
    }
    if done.out.is_empty() && done.err.is_empty() {
        text += ", and wrote nothing";
    }
    text
}

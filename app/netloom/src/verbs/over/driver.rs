//! Brings a lab up on several hosts in two phases: all parts are prepared, then all go. What fails on one host is undone on
//! all, and a host whose connection ended is asked again. The process that does this is the only coordinator, and keeps
//! nothing: each host has the state of its part.

use std::thread::ScopedJoinHandle;

use super::message::{Ask, Prepare, Told};
use super::remote::{Remote, Trouble};

/// What came of a lab.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Came {
    /// How many hosts had their part before.
    pub(crate) already: usize,
    /// Programs that ended with an error, and commands that failed and may; each with its host.
    pub(crate) troubles: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Why a lab did not come up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undone {
    /// What failed, host by host.
    pub(crate) why: Vec<Trouble>,
    /// Hosts on which something may be left.
    pub(crate) left: Vec<Trouble>,
}

/// Does something with all hosts at once; answers are in their order.
pub(crate) fn each<T: Send>(
    remotes: &mut [Remote],
    ask: impl Fn(usize, &mut Remote) -> Result<T, Trouble> + Sync,
) -> Vec<Result<T, Trouble>> {
    let ask = &ask;
    std::thread::scope(|scope| {
        let each = remotes.iter_mut().enumerate();
        let asked: Vec<_> = each.map(|(at, remote)| scope.spawn(move || ask(at, remote))).collect();
        let join = |asked: ScopedJoinHandle<'_, _>| {
            asked.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
        };
        asked.into_iter().map(join).collect()
    })
}

/// Brings up a part on each host. `again` connects to a host, by its place, whose connection has ended.
///
/// # Errors
/// What failed where; the parts of this call are down again, but for those named as left.
pub(crate) fn bring_up(
    remotes: &mut [Remote],
    parts: &[Prepare],
    again: &(impl Fn(usize) -> Result<Remote, Trouble> + Sync),
) -> Result<Came, Undone> {
    // At the host whose name is first, which it is for all drivers.
    let first = remotes.iter_mut().zip(parts).min_by(|(a, _), (b, _)| a.host.cmp(&b.host));
    if let Some((remote, part)) = first
        && let Err(trouble) = claim(remote, &part.lab)
    {
        return Err(Undone { why: vec![trouble], left: vec![] });
    }
    let prepared = each(remotes, |at, remote| {
        match remote.ask(&Ask::Prepare(Box::new(parts[at].clone())))? {
            Told::Prepared { already } => Ok(already),
            _ => Err(remote.odd()),
        }
    });
    if prepared.iter().any(Result::is_err) {
        return Err(undo(remotes, parts, prepared, again, |_, lab| Ask::Abandon { lab }));
    }
    let had: Vec<bool> = prepared.into_iter().map(|already| already.unwrap_or(true)).collect();
    let up = each(remotes, |_, remote| match remote.ask(&Ask::Go {})? {
        Told::Up { already, troubles, notes } => Ok((already, troubles, notes)),
        _ => Err(remote.odd()),
    });
    if up.iter().any(Result::is_err) {
        // A part that was up before stays, whichever host died.
        return Err(undo(remotes, parts, up, again, |at, lab| match had[at] {
            true => Ask::Abandon { lab },
            false => Ask::Down { lab },
        }));
    }
    let mut came = Came::default();
    for (remote, (already, troubles, notes)) in remotes.iter().zip(up.into_iter().flatten()) {
        let with_host = |line: String| format!("host {:?}: {line}", remote.host);
        came.already += usize::from(already);
        came.troubles.extend(troubles.into_iter().map(with_host));
        came.notes.extend(notes.into_iter().map(with_host));
    }
    Ok(came)
}

/// Keeps other drivers of the lab away, at one host.
pub(super) fn claim(remote: &mut Remote, lab: &str) -> Result<(), Trouble> {
    match remote.ask(&Ask::Claim { lab: lab.to_owned() })? {
        Told::Claimed {} => Ok(()),
        _ => Err(remote.odd()),
    }
}

/// Takes back what hosts did that succeeded. Hosts that failed have undone theirs before they said so; those whose connection
/// has ended are asked once more, by a connection of its own, with what `end` says.
fn undo<T: Send>(
    remotes: &mut [Remote],
    parts: &[Prepare],
    done: Vec<Result<T, Trouble>>,
    again: &(impl Fn(usize) -> Result<Remote, Trouble> + Sync),
    end: impl Fn(usize, String) -> Ask + Sync,
) -> Undone {
    let state: Vec<Option<bool>> =
        done.iter().map(|done| done.as_ref().err().map(|trouble| trouble.lost)).collect();
    let undone = each(remotes, |at, remote| {
        let told = match state[at] {
            None => remote.ask(&Ask::Undo {})?,
            Some(false) => return Ok(()),
            Some(true) => again(at)?.ask(&end(at, parts[at].lab.clone()))?,
        };
        match told {
            Told::Undone {} | Told::Down {} | Told::NoLab {} => Ok(()),
            _ => Err(remote.odd()),
        }
    });
    Undone {
        why: done.into_iter().filter_map(Result::err).collect(),
        left: undone.into_iter().filter_map(Result::err).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::super::message::Hello;
    use super::super::transport::{Transport, hear, say};
    use super::*;

    /// A transport in one process.
    struct Channel {
        to: Sender<Vec<u8>>,
        from: Receiver<Vec<u8>>,
    }

    impl Transport for Channel {
        fn send(&mut self, message: &[u8]) -> io::Result<()> {
            self.to.send(message.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
            Ok(self.from.recv().ok())
        }
    }

    fn pair() -> (Channel, Channel) {
        let ((to, there), (back, from)) = (channel(), channel());
        (Channel { to, from }, Channel { to: back, from: there })
    }

    /// Where a host fails.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Fails {
        Never,
        /// Another driver was first.
        Claimed,
        Preparing,
        Going,
        /// Its agent ends without a word, in either phase.
        Dies(u8),
        /// The same in the second phase, and it cannot be reached again.
        Gone,
        Undoing,
    }

    /// An agent that only notes what it is asked. Returns that.
    fn agent(mut driver: Channel, hello: &Hello, fails: Fails) -> Vec<&'static str> {
        let mut asked = vec![];
        say(&mut driver, hello).unwrap();
        let _ = hear::<Hello>(&mut driver);
        while let Ok(Some(ask)) = hear::<Ask>(&mut driver) {
            let failed = || Told::Failed { reason: "no".into(), unsupported: false };
            let (word, told) = match ask {
                Ask::Claim { .. } if fails == Fails::Claimed => ("claim", failed()),
                Ask::Claim { .. } => ("claim", Told::Claimed {}),
                Ask::Abandon { .. } => ("abandon", Told::NoLab {}),
                Ask::Down { .. } => ("down", Told::Down {}),
                Ask::Prepare(_) if fails == Fails::Dies(1) => return asked,
                Ask::Go {} if matches!(fails, Fails::Dies(2) | Fails::Gone) => return asked,
                Ask::Prepare(_) if fails == Fails::Preparing => ("prepare", failed()),
                Ask::Prepare(_) => ("prepare", Told::Prepared { already: false }),
                Ask::Go {} if fails == Fails::Going => ("go", failed()),
                Ask::Go {} => ("go", Told::Up { already: false, troubles: vec![], notes: vec![] }),
                Ask::Undo {} if fails == Fails::Undoing => ("undo", failed()),
                Ask::Undo {} => ("undo", Told::Undone {}),
                _ => ("other", failed()),
            };
            asked.push(word);
            if say(&mut driver, &told).is_err() {
                break;
            }
        }
        asked
    }

    fn part(host: usize) -> Prepare {
        Prepare {
            lab: "l".into(),
            shown: "l.yaml".into(),
            text: String::new(),
            file: None,
            base: "/".into(),
            digest: String::new(),
            hosts: vec![],
            host,
            nodes: vec![],
            switches: vec![],
            ignore_limits: false,
        }
    }

    /// What came of a lab, what each host was asked, and what those were asked that were connected to again.
    type Ran = (Result<Came, Undone>, Vec<Vec<&'static str>>, Vec<Vec<&'static str>>);

    /// Brings a lab up on hosts that fail like this.
    fn run(fails: &[Fails]) -> Ran {
        let connect = |at: usize, fails: Fails| {
            let (near, far) = pair();
            let hello = Hello::own(at.to_string());
            let agent = std::thread::spawn(move || agent(far, &hello, fails));
            (Remote::over(&format!("h{at}"), Box::new(near)).ok().unwrap(), agent)
        };
        let all = fails.iter().enumerate().map(|(at, fails)| connect(at, *fails));
        let (mut remotes, agents): (Vec<_>, Vec<_>) = all.unzip();
        let parts: Vec<Prepare> = (0..fails.len()).map(part).collect();
        let later = Mutex::new(vec![]);
        let came = bring_up(&mut remotes, &parts, &|at| {
            if fails[at] == Fails::Gone {
                return Err(Trouble::of(&format!("h{at}"), "no route"));
            }
            let (remote, agent) = connect(at, Fails::Never);
            later.lock().unwrap().push(agent);
            Ok(remote)
        });
        drop(remotes);
        let ends = |agents: Vec<std::thread::JoinHandle<_>>| {
            agents.into_iter().map(|agent| agent.join().unwrap()).collect()
        };
        (came, ends(agents), ends(later.into_inner().unwrap()))
    }

    #[test]
    fn all_prepare_before_any_goes() {
        let (came, asked, _) = run(&[Fails::Never; 3]);
        assert_eq!(came, Ok(Came::default()));
        let others = vec!["prepare", "go"];
        assert_eq!(asked, [vec!["claim", "prepare", "go"], others.clone(), others]);
    }

    #[test]
    fn the_second_of_two_drivers_makes_nothing() {
        let (came, asked, _) = run(&[Fails::Claimed, Fails::Never]);
        assert_eq!(came.unwrap_err().why[0].host, "h0");
        assert_eq!(asked, [vec!["claim"], vec![]]);
    }

    #[test]
    fn one_that_cannot_prepare_undoes_all_and_is_named() {
        for (fails, first, later) in [
            (Fails::Preparing, vec!["prepare"], vec![]),
            // It may be making its part still, and is asked by another connection.
            (Fails::Dies(1), vec![], vec![vec!["abandon"]]),
        ] {
            let (came, asked, again) = run(&[Fails::Never, fails, Fails::Never]);
            let undone = came.unwrap_err();
            assert_eq!((undone.why.len(), undone.why[0].host.as_str()), (1, "h1"));
            assert_eq!(undone.left, []);
            let others = vec!["prepare", "undo"];
            assert_eq!(asked, [vec!["claim", "prepare", "undo"], first, others]);
            assert_eq!(again, later);
        }
    }

    #[test]
    fn one_that_fails_after_go_undoes_all() {
        for (fails, second, later) in [
            (Fails::Going, vec!["prepare", "go"], vec![]),
            (Fails::Dies(2), vec!["prepare"], vec![vec!["down"]]),
        ] {
            let (came, asked, again) = run(&[Fails::Never, Fails::Never, fails]);
            let undone = came.unwrap_err();
            assert_eq!((undone.why.len(), undone.why[0].host.as_str()), (1, "h2"));
            assert_eq!(undone.left, []);
            let others = vec!["prepare", "go", "undo"];
            assert_eq!(asked, [vec!["claim", "prepare", "go", "undo"], others, second]);
            assert_eq!(again, later);
        }
    }

    #[test]
    fn a_host_that_is_gone_is_told_beside_the_cause() {
        let (came, _, _) = run(&[Fails::Never, Fails::Gone]);
        let undone = came.unwrap_err();
        assert_eq!((undone.why[0].host.as_str(), undone.left[0].host.as_str()), ("h1", "h1"));
        assert_eq!(undone.left[0].reason, "no route");
    }

    #[test]
    fn what_cannot_be_undone_is_told_beside_the_cause() {
        let (came, _, _) = run(&[Fails::Undoing, Fails::Preparing]);
        let undone = came.unwrap_err();
        assert_eq!((undone.why[0].host.as_str(), undone.left[0].host.as_str()), ("h1", "h0"));
    }

    #[test]
    fn another_version_is_refused_and_both_are_named() {
        let (near, far) = pair();
        let other = Hello { netloom: "99.1.0".into(), protocol: 7, place: String::new() };
        let agent = std::thread::spawn(move || agent(far, &other, Fails::Never));
        let refused = Remote::over("east", Box::new(near)).err().unwrap();
        let told = refused.to_string();
        let own = concat!("netloom ", env!("CARGO_PKG_VERSION"));
        assert!(told.contains("host \"east\"") && told.contains("99.1.0"), "{told}");
        assert!(told.contains(own), "{told}");
        assert_eq!(agent.join().unwrap(), Vec::<&str>::new());
    }
}

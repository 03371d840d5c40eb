//! Brings a lab up on several hosts in two phases: all parts are prepared, then all go. What fails on one host is undone on
//! all. There is no coordinator beside the process that does this, and nothing to keep: each host has the state of its part.

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

/// Brings up a part on each host.
///
/// # Errors
/// What failed where; the parts of this call are down again, but for those named as left.
pub(crate) fn bring_up(remotes: &mut [Remote], parts: &[Prepare]) -> Result<Came, Undone> {
    let prepared = each(remotes, |at, remote| {
        match remote.ask(&Ask::Prepare(Box::new(parts[at].clone())))? {
            Told::Prepared { .. } => Ok(()),
            _ => Err(remote.odd()),
        }
    });
    if prepared.iter().any(Result::is_err) {
        return Err(undo(remotes, prepared));
    }
    let up = each(remotes, |_, remote| match remote.ask(&Ask::Go {})? {
        Told::Up { already, troubles, notes } => Ok((already, troubles, notes)),
        _ => Err(remote.odd()),
    });
    if up.iter().any(Result::is_err) {
        return Err(undo(remotes, up));
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

/// Takes back what hosts did that succeeded. Hosts that failed have undone theirs before they said so.
fn undo<T: Send>(remotes: &mut [Remote], done: Vec<Result<T, Trouble>>) -> Undone {
    let succeeded: Vec<bool> = done.iter().map(Result::is_ok).collect();
    let undone = each(remotes, |at, remote| {
        if !succeeded[at] {
            return Ok(());
        }
        match remote.ask(&Ask::Undo {})? {
            Told::Undone {} => Ok(()),
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
        Preparing,
        Going,
        /// Its agent ends without a word, in either phase.
        Dies(u8),
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
                Ask::Prepare(_) if fails == Fails::Dies(1) => return asked,
                Ask::Go {} if fails == Fails::Dies(2) => return asked,
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

    /// Brings a lab up on hosts that fail like this; returns what came of it and what each host was asked.
    fn run(fails: &[Fails]) -> (Result<Came, Undone>, Vec<Vec<&'static str>>) {
        let mut agents = vec![];
        let mut remotes = vec![];
        for (at, fails) in fails.iter().copied().enumerate() {
            let (near, far) = pair();
            let hello = Hello::own(at.to_string());
            agents.push(std::thread::spawn(move || agent(far, &hello, fails)));
            remotes.push(Remote::over(&format!("h{at}"), Box::new(near)).ok().unwrap());
        }
        let parts: Vec<Prepare> = (0..fails.len()).map(part).collect();
        let came = bring_up(&mut remotes, &parts);
        drop(remotes);
        (came, agents.into_iter().map(|agent| agent.join().unwrap()).collect())
    }

    #[test]
    fn all_prepare_before_any_goes() {
        let (came, asked) = run(&[Fails::Never; 3]);
        assert_eq!(came, Ok(Came::default()));
        assert_eq!(asked, vec![vec!["prepare", "go"]; 3]);
    }

    #[test]
    fn one_that_cannot_prepare_undoes_all_and_is_named() {
        for (fails, first) in [(Fails::Preparing, vec!["prepare"]), (Fails::Dies(1), vec![])] {
            let (came, asked) = run(&[Fails::Never, fails, Fails::Never]);
            let undone = came.unwrap_err();
            assert_eq!((undone.why.len(), undone.why[0].host.as_str()), (1, "h1"));
            assert_eq!(undone.left, []);
            assert_eq!(asked, [vec!["prepare", "undo"], first, vec!["prepare", "undo"]]);
        }
    }

    #[test]
    fn one_that_fails_after_go_undoes_all() {
        for (fails, second) in
            [(Fails::Going, vec!["prepare", "go"]), (Fails::Dies(2), vec!["prepare"])]
        {
            let (came, asked) = run(&[Fails::Never, Fails::Never, fails]);
            let undone = came.unwrap_err();
            assert_eq!((undone.why.len(), undone.why[0].host.as_str()), (1, "h2"));
            assert_eq!(
                asked,
                [vec!["prepare", "go", "undo"], vec!["prepare", "go", "undo"], second]
            );
        }
    }

    #[test]
    fn what_cannot_be_undone_is_told_beside_the_cause() {
        let (came, _) = run(&[Fails::Undoing, Fails::Preparing]);
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

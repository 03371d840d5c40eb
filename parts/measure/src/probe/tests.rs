//! The spots of a session.

use super::*;

fn configuration(rest: &str) -> Configuration {
    let body = format!(
        r#"{{"mp": 1, "mpc": 10, "starter_mark": 8, "next_mark": 16, "filters": [{{"id": 1}}],
            {rest}}}"#
    );
    Configuration::read(body.as_bytes()).unwrap()
}

/// Measures and marks at one interface.
fn at_eth0() -> Configuration {
    let eth0 = vec!["eth0".to_owned()];
    Configuration { netifs: eth0.clone(), marking: eth0, ..configuration(r#""prog_id": 1"#) }
}

#[test]
fn packets_are_marked_twice_where_there_is_a_mark_for_it() {
    assert_eq!(marks(&configuration(r#""prog_id": 1"#)), Marking::Single);
    assert_eq!(marks(&configuration(r#""prog_id": 4, "delay_mark": 32"#)), Marking::Double);
    let hashed = r#""prog_id": 4, "match_value": 0, "hash_length": 0, "hash_function": "bob""#;
    assert_eq!(marks(&configuration(hashed)), Marking::Single);
}

#[test]
fn each_interface_has_both_directions_once() {
    let netifs = ["a", "b", "a"].map(str::to_owned);
    let found = spots(&netifs, &["a".to_owned()], Marking::Double);
    let found: Vec<_> =
        found.iter().map(|spot| (spot.netif.as_str(), spot.direction, spot.marking)).collect();
    assert_eq!(
        found,
        [
            ("a", Direction::Ingress, Marking::Off),
            ("a", Direction::Egress, Marking::Double),
            ("b", Direction::Ingress, Marking::Off),
            ("b", Direction::Egress, Marking::Off),
        ]
    );
}

#[test]
fn sessions_take_only_so_much_together() {
    let mut sessions = Sessions::default();
    let probe = Probe::new("p1".to_owned(), Arc::new(crate::Host));
    let setup = Arc::new(probe.setup(at_eth0()).unwrap());
    let mut begin = |takes| sessions.begin(takes, Arc::clone(&setup));
    let first = begin(limits::MOST_TOGETHER / 2).unwrap();
    begin(limits::MOST_TOGETHER / 2).unwrap();
    let refused = begin(1 << 20).unwrap_err().to_string();
    assert!(
        refused.contains("this one may take 1 MiB, the others may take 4096 of 4096"),
        "{refused}"
    );
    sessions.by_id.remove(&first);
    assert_eq!(sessions.begin(1 << 20, setup).unwrap(), 3);
}

/// Where the first session to be prepared finds another that was created meanwhile.
struct Meanwhile {
    probe: std::sync::OnceLock<std::sync::Weak<Probe>>,
    second: Mutex<Option<Result<SessionId>>>,
    visits: std::sync::atomic::AtomicUsize,
}

impl Interfaces for Meanwhile {
    fn names(&self) -> Result<Vec<String>> {
        Ok(vec!["eth0".to_owned()])
    }

    fn visit(&self, netif: &str, _: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()> {
        use std::sync::atomic::Ordering;
        let probe = self.probe.get().and_then(std::sync::Weak::upgrade);
        if self.visits.fetch_add(1, Ordering::SeqCst) == 0
            && let Some(probe) = probe
        {
            *lock(&self.second) = Some(probe.create(at_eth0()));
        }
        Err(Error::NoInterface { netif: netif.to_owned() })
    }
}

#[test]
fn of_two_that_mark_the_same_and_are_prepared_at_once_the_later_is_refused() {
    let interfaces = Arc::new(Meanwhile {
        probe: std::sync::OnceLock::new(),
        second: Mutex::default(),
        visits: std::sync::atomic::AtomicUsize::new(0),
    });
    let given: Arc<dyn Interfaces> = Arc::<Meanwhile>::clone(&interfaces);
    let probe = Arc::new(Probe::new("p1".to_owned(), given));
    interfaces.probe.set(Arc::downgrade(&probe)).unwrap();
    assert!(matches!(probe.create(at_eth0()), Err(Error::NoInterface { .. })));
    let second = lock(&interfaces.second).take().unwrap().unwrap_err().to_string();
    assert!(second.starts_with("interface \"eth0\", egress: session 1 marks packets"), "{second}");
    assert!(probe.list().is_empty());
}

//! Which number a joining client gets: a pure decision without system calls.
//!
//! A number that the state knows is taken, by a connected or an awaited port. The client's own claims count
//! only as a wish; the kernel identifies the client.

use netloom_shm::protocol::{Reason, Token};

use crate::access::{Gate, Person};
use crate::rules::PortRules;
use crate::state::State;

/// A joining client's wish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    /// 0 for any.
    pub(crate) number: u8,
    pub(crate) name: &'a str,
    pub(crate) token: Token,
    pub(crate) who: Person,
}

/// The number it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// A number that is free.
    New(u8),
    /// The number it had before.
    Old(u8),
}

/// Why it gets no number.
pub(crate) type Refusal = (Reason, String);

/// Decides; `here` tells whether a number is in use now.
pub(crate) fn seat(
    wish: &Wish<'_>,
    gate: &Gate,
    state: &State,
    here: impl Fn(u8) -> bool,
) -> Result<Seat, Refusal> {
    if !gate.admits(wish.who) {
        return Err((Reason::Denied, format!("not allowed to user {}", wish.who.uid)));
    }
    // A token is what a port proves itself by after a restart; without one a client asks for a new port.
    let seat = if wish.token == Token::default() {
        Seat::New(new(wish, gate, state)?)
    } else {
        Seat::Old(old(wish, gate, state, here)?)
    };
    let (Seat::New(number) | Seat::Old(number)) = seat;
    if !gate.gives(wish.who, rules(state, number)) {
        let text = format!("port {number} is not for user {}", wish.who.uid);
        return Err((Reason::Denied, text));
    }
    Ok(seat)
}

fn old(
    wish: &Wish<'_>,
    gate: &Gate,
    state: &State,
    here: impl Fn(u8) -> bool,
) -> Result<u8, Refusal> {
    let known = state.ports.iter().find(|port| port.token == wish.token);
    let Some(known) = known.filter(|port| !here(port.number)) else {
        return Err((Reason::Token, "no such port is awaited".into()));
    };
    // A token may have been read by others: it opens only for its own user.
    if known.uid != wish.who.uid && !gate.manages(wish.who) {
        let text = format!("port {} is another user's", known.number);
        return Err((Reason::Denied, text));
    }
    Ok(known.number)
}

fn new(wish: &Wish<'_>, gate: &Gate, state: &State) -> Result<u8, Refusal> {
    let taken = |number: u8| state.ports.iter().find(|port| port.number == number);
    if let Some(other) = state.ports.iter().find(|port| port.name == wish.name) {
        let text = format!("name {:?} is port {}'s", wish.name, other.number);
        return Err((Reason::Taken, text));
    }
    let reserved = state.rules.reserved(wish.name).and_then(|n| u8::try_from(n).ok());
    let wanted = match (reserved, wish.number) {
        (Some(number), 0) => number,
        (Some(number), wanted) if number != wanted => {
            let text = format!("name {:?} is reserved for port {number}", wish.name);
            return Err((Reason::Taken, text));
        }
        (_, 0) => return free(wish, gate, state),
        (_, wanted) => wanted,
    };
    if let Some(other) = taken(wanted) {
        return Err((Reason::Taken, format!("port {wanted} is {:?}'s", other.name)));
    }
    match &rules(state, wanted).name {
        Some(name) if name != wish.name => {
            Err((Reason::Taken, format!("port {wanted} is reserved for {name:?}")))
        }
        _ => Ok(wanted),
    }
}

/// The lowest unused number without rules; otherwise one whose rules restrict it only by VLANs, locks and
/// mirrors, or allow this client.
fn free(wish: &Wish<'_>, gate: &Gate, state: &State) -> Result<u8, Refusal> {
    let taken = |number: u8| state.ports.iter().any(|port| port.number == number);
    let plain = |number: u8| !state.rules.ports.contains_key(&u16::from(number));
    let open = |number: u8| {
        let rules = rules(state, number);
        rules.name.is_none() && gate.gives(wish.who, rules)
    };
    let mut left = (1..=u8::MAX).filter(|number| !taken(*number));
    // Numbers with rules are kept for those who ask for them, as long as there are others.
    let number = left.clone().find(|n| plain(*n)).or_else(|| left.find(|n| open(*n)));
    number.ok_or_else(|| (Reason::Full, "no number is free".to_owned()))
}

fn rules(state: &State, number: u8) -> &PortRules {
    static NONE: PortRules = PortRules::NONE;
    state.rules.ports.get(&u16::from(number)).unwrap_or(&NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Known;

    const GATE: Gate = Gate { owner: 1000, group: 1000, mode: 0o666 };
    const TOKEN: Token = [7; 16];

    fn wish(number: u8, name: &str, uid: u32) -> Wish<'_> {
        let who = Person { uid, gid: None };
        Wish { number, name, token: Token::default(), who }
    }

    fn state() -> State {
        let mut state = State { generation: 9, ..State::default() };
        let known = |number, name: &str| Known {
            number,
            name: name.into(),
            token: [number; 16],
            generation: 1,
            uid: 1001,
            pid: 0,
        };
        state.ports = vec![known(1, "one"), known(7, "seven")];
        let rules = |name: Option<&str>, uid| PortRules {
            name: name.map(Into::into),
            uid,
            ..PortRules::default()
        };
        state.rules.ports.insert(2, rules(Some("two"), None));
        state.rules.ports.insert(3, rules(None, Some(1002)));
        state
    }

    fn reason(wish: Wish<'_>, here: bool) -> Reason {
        seat(&wish, &GATE, &state(), |_| here).unwrap_err().0
    }

    fn gets(wish: Wish<'_>) -> Seat {
        seat(&wish, &GATE, &state(), |_| false).unwrap()
    }

    #[test]
    fn new_ports_get_what_is_free() {
        assert_eq!(gets(wish(0, "a", 1001)), Seat::New(4));
        assert_eq!(gets(wish(200, "a", 1001)), Seat::New(200));
        assert_eq!(gets(wish(0, "two", 1001)), Seat::New(2));
        assert_eq!(gets(wish(2, "two", 1001)), Seat::New(2));
        assert_eq!(gets(wish(3, "a", 1002)), Seat::New(3));
        assert_eq!(gets(wish(3, "a", 1000)), Seat::New(3));
        assert_eq!(reason(wish(3, "a", 1001), true), Reason::Denied);
        assert_eq!(reason(wish(5, "two", 1001), true), Reason::Taken);
        assert_eq!(reason(wish(2, "a", 1001), true), Reason::Taken);
        assert_eq!(reason(wish(1, "a", 1001), true), Reason::Taken);
        assert_eq!(reason(wish(0, "one", 1001), true), Reason::Taken);
        assert_eq!(reason(wish(0, "one", 1001), false), Reason::Taken);
    }

    #[test]
    fn what_is_said_about_goes_last() {
        let mut state = state();
        for number in 4..=u8::MAX {
            state.ports.push(Known {
                number,
                name: format!("p{number}"),
                token: TOKEN,
                generation: 1,
                uid: 0,
                pid: 0,
            });
        }
        let of = |uid| seat(&wish(0, "a", uid), &GATE, &state, |_| true);
        assert_eq!(of(1001).unwrap_err().0, Reason::Full);
        assert_eq!(of(1002).unwrap(), Seat::New(3));
    }

    #[test]
    fn old_ports_get_what_they_had() {
        let back = |uid| Wish { token: [7; 16], ..wish(0, "x", uid) };
        assert_eq!(gets(back(1001)), Seat::Old(7));
        assert_eq!(gets(back(0)), Seat::Old(7));
        assert_eq!(reason(back(1001), true), Reason::Token);
        assert_eq!(reason(back(1003), false), Reason::Denied);
        let unknown = Wish { token: [8; 16], ..wish(7, "x", 1001) };
        assert_eq!(reason(unknown, false), Reason::Token);
    }

    #[test]
    fn the_gate_is_asked_first() {
        let gate = Gate { mode: 0o600, ..GATE };
        let refused = seat(&wish(0, "a", 1001), &gate, &state(), |_| false).unwrap_err();
        assert_eq!(refused.0, Reason::Denied);
        assert!(seat(&wish(0, "a", 1000), &gate, &state(), |_| false).is_ok());
    }
}
